# MPI test programs
