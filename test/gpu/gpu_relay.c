/*
 * Tests relays whose payloads are in device memory: exchanges of two to four
 * processes, and the errors of relay memory if a driver call fails. Each case
 * runs with copy engines and with the relay kernel. The test environment limits
 * the rates of links, so that copies complete later.
 */
#include "config.h"
#include "gpu_test.h"
#include "relay_job.h"
#include "softgpu/session.h"

#include "base/rng.h"
#include "base/util.h"
#include "cuda/relay_copy.h"
#include "cuda/relay_kernel.h"
#include "kernels/image.h"
#include "relay/slot.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define NONE MRAIL_RELAY_NONE
#define CHUNK ((size_t)65536)

static relay_job_result_t results[JOB_RANKS];
static int with_kernel; /* the current copy method */
static sgpu_session_t *session;

/* Runs a case with both copy methods. */
static int both_ways(int (*func)(void))
{
    for (with_kernel = 0; with_kernel < 2; ++with_kernel) {
        if (func() != 0) {
            printf("# with %s\n", with_kernel ? "the kernel" : "copy engines");
            return -1;
        }
    }
    return 0;
}

static relay_job_t make_job(unsigned num_ranks)
{
    return (relay_job_t){.num_ranks = num_ranks,
                         .out_slots = 3,
                         .in_slots = 2,
                         .chunk = CHUNK,
                         .num_exchanges = 2,
                         .with_kernel = with_kernel};
}

static void add_flow(relay_job_t *job, uint32_t from, uint32_t relay_out,
                     uint32_t relay_in, uint32_t to, uint64_t offset,
                     uint64_t bytes)
{
    job->flows[job->num_flows++] = (mrail_relay_flow_t){.from = from,
                                                        .to = to,
                                                        .relay_out = relay_out,
                                                        .relay_in = relay_in,
                                                        .offset = offset,
                                                        .bytes = bytes};
}

/* ---- exchanges ---- */

static int run_two(void)
{
    relay_job_t job = make_job(2);

    add_flow(&job, 0, NONE, NONE, 1, 0, 10 * CHUNK + 77);
    add_flow(&job, 1, NONE, NONE, 0, 500, 7 * CHUNK);
    CHECK(relay_job_run(&job, results) == 0);
    /* No call waited until a copy was complete. */
    CHECK((results[0].num_unready > 0) && (results[1].num_unready > 0));
    return 0;
}

static int run_third(void)
{
    relay_job_t job = make_job(3);

    add_flow(&job, 0, 2, NONE, 1, 0, 12 * CHUNK + 5);
    add_flow(&job, 0, NONE, NONE, 1, 12 * CHUNK + 5, 12 * CHUNK);
    add_flow(&job, 1, 2, NONE, 0, 0, 5 * CHUNK);
    CHECK(relay_job_run(&job, results) == 0);
    CHECK(results[0].chunks == 2 * (13 + 12 + 5));
    CHECK(results[2].chunks == 0);
    return 0;
}

#define NODES_RECEIVED 50u /* chunks between nodes in two exchanges */

static int run_two_nodes(void)
{
    relay_job_t job = make_job(4);

    job.node_of[2] = job.node_of[3] = 1;
    add_flow(&job, 0, 1, 2, 3, 0, 9 * CHUNK + 1);
    add_flow(&job, 3, 2, NONE, 1, 0, 6 * CHUNK);
    add_flow(&job, 1, NONE, 3, 2, 100, 5 * CHUNK);
    add_flow(&job, 2, NONE, NONE, 0, 0, 3 * CHUNK + 9);
    CHECK(relay_job_run(&job, results) == 0);
    CHECK(results[1].num_unready > 0);
    return 0;
}

/* Random flows within a node, including those from a rank to itself. */
static int run_random(void)
{
    for (uint64_t seed = 0; seed < 8; ++seed) {
        relay_job_t job = make_job(3);
        uint64_t offset[3][3] = {{0}};
        mrail_rng_t rng;

        mrail_rng_init(&rng, seed);
        job.out_slots = 1 + mrail_rng_below(&rng, 4);
        while (job.num_flows < 1 + seed) {
            uint32_t from = mrail_rng_below(&rng, 3);
            uint32_t to = mrail_rng_below(&rng, 3);
            uint32_t relay = mrail_rng_below(&rng, 3);
            uint64_t bytes = 1 + mrail_rng_below(&rng, 4 * CHUNK);

            add_flow(&job, from,
                     ((relay == from) || (relay == to)) ? NONE : relay, NONE,
                     to, offset[from][to], bytes);
            offset[from][to] += bytes;
        }
        if (relay_job_run(&job, results) != 0) {
            printf("# seed %llu\n", (unsigned long long)seed);
            return -1;
        }
    }
    return 0;
}

/* ---- faults ---- */

static void set_link(unsigned a, unsigned b, int is_down)
{
    sgpu_session_gpu(session, 0, a)->mesh[b].is_down = (uint32_t)is_down;
    sgpu_session_gpu(session, 0, b)->mesh[a].is_down = (uint32_t)is_down;
}

static void cut_link(void)
{
    set_link(0, 2, 1);
}

/* The rank that copies over the link fails. No rank hangs, not even while it
 * releases its memory. */
static int run_cut_link(void)
{
    relay_job_t job = make_job(3);
    int ret;

    job.trouble = cut_link;
    add_flow(&job, 0, 2, NONE, 1, 0, 12 * CHUNK);
    add_flow(&job, 0, NONE, NONE, 1, 12 * CHUNK, 12 * CHUNK);
    ret = relay_job_run(&job, results);
    set_link(0, 2, 0);
    CHECK(ret != 0);
    CHECK((results[0].error == -EIO) && (results[1].error >= 0));
    return run_third();
}

/* ---- driver calls that fail ---- */

static const mrail_relay_shape_t shape = {
    .num_local = 1, .out_slots = 2, .in_slots = 2, .chunk = CHUNK};
static char handle[MRAIL_RELAY_HANDLE_SIZE];
static const void *const handles[] = {handle};
static mrail_cuda_t driver; /* copy of the table, with functions that fail */
static mrail_relay_memory_t *memory;

/* Runs func in a process, because a parent that uses the driver cannot fork. */
static int in_process(int (*func)(void))
{
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        alarm(20);
        gpu_use(0);
        driver = *mrail_cuda_find();
        _exit(func() != 0);
    }
    CHECK((waitpid(pid, &status, 0) == pid) && (status == 0));
    return 0;
}

static int create(void)
{
    return (with_kernel ? mrail_cuda_relay_kernel_create
                        : mrail_cuda_relay_create)(&driver, 0, &memory);
}

static int alloc(void)
{
    return memory->ops->alloc(memory, &shape, 0, handle);
}

static int import(void)
{
    return memory->ops->import(memory, &shape, 0, handles);
}

static int small_memory(void)
{
    CUdeviceptr address;
    size_t size = (size_t)1 << 30;

    while (size >= 4096) {
        size /= (cuMemAlloc(&address, size) == CUDA_SUCCESS) ? 1 : 2;
    }
    CHECK((create() == 0) && (alloc() == -ENOMEM));
    CHECK(import() == -EINVAL);
    mrail_cuda_relay_destroy(memory);
    return 0;
}

static int run_out_of_memory(void)
{
    return in_process(small_memory);
}

static CUresult refuse_open(CUdeviceptr *address_p, CUipcMemHandle from,
                            unsigned int flags)
{
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

/* Two memories in one process stand for two ranks. */
static int no_peer_access(void)
{
    mrail_relay_shape_t two = shape;
    char other[MRAIL_RELAY_HANDLE_SIZE];
    const void *both[] = {handle, other};
    mrail_relay_memory_t *second;

    two.num_local = 2;
    driver.cuIpcOpenMemHandle = refuse_open;
    CHECK((create() == 0) &&
          ((with_kernel ? mrail_cuda_relay_kernel_create
                        : mrail_cuda_relay_create)(&driver, 1, &second) == 0));
    CHECK(memory->ops->alloc(memory, &two, 0, handle) == 0);
    CHECK(second->ops->alloc(second, &two, 1, other) == 0);
    CHECK(second->ops->import(second, &two, 1, both) == -EACCES);
    CHECK(memory->ops->import(memory, &two, 0, both) == -EACCES);
    /* The other rank could not allocate. */
    memory->ops->release(memory);
    CHECK(memory->ops->alloc(memory, &two, 0, handle) == 0);
    memset(other, 0, sizeof(other));
    CHECK(memory->ops->import(memory, &two, 0, both) == -EINVAL);
    mrail_cuda_relay_destroy(second);
    mrail_cuda_relay_destroy(memory);
    return 0;
}

static CUresult pretend_open(CUdeviceptr *address_p, CUipcMemHandle from,
                             unsigned int flags)
{
    *address_p = (CUdeviceptr)1 << 40;
    return CUDA_SUCCESS;
}

static CUresult pretend_close(CUdeviceptr address)
{
    return CUDA_SUCCESS;
}

static size_t free_bytes(void)
{
    size_t bytes = 0, total;

    (void)cuMemGetInfo(&bytes, &total);
    return bytes;
}

/* A rank frees its area only after the other rank has closed it. Two memories in
 * one process stand for two ranks. */
static int early_release(void)
{
    mrail_relay_shape_t two = shape;
    char other[MRAIL_RELAY_HANDLE_SIZE];
    const void *both[] = {handle, other};
    mrail_relay_memory_t *second;
    size_t before, during;

    two.num_local = 2;
    driver.cuIpcOpenMemHandle = pretend_open;
    driver.cuIpcCloseMemHandle = pretend_close;
    before = free_bytes();
    CHECK(create() == 0);
    CHECK(memory->ops->alloc(memory, &two, 0, handle) == 0);
    CHECK((with_kernel ? mrail_cuda_relay_kernel_create
                       : mrail_cuda_relay_create)(&driver, 0, &second) == 0);
    CHECK(second->ops->alloc(second, &two, 1, other) == 0);
    CHECK(memory->ops->import(memory, &two, 0, both) == 0);
    CHECK(second->ops->import(second, &two, 1, both) == 0);
    during = free_bytes();
    CHECK(during < before);
    mrail_cuda_relay_destroy(memory);
    CHECK(free_bytes() == during);
    /* Another allocation does not free it either. */
    CHECK((create() == 0) && (alloc() == 0));
    mrail_cuda_relay_destroy(memory);
    CHECK(free_bytes() == during);
    mrail_cuda_relay_destroy(second);
    CHECK(free_bytes() == before);
    return 0;
}

static int run_early_release(void)
{
    return in_process(early_release);
}

/* Creates both memories with the shape of two ranks. */
static int create_two(mrail_relay_memory_t **second_p, char *other)
{
    mrail_relay_shape_t two = shape;

    two.num_local = 2;
    driver.cuIpcOpenMemHandle = pretend_open;
    driver.cuIpcCloseMemHandle = pretend_close;
    CHECK(create() == 0);
    CHECK(memory->ops->alloc(memory, &two, 0, handle) == 0);
    CHECK((with_kernel ? mrail_cuda_relay_kernel_create
                       : mrail_cuda_relay_create)(&driver, 0, second_p) == 0);
    CHECK((*second_p)->ops->alloc(*second_p, &two, 1, other) == 0);
    return 0;
}

/* A rank that fails before import() revokes its handle. No rank imports an area,
 * so each rank frees its area at once. */
static int half_import(void)
{
    mrail_relay_shape_t two = shape;
    char other[MRAIL_RELAY_HANDLE_SIZE];
    const void *both[] = {handle, other};
    mrail_relay_memory_t *second;
    size_t before = free_bytes();

    two.num_local = 2;
    CHECK(create_two(&second, other) == 0);
    memset(other, 0, sizeof(other));
    CHECK(memory->ops->import(memory, &two, 0, both) == -EINVAL);
    mrail_cuda_relay_destroy(memory);
    mrail_cuda_relay_destroy(second);
    CHECK(free_bytes() == before);
    return 0;
}

static int run_half_import(void)
{
    return in_process(half_import);
}

/* A rank that cannot attach the pool imports nothing, and no rank waits for it.
 * Its own area may be imported, so it is not freed. */
static int no_attach(void)
{
    mrail_relay_shape_t two = shape;
    char other[MRAIL_RELAY_HANDLE_SIZE];
    const void *both[] = {handle, other};
    mrail_relay_memory_t *second;
    size_t before = free_bytes(), during;

    two.num_local = 2;
    CHECK(create_two(&second, other) == 0);
    during = free_bytes();
    CHECK(memory->ops->import(memory, &two, 0, both) == 0);
    mrail_relay_memory_seal(memory);
    CHECK(second->ops->import(second, &two, 1, both) == -ENOENT);
    mrail_cuda_relay_destroy(second);
    CHECK(free_bytes() == during);
    mrail_cuda_relay_destroy(memory);
    CHECK(free_bytes() - during == (before - during) / 2);
    return 0;
}

static int run_no_attach(void)
{
    return in_process(no_attach);
}

static unsigned num_frees; /* driver calls that may wait for the device */

static CUresult count_free(CUdeviceptr address)
{
    ++num_frees;
    return cuMemFree(address);
}

static CUresult count_close(CUdeviceptr address)
{
    ++num_frees;
    return CUDA_SUCCESS;
}

static CUresult count_unregister(void *address)
{
    ++num_frees;
    return cuMemHostUnregister(address);
}

static CUresult count_unload(CUmodule module)
{
    ++num_frees;
    return cuModuleUnload(module);
}

/* An exchange retires and replaces memory without a call that waits for the
 * device, because a stream may wait for the exchange. */
static int retired_memory(void)
{
    mrail_relay_shape_t two = shape;
    char other[MRAIL_RELAY_HANDLE_SIZE];
    const void *both[] = {handle, other};
    mrail_relay_memory_t *second;
    size_t before = free_bytes();

    two.num_local = 2;
    CHECK(create_two(&second, other) == 0);
    driver.cuMemFree = count_free;
    driver.cuIpcCloseMemHandle = count_close;
    driver.cuMemHostUnregister = count_unregister;
    driver.cuModuleUnload = count_unload;
    CHECK(memory->ops->import(memory, &two, 0, both) == 0);
    CHECK(second->ops->import(second, &two, 1, both) == 0);
    mrail_cuda_relay_retire(memory);
    mrail_cuda_relay_retire(second);
    mrail_cuda_relay_retire(NULL);
    CHECK((create() == 0) && (alloc() == 0) && (import() == 0));
    CHECK(num_frees == 0);
    mrail_cuda_relay_retire(memory);
    CHECK(num_frees == 0);
    mrail_cuda_relay_destroy_retired();
    CHECK((num_frees > 0) && (free_bytes() == before));
    return 0;
}

static int run_retired_memory(void)
{
    num_frees = 0;
    return in_process(retired_memory);
}

static int run_no_peer_access(void)
{
    return in_process(no_peer_access);
}

static CUresult failed_query(CUevent event)
{
    return CUDA_ERROR_UNKNOWN;
}

static CUresult failed_stream(CUstream stream)
{
    return CUDA_ERROR_UNKNOWN;
}

static CUresult failed_launch(CUfunction func, unsigned int grid_x,
                              unsigned int grid_y, unsigned int grid_z,
                              unsigned int block_x, unsigned int block_y,
                              unsigned int block_z, unsigned int shared,
                              CUstream stream, void **params, void **extra)
{
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

static CUresult failed_copy(CUdeviceptr to, CUdeviceptr from, size_t size,
                            CUstream stream)
{
    return CUDA_ERROR_INVALID_VALUE;
}

static int failing_copies(void)
{
    static char host[CHUNK];
    void *copy = NULL;
    CUdeviceptr user;

    CU(cuMemAlloc(&user, CHUNK));
    CHECK((create() == 0) && (alloc() == 0) && (import() == 0));
    /* Neither end is in an area, or the user's memory is on the host. */
    CHECK(memory->ops->copy_start(memory, (void *)(uintptr_t)user,
                                  (void *)(uintptr_t)user, 1,
                                  &copy) == -EINVAL);
    CHECK(memory->ops->copy_start(memory, memory->areas[0], host, CHUNK,
                                  &copy) == -EIO);
    CHECK(copy == NULL);
    CHECK(memory->ops->copy_start(memory, memory->areas[0],
                                  (void *)(uintptr_t)user, CHUNK, &copy) == 0);
    CHECK(copy != NULL);
    driver.cuEventQuery = failed_query;
    driver.cuStreamQuery = failed_stream;
    CHECK(memory->ops->copy_test(memory, copy) == -EIO);
    driver.cuMemcpyDtoDAsync = failed_copy;
    driver.cuLaunchKernel = failed_launch;
    if (with_kernel) {
        memory->ops->end(memory);
    }
    CHECK(memory->ops->copy_start(memory, memory->areas[0],
                                  (void *)(uintptr_t)user, CHUNK,
                                  &copy) == -EIO);
    mrail_cuda_relay_destroy(memory);
    return 0;
}

static int run_failing_copies(void)
{
    return in_process(failing_copies);
}

static int destroyed_context(void)
{
    CUdeviceptr user;
    void *copy = NULL;
    CUdevice device;

    CU(cuMemAlloc(&user, CHUNK));
    CHECK((create() == 0) && (alloc() == 0) && (import() == 0));
    CU(cuDeviceGet(&device, 0));
    CU(cuDevicePrimaryCtxReset_v2(device));
    CHECK(memory->ops->copy_start(memory, memory->areas[0],
                                  (void *)(uintptr_t)user, CHUNK,
                                  &copy) == -EIO);
    mrail_cuda_relay_destroy(memory);
    return 0;
}

static int run_destroyed_context(void)
{
    return in_process(destroyed_context);
}

/* The current context of the thread and the primary context do not change. */
static int current_context(void)
{
    CUcontext own, now;
    unsigned flags;
    int is_active;

    CU(cuCtxCreate_v2(&own, 0, 1));
    CHECK((create() == 0) && (alloc() == 0) && (import() == 0));
    mrail_cuda_relay_destroy(memory);
    CU(cuCtxGetCurrent(&now));
    CHECK(now == own);
    CU(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    CHECK(is_active);
    return 0;
}

static int run_current_context(void)
{
    return in_process(current_context);
}

/* ---- the kernel ---- */

/* Returns a counter of a device, summed over all processes so far. */
static uint64_t counter(unsigned gpu, sgpu_counter_t which)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < SGPU_SESSION_SLOTS; ++i) {
        sum += atomic_load(
            &sgpu_session_gpu(session, 0, gpu)->slots[i].counters[which]);
    }
    return sum;
}

static uint64_t num_launches(void)
{
    return counter(0, SGPU_CNT_LAUNCHES);
}

static uint64_t num_copies(void)
{
    return counter(0, SGPU_CNT_COPIES_PEER) + counter(0, SGPU_CNT_COPIES_LOCAL);
}

/* One launch lasts for the whole exchange, and copy engines are not used. */
static int test_launches(void)
{
    relay_job_t job;

    with_kernel = 1;
    job = make_job(2);
    add_flow(&job, 0, NONE, NONE, 1, 0, 10 * CHUNK + 77);
    for (with_kernel = 0; with_kernel < 2; ++with_kernel) {
        uint64_t launches = num_launches(), copies = num_copies();

        job.with_kernel = with_kernel;
        CHECK(relay_job_run(&job, results) == 0);
        launches = num_launches() - launches;
        copies = num_copies() - copies;
        printf("# %llu launches, %llu copies\n", (unsigned long long)launches,
               (unsigned long long)copies);
        if (with_kernel) {
            /* A descheduled process may relaunch it. */
            CHECK((launches >= job.num_exchanges) &&
                  (launches < 11 * job.num_exchanges));
            CHECK(copies == 0);
        } else {
            /* Into the slot and out of it, both counted at this device. */
            CHECK((launches == 0) && (copies == 22 * job.num_exchanges));
        }
    }
    return 0;
}

static void wait_for_device(void)
{
    (void)cuCtxSynchronize();
}

/* A process that waits for its device in the middle of an exchange does not
 * wait forever, because the kernel ends. The next copy relaunches it. */
static int test_wait(void)
{
    relay_job_t job;

    with_kernel = 1;
    job = make_job(2);
    job.trouble = wait_for_device;
    job.num_exchanges = 1;
    add_flow(&job, 0, NONE, NONE, 1, 0, 4 * CHUNK);
    add_flow(&job, 1, NONE, NONE, 0, 0, 4 * CHUNK);
    CHECK(relay_job_run(&job, results) == 0);
    return 0;
}

/* Copies a chunk from `user` to the area, and back behind it. Sets *launches_p
 * to the number of launches. */
static int copy_around(CUdeviceptr user, uint64_t *launches_p)
{
    static uint8_t before[CHUNK], after[CHUNK];
    uint64_t launches = num_launches();
    void *copy = NULL;

    for (size_t i = 0; i < CHUNK; ++i) {
        before[i] = gpu_byte(7, i);
    }
    CU(cuMemcpyHtoD(user, before, CHUNK));
    CHECK(memory->ops->copy_start(memory, memory->areas[0],
                                  (void *)(uintptr_t)user, CHUNK, &copy) == 0);
    while (memory->ops->copy_test(memory, copy) == 0) {
        usleep(100);
    }
    CHECK(memory->ops->copy_start(memory, (void *)(uintptr_t)(user + CHUNK),
                                  memory->areas[0], CHUNK - 3, &copy) == 0);
    while (memory->ops->copy_test(memory, copy) == 0) {
        usleep(100);
    }
    CU(cuMemcpyDtoH(after, user + CHUNK, CHUNK - 3));
    CHECK(memcmp(before, after, CHUNK - 3) == 0);
    if (memory->ops->end != NULL) {
        memory->ops->end(memory);
    }
    *launches_p = num_launches() - launches;
    return 0;
}

static unsigned num_loads;

/* Drivers report bytes that are not for a GPU in different ways. */
static CUresult count_loads(CUmodule *module_p, const void *image)
{
    ++num_loads;
    return CUDA_ERROR_UNKNOWN;
}

static CUresult refuse_pointer(CUdeviceptr *address_p, void *host,
                               unsigned int flags)
{
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult refuse_module(CUmodule *module_p, const void *image)
{
    return CUDA_ERROR_INVALID_IMAGE;
}

/* A driver that cannot load the kernel, memory of another context, and memory
 * from a pool. */
static int other_memory(void)
{
    CUdeviceptr user;
    uint64_t launches;
    CUcontext ctx;
    CUstream stream;

    CU(cuMemAlloc(&user, 2 * CHUNK));
    driver.cuModuleLoadData = refuse_module;
    CHECK((create() == 0) && (alloc() == 0) && (import() == 0));
    CHECK(!mrail_cuda_relay_kernel_is_used(memory));
    CHECK((copy_around(user, &launches) == 0) && (launches == 0));
    mrail_cuda_relay_destroy(memory);

    driver.cuModuleLoadData = count_loads;
    num_loads = 0;
    CHECK((create() == 0) && (alloc() == 0) && (import() == 0));
    CHECK(num_loads == ((mrail_kernel_ptx != NULL) ? 2u : 1u));
    mrail_cuda_relay_destroy(memory);
    driver.cuModuleLoadData = cuModuleLoadData;

    driver.cuMemHostGetDevicePointer = refuse_pointer;
    driver.cuMemHostUnregister = count_unregister;
    num_frees = 0;
    CHECK((create() == 0) && (alloc() == 0) && (import() == 0));
    CHECK(!mrail_cuda_relay_kernel_is_used(memory) && (num_frees == 1));
    mrail_cuda_relay_destroy(memory);
    driver.cuMemHostGetDevicePointer = cuMemHostGetDevicePointer;
    CHECK((create() == 0) && (alloc() == 0) && (import() == 0));
    CHECK(mrail_cuda_relay_kernel_is_used(memory));
    CHECK((copy_around(user, &launches) == 0) && (launches > 0));
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAllocAsync(&user, 2 * CHUNK, stream));
    CU(cuStreamSynchronize(stream));
    CHECK((copy_around(user, &launches) == 0) && (launches > 0));
    CU(cuCtxCreate_v2(&ctx, 0, 0));
    CU(cuMemAlloc(&user, 2 * CHUNK));
    CHECK((copy_around(user, &launches) == 0) && (launches == 0));
    mrail_cuda_relay_destroy(memory);
    return 0;
}

static int test_other_memory(void)
{
    with_kernel = 1;
    return in_process(other_memory);
}

/* The kernel ends by itself, and is relaunched for the next copy. */
static int idle_kernel(void)
{
    CUdeviceptr user;
    void *copy = NULL;
    uint64_t launches;

    CU(cuMemAlloc(&user, CHUNK));
    CHECK((create() == 0) && (alloc() == 0) && (import() == 0));
    launches = num_launches();
    for (unsigned i = 1; i <= 3; ++i) {
        CHECK(memory->ops->copy_start(memory, memory->areas[0],
                                      (void *)(uintptr_t)user, CHUNK,
                                      &copy) == 0);
        while (memory->ops->copy_test(memory, copy) == 0) {
            usleep(100);
        }
        CU(cuCtxSynchronize()); /* returns once the kernel has ended */
        CHECK(num_launches() == launches + i);
    }
    mrail_cuda_relay_destroy(memory);
    return 0;
}

static int test_idle(void)
{
    with_kernel = 1;
    return in_process(idle_kernel);
}

static CUresult pretend_launch(CUfunction func, unsigned int grid_x,
                               unsigned int grid_y, unsigned int grid_z,
                               unsigned int block_x, unsigned int block_y,
                               unsigned int block_z, unsigned int shared,
                               CUstream stream, void **params, void **extra)
{
    return CUDA_SUCCESS;
}

#define BUSY_SLOTS 5u /* 2 out-slots of each rank, 1 in-slot */

/* Copies from every slot of an area at once, before the kernel reads a task. */
static int busy_area(void)
{
    static uint8_t bytes[BUSY_SLOTS * CHUNK], after[BUSY_SLOTS * CHUNK];
    mrail_relay_shape_t two = shape;
    char other[MRAIL_RELAY_HANDLE_SIZE];
    const void *both[] = {handle, other};
    mrail_relay_memory_t *second;
    void *copies[BUSY_SLOTS];
    CUdeviceptr user;

    two.num_local = 2;
    two.in_slots = 1;
    driver.cuIpcOpenMemHandle = pretend_open;
    driver.cuIpcCloseMemHandle = pretend_close;
    CHECK(create() == 0);
    CHECK(memory->ops->alloc(memory, &two, 0, handle) == 0);
    CHECK(mrail_cuda_relay_kernel_create(&driver, 0, &second) == 0);
    CHECK(second->ops->alloc(second, &two, 1, other) == 0);
    CHECK(memory->ops->import(memory, &two, 0, both) == 0);
    CHECK(second->ops->import(second, &two, 1, both) == 0);
    CU(cuMemAlloc(&user, sizeof(bytes)));
    CU(cuMemsetD8(user, 0, sizeof(bytes)));
    gpu_fill(bytes, sizeof(bytes), 3);
    CU(cuMemcpyHtoD((uintptr_t)memory->areas[0], bytes, sizeof(bytes)));
    driver.cuLaunchKernel = pretend_launch;
    for (size_t i = 0; i < BUSY_SLOTS; ++i) {
        CHECK(memory->ops->copy_start(memory,
                                      (void *)(uintptr_t)(user + i * CHUNK),
                                      (char *)memory->areas[0] + i * CHUNK,
                                      CHUNK, &copies[i]) == 0);
    }
    driver.cuLaunchKernel = cuLaunchKernel;
    for (size_t i = 0; i < BUSY_SLOTS; ++i) {
        while (memory->ops->copy_test(memory, copies[i]) == 0) {
            usleep(100);
        }
    }
    CU(cuMemcpyDtoH(after, user, sizeof(after)));
    CHECK(memcmp(bytes, after, sizeof(after)) == 0);
    mrail_cuda_relay_destroy(memory);
    mrail_cuda_relay_destroy(second);
    return 0;
}

static int test_busy_area(void)
{
    with_kernel = 1;
    return in_process(busy_area);
}

/* A slow link to the receiver, over which two senders' chunks arrive. */
static int run_shared_link(void)
{
    relay_job_t job = make_job(3);

    job.out_slots = 4;
    job.in_slots = 1;
    add_flow(&job, 0, 2, NONE, 1, 0, 50 * CHUNK);
    add_flow(&job, 2, NONE, NONE, 1, 0, 50 * CHUNK);
    CHECK(relay_job_run(&job, results) == 0);
    return 0;
}

static int test_shared_link(void)
{
    return both_ways(run_shared_link);
}

static int test_two(void)
{
    return both_ways(run_two);
}

static int test_third(void)
{
    return both_ways(run_third);
}

static int test_two_nodes(void)
{
    return both_ways(run_two_nodes);
}

static uint64_t num_flushes(void)
{
    uint64_t sum = 0;

    for (unsigned gpu = 0; gpu < 4; ++gpu) {
        sum += counter(gpu, SGPU_CNT_FLUSHES);
    }
    return sum;
}

/* Each chunk from a NIC is flushed if other devices may otherwise read old
 * bytes. */
static int run_flushes(void)
{
    static const uint32_t orderings[] = {0, 100, 200};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(orderings); ++i) {
        uint64_t before = num_flushes();

        for (unsigned gpu = 0; gpu < 4; ++gpu) {
            atomic_store(&sgpu_session_gpu(session, 0, gpu)->writes_ordering,
                         orderings[i]);
        }
        CHECK(run_two_nodes() == 0);
        CHECK(num_flushes() - before ==
              ((orderings[i] < 200) ? NODES_RECEIVED : 0));
    }
    return 0;
}

/* Without order and flushes, NICs must not write to the area. */
static int no_flush(void)
{
    sgpu_gpu_t *gpu = sgpu_session_gpu(session, 0, 0);
    int can_order, can_flush, can_neither;

    CHECK(create() == 0);
    atomic_store(&gpu->flush_options, 0);
    can_order = mrail_cuda_relay_can_receive(memory);
    mrail_cuda_relay_destroy(memory);
    atomic_store(&gpu->writes_ordering, 100);
    CHECK(create() == 0);
    can_neither = mrail_cuda_relay_can_receive(memory);
    atomic_store(&gpu->flush_options, 1);
    can_flush = mrail_cuda_relay_can_receive(memory);
    mrail_cuda_relay_destroy(memory);
    atomic_store(&gpu->writes_ordering, 200);
    CHECK(can_order && can_flush && !can_neither);
    return 0;
}

static int run_no_flush(void)
{
    return in_process(no_flush);
}

static int test_flushes(void)
{
    return (both_ways(run_flushes) == 0) ? both_ways(run_no_flush) : -1;
}

static int test_random(void)
{
    return both_ways(run_random);
}

static int test_cut_link(void)
{
    return both_ways(run_cut_link);
}

static int test_out_of_memory(void)
{
    return both_ways(run_out_of_memory);
}

static int test_no_peer_access(void)
{
    return both_ways(run_no_peer_access);
}

static int test_early_release(void)
{
    return both_ways(run_early_release);
}

static int test_half_import(void)
{
    return both_ways(run_half_import);
}

static int test_no_attach(void)
{
    return both_ways(run_no_attach);
}

static int test_retired_memory(void)
{
    return both_ways(run_retired_memory);
}

static int test_failing_copies(void)
{
    return both_ways(run_failing_copies);
}

static int test_destroyed_context(void)
{
    return both_ways(run_destroyed_context);
}

static int test_current_context(void)
{
    return both_ways(run_current_context);
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"two processes", test_two},
        {"a relay on a third device", test_third},
        {"two nodes, relays at both ends", test_two_nodes},
        {"chunks from a NIC are flushed if necessary", test_flushes},
        {"random flows", test_random},
        {"a link that two senders share", test_shared_link},
        {"copies from all slots of an area", test_busy_area},
        {"a link that is cut", test_cut_link},
        {"a device without free memory", test_out_of_memory},
        {"no access to the other device", test_no_peer_access},
        {"memory that another rank still uses", test_early_release},
        {"a rank that fails before the import", test_half_import},
        {"a rank that cannot attach the pool", test_no_attach},
        {"memory that an exchange replaces", test_retired_memory},
        {"copies that fail", test_failing_copies},
        {"a destroyed context", test_destroyed_context},
        {"the current context is unchanged", test_current_context},
        {"one launch for an exchange", test_launches},
        {"a kernel without tasks ends", test_idle},
        {"a process that waits for its device", test_wait},
        {"memory that the kernel cannot access", test_other_memory}};

    if (sgpu_session_open(getenv("MRAIL_SOFT_GPUS"), &session, NULL) != 0) {
        printf("Bail out! no session\n");
        return 1;
    }
    return GPU_RUN(cases);
}
