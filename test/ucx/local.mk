# tests of the transport under UCX
