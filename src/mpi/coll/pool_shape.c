#include "config.h"
#include "mpi/coll/pool_shape.h"

#include "base/util.h"

#include <errno.h>

#define PAGE 4096u
#define MAX_BUFFERS 512u

/* Fits the relay chunks of `shape` into a rank's memory. The largest node
 * determines the result, because it has the most rings. Returns 1 if they
 * fit. */
static int fit_chunk(const mca_coll_mrail_topology_t *topology,
                     mrail_relay_shape_t *shape)
{
    mrail_relay_shape_t largest = *shape;
    uint64_t budget = topology->params.relay_memory, slots, least, chunk;

    /* If payloads are in other memory, each rank has slots for all ranks of its
     * node. */
    slots = (shape->is_external ? (uint64_t)topology->max_local : 1) *
                shape->out_slots +
            shape->in_slots;
    largest.num_local = topology->max_local;
    largest.chunk = PAGE;
    least = mrail_relay_shm_pool_size(&largest);
    if (least == 0) {
        return 0; /* the shape exceeds the limits of a pool */
    }
    least = (least + largest.num_local - 1) / largest.num_local;
    if (least > budget) {
        return 0;
    }
    chunk = (shape->is_external ? 0 : PAGE) + (budget - least) / slots;
    chunk = MRAIL_MIN(topology->params.relay_chunk_size, chunk);
    shape->chunk = (size_t)(MRAIL_MIN(chunk, MRAIL_RELAY_MAX_CHUNK) &
                            ~(uint64_t)(PAGE - 1));
    return shape->chunk > 0;
}

int mca_coll_mrail_pool_shape(const mca_coll_mrail_topology_t *topology,
                              unsigned channels, int is_external,
                              mrail_relay_shape_t *shape_p)
{
    uint64_t out =
        MRAIL_MAX(1, MRAIL_MIN(topology->params.relay_buffers, MAX_BUFFERS));
    uint64_t least = MRAIL_MAX(channels, 1);
    mrail_relay_shape_t shape = {
        .num_local = topology->num_local,
        .is_external = is_external != 0,
        .out_slots = (unsigned)out,
        .in_slots =
            (unsigned)MRAIL_MAX(MRAIL_MIN(channels * out, 2 * out), least),
    };

    if (!fit_chunk(topology, &shape)) {
        /* One in-slot per channel is enough (relay.h). */
        shape.in_slots = (unsigned)least;
        shape.out_slots = (unsigned)MRAIL_MIN(out, least);
        if (!fit_chunk(topology, &shape)) {
            return -ENOSPC;
        }
    }
    *shape_p = shape;
    return 0;
}
