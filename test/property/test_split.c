/* Checks the cost model of split operations over random lanes and costs. */
#include "config.h"
#include "rail/proto/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/util.h"

#define MAX_LANES 16
#define CASES 20000

typedef struct {
    double rates[MAX_LANES];
    unsigned count;
    size_t length;
    mrail_split_cost_t cost;
} case_t;

/* Rates of 1 MB/s to 100 GB/s, 1 B to 1 GiB, no cost to 100 us. */
static void case_init(case_t *c, mrail_rng_t *rng)
{
    c->count = 1 + mrail_rng_below(rng, MAX_LANES);
    for (unsigned i = 0; i < c->count; ++i) {
        c->rates[i] = (double)(1000000ull << mrail_rng_below(rng, 17)) +
                      (double)mrail_rng_below(rng, 1000000);
        if (mrail_rng_below(rng, 2)) {
            c->rates[i] = c->rates[0];
        }
    }
    c->length = (size_t)1 << mrail_rng_below(rng, 30);
    c->length += mrail_rng_below(rng, (uint32_t)c->length);
    c->cost.chunk_ns = mrail_rng_below(rng, 4) * mrail_rng_below(rng, 33000);
    c->cost.bytes_per_s =
        mrail_rng_below(rng, 2) ? 1000000ull << mrail_rng_below(rng, 16) : 0;
}

static unsigned lanes_of(const case_t *c)
{
    double rates[MAX_LANES];

    memcpy(rates, c->rates, sizeof(rates));
    return mrail_split_lanes(c->length, rates, c->count, &c->cost);
}

static int by_rate(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/* The formula of split.h, in seconds. */
static double time_of(const case_t *c, unsigned lanes)
{
    double rates[MAX_LANES], rate = 0, time;

    memcpy(rates, c->rates, sizeof(rates));
    qsort(rates, c->count, sizeof(*rates), by_rate);
    for (unsigned i = 0; i < lanes; ++i) {
        rate += rates[i];
    }
    time = (double)c->length / rate;
    if (c->cost.bytes_per_s != 0) {
        time = MRAIL_MAX(time, (double)c->length / (double)c->cost.bytes_per_s);
    }
    return time + lanes * (double)c->cost.chunk_ns / 1e9;
}

static void start(mrail_rng_t *rng)
{
    const char *text = getenv("MRAIL_TEST_SEED");
    uint64_t seed = (text != NULL) ? strtoull(text, NULL, 0) : 1;

    print_message("MRAIL_TEST_SEED=%llu build/test_split repeats this run\n",
                  (unsigned long long)seed);
    mrail_rng_init(rng, seed);
}

static void test_shortest_time(void **state)
{
    mrail_rng_t rng;
    case_t c;

    start(&rng);
    for (unsigned n = 0; n < CASES; ++n) {
        unsigned lanes;

        case_init(&c, &rng);
        lanes = lanes_of(&c);
        assert_in_range(lanes, 1, c.count);
        for (unsigned other = 1; other <= c.count; ++other) {
            assert_true(time_of(&c, lanes) <= time_of(&c, other) * (1 + 1e-9));
        }
    }
}

static void test_monotone(void **state)
{
    mrail_rng_t rng;
    case_t c, more;

    start(&rng);
    for (unsigned n = 0; n < CASES; ++n) {
        unsigned lanes;

        case_init(&c, &rng);
        lanes = lanes_of(&c);
        more = c;
        more.length += mrail_rng_below(&rng, 1u << 30);
        assert_true(lanes_of(&more) >= lanes);
        more = c;
        more.cost.chunk_ns += mrail_rng_below(&rng, 100000);
        assert_true(lanes_of(&more) <= lanes);
        more = c;
        more.cost.bytes_per_s =
            (c.cost.bytes_per_s == 0) ? 0 : c.cost.bytes_per_s * 2;
        assert_true(lanes_of(&more) >= lanes);
    }
}

static void test_limits(void **state)
{
    const double fast = 12.5e9, slow = 100e6;
    case_t c = {.count = 4, .cost = {5000, 4000000000ull}};

    for (size_t length = 1 << 16; length <= (size_t)1 << 30; length *= 2) {
        c.length = length;
        /* The processor is the bottleneck, even with one lane. */
        for (unsigned i = 0; i < c.count; ++i) {
            c.rates[i] = fast;
        }
        assert_int_equal(lanes_of(&c), 1);
        /* The rails are the bottleneck, even all together. */
        for (unsigned i = 0; i < c.count; ++i) {
            c.rates[i] = slow;
        }
        assert_int_equal(lanes_of(&c), 4);
        /* One fast rail beside slow ones. */
        c.rates[2] = fast;
        assert_int_equal(lanes_of(&c), 1);
    }
    /* Without any cost, every lane gains. */
    c = (case_t){.count = 4, .length = 64, .rates = {1e6, 1e6, 1e6, 1e6}};
    assert_int_equal(lanes_of(&c), 4);
}

/* From the length on, and not before, the wire takes longer than the
 * processor. */
static void test_spread(void **state)
{
    mrail_rng_t rng;
    case_t c;

    start(&rng);
    for (unsigned n = 0; n < CASES; ++n) {
        double rate, wire, processor;
        uint32_t spread;

        case_init(&c, &rng);
        rate = c.rates[0];
        spread = mrail_split_spread(rate, &c.cost);
        wire = 1 / rate;
        processor =
            (c.cost.bytes_per_s == 0) ? 0 : 1 / (double)c.cost.bytes_per_s;
        if (wire <= processor) {
            assert_int_equal(spread, UINT32_MAX);
            continue;
        }
        if (spread == UINT32_MAX) {
            continue;
        }
        assert_true(((double)spread + 1) * (wire - processor) * (1 + 1e-9) >=
                    c.cost.chunk_ns / 1e9);
        assert_true((double)spread * (wire - processor) <=
                    c.cost.chunk_ns / 1e9 * (1 + 1e-9));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shortest_time),
        cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_spread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
