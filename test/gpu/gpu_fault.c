/*
 * Faults of GPUs, and their effects on a program. The test sets the faults in
 * the session state, as fault scripts do.
 */
#include "config.h"
#include "gpu_test.h"
#include "softgpu/session.h"

#include "base/clock.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SLOW (10 * 1000 * 1000) /* bytes per second */

static sgpu_session_t *session;
static CUcontext contexts[3];
static CUdeviceptr buffers[3]; /* MIB bytes on each device */
static uint8_t bytes[MIB], back[MIB];

static sgpu_gpu_t *gpu(unsigned index)
{
    return sgpu_session_gpu(session, 0, index);
}

/* Sets a link between two GPUs in both directions. */
static void set_link(unsigned a, unsigned b, int is_down, uint64_t rate)
{
    gpu(a)->mesh[b].is_down = gpu(b)->mesh[a].is_down = (uint32_t)is_down;
    gpu(a)->mesh[b].rate_bytes_per_s = rate;
    gpu(b)->mesh[a].rate_bytes_per_s = rate;
}

/* Makes contexts and buffers on the first three devices. Contexts 0 and 1 have
 * access to each other's memory. */
static int begin(void)
{
    gpu_fill(bytes, MIB, 7);
    for (int i = 0; i < 3; ++i) {
        CU(cuCtxCreate_v2(&contexts[i], 0, i));
        CU(cuMemAlloc(&buffers[i], MIB));
    }
    CU(cuCtxSetCurrent(contexts[1]));
    CU(cuCtxEnablePeerAccess(contexts[0], 0));
    CU(cuCtxSetCurrent(contexts[0]));
    CU(cuCtxEnablePeerAccess(contexts[1], 0));
    CU(cuMemcpyHtoD(buffers[0], bytes, MIB));
    return 0;
}

static int end(void)
{
    for (int i = 0; i < 3; ++i) {
        CU(cuCtxDestroy(contexts[i]));
    }
    while (cuCtxPopCurrent(NULL) == CUDA_SUCCESS) {
    }
    return 0;
}

static int test_cut(void)
{
    CUcontext fresh;
    int can;

    CHECK(begin() == 0);
    set_link(0, 1, 1, 0);
    CU(cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can == 0);
    CU(cuDeviceCanAccessPeer(&can, 0, 2));
    CHECK(can == 1);
    RESULT(CUDA_ERROR_NVLINK_UNCORRECTABLE,
           cuMemcpyDtoD(buffers[1], buffers[0], MIB) == CUDA_SUCCESS
               ? cuCtxSynchronize()
               : CUDA_ERROR_UNKNOWN);
    /* The error stays with the context. */
    RESULT(CUDA_ERROR_NVLINK_UNCORRECTABLE, cuMemAlloc(&buffers[0], MIB));
    RESULT(CUDA_ERROR_NVLINK_UNCORRECTABLE,
           cuMemcpyDtoH(back, buffers[0], MIB));
    /* other contexts have no access, and copies without access use PCIe */
    CU(cuCtxCreate_v2(&fresh, 0, 0));
    RESULT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
           cuCtxEnablePeerAccess(contexts[1], 0));
    CU(cuMemAlloc(&buffers[0], MIB));
    CU(cuMemcpyHtoD(buffers[0], bytes, MIB));
    CU(cuMemcpyDtoD(buffers[2], buffers[0], MIB));
    CU(cuMemcpyDtoH(back, buffers[2], MIB));
    CHECK(gpu_differs(back, MIB, 7) == MIB);
    CU(cuCtxDestroy(fresh));
    set_link(0, 1, 0, 0);
    return end();
}

static void set_flag(void *arg)
{
    *(_Atomic int *)arg = 1;
}

static void set_result(CUstream stream, CUresult result, void *arg)
{
    *(_Atomic int *)arg = (int)result;
}

/* The link is cut during a copy. */
static int test_cut_in_the_middle(void)
{
    _Atomic int called = 0, result = 0;
    CUstream stream;
    uint64_t before;
    CUevent event;

    CHECK(begin() == 0);
    set_link(0, 1, 0, SLOW);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    before = gpu(0)->mesh[1].bytes;
    CU(cuMemcpyDtoDAsync(buffers[1], buffers[0], MIB, stream));
    CU(cuEventRecord(event, stream));
    CU(cuLaunchHostFunc(stream, set_flag, (void *)&called));
    CU(cuStreamAddCallback(stream, set_result, (void *)&result, 0));
    while (gpu(0)->mesh[1].bytes == before) {
    }
    RESULT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    set_link(0, 1, 1, SLOW);
    RESULT(CUDA_ERROR_NVLINK_UNCORRECTABLE, cuEventSynchronize(event));
    RESULT(CUDA_ERROR_NVLINK_UNCORRECTABLE, cuEventQuery(event));
    RESULT(CUDA_ERROR_NVLINK_UNCORRECTABLE, cuStreamQuery(stream));
    RESULT(CUDA_ERROR_NVLINK_UNCORRECTABLE, cuStreamSynchronize(stream));
    CHECK(gpu(0)->mesh[1].bytes < before + MIB);
    CU(cuCtxSetCurrent(contexts[2]));
    CU(cuCtxSynchronize());
    while (result == 0) {
    }
    CHECK(result == CUDA_ERROR_NVLINK_UNCORRECTABLE);
    CHECK(called == 0);
    set_link(0, 1, 0, 0);
    return end();
}

static int test_slow(void)
{
    mrail_ns_t start_ns;

    CHECK(begin() == 0);
    set_link(0, 1, 0, SLOW);
    start_ns = mrail_clock_now();
    CU(cuMemcpyDtoD(buffers[1], buffers[0], MIB));
    CU(cuCtxSynchronize());
    /* 1 MiB at 10 MB/s takes 105 ms. */
    CHECK(mrail_clock_now() - start_ns > 95 * MRAIL_NS_PER_MS);
    set_link(0, 1, 0, 0);
    return end();
}

static int test_copy_error(void)
{
    CHECK(begin() == 0);
    CU(cuMemcpyHtoD(buffers[1], bytes, MIB));
    gpu(0)->copy_errors = 2;
    RESULT(CUDA_ERROR_UNKNOWN, cuMemcpyHtoD(buffers[1], back, MIB));
    RESULT(CUDA_ERROR_UNKNOWN,
           cuMemcpyDtoDAsync(buffers[1], buffers[2], MIB, NULL));
    CU(cuMemcpyDtoH(back, buffers[1], MIB));
    CHECK(gpu_differs(back, MIB, 7) == MIB);
    CHECK(gpu(0)->copy_errors == 0);
    return end();
}

static int test_no_memory(void)
{
    CUdeviceptr more;
    size_t left, total;

    CHECK(begin() == 0);
    gpu(0)->faults = SGPU_FAULT_NO_MEMORY;
    RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&more, MIB));
    CU(cuMemGetInfo(&left, &total));
    CHECK((left == 0) && (total > MIB));
    CU(cuMemFree(buffers[0]));
    gpu(0)->faults = 0;
    CU(cuMemAlloc(&more, MIB));
    return end();
}

static int test_no_dmabuf(void)
{
    int fd, has;

    CHECK(begin() == 0);
    gpu(0)->faults = SGPU_FAULT_NO_DMABUF;
    CU(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    CHECK(has == 0);
    CU(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1));
    CHECK(has == 1);
    RESULT(CUDA_ERROR_NOT_SUPPORTED,
           cuMemGetHandleForAddressRange(
               &fd, buffers[0], MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    gpu(0)->faults = 0;
    CU(cuMemGetHandleForAddressRange(&fd, buffers[0], MIB,
                                     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    close(fd);
    return end();
}

static int test_no_peer(void)
{
    uint64_t before;
    int can;

    CHECK(begin() == 0);
    gpu(2)->faults = SGPU_FAULT_NO_PEER;
    CU(cuDeviceCanAccessPeer(&can, 0, 2));
    CHECK(can == 0);
    CU(cuDeviceCanAccessPeer(&can, 2, 0));
    CHECK(can == 0);
    CU(cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can == 1);
    RESULT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
           cuCtxEnablePeerAccess(contexts[2], 0));
    before = gpu(2)->pcie_in.bytes;
    CU(cuMemcpyDtoD(buffers[2], buffers[0], MIB));
    CU(cuCtxSynchronize());
    CHECK(gpu(2)->pcie_in.bytes == before + MIB);
    gpu(2)->faults = 0;
    CU(cuCtxEnablePeerAccess(contexts[2], 0));
    return end();
}

/* ---- A handle from another process ---- */

static int to_exporter;

static int run_exporter(int fd)
{
    CUipcMemHandle handle;
    CUdeviceptr buffer;
    char byte;

    alarm(40);
    gpu_use(1);
    CU(cuMemAlloc(&buffer, MIB));
    CU(cuIpcGetMemHandle(&handle, buffer));
    CHECK(send(fd, &handle, sizeof(handle), MSG_NOSIGNAL) == sizeof(handle));
    (void)!read(fd, &byte, 1); /* until the importer is done */
    return 0;
}

/* Only processes that have not called cuInit may fork. */
static int start_exporter(void)
{
    int fds[2];
    pid_t pid;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        _exit(run_exporter(fds[1]) != 0);
    }
    close(fds[1]);
    to_exporter = fds[0];
    return 0;
}

static int test_ipc_error(void)
{
    CUipcMemHandle handle;
    CUdeviceptr buffer;
    int status;

    CHECK(recv(to_exporter, &handle, sizeof(handle), MSG_WAITALL) ==
          sizeof(handle));
    CHECK(begin() == 0);
    gpu(0)->faults = SGPU_FAULT_IPC_ERROR;
    RESULT(CUDA_ERROR_MAP_FAILED, cuIpcOpenMemHandle(&buffer, handle, 1));
    gpu(0)->faults = 0;
    set_link(0, 1, 1, 0);
    RESULT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
           cuIpcOpenMemHandle(&buffer, handle, 1));
    set_link(0, 1, 0, 0);
    CU(cuIpcOpenMemHandle(&buffer, handle, 1));
    CU(cuIpcCloseMemHandle(buffer));
    close(to_exporter);
    CHECK(wait(&status) > 0);
    CHECK(status == 0);
    return end();
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"an IPC handle cannot be opened", test_ipc_error},
        {"a link is cut", test_cut},
        {"a link is cut in the middle of a copy", test_cut_in_the_middle},
        {"a link is slow", test_slow},
        {"copies fail", test_copy_error},
        {"the device is out of memory", test_no_memory},
        {"a driver without dma-buf", test_no_dmabuf},
        {"peer access is denied", test_no_peer}};

    if ((sgpu_session_open(getenv("MRAIL_SOFT_GPUS"), &session, NULL) != 0) ||
        (start_exporter() != 0) || (cuInit(0) != CUDA_SUCCESS)) {
        printf("Bail out! no session\n");
        return 1;
    }
    return GPU_RUN(cases);
}
