/* Posts the READs that follow the WRITEs of a lane, and make the written data
 * visible. */
#ifndef MRAIL_RAIL_DATA_VISIBLE_H
#define MRAIL_RAIL_DATA_VISIBLE_H

#include "rail/state/engine.h"

/* Posts a READ that makes the lane's writes visible. `flush`, which may be
 * NULL, waits for it. Returns 0 or -EAGAIN. */
int mrail_rma_post_read(mrail_lane_t *lane, mrail_flush_t *flush,
                        mrail_ns_t now_ns) MRAIL_DATA;

/* Posts a READ on every lane with writes of unknown visibility. Returns 1 if
 * all are posted. */
int mrail_rma_post_visible(mrail_peer_t *peer, mrail_flush_t *flush,
                           mrail_ns_t now_ns) MRAIL_DATA;

#endif
