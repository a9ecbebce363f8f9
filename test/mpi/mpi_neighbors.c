/*
 * Neighbourhood collectives generated from seeds: random topology, call, counts,
 * displacements and datatypes. Every byte is checked, including those in gaps
 * and around the buffers. The neighbours are computed here, not asked from MPI.
 * MPI_Allgatherv counts as a neighbourhood collective with all ranks as
 * neighbours. Often the block of one rank is much larger than the others.
 *
 *   --seeds A-B   (1-20)
 *   --relays      coll/mrail must have relayed some bytes of each kind of call
 *   --left        coll/mrail must not have planned any call
 */
#include "config.h"
#include "mpi_test.h"
#include "planned.h"

#include "tools/bench_coll.h"

#include <string.h>

enum { SEED_S = 60, MOST_LARGE = 300000, MOST_SMALL = 3000, EACH = 1 << 19 };

/* The neighbours of this rank, with MPI_PROC_NULL. */
typedef struct graph {
    MPI_Comm comm;
    const char *name;
    int is_cart;
    int is_all; /* 1 if there is no topology, and all ranks are neighbors */
    int num_in, num_out;
    int *in, *out;
} graph_t;

typedef enum call {
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    NUM_CALLS
} call_t;

static const char *const names[] = {"neighbor_allgather", "neighbor_allgatherv",
                                    "neighbor_alltoall", "neighbor_alltoallv",
                                    "neighbor_alltoallw"};

/* ---- topologies ---- */

static void allocate(graph_t *graph, int most)
{
    graph->in = mt_alloc((size_t)most * sizeof(int));
    graph->out = mt_alloc((size_t)most * sizeof(int));
}

/* Returns the rank at a distance of `step` in one dimension. */
static int cart_at(const int *dims, const int *periods, int num, int dim,
                   int step)
{
    int at = mt_rank(MPI_COMM_WORLD), stride = 1, place;

    for (int i = num - 1; i > dim; --i) {
        stride *= dims[i];
    }
    place = at / stride % dims[dim];
    if (!periods[dim] && (place + step < 0 || place + step >= dims[dim])) {
        return MPI_PROC_NULL;
    }
    return at + stride * ((place + step + dims[dim]) % dims[dim] - place);
}

static void make_cart(graph_t *graph, int num, int *dims, int *periods)
{
    MPI_Cart_create(MPI_COMM_WORLD, num, dims, periods, 0, &graph->comm);
    allocate(graph, 2 * num);
    graph->num_in = graph->num_out = 2 * num;
    graph->is_cart = 1;
    for (int i = 0; i < num; ++i) {
        for (int k = 0; k < 2; ++k) {
            graph->in[2 * i + k] = graph->out[2 * i + k] =
                cart_at(dims, periods, num, i, 2 * k - 1);
        }
    }
}

static void make_ring(graph_t *graph)
{
    int dims[] = {mt_size(MPI_COMM_WORLD)}, periods[] = {1};

    graph->name = "ring";
    make_cart(graph, 1, dims, periods);
}

static void make_grid(graph_t *graph, mrail_rng_t *rng)
{
    int dims[] = {0, 0};
    int periods[] = {(int)mrail_rng_below(rng, 2), 0};

    graph->name = "grid";
    MPI_Dims_create(mt_size(MPI_COMM_WORLD), 2, dims);
    make_cart(graph, 2, dims, periods);
}

/* In one dimension, both neighbours of a rank are the same rank. */
static void make_narrow(graph_t *graph)
{
    int size = mt_size(MPI_COMM_WORLD), width = (size % 2 == 0) ? 2 : 1;
    int dims[] = {size / width, width}, periods[] = {1, 1};

    graph->name = "narrow grid";
    make_cart(graph, 2, dims, periods);
}

/* Each rank is joined to some of the others. */
static void make_graph(graph_t *graph, mrail_rng_t *rng)
{
    int size = mt_size(MPI_COMM_WORLD), self = mt_rank(MPI_COMM_WORLD);
    char *joined = mt_alloc((size_t)(size * size));
    int *index = mt_alloc((size_t)size * sizeof(int));
    int *edges = mt_alloc((size_t)(size * size) * sizeof(int));
    int num = 0;

    graph->name = "graph";
    allocate(graph, size);
    for (int i = 0; i < size; ++i) {
        for (int k = 0; k <= i; ++k) {
            joined[i * size + k] = joined[k * size + i] =
                (char)mrail_rng_hit(rng, 400000);
        }
    }
    for (int i = 0; i < size; ++i) {
        for (int k = 0; k < size; ++k) {
            if (joined[i * size + k] && i == self) {
                graph->in[graph->num_in++] = k;
                graph->out[graph->num_out++] = k;
            }
            if (joined[i * size + k]) {
                edges[num++] = k;
            }
        }
        index[i] = num;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph->comm);
    free(joined);
    free(index);
    free(edges);
}

/* Each rank sends to some of the others. With `is_repeated`, some send twice to
 * the same rank. */
static void make_dist_graph(graph_t *graph, mrail_rng_t *rng, int is_repeated)
{
    int size = mt_size(MPI_COMM_WORLD), self = mt_rank(MPI_COMM_WORLD);
    int *weights = mt_alloc((size_t)(2 * size) * sizeof(int));
    int is_weighted = mrail_rng_hit(rng, 500000);

    graph->name = is_repeated ? "distributed graph with repeated neighbours"
                              : "distributed graph";
    allocate(graph, 2 * size);
    for (int i = 0; i < 2 * size; ++i) {
        weights[i] = i + 1;
    }
    for (int from = 0; from < size; ++from) {
        for (int to = 0; to < size; ++to) {
            int num = mrail_rng_hit(rng, 400000);

            num *= (is_repeated && mrail_rng_hit(rng, 300000)) ? 2 : 1;
            for (; num > 0; --num) {
                if (from == self) {
                    graph->out[graph->num_out++] = to;
                }
                if (to == self) {
                    graph->in[graph->num_in++] = from;
                }
            }
        }
    }
    MPI_Dist_graph_create_adjacent(
        MPI_COMM_WORLD, graph->num_in, graph->in,
        is_weighted ? weights : MPI_UNWEIGHTED, graph->num_out, graph->out,
        is_weighted ? weights : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph->comm);
    free(weights);
}

/* All ranks, in one of two orders. */
static void make_all(graph_t *graph, mrail_rng_t *rng)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);

    graph->name = "communicator";
    graph->is_all = 1;
    MPI_Comm_split(MPI_COMM_WORLD, 0, mrail_rng_hit(rng, 500000) ? rank : -rank,
                   &graph->comm);
    allocate(graph, size);
    graph->num_in = size;
    for (int i = 0; i < size; ++i) {
        graph->in[i] = i;
    }
}

static graph_t draw_graph(mrail_rng_t *rng)
{
    graph_t graph = {0};

    switch (mrail_rng_below(rng, 9)) {
    case 6:
    case 7:
    case 8:
        make_all(&graph, rng);
        break;
    case 0:
        make_ring(&graph);
        break;
    case 1:
        make_grid(&graph, rng);
        break;
    case 2:
        make_narrow(&graph);
        break;
    case 3:
        make_graph(&graph, rng);
        break;
    case 4:
        make_dist_graph(&graph, rng, 1);
        break;
    default:
        make_dist_graph(&graph, rng, 0);
    }
    return graph;
}

static void graph_cleanup(graph_t *graph)
{
    free(graph->in);
    free(graph->out);
    MPI_Comm_free(&graph->comm);
}

/* ---- exchanges ---- */

typedef struct exchange {
    const graph_t *graph;
    call_t call;
    uint64_t seed; /* of the demands, equal on all ranks */
    int in_place;  /* only if graph->is_all */
    /* 1 if no datatype has gaps, which mrail requires of MPI_Allgatherv */
    int is_plain;
    planned_side_t send, recv;
} exchange_t;

/* Returns the units that go from one rank to another. All blocks of a pair of
 * ranks are equal, because their order is not tested. */
static long units_of(const exchange_t *ex, int from, int to, long unit_bytes)
{
    int is_even = ex->call == ALLGATHER || ex->call == ALLTOALL;
    uint64_t key = is_even                  ? 0
                   : ex->call == ALLGATHERV ? (uint64_t)from + 1
                                            : (uint64_t)(from * EACH + to + 1);
    uint64_t draw = mrail_mix64(ex->seed ^ mrail_mix64(key));

    if (ex->graph->is_all && ex->seed % 4 != 0) { /* one large block */
        int large = (int)(ex->seed / 4 % (uint64_t)ex->graph->num_in);
        int most = (from == large) ? MOST_LARGE : MOST_SMALL;

        return (long)((draw >> 8) % (uint64_t)most) / unit_bytes;
    }
    switch (draw % 8) {
    case 0:
        return 0;
    case 1:
    case 2:
        return (long)((draw >> 8) % MOST_LARGE) / unit_bytes;
    default:
        return (long)((draw >> 8) % MOST_SMALL) / unit_bytes;
    }
}

static int is_allgather(const exchange_t *ex)
{
    return ex->call == ALLGATHER || ex->call == ALLGATHERV;
}

static int has_gaps(const planned_side_t *side)
{
    const planned_type_t *type = &side->types[0];

    return type->extent != type->size || type->lb != 0;
}

/* Creates one side. Without neighbours, it has one block, which MPI must
 * ignore. */
static void make_side(const exchange_t *ex, planned_side_t *side,
                      mrail_rng_t *own, planned_place_t place,
                      planned_base_t base, unsigned unit, int is_send)
{
    const graph_t *graph = ex->graph;
    const int *peers = is_send ? graph->out : graph->in;
    int num = is_send ? graph->num_out : graph->num_in;
    int self = mt_rank(graph->comm);
    long unit_bytes = unit * planned_type_base_size(base);
    long *units = mt_alloc((size_t)(num + 1) * sizeof(*units));

    units[0] = units_of(ex, self, 0, unit_bytes);
    if (is_send && is_allgather(ex)) {
        num = 1;
    } else {
        for (int i = 0; i < num; ++i) {
            int peer = (peers[i] == MPI_PROC_NULL) ? 0 : peers[i];

            units[i] = units_of(ex, is_send ? self : peer,
                                is_send ? peer : self, unit_bytes);
        }
    }
    planned_side_init(side, own, MRAIL_MAX(num, 1), place, base, unit, units);
    while (ex->is_plain && has_gaps(side)) {
        planned_side_cleanup(side);
        planned_side_init(side, own, MRAIL_MAX(num, 1), place, base, unit,
                          units);
    }
    free(units);
}

static void exchange_init(exchange_t *ex, const graph_t *graph, call_t call,
                          mrail_rng_t *rng)
{
    static const unsigned all_units[] = {1, 1, 12, 960};
    static const planned_place_t places[] = {
        [ALLGATHER] = PLANNED_BLOCKS, [ALLGATHERV] = PLANNED_ITEMS,
        [ALLTOALL] = PLANNED_BLOCKS,  [ALLTOALLV] = PLANNED_ITEMS,
        [ALLTOALLW] = PLANNED_BYTES,
    };
    planned_base_t base = mrail_rng_below(rng, PLANNED_NUM_BASES);
    unsigned unit = all_units[mrail_rng_below(rng, 4)];
    mrail_rng_t own;

    if (graph->is_all) {
        /* Open MPI 4.1.4 chooses an algorithm by the sizes of the datatypes, which
         * must therefore be equal on all ranks. */
        unit = 1;
    }
    *ex = (exchange_t){.graph = graph, .call = call};
    ex->seed = mrail_rng_next(rng);
    ex->in_place = graph->is_all && mrail_rng_hit(rng, 250000);
    ex->is_plain = graph->is_all && mrail_rng_hit(rng, 500000);
    base = (ex->is_plain && base == PLANNED_RECORD) ? PLANNED_INT : base;
    mrail_rng_init(&own, mrail_rng_next(rng) + (uint64_t)mt_rank(graph->comm));
    make_side(ex, &ex->send, &own,
              (call == ALLGATHERV) ? PLANNED_BLOCKS : places[call], base, unit,
              1);
    make_side(ex, &ex->recv, &own, places[call], base, unit, 0);
}

static void exchange_cleanup(exchange_t *ex)
{
    planned_side_cleanup(&ex->send);
    planned_side_cleanup(&ex->recv);
}

static uint64_t seed_of(const exchange_t *ex, int from, int to,
                        uint64_t message)
{
    return mt_seed(from, is_allgather(ex) ? EACH : to, message);
}

/* Fills the buffers. The blocks of MPI_PROC_NULL must not change. */
static void exchange_fill(exchange_t *ex, uint64_t message)
{
    const graph_t *graph = ex->graph;
    int self = mt_rank(graph->comm);

    planned_side_clear(&ex->send);
    planned_side_clear(&ex->recv);
    if (ex->in_place) {
        planned_side_put(&ex->recv, self, seed_of(ex, self, 0, message), 1);
    } else if (is_allgather(ex)) {
        planned_side_put(&ex->send, 0, seed_of(ex, self, 0, message), 1);
    }
    for (int i = 0; i < graph->num_out && !is_allgather(ex); ++i) {
        planned_side_put(&ex->send, i,
                         seed_of(ex, self, graph->out[i], message), 1);
    }
    for (int i = 0; i < graph->num_in; ++i) {
        if (graph->in[i] != MPI_PROC_NULL) {
            planned_side_put(&ex->recv, i,
                             seed_of(ex, graph->in[i], self, message), 0);
        }
    }
}

/* MPI_Neighbor_alltoallw takes displacements of type MPI_Aint. */
static MPI_Aint *wide_displs(const planned_side_t *side)
{
    MPI_Aint *displs = mt_alloc((size_t)side->num * sizeof(*displs));

    for (int i = 0; i < side->num; ++i) {
        displs[i] = side->displs[i];
    }
    return displs;
}

static void run_alltoallw(const exchange_t *ex)
{
    const planned_side_t *out = &ex->send, *in = &ex->recv;
    MPI_Aint *to = wide_displs(out), *from = wide_displs(in);

    MPI_Neighbor_alltoallw(out->base, out->counts, to, out->mpi_types, in->base,
                           in->counts, from, in->mpi_types, ex->graph->comm);
    free(to);
    free(from);
}

static void exchange_run(const exchange_t *ex)
{
    const planned_side_t *out = &ex->send, *in = &ex->recv;
    MPI_Comm comm = ex->graph->comm;

    switch (ex->call) {
    case ALLGATHER:
        MPI_Neighbor_allgather(out->base, out->counts[0], out->mpi_types[0],
                               in->base, in->counts[0], in->mpi_types[0], comm);
        break;
    case ALLGATHERV:
        (ex->graph->is_all ? MPI_Allgatherv : MPI_Neighbor_allgatherv)(
            ex->in_place ? MPI_IN_PLACE : out->base, out->counts[0],
            out->mpi_types[0], in->base, in->counts, in->displs,
            in->mpi_types[0], comm);
        break;
    case ALLTOALL:
        MPI_Neighbor_alltoall(out->base, out->counts[0], out->mpi_types[0],
                              in->base, in->counts[0], in->mpi_types[0], comm);
        break;
    case ALLTOALLV:
        MPI_Neighbor_alltoallv(out->base, out->counts, out->displs,
                               out->mpi_types[0], in->base, in->counts,
                               in->displs, in->mpi_types[0], comm);
        break;
    default:
        run_alltoallw(ex);
    }
}

static const char *name_of(const exchange_t *ex)
{
    return ex->graph->is_all ? "allgatherv" : names[ex->call];
}

static int exchange_check(const exchange_t *ex)
{
    char what[96];
    int ok;

    snprintf(what, sizeof(what), "%s on a %s, received", name_of(ex),
             ex->graph->name);
    ok = planned_side_check(&ex->recv, what);
    snprintf(what, sizeof(what), "%s on a %s, sent", name_of(ex),
             ex->graph->name);
    return ok && planned_side_check(&ex->send, what);
}

/* ---- program ---- */

/* Kinds of calls, on each of which a plan must have been made. */
typedef enum kind { VARIABLE, EQUAL_ON_CART, ALL_RANKS, NUM_KINDS } kind_t;

static const char *const kinds[] = {
    "neighbourhood collectives with blocks of different sizes",
    "neighbourhood collectives with equal blocks",
    "MPI_Allgatherv",
};

/* Of this rank, by kind. */
static uint64_t planned[NUM_KINDS], relayed[NUM_KINDS];

static kind_t kind_of(const graph_t *graph, call_t call)
{
    int is_equal = call == ALLGATHER || call == ALLTOALL;

    return graph->is_all                  ? ALL_RANKS
           : (is_equal && graph->is_cart) ? EQUAL_ON_CART
                                          : VARIABLE;
}

/* Adds what the counters have gained since `before` to a kind of calls. */
static void count(const mrail_bench_coll_t *coll, const uint64_t *before,
                  kind_t kind)
{
    uint64_t now[MRAIL_BENCH_COLL_NUM];

    mrail_bench_coll_read(coll, now);
    planned[kind] += now[MRAIL_BENCH_COLL_PLANNED_CALLS] -
                     before[MRAIL_BENCH_COLL_PLANNED_CALLS];
    relayed[kind] += now[MRAIL_BENCH_COLL_RELAYED_BYTES] -
                     before[MRAIL_BENCH_COLL_RELAYED_BYTES];
}

/* Makes several calls on one communicator, some of them with the same demands
 * as before. */
static int run_seed(const mrail_bench_coll_t *coll, uint64_t seed)
{
    mrail_rng_t rng;
    graph_t graph;
    int ok = 1;

    mt_seed_hangs_after(SEED_S, "mpi_neighbors", seed);
    mrail_rng_init(&rng, mrail_mix64(seed));
    graph = draw_graph(&rng);
    for (int i = 0; i < 6; ++i) {
        exchange_t ex;
        uint64_t before[MRAIL_BENCH_COLL_NUM];

        call_t call = mrail_rng_below(&rng, NUM_CALLS);

        mrail_bench_coll_read(coll, before);
        exchange_init(&ex, &graph, graph.is_all ? ALLGATHERV : call, &rng);
        for (unsigned k = 1 + mrail_rng_below(&rng, 3); k > 0; --k) {
            exchange_fill(&ex, (seed * 6 + (uint64_t)i) * 4 + k);
            exchange_run(&ex);
            ok &= exchange_check(&ex);
        }
        count(coll, before, kind_of(&graph, ex.call));
        exchange_cleanup(&ex);
    }
    if (!ok) {
        fprintf(stderr, "rank %d: seed %llu: mpi_neighbors --seeds %llu-%llu\n",
                mt_rank(MPI_COMM_WORLD), (unsigned long long)seed,
                (unsigned long long)seed, (unsigned long long)seed);
    }
    graph_cleanup(&graph);
    return ok;
}

static void check_counters(const mrail_bench_coll_t *coll, int relays, int left)
{
    uint64_t own[MRAIL_BENCH_COLL_NUM], all[MRAIL_BENCH_COLL_NUM];

    mrail_bench_coll_read(coll, own);
    MPI_Allreduce(own, all, MRAIL_BENCH_COLL_NUM, MPI_UINT64_T, MPI_SUM,
                  MPI_COMM_WORLD);
    if (relays) {
        uint64_t sums[2 * NUM_KINDS];
        char name[96];

        MPI_Allreduce(planned, sums, NUM_KINDS, MPI_UINT64_T, MPI_SUM,
                      MPI_COMM_WORLD);
        MPI_Allreduce(relayed, sums + NUM_KINDS, NUM_KINDS, MPI_UINT64_T,
                      MPI_SUM, MPI_COMM_WORLD);
        for (int kind = 0; kind < NUM_KINDS; ++kind) {
            snprintf(name, sizeof(name), "plans with relays: %s", kinds[kind]);
            mt_result(name, sums[kind] > 0 && sums[NUM_KINDS + kind] > 0);
        }
    }
    if (left) {
        mt_result("all calls are left to Open MPI",
                  coll->present && all[MRAIL_BENCH_COLL_CALLS] == 0);
    }
    if (coll->present && mt_rank(MPI_COMM_WORLD) == 0) {
        printf("all ranks: %llu of %llu calls planned, %llu bytes relayed\n",
               (unsigned long long)all[MRAIL_BENCH_COLL_PLANNED_CALLS],
               (unsigned long long)all[MRAIL_BENCH_COLL_CALLS],
               (unsigned long long)all[MRAIL_BENCH_COLL_RELAYED_BYTES]);
    }
}

int main(int argc, char **argv)
{
    unsigned long long first = 1, last = 20;
    int relays = 0, left = 0, ok = 1;
    mrail_bench_coll_t coll;
    char name[96];

    for (int i = 1; i < argc; ++i) {
        relays |= (strcmp(argv[i], "--relays") == 0);
        left |= (strcmp(argv[i], "--left") == 0);
        if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0 &&
            sscanf(argv[++i], "%llu-%llu", &first, &last) != 2) {
            fprintf(stderr, "mpi_neighbors: --seeds A-B\n");
            return 2;
        }
    }
    MPI_Init(NULL, NULL);
    mrail_bench_coll_open(&coll);
    for (uint64_t seed = first; seed <= last; ++seed) {
        ok &= run_seed(&coll, seed);
    }
    mt_seed_hangs_after(SEED_S, "mpi_neighbors", last);
    snprintf(name, sizeof(name),
             "neighbourhood collectives of seeds %llu to %llu, %d ranks", first,
             last, mt_size(MPI_COMM_WORLD));
    mt_result(name, ok);
    check_counters(&coll, relays, left);
    mrail_bench_coll_close(&coll);
    MPI_Finalize();
    return mt_failures != 0;
}
