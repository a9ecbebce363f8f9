# Tests of software GPUs: programs on the driver API. A program whose name ends
# in ".gpu" is a test. on-gpus.sh has a table of the sessions. Neither a GPU nor
# cuda.h is needed.
GPU_JOBS = test/gpu/api.gpu test/gpu/copy.gpu test/gpu/fault.gpu \
    test/gpu/find.gpu test/gpu/ipc.gpu test/gpu/kernel.gpu \
    test/gpu/memory.gpu test/gpu/nvml.gpu test/gpu/order.gpu test/gpu/rail.gpu \
    test/gpu/rdma.gpu test/gpu/relay.gpu test/gpu/staging.gpu \
    test/gpu/stream.gpu \
    test/gpu/vmm.gpu
check_PROGRAMS += $(GPU_JOBS)
GPU_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/gpu
GPU_TEST_LIBS = src/softgpu/libcuda.la
GPU_RELAY_LIBS = libmrail-cuda-relay.la libmrail-relay.la libmrail-cuda.la \
    libmrail-base.la $(GPU_TEST_LIBS) -ldl -lpthread
test_gpu_api_gpu_SOURCES = test/gpu/gpu_api.c test/gpu/gpu_test.h
test_gpu_api_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_api_gpu_LDADD = $(GPU_TEST_LIBS)
test_gpu_copy_gpu_SOURCES = test/gpu/gpu_copy.c
test_gpu_copy_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_copy_gpu_LDADD = $(GPU_TEST_LIBS) libmrail-base.la
# Not linked to the driver.
test_gpu_find_gpu_SOURCES = test/gpu/gpu_find.c
test_gpu_find_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_find_gpu_LDADD = libmrail-cuda.la libmrail-base.la -ldl -lpthread
test_gpu_memory_gpu_SOURCES = test/gpu/gpu_memory.c
test_gpu_memory_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_memory_gpu_LDADD = libmrail-cuda.la libmrail-base.la $(GPU_TEST_LIBS) -ldl -lpthread
test_gpu_ipc_gpu_SOURCES = test/gpu/gpu_ipc.c
test_gpu_ipc_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_ipc_gpu_LDADD = $(GPU_TEST_LIBS)
test_gpu_rail_gpu_SOURCES = test/gpu/gpu_rail.c
test_gpu_rail_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_rail_gpu_LDADD = libtest-job.la $(GPU_TEST_LIBS)
test_gpu_fault_gpu_SOURCES = test/gpu/gpu_fault.c src/softgpu/session.c
test_gpu_fault_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_fault_gpu_LDADD = $(GPU_TEST_LIBS) libmrail-base.la
test_gpu_kernel_gpu_SOURCES = test/gpu/gpu_kernel.c test/gpu/test_kernels.inc \
    src/softgpu/session.c
test_gpu_kernel_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_kernel_gpu_LDADD = $(GPU_TEST_LIBS) libmrail-kernels.la \
    libmrail-base.la
test_gpu_nvml_gpu_SOURCES = test/gpu/gpu_nvml.c src/softgpu/session.c
test_gpu_nvml_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_nvml_gpu_LDADD = $(GPU_TEST_LIBS) src/softgpu/libnvidia-ml.la \
    libmrail-cuda.la libmrail-base.la
test_gpu_rdma_gpu_SOURCES = test/gpu/gpu_rdma.c
test_gpu_rdma_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_rdma_gpu_LDADD = $(GPU_TEST_LIBS) $(IBVERBS_LIBS)
test_gpu_relay_gpu_SOURCES = test/gpu/gpu_relay.c test/gpu/relay_job.c \
    test/gpu/relay_job.h src/softgpu/session.c
test_gpu_relay_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_relay_gpu_LDADD = $(GPU_RELAY_LIBS)
test_gpu_vmm_gpu_SOURCES = test/gpu/gpu_vmm.c
test_gpu_vmm_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_vmm_gpu_LDADD = $(GPU_TEST_LIBS)
test_gpu_order_gpu_SOURCES = test/gpu/gpu_order.c
test_gpu_order_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_order_gpu_LDADD = $(GPU_TEST_LIBS)
test_gpu_staging_gpu_SOURCES = test/gpu/gpu_staging.c src/mpi/coll/copy.c
test_gpu_staging_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_staging_gpu_LDADD = libmrail-cuda.la libmrail-base.la \
    $(GPU_TEST_LIBS) -ldl -lpthread
test_gpu_stream_gpu_SOURCES = test/gpu/gpu_stream.c
test_gpu_stream_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
test_gpu_stream_gpu_LDADD = $(GPU_TEST_LIBS) -lpthread
GPU_SCRIPT_TESTS = test/gpu/abi.sh test/gpu/nvcc.sh test/gpu/soft-gpus.sh
TESTS += $(GPU_JOBS) $(GPU_SCRIPT_TESTS)
EXTRA_DIST += $(GPU_SCRIPT_TESTS) test/gpu/on-gpus.sh test/gpu/abi_check.c

# Programs of scripts.
check_PROGRAMS += gpu_rate gpu_tool
gpu_tool_SOURCES = test/gpu/gpu_tool.c
gpu_tool_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
gpu_tool_LDADD = $(GPU_TEST_LIBS) libmrail-kernels.la
gpu_rate_SOURCES = test/gpu/gpu_rate.c
gpu_rate_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
gpu_rate_LDADD = $(GPU_TEST_LIBS) libmrail-base.la
check_PROGRAMS += gpu_relay_rate
gpu_relay_rate_SOURCES = test/gpu/gpu_relay_rate.c test/gpu/relay_job.c
gpu_relay_rate_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
gpu_relay_rate_LDADD = $(GPU_RELAY_LIBS)
TIMING_TESTS += test/gpu/rates.sh test/gpu/relay-rates.sh
EXTRA_DIST += test/gpu/rates.sh test/gpu/relay-rates.sh test/gpu/bundle.sh

if HAVE_CMOCKA
check_PROGRAMS += test_gpu_path test_place
TESTS += test_gpu_path test_place
test_place_SOURCES = test/unit/test_place.c src/cuda/place.c
test_place_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_place_LDADD = $(CMOCKA_LIBS)
test_gpu_path_SOURCES = test/unit/test_gpu_path.c src/softgpu/path.c
test_gpu_path_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_gpu_path_LDADD = $(CMOCKA_LIBS)
endif
