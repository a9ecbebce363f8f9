/* The exchange of GPUs and their links. It takes place before the first plan
 * for device memory, and when a rank uses another GPU. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "cuda/device.h"

#include <string.h>

int mca_coll_mrail_gpus_reserve(mca_coll_mrail_module_t *module)
{
    mca_coll_mrail_topology_t *topology = module->topology;

    if (!topology->has_gpus) {
        return 0;
    }
    if (mca_coll_mrail_gather_reserve(
            &module->gather, topology->num_ranks * sizeof(mrail_cuda_links_t)) <
        0) {
        return -ENOMEM;
    }
    return mca_coll_mrail_gpus_create(topology->num_ranks, topology->num_nodes,
                                      topology->node_of, topology->file,
                                      topology->world, &topology->gpus);
}

/* Returns the GPU of the buffers, or -1 if they are on several GPUs. *is_none_p
 * receives 1 if they are on no GPU. */
static int buffer_gpu(const mca_coll_mrail_op_t *op, int *is_none_p)
{
    const mca_coll_mrail_shadows_t *shadows = op->shadows;
    const mca_coll_mrail_shadow_t *a, *b;

    *is_none_p = shadows == NULL;
    if (shadows == NULL) {
        return -1;
    }
    a = shadows->send.is_device ? &shadows->send : &shadows->recv;
    b = shadows->recv.is_device ? &shadows->recv : &shadows->send;
    return (a->gpu == b->gpu) ? a->gpu : -1;
}

int mca_coll_mrail_gpu_is_new(const mca_coll_mrail_op_t *op)
{
    const mca_coll_mrail_gpus_t *gpus = op->module->topology->gpus;
    int is_none, gpu = buffer_gpu(op, &is_none);

    return gpus != NULL && gpus->is_known && !gpus->is_refused && !is_none &&
           op->module->gpu != gpu;
}

/* Returns the GPU of the current context, or -1. A rank without bytes can still
 * be a relay. */
static int current_gpu(const mrail_cuda_t *cuda)
{
    CUdevice device;

    return (cuda->cuCtxGetDevice(&device) == CUDA_SUCCESS) ? device : -1;
}

static size_t gpus_size(const mca_coll_mrail_op_t *op)
{
    return sizeof(mrail_cuda_links_t);
}

static void gpus_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_module_t *module = op->module;
    const mrail_cuda_t *cuda = mrail_cuda_find();
    mrail_cuda_links_t links = {0};
    CUdevice device;
    char pci[32];
    int is_none, gpu = buffer_gpu(op, &is_none);

    if (is_none && cuda != NULL) {
        gpu = current_gpu(cuda);
    }
    module->gpu = gpu;
    if (cuda != NULL && gpu >= 0 &&
        cuda->cuDeviceGet(&device, gpu) == CUDA_SUCCESS &&
        cuda->cuDeviceGetPCIBusId(pci, sizeof(pci), device) == CUDA_SUCCESS) {
        mrail_cuda_links_read(pci, &links);
    }
    memcpy(mine, &links, sizeof(links));
}

static mca_coll_mrail_step_t gpus_take(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    mca_coll_mrail_gpus_t *gpus = module->topology->gpus;

    for (uint32_t i = 0; i < gpus->num_ranks; ++i) {
        memcpy(&gpus->entries[i],
               mca_coll_mrail_gather_block(&module->gather, i),
               sizeof(*gpus->entries));
    }
    mca_coll_mrail_gpus_set(gpus);
    mca_coll_mrail_pools_release_device(module);
    mca_coll_mrail_schedule_discard_warm_start(module->schedule);
    return mca_coll_mrail_need_plan(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_gpus = {
    .size = gpus_size,
    .fill = gpus_fill,
    .take = gpus_take,
};
