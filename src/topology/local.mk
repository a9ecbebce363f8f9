# src/topology: topologies as text, for the planner. It has no I/O and no clock.
noinst_LTLIBRARIES += libmrail-topology.la
libmrail_topology_la_SOURCES = \
    src/topology/topo_reader.h \
    src/topology/topo_text.c src/topology/topo_text.h \
    src/topology/topo_text_gpu.c src/topology/topo_text_ranks.c
