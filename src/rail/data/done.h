/* Completions of operations and flushes. */
#ifndef MRAIL_RAIL_DATA_DONE_H
#define MRAIL_RAIL_DATA_DONE_H

#include "rail/state/engine.h"

/* Releases an operation, whose peer may already have been freed. */
void mrail_op_release(mrail_engine_t *engine, mrail_op_t *op);

/* Completes `done` immediately if its iface is making progress, and otherwise
 * in the iface's next progress call. The control lock must not be held. */
void mrail_done_finish(mrail_engine_t *engine, mrail_done_t *done,
                       int status) MRAIL_DATA MRAIL_NO_CTL;

/* Completes `done` in the next progress call of its iface, or immediately if it
 * has no callback. Calls no callbacks. */
void mrail_done_defer(mrail_engine_t *engine, mrail_done_t *done,
                      int status) MRAIL_DATA;

/* Completes `done` now: calls the callback, then frees the operation or
 * group. */
void mrail_done_run(mrail_engine_t *engine,
                    mrail_done_t *done) MRAIL_DATA MRAIL_NO_CTL;

#endif
