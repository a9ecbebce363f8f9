/*
 * Fuzzes the input of `mrail plan`: random bytes as a topology, as demands and
 * as a pattern.
 *
 * Invariants: an error gives the location and the reason, and nothing is
 * returned. Accepted input is in range and in order. Reading its text form back
 * gives the same result.
 */
#include "config.h"
#include "fuzz.h"
#include "tools/plan_demand.h"
#include "tools/plan_text.h"

#include <errno.h>

#define RANKS 12u
/* A topology with more nodes or ranks than this is not examined in detail. */
#define SMALL 64u

static void check_reason(int ret, const char *reason)
{
    FUZZ_CHECK(ret == -EINVAL, "%d", ret);
    FUZZ_CHECK((strncmp(reason, "x:", 2) == 0) && (reason[2] >= '1') &&
                   (reason[2] <= '9') && (strchr(reason, ' ') != NULL),
               "says '%s'", reason);
}

/* ---- Topologies ---- */

static void check_links(const mrail_plan_topo_t *topo)
{
    mrail_plan_t *plan;
    int ret = mrail_plan_create(topo, NULL, &plan);

    if (ret == -EINVAL) {
        return; /* no link is up */
    }
    FUZZ_CHECK(ret == 0, "%d", ret);
    for (unsigned i = 0; i < mrail_plan_num_links(plan); ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(plan, i, &link);
        FUZZ_CHECK((link.capacity == 0) ||
                       ((link.capacity >= 1e3) && (link.capacity <= 1e15)),
                   "capacity %g", link.capacity);
    }
    mrail_plan_destroy(plan);
}

static void check_topo(const char *text, size_t size)
{
    mrail_plan_topo_t *topo = NULL;
    char reason[PLAN_TEXT_REASON_MAX] = "";
    int ret = plan_text_topo("x", text, size, &topo, reason, sizeof(reason));
    unsigned ranks;

    if (ret != 0) {
        check_reason(ret, reason);
        FUZZ_CHECK(topo == NULL, "given out");
        return;
    }
    ranks = mrail_plan_topo_num_ranks(topo);
    FUZZ_CHECK((ranks > 0) && (ranks <= MRAIL_PLAN_MAX_RANKS), "%u ranks",
               ranks);
    for (unsigned i = 0; i < ranks; ++i) {
        FUZZ_CHECK(mrail_plan_topo_node_of(topo, i) <
                       mrail_plan_topo_num_nodes(topo),
                   "rank %u", i);
        FUZZ_CHECK((mrail_plan_topo_rails_of(topo, i) >>
                    mrail_plan_topo_num_rails(topo)) == 0,
                   "rank %u", i);
    }
    if ((ranks <= SMALL) && (mrail_plan_topo_num_nodes(topo) <= SMALL)) {
        check_links(topo);
    }
    mrail_plan_topo_destroy(topo);
}

/* ---- Demands ---- */

/* Checks that the demands are ordered and not empty, and that none is from a
 * rank to itself. */
static void check_order(const mrail_plan_demand_t *demands, size_t num)
{
    uint64_t total = 0;

    for (size_t i = 0; i < num; ++i) {
        const mrail_plan_demand_t *d = &demands[i];

        FUZZ_CHECK((d->from < RANKS) && (d->to < RANKS) && (d->from != d->to) &&
                       (d->bytes > 0),
                   "%u to %u", d->from, d->to);
        FUZZ_CHECK((i == 0) ||
                       (demands[i - 1].from * RANKS + demands[i - 1].to <
                        d->from * RANKS + d->to),
                   "%u to %u", d->from, d->to);
        total += d->bytes;
        FUZZ_CHECK(total <= PLAN_TEXT_MAX_TOTAL, "%llu in all",
                   (unsigned long long)total);
    }
}

static void check_back(const mrail_plan_demand_t *demands, size_t num)
{
    static char text[RANKS * RANKS * 32];
    mrail_plan_demand_t *again = NULL;
    char reason[PLAN_TEXT_REASON_MAX] = "";
    size_t used = 0, num_again = 0;

    for (size_t i = 0; i < num; ++i) {
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "%u %u %llu\n", demands[i].from, demands[i].to,
                                 (unsigned long long)demands[i].bytes);
    }
    FUZZ_CHECK(plan_text_demands("x", text, used, RANKS, &again, &num_again,
                                 reason, sizeof(reason)) == 0,
               "%s", reason);
    FUZZ_CHECK(num_again == num, "%zu of %zu", num_again, num);
    for (size_t i = 0; i < num; ++i) {
        FUZZ_CHECK((again[i].from == demands[i].from) &&
                       (again[i].to == demands[i].to) &&
                       (again[i].bytes == demands[i].bytes),
                   "demand %zu", i);
    }
    free(again);
}

static void check_demands(const char *text, size_t size)
{
    mrail_plan_demand_t *demands = NULL;
    char reason[PLAN_TEXT_REASON_MAX] = "";
    size_t num = 0;
    int ret = plan_text_demands("x", text, size, RANKS, &demands, &num, reason,
                                sizeof(reason));

    if (ret != 0) {
        check_reason(ret, reason);
        FUZZ_CHECK((demands == NULL) && (num == 0), "given out");
        return;
    }
    check_order(demands, num);
    check_back(demands, num);
    free(demands);
}

/* ---- Patterns ---- */

static void check_pattern(const char *text, size_t size)
{
    char spec[300], reason[PLAN_DEMAND_REASON_MAX] = "";
    mrail_plan_demand_t *demands = NULL;
    plan_demand_pattern_t pattern;
    size_t num = 0;
    int ret;

    size = MRAIL_MIN(size, sizeof(spec) - 1);
    mrail_copy(spec, text, size);
    spec[size] = '\0';
    if (plan_demand_parse(spec, &pattern, reason, sizeof(reason)) != 0) {
        FUZZ_CHECK(strchr(reason, ' ') != NULL, "says '%s'", reason);
        return;
    }
    /* With the maximum number of tokens, a run would take seconds. */
    pattern.tokens = MRAIL_MIN(pattern.tokens, 16u);
    pattern.experts = MRAIL_MIN(pattern.experts, 256u);
    ret = plan_demand_make(&pattern, RANKS, size, &demands, &num, reason,
                           sizeof(reason));
    if (ret != 0) {
        FUZZ_CHECK((ret == -EINVAL) && (demands == NULL) && (reason[0] != '\0'),
                   "%d: %s", ret, reason);
        return;
    }
    check_order(demands, num);
    free(demands);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_topo((const char *)data, size);
    check_demands((const char *)data, size);
    check_pattern((const char *)data, size);
    return 0;
}
