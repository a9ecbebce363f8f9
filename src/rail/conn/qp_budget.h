/*
 * The QP budget: which lanes give up their QPs for others. recovery/evict.c
 * evicts them.
 */
#ifndef MRAIL_RAIL_CONN_QP_BUDGET_H
#define MRAIL_RAIL_CONN_QP_BUDGET_H

#include "rail/state/engine.h"

/* Makes room for a lane when the QP budget is exhausted, by requesting the
 * eviction of the least recently used lanes. If `hard` is set, the lane is the
 * first one to its peer, and recently used lanes are candidates as well.
 * Returns 0 if no lane can be evicted. Control lock held. */
int mrail_evict_make_room(mrail_engine_t *engine, int hard) MRAIL_CTL;

/* Logs once that the QP budget is exhausted. Control lock held. */
void mrail_ctl_budget(mrail_engine_t *engine) MRAIL_CTL;

#endif
