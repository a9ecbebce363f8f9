# src/mpi
