#include "config.h"
#include "plan_machines.h"

#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

void set_rails(mrail_plan_topo_t *topo, double capacity)
{
    for (unsigned node = 0; node < mrail_plan_topo_num_nodes(topo); ++node) {
        for (unsigned r = 0; r < mrail_plan_topo_num_rails(topo); ++r) {
            assert_int_equal(
                mrail_plan_topo_set_rail(topo, node, r, capacity, capacity), 0);
        }
    }
}

int add_rank(mrail_plan_topo_t *topo, unsigned node, unsigned rail)
{
    int ret = mrail_plan_topo_add_rank(topo, node);

    return (ret != 0) ? ret
                      : mrail_plan_topo_set_reach(
                            topo, mrail_plan_topo_num_ranks(topo) - 1, rail,
                            MRAIL_PLAN_UNLIMITED, MRAIL_PLAN_UNLIMITED);
}

/* Makes one rank per rail of each node, node by node. If `gpu` is positive,
 * adds pairwise links of that capacity. */
mrail_plan_topo_t *bound(unsigned nodes, unsigned rails, double gpu)
{
    mrail_plan_topo_t *topo;

    assert_int_equal(mrail_plan_topo_create(nodes, rails, &topo), 0);
    set_rails(topo, G);
    for (unsigned i = 0; i < nodes * rails; ++i) {
        assert_int_equal(add_rank(topo, i / rails, i % rails), 0);
    }
    for (unsigned i = 0; (gpu > 0) && (i < nodes * rails); ++i) {
        for (unsigned k = i / rails * rails; k < (i / rails + 1) * rails; ++k) {
            assert_int_equal(
                (i == k) ? 0 : mrail_plan_topo_set_link(topo, i, k, gpu), 0);
        }
    }
    return topo;
}

/* Like bound(), but with a switch in each node. */
mrail_plan_topo_t *switched(unsigned nodes, unsigned rails, double up)
{
    mrail_plan_topo_t *topo = bound(nodes, rails, 0);

    for (unsigned i = 0; i < nodes * rails; ++i) {
        assert_int_equal(mrail_plan_topo_set_switch(topo, i, up, 100 * G), 0);
    }
    return topo;
}

/* Makes one rank per node, which reaches all rails. */
mrail_plan_topo_t *multi_rail_ranks(unsigned nodes, unsigned rails)
{
    mrail_plan_topo_t *topo;

    assert_int_equal(mrail_plan_topo_create(nodes, rails, &topo), 0);
    set_rails(topo, G);
    for (unsigned i = 0; i < nodes; ++i) {
        assert_int_equal(add_rank(topo, i, NONE), 0);
    }
    return topo;
}

mrail_plan_t *plan_of(mrail_plan_topo_t *topo)
{
    mrail_plan_t *plan;

    assert_int_equal(mrail_plan_create(topo, NULL, &plan), 0);
    mrail_plan_topo_destroy(topo);
    return plan;
}

void make(mrail_plan_t *plan, const mrail_plan_demand_t *demands, size_t count)
{
    char reason[200] = "";
    int ret = mrail_plan_make(plan, demands, count, 0, reason, sizeof(reason));

    if (ret != 0) {
        fail_msg("%d: %s", ret, reason);
    }
    mrail_plan_compare(plan);
}

mrail_plan_summary_t summary_of(const mrail_plan_t *plan)
{
    mrail_plan_summary_t s;

    mrail_plan_summary(plan, &s);
    return s;
}

double load_of(const mrail_plan_t *plan, mrail_plan_link_kind_t kind,
               unsigned a, unsigned b)
{
    for (unsigned i = 0; i < mrail_plan_num_links(plan); ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(plan, i, &link);
        if ((link.kind == kind) && (link.a == a) && (link.b == b)) {
            return link.bytes;
        }
    }
    return -1;
}

void assert_near(double is, double wanted, double part)
{
    if (!(fabs(is - wanted) <= part * wanted)) {
        fail_msg("%.9g instead of %.9g", is, wanted);
    }
}

/* Checks that the plan has the minimum congestion, which is known. */
mrail_plan_summary_t assert_congestion(const mrail_plan_t *plan, double least)
{
    mrail_plan_summary_t s = summary_of(plan);

    assert_true(s.congestion_bound <= least * (1 + 1e-9));
    /* The factor 1e-6 allows for pieces that are rounded to whole bytes. */
    assert_true(s.congestion >= least * (1 - 1e-6));
    assert_true(s.congestion <= least * (1 + GAP) * (1 + 1e-6));
    return s;
}

/* Plans one demand on a new topology. The caller destroys the plan. */
mrail_plan_t *plan_one(mrail_plan_topo_t *topo, uint32_t from, uint32_t to,
                       uint64_t bytes)
{
    static mrail_plan_demand_t demand;
    mrail_plan_t *plan = plan_of(topo);

    demand = (mrail_plan_demand_t){from, to, bytes};
    make(plan, &demand, 1);
    return plan;
}
