/* Posts chunks, which are parts of operations, and handles their
 * completions. */
#ifndef MRAIL_RAIL_DATA_CHUNK_H
#define MRAIL_RAIL_DATA_CHUNK_H

#include "rail/state/engine.h"

/* Chunks of at least this many bytes measure the rate of their lane. */
#define MRAIL_RMA_MEASURED 4096u

/* Handles a chunk that its device has returned, with `status` 0 or -errno. A
 * chunk that failed waits for its replay, unless its operation is cancelled. */
void mrail_rma_chunk_done(mrail_chunk_t *chunk, int status,
                          mrail_ns_t now_ns) MRAIL_DATA;

/* Removes the operation, which has no chunks left, from its peer. */
void mrail_op_close(mrail_op_t *op) MRAIL_DATA;

/* Closes the operation, and completes it with `status`. */
void mrail_op_finish(mrail_op_t *op, int status) MRAIL_DATA MRAIL_NO_CTL;

/* Posts the next `length` bytes of the operation. Returns 0, or -EAGAIN with
 * the operation unchanged if memory runs out or the lane has failed. */
int mrail_chunk_post(mrail_op_t *op, mrail_lane_t *lane, size_t length,
                     mrail_ns_t now_ns) MRAIL_DATA;

/* Frees the chunk, and finishes its operation if this was the last chunk. */
void mrail_chunk_finish(mrail_chunk_t *chunk) MRAIL_DATA MRAIL_NO_CTL;

/* Posts the chunk, whose bytes start at the cursor, on the lane. Returns 0, or
 * -EAGAIN if the lane failed and the chunk was not posted. */
int mrail_chunk_send(mrail_chunk_t *chunk, mrail_lane_t *lane,
                     mrail_cursor_t *cursor, mrail_ns_t now_ns) MRAIL_DATA;

#endif
