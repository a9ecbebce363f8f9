# src/cuda: device memory of CUDA. The driver is loaded at run time, so that
# neither libcuda nor cuda.h is needed. base only.
noinst_LTLIBRARIES += libmrail-cuda.la
libmrail_cuda_la_SOURCES = \
    src/cuda/abi.h src/cuda/abi_calls.h src/cuda/abi_values.h \
    src/cuda/device.c src/cuda/device.h \
    src/cuda/driver.c src/cuda/driver.h \
    src/cuda/memory.c src/cuda/memory.h
