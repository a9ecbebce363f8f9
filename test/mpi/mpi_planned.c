/*
 * Exchanges generated from seeds, each with a random call, communicator,
 * counts, displacements and datatypes. Every byte is checked, including those
 * in gaps and around the buffers.
 *
 *   --seeds A-B       (1-20)
 *   --relays          coll/mrail must have relayed some bytes
 *   --limited         coll/mrail must also have delayed messages until earlier
 *                     ones were complete
 *   --memory WHERE    device, managed: all buffers are in this kind of memory;
 *                     mixed: the send and the receive buffer of each rank are
 *                     placed in host or device memory at random
 *   --peer            some bytes must be copied between GPUs
 *   --staged          some messages must go through host memory
 *   --failing         rails fail during the run, so they need not carry the
 *                     planned bytes
 *   --large-self      also exchange large messages that ranks send to
 *                     themselves
 *   --break WHERE     data, gap or send: rank 0 changes a byte after each
 *                     exchange, and the check must find it
 */
#include "config.h"
#include "mpi_test.h"
#include "persistent.h"
#include "planned.h"

#include "tools/bench_coll.h"
#include "tools/bench_device.h"

#include <string.h>

enum { SEED_S = 60, MOST_AT_ONCE = 3 };

static int large_self;         /* --large-self */
static int failing;            /* --failing */
static planned_where_t memory; /* --memory */
static const char *broken;     /* --break */
static unsigned breaks;        /* bytes changed */
static uint64_t sent;          /* bytes to other ranks, in all calls */

/* Communicators that exist for the whole job. */
typedef struct comms {
    MPI_Comm dup; /* starts of persistent calls are in order */
    MPI_Comm parity, reversed;
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
    case 3: /* ranks in random order; freed after this seed */
        *own_p = 1;
        MPI_Comm_split(MPI_COMM_WORLD, 0,
                       (int)(mrail_mix64(key + (uint64_t)rank) >> 40), &comm);
        return comm;
    default:
        return MPI_COMM_WORLD;
    }
}

/* Runs several exchanges, one after another or at the same time. Repeats each
 * exchange with different data in the same buffers. */
static int run_exchanges(MPI_Comm comm, mrail_rng_t *rng, uint64_t seed)
{
    planned_exchange_t all[MOST_AT_ONCE];
    mrail_rng_t places;
    unsigned num = 1, repeats = 1 + mrail_rng_below(rng, 3);
    int ok = 1;

    if (mrail_rng_hit(rng, 250000)) {
        num = 2 + mrail_rng_below(rng, MOST_AT_ONCE - 1);
    }
    mrail_rng_init(&places, seed + 1000 * (uint64_t)mt_rank(MPI_COMM_WORLD));
    for (unsigned i = 0; i < num; ++i) {
        planned_exchange_init(&all[i], rng, comm, num > 1 && i == 0,
                              large_self);
        planned_exchange_place(&all[i], &places, memory);
    }
    for (unsigned r = 0; r < repeats; ++r) {
        for (unsigned i = 0; i < num; ++i) {
            planned_exchange_fill(&all[i], (seed * 4 + r) * 4 + i);
        }
        for (unsigned i = 0; i < num; ++i) {
            planned_exchange_start(&all[i]);
            sent += planned_exchange_bytes(&all[i]);
        }
        for (unsigned i = num; i > 0; --i) {
            MPI_Wait(&all[i - 1].request, MPI_STATUS_IGNORE);
            planned_exchange_end(&all[i - 1]);
        }
        for (unsigned i = 0; i < num; ++i) {
            int wrong = (broken != NULL) && (mt_rank(MPI_COMM_WORLD) == 0) &&
                        planned_exchange_break(&all[i], broken);

            ok &= (planned_exchange_check(&all[i]) == !wrong);
            breaks += (unsigned)wrong;
        }
    }
    for (unsigned i = 0; i < num; ++i) {
        planned_exchange_cleanup(&all[i]);
    }
    return ok;
}

/* Returns 0 if the name is unknown. */
static int set_memory(const char *name)
{
    if (strcmp(name, "device") == 0) {
        memory = PLANNED_DEVICE;
    } else if (strcmp(name, "managed") == 0) {
        memory = PLANNED_MANAGED;
    } else if (strcmp(name, "mixed") == 0) {
        memory = PLANNED_MIXED;
    }
    return memory != PLANNED_HOST;
}

static int run_seed(const comms_t *comms, uint64_t seed)
{
    mrail_rng_t rng;
    MPI_Comm comm;
    int own, ok;

    mt_seed_hangs_after(SEED_S, "mpi_planned", seed);
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

/* Checks that each rail has carried its planned bytes, within 2 %. */
static int check_rails(const mrail_bench_coll_t *coll)
{
    mrail_bench_coll_rails_t rails;
    int ok = 1;

    mrail_bench_coll_read_rails(coll, &rails);
    for (unsigned i = 0; i < MRAIL_BENCH_COLL_RAILS; ++i) {
        uint64_t most = MRAIL_MAX(rails.planned[i], rails.carried[i]);
        uint64_t least = MRAIL_MIN(rails.planned[i], rails.carried[i]);

        if (most - least > most / 50) {
            fprintf(stderr,
                    "rank %d: rail %u: %llu bytes planned, %llu carried\n",
                    mt_rank(MPI_COMM_WORLD), i,
                    (unsigned long long)rails.planned[i],
                    (unsigned long long)rails.carried[i]);
            ok = 0;
        }
    }
    return ok;
}

/* Checks that the counters of coll/mrail are consistent and fulfil the
 * options. */
static void check_counters(const mrail_bench_coll_t *coll, int relays,
                           int limited)
{
    uint64_t own[MRAIL_BENCH_COLL_NUM], all[MRAIL_BENCH_COLL_NUM];
    int there = coll->present;

    mrail_bench_coll_read(coll, own);
    MPI_Allreduce(own, all, MRAIL_BENCH_COLL_NUM, MPI_UINT64_T, MPI_SUM,
                  MPI_COMM_WORLD);
    if (relays || limited || there) {
        mt_result("coll/mrail reports what it did", there);
        mt_result("the counters of coll/mrail are consistent",
                  own[MRAIL_BENCH_COLL_BYTES] <= sent &&
                      own[MRAIL_BENCH_COLL_RELAYED_BYTES] <=
                          own[MRAIL_BENCH_COLL_PLANNED_BYTES] &&
                      own[MRAIL_BENCH_COLL_PLANNED_BYTES] <=
                          own[MRAIL_BENCH_COLL_BYTES] &&
                      own[MRAIL_BENCH_COLL_PLANNED_CALLS] <=
                          own[MRAIL_BENCH_COLL_CALLS]);
    }
    if (there && !failing) {
        mt_result("rails carried the READs assigned to them",
                  check_rails(coll));
    }
    if (relays) {
        mt_result("bytes were relayed",
                  all[MRAIL_BENCH_COLL_RELAYED_BYTES] > 0);
    }
    if (limited) {
        mt_result("messages were delayed",
                  all[MRAIL_BENCH_COLL_LIMITED_CALLS] > 0);
    }
    if (there && mt_rank(MPI_COMM_WORLD) == 0) {
        printf("all ranks: %llu of %llu calls planned, %llu of %llu bytes, "
               "%llu relayed; %llu calls limited\n",
               (unsigned long long)all[MRAIL_BENCH_COLL_PLANNED_CALLS],
               (unsigned long long)all[MRAIL_BENCH_COLL_CALLS],
               (unsigned long long)all[MRAIL_BENCH_COLL_PLANNED_BYTES],
               (unsigned long long)all[MRAIL_BENCH_COLL_BYTES],
               (unsigned long long)all[MRAIL_BENCH_COLL_RELAYED_BYTES],
               (unsigned long long)all[MRAIL_BENCH_COLL_LIMITED_CALLS]);
    }
}

/* Checks that device memory took the paths that the options require. */
static void check_device(const mrail_bench_coll_t *coll, int peer, int staged)
{
    uint64_t own[MRAIL_BENCH_COLL_NUM], all[MRAIL_BENCH_COLL_NUM];

    mrail_bench_coll_read(coll, own);
    MPI_Allreduce(own, all, MRAIL_BENCH_COLL_NUM, MPI_UINT64_T, MPI_SUM,
                  MPI_COMM_WORLD);
    if (peer) {
        mt_result("bytes were copied between GPUs",
                  all[MRAIL_BENCH_COLL_PEER_BYTES] > 0);
    }
    if (staged) {
        mt_result("messages went through host memory",
                  all[MRAIL_BENCH_COLL_STAGED_BYTES] > 0);
    }
    if (memory != PLANNED_HOST && mt_rank(MPI_COMM_WORLD) == 0) {
        printf("all ranks: %llu bytes between GPUs, %llu staged\n",
               (unsigned long long)all[MRAIL_BENCH_COLL_PEER_BYTES],
               (unsigned long long)all[MRAIL_BENCH_COLL_STAGED_BYTES]);
    }
}

int main(int argc, char **argv)
{
    unsigned long long first = 1, last = 20;
    int relays = 0, limited = 0, peer = 0, staged = 0, ok = 1, rank;
    mrail_bench_coll_t coll;
    comms_t comms;
    char name[96];

    for (int i = 1; i < argc; ++i) {
        relays |= (strcmp(argv[i], "--relays") == 0);
        limited |= (strcmp(argv[i], "--limited") == 0);
        peer |= (strcmp(argv[i], "--peer") == 0);
        staged |= (strcmp(argv[i], "--staged") == 0);
        large_self |= (strcmp(argv[i], "--large-self") == 0);
        failing |= (strcmp(argv[i], "--failing") == 0);
        if (i + 1 < argc && strcmp(argv[i], "--break") == 0) {
            broken = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--memory") == 0 &&
                   !set_memory(argv[++i])) {
            fprintf(stderr, "mpi_planned: --memory device|managed|mixed\n");
            return 2;
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0 &&
                   sscanf(argv[++i], "%llu-%llu", &first, &last) != 2) {
            fprintf(stderr, "mpi_planned: --seeds A-B\n");
            return 2;
        }
    }
    if (memory != PLANNED_HOST) {
        mrail_bench_device_open();
    }
    MPI_Init(NULL, NULL);
    mrail_bench_coll_open(&coll);
    rank = mt_rank(MPI_COMM_WORLD);
    comms.dup = mt_dup_ordered(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms.parity);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms.reversed);
    for (uint64_t seed = first; seed <= last; ++seed) {
        ok &= run_seed(&comms, seed);
    }
    mt_seed_hangs_after(SEED_S, "mpi_planned", last);
    if (broken != NULL) {
        snprintf(name, sizeof(name), "a wrong byte is found: %s", broken);
        ok &= (breaks > 0 || rank != 0);
    } else {
        snprintf(name, sizeof(name),
                 "exchanges of seeds %llu to %llu, %d ranks", first, last,
                 mt_size(MPI_COMM_WORLD));
    }
    mt_result(name, ok);
    check_counters(&coll, relays, limited);
    check_device(&coll, peer, staged);
    MPI_Comm_free(&comms.dup);
    MPI_Comm_free(&comms.parity);
    MPI_Comm_free(&comms.reversed);
    mrail_bench_coll_close(&coll);
    MPI_Finalize();
    return mt_failures != 0;
}
