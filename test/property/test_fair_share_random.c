/*
 * Peers that reach different rails, in virtual time. A process reads from all
 * peers at the same time, with the engine's scheduler, meters and fair shares,
 * over rails that are shared equally by busy lanes. Each far node has its own
 * rails, which are equally fast or slower. Some of them are dead.
 *
 *   by hand    the pair of `contrib/bench alltoallv` takes close to the lower
 *              bound
 *   seeds      random topologies: on average, exchanges end earlier than
 *              without fair shares, and in the worst case hardly later. (They
 *              may end later because fair shares do not take into account that
 *              a far end may be slower than its rails.)
 *   no idling  a slow far end does not keep a rail from other peers
 *
 * For comparison, the same engine runs without fair shares.
 */
#include "config.h"
#include "rail/proto/fair_share.h"
#include "rail/proto/sched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/util.h"
#include "telemetry/capacity.h"

#define MAX_RAILS 4
#define MAX_PEERS 8
#define MAX_NODES 4
#define MAX_SEGS 256
#define STEP_NS (100 * MRAIL_NS_PER_US)
#define LIMIT_NS (60 * MRAIL_NS_PER_SEC)
#define SEEDS 1000
/* Largest allowed time of any seed, relative to the time without fair
 * shares. */
#define WORST 1.04
#define WORSE 1.02 /* the same limit, for all but one seed in 200 */

typedef struct {
    mrail_sched_lane_t sched;
    struct {
        size_t length;
        double left;
        mrail_ns_t post_ns;
    } seg[MAX_SEGS]; /* ring buffer */
    unsigned first, count;
    double rate; /* rate of the lane in this step */
    uint16_t large;
} lane_t;

typedef struct {
    unsigned node;
    uint64_t bytes; /* bytes waiting */
    uint64_t moved;
    mrail_ns_t start_ns;
    mrail_ns_t end_ns;
    unsigned class;
    uint16_t large[MAX_RAILS];
    lane_t lane[MAX_RAILS];
} peer_t;

typedef struct {
    unsigned num_rails, num_peers, num_nodes;
    double rate[MAX_RAILS];           /* bytes per second of the local rails */
    double far[MAX_NODES][MAX_RAILS]; /* rates at far nodes; 0 if down */
    /* Other traffic uses 70 % of the local rails until this time. */
    mrail_ns_t busy_ns;
    peer_t peer[MAX_PEERS];
    mrail_tele_flow_t flow[MAX_RAILS];
    mrail_fair_share_t fair_share;
    mrail_ns_t period_ns;
    mrail_ns_t now_ns;
    mrail_ns_t away_ns; /* the process is descheduled until this time */
    int shared;         /* 1 if fair shares are in use */
    mrail_rng_t rng;
} scenario_t;

static uint32_t reach(const scenario_t *w, const peer_t *peer)
{
    uint32_t rails = 0;

    for (unsigned r = 0; r < w->num_rails; ++r) {
        rails |= (uint32_t)(w->far[peer->node][r] > 0) << r;
    }
    return rails;
}

/* ---- the rails ---- */

/* Returns the index of a resource, which is a local rail or a rail of a far
 * node. */
static unsigned resource(const scenario_t *w, const peer_t *peer, unsigned r,
                         int is_far)
{
    return is_far ? (1 + peer->node) * MAX_RAILS + r : r;
}

#define NUM_RESOURCES ((1 + MAX_NODES) * MAX_RAILS)

typedef struct {
    double left[NUM_RESOURCES];
    unsigned lanes[NUM_RESOURCES];
    uint8_t open[MAX_PEERS][MAX_RAILS];
} fill_t;

static void fill_begin(scenario_t *w, fill_t *fill)
{
    memset(fill, 0, sizeof(*fill));
    for (unsigned r = 0; r < w->num_rails; ++r) {
        fill->left[r] = w->rate[r] * ((w->now_ns < w->busy_ns) ? 0.3 : 1);
        for (unsigned n = 0; n < w->num_nodes; ++n) {
            fill->left[(1 + n) * MAX_RAILS + r] = w->far[n][r];
        }
    }
    for (unsigned p = 0; p < w->num_peers; ++p) {
        for (unsigned r = 0; r < w->num_rails; ++r) {
            w->peer[p].lane[r].rate = 0;
            fill->open[p][r] = (w->peer[p].lane[r].count != 0);
            fill->lanes[resource(w, &w->peer[p], r, 0)] += fill->open[p][r];
            fill->lanes[resource(w, &w->peer[p], r, 1)] += fill->open[p][r];
        }
    }
}

/* Raises the rates of all lanes equally until a resource is full, and then
 * fixes the rates of that resource's lanes. Returns 0 if no lane is left. */
static int fill_round(scenario_t *w, fill_t *fill)
{
    unsigned tight = NUM_RESOURCES;
    double least = 0;

    for (unsigned i = 0; i < NUM_RESOURCES; ++i) {
        if ((fill->lanes[i] != 0) &&
            ((tight == NUM_RESOURCES) ||
             (fill->left[i] / fill->lanes[i] < least))) {
            tight = i;
            least = fill->left[i] / fill->lanes[i];
        }
    }
    for (unsigned p = 0; (tight != NUM_RESOURCES) && (p < w->num_peers); ++p) {
        for (unsigned r = 0; r < w->num_rails; ++r) {
            unsigned ours = resource(w, &w->peer[p], r, 0);
            unsigned far = resource(w, &w->peer[p], r, 1);

            if (fill->open[p][r] && ((ours == tight) || (far == tight))) {
                fill->open[p][r] = 0;
                w->peer[p].lane[r].rate = least;
                fill->left[ours] -= least;
                fill->left[far] -= least;
                --fill->lanes[ours];
                --fill->lanes[far];
            }
        }
    }
    return tight != NUM_RESOURCES;
}

static void serve(lane_t *lane)
{
    double bytes = lane->rate * STEP_NS / MRAIL_NS_PER_SEC;

    for (unsigned i = 0; (i < lane->count) && (bytes > 0); ++i) {
        double *left = &lane->seg[(lane->first + i) % MAX_SEGS].left;
        double part = MRAIL_MIN(bytes, *left);

        *left -= part;
        bytes -= part;
    }
}

static void step(scenario_t *w)
{
    fill_t fill;

    fill_begin(w, &fill);
    while (fill_round(w, &fill)) {
    }
    for (unsigned p = 0; p < w->num_peers; ++p) {
        for (unsigned r = 0; r < w->num_rails; ++r) {
            serve(&w->peer[p].lane[r]);
        }
    }
    w->now_ns += STEP_NS;
}

/* ---- the process, as src/rail/data/rma.c and throttle.c do ---- */

static void post(scenario_t *w, peer_t *peer, unsigned r, size_t length)
{
    lane_t *lane = &peer->lane[r];
    unsigned at = (lane->first + lane->count++) % MAX_SEGS;

    assert_true(lane->count <= MAX_SEGS);
    lane->seg[at].length = length;
    lane->seg[at].left = (double)length;
    lane->seg[at].post_ns = w->now_ns;
    if (lane->sched.inflight == 0) {
        lane->sched.since_ns = w->now_ns;
    }
    lane->sched.inflight += length;
    peer->bytes -= length;
    mrail_tele_flow_post(&w->flow[r], &lane->large, &peer->large[r], length,
                         w->now_ns);
}

static void complete(scenario_t *w, unsigned p, unsigned r)
{
    peer_t *peer = &w->peer[p];
    lane_t *lane = &peer->lane[r];

    while ((lane->count != 0) && (lane->seg[lane->first].left < 1)) {
        size_t length = lane->seg[lane->first].length;

        lane->sched.inflight -= length;
        lane->sched.since_ns = w->now_ns;
        mrail_sched_done(&lane->sched, length, lane->seg[lane->first].post_ns,
                         w->now_ns);
        mrail_tele_flow_done(&w->flow[r], &lane->large, &peer->large[r], length,
                             length, p + 1, w->now_ns, 0);
        lane->first = (lane->first + 1) % MAX_SEGS;
        --lane->count;
        peer->moved += length;
        peer->end_ns = w->now_ns;
    }
}

static int has_work(const scenario_t *w, const peer_t *peer)
{
    return (peer->bytes != 0) && (w->now_ns >= peer->start_ns);
}

static void poll_once(scenario_t *w)
{
    mrail_fair_share_rail_t rails[MAX_RAILS];

    w->period_ns = w->now_ns + MRAIL_FAIR_SHARE_PERIOD_NS;
    mrail_fair_share_begin(&w->fair_share, w->now_ns);
    for (unsigned p = 0; p < w->num_peers; ++p) {
        peer_t *peer = &w->peer[p];

        peer->class = has_work(w, peer)
                          ? mrail_fair_share_add(&w->fair_share, reach(w, peer),
                                                 peer->bytes)
                          : MRAIL_FAIR_SHARE_NONE;
    }
    for (unsigned r = 0; r < w->num_rails; ++r) {
        rails[r].rate = mrail_tele_flow_live(&w->flow[r], w->now_ns);
        rails[r].moved = w->flow[r].moved;
        rails[r].done = w->flow[r].done;
    }
    mrail_fair_share_end(&w->fair_share, rails, w->num_rails);
}

static void pump(scenario_t *w, peer_t *peer)
{
    const mrail_sched_params_t params = {0};
    mrail_sched_lane_t *lanes[MAX_RAILS];
    unsigned rail[MAX_RAILS], count;
    size_t length;
    int index;

    while (has_work(w, peer)) {
        int shared = w->shared && w->fair_share.active &&
                     (peer->class != MRAIL_FAIR_SHARE_NONE);

        count = 0;
        for (unsigned r = 0; r < w->num_rails; ++r) {
            if (w->far[peer->node][r] > 0) {
                rail[count] = r;
                lanes[count++] = &peer->lane[r].sched;
                peer->lane[r].sched.usable =
                    (peer->lane[r].count < MAX_SEGS) &&
                    (!shared ||
                     mrail_fair_share_may(&w->fair_share, peer->class, r));
            }
        }
        index = mrail_sched_pick(lanes, count, peer->bytes, peer->bytes,
                                 &params, w->now_ns, &length);
        if (index < 0) {
            return;
        }
        post(w, peer, rail[index], length);
        if (shared) {
            mrail_fair_share_post(&w->fair_share, peer->class, rail[index],
                                  length);
        }
    }
}

/* Makes one progress call. Returns 0 if all work is done. */
static int progress(scenario_t *w)
{
    unsigned open = 0;

    for (unsigned p = 0; p < w->num_peers; ++p) {
        for (unsigned r = 0; r < w->num_rails; ++r) {
            complete(w, p, r);
            open += w->peer[p].lane[r].count;
        }
    }
    if (w->now_ns >= w->period_ns) {
        poll_once(w);
    }
    for (unsigned p = 0; p < w->num_peers; ++p) {
        pump(w, &w->peer[p]);
        open += (w->peer[p].bytes != 0);
    }
    if (mrail_rng_below(&w->rng, 300) == 0) {
        w->away_ns = w->now_ns + mrail_rng_below(&w->rng, 3 * MRAIL_NS_PER_MS);
    }
    return open != 0;
}

/* ---- transfers ---- */

static void scenario_init(scenario_t *w, uint64_t seed, int shared)
{
    memset(w, 0, sizeof(*w));
    mrail_rng_init(&w->rng, seed);
    w->now_ns = 10 * MRAIL_NS_PER_SEC;
    w->shared = shared;
}

static void scenario_ready(scenario_t *w)
{
    for (unsigned p = 0; p < w->num_peers; ++p) {
        for (unsigned r = 0; r < w->num_rails; ++r) {
            w->peer[p].lane[r].sched.nominal = 12500000000ull;
        }
    }
}

/* Transfers `bytes` for each peer, which become available `late_ns` after the
 * start. Returns the time in seconds. */
static double transfer(scenario_t *w, const uint64_t *bytes,
                       const mrail_ns_t *late_ns)
{
    mrail_ns_t begin_ns = w->now_ns;

    for (unsigned p = 0; p < w->num_peers; ++p) {
        w->peer[p].bytes = bytes[p];
        w->peer[p].start_ns = begin_ns + ((late_ns != NULL) ? late_ns[p] : 0);
    }
    do {
        while ((w->now_ns < w->away_ns) || (w->now_ns == begin_ns - STEP_NS)) {
            step(w);
        }
        if (!progress(w)) {
            return (double)(w->now_ns - begin_ns) * 1e-9;
        }
        step(w);
    } while (w->now_ns < begin_ns + LIMIT_NS);
    fail_msg("the exchange does not end");
    return 0;
}

/* Three peers are on a node with all rails, and four on a node without rail
 * 1. */
static void scenario_case(scenario_t *w, int shared)
{
    static const double rates[] = {200e6, 100e6, 50e6, 50e6};

    scenario_init(w, 1, shared);
    w->num_rails = 4;
    w->num_peers = 7;
    w->num_nodes = 2;
    for (unsigned r = 0; r < 4; ++r) {
        w->rate[r] = w->far[0][r] = w->far[1][r] = rates[r];
    }
    w->far[1][1] = 0;
    for (unsigned p = 0; p < 7; ++p) {
        w->peer[p].node = (p >= 3);
    }
    scenario_ready(w);
}

/* Returns the time of the second transfer relative to the minimum. The first
 * transfer measures the rates. */
static double run_case(int shared)
{
    const uint64_t bytes[] = {11200000, 11200000, 11200000, 11200000,
                              11200000, 11200000, 11200000};
    static scenario_t w;

    scenario_case(&w, shared);
    transfer(&w, bytes, NULL);
    return transfer(&w, bytes, NULL) / (7 * 11200000 / 400e6);
}

static void test_case(void **state)
{
    double with = run_case(1), without = run_case(0);

    if ((with > 1.03) || (without < 1.07)) {
        fail_msg("%.4f times the lower bound, without fair shares %.4f", with,
                 without);
    }
}

/* ---- random topologies ---- */

static void draw(scenario_t *w, uint64_t seed, int shared)
{
    static const double slower[] = {1, 1, 1, 0.5, 0.25};

    scenario_init(w, seed, shared);
    w->num_rails = 2 + mrail_rng_below(&w->rng, MAX_RAILS - 1);
    w->num_peers = 2 + mrail_rng_below(&w->rng, MAX_PEERS - 1);
    w->num_nodes = 1 + mrail_rng_below(&w->rng, MAX_NODES);
    for (unsigned r = 0; r < w->num_rails; ++r) {
        w->rate[r] = 25e6 * (1 + mrail_rng_below(&w->rng, 8));
    }
    for (unsigned n = 0; n < w->num_nodes; ++n) {
        unsigned alive = mrail_rng_below(&w->rng, w->num_rails);

        for (unsigned r = 0; r < w->num_rails; ++r) {
            w->far[n][r] =
                w->rate[r] *
                slower[mrail_rng_below(&w->rng, MRAIL_ARRAY_SIZE(slower))];
            if ((r != alive) && (mrail_rng_below(&w->rng, 4) == 0)) {
                w->far[n][r] = 0;
            }
        }
    }
    for (unsigned p = 0; p < w->num_peers; ++p) {
        w->peer[p].node = mrail_rng_below(&w->rng, w->num_nodes);
    }
    scenario_ready(w);
}

/* Returns the total time of three transfers. During the second, other traffic
 * uses the local rails for up to 0.1 s. */
static double run_seed(uint64_t seed, int shared)
{
    uint64_t bytes[MAX_PEERS];
    mrail_ns_t late_ns[MAX_PEERS];
    static scenario_t w;
    double sum_s = 0;
    mrail_rng_t rng;

    draw(&w, seed, shared);
    mrail_rng_init(&rng, ~seed);
    for (unsigned i = 0; i < 3; ++i) {
        for (unsigned p = 0; p < w.num_peers; ++p) {
            bytes[p] = 1 + mrail_rng_below(&rng, 1 << 20);
            bytes[p] <<= mrail_rng_below(&rng, 5);
            late_ns[p] = mrail_rng_below(&rng, 40) * MRAIL_NS_PER_MS;
            late_ns[p] *= mrail_rng_below(&rng, 2);
        }
        w.busy_ns = (i == 1) ? w.now_ns + mrail_rng_below(&rng, 100000000) : 0;
        sum_s += transfer(&w, bytes, late_ns);
    }
    return sum_s;
}

static void test_seeds(void **state)
{
    const char *one = getenv("MRAIL_TEST_SEED");
    uint64_t first = (one != NULL) ? strtoull(one, NULL, 0) : 1;
    uint64_t count = (one != NULL) ? 1 : SEEDS;
    double sum = 0, worst = 0;
    unsigned better = 0, worse = 0;

    for (uint64_t seed = first; seed < first + count; ++seed) {
        double ratio = run_seed(seed, 1) / run_seed(seed, 0);

        if (getenv("MRAIL_TEST_TRACE") != NULL) {
            print_message("seed %u: %.4f\n", (unsigned)seed, ratio);
        }
        if (ratio > WORST) {
            fail_msg(
                "seed %u: %.4f of the time without fair shares; to replay: "
                "MRAIL_TEST_SEED=%u test_fair_share_random",
                (unsigned)seed, ratio, (unsigned)seed);
        }
        worse += (ratio > WORSE);
        sum += ratio;
        better += (ratio < 0.99);
        worst = MRAIL_MAX(worst, ratio);
    }
    print_message(
        "%u machines: %.4f of the time without fair shares, at worst %.4f; "
        "%u better by more than 1 %%\n",
        (unsigned)count, sum / (double)count, worst, better);
    if ((one == NULL) && ((worse > count / 200) || (better < count / 20) ||
                          (sum > 0.998 * (double)count))) {
        fail_msg("%u of %u worse by 2 %%, %u better by 1 %%, on average %.4f",
                 worse, (unsigned)count, better, sum / (double)count);
    }
}

/* ---- no idling ---- */

/* Returns the bytes that the peers that reach all rails transfer in 2 s, next
 * to a peer with one rail whose far end has a tenth of the rate. */
static double run_slow(int shared)
{
    const uint64_t bytes[] = {1ull << 40, 1ull << 40};
    mrail_ns_t end_ns;
    static scenario_t w;

    scenario_init(&w, 3, shared);
    w.num_rails = 2;
    w.num_peers = w.num_nodes = 2;
    w.rate[0] = w.rate[1] = w.far[0][0] = w.far[0][1] = 100e6;
    w.far[1][0] = 10e6;
    w.peer[1].node = 1;
    scenario_ready(&w);
    w.peer[0].bytes = bytes[0];
    w.peer[1].bytes = bytes[1];
    for (end_ns = w.now_ns + 2 * MRAIL_NS_PER_SEC; w.now_ns < end_ns;) {
        step(&w);
        if (w.now_ns >= w.away_ns) {
            (void)progress(&w);
        }
    }
    return (double)(w.peer[0].moved + w.peer[1].moved);
}

static void test_slow_end(void **state)
{
    double with = run_slow(1), without = run_slow(0);

    if ((with < 0.95 * without) || (without < 0.95 * 400e6)) {
        fail_msg("%.1f MB with shares, %.1f without", with * 1e-6,
                 without * 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_case),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_slow_end),
    };

    return cmocka_run_group_tests_name("sharing", tests, NULL, NULL);
}
