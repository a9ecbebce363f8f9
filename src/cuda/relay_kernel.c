#include "config.h"
#include "cuda/relay_kernel.h"

#include "cuda/kernels.h"
#include "cuda/relay_internal.h"

#include "base/log.h"
#include "base/util.h"
#include "kernels/args.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define NUM_THREADS 512

/* A copy in flight, or an element of the free list. */
typedef struct task {
    uint32_t channel;
    uint64_t index; /* number of older tasks on the channel */
    struct task *next;
} task_t;

/* Host memory that the kernel accesses. It is not allocated by the driver,
 * because such memory would vanish together with the context. */
typedef struct shared {
    mrail_kernel_channel_t *channels;
    mrail_kernel_task_t *tasks; /* `ring` tasks of each channel */
    uint64_t *leave, *busy;
    size_t size;
} shared_t;

typedef struct kernel_relay {
    mrail_cuda_relay_t super;
    CUmodule module;
    CUfunction function;
    CUstream stream; /* NULL: the kernel cannot be used */
    shared_t shared;
    mrail_kernel_relay_t args;
    unsigned num_blocks;
    int is_launched; /* it may have exited */
    task_t *tasks, *free;
    size_t num_tasks;
} kernel_relay_t;

/* ---- import ---- */

/* Maps the shared memory. Its parts are aligned to cache lines. After fork(), a
 * write to a private page could replace the page, and the kernel would keep the
 * old one. */
static int shared_map(shared_t *shared, uint32_t num_channels, uint32_t ring)
{
    size_t channels = num_channels * sizeof(*shared->channels);
    size_t tasks = (size_t)num_channels * ring * sizeof(*shared->tasks);
    size_t size = channels + sizeof(*shared->channels) + tasks;
    char *base = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED) {
        return -ENOMEM;
    }
    shared->size = size;
    shared->channels = (mrail_kernel_channel_t *)base;
    shared->leave = (uint64_t *)(base + channels);
    shared->busy = shared->leave + 8; /* another cache line */
    shared->tasks = (mrail_kernel_task_t *)(base + size - tasks);
    return 0;
}

/* Sets *offset_p to the difference between device and host addresses. The caller
 * has made the context current. */
static CUresult shared_register(const kernel_relay_t *kernel,
                                uint64_t *offset_p)
{
    const mrail_cuda_t *cuda = kernel->super.cuda;
    void *base = kernel->shared.channels;
    CUdeviceptr address;
    CUresult result = cuda->cuMemHostRegister(base, kernel->shared.size,
                                              CU_MEMHOSTREGISTER_PORTABLE |
                                                  CU_MEMHOSTREGISTER_DEVICEMAP);

    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = cuda->cuMemHostGetDevicePointer(&address, base, 0);
    if (result != CUDA_SUCCESS) {
        (void)cuda->cuMemHostUnregister(base);
        return result;
    }
    *offset_p = address - (uintptr_t)base;
    return CUDA_SUCCESS;
}

/* The kernel uses at most half of the multiprocessors. */
static void choose_blocks(kernel_relay_t *kernel, int multiprocessors)
{
    uint32_t channels = kernel->args.num_channels;
    uint32_t most = (uint32_t)MRAIL_MAX(multiprocessors / 2, 1);
    uint32_t parts = MRAIL_MIN(most / channels, MRAIL_KERNEL_RELAY_PARTS);

    kernel->args.parts = MRAIL_MAX(parts, 1u);
    kernel->num_blocks = MRAIL_MIN(channels * kernel->args.parts, most);
}

/* Loads the kernel. The caller has made the context current. */
static CUresult load(kernel_relay_t *kernel)
{
    const mrail_cuda_t *cuda = kernel->super.cuda;
    int multiprocessors;
    uint64_t offset;
    CUresult result = mrail_cuda_kernels_load(cuda, &kernel->module);

    if (result == CUDA_SUCCESS) {
        result = cuda->cuModuleGetFunction(&kernel->function, kernel->module,
                                           "mrail_kernel_relay");
    }
    if (result == CUDA_SUCCESS) {
        result = cuda->cuDeviceGetAttribute(
            &multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            kernel->super.device);
    }
    if (result == CUDA_SUCCESS) {
        result = shared_register(kernel, &offset);
    }
    if (result == CUDA_SUCCESS) {
        kernel->args.channels = (uintptr_t)kernel->shared.channels + offset;
        kernel->args.tasks = (uintptr_t)kernel->shared.tasks + offset;
        kernel->args.leave = (uintptr_t)kernel->shared.leave + offset;
        kernel->args.busy = (uintptr_t)kernel->shared.busy + offset;
        choose_blocks(kernel, multiprocessors);
        result = cuda->cuStreamCreate(&kernel->stream, CU_STREAM_NON_BLOCKING);
    }
    return result;
}

/* Allocates the memory of the kernel, and loads it. A failure is not an error,
 * because copy engines can execute all copies. */
static int prepare(kernel_relay_t *kernel)
{
    mrail_cuda_relay_t *relay = &kernel->super;
    int ret;

    kernel->args.num_channels = mrail_cuda_relay_channels(relay);
    kernel->args.idle_ns = MRAIL_CUDA_RELAY_IDLE_NS;
    kernel->num_tasks = (size_t)relay->num_local * relay->num_slots;
    kernel->args.ring = (uint32_t)kernel->num_tasks;
    kernel->tasks = calloc(kernel->num_tasks, sizeof(*kernel->tasks));
    if (kernel->tasks == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < kernel->num_tasks; ++i) {
        kernel->tasks[i].next = kernel->free;
        kernel->free = &kernel->tasks[i];
    }
    ret = shared_map(&kernel->shared, kernel->args.num_channels,
                     kernel->args.ring);
    if (ret == 0) {
        ret = mrail_cuda_relay_enter(relay);
    }
    if (ret == 0) {
        (void)mrail_cuda_relay_status(load(kernel), "load the relay kernel");
        mrail_cuda_relay_leave(relay);
    }
    return ret;
}

static int kernel_import(mrail_relay_memory_t *memory,
                         const mrail_relay_shape_t *shape, uint32_t me,
                         const void *const *handles)
{
    int ret = mrail_cuda_copy_import(memory, shape, me, handles);

    return (ret == 0) ? prepare((kernel_relay_t *)memory) : ret;
}

/* ---- launch and end ---- */

/* Launches the kernel, behind an earlier launch that has not ended yet. The
 * caller has made the context current. */
static CUresult launch(kernel_relay_t *kernel)
{
    void *params[] = {&kernel->args};
    CUresult result;

    ++kernel->args.launch;
    result = kernel->super.cuda->cuLaunchKernel(
        kernel->function, kernel->num_blocks, 1, 1, NUM_THREADS, 1, 1, 0,
        kernel->stream, params, NULL);
    kernel->is_launched = (result == CUDA_SUCCESS);
    return result;
}

/* Signals the kernel to exit, without waiting. */
static void kernel_end(mrail_relay_memory_t *memory)
{
    kernel_relay_t *kernel = (kernel_relay_t *)memory;

    if (kernel->is_launched) {
        __atomic_store_n(kernel->shared.leave, kernel->args.launch,
                         __ATOMIC_RELEASE);
        kernel->is_launched = 0;
    }
}

/* ---- release ---- */

/* Unloads the kernel. Returns 1 if it can no longer access the shared memory.
 * The caller has made the context current. */
static int unload(const kernel_relay_t *kernel)
{
    const mrail_cuda_t *cuda = kernel->super.cuda;
    int has_ended = 1;

    if (kernel->stream != NULL) {
        has_ended = (cuda->cuStreamSynchronize(kernel->stream) == CUDA_SUCCESS);
        (void)cuda->cuStreamDestroy(kernel->stream);
    }
    if (kernel->args.channels != 0) {
        (void)cuda->cuMemHostUnregister(kernel->shared.channels);
    }
    if (kernel->module != NULL) {
        (void)cuda->cuModuleUnload(kernel->module);
    }
    return has_ended;
}

static void kernel_release(mrail_relay_memory_t *memory)
{
    kernel_relay_t *kernel = (kernel_relay_t *)memory;
    int has_ended = 0;

    kernel_end(memory);
    if ((kernel->shared.size != 0) &&
        (mrail_cuda_relay_enter(&kernel->super) == 0)) {
        has_ended = unload(kernel);
        mrail_cuda_relay_leave(&kernel->super);
    }
    /* After an error, the driver may still be ending the kernel. */
    if (has_ended) {
        (void)munmap(kernel->shared.channels, kernel->shared.size);
    }
    free(kernel->tasks);
    kernel->module = NULL;
    kernel->stream = NULL;
    kernel->shared = (shared_t){0};
    kernel->args = (mrail_kernel_relay_t){0};
    kernel->tasks = kernel->free = NULL;
    kernel->num_tasks = 0;
    mrail_cuda_copy_release(memory);
}

/* ---- copies ---- */

/* Returns 1 if the kernel can access the user memory: on its device, and
 * of its context or of none, as memory from pools. The caller has made the
 * context current. */
static int can_access(const mrail_cuda_relay_t *relay, const void *address)
{
    CUcontext ctx = NULL;
    int device = -1;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&ctx, &device};

    return (relay->cuda->cuPointerGetAttributes(
                MRAIL_ARRAY_SIZE(attributes), attributes, values,
                (uintptr_t)address) == CUDA_SUCCESS) &&
           (device == relay->device) && ((ctx == relay->ctx) || (ctx == NULL));
}

/* Puts a task into the queue of its channel. The queue cannot be full, because
 * it has an element for every task of this rank. An area holds out-slots of all
 * ranks of the node, and all of them may be in flight on one channel. */
static void put(kernel_relay_t *kernel, task_t *task, void *to,
                const void *from, size_t length)
{
    mrail_kernel_channel_t *channel = &kernel->shared.channels[task->channel];
    uint64_t index = channel->put;

    kernel->shared.tasks[(size_t)task->channel * kernel->args.ring +
                         index % kernel->args.ring] = (mrail_kernel_task_t){
        .to = (uintptr_t)to, .from = (uintptr_t)from, .bytes = length};
    __atomic_store_n(&channel->put, index + 1, __ATOMIC_RELEASE);
    task->index = index;
}

static int kernel_start(mrail_relay_memory_t *memory, void *to,
                        const void *from, size_t length, void **copy_p)
{
    kernel_relay_t *kernel = (kernel_relay_t *)memory;
    mrail_cuda_relay_t *relay = &kernel->super;
    uint32_t channel = mrail_cuda_area_channel(relay, to, from);
    int is_to_area =
        channel % MRAIL_CUDA_RELAY_DIRECTIONS == MRAIL_CUDA_RELAY_TO_AREA;
    task_t *task = kernel->free;
    int ret;

    if ((channel == UINT32_MAX) || (task == NULL)) {
        return -EINVAL;
    }
    if (kernel->stream == NULL) {
        return mrail_cuda_copy_start(memory, to, from, length, copy_p);
    }
    ret = mrail_cuda_relay_enter(relay);
    if (ret != 0) {
        return ret;
    }
    if (!can_access(relay, is_to_area ? from : to)) {
        mrail_cuda_relay_leave(relay);
        return mrail_cuda_copy_start(memory, to, from, length, copy_p);
    }
    task->channel = channel;
    put(kernel, task, to, from, length);
    if (!kernel->is_launched) {
        ret = mrail_cuda_relay_status(launch(kernel), "launch a kernel");
    }
    mrail_cuda_relay_leave(relay);
    if (ret == 0) {
        kernel->free = task->next;
        *copy_p = task;
    }
    return ret;
}

/* Returns the number of tasks that all blocks of a channel have completed. */
static uint64_t num_done(const kernel_relay_t *kernel, uint32_t channel)
{
    const uint64_t *done = kernel->shared.channels[channel].done;
    uint64_t num = UINT64_MAX;

    for (uint32_t i = 0; i < kernel->args.parts; ++i) {
        uint64_t part = __atomic_load_n(&done[i], __ATOMIC_ACQUIRE);

        num = MRAIL_MIN(num, part);
    }
    return num;
}

/* Returns 0 if the kernel is running, or was launched again. */
static int check_kernel(kernel_relay_t *kernel)
{
    mrail_cuda_relay_t *relay = &kernel->super;
    int ret = mrail_cuda_relay_enter(relay);
    CUresult result;

    if (ret != 0) {
        return ret;
    }
    result = relay->cuda->cuStreamQuery(kernel->stream);
    if (result == CUDA_SUCCESS) {
        result = launch(kernel);
    } else if (result == CUDA_ERROR_NOT_READY) {
        result = CUDA_SUCCESS;
    }
    mrail_cuda_relay_leave(relay);
    return mrail_cuda_relay_status(result, "copy with a kernel");
}

static int is_task(const kernel_relay_t *kernel, const void *copy)
{
    return (uintptr_t)copy - (uintptr_t)kernel->tasks <
           kernel->num_tasks * sizeof(*kernel->tasks);
}

static int kernel_test(mrail_relay_memory_t *memory, void *copy)
{
    kernel_relay_t *kernel = (kernel_relay_t *)memory;
    task_t *task = copy;
    uint64_t done;
    int ret = 0;

    if (!is_task(kernel, copy)) {
        return mrail_cuda_copy_test(memory, copy);
    }
    done = num_done(kernel, task->channel);
    if (done == task->index) { /* it is the oldest */
        ret = check_kernel(kernel);
    }
    if ((ret == 0) && (done <= task->index)) {
        return 0;
    }
    task->next = kernel->free;
    kernel->free = task;
    return (ret == 0) ? 1 : ret;
}

static const mrail_relay_memory_ops_t kernel_ops = {
    .handle_size = sizeof(mrail_cuda_handle_t),
    .alloc = mrail_cuda_area_alloc,
    .import = kernel_import,
    .release = kernel_release,
    .copy_start = kernel_start,
    .copy_test = kernel_test,
    .received = mrail_cuda_area_received,
    .end = kernel_end,
};

/* ---- the object ---- */

int mrail_cuda_relay_kernel_create(const mrail_cuda_t *cuda, int ordinal,
                                   mrail_relay_memory_t **memory_p)
{
    kernel_relay_t *kernel = calloc(1, sizeof(*kernel));
    int ret = (kernel != NULL) ? mrail_cuda_relay_init(&kernel->super, cuda,
                                                       ordinal, &kernel_ops)
                               : -ENOMEM;

    if (ret != 0) {
        free(kernel);
        return ret;
    }
    *memory_p = &kernel->super.super;
    return 0;
}

int mrail_cuda_relay_kernel_is_used(const mrail_relay_memory_t *memory)
{
    return ((const kernel_relay_t *)memory)->stream != NULL;
}
