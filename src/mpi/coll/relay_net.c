#include "config.h"
#include "mpi/coll/relay_net.h"

#include "mpi/coll/direct.h"
#include "mpi/coll/relay_net_internal.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>

/* ---- life cycle ---- */

static int alloc_arrays(mca_coll_mrail_net_t *net, size_t num_requests)
{
    size_t ranks = net->module->topology->num_ranks;

    net->areas = calloc(net->slots.num_areas, sizeof(*net->areas));
    net->peers = calloc(ranks, sizeof(*net->peers));
    net->place = calloc(ranks, sizeof(*net->place));
    net->requests = calloc(num_requests, sizeof(*net->requests));
    return net->areas != NULL && net->peers != NULL && net->place != NULL &&
           net->requests != NULL;
}

int mca_coll_mrail_net_create(mca_coll_mrail_module_t *module,
                              const mrail_relay_shape_t *shape,
                              const mca_coll_mrail_net_slots_t *slots,
                              mca_coll_mrail_net_t **net_p)
{
    /* one request for the header and one for the payload of each slot that this
     * rank sends or fills */
    size_t num =
        2 * ((size_t)shape->num_local * shape->out_slots + shape->in_slots);
    mca_coll_mrail_net_t *net = calloc(1, sizeof(*net));

    if (net == NULL) {
        return -ENOMEM;
    }
    net->module = module;
    net->slots = *slots;
    net->is_device = shape->is_external;
    net->sizes = (mca_coll_mrail_relay_sizes_t){
        .chunk = shape->chunk,
        .header = shape->is_external ? 0 : MRAIL_RELAY_HEADER};
    if (!alloc_arrays(net, num)) {
        mca_coll_mrail_net_destroy(net);
        return -ENOMEM;
    }
    mrail_list_init(&net->idle);
    mrail_list_init(&net->active);
    for (size_t i = 0; i < num; ++i) {
        net->requests[i].net = net;
        mrail_list_add_tail(&net->idle, &net->requests[i].node);
    }
    *net_p = net;
    return 0;
}

static void areas_release(mca_coll_mrail_net_t *net)
{
    for (unsigned i = 0; i < net->slots.num_areas; ++i) {
        if (net->areas[i].mem != NULL) {
            mca_coll_mrail_direct_ops()->mem_put(net->areas[i].mem);
        }
    }
}

void mca_coll_mrail_net_destroy(mca_coll_mrail_net_t *net)
{
    if (net != NULL) {
        if (net->areas != NULL) {
            areas_release(net);
        }
        free(net->areas);
        free(net->peers);
        free(net->place);
        free(net->requests);
        free(net->channels);
        free(net->quotas);
        free(net);
    }
}

/* ---- registration ---- */

static int area_register(mca_coll_mrail_net_t *net, unsigned i)
{
    const uct_mrail_direct_ops_t *ops = mca_coll_mrail_direct_ops();
    mca_coll_mrail_net_area_t *area = &net->areas[i];
    int ret = 0;

    if (area->mem == NULL) {
        ret = (ops != NULL)
                  ? ops->mem_get(net->slots.base + i * net->slots.area_size,
                                 net->slots.area_size, &area->mem)
                  : -EOPNOTSUPP;
    }
    if (ret < 0) {
        area->mem = NULL;
        area->is_refused = 1;
    }
    return ret;
}

int mca_coll_mrail_net_register(mca_coll_mrail_net_t *net)
{
    int ret = 0;

    for (unsigned i = 0; i < net->slots.num_areas && ret == 0; ++i) {
        ret = area_register(net, i);
    }
    return ret;
}

uct_mrail_direct_mem_t *mca_coll_mrail_net_mem(mca_coll_mrail_net_t *net,
                                               const void *buffer)
{
    size_t offset = (uintptr_t)buffer - (uintptr_t)net->slots.base;
    unsigned i = (unsigned)(offset / net->slots.area_size);

    if (!net->areas[i].is_refused) {
        (void)area_register(net, i);
    }
    return net->areas[i].mem;
}

/* ---- quotas ---- */

static int need_channels(mca_coll_mrail_net_t *net, unsigned count)
{
    if (count > net->max_channels) {
        if (!mrail_grow(&net->channels, count, sizeof(*net->channels)) ||
            !mrail_grow(&net->quotas, count, sizeof(*net->quotas))) {
            return -ENOMEM;
        }
        net->max_channels = count;
    }
    return 0;
}

void mca_coll_mrail_net_begin(mca_coll_mrail_net_t *net,
                              const mca_coll_mrail_schedule_t *schedule)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    int is_known = need_channels(net, schedule->channels[topology->self]) == 0;

    net->num_channels = mca_coll_mrail_relay_quotas(
        topology, schedule->flows, is_known ? schedule->num_flows : 0,
        &net->sizes, net->place, net->channels);
    for (unsigned i = 0; i < net->num_channels; ++i) {
        net->quotas[i] = NULL;
    }
    net->until_ns = mca_coll_mrail_direct_until(schedule);
}

void mca_coll_mrail_net_end(mca_coll_mrail_net_t *net)
{
    for (unsigned i = 0; i < net->num_channels; ++i) {
        uint64_t carried[UCT_MRAIL_MAX_RAILS] = {0};

        if (net->quotas[i] != NULL) {
            mca_coll_mrail_direct_ops()->quota_destroy(net->quotas[i], carried);
        }
        mca_coll_mrail_count_rails(net->channels[i].bytes, carried);
    }
    net->num_channels = 0;
}

uct_mrail_direct_quota_t *mca_coll_mrail_net_quota(mca_coll_mrail_net_t *net,
                                                   uint32_t from)
{
    uint32_t i = net->place[from];

    if (i == MRAIL_RELAY_NONE) {
        return NULL;
    }
    if (net->quotas[i] == NULL &&
        mca_coll_mrail_direct_ops()->quota_create(
            net->channels[i].bytes, net->until_ns, &net->quotas[i]) < 0) {
        net->quotas[i] = NULL;
    }
    return net->quotas[i];
}
