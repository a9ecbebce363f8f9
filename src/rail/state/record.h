/*
 * Records of the trace ring (telemetry/ring.h): one for each chunk, and one for
 * each batch of active messages of a lane. The caller holds the data-path lock.
 * The functions that record return immediately if there is no ring, or if
 * recording is off.
 *
 * Most active messages have no completion of their own, so a batch ends with a
 * message whose completion the lane requests anyway. While this completion is
 * outstanding, the batch is closed, and later messages belong to the next one.
 */
#ifndef MRAIL_RAIL_STATE_RECORD_H
#define MRAIL_RAIL_STATE_RECORD_H

#include "rail/state/engine.h"

_Static_assert(((int)MRAIL_RING_PUT == (int)MRAIL_OP_PUT) &&
                   ((int)MRAIL_RING_GET == (int)MRAIL_OP_GET) &&
                   ((int)MRAIL_RING_READ == (int)MRAIL_OP_VISIBLE),
               "kinds of operations must equal kinds of records");
_Static_assert(MRAIL_MAX_SLOTS <= MRAIL_RING_LANES,
               "a record must be able to hold any lane number");

static inline int mrail_record_is_on(const mrail_engine_t *engine)
{
    return MRAIL_TELEMETRY && (engine->ring.header != NULL);
}

/* Precomputes the last word of the lane's records, except for the length, the
 * kind, and the message count of a batch. */
static inline void mrail_record_lane(mrail_lane_t *lane)
{
    lane->record_tail = mrail_ring_tail(0, lane->slot, lane->rail->index, 0, 1);
}

/* Records a chunk that has completed with `status`. */
static inline void mrail_record_chunk(const mrail_chunk_t *chunk, int status,
                                      mrail_ns_t now_ns)
{
    const mrail_lane_t *lane = chunk->lane;
    mrail_engine_t *engine = lane->peer->engine;
    unsigned kind = (unsigned)chunk->op->kind;

    if (MRAIL_UNLIKELY(!mrail_record_is_on(engine))) {
        return;
    }
    if (MRAIL_UNLIKELY(status != 0)) {
        kind |= MRAIL_RING_FAILED;
    }
    mrail_ring_write(&engine->ring, chunk->post_ns, now_ns, lane->peer->id,
                     lane->record_tail |
                         mrail_ring_tail(chunk->length, 0, 0, kind, 0));
}

/* Switches recording on or off. The ring and its records remain. */
void mrail_record_switch(mrail_engine_t *engine, int on);

/* Ends the batch with the request that the lane posts next. Reads the clock. */
void mrail_record_batch_end(mrail_lane_t *lane);

/* Records the batch if its last message is complete. `status` is 0 on success.
 * Reads the clock if *now_ns is 0. */
void mrail_record_batch(mrail_lane_t *lane, int status, mrail_ns_t *now_ns);

#endif
