/*
 * Memory and events that processes share, dma-buf descriptors, the remains of a
 * killed process, and CPU accesses to device memory. Each process calls cuInit
 * itself; the first process only starts the others.
 */
#include "config.h"
#include "gpu_test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SIZE (2 * MIB + 12345)
#define MEMORY (64 * MIB)

/* ---- Processes ---- */

static int to_peer; /* socket to the other process */

/* Runs both functions in separate processes. Returns 0 if both return 0. */
static int run_pair(int (*first)(void), int (*second)(void))
{
    int (*const funcs[2])(void) = {first, second};
    int fds[2], status, ret = 0;
    pid_t pids[2];

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
    fflush(stdout);
    for (int i = 0; i < 2; ++i) {
        pids[i] = fork();
        if (pids[i] == 0) {
            to_peer = fds[i];
            close(fds[1 - i]);
            alarm(40);
            _exit(funcs[i]() != 0);
        }
    }
    close(fds[0]);
    close(fds[1]);
    for (int i = 0; i < 2; ++i) {
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0)) {
            printf("# process %d: status 0x%x\n", i, status);
            ret = -1;
        }
    }
    return ret;
}

static int send_bytes(const void *data, size_t size)
{
    return (send(to_peer, data, size, MSG_NOSIGNAL) == (ssize_t)size) ? 0 : -1;
}

static int receive_bytes(void *data, size_t size)
{
    return (recv(to_peer, data, size, 0) == (ssize_t)size) ? 0 : -1;
}

/* Empty messages order the two processes. */
static int send_go(void)
{
    return send_bytes("go", 2);
}

static int receive_go(void)
{
    char text[2];

    return receive_bytes(text, 2);
}

static int send_fd(int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    return (sendmsg(to_peer, &msg, MSG_NOSIGNAL) == 1) ? 0 : -1;
}

static int receive_fd(void)
{
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    int fd = -1;

    if ((recvmsg(to_peer, &msg, 0) == 1) && (CMSG_FIRSTHDR(&msg) != NULL)) {
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
    }
    return fd;
}

/* ---- Memory ---- */

static uint8_t bytes[SIZE];

/* Writes to its own memory, and finds the bytes that the other process has
 * written. */
static int memory_owner(void)
{
    CUipcMemHandle handle;
    CUdeviceptr a, own;

    gpu_use(0);
    CU(cuMemAlloc(&a, SIZE));
    gpu_fill(bytes, SIZE, 1);
    CU(cuMemcpyHtoD(a, bytes, SIZE));
    CU(cuIpcGetMemHandle(&handle, a));
    RESULT(
        CUDA_ERROR_INVALID_CONTEXT,
        cuIpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuIpcGetMemHandle(&handle, (uintptr_t)bytes));
    CHECK(send_bytes(&handle, sizeof(handle)) == 0);
    CHECK(receive_go() == 0);
    CU(cuMemcpyDtoH(bytes, a, SIZE));
    CHECK(gpu_differs(bytes, SIZE, 2) == SIZE);
    CU(cuMemFree(a));
    CHECK(send_go() == 0);
    return receive_go();
}

static int memory_user(void)
{
    CUipcMemHandle handle, damaged;
    CUdeviceptr a, again, base;
    size_t size;
    int ordinal;

    gpu_use(1);
    CHECK(receive_bytes(&handle, sizeof(handle)) == 0);
    RESULT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle(&a, handle, 0));
    damaged = handle;
    damaged.reserved[32] ^= 1; /* another file */
    RESULT(CUDA_ERROR_INVALID_HANDLE,
           cuIpcOpenMemHandle(&a, damaged, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    memset(&damaged, 0, sizeof(damaged));
    RESULT(CUDA_ERROR_INVALID_HANDLE,
           cuIpcOpenMemHandle(&a, damaged, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CU(cuIpcOpenMemHandle(&a, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CU(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(a == again);
    CU(cuMemGetAddressRange(&base, &size, a + SIZE - 1));
    CHECK((base == a) && (size == SIZE));
    CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a));
    CHECK(ordinal == 0);
    CU(cuMemcpyDtoH(bytes, a, SIZE));
    CHECK(gpu_differs(bytes, SIZE, 1) == SIZE);
    gpu_fill(bytes, SIZE, 2);
    CU(cuMemcpyHtoD(a, bytes, SIZE));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFree(a));
    CHECK(send_go() == 0);
    /* The memory remains, although its owner has freed it. */
    CHECK(receive_go() == 0);
    CU(cuIpcCloseMemHandle(a));
    CU(cuMemcpyDtoH(bytes, a, SIZE));
    CHECK(gpu_differs(bytes, SIZE, 2) == SIZE);
    CU(cuIpcCloseMemHandle(a));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(a));
    /* The handle of freed memory opens nothing. */
    RESULT(CUDA_ERROR_INVALID_HANDLE,
           cuIpcOpenMemHandle(&a, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    return send_go();
}

static int test_memory(void)
{
    return run_pair(memory_owner, memory_user);
}

/* ---- Events ---- */

/* The stream of this process waits until the other process writes a value. */
static int event_owner(void)
{
    CUipcEventHandle handle;
    CUevent event, plain;
    CUdeviceptr a;
    CUstream stream;

    gpu_use(0);
    CU(cuMemAlloc(&a, 8));
    CU(cuMemsetD32(a, 0, 2));
    CU(cuCtxSynchronize());
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, plain));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    CU(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CU(cuIpcGetEventHandle(&handle, event));
    CU(cuStreamWaitValue32(stream, a, 1, CU_STREAM_WAIT_VALUE_EQ));
    CU(cuEventRecord(event, stream));
    RESULT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    CHECK(send_bytes(&handle, sizeof(handle)) == 0);
    CHECK(receive_go() == 0);
    CU(cuMemsetD32Async(a, 1, 1, NULL));
    CU(cuEventSynchronize(event));
    return receive_go();
}

static int event_user(void)
{
    CUipcEventHandle handle;
    CUstream stream;
    CUevent event;

    gpu_use(2);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(receive_bytes(&handle, sizeof(handle)) == 0);
    CU(cuIpcOpenEventHandle(&event, handle));
    RESULT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    CU(cuStreamWaitEvent(stream, event, 0));
    RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    CHECK(send_go() == 0);
    CU(cuStreamSynchronize(stream));
    CU(cuEventQuery(event));
    /* This process records as well. */
    CU(cuEventRecord(event, stream));
    CU(cuEventSynchronize(event));
    CU(cuEventDestroy(event));
    return send_go();
}

static int test_events(void)
{
    return run_pair(event_owner, event_user);
}

/* ---- Descriptors ---- */

static int fd_owner(void)
{
    struct stat st;
    CUdeviceptr a;
    int fd;

    gpu_use(0);
    CU(cuMemAlloc(&a, SIZE));
    gpu_fill(bytes, SIZE, 3);
    CU(cuMemcpyHtoD(a, bytes, SIZE));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuMemGetHandleForAddressRange(
               &fd, a + 1, MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuMemGetHandleForAddressRange(
               &fd, a, 3 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    CU(cuMemGetHandleForAddressRange(&fd, a + MIB, MIB,
                                     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    CHECK((fstat(fd, &st) == 0) && ((st.st_mode & 0777) == 0600));
    CHECK(send_fd(fd) == 0);
    close(fd);
    CHECK(receive_go() == 0);
    CU(cuMemcpyDtoH(bytes, a, SIZE));
    CHECK(bytes[MIB] == 0xee);
    return 0;
}

/* A device maps the range that begins at the offset of the descriptor. */
static int fd_user(void)
{
    int fd = receive_fd();
    off_t offset = lseek(fd, 0, SEEK_CUR);
    uint8_t *map;

    CHECK((fd >= 0) && (offset == (off_t)MIB));
    map = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    CHECK(map != MAP_FAILED);
    CHECK((map[0] == gpu_byte(3, MIB)) &&
          (map[MIB - 1] == gpu_byte(3, 2 * MIB - 1)));
    map[0] = 0xee;
    return send_go();
}

static int test_dma_buf(void)
{
    return run_pair(fd_owner, fd_user);
}

/* ---- A killed process ---- */

static int doomed(void)
{
    CUdeviceptr a;

    gpu_use(3);
    CU(cuMemAlloc(&a, MEMORY - MIB));
    CHECK(send_go() == 0);
    pause();
    return -1;
}

static int survivor(void)
{
    CUdeviceptr a;
    pid_t pid;

    gpu_use(3);
    CHECK(receive_bytes(&pid, sizeof(pid)) == 0);
    RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&a, 2 * MIB));
    CU(cuMemAlloc(&a, MIB));
    CU(cuMemFree(a));
    kill(pid, SIGKILL);
    CHECK(receive_go() == 0); /* its parent has collected its status */
    CU(cuMemAlloc(&a, MEMORY));
    CU(cuMemFree(a));
    return 0;
}

/* Starts the process that will be killed, and reports its id. */
static int doomed_parent(void)
{
    pid_t pid;
    int status;
    int fds[2], peer = to_peer;

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
    pid = fork();
    if (pid == 0) {
        close(peer);
        close(fds[1]);
        to_peer = fds[0];
        _exit(doomed() != 0);
    }
    close(fds[0]);
    to_peer = fds[1];
    CHECK(receive_go() == 0); /* it has its memory */
    to_peer = peer;
    CHECK(send_bytes(&pid, sizeof(pid)) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL));
    return send_go();
}

static int test_killed(void)
{
    return run_pair(doomed_parent, survivor);
}

/* ---- CPU access ---- */

/* Runs func in a process, and returns its wait status. */
static int status_of(int (*func)(void))
{
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        const struct rlimit no_core = {0, 0};

        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL); /* sanitizers have a handler */
        _exit(func());
    }
    return (waitpid(pid, &status, 0) == pid) ? status : -1;
}

static int touch_read(void)
{
    CUdeviceptr a;

    gpu_use(0);
    CU(cuMemAlloc(&a, 100));
    return *(volatile uint8_t *)(uintptr_t)(a + 50);
}

static int touch_write(void)
{
    CUdeviceptr a;

    gpu_use(0);
    CU(cuMemAlloc(&a, 100));
    *(volatile uint8_t *)(uintptr_t)a = 1;
    return 0;
}

static int touch_imported(void)
{
    CUipcMemHandle handle;
    CUdeviceptr a;

    gpu_use(0);
    CHECK(receive_bytes(&handle, sizeof(handle)) == 0);
    CU(cuIpcOpenMemHandle(&a, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    return *(volatile uint8_t *)(uintptr_t)a;
}

static int touch_owner(void)
{
    CUipcMemHandle handle;
    CUdeviceptr a;

    gpu_use(0);
    CU(cuMemAlloc(&a, 100));
    CU(cuIpcGetMemHandle(&handle, a));
    CHECK(send_bytes(&handle, sizeof(handle)) == 0);
    return receive_go();
}

static int touch_user(void)
{
    int status = status_of(touch_imported);

    CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV));
    return send_go();
}

static int test_touch(void)
{
    int status = status_of(touch_read);

    CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV));
    status = status_of(touch_write);
    CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV));
    return run_pair(touch_owner, touch_user);
}

/* ---- fork ---- */

static int child_calls(void)
{
    CUdeviceptr a;

    return (cuMemAlloc(&a, 100) != CUDA_ERROR_NOT_INITIALIZED) ||
           (cuInit(0) != CUDA_ERROR_NOT_INITIALIZED);
}

static int forking(void)
{
    gpu_use(0);
    return status_of(child_calls);
}

static int test_fork(void)
{
    CHECK(status_of(forking) == 0);
    return 0;
}

/* ---- Pools ---- */

static int pool_owner(void)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    CUmemPoolPtrExportData data;
    CUmemoryPool pool, own;
    CUdeviceptr a, b;
    int fd;

    gpu_use(1);
    CU(cuMemPoolCreate(&pool, &props));
    props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    CU(cuMemPoolCreate(&own, &props));
    CU(cuMemAllocFromPoolAsync(&a, SIZE, pool, NULL));
    CU(cuMemAllocFromPoolAsync(&b, SIZE, own, NULL));
    gpu_fill(bytes, SIZE, 5);
    CU(cuMemcpyHtoD(a, bytes, SIZE));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuMemPoolExportToShareableHandle(
               &fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, b));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, a + 8));
    CU(cuMemPoolExportToShareableHandle(
        &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(send_fd(fd) == 0);
    close(fd);
    CU(cuMemPoolExportPointer(&data, a));
    CHECK(send_bytes(&data, sizeof(data)) == 0);
    CHECK(receive_go() == 0);
    CU(cuMemcpyDtoH(bytes, a, SIZE));
    CHECK(gpu_differs(bytes, SIZE, 6) == SIZE);
    return 0;
}

static int pool_user(void)
{
    CUmemPoolPtrExportData data;
    CUmemoryPool pool, default_pool;
    CUdeviceptr address, more;
    cuuint64_t used;
    int fd;

    gpu_use(0);
    fd = receive_fd();
    CHECK(fd >= 0);
    CU(cuMemPoolImportFromShareableHandle(
        &pool, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        0));
    close(fd);
    RESULT(CUDA_ERROR_INVALID_HANDLE,
           cuMemPoolImportFromShareableHandle(
               &default_pool, (void *)(intptr_t)to_peer,
               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuMemAllocFromPoolAsync(&more, MIB, pool, NULL));
    CHECK(receive_bytes(&data, sizeof(data)) == 0);
    CU(cuDeviceGetDefaultMemPool(&default_pool, 0));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuMemPoolImportPointer(&address, default_pool, &data));
    CU(cuMemPoolImportPointer(&address, pool, &data));
    CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK(used == SIZE);
    CU(cuMemcpyDtoH(bytes, address, SIZE));
    CHECK(gpu_differs(bytes, SIZE, 5) == SIZE);
    gpu_fill(bytes, SIZE, 6);
    CU(cuMemcpyHtoD(address, bytes, SIZE));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(address));
    CU(cuMemFreeAsync(address, NULL));
    CU(cuCtxSynchronize());
    CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK(used == 0);
    data.reserved[48] ^= 1; /* the pool */
    RESULT(CUDA_ERROR_INVALID_HANDLE,
           cuMemPoolImportPointer(&address, pool, &data));
    CU(cuMemPoolDestroy(pool));
    CHECK(send_go() == 0);
    return 0;
}

static int test_pool(void)
{
    return run_pair(pool_owner, pool_user);
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"another process's memory", test_memory},
        {"another process's events", test_events},
        {"descriptors of memory", test_dma_buf},
        {"another process's pool", test_pool},
        {"the memory of a killed process is returned", test_killed},
        {"CPU accesses to device memory crash", test_touch},
        {"calls fail in a forked child", test_fork}};

    return GPU_RUN(cases);
}
