/* Tests demand patterns: sums, shapes, and identical results on every
 * machine. */
#include "config.h"
#include "tools/plan_demand.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/util.h"
#include "tools/demand.h"

#define MAX_RANKS 64

/* A demand matrix. */
typedef struct matrix {
    unsigned num_ranks;
    uint64_t bytes[MAX_RANKS][MAX_RANKS];
    size_t num;
} matrix_t;

static plan_demand_pattern_t pattern_of(const char *spec)
{
    plan_demand_pattern_t pattern;
    char reason[PLAN_DEMAND_REASON_MAX] = "";

    if (plan_demand_parse(spec, &pattern, reason, sizeof(reason)) != 0) {
        fail_msg("%s: %s", spec, reason);
    }
    return pattern;
}

static size_t make(const char *spec, unsigned num_ranks, uint64_t seed,
                   mrail_plan_demand_t **demands_p)
{
    plan_demand_pattern_t pattern = pattern_of(spec);
    char reason[PLAN_DEMAND_REASON_MAX] = "";
    size_t num = 0;

    *demands_p = NULL;
    if (plan_demand_make(&pattern, num_ranks, seed, demands_p, &num, reason,
                         sizeof(reason)) != 0) {
        fail_msg("%s: %s", spec, reason);
    }
    return num;
}

/* Makes a matrix from the demands. Checks that they are ordered, unique and not
 * empty, and that none is from a rank to itself. */
static void make_matrix(matrix_t *matrix, const char *spec, unsigned num_ranks,
                        uint64_t seed)
{
    mrail_plan_demand_t *demands;

    memset(matrix, 0, sizeof(*matrix));
    matrix->num_ranks = num_ranks;
    matrix->num = make(spec, num_ranks, seed, &demands);
    for (size_t i = 0; i < matrix->num; ++i) {
        const mrail_plan_demand_t *d = &demands[i];

        assert_true(d->from < num_ranks);
        assert_true(d->to < num_ranks);
        assert_int_not_equal(d->from, d->to);
        assert_true(d->bytes > 0);
        if (i > 0) {
            assert_true(demands[i - 1].from * num_ranks + demands[i - 1].to <
                        d->from * num_ranks + d->to);
        }
        matrix->bytes[d->from][d->to] = d->bytes;
    }
    free(demands);
}

static uint64_t row_sum(const matrix_t *matrix, unsigned from)
{
    uint64_t sum = 0;

    for (unsigned to = 0; to < matrix->num_ranks; ++to) {
        sum += matrix->bytes[from][to];
    }
    return sum;
}

static uint64_t column_sum(const matrix_t *matrix, unsigned to)
{
    uint64_t sum = 0;

    for (unsigned from = 0; from < matrix->num_ranks; ++from) {
        sum += matrix->bytes[from][to];
    }
    return sum;
}

/* Returns the bytes received by the busiest receiver, in thousandths of the
 * mean. */
static uint64_t peak(const matrix_t *matrix)
{
    uint64_t most = 0, all = 0;

    for (unsigned to = 0; to < matrix->num_ranks; ++to) {
        most = MRAIL_MAX(most, column_sum(matrix, to));
        all += column_sum(matrix, to);
    }
    return most * 1000 * matrix->num_ranks / all;
}

/* ---- Patterns ---- */

/* Each rank must send exactly its size, so rounding must lose nothing. */
static void test_sums(void **state)
{
    static const char *const specs[] = {
        "uniform:size=1000003",           "hotspot:size=1000003",
        "hotspot:to=single,size=1000003", "zipf:size=1000003",
        "zipf:exponent=0,size=1000003",   "zipf:exponent=4,size=1000003",
        "zipf:exponent=2,size=3"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(specs); ++i) {
        uint64_t size = (i == 6) ? 3 : 1000003;

        for (unsigned ranks = 2; ranks <= MAX_RANKS; ranks += 1 + ranks / 5) {
            matrix_t m;

            make_matrix(&m, specs[i], ranks, ranks);
            for (unsigned from = 0; from < ranks; ++from) {
                if (row_sum(&m, from) != size) {
                    fail_msg("%s, %u ranks: %u sends %llu", specs[i], ranks,
                             from, (unsigned long long)row_sum(&m, from));
                }
            }
        }
    }
}

/* Compares the demands with the rows of `mrail bench`. */
static void test_hotspot(void **state)
{
    for (unsigned one = 0; one < 2; ++one) {
        matrix_t m;

        make_matrix(&m,
                    one ? "hotspot:fraction=0.45,to=single,size=1m"
                        : "hotspot:fraction=0.45,size=1m",
                    12, 0);
        for (unsigned from = 0; from < 12; ++from) {
            uint64_t row[12];

            mrail_demand_row(12, from, 1u << 20, 450000,
                             one ? MRAIL_DEMAND_SINGLE : MRAIL_DEMAND_SHIFT,
                             row);
            assert_memory_equal(row, m.bytes[from], sizeof(row));
        }
    }
}

static void test_one_rank(void **state)
{
    static const char *const specs[] = {"uniform", "hotspot",
                                        "zipf",    "moe:tokens=10,k=2",
                                        "stencil", "stencil:dims=1"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(specs); ++i) {
        mrail_plan_demand_t *demands;

        assert_int_equal(make(specs[i], 1, 1, &demands), 0);
        free(demands);
    }
}

/* Powers with integer and half-integer exponents are known. Weights must
 * decrease. */
static void test_zipf_weights(void **state)
{
    const uint64_t one = (uint64_t)1 << 40;
    uint64_t w[4096];

    plan_zipf(4096, 0, w);
    for (unsigned i = 0; i < 4096; ++i) {
        assert_true(w[i] == one);
    }
    for (unsigned exponent = 1; exponent <= 4; ++exponent) {
        plan_zipf(4096, exponent * PLAN_PPM, w);
        for (unsigned i = 0; i < 4096; ++i) {
            double power = 1, off;

            for (unsigned e = 0; e < exponent; ++e) {
                power *= i + 1;
            }
            off = (double)w[i] * power / (double)one - 1;
            /* Beyond this index, the next weight would also be cut off. */
            assert_true(w[i] >= 1);
            assert_true(w[i] < (1u << 20) || (off < 1e-6 && off > -1e-6));
        }
    }
    plan_zipf(4096, PLAN_PPM / 2, w);
    for (unsigned i = 1; i <= 64; ++i) {
        double off = (double)w[i * i - 1] * i / (double)one - 1;

        assert_true(off < 1e-6 && off > -1e-6);
    }
    for (uint64_t ppm = 1; ppm <= 4 * PLAN_PPM; ppm += 333333) {
        plan_zipf(4096, ppm, w);
        assert_true(w[0] == one);
        for (unsigned i = 1; i < 4096; ++i) {
            assert_true(w[i] <= w[i - 1]);
        }
    }
}

/* A larger exponent gives more bytes to the busiest receiver, which the seed
 * selects. */
static void test_skew(void **state)
{
    static const char *const values[] = {"0", "0.4", "0.8", "1.2", "2"};

    for (unsigned moe = 0; moe < 2; ++moe) {
        uint64_t last = 0;

        for (unsigned v = 0; v < MRAIL_ARRAY_SIZE(values); ++v) {
            char spec[96];
            matrix_t m;

            snprintf(spec, sizeof(spec),
                     moe ? "moe:skew=%s,tokens=500,experts=64,k=4"
                         : "zipf:exponent=%s",
                     values[v]);
            make_matrix(&m, spec, 16, 5);
            if (peak(&m) <= last) {
                fail_msg("%s: %llu after %llu", spec,
                         (unsigned long long)peak(&m),
                         (unsigned long long)last);
            }
            last = peak(&m);
        }
        /* The mean is 1000. */
        assert_true(last > 3000);
    }
}

static void test_moe(void **state)
{
    matrix_t m;

    /* If a token uses all experts, each rank receives each token once. */
    make_matrix(&m, "moe:k=8,experts=8,tokens=10,hidden=100,skew=3", 8, 3);
    for (unsigned from = 0; from < 8; ++from) {
        for (unsigned to = 0; to < 8; ++to) {
            assert_int_equal(m.bytes[from][to], (from == to) ? 0 : 1000);
        }
    }
    /* If two of a token's experts are on one rank, the token goes there
     * once. */
    make_matrix(&m, "moe:k=4,experts=4,tokens=10,hidden=100", 2, 3);
    assert_int_equal(m.bytes[0][1], 1000);
    assert_int_equal(m.bytes[1][0], 1000);
    /* With one expert per token, every token has exactly one destination. */
    make_matrix(&m, "moe:k=1,tokens=1000,hidden=1k,skew=0", 8, 3);
    for (unsigned from = 0; from < 8; ++from) {
        uint64_t sum = row_sum(&m, from);

        assert_int_equal(sum % 1024, 0);
        assert_true(sum < 1000 * 1024 && sum > 750 * 1024);
        for (unsigned to = 0; to < 8; ++to) {
            /* The mean is 125 of 1000 tokens, and six standard deviations are
             * 63. */
            assert_true(from == to || (m.bytes[from][to] > 62 * 1024 &&
                                       m.bytes[from][to] < 188 * 1024));
        }
    }
}

static void test_stencil(void **state)
{
    matrix_t m;

    make_matrix(&m, "stencil:dims=1,boundary=5,size=10", 6, 1);
    assert_int_equal(m.num, 10);
    assert_int_equal(m.bytes[0][1], 50);
    assert_int_equal(m.bytes[1][0], 50);
    assert_int_equal(m.bytes[1][2], 10);
    assert_int_equal(m.bytes[3][2], 10);
    assert_int_equal(m.bytes[4][5], 50);
    assert_int_equal(m.bytes[5][0], 0);
    /* Five rows of six ranks. */
    make_matrix(&m, "stencil:boundary=3,size=10", 30, 1);
    assert_int_equal(m.num, 2 * (5 * 5 + 4 * 6));
    assert_int_equal(m.bytes[7][8], 10);
    assert_int_equal(m.bytes[7][13], 10);
    assert_int_equal(m.bytes[7][1], 30);
    assert_int_equal(m.bytes[0][6], 30);
    assert_int_equal(m.bytes[5][6], 0);
    assert_int_equal(row_sum(&m, 0), 60);
    assert_int_equal(row_sum(&m, 14), 40);
    /* A prime number of ranks forms a line. */
    make_matrix(&m, "stencil", 7, 1);
    assert_int_equal(m.num, 12);
}

static void test_incast(void **state)
{
    unsigned receiving = 0, sending = 0;
    matrix_t m;

    make_matrix(&m, "incast:receivers=3,senders=5,size=1000", 16, 9);
    for (unsigned r = 0; r < 16; ++r) {
        uint64_t out = row_sum(&m, r), in = column_sum(&m, r);

        assert_true(out == 0 || (out == 1000 && in == 0));
        sending += (out > 0);
        receiving += (in > 0);
        assert_true(in == 0 || (in >= 5 * 333 && in <= 5 * 334));
    }
    assert_int_equal(sending, 5);
    assert_int_equal(receiving, 3);
    make_matrix(&m, "incast:receivers=3,size=1000", 16, 9);
    sending = 0;
    for (unsigned r = 0; r < 16; ++r) {
        sending += (row_sum(&m, r) > 0);
    }
    assert_int_equal(sending, 13);
}

/* ---- Identical on all machines ---- */

static uint64_t digest(const char *spec, unsigned num_ranks, uint64_t seed)
{
    mrail_plan_demand_t *demands;
    size_t num = make(spec, num_ranks, seed, &demands);
    uint64_t sum = num;

    for (size_t i = 0; i < num; ++i) {
        sum = mrail_mix64(sum ^ demands[i].from);
        sum = mrail_mix64(sum ^ demands[i].to);
        sum = mrail_mix64(sum ^ demands[i].bytes);
    }
    free(demands);
    return sum;
}

static void test_golden(void **state)
{
    static const struct {
        const char *spec;
        uint64_t digest; /* for 48 ranks and seed 2026 */
    } golden[] = {
        {"uniform", UINT64_C(0x5dfb42f207140be2)},
        {"hotspot", UINT64_C(0x98cb4bc0063dad20)},
        {"zipf", UINT64_C(0x4104dcbb6046177c)},
        {"zipf:exponent=0.123456,size=999999999", UINT64_C(0xbb52ffaa66a04ada)},
        {"moe:tokens=300", UINT64_C(0x9246b345a9913f7b)},
        {"moe:tokens=300,skew=2.5,k=3,experts=100",
         UINT64_C(0xd9732f315bca344a)},
        {"stencil", UINT64_C(0x13f1b7b165a1619)},
        {"incast", UINT64_C(0x2fc970147d8c2152)},
    };

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(golden); ++i) {
        uint64_t got = digest(golden[i].spec, 48, 2026);

        if (got != golden[i].digest) {
            fail_msg("%s: %#llx", golden[i].spec, (unsigned long long)got);
        }
        assert_true(digest(golden[i].spec, 48, 2026) == got);
    }
}

static void test_seeds(void **state)
{
    static const char *const seeded[] = {"zipf", "moe:tokens=50", "incast"};
    static const char *const others[] = {"uniform", "hotspot", "stencil"};

    for (unsigned i = 0; i < 3; ++i) {
        assert_true(digest(seeded[i], 24, 1) != digest(seeded[i], 24, 2));
        assert_true(digest(others[i], 24, 1) == digest(others[i], 24, 2));
    }
}

/* ---- Text ---- */

static void test_parse(void **state)
{
    plan_demand_pattern_t p = pattern_of("hotspot");

    assert_int_equal(p.kind, PLAN_DEMAND_HOTSPOT);
    assert_int_equal(p.fraction_ppm, 700000);
    assert_int_equal(p.one, 0);
    assert_int_equal(p.size, 16u << 20);
    p = pattern_of("hotspot:size=2k,to=single,fraction=1");
    assert_int_equal(p.fraction_ppm, 1000000);
    assert_int_equal(p.one, 1);
    assert_int_equal(p.size, 2048);
    p = pattern_of("zipf:exponent=3.999999");
    assert_int_equal(p.exponent_ppm, 3999999);
    p = pattern_of("zipf:exponent=.5");
    assert_int_equal(p.exponent_ppm, 500000);
    p = pattern_of("moe:k=2,skew=1.0,tokens=4096,hidden=7k,experts=16");
    assert_int_equal(p.k, 2);
    assert_int_equal(p.exponent_ppm, 1000000);
    assert_int_equal(p.tokens, 4096);
    assert_int_equal(p.hidden, 7168);
    assert_int_equal(p.experts, 16);
    p = pattern_of("stencil:dims=1,boundary=7,size=5");
    assert_int_equal(p.dims, 1);
    assert_int_equal(p.boundary, 7);
    assert_int_equal(p.size, 5);
    p = pattern_of("incast:receivers=2,senders=3");
    assert_int_equal(p.receivers, 2);
    assert_int_equal(p.senders, 3);
}

static const struct {
    const char *spec, *reason;
} bad[] = {
    {"", "'' is not a pattern; the patterns are uniform, hotspot, zipf, moe, "
         "stencil, incast"},
    {"Zipf", "'Zipf' is not a pattern"},
    {"zipf=1", "'zipf=1' is not a pattern"},
    {"zipf:", "'' is not a setting of zipf; the settings are exponent=VALUE, "
              "size=VALUE"},
    {"zipf:size", "'size' is not a setting of zipf"},
    {"zipf:k=1", "'k' is not a setting of zipf"},
    {"uniform:k=1",
     "'k' is not a setting of uniform; the setting is size=VALUE"},
    {"zipf:size=1k,", "'' is not a setting"},
    {"zipf:size=1k,size=1k", "'size' may appear only once"},
    {"zipf:size=0", "size=0: expected bytes from 1 to 17592186044415"},
    {"zipf:size=16384g", "size=16384g: expected bytes from 1"},
    {"zipf:size=-1", "size=-1: expected bytes from 1"},
    {"zipf:size=", "size=: expected bytes from 1"},
    {"zipf:exponent=4.000001",
     "exponent=4.000001: expected a number from 0 to 4 with"},
    {"zipf:exponent=5", "exponent=5: expected a number from 0 to 4"},
    {"zipf:exponent=1.0000001",
     "exponent=1.0000001: expected a number from 0 to 4"},
    {"zipf:exponent=-1", "exponent=-1: expected a number from 0 to 4"},
    {"zipf:exponent=1.", "exponent=1.: expected a number from 0 to 4"},
    {"zipf:exponent=.", "exponent=.: expected a number from 0 to 4"},
    {"zipf:exponent=", "exponent=: expected a number from 0 to 4"},
    {"zipf:exponent=nan", "exponent=nan: expected a number from 0 to 4"},
    {"zipf:exponent=1e0", "exponent=1e0: expected a number from 0 to 4"},
    {"zipf:exponent=0000000000000000000000001", "exponent=0000000000000000"},
    {"hotspot:fraction=1.1",
     "fraction=1.1: expected a number from 0 to 1 with at most"},
    {"hotspot:to=two", "to=two: expected shift or single"},
    {"moe:k=0", "k=0: expected a number from 1 to 64"},
    {"moe:k=65", "k=65: expected a number from 1 to 64"},
    {"moe:tokens=2000000",
     "tokens=2000000: expected a number from 1 to 1048576"},
    {"moe:experts=0", "experts=0: expected a number from 1 to 65536"},
    {"stencil:dims=3", "dims=3: expected a number from 1 to 2"},
    {"stencil:size=17g", "size=17g: expected bytes from 1 to 17179869184"},
    {"incast:receivers=0", "receivers=0: expected a number from 1 to 16383"},
};

static void test_parse_refused(void **state)
{
    char reason[PLAN_DEMAND_REASON_MAX], spec[300];
    plan_demand_pattern_t pattern, before;

    memset(&pattern, 0x5a, sizeof(pattern));
    before = pattern;
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        assert_int_equal(
            plan_demand_parse(bad[i].spec, &pattern, reason, sizeof(reason)),
            -EINVAL);
        assert_memory_equal(&pattern, &before, sizeof(pattern));
        if (strncmp(reason, bad[i].reason, strlen(bad[i].reason)) != 0) {
            fail_msg("'%s': says '%s', not '%s'", bad[i].spec, reason,
                     bad[i].reason);
        }
    }
    memset(spec, 'a', sizeof(spec) - 1);
    spec[sizeof(spec) - 1] = '\0';
    assert_int_equal(plan_demand_parse(spec, &pattern, reason, sizeof(reason)),
                     -EINVAL);
    assert_non_null(strstr(reason, "is longer than 255 bytes"));
}

/* Errors that depend on the number of ranks. */
static void test_make_refused(void **state)
{
    static const struct {
        const char *spec;
        unsigned num_ranks;
        int ret;
        const char *reason;
    } cases[] = {
        {"moe:k=5", 1, -EINVAL,
         "k=5: a token goes to k different experts, but there are only 4"},
        {"moe:k=5,experts=4", 9, -EINVAL,
         "k=5: a token goes to k different experts, but there are only 4"},
        {"incast:receivers=4", 4, -EINVAL,
         "4 receivers and 1 senders are too many: there are 4 ranks, and "
         "a rank cannot be both"},
        {"incast:receivers=4", 3, -EINVAL, "4 receivers and 1 senders"},
        {"incast:receivers=4,senders=5", 8, -EINVAL,
         "4 receivers and 5 senders"},
        {"uniform:size=1m", 4098, -ENOSPC,
         "the demands have more than 16777216 pairs"},
    };

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        plan_demand_pattern_t pattern = pattern_of(cases[i].spec);
        mrail_plan_demand_t *demands = (void *)&demands;
        char reason[PLAN_DEMAND_REASON_MAX] = "";
        size_t num = 77;

        assert_int_equal(plan_demand_make(&pattern, cases[i].num_ranks, 1,
                                          &demands, &num, reason,
                                          sizeof(reason)),
                         cases[i].ret);
        assert_ptr_equal(demands, &demands);
        assert_int_equal(num, 77);
        if (strncmp(reason, cases[i].reason, strlen(cases[i].reason)) != 0) {
            fail_msg("%s: says '%s'", cases[i].spec, reason);
        }
    }
}

/* The help text must contain each pattern and parameter. The defaults in it
 * must be those of the pattern without parameters. */
static void check_help(void *arg, const char *line)
{
    unsigned *kinds = arg;
    plan_demand_pattern_t typed, alone;
    char spec[256], name[32], *n;

    if (strchr(line, ':') == NULL) {
        return;
    }
    snprintf(spec, sizeof(spec), "%s", line + strspn(line, " "));
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(spec, ":"), spec);
    /* Remove the parameters without a default, which appear as "=N". */
    while ((n = strstr(spec, "=N")) != NULL) {
        char *begin = n;

        while (*begin != ',' && *begin != ':') {
            --begin;
        }
        memmove(begin + (*begin == ':' && n[2] == ','),
                n + 2 + (*begin == ':' && n[2] == ','), strlen(n + 2) + 1);
    }
    typed = pattern_of(spec);
    alone = pattern_of(name);
    assert_memory_equal(&typed, &alone, sizeof(typed));
    ++*kinds;
}

static void test_help(void **state)
{
    unsigned kinds = 0;

    plan_demand_help(check_help, &kinds);
    assert_int_equal(kinds, PLAN_DEMAND_NUM_KINDS);
}

/* ---- Out of memory ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t num, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t num, size_t size);
void *__wrap_realloc(void *p, size_t size);

static unsigned countdown; /* countdown to the failing allocation; 0: none */

static int fails(void)
{
    return countdown != 0 && --countdown == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t num, size_t size)
{
    return fails() ? NULL : __real_calloc(num, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

static void test_every_allocation(void **state)
{
    static const char *const specs[] = {"uniform", "zipf", "moe:tokens=9",
                                        "incast"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(specs); ++i) {
        plan_demand_pattern_t pattern = pattern_of(specs[i]);
        char reason[PLAN_DEMAND_REASON_MAX];
        int ret = -ENOMEM;
        unsigned n = 1;

        for (; ret != 0; ++n) {
            mrail_plan_demand_t *demands = NULL;
            size_t num = 0;

            countdown = n;
            ret = plan_demand_make(&pattern, 12, 1, &demands, &num, reason,
                                   sizeof(reason));
            countdown = 0;
            assert_int_equal(ret == 0, demands != NULL);
            assert_true(ret == 0 || ret == -ENOMEM);
            if (ret != 0) {
                assert_string_equal(reason,
                                    "out of memory for the demands of 12 "
                                    "ranks");
            }
            free(demands);
        }
        assert_true(n > 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_hotspot),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_zipf_weights),
        cmocka_unit_test(test_skew),
        cmocka_unit_test(test_moe),
        cmocka_unit_test(test_stencil),
        cmocka_unit_test(test_incast),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_refused),
        cmocka_unit_test(test_make_refused),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_every_allocation),
    };

    return cmocka_run_group_tests_name("plan_demand", tests, NULL, NULL);
}
