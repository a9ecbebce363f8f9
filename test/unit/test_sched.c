/* Tests the chunk scheduler in virtual time, compared with the ideal
 * time. */
#include "config.h"
#include "rail/proto/sched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/rng.h"
#include "base/util.h"

#define MAX_LANES 8
#define MAX_SEGS 512

/* A model of lanes that process chunks one after another at a fixed rate. */
typedef struct {
    mrail_sched_lane_t lane[MAX_LANES];
    mrail_sched_lane_t *ptr[MAX_LANES];
    double rate[MAX_LANES]; /* bytes per second; 0 if the lane stalls */
    struct {
        size_t length;
        mrail_ns_t post_ns, done_ns;
    } queue[MAX_LANES][MAX_SEGS];
    unsigned num_queued[MAX_LANES];
    mrail_ns_t free_ns[MAX_LANES];
    unsigned count;
    uint64_t sent[MAX_LANES];
    unsigned chunks;
    mrail_ns_t now_ns;
    uint32_t poll_ns; /* maximum time between polls; 0: continuous */
    /* Proportion of polls, in ppm, that are 1 to 11 ms late. */
    uint32_t stall_ppm;
    mrail_rng_t rng;
} model_t;

static void model_init(model_t *m, const double *rates, unsigned count)
{
    memset(m, 0, sizeof(*m));
    m->count = count;
    m->now_ns = 1000;
    for (unsigned i = 0; i < count; ++i) {
        m->rate[i] = rates[i];
        m->lane[i].nominal = 12500000000ull;
        m->lane[i].usable = 1;
        m->ptr[i] = &m->lane[i];
    }
}

static void model_post(model_t *m, unsigned i, size_t length)
{
    mrail_ns_t start = MRAIL_MAX(m->free_ns[i], m->now_ns);
    unsigned n = m->num_queued[i]++;

    assert_true(n < MAX_SEGS);
    m->free_ns[i] =
        (m->rate[i] == 0)
            ? MRAIL_NS_NEVER / 2
            : start + (mrail_ns_t)((double)length / m->rate[i] * 1e9);
    m->queue[i][n].length = length;
    m->queue[i][n].post_ns = m->now_ns;
    m->queue[i][n].done_ns = m->free_ns[i];
    if (m->lane[i].inflight == 0) {
        m->lane[i].since_ns = m->now_ns;
    }
    m->lane[i].inflight += length;
    m->sent[i] += length;
    ++m->chunks;
}

/* Returns the lane whose oldest chunk completes next, or MAX_LANES if none will
 * complete. */
static unsigned model_next(const model_t *m)
{
    unsigned best = MAX_LANES;

    for (unsigned i = 0; i < m->count; ++i) {
        if ((m->num_queued[i] != 0) && (m->rate[i] != 0) &&
            ((best == MAX_LANES) ||
             (m->queue[i][0].done_ns < m->queue[best][0].done_ns))) {
            best = i;
        }
    }
    return best;
}

static void model_complete(model_t *m, unsigned best)
{
    m->lane[best].inflight -= m->queue[best][0].length;
    m->lane[best].since_ns = m->now_ns;
    mrail_sched_done(&m->lane[best], m->queue[best][0].length,
                     m->queue[best][0].post_ns, m->now_ns);
    memmove(&m->queue[best][0], &m->queue[best][1],
            --m->num_queued[best] * sizeof(m->queue[best][0]));
}

/* Advances to the first poll that finds completions, and processes them.
 * Returns 0 if there will be none. */
static int model_step(model_t *m)
{
    unsigned next = model_next(m);

    if (next == MAX_LANES) {
        return 0;
    }
    if (m->poll_ns == 0) {
        m->now_ns = MRAIL_MAX(m->now_ns, m->queue[next][0].done_ns);
        model_complete(m, next);
        return 1;
    }
    while (m->now_ns < m->queue[next][0].done_ns) {
        m->now_ns += 1 + mrail_rng_below(&m->rng, m->poll_ns);
        if (mrail_rng_hit(&m->rng, m->stall_ppm)) {
            m->now_ns += MRAIL_NS_PER_MS +
                         mrail_rng_below(&m->rng, 10 * MRAIL_NS_PER_MS);
        }
    }
    do {
        model_complete(m, next);
        next = model_next(m);
    } while ((next != MAX_LANES) && (m->queue[next][0].done_ns <= m->now_ns));
    return 1;
}

/* Returns the time to move `total` bytes, from the first post to the last
 * completion. */
static mrail_ns_t model_transfer(model_t *m, size_t total)
{
    const mrail_sched_params_t params = {0};
    mrail_ns_t start = m->now_ns;
    size_t left = total, chunk;

    do {
        while (left != 0) {
            int i = mrail_sched_pick(m->ptr, m->count, left, left, &params,
                                     m->now_ns, &chunk);

            if (i < 0) {
                break;
            }
            assert_true((chunk >= 1) && (chunk <= left));
            model_post(m, (unsigned)i, chunk);
            left -= chunk;
        }
    } while (model_step(m));
    assert_int_equal(left, 0);
    return m->now_ns - start;
}

static void check_efficiency(const double *rates, unsigned count, size_t total,
                             double wanted)
{
    double sum = 0, ideal, reached;
    model_t m;

    model_init(&m, rates, count);
    for (unsigned i = 0; i < count; ++i) {
        sum += rates[i];
    }
    model_transfer(&m, 8 << 20); /* this transfer measures the rates */
    ideal = (double)total / sum * 1e9;
    reached = ideal / (double)model_transfer(&m, total);
    if (reached < wanted) {
        fail_msg("%u lanes, %zu bytes: %.4f of the sum of the rates, wanted "
                 "%.4f",
                 count, total, reached, wanted);
    }
}

static void test_equal_lanes(void **state)
{
    const double rates[] = {100e6, 100e6, 100e6, 100e6};

    check_efficiency(rates, 4, 4 << 20, 0.999);
    check_efficiency(rates, 4, 64 << 20, 0.999);
}

static void test_unequal_lanes(void **state)
{
    const double rates[] = {200e6, 100e6, 50e6, 50e6};

    check_efficiency(rates, 4, 4 << 20, 0.999);
    check_efficiency(rates, 4, 64 << 20, 0.999);
}

static void test_random_rates(void **state)
{
    mrail_rng_t rng;

    for (uint64_t seed = 1; seed <= 300; ++seed) {
        double rates[MAX_LANES];
        unsigned count;

        mrail_rng_init(&rng, seed);
        count = 1 + mrail_rng_below(&rng, MAX_LANES);
        for (unsigned i = 0; i < count; ++i) {
            rates[i] = 20e6 * (1 + mrail_rng_below(&rng, 50));
        }
        check_efficiency(rates, count, 32 << 20, 0.985);
    }
}

/* Compares the mean rate over seeds with the sum of the lanes' rates. */
static void check_polls(uint32_t poll_ns, uint32_t stall_ppm, double wanted)
{
    const double rates[] = {200e6, 100e6, 50e6, 50e6};
    const unsigned seeds = 40;
    double reached = 0;

    for (uint64_t seed = 1; seed <= seeds; ++seed) {
        model_t m;

        model_init(&m, rates, 4);
        mrail_rng_init(&m.rng, seed);
        m.poll_ns = poll_ns;
        m.stall_ppm = stall_ppm;
        model_transfer(&m, 8 << 20);
        reached += (64 << 20) / 400e6 * 1e9 /
                   (double)model_transfer(&m, 64 << 20) / seeds;
    }
    if (reached < wanted) {
        fail_msg("polls up to %u us apart, %u ppm stalls: %.4f of the sum of "
                 "the rates, wanted %.4f",
                 poll_ns / 1000, stall_ppm, reached, wanted);
    }
}

/* After a pause of the process, a poll finds more completions than the window
 * has samples. The lanes had work for nearly all of the pause, so little time
 * is lost. */
static void test_stalls(void **state)
{
    check_polls(100000, 1000, 0.98);
    check_polls(100000, 10000, 0.95);
}

/*
 * The interval between polls exceeds the window. A poll finds only the work
 * that was done before the lane became idle. The interval t is uniform in [0,
 * p] ms, and a lane has work for 10 ms. The busy fraction is E(min(t, 10)) /
 * E(t), which is 20 / p - 100 / p^2: 0.89 for 15 ms, and 0.56 for 30 ms. The
 * limits allow 10 % for the start and the end.
 */
static void test_rare_polls(void **state)
{
    check_polls(2000000, 0, 0.98);
    check_polls(8000000, 0, 0.96);
    check_polls(15000000, 0, 0.79);
    check_polls(30000000, 0, 0.46);
}

/* Splits an operation of `length` bytes on idle lanes with measured rates. Each
 * lane carries one chunk, with its size in part[]. Returns 0 if the operation
 * is split in any other way. */
static int cut(const double *rates, unsigned count, size_t length,
               int has_rules, size_t *part)
{
    const mrail_sched_params_t params = {
        .equal_split = mrail_sched_equal_split(length, count),
        .has_rules = has_rules,
    };
    size_t left = length, chunk;
    model_t m;

    model_init(&m, rates, count);
    model_transfer(&m, 8 << 20);
    memset(part, 0, count * sizeof(*part));
    while (left != 0) {
        int i = mrail_sched_pick(m.ptr, count, left, left, &params, m.now_ns,
                                 &chunk);

        if ((i < 0) || (part[i] != 0)) {
            return 0;
        }
        model_post(&m, (unsigned)i, chunk);
        part[i] = chunk;
        left -= chunk;
    }
    return 1;
}

static int cut_evenly(const double *rates, unsigned count, size_t length,
                      size_t *part)
{
    return cut(rates, count, length, 0, part);
}

/* Random differences between measured rates must not change the equal split.
 * After larger differences, the split must change, and a faster lane carries
 * its part in several chunks. */
static void test_equal_parts(void **state)
{
    const double equal_rates[] = {3.6e6, 4.1e6, 3.8e6, 4.4e6};
    const double slower[] = {4e6, 4e6, 4e6, 2e6};
    const double quick[] = {4e6, 4e6, 4e6, 9e6};
    const double alone[] = {100e6, 98e6, 102e6, 99e6};
    const size_t lengths[] = {65536, 150000, 599186, 1 << 20, 3 << 20, 4 << 20};
    size_t part[4];

    for (unsigned k = 0; k < MRAIL_ARRAY_SIZE(lengths); ++k) {
        assert_true(cut_evenly(equal_rates, 4, lengths[k], part));
        for (unsigned i = 0; i < 4; ++i) {
            assert_true((part[i] <= lengths[k] / 4 + 512) &&
                        (part[i] + 4 * 512 >= lengths[k] / 4));
        }
    }
    assert_true(cut_evenly(slower, 4, 700000, part));
    assert_in_range(part[3], 90000, 110000); /* one seventh */
    assert_false(cut_evenly(quick, 4, 700000, part));
    /* On slow lanes, only large operations need equal rates. */
    assert_false(cut_evenly(slower, 4, 2 << 20, part));
    assert_false(cut_evenly(alone, 4, 2 << 20, part));
    assert_true(cut_evenly(alone, 4, 1 << 20, part));
    assert_false(cut_evenly(equal_rates, 4, (4 << 20) + 1, part));

    assert_int_equal(mrail_sched_equal_split(4 << 20, 4), 1 << 20);
    assert_int_equal(mrail_sched_equal_split((4 << 20) + 1, 4), 0);
    assert_int_equal(mrail_sched_equal_split(5, 4), 2);
}

/* With port rules, equal parts load all uplinks equally, even if rates differ
 * by chance. A lane with less than half the rate of another lane has a
 * fault. */
static void test_equal_parts_with_rules(void **state)
{
    const double noisy[] = {2.5e6, 4.1e6, 3.8e6, 4.4e6};
    const double slower[] = {4e6, 4e6, 4e6, 1.8e6};
    size_t part[4];

    assert_true(cut(noisy, 4, 2 << 20, 1, part));
    for (unsigned i = 0; i < 4; ++i) {
        assert_int_equal(part[i], 512 << 10);
    }
    assert_false(cut(noisy, 4, 2 << 20, 0, part));
    assert_false(cut(slower, 4, 2 << 20, 1, part));
}

/* Moves several operations over lanes with port rules whose rates change by
 * chance. Returns the largest difference between the bytes of two lanes. */
static uint64_t spread_with_rules(uint64_t seed, unsigned count, size_t length,
                                  double *efficiency_p)
{
    const mrail_sched_params_t params = {
        .equal_split = mrail_sched_equal_split(length, count),
        .has_rules = 1,
    };
    const double mean = 2.5e6;
    size_t total = 0, left, chunk;
    uint64_t least = UINT64_MAX, most = 0;
    mrail_ns_t start_ns;
    double rates[MAX_LANES];
    model_t m;

    for (unsigned i = 0; i < count; ++i) {
        rates[i] = mean;
    }
    model_init(&m, rates, count);
    mrail_rng_init(&m.rng, seed);
    model_transfer(&m, count << 20);
    memset(m.sent, 0, sizeof(m.sent));
    start_ns = m.now_ns;
    for (unsigned k = 0; k < 5; ++k) {
        left = length;
        total += length;
        do {
            while (left != 0) {
                int i = mrail_sched_pick(m.ptr, count, left, left, &params,
                                         m.now_ns, &chunk);

                if (i < 0) {
                    break;
                }
                m.rate[i] = mean * (0.8 + mrail_rng_below(&m.rng, 400) / 1e3);
                m.lane[i].taken += chunk;
                model_post(&m, (unsigned)i, chunk);
                left -= chunk;
            }
        } while (model_step(&m));
        assert_int_equal(left, 0);
    }
    for (unsigned i = 0; i < count; ++i) {
        least = MRAIL_MIN(least, m.sent[i]);
        most = MRAIL_MAX(most, m.sent[i]);
    }
    *efficiency_p =
        (double)total / (mean * count) / ((double)(m.now_ns - start_ns) / 1e9);
    return most - least;
}

/* With port rules, all lanes carry the same number of bytes, for any number of
 * lanes and any size of operations, and none waits for long. */
static void test_equal_loads_with_rules(void **state)
{
    const size_t lengths[] = {2 << 20, 16 << 20, 20000000};

    for (uint64_t seed = 1; seed <= 20; ++seed) {
        for (unsigned count = 2; count <= 8; ++count) {
            for (unsigned k = 0; k < MRAIL_ARRAY_SIZE(lengths); ++k) {
                double efficiency;

                assert_in_range(
                    spread_with_rules(seed, count, lengths[k], &efficiency), 0,
                    3 * MRAIL_SCHED_CHUNK_LOW / 2);
                /* An operation of one chunk per lane ends with the slowest
                 * of these chunks. */
                assert_true((lengths[k] < 16 << 20) || (efficiency > 0.94));
            }
        }
    }
}

/* A lane stops. The other lanes must take all work that it has not started. */
static void test_lagging_lane(void **state)
{
    const double rates[] = {100e6, 100e6, 100e6, 100e6};
    const mrail_sched_params_t params = {0};
    size_t left = 16 << 20, chunk;
    uint64_t stuck;
    model_t m;

    model_init(&m, rates, 4);
    model_transfer(&m, 8 << 20);
    m.rate[2] = 0;
    memset(m.sent, 0, sizeof(m.sent));
    while (left != 0) {
        int i = mrail_sched_pick(m.ptr, m.count, left, left, &params, m.now_ns,
                                 &chunk);

        if (i >= 0) {
            model_post(&m, (unsigned)i, chunk);
            left -= chunk;
        } else if (!model_step(&m)) {
            m.now_ns += MRAIL_NS_PER_MS; /* progress is called again */
        }
    }
    stuck = m.sent[2];
    /* At most one window at the earlier rate remains on the lane. */
    assert_true(stuck <=
                100e6 * MRAIL_SCHED_WINDOW_NS / 1e9 + MRAIL_SCHED_CHUNK_MAX);
}

/* With a single lane, no operation is split. */
static void test_only_lane(void **state)
{
    const double rate = 1e9;
    mrail_sched_params_t params = {.alone = 1};
    size_t chunk;
    model_t m;

    model_init(&m, &rate, 1);
    assert_int_equal(
        mrail_sched_pick(m.ptr, 1, 4 << 20, 4 << 20, &params, 0, &chunk), 0);
    assert_int_equal(chunk, 4 << 20);
    assert_int_equal(
        mrail_sched_pick(m.ptr, 1, 1 << 30, 1 << 30, &params, 0, &chunk), 0);
    assert_int_equal(chunk, MRAIL_SCHED_CHUNK_ALONE);
    /* A slow lane must have been measured: 10 ms at 50 MB/s. */
    for (unsigned i = 1; i <= MRAIL_TELE_WINDOW; ++i) {
        mrail_sched_done(&m.lane[0], 1000000, (i - 1) * 20000000ull,
                         i * 20000000ull);
    }
    assert_int_equal(
        mrail_sched_pick(m.ptr, 1, 1 << 30, 1 << 30, &params, 0, &chunk), 0);
    assert_int_equal(chunk, 500000);
    params.chunk = 65536;
    assert_int_equal(
        mrail_sched_pick(m.ptr, 1, 4 << 20, 4 << 20, &params, 0, &chunk), 0);
    assert_int_equal(chunk, 65536);
}

static void test_unusable_lanes(void **state)
{
    const mrail_sched_params_t params = {0};
    const double rates[] = {1e9, 1e9};
    size_t chunk;
    model_t m;

    model_init(&m, rates, 2);
    m.lane[0].usable = m.lane[1].usable = 0;
    assert_int_equal(mrail_sched_pick(m.ptr, 2, 1, 1, &params, 0, &chunk), -1);
    assert_int_equal(mrail_sched_pick_whole(m.ptr, 2, 1), -1);
    m.lane[1].usable = 1;
    assert_int_equal(mrail_sched_pick(m.ptr, 2, 1, 1, &params, 0, &chunk), 1);
    assert_int_equal(chunk, 1);
    assert_int_equal(mrail_sched_pick_whole(m.ptr, 2, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_lanes),
        cmocka_unit_test(test_unequal_lanes),
        cmocka_unit_test(test_random_rates),
        cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_rare_polls),
        cmocka_unit_test(test_equal_parts),
        cmocka_unit_test(test_equal_parts_with_rules),
        cmocka_unit_test(test_equal_loads_with_rules),
        cmocka_unit_test(test_lagging_lane),
        cmocka_unit_test(test_only_lane),
        cmocka_unit_test(test_unusable_lanes),
    };

    return cmocka_run_group_tests_name("sched", tests, NULL, NULL);
}
