/* Ports by evidence: src/orchestrator/repath.c, on a model of ECMP over seeds: lanes
 * of one rail hash onto uplinks, which they share equally. */
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

#define WINDOW_NS (20 * MRAIL_NS_PER_MS)
#define UPLINK_BYTES 1000000u /* of a window */

typedef struct model {
    unsigned lanes, uplinks;
    uint64_t hash_seed;
    uint32_t noise_ppm; /* of a lane's bytes in a window */
    uint64_t limit;     /* bytes of a lane in a window, by its own window */
    uint64_t capacity;  /* bytes of the rail */
    uint16_t sports[MRAIL_REPATH_MAX_LANES];
    uint64_t bytes[MRAIL_REPATH_MAX_LANES];
    unsigned load[64]; /* lanes of each uplink */
    mrail_rng_t rng;
    mrail_ns_t now_ns;
} model_t;

static unsigned uplink_of(const model_t *model, unsigned lane)
{
    return (unsigned)(mrail_mix64(model->hash_seed + model->sports[lane]) %
                      model->uplinks);
}

static void model_init(model_t *model, unsigned lanes, unsigned uplinks,
                       uint64_t seed, uint32_t noise_ppm)
{
    *model = (model_t){.lanes = lanes,
                       .uplinks = uplinks,
                       .hash_seed = mrail_mix64(seed + 1),
                       .noise_ppm = noise_ppm,
                       .limit = UPLINK_BYTES,
                       .capacity = (uint64_t)UPLINK_BYTES * uplinks};
    mrail_rng_init(&model->rng, seed);
    for (unsigned i = 0; i < lanes; ++i) {
        model->sports[i] = mrail_ports_lane(uplinks, 2, lanes, i);
        model->sports[i] = (uint16_t)(model->sports[i] + i);
    }
}

/* One window: equal shares of the uplink, with noise. */
static void model_window(model_t *model)
{
    for (unsigned u = 0; u < model->uplinks; ++u) {
        model->load[u] = 0;
    }
    for (unsigned i = 0; i < model->lanes; ++i) {
        ++model->load[uplink_of(model, i)];
    }
    for (unsigned i = 0; i < model->lanes; ++i) {
        uint64_t share = MRAIL_MIN(
            UPLINK_BYTES / model->load[uplink_of(model, i)], model->limit);
        uint32_t noise = (model->noise_ppm == 0)
                             ? 0
                             : mrail_rng_below(&model->rng, model->noise_ppm);

        model->bytes[i] = share - share * noise / 1000000;
    }
    model->now_ns += WINDOW_NS;
}

static int is_balanced(const model_t *model)
{
    for (unsigned u = 0; u < model->uplinks; ++u) {
        if (model->load[u] != model->lanes / model->uplinks) {
            return 0;
        }
    }
    return 1;
}

static uint64_t all_lanes(const model_t *model)
{
    return UINT64_MAX >> (64 - model->lanes);
}

/* Runs windows, and makes the moves. How many moves. */
static unsigned run_windows(model_t *model, mrail_repath_t *repath,
                            unsigned windows)
{
    unsigned moves = 0;

    for (unsigned w = 0; w < windows; ++w) {
        mrail_repath_move_t move;

        model_window(model);
        if (mrail_repath_window(repath, model->now_ns, model->bytes,
                                model->sports, all_lanes(model),
                                model->capacity, &move)) {
            assert_true(move.lane < model->lanes);
            assert_true(move.sport >= MRAIL_PORTS_FIRST);
            for (unsigned i = 0; i < model->lanes; ++i) {
                assert_int_not_equal(model->sports[i], move.sport);
            }
            model->sports[move.lane] = move.sport;
            ++moves;
        }
    }
    model_window(model);
    return moves;
}

/* 8 lanes over 4 uplinks: balanced in a bounded number of moves, and then none
 * for a minute. */
static void check_balance(unsigned lanes, unsigned uplinks, uint64_t seed,
                          uint32_t noise_ppm)
{
    mrail_repath_t repath;
    model_t model;
    unsigned moves;

    model_init(&model, lanes, uplinks, seed, noise_ppm);
    mrail_repath_init(&repath, NULL, lanes, seed);
    moves = run_windows(&model, &repath, 2000);
    if (!is_balanced(&model) || moves > 8 * lanes) {
        fail_msg("%u lanes, %u uplinks, seed %llu: %u moves, balanced %d",
                 lanes, uplinks, (unsigned long long)seed, moves,
                 is_balanced(&model));
    }
    moves = run_windows(&model, &repath,
                        (unsigned)(60 * MRAIL_NS_PER_SEC / WINDOW_NS));
    if (moves != 0) {
        fail_msg("seed %llu: %u moves of balanced lanes",
                 (unsigned long long)seed, moves);
    }
}

static void test_balances_and_stays(void **state)
{
    const char *text = getenv("MRAIL_TEST_SEEDS");
    uint64_t seeds = (text != NULL) ? strtoull(text, NULL, 10) : 2000;

    for (uint64_t seed = 0; seed < seeds; ++seed) {
        check_balance(8, 4, seed, 0);
        check_balance(8, 4, seed, 80000);
        check_balance(8, 4, seed, 120000);
    }
}

/* The uplinks together are slower than the rail, so equal lanes never fill it. After
 * trials that gain nothing the lanes stay where they are balanced. */
static void test_slow_uplinks(void **state)
{
    unsigned most = 0;

    for (uint64_t seed = 0; seed < 500; ++seed) {
        mrail_repath_t repath;
        model_t model;
        unsigned moves;

        model_init(&model, 8, 4, seed, (seed % 2) * 20000);
        model.capacity *= 3;
        mrail_repath_init(&repath, NULL, 8, seed);
        moves = run_windows(&model, &repath, 1000);
        most = MRAIL_MAX(most, moves);
        if (!is_balanced(&model)) {
            fail_msg("seed %llu: not balanced", (unsigned long long)seed);
        }
        /* Five minutes. */
        moves = run_windows(&model, &repath,
                            (unsigned)(300 * MRAIL_NS_PER_SEC / WINDOW_NS));
        if (moves != 0 || !is_balanced(&model)) {
            fail_msg("seed %llu: %u moves of balanced lanes",
                     (unsigned long long)seed, moves);
        }
    }
    assert_in_range(most, 17, 80); /* eight trials are 16 moves */
}

/* All lanes collide on two of four uplinks, equally, and each is slow. Lanes that
 * their own window limits have equal rates on fuller uplinks, too. */
static void test_equal_collisions(void **state)
{
    unsigned balanced = 0;

    for (uint64_t seed = 0; seed < 500; ++seed) {
        mrail_repath_t repath;
        model_t model;

        model_init(&model, 8, 4, seed, 0);
        model.capacity *= 3;
        model.limit = UPLINK_BYTES * 2 / 5;
        mrail_repath_init(&repath, NULL, 8, seed);
        run_windows(&model, &repath, 3000);
        balanced += is_balanced(&model);
        for (unsigned u = 0; u < 4; ++u) {
            assert_in_range(model.load[u], 1, 3);
        }
    }
    assert_in_range(balanced, 450, 500);
}

/* Differences that no port can mend, such as 5 lanes over 4 uplinks: an episode
 * ends, and the back-off doubles. */
static void test_backs_off(void **state)
{
    for (uint64_t seed = 0; seed < 50; ++seed) {
        mrail_repath_t repath;
        model_t model;
        unsigned moves;

        model_init(&model, 5, 4, seed, 0);
        mrail_repath_init(&repath, NULL, 5, seed);
        moves = run_windows(&model, &repath, 3000); /* a minute */
        assert_true(moves <= 3 * 8 * 5);
        assert_true(repath.num_failed >= 2 && repath.num_failed <= 3);
        assert_int_equal(moves, repath.num_moves);
        run_windows(&model, &repath, 60 * 3000); /* an hour */
        assert_true(repath.num_failed <= 13);
    }
}

/* Equal lanes, idle lanes, one lane, a lane without a byte: no move. */
static void test_leaves_alone(void **state)
{
    static const uint64_t unequal[4] = {100, 100, 100, 10};
    static const uint64_t dead[4] = {100, 100, 100, 0};
    static const uint16_t sports[4] = {0xC000, 0xD000, 0xE000, 0xF000};
    mrail_repath_t repath;
    mrail_repath_move_t move;

    mrail_repath_init(&repath, NULL, 4, 1);
    for (unsigned w = 0; w < 100; ++w) {
        assert_false(
            mrail_repath_window(&repath, w, unequal, sports, 7, 0, &move));
        assert_false(
            mrail_repath_window(&repath, w, unequal, sports, 8, 0, &move));
        assert_false(
            mrail_repath_window(&repath, w, unequal, sports, 0, 0, &move));
        assert_false(
            mrail_repath_window(&repath, w, dead, sports, 15, 0, &move));
    }
    assert_int_equal(repath.num_moves, 0);
}

/* A short disturbance is no reason; a lasting one is, once per settled window. */
static void test_hysteresis(void **state)
{
    static const uint64_t equal[2] = {100, 100}, unequal[2] = {100, 70},
                          nearly[2] = {100, 85};
    static const uint16_t sports[2] = {0xC000, 0xD000};
    mrail_repath_t repath;
    mrail_repath_move_t move;

    mrail_repath_init(&repath, NULL, 2, 1);
    for (unsigned w = 0; w < 100; ++w) {
        assert_false(mrail_repath_window(
            &repath, w, (w % 3 == 2) ? equal : unequal, sports, 3, 0, &move));
    }
    assert_false(mrail_repath_window(&repath, 100, equal, sports, 3, 0, &move));
    assert_false(
        mrail_repath_window(&repath, 101, unequal, sports, 3, 0, &move));
    assert_false(
        mrail_repath_window(&repath, 102, unequal, sports, 3, 0, &move));
    assert_true(
        mrail_repath_window(&repath, 103, unequal, sports, 3, 0, &move));
    assert_int_equal(move.lane, 1);
    /* The window in which the lane moved does not count. */
    assert_false(
        mrail_repath_window(&repath, 104, unequal, sports, 3, 0, &move));
    /* Between the limits an episode goes on, and does not start. */
    for (unsigned w = 105; w < 109; ++w) {
        assert_int_equal(
            mrail_repath_window(&repath, w, nearly, sports, 3, 0, &move),
            w == 108); /* four windows show it */
    }
    for (unsigned w = 109; w < 120; ++w) {
        assert_false(
            mrail_repath_window(&repath, w, equal, sports, 3, 0, &move));
    }
    for (unsigned w = 120; w < 200; ++w) {
        assert_false(
            mrail_repath_window(&repath, w, nearly, sports, 3, 0, &move));
    }
    assert_int_equal(repath.num_episodes, 1);
    assert_int_equal(repath.num_failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_balances_and_stays),
        cmocka_unit_test(test_slow_uplinks),
        cmocka_unit_test(test_equal_collisions),
        cmocka_unit_test(test_backs_off),
        cmocka_unit_test(test_leaves_alone),
        cmocka_unit_test(test_hysteresis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
