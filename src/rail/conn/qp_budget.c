/*
 * Enforces the QP budget: selects the lanes that must release their QPs for
 * other lanes. recovery/evict.c evicts them.
 */
#include "config.h"
#include "rail/conn/conn.h"

/* Minimum interval between searches. */
#define MRAIL_EVICT_SEARCH (100 * MRAIL_NS_PER_MS)

#define MRAIL_EVICT_BATCH 4 /* maximum lanes evicted by a search */

#define MRAIL_EVICT_VISITS 256 /* maximum lanes visited by a search */

typedef struct mrail_evict_search {
    mrail_lane_t *lanes[MRAIL_EVICT_BATCH]; /* the best lanes to evict */
    unsigned count;
} mrail_evict_search_t;

void mrail_ctl_budget(mrail_engine_t *engine)
{
    if (!engine->budget_warned) {
        engine->budget_warned = 1;
        mrail_error("UCX_MRAIL_MAX_QPS=%u is too small: this process has more "
                    "peers than that, and each peer needs a QP; set it to at "
                    "least the number of processes in the job",
                    engine->config.max_qps);
    }
}

/* Returns 1 if a lane that must be evicted still has its QP. */
static int mrail_evict_has_forced(const mrail_engine_t *engine)
{
    unsigned index = engine->evict_serial & 0xffff;
    const mrail_lane_t *lane =
        (engine->evict_serial != 0) ? engine->lanes[index] : NULL;

    return (lane != NULL) && (lane->qp_serial == engine->evict_serial) &&
           lane->evict_forced;
}

/* Returns 1 if the lane may be evicted. Unless `hard` is set, the lane must not
 * have posted a request since a search last visited it. */
static int mrail_evict_is_candidate(mrail_lane_t *lane, int hard)
{
    uint64_t used;

    if ((lane == NULL) || (lane->slot == 0) || (lane->state != MRAIL_LANE_UP) ||
        mrail_peer_has_failed(lane->peer)) {
        return 0;
    }
    used = __atomic_load_n(&lane->used, __ATOMIC_RELAXED);
    hard |= (used == lane->used_at_search);
    lane->used_at_search = used;
    return hard;
}

/* Adds a candidate to the `max` least recently used lanes, oldest first. */
static void mrail_evict_add(mrail_evict_search_t *search, mrail_lane_t *lane,
                            unsigned max)
{
    unsigned at = search->count;

    while ((at != 0) &&
           (lane->used_at_search < search->lanes[at - 1]->used_at_search)) {
        --at;
    }
    if (at == max) {
        return;
    }
    search->count = MRAIL_MIN(search->count + 1, max);
    for (unsigned i = search->count - 1; i > at; --i) {
        search->lanes[i] = search->lanes[i - 1];
    }
    search->lanes[at] = lane;
}

/* Continues the search where the last one ended. Visits a bounded number of
 * lanes, so its time does not depend on the number of peers. */
static void mrail_evict_search(mrail_engine_t *engine, int hard,
                               mrail_evict_search_t *search)
{
    unsigned visits = MRAIL_MIN(engine->num_lanes, MRAIL_EVICT_VISITS);

    search->count = 0;
    while (visits-- > 0) {
        mrail_lane_t *lane;

        engine->evict_next %= engine->num_lanes;
        lane = engine->lanes[engine->evict_next++];
        if (mrail_evict_is_candidate(lane, hard)) {
            mrail_evict_add(search, lane, hard ? 1 : MRAIL_EVICT_BATCH);
        }
    }
}

int mrail_evict_lanes(mrail_engine_t *engine, int hard)
{
    mrail_ns_t now_ns = mrail_clock_now();
    mrail_evict_search_t search;

    if ((!hard && (now_ns < engine->evict_search_ns + MRAIL_EVICT_SEARCH)) ||
        (hard && mrail_evict_has_forced(engine))) {
        return engine->num_further != 0;
    }
    engine->evict_search_ns = now_ns;
    mrail_evict_search(engine, hard, &search);
    for (unsigned i = 0; i < search.count; ++i) {
        search.lanes[i]->evict_forced = (uint8_t)hard;
        engine->evict_serial =
            hard ? search.lanes[i]->qp_serial : engine->evict_serial;
        mrail_lane_event(search.lanes[i], MRAIL_LANE_EV_WANT, "least used");
    }
    return engine->num_further != 0;
}
