/* Tests kernels on software GPUs: fill, verify and copy; blocks that wait for
 * each other; invalid addresses. */
#include "config.h"
#include "gpu_test.h"
#include "kernels/args.h"
#include "kernels/kernel.h"
#include "softgpu/session.h"

#include "base/clock.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_kernels.inc"

#define MIB ((size_t)1 << 20)
#define BLOCKS 32 /* blocks that run at the same time */
#define THREADS 64
#define SEED 11

static const mrail_kernel_entry_t entries[] = {
    MRAIL_KERNEL_ENTRY(test_kernel_meet, test_meet_t),
    MRAIL_KERNEL_ENTRY(test_kernel_touch, test_touch_t)};

static const mrail_kernel_image_t test_image = {.magic = MRAIL_KERNEL_MAGIC,
                                                .version = MRAIL_KERNEL_VERSION,
                                                .num_entries = 2,
                                                .entries = entries};

static CUmodule module, test_module;
static uint8_t bytes[MIB];

/* Creates a context on a device, with both modules. */
static int begin(int dev, CUcontext *ctx_p)
{
    CU(cuCtxCreate_v2(ctx_p, 0, dev));
    CU(cuModuleLoadData(&module, &mrail_kernel_image));
    CU(cuModuleLoadData(&test_module, &test_image));
    return 0;
}

static CUresult launch(CUmodule in, const char *name, unsigned blocks,
                       CUstream stream, const void *args)
{
    void *params[] = {(void *)(uintptr_t)args};
    CUfunction func;
    CUresult ret = cuModuleGetFunction(&func, in, name);

    return (ret != CUDA_SUCCESS)
               ? ret
               : cuLaunchKernel(func, blocks, 1, 1, THREADS, 1, 1, 0, stream,
                                params, NULL);
}

static int test_modules(void)
{
    static const char ptx[] = ".version 9.0\n.target sm_90\n";
    mrail_kernel_image_t other = test_image;
    CUfunction func;
    CUcontext ctx;
    CUmodule bad;
    int value;

    CHECK(begin(0, &ctx) == 0);
    RESULT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&bad, ptx));
    RESULT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&bad, ""));
    other.version = MRAIL_KERNEL_VERSION + 1;
    RESULT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&bad, &other));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&bad, NULL));
    RESULT(CUDA_ERROR_NOT_FOUND,
           cuModuleGetFunction(&func, module, "test_kernel_meet"));
    CU(cuModuleGetFunction(&func, module, "mrail_kernel_copy"));
    CU(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                          func));
    CHECK(value == 1024);
    CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, func, 256, 0));
    CHECK(value > 0);
    CU(cuFuncGetModule(&bad, func));
    CHECK(bad == module);
    CU(cuModuleUnload(module));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
    RESULT(CUDA_ERROR_INVALID_HANDLE,
           cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CU(cuModuleGetFunction(&func, test_module, "test_kernel_meet"));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuLaunchKernel(func, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuLaunchKernel(func, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL));
    CU(cuCtxDestroy(ctx));
    /* A module is unloaded with its context. */
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(test_module));
    return 0;
}

/* Returns the number of wrong bytes. */
static int verify(CUdeviceptr buffer, size_t size, uint64_t offset,
                  unsigned blocks, uint64_t *wrong_p)
{
    mrail_kernel_pattern_t args = {buffer, size, offset, SEED, 0};
    CUdeviceptr wrong;

    CU(cuMemAlloc(&wrong, sizeof(*wrong_p)));
    CU(cuMemsetD8(wrong, 0, sizeof(*wrong_p)));
    args.wrong = wrong;
    CU(launch(module, "mrail_kernel_verify", blocks, NULL, &args));
    CU(cuMemcpyDtoH(wrong_p, wrong, sizeof(*wrong_p)));
    CU(cuMemFree(wrong));
    return 0;
}

static int test_pattern(void)
{
    static const struct {
        size_t begin, size;
        uint64_t offset;
        unsigned blocks;
    } cases[] = {{0, MIB, 0, 1},         {0, MIB, 0, BLOCKS}, {3, 100001, 5, 7},
                 {8, 4096, 1u << 20, 3}, {1, 9, 7, BLOCKS},   {17, 1, 3, 2},
                 {0, MIB - 5, 8, 1000},  {64, 65536, 64, 5}};
    CUdeviceptr buffer;
    uint64_t wrong;
    CUcontext ctx;

    CHECK(begin(0, &ctx) == 0);
    CU(cuMemAlloc(&buffer, MIB));
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        size_t from = cases[i].begin, size = cases[i].size;
        mrail_kernel_pattern_t args = {buffer + from, size, cases[i].offset,
                                       SEED, 0};

        CU(cuMemsetD8(buffer, 0xa5, MIB));
        CU(launch(module, "mrail_kernel_fill", cases[i].blocks, NULL, &args));
        CU(cuMemcpyDtoH(bytes, buffer, MIB));
        for (size_t k = 0; k < MIB; ++k) {
            int inside = (k >= from) && (k < from + size);

            CHECK(bytes[k] ==
                  (inside ? mrail_kernel_byte(SEED, cases[i].offset + k - from)
                          : 0xa5));
        }
        CHECK(verify(buffer + from, size, cases[i].offset, cases[i].blocks,
                     &wrong) == 0);
        CHECK(wrong == 0);
        /* The first and the last byte. */
        CU(cuMemsetD8(buffer + from, (uint8_t)~bytes[from], 1));
        CU(cuMemsetD8(buffer + from + size - 1,
                      (uint8_t)~bytes[from + size - 1], 1));
        CHECK(verify(buffer + from, size, cases[i].offset, cases[i].blocks,
                     &wrong) == 0);
        CHECK(wrong == ((size == 1) ? 1 : 2));
    }
    CU(cuCtxDestroy(ctx));
    return 0;
}

/* A copy by a kernel takes as long as the link's rate requires, and its bytes
 * are counted. */
static int test_copy(void)
{
    CUcontext peer, ctx;
    CUdeviceptr from, to;
    mrail_kernel_pattern_t fill = {.bytes = MIB, .seed = SEED};
    sgpu_session_t *session;
    mrail_ns_t start_ns;
    sgpu_link_t *link;
    uint64_t wrong, before;

    CHECK(sgpu_session_open(getenv("MRAIL_SOFT_GPUS"), &session, NULL) == 0);
    link = &sgpu_session_gpu(session, 0, 0)->mesh[1];
    CU(cuCtxCreate_v2(&peer, 0, 1));
    CU(cuMemAlloc(&to, MIB));
    CHECK(begin(0, &ctx) == 0);
    CU(cuMemAlloc(&from, MIB));
    CU(cuCtxEnablePeerAccess(peer, 0));
    fill.address = from;
    CU(launch(module, "mrail_kernel_fill", 4, NULL, &fill));
    link->rate_bytes_per_s = 10 * 1000 * 1000;
    before = link->bytes;
    start_ns = mrail_clock_now();
    CU(launch(module, "mrail_kernel_copy", 4, NULL,
              &(mrail_kernel_copy_t){to, from, MIB}));
    RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    CU(cuCtxSynchronize());
    CHECK(mrail_clock_now() - start_ns > 95 * MRAIL_NS_PER_MS); /* of 105 */
    CHECK(link->bytes == before + MIB);
    link->rate_bytes_per_s = 0;
    CHECK(verify(to, MIB, 0, 3, &wrong) == 0);
    CHECK(wrong == 0);
    sgpu_session_close(session);
    CU(cuCtxDestroy(ctx));
    CU(cuCtxDestroy(peer));
    return 0;
}

static int test_blocks_wait(void)
{
    test_meet_t args = {.wanted = BLOCKS};
    void *params[] = {&args};
    CUdeviceptr counter;
    CUfunction func;
    uint64_t count;
    CUcontext ctx;

    CHECK(begin(0, &ctx) == 0);
    CU(cuMemAlloc(&counter, 8));
    CU(cuMemsetD8(counter, 0, 8));
    args.counter = counter;
    CU(cuModuleGetFunction(&func, test_module, "test_kernel_meet"));
    CU(cuLaunchCooperativeKernel(func, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL,
                                 params));
    CU(cuMemcpyDtoH(&count, counter, 8));
    CHECK(count == BLOCKS);
    RESULT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
           cuLaunchCooperativeKernel(func, BLOCKS + 1, 1, 1, THREADS, 1, 1, 0,
                                     NULL, params));
    CU(cuCtxDestroy(ctx));
    return 0;
}

/* Kernels of two devices and the host count in pinned memory, and in the memory
 * of one device. */
static int test_devices_wait(void)
{
    test_meet_t args[2] = {{.wanted = 5}, {.wanted = 4}};
    uint64_t *pinned;
    CUdeviceptr counter;
    CUcontext ctx[2];

    CHECK(begin(0, &ctx[0]) == 0);
    CU(cuMemAlloc(&counter, 8));
    CU(cuMemsetD8(counter, 0, 8));
    CU(cuMemHostAlloc((void **)&pinned, 8, 0));
    *pinned = 0;
    args[0].counter = (uintptr_t)pinned;
    args[1].counter = counter;
    CU(launch(test_module, "test_kernel_meet", 2, NULL, &args[0]));
    CU(launch(test_module, "test_kernel_meet", 2, NULL, &args[1]));
    CHECK(begin(1, &ctx[1]) == 0);
    CU(cuCtxEnablePeerAccess(ctx[0], 0));
    CU(launch(test_module, "test_kernel_meet", 2, NULL, &args[0]));
    CU(launch(test_module, "test_kernel_meet", 2, NULL, &args[1]));
    while (mrail_kernel_load64(pinned) < 4) {
    }
    RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    mrail_kernel_add64(pinned, 1);
    CU(cuCtxSynchronize());
    CU(cuCtxDestroy(ctx[1]));
    CU(cuCtxSetCurrent(ctx[0]));
    CU(cuCtxSynchronize());
    CU(cuMemFreeHost(pinned));
    CU(cuCtxDestroy(ctx[0]));
    return 0;
}

/* An invalid address ends all blocks of the kernel. */
static int test_illegal(void)
{
    static uint64_t host;
    CUdeviceptr counter, other;
    CUcontext ctx, peer;

    CU(cuCtxCreate_v2(&peer, 0, 1));
    CU(cuMemAlloc(&other, 8));
    for (int i = 0; i < 4; ++i) {
        test_touch_t args;

        CHECK(begin(0, &ctx) == 0);
        CU(cuMemAlloc(&counter, 65536));
        CU(cuMemsetD8(counter, 0, 8));
        args.counter = counter;
        args.address = (i == 0)   ? counter + 65536 - 4
                       : (i == 1) ? other /* a context without access */
                       : (i == 2) ? (uintptr_t)&host
                                  : 0;
        CU(launch(test_module, "test_kernel_touch", 5, NULL, &args));
        RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
        RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&counter, 8));
        CU(cuCtxDestroy(ctx));
    }
    CHECK(host == 0);
    CU(cuCtxSetCurrent(peer));
    CU(cuCtxSynchronize());
    CU(cuCtxDestroy(peer));
    return 0;
}

/* A kernel may use memory that is freed later in the stream. */
static int test_freed(void)
{
    mrail_kernel_pattern_t args = {.bytes = MIB, .seed = SEED};
    test_meet_t meet = {.wanted = 2};
    uint64_t *pinned;
    CUdeviceptr buffer;
    CUstream stream;
    CUcontext ctx;

    CHECK(begin(0, &ctx) == 0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemHostAlloc((void **)&pinned, 8, 0));
    *pinned = 0;
    meet.counter = (uintptr_t)pinned;
    CU(cuMemAllocAsync(&buffer, MIB, stream));
    args.address = buffer;
    CU(launch(test_module, "test_kernel_meet", 1, stream, &meet));
    CU(launch(module, "mrail_kernel_fill", 3, stream, &args));
    CU(cuMemFreeAsync(buffer, stream));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(buffer, 0, 8, stream));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(buffer, stream));
    mrail_kernel_add64(pinned, 1);
    CU(cuStreamSynchronize(stream));
    CU(cuMemFreeHost(pinned));
    CU(cuCtxDestroy(ctx));
    return 0;
}

/* ---- Another process's memory ---- */

static int to_exporter;

static int run_exporter(int fd)
{
    CUipcMemHandle handle;
    CUdeviceptr buffer;
    uint64_t wrong;
    char byte;

    alarm(40);
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK(begin(1, &(CUcontext){NULL}) == 0);
    CU(cuMemAlloc(&buffer, MIB));
    CU(cuIpcGetMemHandle(&handle, buffer));
    CHECK(send(fd, &handle, sizeof(handle), MSG_NOSIGNAL) == sizeof(handle));
    CHECK(read(fd, &byte, 1) == 1);
    CHECK(verify(buffer, MIB, 0, 4, &wrong) == 0);
    CHECK(wrong == 0);
    return 0;
}

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

static int test_imported(void)
{
    mrail_kernel_pattern_t args = {.bytes = MIB, .seed = SEED};
    CUipcMemHandle handle;
    CUdeviceptr buffer;
    CUcontext ctx;
    int status;

    CHECK(recv(to_exporter, &handle, sizeof(handle), MSG_WAITALL) ==
          sizeof(handle));
    CHECK(begin(0, &ctx) == 0);
    CU(cuIpcOpenMemHandle(&buffer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    args.address = buffer;
    CU(launch(module, "mrail_kernel_fill", 8, NULL, &args));
    CU(cuCtxSynchronize());
    CU(cuIpcCloseMemHandle(buffer));
    CHECK(write(to_exporter, "v", 1) == 1);
    CHECK(wait(&status) > 0);
    CHECK(status == 0);
    CU(cuCtxDestroy(ctx));
    return 0;
}

/* A kernel takes at least its time. The upper bound only shows that it ends. */
static int test_wait(void)
{
    static const uint64_t times_ns[] = {0, 1, 200000, 20000000};
    CUcontext ctx;

    CHECK(begin(0, &ctx) == 0);
    for (unsigned i = 0; i < sizeof(times_ns) / sizeof(times_ns[0]); ++i) {
        mrail_kernel_wait_t args = {times_ns[i]};
        mrail_ns_t begin_ns = mrail_clock_now(), took_ns;

        CU(launch(module, "mrail_kernel_wait", 1 + i, NULL, &args));
        CU(cuCtxSynchronize());
        took_ns = mrail_clock_now() - begin_ns;
        CHECK(took_ns >= times_ns[i]);
        CHECK(took_ns < 10 * MRAIL_NS_PER_SEC);
    }
    CU(cuCtxDestroy(ctx));
    return 0;
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"another process's memory", test_imported},
        {"modules and functions", test_modules},
        {"fill and verify", test_pattern},
        {"copy over a link", test_copy},
        {"blocks wait for each other", test_blocks_wait},
        {"devices and the host wait for each other", test_devices_wait},
        {"memory that is freed after a kernel", test_freed},
        {"a kernel of a given time", test_wait},
        {"an illegal address", test_illegal}};

    if ((start_exporter() != 0) || (cuInit(0) != CUDA_SUCCESS)) {
        printf("Bail out! no session\n");
        return 1;
    }
    return GPU_RUN(cases);
}
