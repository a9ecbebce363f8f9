/* A hash of the planner's results for fixed inputs. Ranks compare it to
 * determine whether they would make the same plans. */
#include "config.h"
#include "mpi/coll/schedule.h"

#include "base/util.h"

/* Computes a plan for demands that need relays, on two nodes with two rails,
 * four ranks and pairwise GPU links. */
static int make_sample(mrail_plan_topo_t *topo, mrail_plan_t **plan_p)
{
    mrail_plan_demand_t demands[] = {
        {0, 2, 12345678}, {1, 3, 2345678}, {0, 1, 3456789}, {2, 1, 10000001}};
    int ret = 0;

    for (unsigned i = 0; i < 4 && ret == 0; ++i) {
        ret = mrail_plan_topo_set_rail(topo, i / 2, i % 2, 1e9, 7e8 + i);
    }
    for (unsigned i = 0; i < 4 && ret == 0; ++i) {
        ret = mrail_plan_topo_add_rank(topo, i / 2);
        if (ret == 0) {
            ret = mrail_plan_topo_set_reach(
                topo, i, i % 2, MRAIL_PLAN_UNLIMITED, MRAIL_PLAN_UNLIMITED);
        }
    }
    for (unsigned i = 0; i < 4 && ret == 0; ++i) {
        ret = mrail_plan_topo_set_link(topo, i, i ^ 1, 3e9);
    }
    if (ret < 0) {
        return ret;
    }
    ret = mrail_plan_create(topo, NULL, plan_p);
    if (ret < 0) {
        return ret;
    }
    return mrail_plan_make(*plan_p, demands, MRAIL_ARRAY_SIZE(demands), 0, NULL,
                           0);
}

uint64_t mca_coll_mrail_schedule_fingerprint(void)
{
    mrail_plan_topo_t *topo = NULL;
    mrail_plan_t *plan = NULL;
    mrail_plan_summary_t summary = {0};
    uint64_t hash = 0;

    if (mrail_plan_topo_create(2, 2, &topo) == 0 &&
        make_sample(topo, &plan) == 0) {
        mrail_plan_summary(plan, &summary);
        hash = summary.hash;
        for (const char *text = PACKAGE_VERSION; *text != '\0'; ++text) {
            hash = mrail_mix64(hash ^ (uint8_t)*text);
        }
        hash = MRAIL_MAX(hash, MCA_COLL_MRAIL_FOREIGN + 1);
    }
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
    return hash;
}
