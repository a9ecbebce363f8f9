/*
 * Tests the live bandwidth of a rail: the estimate for values that the test
 * sets, and flows over a link in virtual time. The test chooses the rate, the
 * peers and the polls.
 */
#include "config.h"
#include "telemetry/capacity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <limits.h>

#include <string.h>

#define MS MRAIL_NS_PER_MS
#define US MRAIL_NS_PER_US
#define RATE 1e9 /* bytes per second */

/* ---- the estimate for given values ---- */

static mrail_tele_capacity_t capacity;
static mrail_ns_t at_ns;

static double see_peers(double rate, uint64_t peer, unsigned peers)
{
    const mrail_tele_rate_sample_t sample = {
        .rate = rate, .peers = peers, .peer = peer};

    at_ns += 10 * MS;
    mrail_tele_capacity_add(&capacity, &sample, at_ns);
    return capacity.live;
}

static double see(double rate, uint64_t peer, int is_several)
{
    return see_peers(rate, peer, is_several ? 2 : 1);
}

static int fresh(void **state)
{
    memset(&capacity, 0, sizeof(capacity));
    at_ns = MRAIL_NS_PER_SEC;
    return 0;
}

static void test_first(void **state)
{
    assert_true(see(100, 1, 0) == 100);
}

static void test_up(void **state)
{
    see(100, 1, 0);
    assert_true(see(200, 2, 0) == 150);
    assert_true(see(200, 2, 0) == 175);
}

static void test_noise(void **state)
{
    see(100, 1, 0);
    assert_true(see(92, 1, 0) == 99);
    for (unsigned i = 0; i < 100; ++i) {
        double live = see((i & 1) ? 107 : 93, 1, 1);

        assert_true((live > 90) && (live < 110));
    }
}

/* Three consecutive windows with a lower rate lower the estimate, provided that
 * they come from several peers or from the peer with the highest sample. */
static void test_down(void **state)
{
    see(100, 1, 0);
    assert_true(see(80, 1, 0) == 100); /* the first of the three windows */
    assert_true(see(60, 0, 1) == 100);
    assert_true(see(55, 1, 0) == 60); /* the highest of the other windows */
    see(40, 0, 1);
    see(40, 0, 1);
    assert_true(see(58, 1, 0) > 59);
    see(40, 0, 1);
    assert_true(see(40, 0, 1) > 59); /* the windows are not consecutive */
    assert_true(see(40, 0, 1) == 40);
}

/* For a quarter of a second, a low rate may be due to a slow peer, so the
 * estimate does not change. */
static void test_confirm(void **state)
{
    see(100, 1, 0);
    for (unsigned i = 0; i < 25; ++i) {
        assert_true(see(50, 2 + i % 3, 0) == 100);
    }
    assert_true(see(45, 2, 0) == 50);
    see(100, 1, 0);
    /* An occasional window at the full rate keeps the estimate up. */
    for (unsigned i = 0; i < 100; ++i) {
        double live = see((i % 20) ? 50 : 100, (i % 20) ? 2 : 1, 0);

        assert_true((i == 0) || (live > 70));
    }
}

/* Peer 2 comes close to the rate of peer 1, so the highest sample now counts as
 * peer 2's own. */
static void test_peer_of_highest_sample(void **state)
{
    see(100, 1, 0);
    see(98, 2, 0);
    see(50, 2, 0);
    see(50, 2, 0);
    assert_true(see(50, 2, 0) == 50);
    see(25, 0, 0); /* windows that alternate between the peers */
    see(25, 0, 0);
    assert_true(see(25, 0, 0) == 50);
    fresh(NULL);
    see(100, 0, 1);
    see(50, 0, 0);
    see(50, 0, 0);
    assert_true(see(50, 0, 0) == 100);
}

/* Near the end of an exchange, few peers are left, and their own rates may be
 * the limit. The rail counts as slow only if as many peers as before are
 * slow. */
static void test_fewer_peers(void **state)
{
    see_peers(100, 0, 3);
    for (unsigned i = 0; i < 20; ++i) {
        assert_true(see_peers(50, 0, 2) == 100);
    }
    see_peers(100, 0, 3);
    see_peers(50, 0, 3);
    see_peers(50, 0, 4);
    assert_true(see_peers(50, 0, 3) == 50);
    see_peers(50, 0, 2); /* two peers can reach this rate */
    see_peers(20, 0, 2);
    see_peers(20, 0, 2);
    assert_true(see_peers(20, 0, 2) == 20);
}

static void test_expires(void **state)
{
    see(100, 1, 0);
    at_ns += MRAIL_TELE_EXPIRE_NS - 10 * MS;
    assert_true(see(50, 2, 0) == 100);
    at_ns += MRAIL_TELE_EXPIRE_NS;
    assert_true(see(30, 2, 0) == 30);
}

/* ---- a link ---- */

#define LANES_MAX 8
#define STEP (10 * US)

typedef struct lane {
    uint64_t peer;
    double limit;        /* rate limit of the peer in bytes/s; 0: none */
    unsigned depth;      /* number of segments kept in flight; 0: none */
    double served;       /* bytes of the oldest segment that have been served */
    unsigned num_posted; /* number of segments in flight */
    /* Number of segments in flight that are complete but not polled. */
    unsigned num_ready;
    mrail_ns_t post_ns; /* of the newest segment */
    uint16_t count;
} lane_t;

typedef struct link {
    mrail_tele_flow_t flow;
    mrail_tele_busy_t busy;
    lane_t lanes[LANES_MAX];
    uint16_t peers[LANES_MAX + 1]; /* chunks in flight of each peer */
    unsigned num_lanes;
    double rate;
    double segment;     /* bytes in a segment */
    mrail_ns_t look_ns; /* time between polls */
    mrail_ns_t next_ns;
    mrail_ns_t now_ns;
    int posts_first; /* 1 if the process posts before it polls */
    unsigned batch;  /* completions per poll */
    unsigned polls;
} link_t;

static link_t l;

static void lanes(unsigned count, unsigned depth)
{
    l.num_lanes = MRAIL_MAX(count, l.num_lanes);
    for (unsigned i = 0; i < l.num_lanes; ++i) {
        l.lanes[i].depth = (i < count) ? depth : 0;
        l.lanes[i].peer = i + 1;
    }
}

static int link_start(void **state)
{
    memset(&l, 0, sizeof(l));
    l.rate = RATE;
    l.segment = 256 << 10;
    l.look_ns = 20 * US;
    l.now_ns = MRAIL_NS_PER_SEC;
    l.batch = 16;
    return 0;
}

/* The link divides its rate equally among the lanes. If a lane's peer limits it
 * to less, the other lanes share the rest. */
static void link_serve(void)
{
    double left = l.rate * STEP / MRAIL_NS_PER_SEC;
    double share[LANES_MAX] = {0};
    int more = 1;

    while (more && (left > 1)) {
        unsigned want = 0;
        double part;

        for (unsigned i = 0; i < l.num_lanes; ++i) {
            const lane_t *lane = &l.lanes[i];
            double most = lane->limit * STEP / MRAIL_NS_PER_SEC;

            want += (lane->num_posted != lane->num_ready) &&
                    ((most == 0) || (share[i] < most - 1));
        }
        part = left / (want ? want : 1);
        more = (want != 0);
        for (unsigned i = 0; i < l.num_lanes; ++i) {
            const lane_t *lane = &l.lanes[i];
            double most = lane->limit * STEP / MRAIL_NS_PER_SEC, get = part;

            if (lane->num_posted == lane->num_ready) {
                continue;
            }
            if ((most != 0) && (share[i] + get > most)) {
                get = most - share[i];
            }
            share[i] += get;
            left -= get;
        }
    }
    for (unsigned i = 0; i < l.num_lanes; ++i) {
        l.lanes[i].served += share[i];
        while ((l.lanes[i].served >= l.segment) &&
               (l.lanes[i].num_ready < l.lanes[i].num_posted)) {
            l.lanes[i].served -= l.segment;
            ++l.lanes[i].num_ready;
        }
        if (l.lanes[i].num_ready == l.lanes[i].num_posted) {
            l.lanes[i].served = 0;
        }
    }
}

static void link_post(void)
{
    for (unsigned i = 0; i < l.num_lanes; ++i) {
        lane_t *lane = &l.lanes[i];

        while (lane->num_posted < lane->depth) {
            ++lane->num_posted;
            mrail_tele_flow_post(&l.flow, &lane->count, &l.peers[lane->peer],
                                 (uint64_t)l.segment, l.now_ns);
            mrail_tele_busy_post(&l.busy, l.now_ns, l.polls);
            lane->post_ns = l.now_ns;
        }
    }
}

static void link_look(void)
{
    unsigned ready = 0, seen = 0;

    ++l.polls;
    if (l.posts_first) {
        link_post();
    }
    for (unsigned i = 0; i < l.num_lanes; ++i) {
        ready += l.lanes[i].num_ready;
    }
    for (unsigned i = 0; i < l.num_lanes; ++i) {
        lane_t *lane = &l.lanes[i];

        for (; (lane->num_ready != 0) && (seen < l.batch); ++seen) {
            --lane->num_ready;
            --lane->num_posted;
            mrail_tele_flow_done(&l.flow, &lane->count, &l.peers[lane->peer],
                                 (uint64_t)l.segment, (uint64_t)l.segment,
                                 lane->peer, l.now_ns, ready >= l.batch);
            mrail_tele_busy_done(&l.busy, (uint64_t)l.segment, lane->post_ns,
                                 l.now_ns, l.polls);
        }
    }
    link_post();
}

static double live(void)
{
    return (double)mrail_tele_flow_live(&l.flow, l.now_ns) / RATE;
}

/* The lowest and the highest estimate during a run. */
typedef struct range {
    double low, high;
} range_t;

static range_t run(mrail_ns_t length_ns)
{
    mrail_ns_t end_ns = l.now_ns + length_ns;
    range_t range = {live(), live()};

    for (; l.now_ns < end_ns; l.now_ns += STEP) {
        link_serve();
        if (l.now_ns >= l.next_ns) {
            link_look();
            l.next_ns = l.now_ns + l.look_ns;
        }
        range.low = MRAIL_MIN(range.low, live());
        range.high = MRAIL_MAX(range.high, live());
    }
    return range;
}

static void assert_near(double have, double want, double part)
{
    if ((have < want * (1 - part)) || (have > want * (1 + part))) {
        fail_msg("%.3f, not %.3f", have, want);
    }
}

static void test_steady(void **state)
{
    static const struct {
        unsigned lanes, depth;
        double segment;
    } cases[] = {{1, 2, 262144},  {1, 2, 8e6},    {2, 4, 262144},
                 {8, 2, 1048576}, {8, 16, 65536}, {8, 3, 20000}};
    range_t range;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        link_start(NULL);
        l.segment = cases[i].segment;
        lanes(cases[i].lanes, cases[i].depth);
        run(200 * MS);
        assert_near(live(), 1, 0.08);
        range = run(300 * MS);
        assert_near(range.low, 1, 0.08);
        assert_near(range.high, 1, 0.08);
    }
}

static void test_foreign_load(void **state)
{
    for (unsigned peers = 1; peers <= 4; peers *= 4) {
        link_start(NULL);
        lanes(peers, 4);
        run(100 * MS);
        l.rate = RATE / 2;
        run(8 * MS);
        assert_near(live(), 1, 0.08); /* hysteresis */
        run(52 * MS);
        assert_near(live(), 0.5, 0.08);
        l.rate = RATE;
        run(60 * MS);
        assert_near(live(), 1, 0.1);
    }
}

static void test_load_that_flickers(void **state)
{
    lanes(2, 4);
    run(100 * MS);
    for (unsigned i = 0; i < 20; ++i) {
        l.rate = RATE / 4;
        run(3 * MS);
        l.rate = RATE;
        assert_true(run(30 * MS).low > 0.6);
    }
}

static void test_idle(void **state)
{
    lanes(2, 4);
    run(100 * MS);
    lanes(0, 0);
    assert_near(run(900 * MS).low, 1, 0.08);
    run(110 * MS);
    assert_true(live() == 0);
}

/* A slow peer does not lower the estimate while another peer is faster, or was
 * recently. If only the slow peer remains for a long time, it does lower the
 * estimate. */
static void test_slow_peer(void **state)
{
    lanes(2, 4);
    l.lanes[1].limit = RATE / 4;
    run(50 * MS);
    assert_near(run(200 * MS).low, 1, 0.08);
    for (unsigned i = 0; i < 5; ++i) {
        l.lanes[0].depth = 0;
        assert_near(run(150 * MS).low, 1, 0.1);
        l.lanes[0].depth = 4;
        run(50 * MS);
    }
    l.lanes[0].depth = 0;
    run(350 * MS);
    assert_near(live(), 0.25, 0.1);
    l.lanes[0].depth = 4;
    run(60 * MS);
    assert_near(live(), 1, 0.1);
}

/* The only peer slows down. Because that peer also had the highest sample, its
 * lower rate lowers the estimate. */
static void test_peer_slows_down(void **state)
{
    lanes(1, 4);
    run(100 * MS);
    l.lanes[0].limit = RATE / 4;
    run(100 * MS);
    assert_near(live(), 0.25, 0.1);
}

/* A process that polls only after all segments are complete measures no rate,
 * whether it posts before or after the poll. */
static void test_late_polls(void **state)
{
    for (unsigned i = 0; i < 3; ++i) {
        link_start(NULL);
        lanes(2, 8); /* 4 MB, which take 4 ms */
        l.posts_first = (i == 1);
        l.batch = (i == 2) ? 4 : 16;
        l.look_ns = 20 * MS;
        assert_true(run(1000 * MS).high == 0);
        l.look_ns = 20 * US;
        run(100 * MS);
        l.look_ns = 20 * MS;
        assert_near(run(500 * MS).low, 1, 0.08);
    }
}

/* The polls are rare, but the link is never idle between two of them. */
static void test_rare_polls(void **state)
{
    lanes(1, 12); /* 3 MB, which take 3 ms */
    l.look_ns = 2 * MS;
    run(100 * MS);
    assert_near(run(200 * MS).low, 1, 0.08);
}

/* With few bytes in flight, latency limits the rate, not the rail. Here, a
 * reduced rate of the link simulates latency. */
static void test_latency(void **state)
{
    l.segment = 8192;
    lanes(1, 2);
    assert_true(run(500 * MS).high == 0);
    link_start(NULL);
    lanes(2, 4);
    run(100 * MS);
    lanes(0, 0);
    run(20 * MS);
    l.segment = 8192;
    l.rate = RATE / 4;
    lanes(1, 2);
    assert_near(run(500 * MS).low, 1, 0.08);
    run(600 * MS);
    assert_true(live() == 0); /* nor does it keep the estimate valid */
}

/* Intervals limited by latency do not count if they lie between saturated
 * ones. */
static void test_latency_in_between(void **state)
{
    for (unsigned i = 0; i < 50; ++i) {
        l.segment = 65536;
        l.rate = RATE;
        lanes(1, 16);
        run(6 * MS);
        lanes(0, 0);
        run(2 * MS);
        l.segment = 8192;
        l.rate = RATE / 4;
        lanes(1, 2);
        run(10 * MS);
        lanes(0, 0);
        run(1 * MS);
    }
    assert_near(live(), 1, 0.1);
}

/* Stops all lanes, and polls only after their work is complete. */
static void stop_unseen(void)
{
    l.next_ns = l.now_ns + 8 * MS;
    lanes(0, 0);
    run(10 * MS);
}

/* One peer first reaches the full rate. If other peers then reach less, they
 * may simply be slow. */
static void begin_confirm(unsigned peer)
{
    lanes(3, 0);
    l.lanes[peer - 1].depth = 4;
    run(100 * MS);
    assert_near(live(), 1, 0.08);
    lanes(0, 0);
    run(6 * MS);
}

/* The lanes are not saturated at the same time, because the first lane is idle
 * after each segment. */
static void test_not_all_the_time(void **state)
{
    for (unsigned i = 0; i < 2; ++i) {
        link_start(NULL);
        begin_confirm((i == 0) ? 3 : 2);
        l.lanes[0].limit = RATE / 8;
        l.lanes[1].limit = RATE / 4;
        lanes(2, 4);
        l.lanes[0].depth = 1;
        l.segment = 65536;
        l.lanes[1].depth = 16;
        l.look_ns = (i == 0) ? 20 * US : 1 * MS;
        assert_near(run(200 * MS).low, 1, 0.08);
    }
}

static void test_lanes_of_one_peer(void **state)
{
    begin_confirm(3);
    lanes(2, 4);
    l.lanes[1].peer = 1;
    l.lanes[0].limit = l.lanes[1].limit = RATE / 8;
    assert_near(run(200 * MS).low, 1, 0.08);
    l.lanes[1].depth = 0;
    run(40 * MS);
    l.lanes[1].peer = 2; /* the same test with two peers */
    l.lanes[1].depth = 4;
    run(100 * MS);
    assert_near(live(), 0.25, 0.1);
}

/* A low window that consists of several runs must not lower the estimate if one
 * run has several peers and another has one, or if the runs have different
 * peers. */
static void test_runs_of_others(void **state)
{
    begin_confirm(3);
    l.lanes[0].limit = l.lanes[1].limit = RATE / 8;
    l.segment = 65536;
    for (unsigned i = 0; i < 7; ++i) {
        lanes(1, 6); /* ends the previous window */
        run(7 * MS);
        stop_unseen();
        lanes(2, 6);
        run(6 * MS);
        stop_unseen();
        assert_near(live(), 1, 0.08);
    }
    link_start(NULL);
    begin_confirm(1);
    l.lanes[0].limit = l.lanes[1].limit = RATE / 8;
    l.segment = 65536;
    for (unsigned i = 0; i < 14; ++i) {
        lanes(2, 0);
        l.lanes[(i + 1) & 1].depth = 6;
        run(7 * MS);
        stop_unseen();
        assert_near(live(), 1, 0.08);
    }
}

/* Different peers transfer in one run, one after another without a pause. */
static void test_one_after_the_other(void **state)
{
    begin_confirm(1);
    l.lanes[0].limit = l.lanes[1].limit = RATE / 8;
    l.segment = 65536;
    for (unsigned i = 0; i < 29; ++i) {
        lanes(2, 0);
        l.lanes[i & 1].depth = 6;
        assert_near(run(7 * MS).low, 1, 0.08);
    }
}

static void test_runs_far_apart(void **state)
{
    for (unsigned i = 0; i < 5; ++i) {
        lanes(2, 8);
        run(6 * MS);
        lanes(0, 0);
        run(400 * MS);
        assert_true(live() == 0);
    }
}

static void test_short_runs(void **state)
{
    l.segment = 32768;
    for (unsigned i = 0; i < 100; ++i) {
        lanes(1, 16);
        run(500 * US);
        lanes(0, 0);
        run(2 * MS);
    }
    assert_true(live() == 0);
}

/* Lanes that start one after another and end together must not yield a rate
 * above that of the link. */
static void test_lanes_that_meet(void **state)
{
    l.segment = 1 << 20;
    for (unsigned i = 0; i < 20; ++i) {
        for (unsigned count = 1; count <= 8; ++count) {
            lanes(count, 1);
            run(300 * US);
        }
        lanes(0, 0);
        run(20 * MS);
        assert_true(live() < 1.2);
    }
}

static void test_long_segments(void **state)
{
    l.rate = RATE / 10;
    l.segment = 16e6;
    lanes(1, 3);
    run(700 * MS);
    assert_near(live(), 0.1, 0.05);
}

/* All work was posted at the start, so the lane only drains afterwards. */
static void test_only_drains(void **state)
{
    lanes(1, 60);
    run(100 * US);
    lanes(0, 0);
    run(20 * MS);
    assert_near(live(), 1, 0.05);
}

/* An exchange has several steps with pauses between them. */
static void test_bursts(void **state)
{
    for (unsigned i = 0; i < 100; ++i) {
        lanes(2, 8);
        run(6 * MS);
        lanes(0, 0);
        run(14 * MS);
        if (i > 20) {
            assert_near(live(), 1, 0.15);
        }
    }
}

/* One segment is posted on each of many lanes. All segments complete together,
 * which yields no rate. */
static void test_all_at_once(void **state)
{
    for (unsigned i = 0; i < 100; ++i) {
        lanes(8, 1);
        run(1 * MS);
        lanes(0, 0);
        run(4 * MS);
        assert_true(live() < 1.2);
    }
}

static void test_failures(void **state)
{
    uint16_t count = 0, peer = 0;

    lanes(2, 4);
    run(100 * MS);
    /* The segments of a lane that fails carry no bytes. */
    for (unsigned i = 0; i < 100; ++i) {
        mrail_tele_flow_post(&l.flow, &count, &peer, 1000000, l.now_ns);
    }
    assert_int_equal(count, 100);
    assert_int_equal(l.flow.peers, 3);
    for (unsigned i = 0; i < 100; ++i) {
        mrail_tele_flow_done(&l.flow, &count, &peer, 1000000, 0, 9, l.now_ns,
                             0);
    }
    assert_int_equal(count, 0);
    assert_int_equal(peer, 0);
    assert_int_equal(l.flow.peers, 2);
    assert_int_equal(l.flow.lanes, 2);
    assert_near(run(200 * MS).low, 1, 0.08);
    assert_near(live(), 1, 0.08);
}

/* ---- busy time ---- */

static mrail_tele_busy_t b;
static unsigned polls;

/* `more` is the number of polls since the last call. */
static void done(uint64_t moved, mrail_ns_t post_us, mrail_ns_t now_us,
                 unsigned more)
{
    polls += more;
    mrail_tele_busy_done(&b, moved, post_us * US, now_us * US, polls);
}

static void posts(unsigned count, mrail_ns_t now_us)
{
    while (count-- > 0) {
        mrail_tele_busy_post(&b, now_us * US, polls);
    }
}

static void counters(uint64_t bytes, mrail_ns_t busy_us, uint64_t chunks,
                     mrail_ns_t chunk_us)
{
    mrail_tele_work_t work = mrail_tele_busy_read(&b);

    assert_int_equal(work.bytes, bytes);
    assert_int_equal(work.busy_ns, busy_us * US);
    assert_int_equal(work.chunks, chunks);
    assert_int_equal(work.chunk_ns, chunk_us * US);
}

static int busy_start(void **state)
{
    memset(&b, 0, sizeof(b));
    polls = UINT_MAX - 10; /* wraps around */
    return 0;
}

/* Chunks that overlap share their time, and idle time does not count. */
static void test_busy_union(void **state)
{
    counters(0, 0, 0, 0);
    posts(1, 1000);
    posts(1, 1020);
    done(5, 1000, 1100, 9);
    counters(0, 0, 0, 0); /* the poll may not be complete */
    done(6, 1020, 1150, 9);
    counters(11, 150, 2, 230);
    posts(1, 9000);
    counters(11, 150, 2, 230);
    done(7, 9000, 9010, 9);
    counters(18, 160, 3, 240);
}

static void test_busy_one_poll(void **state)
{
    posts(4, 1000);
    for (unsigned i = 0; i < 3; ++i) {
        done(5, 1000, 1100, 1);
    }
    counters(0, 0, 0, 0);
    done(5, 1000, 1100, 1);
    counters(20, 100, 4, 400);
    /* A callback posts a chunk during the poll. */
    posts(2, 2000);
    done(5, 2000, 2100, 1);
    posts(1, 2100);
    done(5, 2000, 2100, 1);
    done(5, 2100, 2150, 1);
    counters(35, 250, 7, 650);
}

static void test_busy_failures(void **state)
{
    posts(2, 1000);
    done(0, 1000, 9000000, 1000000);
    done(0, 1000, 9000000, 1000000);
    counters(0, 0, 0, 0);
    posts(2, 9000000);
    done(5, 9000000, 9000100, 1);
    done(0, 9000000, 9000100, 1);
    counters(5, 100, 1, 100);
}

static void test_busy_late_poll(void **state)
{
    /* All chunks are complete, but since when? */
    posts(2, 1000);
    done(5, 1000, 9000, 1);
    done(5, 1000, 9000, 0);
    counters(0, 0, 0, 0);
    posts(1, 20000);
    counters(0, 0, 0, 0);
    done(5, 20000, 30000, MRAIL_TELE_BUSY_POLLS - 1);
    counters(0, 0, 0, 0);
    /* The process polls often enough. */
    posts(2, 40000);
    done(5, 40000, 50000, MRAIL_TELE_BUSY_POLLS);
    done(5, 40000, 50000, 0);
    counters(10, 10000, 2, 20000);
    /* A chunk that remains in flight proves that the rail was busy. */
    posts(2, 60000);
    done(5, 60000, 70000, 1);
    done(5, 60000, 70100, 1);
    counters(20, 20100, 4, 40100);
}

static void test_busy_monotonic(void **state)
{
    mrail_tele_work_t last = mrail_tele_busy_read(&b);
    unsigned seed = 1, inflight = 0;
    mrail_ns_t now_us = 1;

    for (unsigned i = 0; i < 100000; ++i) {
        mrail_tele_work_t work;
        unsigned bits = seed >> 16;

        seed = seed * 1103515245 + 12345;
        now_us += (bits & 8) ? bits % 500 : 0;
        if ((inflight == 0) || (bits & 1)) {
            posts(1, now_us);
            ++inflight;
        } else {
            done((bits & 6) * 1000, 1, now_us, bits & 16);
            --inflight;
        }
        work = mrail_tele_busy_read(&b);
        assert_true(work.bytes >= last.bytes);
        assert_true(work.busy_ns >= last.busy_ns);
        assert_true(work.busy_ns <= now_us * US);
        assert_true(work.chunks >= last.chunks);
        assert_true(work.chunk_ns >= last.chunk_ns);
        last = work;
    }
    assert_int_equal(b.inflight, inflight);
    assert_true(last.chunks > 1000);
}

/* Returns bytes per second of busy time, as a part of RATE. */
static double busy_rate(void)
{
    mrail_tele_work_t work = mrail_tele_busy_read(&l.busy);

    return (double)work.bytes / RATE / ((double)work.busy_ns / 1e9);
}

/* A slow rail carries one chunk of each exchange, which is too little for an
 * estimate. */
static void test_slow_rail(void **state)
{
    l.rate = RATE / 10;
    for (unsigned i = 0; i < 50; ++i) {
        lanes(1, 1);
        run(l.look_ns);
        lanes(0, 0);
        run(10 * MS);
    }
    assert_true(live() == 0);
    assert_near(busy_rate(), 0.1, 0.08);
    /* The time per chunk tells this rail from one that waits for latency. */
    assert_true(l.busy.total.chunk_ns >
                l.busy.total.chunks * MRAIL_TELE_QUEUE_NS);
}

/* A rail that is used little has the same rate as one that is always used. */
static void test_little_use(void **state)
{
    lanes(2, 4);
    run(200 * MS);
    assert_near(busy_rate(), 1, 0.08);
    link_start(NULL);
    for (unsigned i = 0; i < 50; ++i) {
        lanes(1, 8);
        run(l.look_ns);
        lanes(0, 0);
        run(20 * MS);
    }
    assert_near(busy_rate(), 1, 0.08);
}

#define BY_HAND(_test) cmocka_unit_test_setup(_test, fresh)
#define BUSY(_test) cmocka_unit_test_setup(_test, busy_start)
#define ON_LINK(_test) cmocka_unit_test_setup(_test, link_start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BY_HAND(test_first),
        BY_HAND(test_up),
        BY_HAND(test_noise),
        BY_HAND(test_down),
        BY_HAND(test_confirm),
        BY_HAND(test_peer_of_highest_sample),
        BY_HAND(test_fewer_peers),
        BY_HAND(test_expires),
        ON_LINK(test_steady),
        ON_LINK(test_foreign_load),
        ON_LINK(test_load_that_flickers),
        ON_LINK(test_idle),
        ON_LINK(test_slow_peer),
        ON_LINK(test_peer_slows_down),
        ON_LINK(test_late_polls),
        ON_LINK(test_rare_polls),
        ON_LINK(test_latency),
        ON_LINK(test_latency_in_between),
        ON_LINK(test_not_all_the_time),
        ON_LINK(test_lanes_of_one_peer),
        ON_LINK(test_runs_of_others),
        ON_LINK(test_one_after_the_other),
        ON_LINK(test_runs_far_apart),
        ON_LINK(test_short_runs),
        ON_LINK(test_lanes_that_meet),
        ON_LINK(test_long_segments),
        ON_LINK(test_only_drains),
        ON_LINK(test_bursts),
        ON_LINK(test_all_at_once),
        ON_LINK(test_failures),
        BUSY(test_busy_union),
        BUSY(test_busy_one_poll),
        BUSY(test_busy_failures),
        BUSY(test_busy_late_poll),
        BUSY(test_busy_monotonic),
        ON_LINK(test_slow_rail),
        ON_LINK(test_little_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
