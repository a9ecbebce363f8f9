/*
 * Receive buffers of a lane in the rail's SRQ, and the credits that they back.
 */
#include "config.h"
#include "rail/conn/lane_buffers.h"

#include "rail/verbs/alloc.h"

#include <errno.h>
#include <stdlib.h>

static int mrail_rx_start(mrail_engine_t *engine, mrail_rail_t *rail,
                          mrail_rx_t *rx, uint32_t lkey)
{
    mrail_list_init(&rx->am.list);
    rx->rail = rail;
    rx->orphan = 0;
    rx->lane = NULL;
    rx->hdr = (mrail_data_hdr_t *)((char *)rx + MRAIL_RX_HEADROOM);
    rx->sge.addr = (uintptr_t)rx->hdr;
    /* The buffer size is rounded up, so a buffer can hold more than a segment.
     * This limit makes the device refuse a longer message. */
    rx->sge.length = (uint32_t)engine->config.seg_size;
    rx->sge.lkey = lkey;
    rx->wr.wr_id = (uintptr_t)rx | MRAIL_WR_RECV;
    rx->wr.next = NULL;
    rx->wr.sg_list = &rx->sge;
    rx->wr.num_sge = 1;
    return mrail_rail_post_recv(rail, &rx->wr);
}

/* Creates `count` receive buffers and posts them to the rail's SRQ. */
static int mrail_lane_make_buffers(mrail_engine_t *engine, mrail_rail_t *rail,
                                   unsigned count)
{
    size_t stride = engine->rx_stride;
    const mrail_rx_chunk_t *chunk;
    int ret;

    if (count > rail->srq_depth - rail->srq_used) {
        return -ENOBUFS;
    }
    chunk = mrail_rail_add_chunk(rail, count * stride);
    if (chunk == NULL) {
        return -errno;
    }
    for (unsigned i = 0; i < count; ++i) {
        mrail_rx_t *rx = (mrail_rx_t *)((char *)chunk->base + i * stride);

        ret = mrail_rx_start(engine, rail, rx, chunk->mr->lkey);
        if (ret != 0) {
            return ret;
        }
        ++rail->srq_used;
        ++rail->srq_spare;
    }
    return 0;
}

int mrail_lane_add_buffers(mrail_engine_t *engine, mrail_lane_t *lane,
                           unsigned count)
{
    mrail_rail_t *rail = lane->rail;
    int ret;

    if (mrail_rail_spare(rail) < count) {
        ret = mrail_lane_make_buffers(engine, rail, count - rail->srq_spare);
        if (ret != 0) {
            return ret;
        }
    }
    rail->srq_spare -= count;
    lane->buffers += count;
    return 0;
}

mrail_am_pool_t mrail_lane_pool(const mrail_engine_t *engine,
                                mrail_rail_t *rail)
{
    return (mrail_am_pool_t){.depth = rail->srq_depth,
                             .leased = rail->srq_used - mrail_rail_spare(rail),
                             .num_lanes = rail->num_am_lanes,
                             .credits = engine->config.am_credits};
}

int mrail_lane_reserve_buffers(mrail_engine_t *engine, mrail_lane_t *lane,
                               unsigned num_pairs)
{
    mrail_rail_t *rail = lane->rail;
    mrail_am_pool_t pool = mrail_lane_pool(engine, rail);
    unsigned wanted;
    int ret;

    if (lane->slot >= num_pairs) {
        mrail_am_lane_start(&lane->am, 0);
        return 0;
    }
    mrail_am_lane_start(&lane->am,
                        mrail_am_lane_window(&pool, lane->slot == 0));
    wanted = lane->am.window + MRAIL_AM_LANE_RESERVE;
    ret = mrail_lane_add_buffers(engine, lane,
                                 MRAIL_MIN(wanted, pool.depth - pool.leased));
    if (ret != 0) {
        return ret;
    }
    lane->unbacked = wanted - lane->buffers;
    __atomic_store_n(&rail->srq_short, rail->srq_short + lane->unbacked,
                     __ATOMIC_RELAXED);
    ++rail->num_am_lanes;
    return 0;
}

void mrail_lane_return_buffers(mrail_lane_t *lane, unsigned count)
{
    mrail_rail_t *rail = lane->rail;
    unsigned unbacked = MRAIL_MIN(count, lane->unbacked);

    lane->unbacked -= unbacked;
    __atomic_store_n(&rail->srq_short, rail->srq_short - unbacked,
                     __ATOMIC_RELAXED);
    count = MRAIL_MIN(count - unbacked, lane->buffers);
    lane->buffers -= count;
    rail->srq_spare += count;
}
