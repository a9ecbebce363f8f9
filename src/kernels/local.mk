# src/kernels: kernels, one source for nvcc and for the C compiler.
noinst_LTLIBRARIES += libmrail-kernels.la
libmrail_kernels_la_SOURCES = \
    src/kernels/args.h \
    src/kernels/image.h \
    src/kernels/kernel.h \
    src/kernels/kernels.c \
    src/kernels/copy.inc src/kernels/pattern.inc
EXTRA_DIST += src/kernels/kernels.cu
