/* Tests src/orchestrator/repath.c, which chooses ports by evidence, on a model
 * of ECMP over seeds. The lanes of one rail hash onto uplinks, which they share
 * equally. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/util.h"
#include "orchestrator/ports.h"
#include "orchestrator/repath.h"

#define WINDOW_NS (250 * MRAIL_NS_PER_MS)
#define SECOND (unsigned)(MRAIL_NS_PER_SEC / WINDOW_NS)
#define LINK_BYTES 10000000u /* bytes in a window */
#define MAX_LINKS 32

/* Lanes hash onto the uplinks of a leaf. If there are several links between a
 * spine and the destination leaf, the spine hashes the lanes again, onto these
 * links. */
typedef struct model {
    unsigned lanes, uplinks;
    unsigned parallel; /* links between spine and leaf; 1: one hash decides */
    uint64_t hash_seed;
    uint32_t noise_ppm; /* noise in a lane's bytes per window */
    /* Shortage of processor time: a window has up to this much fewer bytes on
     * all lanes. Once in 200 windows, a stall of 8 windows starts: all lanes
     * have 40 % of their bytes, with 50 % noise. */
    uint32_t shortage_ppm;
    double supply;    /* of processor time; 1 is enough */
    unsigned stalled; /* windows of the current stall still to come */
    /* The bytes that a lane can carry in a window, as limited by its own credit
     * window. */
    uint64_t limit;
    uint64_t capacity; /* bytes of the rail */
    uint16_t sports[MRAIL_REPATH_MAX_LANES], before[MRAIL_REPATH_MAX_LANES];
    uint64_t bytes[MRAIL_REPATH_MAX_LANES];
    /* The uplink and the downlink that the lane's port selects. */
    unsigned up[MRAIL_REPATH_MAX_LANES], down[MRAIL_REPATH_MAX_LANES];
    double rates[MRAIL_REPATH_MAX_LANES]; /* bytes in a window */
    mrail_rng_t rng;
    mrail_ns_t now_ns;
} model_t;

static void hash_lanes(model_t *model)
{
    for (unsigned i = 0; i < model->lanes; ++i) {
        uint64_t hash = mrail_mix64(model->hash_seed + model->sports[i]);
        unsigned spine = (unsigned)(hash % model->uplinks) / model->parallel;

        model->up[i] = (unsigned)(hash % model->uplinks);
        hash = mrail_mix64(3 * model->hash_seed + 7 * spine + model->sports[i]);
        model->down[i] =
            spine * model->parallel + (unsigned)(hash % model->parallel);
    }
}

/* Computes the rate of each lane when all lanes share their links max-min
 * fairly. The link with the least room for each of its lanes is decided
 * first. */
static void share_links(model_t *model)
{
    double residual[2 * MAX_LINKS];
    int is_decided[MRAIL_REPATH_MAX_LANES] = {0};

    for (unsigned l = 0; l < 2 * model->uplinks; ++l) {
        residual[l] = LINK_BYTES;
    }
    for (unsigned left = model->lanes; left > 0;) {
        unsigned num[2 * MAX_LINKS] = {0}, fullest = 0;
        double least = 2.0 * LINK_BYTES;

        for (unsigned i = 0; i < model->lanes; ++i) {
            num[model->up[i]] += !is_decided[i];
            num[model->uplinks + model->down[i]] += !is_decided[i];
        }
        for (unsigned l = 0; l < 2 * model->uplinks; ++l) {
            if (num[l] != 0 && residual[l] / num[l] < least) {
                least = residual[l] / num[l];
                fullest = l;
            }
        }
        for (unsigned i = 0; i < model->lanes; ++i) {
            unsigned down = model->uplinks + model->down[i];

            if (!is_decided[i] &&
                (model->up[i] == fullest || down == fullest)) {
                is_decided[i] = 1;
                model->rates[i] = least;
                residual[model->up[i]] -= least;
                residual[down] -= least;
                --left;
            }
        }
    }
}

static int is_balanced(const model_t *model)
{
    unsigned up[MAX_LINKS] = {0}, down[MAX_LINKS] = {0};

    for (unsigned i = 0; i < model->lanes; ++i) {
        ++up[model->up[i]];
        ++down[model->down[i]];
    }
    for (unsigned u = 0; u < model->uplinks; ++u) {
        if (up[u] != model->lanes / model->uplinks ||
            down[u] != model->lanes / model->uplinks) {
            return 0;
        }
    }
    return 1;
}

/* The rail is `slow` times as fast as all its uplinks together. */
static void model_init(model_t *model, unsigned lanes, unsigned uplinks,
                       unsigned parallel, unsigned slow, uint64_t seed,
                       uint32_t noise_ppm)
{
    *model = (model_t){.lanes = lanes,
                       .uplinks = uplinks,
                       .parallel = parallel,
                       .hash_seed = mrail_mix64(seed + 1),
                       .noise_ppm = noise_ppm,
                       .limit = LINK_BYTES,
                       .supply = 1,
                       .capacity = (uint64_t)LINK_BYTES * uplinks * slow};
    mrail_rng_init(&model->rng, seed);
    for (unsigned i = 0; i < lanes; ++i) {
        model->sports[i] = mrail_ports_lane(uplinks, 2, lanes, i);
        model->sports[i] = (uint16_t)(model->sports[i] + i);
    }
    hash_lanes(model);
    share_links(model);
}

static double part_below(model_t *model, uint32_t part_ppm)
{
    return (part_ppm == 0) ? 0 : mrail_rng_below(&model->rng, part_ppm) / 1e6;
}

static void supply_time(model_t *model)
{
    if (model->shortage_ppm == 0) {
        return;
    }
    /* The supply changes from window to window by half of a random change. */
    model->supply +=
        (1 - part_below(model, model->shortage_ppm) - model->supply) / 2;
    if (model->stalled != 0) {
        --model->stalled;
    } else if (mrail_rng_below(&model->rng, 200) == 0) {
        model->stalled = 8;
    }
}

static void model_window(model_t *model)
{
    double supply;
    uint32_t noise_ppm;

    supply_time(model);
    supply = model->supply * ((model->stalled != 0) ? 0.4 : 1);
    noise_ppm = (model->stalled != 0) ? 500000 : model->noise_ppm;
    for (unsigned i = 0; i < model->lanes; ++i) {
        double share = MRAIL_MIN(model->rates[i], (double)model->limit);

        model->bytes[i] =
            (uint64_t)(share * supply * (1 - part_below(model, noise_ppm)));
    }
    model->now_ns += WINDOW_NS;
}

static void make_move(model_t *model, const mrail_repath_move_t *move)
{
    uint16_t before = model->sports[move->lane];

    assert_true(move->lane < model->lanes);
    switch (move->target) {
    case MRAIL_REPATH_RANDOM:
        model->sports[move->lane] =
            (uint16_t)(MRAIL_PORTS_FIRST +
                       mrail_rng_below(&model->rng, MRAIL_PORTS_COUNT));
        break;
    case MRAIL_REPATH_COPY:
        assert_true(move->other < model->lanes && move->other != move->lane);
        model->sports[move->lane] = model->sports[move->other];
        break;
    case MRAIL_REPATH_BACK:
        model->sports[move->lane] = model->before[move->lane];
        break;
    }
    model->before[move->lane] = before;
    hash_lanes(model);
    share_links(model);
}

static uint64_t all_lanes(const model_t *model)
{
    return UINT64_MAX >> (64 - model->lanes);
}

/* Runs windows, and makes the moves that result. Returns the number of
 * moves. */
static unsigned run_windows(model_t *model, mrail_repath_t *repath,
                            unsigned windows)
{
    unsigned moves = 0;

    for (unsigned w = 0; w < windows; ++w) {
        mrail_repath_move_t move;

        model_window(model);
        if (mrail_repath_window(repath, model->now_ns, model->bytes,
                                all_lanes(model), model->capacity, &move)) {
            make_move(model, &move);
            ++moves;
        }
    }
    return moves;
}

static uint64_t num_seeds(void)
{
    const char *text = getenv("MRAIL_TEST_SEEDS");

    return (text != NULL) ? strtoull(text, NULL, 10) : 2000;
}

/* A row of the table in docs/decisions/0020-ports-by-evidence.md: a case, and
 * the limits of its figures. */
typedef struct fabric {
    unsigned lanes, uplinks, parallel, slow;
    double mean; /* mean number of moves */
} fabric_t;

static int compare_unsigned(const void *a, const void *b)
{
    return (*(const unsigned *)a > *(const unsigned *)b) -
           (*(const unsigned *)a < *(const unsigned *)b);
}

/* The lanes must be balanced after a bounded number of moves. After that, no
 * move may follow for a minute. */
static void check_fabric(const fabric_t *fabric, uint32_t noise_ppm)
{
    uint64_t seeds = num_seeds();
    unsigned *moves = calloc(seeds, sizeof(*moves)), unbalanced = 0;
    double sum = 0;

    assert_non_null(moves);
    for (uint64_t seed = 0; seed < seeds; ++seed) {
        mrail_repath_t repath;
        model_t model;
        unsigned more;

        model_init(&model, fabric->lanes, fabric->uplinks, fabric->parallel,
                   fabric->slow, seed, noise_ppm);
        mrail_repath_init(&repath, NULL, fabric->lanes, seed);
        moves[seed] = run_windows(&model, &repath, 300 * SECOND);
        sum += moves[seed];
        if (!is_balanced(&model)) {
            ++unbalanced;
            continue;
        }
        more = run_windows(&model, &repath, 60 * SECOND);
        if (more != 0) {
            fail_msg("%u lanes, %u uplinks, seed %llu: %u moves of balanced "
                     "lanes",
                     fabric->lanes, fabric->uplinks, (unsigned long long)seed,
                     more);
        }
    }
    qsort(moves, seeds, sizeof(*moves), compare_unsigned);
    print_message(
        "%2u lanes, %2u uplinks, %u between spine and leaf, rail %u x, "
        "noise %2u %%: moves mean %.1f, 99th percentile %u, largest "
        "%u; not balanced %u of %llu\n",
        fabric->lanes, fabric->uplinks, fabric->parallel, fabric->slow,
        noise_ppm / 10000, sum / (double)seeds, moves[seeds * 99 / 100],
        moves[seeds - 1], unbalanced, (unsigned long long)seeds);
    /* An episode has at most eight moves per lane, so the limit is two
     * episodes. If lanes collide equally, eight attempts may bring no gain. */
    if (sum > fabric->mean * (double)seeds ||
        moves[seeds * 99 / 100] > 16 * fabric->lanes ||
        unbalanced * 100 > ((fabric->parallel == 1) ? 0 : seeds)) {
        fail_msg("%u lanes, %u uplinks: more than allowed", fabric->lanes,
                 fabric->uplinks);
    }
    free(moves);
}

static void test_balances_and_stays(void **state)
{
    static const fabric_t fabrics[] = {
        {8, 4, 1, 1, 4},   {8, 8, 1, 1, 16},  {16, 4, 1, 1, 8},
        {16, 8, 1, 1, 12}, {32, 8, 1, 1, 18}, {8, 4, 2, 1, 20},
        {16, 8, 2, 1, 50}, {8, 4, 1, 3, 24},
    };

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(fabrics); ++i) {
        check_fabric(&fabrics[i], 0);
        check_fabric(&fabrics[i], 80000);
    }
}

/* Shortages of processor time look like collisions in single windows. They must
 * neither keep lanes from being balanced, nor move balanced lanes for long. The
 * time that counts is from 1 min to 5 min after the start. */
static void test_shortage_of_time(void **state)
{
    static const struct {
        unsigned lanes, uplinks, parallel;
        double balanced; /* least fraction of the time */
        double moves;    /* largest mean number, all 5 min */
    } cases[] = {
        {8, 4, 1, 0.95, 50}, {8, 8, 1, 0.85, 90},  {16, 4, 1, 0.95, 60},
        {8, 4, 2, 0.87, 80}, {16, 8, 1, 0.93, 75},
    };

    for (unsigned c = 0; c < MRAIL_ARRAY_SIZE(cases); ++c) {
        unsigned seeds = 200, moves = 0, balanced = 0, windows = 0;

        for (uint64_t seed = 0; seed < seeds; ++seed) {
            mrail_repath_t repath;
            model_t model;

            model_init(&model, cases[c].lanes, cases[c].uplinks,
                       cases[c].parallel, 1, seed, 80000);
            model.shortage_ppm = 300000;
            mrail_repath_init(&repath, NULL, cases[c].lanes, seed);
            moves += run_windows(&model, &repath, 60 * SECOND);
            for (unsigned w = 0; w < 240 * SECOND; ++w) {
                moves += run_windows(&model, &repath, 1);
                balanced += is_balanced(&model);
                ++windows;
            }
        }
        print_message("%2u lanes, %2u uplinks, %u between spine and leaf, "
                      "shortages: balanced %.1f %% of the time, %.1f moves\n",
                      cases[c].lanes, cases[c].uplinks, cases[c].parallel,
                      100.0 * balanced / windows, (double)moves / seeds);
        assert_true(balanced >= cases[c].balanced * windows);
        assert_true(moves <= cases[c].moves * seeds);
    }
}

/* All lanes collide equally on two of four uplinks, and each is slow. Lanes
 * that are limited by their own windows also have equal rates, on uplinks that
 * are fuller. */
static void test_equal_collisions(void **state)
{
    unsigned balanced = 0;

    for (uint64_t seed = 0; seed < 500; ++seed) {
        mrail_repath_t repath;
        model_t model;

        model_init(&model, 8, 4, 1, 3, seed, 0);
        model.limit = LINK_BYTES * 2 / 5;
        mrail_repath_init(&repath, NULL, 8, seed);
        run_windows(&model, &repath, 300 * SECOND);
        balanced += is_balanced(&model);
    }
    assert_in_range(balanced, 450, 500);
}

/* No choice of ports can remove some differences, such as those of 5 lanes over
 * 4 uplinks. The episode then ends, and the back-off doubles. */
static void test_backs_off(void **state)
{
    for (uint64_t seed = 0; seed < 50; ++seed) {
        mrail_repath_t repath;
        model_t model;
        unsigned moves;

        model_init(&model, 5, 4, 1, 1, seed, 0);
        mrail_repath_init(&repath, NULL, 5, seed);
        moves = run_windows(&model, &repath, 60 * SECOND);
        assert_true(moves <= 3 * 8 * 5);
        assert_true(repath.num_failed >= 2 && repath.num_failed <= 3);
        assert_int_equal(moves, repath.num_moves);
        run_windows(&model, &repath, 3600 * SECOND);
        assert_true(repath.num_failed <= 13);
    }
}

/* Equal lanes, idle lanes, a single lane, and a lane without any bytes must
 * cause no move. */
static void test_leaves_alone(void **state)
{
    static const uint64_t unequal[4] = {100, 100, 100, 10};
    static const uint64_t dead[4] = {100, 100, 100, 0};
    mrail_repath_t repath;
    mrail_repath_move_t move;

    mrail_repath_init(&repath, NULL, 4, 1);
    for (unsigned w = 0; w < 100; ++w) {
        assert_false(mrail_repath_window(&repath, w, unequal, 7, 0, &move));
        assert_false(mrail_repath_window(&repath, w, unequal, 8, 0, &move));
        assert_false(mrail_repath_window(&repath, w, unequal, 0, 0, &move));
        assert_false(mrail_repath_window(&repath, w, dead, 15, 0, &move));
    }
    assert_int_equal(repath.num_moves, 0);
}

/* A short disturbance must cause no move. A lasting one must cause one, and
 * then one per settled window. */
static void test_hysteresis(void **state)
{
    static const uint64_t equal[2] = {100, 100}, unequal[2] = {100, 70},
                          nearly[2] = {100, 85};
    mrail_repath_t repath;
    mrail_repath_move_t move;

    mrail_repath_init(&repath, NULL, 2, 1);
    for (unsigned w = 0; w < 15; ++w) {
        assert_false(mrail_repath_window(
            &repath, w, (w % 3 == 2) ? equal : unequal, 3, 200, &move));
    }
    assert_false(mrail_repath_window(&repath, 100, equal, 3, 200, &move));
    assert_false(mrail_repath_window(&repath, 101, unequal, 3, 200, &move));
    assert_false(mrail_repath_window(&repath, 102, unequal, 3, 200, &move));
    assert_true(mrail_repath_window(&repath, 103, unequal, 3, 200, &move));
    assert_int_equal(move.lane, 1);
    /* The window in which the lane moved must not count. */
    assert_false(mrail_repath_window(&repath, 104, unequal, 3, 200, &move));
    /* A difference between the two limits continues an episode, but does not
     * start a new one. */
    for (unsigned w = 105; w < 109; ++w) {
        assert_int_equal(mrail_repath_window(&repath, w, nearly, 3, 200, &move),
                         w == 108); /* after four windows */
    }
    for (unsigned w = 109; w < 120; ++w) {
        assert_false(mrail_repath_window(&repath, w, equal, 3, 200, &move));
    }
    for (unsigned w = 120; w < 200; ++w) {
        assert_false(mrail_repath_window(&repath, w, nearly, 3, 200, &move));
    }
    assert_int_equal(repath.num_episodes, 1);
    assert_int_equal(repath.num_failed, 0);
    /* The lanes have been balanced for long, so more windows are needed to
     * start an episode. */
    for (unsigned w = 200; w < 219; ++w) {
        assert_false(mrail_repath_window(&repath, w, unequal, 3, 200, &move));
    }
    assert_true(mrail_repath_window(&repath, 219, unequal, 3, 200, &move));
    assert_int_equal(repath.num_episodes, 2);
}

/* Starts a trial of a lane among eight equal lanes that reach half of the
 * capacity. */
static unsigned begin_trial(mrail_repath_t *repath, uint64_t *bytes)
{
    mrail_repath_move_t move = {0};
    unsigned w = 0;

    for (unsigned i = 0; i < 8; ++i) {
        bytes[i] = 100;
    }
    mrail_repath_init(repath, NULL, 8, 1);
    while (!mrail_repath_window(repath, ++w, bytes, 0xFF, 1600, &move)) {
        assert_true(w < 10);
    }
    assert_int_equal(move.target, MRAIL_REPATH_RANDOM);
    assert_false(mrail_repath_window(repath, ++w, bytes, 0xFF, 1600, &move));
    bytes[8] = move.lane;
    return w;
}

/* A window without some lanes must neither look like a gain nor like a loss of
 * the trial. If lanes are gone for good, the trial ends. */
static void test_lanes_leave_a_trial(void **state)
{
    uint64_t bytes[9];
    mrail_repath_t repath;
    mrail_repath_move_t move;
    unsigned w = begin_trial(&repath, bytes), lane = (unsigned)bytes[8];

    /* The lane is held in the first window, and faster afterwards. */
    bytes[lane] = 0;
    assert_false(mrail_repath_window(&repath, ++w, bytes, 0xFFu & ~(1u << lane),
                                     1600, &move));
    bytes[lane] = 130;
    for (unsigned i = 0; i < 4; ++i) {
        assert_false(
            mrail_repath_window(&repath, ++w, bytes, 0xFF, 1600, &move));
    }
    assert_int_equal(repath.trial.windows, 0); /* a gain */

    /* Most lanes are idle in all windows but one. */
    w = begin_trial(&repath, bytes);
    lane = (unsigned)bytes[8];
    for (unsigned i = 0; i < 3; ++i) {
        uint64_t two = (1ull << lane) | (1ull << ((lane + 1) % 8));
        uint64_t few[8] = {0};

        few[lane] = few[(lane + 1) % 8] = 100;
        assert_false(mrail_repath_window(&repath, ++w, few, two, 1600, &move));
    }
    for (unsigned i = 0; i < 4; ++i) {
        assert_int_equal(
            mrail_repath_window(&repath, ++w, bytes, 0xFF, 1600, &move),
            i == 3);
    }
    assert_int_equal(move.target, MRAIL_REPATH_BACK);

    w = begin_trial(&repath, bytes);
    for (unsigned i = 0; i < 5; ++i) {
        assert_int_not_equal(repath.trial.windows, 0);
        assert_false(
            mrail_repath_window(&repath, ++w, bytes, 0x7F, 1600, &move));
    }
    assert_int_equal(repath.trial.windows, 0);
}

/* After a pause, the rates before it do not count: a trial does not continue,
 * and an episode does not move a lane after one window. */
static void test_pause(void **state)
{
    static const uint64_t unequal[2] = {100, 50};
    uint64_t bytes[9];
    mrail_repath_t repath;
    mrail_repath_move_t move;
    unsigned w = begin_trial(&repath, bytes);

    assert_false(mrail_repath_window(&repath, w + 11 * MRAIL_NS_PER_SEC, bytes,
                                     0xFF, 1600, &move));
    assert_int_equal(repath.trial.windows, 0);
    assert_int_equal(repath.moves, 0);

    mrail_repath_init(&repath, NULL, 2, 1);
    for (w = 0; w < 3; ++w) {
        assert_int_equal(
            mrail_repath_window(&repath, w, unequal, 3, 200, &move), w == 2);
    }
    assert_false(mrail_repath_window(&repath, w, unequal, 3, 200, &move));
    assert_false(mrail_repath_window(&repath, w + 11 * MRAIL_NS_PER_SEC,
                                     unequal, 3, 200, &move));
}

/* Lanes whose capacity is unknown may collide equally, so they do not count as
 * balanced for long. */
static void test_unknown_capacity(void **state)
{
    uint64_t bytes[8];
    mrail_repath_t repath;
    mrail_repath_move_t move;

    for (unsigned i = 0; i < 8; ++i) {
        bytes[i] = 100;
    }
    mrail_repath_init(&repath, NULL, 8, 1);
    for (unsigned w = 0; w < 100; ++w) {
        assert_false(mrail_repath_window(&repath, w, bytes, 0xFF, 0, &move));
    }
    for (unsigned w = 100; w < 103; ++w) {
        assert_int_equal(
            mrail_repath_window(&repath, w, bytes, 0xFF, 1600, &move),
            w == 102);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balances_and_stays),
        cmocka_unit_test(test_shortage_of_time),
        cmocka_unit_test(test_equal_collisions),
        cmocka_unit_test(test_backs_off),
        cmocka_unit_test(test_leaves_alone),
        cmocka_unit_test(test_hysteresis),
        cmocka_unit_test(test_lanes_leave_a_trial),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_unknown_capacity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
