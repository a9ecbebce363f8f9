/*
 * Relay buffers. If all messages of the plan are between device memory, the
 * buffers are on the GPUs of the ranks. Otherwise, they are in the shared
 * memory of the node. If some rank cannot allocate or import buffers on GPUs,
 * all ranks make another plan, for buffers in shared memory.
 */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/direct.h"

#include "cuda/relay_copy.h"
#include "cuda/relay_kernel.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

static int is_device(const mca_coll_mrail_module_t *module)
{
    return module->schedule->is_on_devices;
}

int mca_coll_mrail_pools_reserve(mca_coll_mrail_module_t *module)
{
    size_t block = module->topology->has_gpus ? MRAIL_RELAY_HANDLE_SIZE
                                              : MRAIL_RELAY_NAME_SIZE;

    return mca_coll_mrail_gather_reserve(&module->gather,
                                         module->topology->num_ranks * block);
}

static void release_host(mca_coll_mrail_module_t *module)
{
    mca_coll_mrail_pool_t *pool = &module->host_pool;

    mrail_relay_destroy(pool->relay);
    mca_coll_mrail_net_destroy(pool->net);
    module->host_memory.ops->release(&module->host_memory);
    *pool = (mca_coll_mrail_pool_t){.memory = &module->host_memory};
}

/* May be called in an exchange for which a stream waits, so it frees nothing on
 * the device. */
void mca_coll_mrail_pools_release_device(mca_coll_mrail_module_t *module)
{
    mca_coll_mrail_pool_t *pool = &module->device_pool;

    mrail_relay_destroy(pool->relay);
    mca_coll_mrail_net_destroy(pool->net);
    mrail_cuda_relay_retire(pool->memory);
    *pool = (mca_coll_mrail_pool_t){0};
}

void mca_coll_mrail_pools_cleanup(mca_coll_mrail_module_t *module)
{
    release_host(module);
    mca_coll_mrail_pools_release_device(module);
}

/* ---- decision ---- */

/* Makes all ranks replan without GPUs. All ranks reach this decision, because
 * they know the same results. */
static mca_coll_mrail_step_t refuse_devices(mca_coll_mrail_op_t *op,
                                            const char *reason)
{
    mca_coll_mrail_module_t *module = op->module;

    if (mca_coll_mrail_settings.verbose > 0) {
        mca_coll_mrail_log(module, "no relays in device memory", reason);
    }
    mca_coll_mrail_pools_release_device(module);
    module->topology->gpus->is_refused = 1;
    mca_coll_mrail_schedule_discard_warm_start(module->schedule);
    return MCA_COLL_MRAIL_PLAN;
}

/* Begins to create the pool if the schedule has flows and the existing pool is
 * too small. All ranks compute the same shape, because they have the same
 * schedule. */
mca_coll_mrail_step_t mca_coll_mrail_need_pool(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    const mca_coll_mrail_schedule_t *schedule = module->schedule;
    mca_coll_mrail_pool_t *pool = mca_coll_mrail_pool(module);
    mrail_relay_shape_t wanted;

    if (schedule->num_flows == 0) {
        return mca_coll_mrail_go(op);
    }
    if (mca_coll_mrail_pool_shape(module->topology, schedule->max_channels,
                                  is_device(module), &wanted) < 0) {
        /* A schedule in host memory fits. */
        return refuse_devices(op, "coll_mrail_relay_memory is too small");
    }
    if (pool->relay != NULL && wanted.in_slots <= pool->shape.in_slots) {
        return mca_coll_mrail_go(op);
    }
    pool->shape = wanted;
    return MCA_COLL_MRAIL_NAME;
}

/* ---- handles ---- */

static size_t name_size(const mca_coll_mrail_op_t *op)
{
    return is_device(op->module) ? MRAIL_RELAY_HANDLE_SIZE
                                 : MRAIL_RELAY_NAME_SIZE;
}

static uint32_t local_self(const mca_coll_mrail_topology_t *topology)
{
    uint32_t i = 0;

    while (topology->local[i] != topology->self) {
        ++i;
    }
    return i;
}

/* Each rank chooses how it copies, because other ranks see only the result. */
static int create_device(mca_coll_mrail_pool_t *pool, const mrail_cuda_t *cuda,
                         int gpu)
{
    return (mca_coll_mrail_settings.gpu == MCA_COLL_MRAIL_GPU_KERNEL)
               ? mrail_cuda_relay_kernel_create(cuda, gpu, &pool->memory)
               : mrail_cuda_relay_create(cuda, gpu, &pool->memory);
}

/* Allocates slots on this rank's GPU. */
static int alloc_device(mca_coll_mrail_module_t *module, void *handle)
{
    const mca_coll_mrail_topology_t *topology = module->topology;
    mca_coll_mrail_pool_t *pool = &module->device_pool;
    const mrail_cuda_t *cuda = mrail_cuda_find();
    int ret = (cuda != NULL && module->gpu >= 0) ? 0 : -ENODEV;

    if (ret == 0) {
        ret = create_device(pool, cuda, module->gpu);
    }
    if (ret == 0 && topology->num_nodes > 1 &&
        !mrail_cuda_relay_can_receive(pool->memory)) {
        ret = -EOPNOTSUPP;
    }
    if (ret == 0) {
        ret = pool->memory->ops->alloc(pool->memory, &pool->shape,
                                       local_self(topology), handle);
    }
    if (ret == 0 && topology->num_nodes > 1) {
        mca_coll_mrail_net_slots_t slots = {.num_areas = 1};
        void *area;

        mrail_cuda_relay_area(pool->memory, &area, &slots.area_size);
        slots.base = area;
        ret =
            mca_coll_mrail_net_create(module, &pool->shape, &slots, &pool->net);
    }
    if (ret == 0 && pool->net != NULL) {
        ret = mca_coll_mrail_net_register(pool->net);
    }
    return ret;
}

/* Fills in the handle of this rank's memory. If the allocation or registration
 * fails, the handle is invalid, and import() fails on all ranks of the node
 * before they import anything. No rank still
 * uses the old memory, because each rank completed its part of all exchanges
 * before it agreed on the new schedule. */
static void name_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_module_t *module = op->module;
    mca_coll_mrail_pool_t *pool = mca_coll_mrail_pool(module);
    mrail_relay_shape_t shape = pool->shape;

    memset(mine, 0, name_size(op));
    if (is_device(module)) {
        mca_coll_mrail_pools_release_device(module);
        pool->shape = shape;
        module->is_ready = alloc_device(module, mine) == 0;
    } else {
        release_host(module);
        pool->shape = shape;
        module->is_ready =
            pool->memory->ops->alloc(pool->memory, &shape,
                                     local_self(module->topology), mine) == 0;
    }
    if (!module->is_ready) {
        memset(mine, 0, name_size(op));
    }
}

static int import(mca_coll_mrail_module_t *module, mca_coll_mrail_pool_t *pool)
{
    const mca_coll_mrail_topology_t *topology = module->topology;
    const void *handles[MRAIL_RELAY_MAX_LOCAL];

    for (uint32_t i = 0; i < topology->num_local; ++i) {
        handles[i] =
            mca_coll_mrail_gather_block(&module->gather, topology->local[i]);
    }
    return pool->memory->ops->import(pool->memory, &pool->shape,
                                     local_self(topology), handles);
}

/* Chunks in host memory are READ between nodes if they are large enough. All
 * ranks make the same decision, because all chunks have the same size. */
static int need_net(mca_coll_mrail_module_t *module,
                    mca_coll_mrail_pool_t *pool)
{
    const mca_coll_mrail_topology_t *topology = module->topology;
    mca_coll_mrail_net_slots_t slots = {.num_areas = topology->num_local};

    if (pool->net != NULL || topology->num_nodes < 2 || !topology->has_reads ||
        pool->shape.chunk < MCA_COLL_MRAIL_READ_MIN) {
        return 0;
    }
    slots.base = mrail_relay_memory_slots(pool->memory, &slots.area_size);
    return mca_coll_mrail_net_create(module, &pool->shape, &slots, &pool->net);
}

/* Reports if copy engines copy because the driver rejects the kernel that the
 * user selected. */
static void check_kernel(const mca_coll_mrail_module_t *module,
                         const mca_coll_mrail_pool_t *pool)
{
    if (mca_coll_mrail_settings.gpu == MCA_COLL_MRAIL_GPU_KERNEL &&
        mca_coll_mrail_settings.verbose > 0 &&
        !mrail_cuda_relay_kernel_is_used(pool->memory)) {
        mca_coll_mrail_log(module, "copy engines copy",
                           "the driver rejects the relay kernel, or mrail was "
                           "built without nvcc");
    }
}

static int attach(mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_topology_t *topology = module->topology;
    const mca_coll_mrail_schedule_t *schedule = module->schedule;
    mca_coll_mrail_pool_t *pool = mca_coll_mrail_pool(module);
    int ret = import(module, pool);

    if (ret == 0 && is_device(module)) {
        check_kernel(module, pool);
    } else if (ret == 0) {
        ret = need_net(module, pool);
    }
    if (ret == 0) {
        ret = mrail_relay_create(
            pool->memory, topology->num_ranks, topology->local, topology->self,
            (pool->net != NULL) ? &mca_coll_mrail_read_relay_ops
                                : &mca_coll_mrail_relay_ops,
            module, &pool->relay);
    }
    return (ret == 0) ? mrail_relay_reserve(pool->relay, schedule->flows,
                                            schedule->num_flows)
                      : ret;
}

static mca_coll_mrail_step_t name_take(mca_coll_mrail_op_t *op)
{
    op->module->is_ready = op->module->is_ready && attach(op->module) == 0;
    return MCA_COLL_MRAIL_SHARED;
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_name = {
    .size = name_size,
    .fill = name_fill,
    .take = name_take,
};

/* ---- agreement ---- */

static void shared_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_set_ok(&op->module->gather, op->module->is_ready);
}

static mca_coll_mrail_step_t shared_take(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    mca_coll_mrail_pool_t *pool = mca_coll_mrail_pool(module);

    if (pool->memory != NULL) {
        mrail_relay_memory_seal(pool->memory);
    }
    if (mca_coll_mrail_all_ok(&module->gather)) {
        return mca_coll_mrail_go(op);
    }
    if (is_device(module)) {
        return refuse_devices(op, "a rank cannot allocate, register or import "
                                  "them");
    }
    return mca_coll_mrail_step_back_off(
        op, "the ranks of a node cannot share memory (is /dev/shm full, "
            "or does each container have its own?)");
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_shared = {
    .fill = shared_fill,
    .take = shared_take,
};
