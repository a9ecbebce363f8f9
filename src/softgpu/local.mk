# src/softgpu: software GPUs, a CUDA driver library and NVML. They are in a
# directory of their own, so that a library path with this directory does not
# contain other libraries.
softgpudir = $(pkglibdir)/softgpu
softgpu_LTLIBRARIES = src/softgpu/libcuda.la src/softgpu/libnvidia-ml.la
src_softgpu_libnvidia_ml_la_SOURCES = \
    src/softgpu/nvml.c \
    src/softgpu/session.c src/softgpu/session.h
src_softgpu_libnvidia_ml_la_CFLAGS = $(AM_CFLAGS) -pthread
src_softgpu_libnvidia_ml_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 \
    -Wl,-z,nodelete
src_softgpu_libnvidia_ml_la_LIBADD = libmrail-base.la -lpthread
src_softgpu_libcuda_la_SOURCES = \
    src/softgpu/copy.c src/softgpu/copy.h \
    src/softgpu/ctx.c \
    src/softgpu/ctx_query.c \
    src/softgpu/device.c \
    src/softgpu/engine.c \
    src/softgpu/entry.c \
    src/softgpu/errors.c \
    src/softgpu/event.c \
    src/softgpu/handle.c src/softgpu/handle.h \
    src/softgpu/host.c \
    src/softgpu/init.c \
    src/softgpu/ipc.c src/softgpu/ipc.h \
    src/softgpu/launch.c src/softgpu/launch.h \
    src/softgpu/mem.c \
    src/softgpu/module.c \
    src/softgpu/not_served.h \
    src/softgpu/op.c \
    src/softgpu/path.c src/softgpu/path.h \
    src/softgpu/peermem.c \
    src/softgpu/phys.c \
    src/softgpu/place.c \
    src/softgpu/pointer.c \
    src/softgpu/pool.c src/softgpu/pool.h \
    src/softgpu/pool_share.c \
    src/softgpu/served.h \
    src/softgpu/session.c src/softgpu/session.h \
    src/softgpu/state.h \
    src/softgpu/stream.c \
    src/softgpu/stream_ops.c \
    src/softgpu/vmm.c \
    src/softgpu/work.h
src_softgpu_libcuda_la_CFLAGS = $(AM_CFLAGS) -pthread
src_softgpu_libcuda_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 \
    -Wl,-z,nodelete
src_softgpu_libcuda_la_LIBADD = libmrail-base.la -lpthread
