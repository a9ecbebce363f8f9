/*
 * Exchanges drawn from seeds: any call, communicator, counts, displacements
 * and datatypes; every byte is checked, in gaps and around the buffers, too.
 *
 *   --seeds A-B       (1-20)
 *   --relays          coll/mrail is there, and relayed something
 *   --large-self      large messages of ranks to themselves, too
 *   --break WHERE     data, gap or send: changes a byte after the exchange, to
 *                     test the test
 */
#include "config.h"
#include "mpi_test.h"
#include "planned.h"

#include "tools/bench_coll.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { SEED_S = 60, MOST_AT_ONCE = 3, MOST_BYTES = 12000000 };

typedef enum call { ALLTOALLV, ALLTOALL, ALLTOALLW, NUM_CALLS } call_t;

typedef struct exchange {
    MPI_Comm comm;
    call_t call;
    int in_place, nonblocking;
    planned_side_t send, recv;
    MPI_Request request;
} exchange_t;

/* Open MPI 4.1.4's own exchanges copy what a rank sends to itself from one type
 * to another one in pieces of 64 KB, and lose what lies across a piece's end. */
enum { MOST_SELF = 50000 };

static int large_self;     /* --large-self */
static const char *broken; /* --break */
static char alarm_text[128];

static void on_alarm(int signal)
{
    ssize_t written = write(2, alarm_text, strlen(alarm_text));

    (void)signal;
    _exit((written < 0) ? 2 : 1);
}

static void set_alarm(uint64_t seed)
{
    snprintf(alarm_text, sizeof(alarm_text),
             "rank %d: seed %llu hangs: mpi_planned --seeds %llu-%llu\n",
             mt_rank(MPI_COMM_WORLD), (unsigned long long)seed,
             (unsigned long long)seed, (unsigned long long)seed);
    alarm(SEED_S);
}

/* Open MPI 4.1.4's own nonblocking exchanges take no tag on a rank without
 * anything to do; the next one on that communicator hangs. */
static void give_work(uint64_t *bytes, int size, int rank)
{
    int next = (rank + 1) % size;

    bytes[rank * size + next] = MRAIL_MAX(bytes[rank * size + next], 1);
}

/* All that the ranks have to agree on comes from `rng`, the rest from a
 * generator of this rank's own. */
static void exchange_init(exchange_t *ex, mrail_rng_t *rng, MPI_Comm comm,
                          int nonblocking)
{
    static const unsigned all_units[] = {1, 1, 12, 12, 12, 960, 960};
    static const planned_place_t places[] = {
        [ALLTOALLV] = PLANNED_ITEMS,
        [ALLTOALL] = PLANNED_BLOCKS,
        [ALLTOALLW] = PLANNED_BYTES};
    int rank = mt_rank(comm), size = mt_size(comm);
    uint64_t *bytes = mt_alloc(sizeof(*bytes) * (size_t)(size * size));
    long *units = mt_alloc(sizeof(*units) * (size_t)(2 * size));
    planned_base_t base = mrail_rng_below(rng, PLANNED_NUM_BASES);
    unsigned unit = all_units[mrail_rng_below(rng, 7)];
    uint64_t unit_bytes = unit * (uint64_t)planned_type_base_size(base);
    mrail_rng_t own;

    *ex = (exchange_t){.comm = comm, .request = MPI_REQUEST_NULL};
    ex->call = (call_t)(mrail_rng_below(rng, 7) % (NUM_CALLS + 1));
    ex->call = (ex->call == NUM_CALLS) ? ALLTOALLV : ex->call;
    ex->in_place = mrail_rng_hit(rng, 200000);
    ex->nonblocking = mrail_rng_hit(rng, 300000) || nonblocking;
    if (ex->nonblocking) {
        ex->in_place = 0; /* Open MPI 4.1.4's own ones lose data */
    }
    planned_demand_draw(rng, size, ex->in_place, ex->call == ALLTOALL,
                        MOST_BYTES, bytes);
    for (int i = 0; i < size && ex->nonblocking; ++i) {
        give_work(bytes, size, i);
    }
    for (int i = 0; i < size && !large_self && ex->call != ALLTOALL; ++i) {
        bytes[i * size + i] = MRAIL_MIN(bytes[i * size + i], MOST_SELF);
    }
    mrail_rng_init(&own, mrail_rng_next(rng) + (uint64_t)rank);
    for (int i = 0; i < size; ++i) {
        units[i] = (long)MRAIL_DIV_ROUND_UP(bytes[rank * size + i],
                                            unit_bytes);
        units[size + i] = (long)MRAIL_DIV_ROUND_UP(bytes[i * size + rank],
                                                   unit_bytes);
    }
    if (!ex->in_place) {
        planned_side_init(&ex->send, &own, size, places[ex->call], base, unit,
                          units);
    }
    planned_side_init(&ex->recv, &own, size, places[ex->call], base, unit,
                      units + size);
    free(bytes);
    free(units);
}

static void exchange_cleanup(exchange_t *ex)
{
    if (!ex->in_place) {
        planned_side_cleanup(&ex->send);
    }
    planned_side_cleanup(&ex->recv);
}

/* What is to be sent is there, and what has to come is known. */
static void exchange_fill(exchange_t *ex, uint64_t message)
{
    int rank = mt_rank(ex->comm);

    planned_side_clear(&ex->recv);
    if (!ex->in_place) {
        planned_side_clear(&ex->send);
    }
    for (int i = 0; i < ex->recv.num; ++i) {
        planned_side_put(ex->in_place ? &ex->recv : &ex->send, i,
                         mt_seed(rank, i, message), 1);
    }
    for (int i = 0; i < ex->recv.num; ++i) {
        planned_side_put(&ex->recv, i, mt_seed(i, rank, message), 0);
    }
}

static void start_blocking(exchange_t *ex, const void *from, const int *counts,
                           const int *displs, const MPI_Datatype *types)
{
    const planned_side_t *recv = &ex->recv;

    switch (ex->call) {
    case ALLTOALL:
        MPI_Alltoall(from, counts[0], types[0], recv->base, recv->counts[0],
                     recv->mpi_types[0], ex->comm);
        break;
    case ALLTOALLW:
        MPI_Alltoallw(from, counts, displs, types, recv->base, recv->counts,
                      recv->displs, recv->mpi_types, ex->comm);
        break;
    default:
        MPI_Alltoallv(from, counts, displs, types[0], recv->base,
                      recv->counts, recv->displs, recv->mpi_types[0],
                      ex->comm);
    }
}

static void start_nonblocking(exchange_t *ex, const void *from,
                              const int *counts, const int *displs,
                              const MPI_Datatype *types)
{
    const planned_side_t *recv = &ex->recv;

    switch (ex->call) {
    case ALLTOALL:
        MPI_Ialltoall(from, counts[0], types[0], recv->base, recv->counts[0],
                      recv->mpi_types[0], ex->comm, &ex->request);
        break;
    case ALLTOALLW:
        MPI_Ialltoallw(from, counts, displs, types, recv->base, recv->counts,
                       recv->displs, recv->mpi_types, ex->comm, &ex->request);
        break;
    default:
        MPI_Ialltoallv(from, counts, displs, types[0], recv->base,
                       recv->counts, recv->displs, recv->mpi_types[0],
                       ex->comm, &ex->request);
    }
}

static void exchange_start(exchange_t *ex)
{
    const planned_side_t *send = ex->in_place ? &ex->recv : &ex->send;

    (ex->nonblocking ? start_nonblocking : start_blocking)(
        ex, ex->in_place ? MPI_IN_PLACE : send->base, send->counts,
        send->displs, send->mpi_types);
}

/* The test of the test. */
static void break_one(exchange_t *ex)
{
    long at = -1;

    if (strcmp(broken, "gap") == 0) {
        at = planned_side_gap_at(&ex->recv);
    } else if (strcmp(broken, "send") == 0) {
        at = ex->in_place ? -1 : planned_side_data_at(&ex->send, 0);
        if (at >= 0) {
            ex->send.memory[at] ^= 1;
        }
        return;
    } else {
        for (int i = 0; at < 0 && i < ex->recv.num; ++i) {
            at = planned_side_data_at(&ex->recv, i);
        }
    }
    if (at >= 0) {
        ex->recv.memory[at] ^= 1;
    }
}

static int exchange_check(exchange_t *ex)
{
    static const char *const names[] = {"alltoallv", "alltoall", "alltoallw"};
    char what[64];
    int ok = 1;

    if (broken != NULL && mt_rank(MPI_COMM_WORLD) == 0) {
        break_one(ex);
    }
    snprintf(what, sizeof(what), "%s%s%s, received", ex->nonblocking ? "i" : "",
             names[ex->call], ex->in_place ? " in place" : "");
    ok &= planned_side_check(&ex->recv, what);
    snprintf(what, sizeof(what), "%s%s, sent", ex->nonblocking ? "i" : "",
             names[ex->call]);
    if (!ex->in_place) {
        ok &= planned_side_check(&ex->send, what);
    }
    return ok;
}

/* Those that live as long as the job. */
typedef struct comms {
    MPI_Comm dup, parity, reversed;
} comms_t;

static MPI_Comm draw_comm(const comms_t *comms, mrail_rng_t *rng, int *own_p)
{
    int rank = mt_rank(MPI_COMM_WORLD);
    uint64_t key = mrail_rng_next(rng);
    MPI_Comm comm;

    *own_p = 0;
    switch (mrail_rng_below(rng, 6)) {
    case 0:
        return comms->dup;
    case 1:
        return comms->parity;
    case 2:
        return comms->reversed;
    case 3: /* any order; freed after this seed */
        *own_p = 1;
        MPI_Comm_split(MPI_COMM_WORLD, 0,
                       (int)(mrail_mix64(key + (uint64_t)rank) >> 40), &comm);
        return comm;
    default:
        return MPI_COMM_WORLD;
    }
}

/* One after the other, or several on their way at once; again with other data
 * in the same places. */
static int run_exchanges(MPI_Comm comm, mrail_rng_t *rng, uint64_t seed)
{
    exchange_t all[MOST_AT_ONCE];
    unsigned num = 1, repeats = 1 + mrail_rng_below(rng, 3);
    int ok = 1;

    if (mrail_rng_hit(rng, 250000)) {
        num = 2 + mrail_rng_below(rng, MOST_AT_ONCE - 1);
    }
    for (unsigned i = 0; i < num; ++i) {
        exchange_init(&all[i], rng, comm, num > 1 && i == 0);
    }
    for (unsigned r = 0; r < repeats; ++r) {
        for (unsigned i = 0; i < num; ++i) {
            exchange_fill(&all[i], (seed * 4 + r) * 4 + i);
        }
        for (unsigned i = 0; i < num; ++i) {
            exchange_start(&all[i]);
        }
        for (unsigned i = num; i > 0; --i) {
            MPI_Wait(&all[i - 1].request, MPI_STATUS_IGNORE);
        }
        for (unsigned i = 0; i < num; ++i) {
            ok &= exchange_check(&all[i]);
        }
    }
    for (unsigned i = 0; i < num; ++i) {
        exchange_cleanup(&all[i]);
    }
    return ok;
}

static int run_seed(const comms_t *comms, uint64_t seed)
{
    mrail_rng_t rng;
    MPI_Comm comm;
    int own, ok;

    set_alarm(seed);
    mrail_rng_init(&rng, mrail_mix64(seed));
    comm = draw_comm(comms, &rng, &own);
    if (comm == comms->parity) {
        mrail_rng_init(&rng, mrail_rng_next(&rng) +
                                 (uint64_t)(mt_rank(MPI_COMM_WORLD) % 2));
    }
    ok = run_exchanges(comm, &rng, seed);
    if (own) {
        MPI_Comm_free(&comm);
    }
    if (!ok) {
        fprintf(stderr, "rank %d: seed %llu: mpi_planned --seeds %llu-%llu\n",
                mt_rank(MPI_COMM_WORLD), (unsigned long long)seed,
                (unsigned long long)seed, (unsigned long long)seed);
    }
    return ok;
}

/* What coll/mrail says of itself is possible, and it relayed. */
static void check_counters(const mrail_bench_coll_t *coll, int relays)
{
    uint64_t own[MRAIL_BENCH_COLL_NUM], all[MRAIL_BENCH_COLL_NUM];
    int there = coll->present;

    mrail_bench_coll_read(coll, own);
    MPI_Allreduce(own, all, MRAIL_BENCH_COLL_NUM, MPI_UINT64_T, MPI_SUM,
                  MPI_COMM_WORLD);
    if (relays || there) {
        mt_result("coll/mrail tells what it did", there);
        mt_result("... no more planned than there was",
                  own[MRAIL_BENCH_COLL_RELAYED_BYTES] <=
                          own[MRAIL_BENCH_COLL_PLANNED_BYTES] &&
                      own[MRAIL_BENCH_COLL_PLANNED_BYTES] <=
                          own[MRAIL_BENCH_COLL_BYTES] &&
                      own[MRAIL_BENCH_COLL_PLANNED_CALLS] <=
                          own[MRAIL_BENCH_COLL_CALLS]);
    }
    if (relays) {
        mt_result("... it relayed", all[MRAIL_BENCH_COLL_RELAYED_BYTES] > 0);
    }
    if (there && mt_rank(MPI_COMM_WORLD) == 0) {
        printf("all ranks: %llu of %llu calls planned, %llu of %llu bytes, "
               "%llu relayed\n",
               (unsigned long long)all[MRAIL_BENCH_COLL_PLANNED_CALLS],
               (unsigned long long)all[MRAIL_BENCH_COLL_CALLS],
               (unsigned long long)all[MRAIL_BENCH_COLL_PLANNED_BYTES],
               (unsigned long long)all[MRAIL_BENCH_COLL_BYTES],
               (unsigned long long)all[MRAIL_BENCH_COLL_RELAYED_BYTES]);
    }
}

int main(int argc, char **argv)
{
    unsigned long long first = 1, last = 20;
    int relays = 0, ok = 1, rank;
    mrail_bench_coll_t coll;
    comms_t comms;
    char name[96];

    for (int i = 1; i < argc; ++i) {
        relays |= (strcmp(argv[i], "--relays") == 0);
        large_self |= (strcmp(argv[i], "--large-self") == 0);
        if (i + 1 < argc && strcmp(argv[i], "--break") == 0) {
            broken = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0 &&
                   sscanf(argv[++i], "%llu-%llu", &first, &last) != 2) {
            fprintf(stderr, "mpi_planned [--seeds A-B] [--relays] [--large-self]\n");
            return 2;
        }
    }
    MPI_Init(NULL, NULL);
    mrail_bench_coll_open(&coll);
    signal(SIGALRM, on_alarm);
    rank = mt_rank(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms.dup);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms.parity);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms.reversed);
    for (uint64_t seed = first; seed <= last; ++seed) {
        ok &= run_seed(&comms, seed);
    }
    set_alarm(last);
    snprintf(name, sizeof(name), "exchanges of seeds %llu to %llu, %d ranks",
             first, last, mt_size(MPI_COMM_WORLD));
    mt_result(name, ok);
    check_counters(&coll, relays);
    MPI_Comm_free(&comms.dup);
    MPI_Comm_free(&comms.parity);
    MPI_Comm_free(&comms.reversed);
    mrail_bench_coll_close(&coll);
    MPI_Finalize();
    return mt_failures != 0;
}
