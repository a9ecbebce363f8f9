/*
 * Execution of kernels. Up to SGPU_BLOCKS threads execute the blocks of a
 * launch, and each thread executes one block at a time. If a launch has no more
 * blocks than threads, its blocks can therefore wait for each other. A block
 * must end early if it, or another block, accesses an address without
 * permission. It then leaves its kernel by longjmp().
 */
#include "config.h"
#include "softgpu/launch.h"
#include "softgpu/copy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* A waiting block yields the processor this number of times. After that, it
 * sleeps, and longer each time: on a machine with few processors, many waiting
 * blocks would leave no time for others. A copy begins the sequence again. */
#define LAUNCH_SPINS 200
#define LAUNCH_SLEEP_MIN_NS (20 * MRAIL_NS_PER_US)
#define LAUNCH_SLEEP_MAX_NS (320 * MRAIL_NS_PER_US)

struct sgpu_launch {
    const mrail_kernel_entry_t *entry;
    void *args;
    sgpu_stream_t *stream;
    sgpu_ctx_t *ctx; /* valid at least until the launch is complete */
    uint32_t num_blocks;
    _Atomic uint32_t next_block;
    _Atomic int must_stop;
    /* number of threads; the lock protects this field and all fields below */
    unsigned num_running;
    int is_started;
    mrail_ns_t busy_ns; /* sum over completed blocks */
    sgpu_mem_t **held;  /* memory that blocks use */
    unsigned num_held, capacity;
};

/* A thread that executes blocks. */
typedef struct launch_worker {
    mrail_kernel_block_t block;
    sgpu_launch_t *launch;
    unsigned spins;
    mrail_ns_t sleep_ns;
    jmp_buf end;
} launch_worker_t;

static launch_worker_t *worker_of(mrail_kernel_block_t *block)
{
    return MRAIL_CONTAINER_OF(block, launch_worker_t, block);
}

/* ---- services for blocks ---- */

/* Takes a reference to the memory. The launch releases it at its end. */
static int launch_hold(sgpu_launch_t *launch, sgpu_place_t *place)
{
    for (unsigned i = 0; i < launch->num_held; ++i) {
        if (launch->held[i] == place->mem) {
            sgpu_place_put(place);
            return 0;
        }
    }
    if (launch->num_held == launch->capacity) {
        unsigned capacity = MRAIL_MAX(8u, 2 * launch->capacity);
        sgpu_mem_t **held = realloc(launch->held, capacity * sizeof(*held));

        if (held == NULL) {
            sgpu_place_put(place);
            return -1;
        }
        launch->held = held;
        launch->capacity = capacity;
    }
    launch->held[launch->num_held++] = place->mem;
    return 0;
}

/* Finds memory that the kernel may access, and the path between it and the
 * kernel's GPU. */
static CUresult launch_find(sgpu_launch_t *launch, uint64_t address,
                            uint64_t bytes, int is_write, sgpu_place_t *place_p,
                            sgpu_path_t *path_p)
{
    sgpu_gpu_t *own = launch->ctx->dev->gpu;
    sgpu_place_t place;

    if (sgpu_place_find(launch->ctx, address, bytes, SGPU_PLACE_KERNEL,
                        is_write, &place) != CUDA_SUCCESS) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (!sgpu_place_is_reachable(launch->ctx, &place)) {
        sgpu_place_put(&place);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    *path_p = sgpu_path_find((sgpu_link_kind_t)sgpu.session->link_kind,
                             is_write ? own : place.gpu,
                             is_write ? place.gpu : own, 1);
    if (sgpu_path_is_cut(path_p)) {
        sgpu_place_put(&place);
        return CUDA_ERROR_NVLINK_UNCORRECTABLE;
    }
    *place_p = place;
    return (launch_hold(launch, &place) == 0) ? CUDA_SUCCESS
                                              : CUDA_ERROR_OUT_OF_MEMORY;
}

static _Noreturn void worker_end(launch_worker_t *worker)
{
    longjmp(worker->end, 1);
}

static void worker_check(launch_worker_t *worker)
{
    if (worker->launch->must_stop) {
        worker_end(worker);
    }
}

/* Ends this block and all other blocks of the launch. */
static _Noreturn void worker_fail(launch_worker_t *worker, CUresult error)
{
    pthread_mutex_lock(&sgpu.lock);
    sgpu_stream_fail(worker->launch->stream, error);
    worker->launch->must_stop = 1;
    pthread_mutex_unlock(&sgpu.lock);
    worker_end(worker);
}

static char *worker_find(launch_worker_t *worker, uint64_t address,
                         uint64_t bytes, int is_write, sgpu_path_t *path_p)
{
    sgpu_place_t place;
    CUresult ret;

    pthread_mutex_lock(&sgpu.lock);
    ret = launch_find(worker->launch, address, bytes, is_write, &place, path_p);
    pthread_mutex_unlock(&sgpu.lock);
    if (ret != CUDA_SUCCESS) {
        worker_fail(worker, ret);
    }
    return place.view;
}

/* An empty range may have any address. */
static void *block_map(mrail_kernel_block_t *block, uint64_t address,
                       uint64_t bytes, int is_write)
{
    launch_worker_t *worker = worker_of(block);
    sgpu_path_t path;

    worker_check(worker);
    return (bytes == 0) ? NULL
                        : worker_find(worker, address, bytes, is_write, &path);
}

static void worker_sleep(mrail_ns_t until_ns)
{
    struct timespec at = {.tv_sec = (time_t)(until_ns / MRAIL_NS_PER_SEC),
                          .tv_nsec = (long)(until_ns % MRAIL_NS_PER_SEC)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
    }
}

static void worker_wake(launch_worker_t *worker)
{
    worker->spins = 0;
    worker->sleep_ns = LAUNCH_SLEEP_MIN_NS;
}

/* As with copy engines, the bytes move early, and the time passes
 * afterwards. */
static void block_copy(mrail_kernel_block_t *block, uint64_t to, uint64_t from,
                       uint64_t bytes)
{
    launch_worker_t *worker = worker_of(block);
    mrail_ns_t end_ns = mrail_clock_now();
    sgpu_path_t in, out;
    char *to_view, *from_view;
    uint32_t chunk;

    if (bytes == 0) {
        return;
    }
    worker_wake(worker);
    from_view = worker_find(worker, from, bytes, 0, &in);
    to_view = worker_find(worker, to, bytes, 1, &out);
    for (uint64_t done = 0; done < bytes; done += chunk) {
        mrail_ns_t in_ns, out_ns, now_ns = mrail_clock_now();

        worker_check(worker);
        if (sgpu_path_is_cut(&in) || sgpu_path_is_cut(&out)) {
            worker_fail(worker, CUDA_ERROR_NVLINK_UNCORRECTABLE);
        }
        chunk = MRAIL_MIN(sgpu_path_chunk(&in, bytes - done),
                          sgpu_path_chunk(&out, bytes - done));
        in_ns = sgpu_path_reserve(&in, chunk, end_ns, now_ns);
        out_ns = sgpu_path_reserve(&out, chunk, end_ns, now_ns);
        memmove(to_view + done, from_view + done, chunk);
        end_ns = MRAIL_MAX(in_ns, out_ns);
        if (end_ns > mrail_clock_now()) {
            worker_sleep(end_ns);
        }
    }
}

static void block_pause(mrail_kernel_block_t *block)
{
    launch_worker_t *worker = worker_of(block);

    worker_check(worker);
    if (worker->spins < LAUNCH_SPINS) {
        ++worker->spins;
        sched_yield();
    } else {
        worker_sleep(mrail_clock_now() + worker->sleep_ns);
        worker->sleep_ns += worker->sleep_ns / 16;
        worker->sleep_ns = mrail_ns_min(worker->sleep_ns, LAUNCH_SLEEP_MAX_NS);
    }
}

static uint64_t block_now(mrail_kernel_block_t *block)
{
    return mrail_clock_now();
}

static const mrail_kernel_ops_t launch_ops = {.map = block_map,
                                              .copy = block_copy,
                                              .pause = block_pause,
                                              .now = block_now};

/* ---- threads ---- */

/* Executes one block. Returns the time that it took. */
static mrail_ns_t worker_block(launch_worker_t *worker, uint32_t index)
{
    const sgpu_launch_t *launch = worker->launch;
    mrail_ns_t start_ns = mrail_clock_now();

    worker_wake(worker);
    worker->block = (mrail_kernel_block_t){
        .ops = &launch_ops, .index = index, .num = launch->num_blocks};
    if (setjmp(worker->end) == 0) {
        launch->entry->run(&worker->block, launch->args);
    }
    return mrail_clock_now() - start_ns;
}

static void *worker_run(void *arg)
{
    sgpu_launch_t *launch = arg;
    launch_worker_t worker = {.launch = launch};
    mrail_ns_t busy_ns = 0;
    uint32_t index;

    prctl(PR_SET_NAME, "mrail-gpu-block");
    prctl(PR_SET_TIMERSLACK, 1UL);
    while (!launch->must_stop &&
           ((index = atomic_fetch_add(&launch->next_block, 1)) <
            launch->num_blocks)) {
        busy_ns += worker_block(&worker, index);
    }
    pthread_mutex_lock(&sgpu.lock);
    launch->busy_ns += busy_ns;
    if (--launch->num_running == 0) {
        sgpu_engine_signal();
    }
    pthread_mutex_unlock(&sgpu.lock);
    return NULL;
}

/* If a thread cannot be created, the launch fails, because other blocks may
 * wait for a block of this thread. */
static void launch_start(sgpu_launch_t *launch)
{
    unsigned num = MRAIL_MIN(launch->num_blocks, (uint32_t)SGPU_BLOCKS);
    sigset_t all, before;
    pthread_t thread;

    launch->is_started = 1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned i = 0; (i < num) && !launch->must_stop; ++i) {
        if (pthread_create(&thread, NULL, worker_run, launch) == 0) {
            pthread_detach(thread);
            ++launch->num_running;
        } else {
            sgpu_stream_fail(launch->stream,
                             CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
            launch->must_stop = 1;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

sgpu_step_t sgpu_launch_step(sgpu_launch_t *launch)
{
    sgpu_gpu_t *gpu = launch->stream->dev->gpu;

    if (!launch->is_started) {
        launch_start(launch);
        sgpu_count(gpu, SGPU_CNT_LAUNCHES, 1);
    }
    if (sgpu_ctx_error(launch->stream->ctx_handle) != CUDA_SUCCESS) {
        launch->must_stop = 1; /* the error may belong to another stream */
    }
    if (launch->num_running > 0) {
        return SGPU_STEP_AGAIN;
    }
    sgpu_count(gpu, SGPU_CNT_SM_NS, launch->busy_ns);
    return SGPU_STEP_DONE;
}

int sgpu_launch_is_running(const sgpu_launch_t *launch)
{
    return launch->num_running > 0;
}

sgpu_launch_t *sgpu_launch_create(sgpu_stream_t *stream,
                                  const mrail_kernel_entry_t *entry,
                                  const void *args, uint32_t num_blocks)
{
    sgpu_launch_t *launch = calloc(1, sizeof(*launch));

    if (launch == NULL) {
        return NULL;
    }
    launch->args = malloc(MRAIL_MAX(entry->args_size, (size_t)1));
    if (launch->args == NULL) {
        free(launch);
        return NULL;
    }
    mrail_copy(launch->args, args, entry->args_size);
    launch->entry = entry;
    launch->stream = stream;
    launch->ctx = stream->ctx;
    launch->num_blocks = num_blocks;
    return launch;
}

void sgpu_launch_destroy(sgpu_launch_t *launch)
{
    for (unsigned i = 0; i < launch->num_held; ++i) {
        sgpu_mem_put(launch->held[i]);
    }
    free(launch->held);
    free(launch->args);
    free(launch);
}
