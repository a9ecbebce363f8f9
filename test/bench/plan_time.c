/*
 * Measures the planning time on the CPU clock of this thread. Each figure is a
 * line "NAME VALUE": the median of many plans. Each plan is computed from
 * scratch, except for "warm" (the same demands again) and "unchanged" (the same
 * generation).
 *
 * Topologies: 50 GB/s rails. GPU links are pairwise with 100 GB/s ("narrow":
 * 50), or connect to a switch with 450 GB/s. "cross_rail" adds paths between
 * all rails through the spine, without uplinks, as coll/mrail plans. "own" is
 * the time to list the pieces that one rank sends and receives. In the large
 * topologies, one rail in twenty is dead, chosen at random, and the uplinks of
 * four leaf groups carry 0.6 of the rate of their rails.
 *
 * "calibration" is the time of a fixed kernel of divisions and dependent reads.
 * It varies between machines, and over time on a busy machine, about as much as
 * planning times do.
 *
 * The choice of dead rails affects the time. Growth with size is therefore
 * measured on several topologies of each size, with seeds 1 to MACHINES. The
 * figures are the median ("cold") and the slowest. "first" is the topology of
 * seed 1.
 */
#include "config.h"
#include "orchestrator/plan.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RAIL 50e9
#define MACHINES 9

typedef enum kind { MULTI_RAIL, PAIRWISE, SWITCH, NARROW, CROSS_RAIL } kind_t;
static const char *const kind_names[] = {"multi_rail", "pairwise", "switch",
                                         "narrow", "cross_rail"};

typedef struct machine {
    mrail_plan_topo_t *topo;
    mrail_plan_demand_t *demands;
    size_t num_demands;
    uint64_t *counts; /* [from][to] */
    unsigned ranks;
} machine_t;

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "plan_time: %s\n", what);
        exit(1);
    }
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

#define KERNEL_CELLS 4096 /* 32 KiB: as much as a small plan uses */

static double run_kernel(double *cells)
{
    uint32_t at = 1;
    double sum = 1, begin = now_us();

    for (unsigned i = 0; i < KERNEL_CELLS; ++i) {
        at = at * 1664525u + 1013904223u + (uint32_t)(sum < 0.5);
        sum = cells[at >> 20] / (1 + sum);
        cells[at >> 20] = 0.25 + sum;
    }
    must(sum > 0, "the kernel");
    return now_us() - begin;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof(*values), by_value);
    return values[count / 2];
}

static void add_links(machine_t *machine, unsigned rails, kind_t kind)
{
    for (unsigned i = 0; i < machine->ranks; ++i) {
        unsigned first = i / rails * rails;

        int is_paired = (kind == PAIRWISE) || (kind == NARROW);

        for (unsigned j = first; is_paired && (j < first + rails); ++j) {
            must((i == j) || !mrail_plan_topo_set_link(
                                 machine->topo, i, j,
                                 (kind == PAIRWISE) ? 100e9 : RAIL),
                 "a link");
        }
        must(((kind != SWITCH) && (kind != CROSS_RAIL)) ||
                 !mrail_plan_topo_set_switch(machine->topo, i, 450e9, 450e9),
             "a switch");
    }
    mrail_plan_topo_set_cross_rail(machine->topo, kind == CROSS_RAIL);
}

/* A node has as many ranks as rails. */
static void make_topo(machine_t *machine, unsigned nodes, unsigned rails,
                      kind_t kind, int is_degraded, unsigned seed)
{
    double uplink = 0.6 * RAIL * nodes / 4;
    mrail_rng_t rng;

    mrail_rng_init(&rng, seed);
    machine->ranks = nodes * rails;
    must(!mrail_plan_topo_create(nodes, rails, &machine->topo), "a topology");
    for (unsigned i = 0; i < nodes * rails; ++i) {
        double capacity =
            (is_degraded && (mrail_rng_below(&rng, 20) == 0)) ? 0 : RAIL;

        must(!mrail_plan_topo_set_rail(machine->topo, i / rails, i % rails,
                                       capacity, capacity) &&
                 !mrail_plan_topo_add_rank(machine->topo, i / rails) &&
                 !mrail_plan_topo_set_reach(
                     machine->topo, i,
                     (kind == MULTI_RAIL) ? MRAIL_PLAN_ALL_RAILS : i % rails,
                     MRAIL_PLAN_UNLIMITED, MRAIL_PLAN_UNLIMITED),
             "a rail");
    }
    is_degraded = is_degraded && (kind != CROSS_RAIL);
    for (unsigned i = 0; is_degraded && (i < nodes); ++i) {
        must(!mrail_plan_topo_set_leaf_group(machine->topo, i, i * 4 / nodes),
             "a pod");
    }
    for (unsigned i = 0; is_degraded && (i < 4 * rails); ++i) {
        must(!mrail_plan_topo_set_uplink(machine->topo, i / rails, i % rails,
                                         uplink, uplink),
             "an uplink");
    }
    add_links(machine, rails, kind);
}

/* Lists the demands of `counts`. Returns the time in us. */
static double list_demands(machine_t *machine)
{
    double begin = now_us();

    machine->num_demands = 0;
    for (unsigned from = 0; from < machine->ranks; ++from) {
        for (unsigned to = 0; to < machine->ranks; ++to) {
            uint64_t bytes =
                machine->counts[(size_t)from * machine->ranks + to];

            if ((bytes > 0) && (from != to)) {
                machine->demands[machine->num_demands++] =
                    (mrail_plan_demand_t){
                        .from = from, .to = to, .bytes = bytes};
            }
        }
    }
    return now_us() - begin;
}

/* Makes demands between neighbours in a ring, or between all ranks (8 KB to 8
 * MB). */
static void make_counts(machine_t *machine, int is_stencil)
{
    size_t size = (size_t)machine->ranks * machine->ranks;
    mrail_rng_t rng;

    mrail_rng_init(&rng, 2);
    machine->counts = calloc(size, sizeof(*machine->counts));
    machine->demands = calloc(size, sizeof(*machine->demands));
    must(machine->counts && machine->demands, "memory");
    for (unsigned from = 0; from < machine->ranks; ++from) {
        for (unsigned to = 0; to < machine->ranks; ++to) {
            int is_next = ((from + 1) % machine->ranks == to) ||
                          ((to + 1) % machine->ranks == from);

            machine->counts[(size_t)from * machine->ranks + to] =
                is_stencil ? (is_next ? 16000000 : 0)
                           : 8000u * (1 + mrail_rng_below(&rng, 1000));
        }
    }
}

/* Returns the time to list the pieces of rank 0, in us. */
static double list_pieces(const mrail_plan_t *plan, const machine_t *machine)
{
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    double begin = now_us(), took;
    unsigned count = 0;

    for (size_t i = 0; i < machine->num_demands; ++i) {
        if ((machine->demands[i].from == 0) || (machine->demands[i].to == 0)) {
            count += mrail_plan_pieces(plan, i, pieces);
        }
    }
    took = now_us() - begin;
    must(count > 0, "no pieces");
    return took;
}

static void measure(const char *name, unsigned nodes, unsigned rails,
                    kind_t kind, int is_degraded, int is_stencil,
                    unsigned repeat)
{
    double *cold = calloc(4 * repeat, sizeof(*cold)), *warm = cold + repeat;
    double *list = warm + repeat, *own = list + repeat, begin, unchanged;
    mrail_plan_summary_t summary;
    machine_t machine = {0};
    mrail_plan_t *plan;
    char reason[256] = "";

    must(cold != NULL, "memory");
    make_topo(&machine, nodes, rails, kind, is_degraded, 1);
    make_counts(&machine, is_stencil);
    must(!mrail_plan_create(machine.topo, NULL, &plan), "a plan");
    for (unsigned i = 0; i < repeat; ++i) {
        list[i] = list_demands(&machine);
        mrail_plan_discard_warm_start(plan);
        begin = now_us();
        must(!mrail_plan_make(plan, machine.demands, machine.num_demands, 0,
                              reason, sizeof(reason)),
             reason);
        cold[i] = now_us() - begin;
        own[i] = list_pieces(plan, &machine);
        begin = now_us();
        must(!mrail_plan_make(plan, machine.demands, machine.num_demands, 1 + i,
                              reason, sizeof(reason)),
             reason);
        warm[i] = now_us() - begin;
    }
    begin = now_us();
    for (unsigned i = 0; i < 1000; ++i) {
        must(!mrail_plan_make(plan, machine.demands, machine.num_demands,
                              repeat, reason, sizeof(reason)),
             reason);
    }
    unchanged = (now_us() - begin) / 1000;
    mrail_plan_compare(plan);
    mrail_plan_summary(plan, &summary);
    printf("%s.%s.cold %.3f\n", name, kind_names[kind], median(cold, repeat));
    printf("%s.%s.warm %.3f\n", name, kind_names[kind], median(warm, repeat));
    printf("%s.%s.list %.3f\n", name, kind_names[kind], median(list, repeat));
    printf("%s.%s.own %.3f\n", name, kind_names[kind], median(own, repeat));
    printf("%s.%s.unchanged %.4f\n", name, kind_names[kind], unchanged);
    printf("%s.%s.demands %zu\n", name, kind_names[kind], machine.num_demands);
    printf("%s.%s.gap %.4f\n", name, kind_names[kind],
           100 * (summary.congestion / summary.congestion_bound - 1));
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(machine.topo);
    free(machine.counts);
    free(machine.demands);
    free(cold);
}

/* Returns the planning time for one topology, in us. */
static double measure_machine(unsigned nodes, kind_t kind, unsigned seed,
                              unsigned repeat, size_t *num_demands_p)
{
    double *cold = calloc(repeat, sizeof(*cold)), begin, middle;
    machine_t machine = {0};
    mrail_plan_t *plan;
    char reason[256] = "";

    must(cold != NULL, "memory");
    make_topo(&machine, nodes, 8, kind, 1, seed);
    make_counts(&machine, 0);
    (void)list_demands(&machine);
    must(!mrail_plan_create(machine.topo, NULL, &plan), "a plan");
    for (unsigned i = 0; i < repeat; ++i) {
        mrail_plan_discard_warm_start(plan);
        begin = now_us();
        must(!mrail_plan_make(plan, machine.demands, machine.num_demands, 0,
                              reason, sizeof(reason)),
             reason);
        cold[i] = now_us() - begin;
    }
    middle = median(cold, repeat);
    *num_demands_p = machine.num_demands;
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(machine.topo);
    free(machine.counts);
    free(machine.demands);
    free(cold);
    return middle;
}

static void measure_growth(unsigned nodes, kind_t kind, unsigned repeat)
{
    const char *name = kind_names[kind];
    double cold[MACHINES];
    size_t num_demands = 0;

    for (unsigned i = 0; i < MACHINES; ++i) {
        cold[i] = measure_machine(nodes, kind, 1 + i, repeat, &num_demands);
    }
    printf("%ux8.dense.%s.cold %.3f\n", nodes, name, median(cold, MACHINES));
    printf("%ux8.dense.%s.slowest %.3f\n", nodes, name, cold[MACHINES - 1]);
    printf("%ux8.dense.%s.demands %zu\n", nodes, name, num_demands);
}

static void calibrate(void)
{
    enum { REPEAT = 1001 };
    static double cells[KERNEL_CELLS], took[REPEAT];

    for (unsigned i = 0; i < KERNEL_CELLS; ++i) {
        cells[i] = 1;
    }
    for (unsigned i = 0; i < REPEAT; ++i) {
        took[i] = run_kernel(cells);
    }
    printf("calibration %.3f\n", median(took, REPEAT));
}

int main(void)
{
    calibrate();
    for (kind_t kind = MULTI_RAIL; kind <= SWITCH; ++kind) {
        measure("2x4.stencil", 2, 4, kind, 0, 1, 2001);
        measure("2x4.dense", 2, 4, kind, 0, 0, 2001);
    }
    for (kind_t kind = PAIRWISE; kind <= SWITCH; ++kind) {
        for (unsigned nodes = 2; nodes <= 64; nodes *= 2) {
            measure_growth(nodes, kind, (nodes < 16) ? 51 : 15);
        }
    }
    for (kind_t kind = MULTI_RAIL; kind <= CROSS_RAIL; ++kind) {
        measure("64x8.first", 64, 8, kind, 1, 0, (kind <= SWITCH) ? 31 : 5);
    }
    return 0;
}
