#include "config.h"
#include "telemetry/capacity.h"

#include <string.h>

/* ---- the estimate ---- */

static void mrail_tele_capacity_set(mrail_tele_capacity_t *capacity,
                                    double live, uint64_t peer, unsigned peers)
{
    capacity->live = live;
    capacity->peer = peer;
    capacity->peers = peers;
    capacity->low = capacity->low_sure = 0;
    capacity->low_best = 0;
}

static void mrail_tele_capacity_low(mrail_tele_capacity_t *capacity,
                                    const mrail_tele_rate_sample_t *sample,
                                    mrail_ns_t now_ns)
{
    if (capacity->low++ == 0) {
        capacity->low_ns = now_ns;
    }
    capacity->low_sure +=
        ((sample->peers > 1) && (sample->peers >= capacity->peers)) ||
        ((sample->peer != 0) && (sample->peer == capacity->peer));
    /* The change may have begun during the first low window. */
    if ((capacity->low > 1) && (sample->rate > capacity->low_best)) {
        capacity->low_best = sample->rate;
        capacity->low_peer = sample->peer;
        capacity->low_peers = sample->peers;
    }
    if ((capacity->low_sure >= MRAIL_TELE_LOW_WINDOWS) ||
        ((capacity->low >= MRAIL_TELE_LOW_WINDOWS) &&
         (now_ns >= capacity->low_ns + MRAIL_TELE_CONFIRM_NS))) {
        mrail_tele_capacity_set(capacity, capacity->low_best,
                                capacity->low_peer, capacity->low_peers);
    }
}

void mrail_tele_capacity_add(mrail_tele_capacity_t *capacity,
                             const mrail_tele_rate_sample_t *sample,
                             mrail_ns_t now_ns)
{
    double above = sample->rate - capacity->live;

    int is_new = (capacity->live == 0) ||
                 (now_ns > capacity->last_ns + MRAIL_TELE_EXPIRE_NS);

    if (is_new) {
        mrail_tele_capacity_set(capacity, sample->rate, sample->peer,
                                sample->peers);
    } else if (above < -capacity->live / 8) {
        mrail_tele_capacity_low(capacity, sample, now_ns);
    } else {
        /* A higher sample raises the estimate by half the difference. A sample
         * up to 1/8 lower counts as noise. */
        mrail_tele_capacity_set(
            capacity, capacity->live + ((above > 0) ? above / 2 : above / 8),
            sample->peer, sample->peers);
    }
    capacity->last_ns = now_ns;
}

/* ---- measurement ---- */

static void mrail_tele_flow_window(mrail_tele_flow_t *flow, mrail_ns_t now_ns)
{
    const mrail_tele_run_t *sum = &flow->sum;
    double seconds = (double)sum->to_ns / MRAIL_NS_PER_SEC;
    mrail_tele_rate_sample_t sample = {
        .rate = (double)sum->bytes / seconds,
        .peers = sum->peers,
        .peer = sum->peer,
    };

    mrail_tele_capacity_add(&flow->capacity, &sample, now_ns);
    __atomic_store_n(&flow->shown, (uint64_t)flow->capacity.live,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&flow->shown_ns, flow->capacity.last_ns, __ATOMIC_RELAXED);
    flow->sum.to_ns = 0;
}

/* Adds a completed run to the window. */
static void mrail_tele_flow_keep(mrail_tele_flow_t *flow)
{
    mrail_tele_run_t *run = &flow->run, *sum = &flow->sum;
    mrail_ns_t length_ns = run->to_ns - run->from_ns;

    if (run->to_ns > flow->sum_ns + MRAIL_TELE_GAP_NS) {
        sum->to_ns = 0;
    }
    if (sum->to_ns == 0) {
        *sum = *run;
        sum->from_ns = 0;
        sum->to_ns = length_ns;
    } else {
        sum->to_ns += length_ns;
        sum->bytes += run->bytes;
        sum->peers = MRAIL_MIN(sum->peers, run->peers);
        sum->peer = (sum->peer == run->peer) ? sum->peer : 0;
    }
    flow->sum_ns = run->to_ns;
    if (sum->to_ns >= MRAIL_TELE_WINDOW_NS) {
        mrail_tele_flow_window(flow, run->to_ns);
    }
    run->from_ns = 0;
}

static int mrail_tele_run_is_valid(const mrail_tele_run_t *run)
{
    mrail_ns_t length_ns = run->to_ns - run->from_ns;

    return (length_ns >= MRAIL_TELE_RUN_NS) &&
           ((run->chunks >= MRAIL_TELE_RUN_CHUNKS * run->lanes) ||
            ((length_ns >= MRAIL_TELE_RUN_LONG) && (run->chunks > run->lanes)));
}

/* Returns 1 if the bytes in flight would keep the rail busy for
 * MRAIL_TELE_QUEUE_NS at the rate of the run, including this interval. */
static int mrail_tele_flow_is_deep(const mrail_tele_flow_t *flow)
{
    const mrail_tele_run_t *run = &flow->run;
    mrail_ns_t from_ns = flow->before_ns;
    uint64_t bytes = flow->bytes;

    if (run->from_ns != 0) {
        from_ns = run->from_ns;
        bytes += run->bytes;
    }
    return (double)flow->inflight * (double)(flow->poll_ns - from_ns) >=
           (double)bytes * MRAIL_TELE_QUEUE_NS;
}

/* Returns 1 if the rail was the bottleneck between the last two polls. */
static int mrail_tele_flow_is_proven(const mrail_tele_flow_t *flow)
{
    return (flow->early_before > flow->done) && !flow->is_full &&
           mrail_tele_flow_is_deep(flow);
}

static void mrail_tele_flow_extend(mrail_tele_flow_t *flow)
{
    mrail_tele_run_t *run = &flow->run;

    if (run->from_ns == 0) {
        memset(run, 0, sizeof(*run));
        run->from_ns = flow->before_ns;
        run->peers = flow->least_peers;
        run->peer = flow->peer;
    }
    run->to_ns = flow->poll_ns;
    run->bytes += flow->bytes;
    run->chunks += (unsigned)(flow->done - flow->poll_done);
    run->lanes = MRAIL_MAX(run->lanes, flow->lanes);
    run->peers = MRAIL_MIN(run->peers, flow->least_peers);
    run->peer = (run->peer == flow->peer) ? run->peer : 0;
    if ((run->to_ns - run->from_ns >= MRAIL_TELE_WINDOW_NS) &&
        mrail_tele_run_is_valid(run)) {
        mrail_tele_flow_keep(flow);
    }
}

void mrail_tele_flow_poll(mrail_tele_flow_t *flow, mrail_ns_t now_ns,
                          int is_full)
{
    if (mrail_tele_flow_is_proven(flow)) {
        mrail_tele_flow_extend(flow);
    } else if (flow->run.from_ns != 0) {
        if (mrail_tele_run_is_valid(&flow->run)) {
            mrail_tele_flow_keep(flow);
        }
        flow->run.from_ns = 0;
    }
    flow->before_ns = flow->poll_ns;
    flow->poll_ns = now_ns;
    flow->poll_done = flow->done;
    flow->early_before = flow->early;
    flow->early = flow->posted;
    flow->is_full = is_full;
    flow->least_peers = flow->peers;
    flow->bytes = 0;
}

uint64_t mrail_tele_flow_live(const mrail_tele_flow_t *flow, mrail_ns_t now_ns)
{
    uint64_t live = __atomic_load_n(&flow->shown, __ATOMIC_RELAXED);
    mrail_ns_t shown_ns = __atomic_load_n(&flow->shown_ns, __ATOMIC_RELAXED);

    return (now_ns > shown_ns + MRAIL_TELE_EXPIRE_NS) ? 0 : live;
}

/* ---- busy time ---- */

mrail_tele_work_t mrail_tele_busy_read(const mrail_tele_busy_t *busy)
{
    mrail_tele_work_t work = busy->total;

    /* A poll in progress may still complete the other chunks, and then not
     * count. */
    if ((busy->inflight == 0) && mrail_tele_busy_counts(busy)) {
        mrail_tele_work_add(&work, &busy->poll);
    }
    return work;
}
