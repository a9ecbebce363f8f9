/*
 * Tests that each rail carries the bytes that plans assign to it, including the
 * bytes of relays. The first half of the ranks and the second half are on
 * different nodes.
 *
 *   mpi_rails         one demand, and demands generated from seeds
 *   mpi_rails faults  one demand, with functions of the transport that fail
 */
#include "config.h"
#include "direct_faults.h"
#include "mpi_test.h"

#include "base/rng.h"
#include "tools/bench_coll.h"

enum {
    TEST_S = 300,
    BYTES = 4000000,
    LEAST = 1100000, /* above coll_mrail_relay_threshold */
    WARM_UP = 3,     /* calls */
    CALLS = 5,
    ROUNDS = 6,
    SEEDS = 3,
};

/* The demands of a call in bytes, indexed by [from * ranks + to]. */
static int *demands;
static int ranks, rank;
static mrail_bench_coll_t coll;

/* Counters of this rank since the last call of counters_take(). */
typedef struct counters {
    mrail_bench_coll_rails_t rails;
    uint64_t relayed;
} counters_t;

/* Writes this rank's row or column of the demands. Returns the sum. */
static int counts_fill(int is_send, int *counts, int *offsets)
{
    int sum = 0;

    for (int i = 0; i < ranks; ++i) {
        counts[i] =
            is_send ? demands[rank * ranks + i] : demands[i * ranks + rank];
        offsets[i] = sum;
        sum += counts[i];
    }
    return sum;
}

/* Performs the calls. Returns 1 if all bytes are correct. */
static int exchange(MPI_Comm comm, unsigned calls)
{
    int *counts = mt_alloc((size_t)ranks * 4 * sizeof(*counts)), ok = 1;
    int *send = counts, *send_at = counts + ranks, *recv = counts + 2 * ranks,
        *recv_at = counts + 3 * ranks;
    char *from = mt_alloc((size_t)counts_fill(1, send, send_at));
    size_t size = (size_t)counts_fill(0, recv, recv_at);
    char *to = mt_alloc(size);

    for (unsigned call = 0; call < calls; ++call) {
        for (int i = 0; i < ranks; ++i) {
            mt_fill(from + send_at[i], (size_t)send[i], mt_seed(rank, i, call));
        }
        memset(to, 0, size);
        MPI_Alltoallv(from, send, send_at, MPI_BYTE, to, recv, recv_at,
                      MPI_BYTE, comm);
        for (int i = 0; i < ranks; ++i) {
            ok &= mt_check(to + recv_at[i], (size_t)recv[i],
                           mt_seed(i, rank, call));
        }
    }
    free(from);
    free(to);
    free(counts);
    return ok;
}

static counters_t counters_take(void)
{
    static mrail_bench_coll_rails_t last_rails;
    static uint64_t last_relayed;
    uint64_t values[MRAIL_BENCH_COLL_NUM];
    counters_t now, since;

    mrail_bench_coll_read(&coll, values);
    mrail_bench_coll_read_rails(&coll, &now.rails);
    now.relayed = values[MRAIL_BENCH_COLL_RELAYED_BYTES];
    since.relayed = now.relayed - last_relayed;
    for (unsigned i = 0; i < MRAIL_BENCH_COLL_RAILS; ++i) {
        since.rails.planned[i] = now.rails.planned[i] - last_rails.planned[i];
        since.rails.carried[i] = now.rails.carried[i] - last_rails.carried[i];
    }
    last_rails = now.rails;
    last_relayed = now.relayed;
    return since;
}

static uint64_t sum_of_ranks(uint64_t value)
{
    uint64_t sum = 0;

    MPI_Allreduce(&value, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* Returns the sum over all rails and ranks. */
static uint64_t sum_of_rails(const uint64_t *bytes)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < MRAIL_BENCH_COLL_RAILS; ++i) {
        sum += bytes[i];
    }
    return sum_of_ranks(sum);
}

/* Returns the bytes of all demands in CALLS calls. */
static uint64_t sum_of_demands(void)
{
    uint64_t sum = 0;

    for (int i = 0; i < ranks * ranks; ++i) {
        sum += (uint64_t)demands[i];
    }
    return sum * CALLS;
}

/* Returns 1 if each rail of this rank has carried its planned bytes, within 2
 * %. */
static int is_as_planned(const mrail_bench_coll_rails_t *rails)
{
    int ok = 1;

    for (unsigned i = 0; i < MRAIL_BENCH_COLL_RAILS; ++i) {
        uint64_t most = MRAIL_MAX(rails->planned[i], rails->carried[i]);
        uint64_t least = MRAIL_MIN(rails->planned[i], rails->carried[i]);

        if (most - least > most / 50) {
            ok = 0;
            printf("# rank %d, rail %u: %llu bytes planned, %llu carried\n",
                   rank, i, (unsigned long long)rails->planned[i],
                   (unsigned long long)rails->carried[i]);
        }
    }
    fflush(stdout);
    return ok;
}

/* Tests the demands. On a loaded machine, a rail may lag so far behind that
 * READs ignore their quotas, so there are several rounds. */
static void test_demands(const char *name, int has_relays)
{
    int ok = exchange(MPI_COMM_WORLD, WARM_UP), is_planned = 0, is_all;
    uint64_t bytes = sum_of_demands(), carried = 0;
    counters_t counters;
    char text[128];

    for (unsigned i = 0; i < ROUNDS && !is_planned; ++i) {
        counters = counters_take();
        ok &= exchange(MPI_COMM_WORLD, CALLS);
        counters = counters_take();
        carried = sum_of_rails(counters.rails.carried);
        is_planned = sum_of_ranks((uint64_t)is_as_planned(&counters.rails)) ==
                     (uint64_t)ranks;
    }
    snprintf(text, sizeof(text), "%s: the data is correct", name);
    mt_result(text, ok);
    snprintf(text, sizeof(text), "%s: some bytes take relays", name);
    mt_result(text, !has_relays || sum_of_ranks(counters.relayed) > 0);
    /* The small direct part of a message is no READ, and chunks have
     * headers. */
    snprintf(text, sizeof(text), "%s: rails carry all bytes as READs", name);
    is_all = carried >= bytes - bytes / 50 && carried <= bytes + bytes / 50;
    mt_result(text, is_all);
    if (rank == 0 && !is_all) {
        printf("# %llu of %llu bytes\n", (unsigned long long)carried,
               (unsigned long long)bytes);
    }
    snprintf(text, sizeof(text), "%s: each rail carries what is planned", name);
    mt_result(text, is_planned);
}

static void set_one(void)
{
    memset(demands, 0, (size_t)ranks * (size_t)ranks * sizeof(*demands));
    demands[ranks / 2] = BYTES;
}

/* Generates demands between the two halves of the ranks. */
static void set_random(uint64_t seed)
{
    mrail_rng_t rng;

    set_one();
    mrail_rng_init(&rng, seed);
    for (int i = 0; i < ranks * ranks; ++i) {
        int is_between = (i / ranks < ranks / 2) != (i % ranks < ranks / 2);

        if (is_between && mrail_rng_hit(&rng, 300000)) {
            demands[i] = LEAST + (int)mrail_rng_below(&rng, BYTES - LEAST);
        }
    }
}

static void test_rails(void)
{
    char name[64];

    set_one();
    test_demands("one demand", 1);
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        set_random(seed);
        snprintf(name, sizeof(name), "seed %d", (int)seed);
        test_demands(name, 0);
    }
}

/* ---- functions that fail ---- */

/* Creates a communicator, which registers its own relay buffers. Returns the
 * sum of the bytes that were READ. */
static uint64_t read_with(direct_fault_t fault, int *ok_p)
{
    counters_t counters;
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    (void)counters_take();
    direct_faults_set(fault);
    *ok_p = exchange(comm, CALLS);
    MPI_Barrier(MPI_COMM_WORLD);
    direct_faults_set(DIRECT_NO_FAULT);
    counters = counters_take();
    MPI_Comm_free(&comm);
    return sum_of_rails(counters.rails.carried);
}

static void test_fault(const char *name, direct_fault_t fault, int least,
                       int most)
{
    uint64_t unit = sum_of_demands() / 100, bytes;
    int ok;

    bytes = read_with(fault, &ok);
    ok &= bytes >= unit * (uint64_t)least && bytes <= unit * (uint64_t)most;
    if (!ok && rank == 0) {
        printf("# %llu %% of the bytes were READ\n",
               (unsigned long long)(bytes / unit));
    }
    mt_result(name, ok);
}

/* Four rails carry equal parts. If memory cannot be registered, relays use
 * messages, and three of five direct messages are READ. */
static void test_faults(void)
{
    int is_sender = rank < ranks / 2;

    set_one();
    mt_result("functions can be replaced", direct_faults_init());
    if (mt_failures > 0) {
        return;
    }
    test_fault("no fault", DIRECT_NO_FAULT, 98, 102);
    test_fault("senders cannot register their memory",
               is_sender ? DIRECT_FAIL_MEM_GET : DIRECT_NO_FAULT, 5, 30);
    test_fault("receivers cannot register their memory",
               is_sender ? DIRECT_NO_FAULT : DIRECT_FAIL_MEM_GET, 5, 30);
    test_fault("every second READ fails to start", DIRECT_FAIL_GET, 10, 90);
    test_fault("every second READ completes with an error", DIRECT_BAD_GET, 10,
               90);
    test_fault("every READ has to wait", DIRECT_BUSY_GET, 98, 102);
}

int main(int argc, char **argv)
{
    mt_hangs_after(TEST_S, "mpi_rails");
    MPI_Init(NULL, NULL);
    rank = mt_rank(MPI_COMM_WORLD);
    ranks = mt_size(MPI_COMM_WORLD);
    demands = mt_alloc((size_t)ranks * (size_t)ranks * sizeof(*demands));
    mrail_bench_coll_open(&coll);
    if (argc > 1 && strcmp(argv[1], "faults") == 0) {
        test_faults();
    } else {
        test_rails();
    }
    mrail_bench_coll_close(&coll);
    free(demands);
    MPI_Finalize();
    return mt_failures != 0;
}
