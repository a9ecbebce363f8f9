/*
 * Tests src/relay with exchanges between random ranks on random nodes, over
 * random relays and in random order. Ranks arrive late and leave early,
 * receives are posted late, and messages and copies are slow. Every byte must
 * be correct, and three exchanges must end within a bound.
 *
 * MRAIL_TEST_SEED=N runs one seed. MRAIL_TEST_FULL=1 runs fifty times as many
 * seeds, or four times as many under a sanitizer.
 */
#include "config.h"
#include "relay_model.h"

#include "base/rng.h"
#include "base/util.h"
#include "test/sim/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS 2000u
#ifdef TEST_SANITIZED
#define FULL_SEEDS 8000u /* several times slower, in three tiers */
#else
#define FULL_SEEDS 100000u
#endif
#define CHUNK 4096u
#define MAX_SLOTS 8u
#define MAX_CHUNKS 9u
#define EXCHANGES 3u
#define MAX_ACTIONS 4000000u
#define NONE MRAIL_RELAY_NONE

static model_t w;
static mrail_rng_t rng;
/* Probability, in 1/1000, that a rank acts. */
static uint32_t eager[MODEL_RANKS];
static uint32_t eager_net, eager_copy;

static uint32_t below(uint32_t bound)
{
    return mrail_rng_below(&rng, bound);
}

/* Returns a random other rank on the node of `rank`, or none. */
static uint32_t random_relay(uint32_t rank)
{
    uint32_t node = w.node_of[rank];
    uint32_t other = w.locals[node][below(w.pools[node].shape.num_local)];

    return (other == rank) || (below(3) == 0) ? NONE : other;
}

static uint64_t random_bytes(void)
{
    switch (below(6)) {
    case 0:
        return 0;
    case 1:
        return 1 + below(64);
    case 2:
        return (1 + below(MAX_CHUNKS)) * CHUNK;
    default:
        return 1 + below(MAX_CHUNKS * CHUNK);
    }
}

/* The flows of a pair follow one another in the pair's demand, with gaps
 * between them. */
static void random_exchange(unsigned num, uint64_t hash)
{
    uint64_t offset[MODEL_RANKS][MODEL_RANKS] = {{0}};
    unsigned count = below(MODEL_FLOWS + 1);

    w.exchanges[num].hash = hash;
    w.num_exchanges = num + 1;
    for (unsigned i = 0; i < count; ++i) {
        uint32_t from = below(w.num_ranks), to = below(w.num_ranks), relay_out;
        int is_far = (w.node_of[from] != w.node_of[to]);
        uint64_t bytes = random_bytes();

        offset[from][to] += (below(3) == 0) ? below(10000) : 0;
        relay_out = (is_far || w.is_external) ? random_relay(from) : NONE;
        model_add(&w, num, from, (relay_out != to) ? relay_out : NONE,
                  is_far ? random_relay(to) : NONE, to, offset[from][to],
                  bytes);
        offset[from][to] += bytes;
    }
}

static void random_fixture(uint64_t seed)
{
    unsigned per_node[MODEL_NODES + 1] = {0};
    unsigned num_nodes, least, most;

    memset(&w, 0, sizeof(w));
    mrail_rng_init(&rng, seed);
    w.is_external = below(3) == 0;
    w.one_later = below(3);
    num_nodes = 1 + below(MODEL_NODES);
    for (unsigned n = 0; n < num_nodes; ++n) {
        per_node[n] = 1 + below(MODEL_PER_NODE);
    }
    model_place(&w, per_node);
    for (unsigned i = 0; i < EXCHANGES; ++i) {
        random_exchange(i, (seed % 2) ? seed : seed + i);
    }
    least = model_min_in_slots(&w);
    most = MRAIL_MAX(least, MAX_SLOTS);
    model_init(&w, CHUNK, (seed % 3) ? 1 + below(MAX_SLOTS) : 1,
               (seed % 3) ? least + below(most - least + 1) : least);
    for (uint32_t r = 0; r < w.num_ranks; ++r) {
        eager[r] = below(4) ? 1000 : 10 + below(200);
    }
    eager_net = below(2) ? 1000 : 20 + below(500);
    eager_copy = below(2) ? 1000 : 20 + below(500);
}

static void act(uint32_t rank)
{
    mrail_relay_t *relay = w.ranks[rank].relay;
    int ret;

    if (w.s.counts[rank].begun == w.s.counts[rank].ended) {
        if (w.s.counts[rank].begun < EXCHANGES) {
            assert_int_equal(model_begin(&w, rank), 0);
        }
        return;
    }
    ret = below(2) ? mrail_relay_progress(relay)
                   : mrail_relay_step(relay, below(MRAIL_RELAY_NUM_STEPS));
    assert_true(ret >= 0);
    assert_true(relay->num_posted + model_num_bare(&w, rank) <=
                relay->shape.in_slots);
    model_end(&w, rank);
}

/* Delivers a message to a random rank, if there is one. */
static void deliver(void)
{
    uint32_t from = below(w.num_ranks), to = below(w.num_ranks);

    for (uint32_t i = 0; i < w.num_ranks; ++i) {
        if (model_deliver(&w, from, (to + i) % w.num_ranks)) {
            return;
        }
    }
}

/* Completes a random copy of the rank, if there is one. */
static void complete(uint32_t rank)
{
    unsigned first = below(MODEL_COPIES);

    for (unsigned i = 0; i < MODEL_COPIES; ++i) {
        if (model_complete(&w, rank, (first + i) % MODEL_COPIES)) {
            return;
        }
    }
}

static int has_ended(void)
{
    for (uint32_t r = 0; r < w.num_ranks; ++r) {
        if (w.s.counts[r].ended < EXCHANGES) {
            return 0;
        }
    }
    return 1;
}

/* Returns 0 if the exchange hung. */
static int run_seed(uint64_t seed)
{
    unsigned i;

    random_fixture(seed);
    for (i = 0; (i < MAX_ACTIONS) && !has_ended(); ++i) {
        uint32_t rank = below(w.num_ranks);

        if (below(1000) < eager[rank]) {
            act(rank);
        }
        if (below(1000) < eager_copy) {
            complete(below(w.num_ranks));
        }
        if (below(1000) < eager_net) {
            deliver();
        }
    }
    if (i < MAX_ACTIONS) {
        model_check_idle(&w);
    }
    model_cleanup(&w);
    return i < MAX_ACTIONS;
}

static uint64_t running; /* the current seed */

static void test_seeds(void **state)
{
    const char *one = getenv("MRAIL_TEST_SEED");
    uint64_t first = (one != NULL) ? strtoull(one, NULL, 0) : 0;
    uint64_t count = (one != NULL)               ? 1
                     : getenv("MRAIL_TEST_FULL") ? FULL_SEEDS
                                                 : SEEDS;

    for (uint64_t i = 0; i < count; ++i) {
        running = first + i;
        if (!run_seed(running)) {
            fail_msg("the exchange hangs");
        }
    }
    running = UINT64_MAX;
}

static int say_seed(void **state)
{
    if (running != UINT64_MAX) {
        print_error("replay: MRAIL_TEST_SEED=%llu test_relay_random\n",
                    (unsigned long long)running);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_seeds, say_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
