/* Tests throttling on rails: periods, and the shares compared with the
 * optimum. */
#include "config.h"
#include "rail/proto/fair_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/rng.h"
#include "base/util.h"

#define MAX_RAILS 5
#define MAX_CLASSES 6
#define SEEDS 20000

typedef struct {
    mrail_fair_share_class_t class[MAX_CLASSES];
    unsigned num_classes;
    double rate[MAX_RAILS];
    unsigned num_rails;
} case_t;

static void draw(case_t *c, uint64_t seed)
{
    mrail_rng_t rng;

    memset(c, 0, sizeof(*c));
    mrail_rng_init(&rng, seed);
    c->num_rails = 1 + mrail_rng_below(&rng, MAX_RAILS);
    c->num_classes = 1 + mrail_rng_below(&rng, MAX_CLASSES);
    for (unsigned r = 0; r < c->num_rails; ++r) {
        c->rate[r] = 25e6 * (1 + mrail_rng_below(&rng, 8));
    }
    for (unsigned i = 0; i < c->num_classes; ++i) {
        c->class[i].rails = 1 + mrail_rng_below(&rng, (1u << c->num_rails) - 1);
        c->class[i].peers = 1;
        c->class[i].bytes = 1e6 * mrail_rng_below(&rng, 100);
    }
}

/* Returns the minimum time. Each subset of rails limits the peers that reach
 * only rails of that subset. The largest of these limits is the minimum time
 * (Gale's condition for a flow). */
static double least(const case_t *c)
{
    double worst_s = 0;

    for (uint32_t some = 1; some < (1u << c->num_rails); ++some) {
        double bytes = 0, rate = 0;

        for (unsigned r = 0; r < c->num_rails; ++r) {
            rate += ((some >> r) & 1) ? c->rate[r] : 0;
        }
        for (unsigned i = 0; i < c->num_classes; ++i) {
            bytes += (c->class[i].rails & ~some) ? 0 : c->class[i].bytes;
        }
        worst_s = MRAIL_MAX(worst_s, bytes / rate);
    }
    return worst_s;
}

/* Checks that all bytes of a class are on its own rails. */
static void check_parts(const case_t *c, uint64_t seed)
{
    for (unsigned i = 0; i < c->num_classes; ++i) {
        double sum = 0;

        for (unsigned r = 0; r < c->num_rails; ++r) {
            if (!((c->class[i].rails >> r) & 1) && (c->class[i].part[r] != 0)) {
                fail_msg("seed %u: set %u has no rail %u", (unsigned)seed, i,
                         r);
            }
            sum += c->class[i].part[r];
        }
        if ((sum < c->class[i].bytes * 0.999999 - 1) ||
            (sum > c->class[i].bytes * 1.000001 + 1)) {
            fail_msg("seed %u: set %u: %.0f of %.0f bytes", (unsigned)seed, i,
                     sum, c->class[i].bytes);
        }
    }
}

static void test_divide(void **state)
{
    double sum = 0;

    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        double time_s, least_s;
        case_t c;

        draw(&c, seed);
        time_s = mrail_fair_share_divide(c.class, c.num_classes, c.rate,
                                         c.num_rails);
        least_s = least(&c);
        check_parts(&c, seed);
        if ((time_s > least_s * 1.03) || (time_s < least_s * 0.999999)) {
            fail_msg("seed %u: %.4f ms, at best %.4f", (unsigned)seed,
                     time_s * 1e3, least_s * 1e3);
        }
        sum += (least_s > 0) ? time_s / least_s : 1;
    }
    assert_true(sum / SEEDS < 1.001);
}

/* ---- periods ---- */

#define ALL 0xfu
#define SOME 0xdu /* all rails except rail 1 */

typedef struct {
    mrail_fair_share_t fair_share;
    mrail_fair_share_rail_t rails[4];
    mrail_ns_t now_ns;
    unsigned all, some; /* indices of the classes */
} sharing_t;

static const uint64_t rates[] = {200000000, 100000000, 50000000, 50000000};

static void sharing_init(sharing_t *t)
{
    memset(t, 0, sizeof(*t));
    t->now_ns = 5 * MRAIL_NS_PER_SEC;
    for (unsigned r = 0; r < 4; ++r) {
        t->rails[r].rate = rates[r];
    }
}

/* Runs `count` periods. In each of them, all rails move the fraction `part` of
 * their rates. `all` bytes are queued for peers that reach all rails, and
 * `some` bytes for peers that reach only some of them. */
static void sharing_run(sharing_t *t, unsigned count, double part, uint64_t all,
                        uint64_t some)
{
    for (; count != 0; --count) {
        t->now_ns += MRAIL_FAIR_SHARE_PERIOD_NS;
        for (unsigned r = 0; r < 4; ++r) {
            t->rails[r].moved += (uint64_t)((double)rates[r] * part * 0.002);
            t->rails[r].done += 10;
        }
        mrail_fair_share_begin(&t->fair_share, t->now_ns);
        for (unsigned i = 0; (all != 0) && (i < 3); ++i) {
            t->all = mrail_fair_share_add(&t->fair_share, ALL, all);
        }
        for (unsigned i = 0; (some != 0) && (i < 4); ++i) {
            t->some = mrail_fair_share_add(&t->fair_share, SOME, some);
        }
        mrail_fair_share_end(&t->fair_share, t->rails, 4);
    }
}

/* Posts `bytes` of one class on the rail, in chunks. Returns the bytes that the
 * other class may post in that time. */
static double sharing_post(sharing_t *t, unsigned rail, uint64_t bytes)
{
    const uint64_t chunk = 65536;
    uint64_t posted = 0;

    for (uint64_t at = 0; at < bytes; at += chunk) {
        mrail_fair_share_post(&t->fair_share, t->some, rail, chunk);
        while (mrail_fair_share_may(&t->fair_share, t->all, rail) &&
               (posted < 16 * bytes)) {
            mrail_fair_share_post(&t->fair_share, t->all, rail, chunk);
            posted += chunk;
        }
    }
    return (double)posted;
}

#define LONG 25 /* periods, longer than a measurement */

/* Peers that all reach the same rails need no throttling. */
static void test_equal_rates(void **state)
{
    sharing_t t;

    sharing_init(&t);
    sharing_run(&t, LONG, 1, 10000000, 0);
    assert_int_equal(t.fair_share.active, 0);
    sharing_run(&t, LONG, 1, 0, 10000000);
    assert_int_equal(t.fair_share.active, 0);
}

/* While the rates are unknown, no class is throttled. */
static void test_unknown(void **state)
{
    sharing_t t;

    sharing_init(&t);
    t.rails[2].rate = 0;
    sharing_run(&t, LONG, 1, 10000000, 10000000);
    assert_int_equal(t.fair_share.active, 0);
}

/* The class that reaches all rails except rail 1 has 44.8 MB, and the class
 * that reaches all four has 33.6 MB. On each rail other than rail 1, the latter
 * may post 14 of 58.8 MB, and therefore 14 bytes for every 44.8 bytes of the
 * bottleneck class. */
static void test_held(void **state)
{
    sharing_t t;
    double part;

    sharing_init(&t);
    sharing_run(&t, 1, 1, 11200000, 11200000);
    /* No class is throttled until the rail has been measured. */
    assert_true(t.fair_share.ratio[t.all][0] < 0);
    sharing_run(&t, LONG, 1, 11200000, 11200000);
    assert_int_equal(t.fair_share.active, 1);
    for (unsigned r = 0; r < 4; ++r) {
        assert_true(t.fair_share.ratio[t.some][r] < 0);
    }
    assert_true(t.fair_share.ratio[t.all][1] < 0);
    for (unsigned r = 0; r < 4; r += (r == 0) ? 2 : 1) {
        part = sharing_post(&t, r, 64 << 20) / (64 << 20);
        if ((part < 0.30) || (part > 0.33)) {
            fail_msg("rail %u: %.3f per byte of the other class", r, part);
        }
    }
}

/* The peers with fewer rails have less work than their fair share, so they are
 * not the bottleneck class. */
static void test_incast(void **state)
{
    sharing_t t;

    sharing_init(&t);
    sharing_run(&t, LONG, 1, 11200000, 500000);
    assert_true(t.fair_share.ratio[t.all][0] < 0);
    assert_true(t.fair_share.ratio[t.some][0] >= 0);
}

/* A class is no longer throttled if throttling would leave the rail idle. The
 * pause before the next attempt grows each time. */
static void test_release(void **state)
{
    unsigned held = 0;
    sharing_t t;

    sharing_init(&t);
    sharing_run(&t, LONG, 1, 11200000, 11200000);
    assert_true(t.fair_share.ratio[t.all][0] >= 0);
    for (unsigned i = 0; i < 1000; ++i) {
        int is_held = (t.fair_share.ratio[t.all][0] >= 0);

        sharing_run(&t, 1, is_held ? 0.5 : 1, 11200000, 11200000);
        held += (t.fair_share.ratio[t.all][0] >= 0);
    }
    if ((held < 3) || (held > 100)) {
        fail_msg("throttled in %u of 1000 periods", held);
    }
    /* Once the class can fill the rail, it is throttled again. */
    sharing_run(&t, 1200, 1, 11200000, 11200000);
    held = 0;
    for (unsigned i = 0; i < 100; ++i) {
        sharing_run(&t, 1, 1, 11200000, 11200000);
        held += (t.fair_share.ratio[t.all][0] >= 0);
    }
    assert_int_equal(held, 100);
}

/* The bottleneck class posts nothing. The other class must still be allowed a
 * minimum. */
static void test_least(void **state)
{
    double posted = 0;
    sharing_t t;

    sharing_init(&t);
    sharing_run(&t, LONG, 1, 100000, 44800000);
    for (unsigned i = 0; i < 500; ++i) {
        sharing_run(&t, 1, 1, 100000, 44800000);
        while (mrail_fair_share_may(&t.fair_share, t.all, 0)) {
            mrail_fair_share_post(&t.fair_share, t.all, 0, 65536);
            posted += 65536;
        }
    }
    assert_true(posted > 0.5 * MRAIL_FAIR_SHARE_LEAST * 200e6 * 1.0);
    assert_true(posted < 2 * MRAIL_FAIR_SHARE_LEAST * 200e6 * 1.0);
}

/* With more classes than table entries, no class may be throttled and nothing
 * may be written out of bounds. With fewer classes, throttling works again. */
static void test_too_many(void **state)
{
    sharing_t t;

    sharing_init(&t);
    for (unsigned period = 0; period < 50; ++period) {
        t.now_ns += MRAIL_FAIR_SHARE_PERIOD_NS;
        mrail_fair_share_begin(&t.fair_share, t.now_ns);
        for (unsigned rails = 1; rails < 16; ++rails) {
            unsigned place =
                mrail_fair_share_add(&t.fair_share, rails, 1000000);

            assert_true((place < MRAIL_FAIR_SHARE_CLASSES) ||
                        (place == MRAIL_FAIR_SHARE_NONE));
        }
        mrail_fair_share_end(&t.fair_share, t.rails, 4);
        assert_int_equal(t.fair_share.active, 0);
    }
    sharing_run(&t, LONG, 1, 11200000, 11200000);
    assert_int_equal(t.fair_share.active, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divide),  cmocka_unit_test(test_equal_rates),
        cmocka_unit_test(test_unknown), cmocka_unit_test(test_held),
        cmocka_unit_test(test_incast),  cmocka_unit_test(test_release),
        cmocka_unit_test(test_least),   cmocka_unit_test(test_too_many),
    };

    return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
