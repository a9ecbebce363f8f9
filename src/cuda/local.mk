# src/cuda: device memory of CUDA. The driver is loaded at run time, so that
# neither libcuda nor cuda.h is needed. base only, except for relays.
noinst_LTLIBRARIES += libmrail-cuda.la
libmrail_cuda_la_SOURCES = \
    src/cuda/abi.h src/cuda/abi_calls.h src/cuda/abi_nvml.h \
    src/cuda/abi_values.h \
    src/cuda/device.c src/cuda/device.h \
    src/cuda/driver.c src/cuda/driver.h \
    src/cuda/links.c src/cuda/links.h \
    src/cuda/memory.c src/cuda/memory.h \
    src/cuda/place.c src/cuda/place.h

# Kernels.
noinst_LTLIBRARIES += libmrail-cuda-kernels.la
libmrail_cuda_kernels_la_SOURCES = src/cuda/kernels.c src/cuda/kernels.h
libmrail_cuda_kernels_la_LIBADD = libmrail-kernels.la

# Device memory for relays.
noinst_LTLIBRARIES += libmrail-cuda-relay.la
libmrail_cuda_relay_la_SOURCES = \
    src/cuda/relay_area.c src/cuda/relay_internal.h \
    src/cuda/relay_copy.c src/cuda/relay_copy.h \
    src/cuda/relay_kernel.c src/cuda/relay_kernel.h
libmrail_cuda_relay_la_LIBADD = libmrail-cuda-kernels.la
