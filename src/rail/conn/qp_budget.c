/*
 * The QP budget: which lanes give up their QPs for others. recovery/evict.c
 * evicts them.
 */
#include "config.h"
#include "rail/conn/qp_budget.h"

#include "rail/state/signals.h"

/* Minimum interval between searches. */
#define MRAIL_EVICT_SEARCH (100 * MRAIL_NS_PER_MS)

#define MRAIL_EVICT_BATCH 4 /* lanes that one search may evict */

typedef struct mrail_evict_search {
    mrail_lane_t *lane;   /* the best lane to evict */
    unsigned num_further; /* lanes that could be evicted, in use or not */
    unsigned num_forced;  /* those of them that must already go */
} mrail_evict_search_t;

void mrail_ctl_budget(mrail_engine_t *engine)
{
    if (!engine->budget_warned) {
        engine->budget_warned = 1;
        mrail_error("UCX_MRAIL_MAX_QPS=%u does not suffice: this process has "
                    "more peers than that, and each needs a QP; set it to the "
                    "number of processes in the job or more",
                    engine->config.max_qps);
    }
}

void mrail_evict_request(mrail_lane_t *lane)
{
    mrail_engine_t *engine = lane->peer->engine;

    __atomic_fetch_or(&lane->peer->evict_mask, 1ull << lane->slot,
                      __ATOMIC_RELEASE);
    mrail_peer_check(lane->peer);
    mrail_wakeup_all(engine, MRAIL_ARMED_OWN);
}

/* Returns the better one of two lanes to evict; NULL means none. */
static mrail_lane_t *mrail_evict_older(mrail_lane_t *a, mrail_lane_t *b)
{
    if ((a == NULL) || (b == NULL)) {
        return (a == NULL) ? b : a;
    }
    return (b->used_at_search < a->used_at_search) ? b : a;
}

static void mrail_evict_search_peer(mrail_peer_t *peer, int hard, int first,
                                    mrail_evict_search_t *search)
{
    for (unsigned slot = 1; slot < peer->slot_limit; ++slot) {
        mrail_lane_t *lane = peer->lanes[slot];

        if (lane == NULL) {
            continue;
        }
        if ((lane->state == MRAIL_LANE_IDLE) ||
            (lane->state == MRAIL_LANE_FAILED)) {
            continue;
        }
        ++search->num_further;
        search->num_forced += lane->evict_forced;
        if ((lane->state != MRAIL_LANE_UP) || lane->evict_local ||
            lane->evict_remote) {
            continue;
        }
        if (first) {
            uint64_t used = __atomic_load_n(&lane->used, __ATOMIC_RELAXED);

            lane->idle = (used == lane->used_at_search);
            lane->used_at_search = used;
        }
        if (lane->idle || hard) {
            search->lane = mrail_evict_older(search->lane, lane);
        }
    }
}

static mrail_evict_search_t mrail_evict_search(mrail_engine_t *engine, int hard,
                                               int first)
{
    mrail_evict_search_t search = {NULL, 0, 0};
    mrail_peer_t *peer;

    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        if (__atomic_load_n(&peer->failed, __ATOMIC_RELAXED) != 0) {
            continue; /* this peer is returning all of its lanes */
        }
        mrail_evict_search_peer(peer, hard, first, &search);
    }
    return search;
}

int mrail_evict_make_room(mrail_engine_t *engine, int hard)
{
    mrail_ns_t now_ns = mrail_clock_now();
    mrail_evict_search_t search;
    int num_evicted = 0;

    if (!hard && (now_ns < engine->evict_search_ns + MRAIL_EVICT_SEARCH)) {
        return 1;
    }
    engine->evict_search_ns = now_ns;
    do {
        /* Only the first pass updates the idle marks. In a second pass every
         * lane would look idle. */
        search = mrail_evict_search(engine, hard, num_evicted == 0);
        if ((search.lane == NULL) || (num_evicted == MRAIL_EVICT_BATCH) ||
            (hard && (search.num_forced != 0))) {
            break;
        }
        search.lane->evict_local = 1;
        search.lane->evict_forced = (uint8_t)hard;
        mrail_evict_request(search.lane);
        ++num_evicted;
    } while (!hard);
    return search.num_further != 0;
}
