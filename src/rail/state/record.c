#include "config.h"
#include "rail/state/record.h"

#include "base/seq.h"

#include <string.h>

/* Starts a batch after the messages that were not recorded. A batch whose last
 * message is outstanding is closed, and remains. */
static void record_skip(mrail_lane_t *lane)
{
    if (lane->batch.post_ns == 0) {
        lane->batch.am_begin = lane->am.sent;
        lane->batch.byte_begin = lane->am_carried;
    }
}

void mrail_record_switch(mrail_engine_t *engine, int on)
{
    mrail_ring_t *from = on ? &engine->idle_ring : &engine->ring;
    mrail_ring_t *to = on ? &engine->ring : &engine->idle_ring;
    const mrail_peer_t *peer;

    if (from->header == NULL) {
        return;
    }
    *to = *from;
    memset(from, 0, sizeof(*from));
    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        mrail_for_each_lane(lane, peer) {
            record_skip(lane);
        }
    }
}

void mrail_record_batch_end(mrail_lane_t *lane)
{
    mrail_lane_batch_t *batch = &lane->batch;

    if (!mrail_record_is_on(lane->peer->engine) || (batch->post_ns != 0)) {
        return;
    }
    batch->post_ns = mrail_clock_now();
    batch->sq_end = lane->sq_posted + 1;
    batch->am_end = lane->am.sent;
    batch->byte_end = lane->am_carried;
}

void mrail_record_batch(mrail_lane_t *lane, int status, mrail_ns_t *now_ns)
{
    mrail_lane_batch_t *batch = &lane->batch;
    mrail_engine_t *engine = lane->peer->engine;
    unsigned count = (uint16_t)(batch->am_end - batch->am_begin);
    uint64_t bytes = batch->byte_end - batch->byte_begin;

    if ((batch->post_ns == 0) ||
        mrail_seq32_before(lane->sq_done, batch->sq_end)) {
        return;
    }
    if ((count != 0) && (status == 0) && mrail_record_is_on(engine)) {
        if (*now_ns == 0) {
            *now_ns = mrail_clock_now();
        }
        mrail_ring_write(
            &engine->ring, batch->post_ns, *now_ns, lane->peer->id,
            lane->record_tail +
                mrail_ring_tail(
                    (uint32_t)MRAIL_MIN(bytes, (uint64_t)UINT32_MAX), 0, 0,
                    MRAIL_RING_AM, MRAIL_MIN(count, 255u) - 1));
    }
    batch->am_begin = batch->am_end;
    batch->byte_begin = batch->byte_end;
    batch->post_ns = 0;
}
