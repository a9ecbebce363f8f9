/*
 * Tests planned exchanges under varying conditions, such as threads,
 * short-lived communicators, very different sizes, mismatched counts, and
 * totals beyond 2 GiB. Each run is one test: mpi_planned_life NAME [NUMBER].
 * NUMBER is the number of rounds. For "mismatch", it is the time in seconds
 * after which a call counts as hanging.
 */
#include "config.h"
#include "mpi_test.h"
#include "planned.h"

#include "mpi/coll/mode.h"
#include "tools/bench_coll.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { TEST_S = 200 };

/* An exchange with gaps in its buffers. The same buffers are used for many
 * calls. */
typedef struct transfer {
    MPI_Comm comm;
    planned_side_t send, recv;
} transfer_t;

/* bytes[from * size + to] is the number of bytes from one rank to another. */
static void transfer_init(transfer_t *transfer, MPI_Comm comm,
                          const uint64_t *bytes, uint64_t seed)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    long *units = mt_alloc(sizeof(*units) * (size_t)(2 * size));
    mrail_rng_t own;

    for (int i = 0; i < size; ++i) {
        units[i] = (long)bytes[rank * size + i];
        units[size + i] = (long)bytes[i * size + rank];
    }
    mrail_rng_init(&own, mt_seed(rank, 0, seed));
    transfer->comm = comm;
    planned_side_init(&transfer->send, &own, size, PLANNED_ITEMS, PLANNED_BYTE,
                      1, units);
    planned_side_init(&transfer->recv, &own, size, PLANNED_ITEMS, PLANNED_BYTE,
                      1, units + size);
    free(units);
}

static void transfer_draw(transfer_t *transfer, MPI_Comm comm, uint64_t most,
                          uint64_t seed)
{
    int size = mt_size(comm);
    uint64_t *bytes = mt_alloc(sizeof(*bytes) * (size_t)(size * size));
    mrail_rng_t rng;

    mrail_rng_init(&rng, seed);
    planned_demand_draw(&rng, size, 0, 0, most, bytes);
    for (int i = 0; i < size; ++i) { /* see mpi_planned.c */
        bytes[i * size + i] = MRAIL_MIN(bytes[i * size + i], 50000);
    }
    transfer_init(transfer, comm, bytes, seed);
    free(bytes);
}

static void transfer_cleanup(transfer_t *transfer)
{
    planned_side_cleanup(&transfer->send);
    planned_side_cleanup(&transfer->recv);
}

static void transfer_fill(transfer_t *transfer, uint64_t message)
{
    int rank = mt_rank(transfer->comm);

    planned_side_clear(&transfer->send);
    planned_side_clear(&transfer->recv);
    for (int i = 0; i < transfer->send.num; ++i) {
        planned_side_put(&transfer->send, i, mt_seed(rank, i, message), 1);
        planned_side_put(&transfer->recv, i, mt_seed(i, rank, message), 0);
    }
}

static void transfer_run(transfer_t *transfer)
{
    planned_side_t *send = &transfer->send, *recv = &transfer->recv;

    MPI_Alltoallv(send->base, send->counts, send->displs, send->mpi_types[0],
                  recv->base, recv->counts, recv->displs, recv->mpi_types[0],
                  transfer->comm);
}

static int transfer_all(transfer_t *transfer, uint64_t message)
{
    transfer_fill(transfer, message);
    transfer_run(transfer);
    return planned_side_check(&transfer->recv, "received") &
           planned_side_check(&transfer->send, "sent");
}

/* ---- one rank has many bytes, others few or none ---- */

static void test_sizes(int number)
{
    int size = mt_size(MPI_COMM_WORLD), ok = 1;
    uint64_t *bytes = mt_alloc(sizeof(*bytes) * (size_t)(size * size));

    for (int round = 0; round < number; ++round) {
        int large = round % size;
        transfer_t transfer;

        for (int i = 0; i < size * size; ++i) {
            int from = i / size, to = i % size;

            bytes[i] = (from == to)                ? 0
                       : (from == large)           ? 1500000u >> (to % 4)
                       : ((from + round) % 3 == 0) ? 0
                                                   : (uint64_t)(from + to);
        }
        transfer_init(&transfer, MPI_COMM_WORLD, bytes, (uint64_t)round);
        for (uint64_t i = 0; i < 2; ++i) {
            ok &= transfer_all(&transfer, (uint64_t)round * 2 + i);
        }
        transfer_cleanup(&transfer);
    }
    free(bytes);
    mt_result("one rank sends a lot, the others little or nothing", ok);
}

/* ---- many small calls, then large ones ---- */

enum { SMALL = 100, LARGE = 1500000, LARGE_FROM = 5, LARGE_CALLS = 70 };

/* Every pair of ranks exchanges few bytes. If `large` is set, one rank sends
 * many bytes to rank 1. */
static void transfer_backed_off(transfer_t *transfer, int large)
{
    int size = mt_size(MPI_COMM_WORLD);
    uint64_t *bytes = mt_alloc(sizeof(*bytes) * (size_t)(size * size));

    for (int i = 0; i < size * size; ++i) {
        bytes[i] = SMALL;
    }
    bytes[LARGE_FROM * size + 1] = large ? LARGE : SMALL;
    transfer_init(transfer, MPI_COMM_WORLD, bytes, (uint64_t)large);
    free(bytes);
}

static uint64_t counted(const mrail_bench_coll_t *coll,
                        mrail_bench_coll_counter_t counter)
{
    uint64_t values[MRAIL_BENCH_COLL_NUM];

    mrail_bench_coll_read(coll, values);
    return values[counter];
}

static uint64_t planned_calls(const mrail_bench_coll_t *coll)
{
    return counted(coll, MRAIL_BENCH_COLL_PLANNED_CALLS);
}

/* Only one rank has a large demand. The other ranks have backed off and do not
 * know of the demand, so they take part in an agreement round only in some
 * calls. */
static void test_backed_off(int number)
{
    mrail_bench_coll_t coll;
    uint64_t backed_off, all;
    transfer_t transfer;
    int ok = 1;

    mrail_bench_coll_open(&coll);
    transfer_backed_off(&transfer, 0);
    for (int i = 0; i < number; ++i) {
        ok &= transfer_all(&transfer, (uint64_t)i);
    }
    transfer_cleanup(&transfer);
    backed_off = planned_calls(&coll);
    mt_result("little to send: nothing is planned", ok && backed_off == 0);
    transfer_backed_off(&transfer, 1);
    for (int i = 0; i < LARGE_CALLS; ++i) {
        ok &= transfer_all(&transfer, (uint64_t)(number + i));
    }
    transfer_cleanup(&transfer);
    all = planned_calls(&coll);
    mt_result("then one rank sends a lot: soon all ranks plan",
              ok &&
                  all - backed_off >= LARGE_CALLS - MCA_COLL_MRAIL_MAX_PERIOD);
    mrail_bench_coll_close(&coll);
}

/* ---- functions, and calls that cannot be planned ---- */

/* Between two large exchanges through one function, there are many small ones
 * through another. */
static void test_functions(int number)
{
    int size = mt_size(MPI_COMM_WORLD), ok = 1;
    int *few = mt_alloc(sizeof(int) * (size_t)(2 * size));
    mrail_bench_coll_t coll;
    transfer_t transfer;

    mrail_bench_coll_open(&coll);
    memset(few, 0, sizeof(int) * (size_t)(2 * size));
    transfer_backed_off(&transfer, 1);
    for (int i = 0; i < number; ++i) {
        for (unsigned k = 0; k < 2 * MCA_COLL_MRAIL_GRACE_CALLS; ++k) {
            MPI_Alltoall(few, 1, MPI_INT, few + size, 1, MPI_INT,
                         MPI_COMM_WORLD);
        }
        ok &= transfer_all(&transfer, (uint64_t)i);
    }
    transfer_cleanup(&transfer);
    free(few);
    mt_result("small calls of another function: every large call is planned",
              ok && planned_calls(&coll) == (uint64_t)number);
    mrail_bench_coll_close(&coll);
}

/* ---- a plan without relays ---- */

static long count_lines(const char *path, const char *with)
{
    FILE *file = fopen(path, "r");
    char line[512];
    long num = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        num += (strstr(line, with) != NULL);
    }
    if (file != NULL) {
        fclose(file);
    }
    return num;
}

/* Each rank exchanges the same number of bytes in both directions with the rank
 * on the same rail of the other node. The direct path is best, so nothing is
 * relayed. */
static void test_direct(int number)
{
    int size = mt_size(MPI_COMM_WORLD), ok = 1;
    uint64_t *bytes = calloc((size_t)(size * size), sizeof(*bytes));
    mrail_bench_coll_t coll;
    transfer_t transfer;

    mrail_bench_coll_open(&coll);
    for (int i = 0; i < size; ++i) {
        bytes[i * size + (i + size / 2) % size] = 200000;
    }
    transfer_init(&transfer, MPI_COMM_WORLD, bytes, 3);
    for (int i = 0; i < number; ++i) {
        ok &= transfer_all(&transfer, (uint64_t)i);
    }
    transfer_cleanup(&transfer);
    free(bytes);
    ok &= counted(&coll, MRAIL_BENCH_COLL_PLANNED_CALLS) == (uint64_t)number;
    ok &= counted(&coll, MRAIL_BENCH_COLL_RELAYED_BYTES) == 0;
    mt_result("repeated demands: all calls are planned, nothing is relayed",
              ok);
    /* The first call exchanges the demands; the second finds that they
     * repeat. */
    mt_result("repeated demands: later calls do not exchange them",
              counted(&coll, MRAIL_BENCH_COLL_UNCHANGED_CALLS) ==
                  (uint64_t)number - 2);
    mt_result("repeated demands: there are no relay buffers",
              count_lines("/proc/self/maps", "/dev/shm/mrail-relay") == 0);
    mrail_bench_coll_close(&coll);
}

/* ---- threads ---- */

typedef struct worker {
    pthread_t thread;
    MPI_Comm comm; /* belongs to this thread */
    int index, number, frees, ok;
} worker_t;

static void *work(void *arg)
{
    worker_t *worker = arg;

    for (int i = 0; i < worker->number; ++i) {
        uint64_t seed = (uint64_t)(worker->index * 1000 + i);
        MPI_Comm comm = worker->comm;
        transfer_t transfer;

        if (worker->frees) {
            MPI_Comm_dup(worker->comm, &comm);
        }
        transfer_draw(&transfer, comm, 3000000, seed);
        worker->ok &= transfer_all(&transfer, seed);
        worker->ok &= transfer_all(&transfer, seed + 500);
        transfer_cleanup(&transfer);
        if (worker->frees) {
            MPI_Comm_free(&comm);
        }
    }
    return NULL;
}

static int run_workers(int number, int frees)
{
    worker_t workers[2];
    int ok = 1;

    for (int i = 0; i < 2; ++i) {
        workers[i] = (worker_t){
            .index = i, .number = number, .ok = 1, .frees = frees && i == 1};
        MPI_Comm_split(MPI_COMM_WORLD, 0,
                       (i == 0) ? 0 : -mt_rank(MPI_COMM_WORLD),
                       &workers[i].comm);
    }
    for (int i = 0; i < 2; ++i) {
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < 2; ++i) {
        pthread_join(workers[i].thread, NULL);
        MPI_Comm_free(&workers[i].comm);
        ok &= workers[i].ok;
    }
    return ok;
}

static void test_threads(int number)
{
    mt_result("concurrent exchanges on two communicators, from two threads",
              run_workers(number, 0));
}

static void test_freed(int number)
{
    mt_result("communicators are created and freed while another is in use",
              run_workers(number, 1));
}

/* ---- leaks ---- */

typedef struct resources {
    long heap, resident, maps, shared, files;
} resources_t;

/* All ranks must call this together. The function waits for all ranks, because
 * operations that are still in flight use memory. */
static resources_t resources(void)
{
    struct mallinfo2 info;
    FILE *file = fopen("/proc/self/statm", "r");
    DIR *dir = opendir("/proc/self/fd");
    resources_t now = {0};
    long size;

    MPI_Barrier(MPI_COMM_WORLD);
    info = mallinfo2();
    now.heap = (long)(info.uordblks + info.hblkhd);
    if (file == NULL || fscanf(file, "%ld %ld", &size, &now.resident) != 2) {
        now.resident = -1;
    }
    now.resident *= sysconf(_SC_PAGESIZE);
    while (dir != NULL && readdir(dir) != NULL) {
        ++now.files;
    }
    now.maps = count_lines("/proc/self/maps", "\n");
    now.shared = count_lines("/proc/self/maps", "/dev/shm/");
    if (file != NULL) {
        fclose(file);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return now;
}

/* Allocations may happen late, for example when a pool grows. A leak is
 * therefore growth in each of the last three quarters of `number`
 * repetitions. */
typedef struct growth {
    const char *what;
    int quarter;
    int grew; /* 1 if there was growth in every quarter so far */
    resources_t before;
} growth_t;

static growth_t growth_of(const char *what, int number)
{
    return (growth_t){
        .what = what, .quarter = MRAIL_MAX(number / 4, 1), .grew = 1};
}

static void growth_add(growth_t *growth, int is_last)
{
    const resources_t *before = &growth->before;
    resources_t now = resources();

    /* These limits detect a leak of 5 KB per communicator over 12
     * communicators, or of 136 bytes per call over 500 calls. */
    growth->grew &= now.heap - before->heap >= 60000 + 16L * growth->quarter ||
                    now.resident - before->resident >= 3000000 ||
                    now.maps - before->maps >= 8 ||
                    now.shared > before->shared || now.files > before->files;
    if (growth->grew && is_last) {
        fprintf(stderr,
                "rank %d: %d %s: heap %+ld, resident %+ld bytes, maps %+ld, "
                "of shared memory %+ld, files %+ld\n",
                mt_rank(MPI_COMM_WORLD), growth->quarter, growth->what,
                now.heap - before->heap, now.resident - before->resident,
                now.maps - before->maps, now.shared - before->shared,
                now.files - before->files);
    }
}

/* Must be called before repetition i of 4 * quarter. */
static void growth_sample(growth_t *growth, int i)
{
    if (i > growth->quarter && i % growth->quarter == 0) {
        growth_add(growth, 0);
    }
    if (i > 0 && i % growth->quarter == 0) {
        growth->before = resources();
    }
}

/* Returns 1 if there is no leak. */
static int growth_end(growth_t *growth)
{
    growth_add(growth, 1);
    return !growth->grew;
}

/* Number of kinds of demands. With a single kind, plans would never change. */
enum { KINDS = 6 };

static void test_calls(int number)
{
    growth_t growth = growth_of("calls", number);
    transfer_t transfers[KINDS];
    int ok = 1;

    for (unsigned i = 0; i < KINDS; ++i) {
        transfer_draw(&transfers[i], MPI_COMM_WORLD, 30000u << i, i);
    }
    for (int i = 0; i < 4 * growth.quarter; ++i) {
        growth_sample(&growth, i);
        if (i % 100 == 0) {
            ok &= transfer_all(&transfers[i / 100 % KINDS], (uint64_t)i);
        }
        transfer_run(
            &transfers[mrail_mix64((uint64_t)i) % 20 == 0 ? 5 : i % 5]);
    }
    ok &= growth_end(&growth);
    for (unsigned i = 0; i < KINDS; ++i) {
        transfer_cleanup(&transfers[i]);
    }
    mt_result("many calls leave nothing behind", ok);
}

static void test_comms(int number)
{
    growth_t growth = growth_of("communicators", number);
    int ok = 1;

    for (int i = 0; i < 4 * growth.quarter; ++i) {
        MPI_Comm comm;
        transfer_t transfer;

        growth_sample(&growth, i);
        MPI_Comm_split(MPI_COMM_WORLD, 0, (i % 2) ? mt_rank(MPI_COMM_WORLD) : 0,
                       &comm);
        transfer_draw(&transfer, comm, 200000, 7);
        ok &= transfer_all(&transfer, (uint64_t)i);
        transfer_cleanup(&transfer);
        MPI_Comm_free(&comm);
    }
    ok &= growth_end(&growth);
    mt_result("many communicators leave nothing behind", ok);
}

/* ---- mismatched counts ---- */

/* Rank 1 sends `sent` bytes to rank 0, whose buffer holds `capacity` bytes. All
 * other pairs send `others` bytes. Rank 0 may report an error, but must write
 * nothing beyond its buffer. With `again`, an exchange with matching counts
 * follows the error. */
static int mismatched(int sent, int capacity, int others, int again)
{
    enum { GAP = 200000 };
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int *counts = mt_alloc(sizeof(int) * (size_t)(4 * size));
    int *displs = counts + size, *recv_counts = counts + 2 * size;
    int *recv_displs = counts + 3 * size,
        step = MRAIL_MAX(sent, capacity) + GAP;
    size_t length = (size_t)size * (size_t)step;
    char *from = mt_alloc(length), *to = mt_alloc(length);
    MPI_Comm comm;
    int ret, class = MPI_SUCCESS, worst, ok = 1;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    memset(to, 0x5a, length);
    for (int i = 0; i < size; ++i) {
        counts[i] = (rank == 1 && i == 0) ? sent : others;
        recv_counts[i] = (rank == 0 && i == 1) ? capacity : others;
        displs[i] = recv_displs[i] = i * step;
        mt_fill(from + i * step, (size_t)counts[i], mt_seed(rank, i, 9));
    }
    ret = MPI_Alltoallv(from, counts, displs, MPI_BYTE, to, recv_counts,
                        recv_displs, MPI_BYTE, comm);
    if (ret != MPI_SUCCESS) {
        MPI_Error_class(ret, &class);
    }
    for (int i = 0; i < size; ++i) {
        int odd = (rank == 0 && i == 1);
        int good = odd ? MRAIL_MIN(sent, capacity) : others;

        /* After an error, the received data is undefined. */
        if (class == MPI_SUCCESS) {
            ok &= mt_check(to + i * step, (size_t)good, mt_seed(i, rank, 9));
        }
        for (int at = odd ? capacity : others; at < step; ++at) {
            ok &= (to[i * step + at] == 0x5a);
        }
    }
    /* A rank may report an error if it receives more than its buffer holds, and
     * other ranks may then also report one. */
    /* The class is MPI_ERR_OTHER if Open MPI's own exchange reports the
     * error. */
    if (class != MPI_SUCCESS &&
        (sent <= capacity ||
         (class != MPI_ERR_TRUNCATE && class != MPI_ERR_OTHER))) {
        fprintf(stderr, "rank %d: an error of class %d\n", rank, class);
        ok = 0;
    }
    MPI_Allreduce(&class, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (again) {
        ok &= (worst == MPI_ERR_TRUNCATE);
        counts[0] = (rank == 1) ? capacity : counts[0];
        MPI_Alltoallv(from, counts, displs, MPI_BYTE, to, recv_counts,
                      recv_displs, MPI_BYTE, comm);
        for (int i = 0; i < size; ++i) {
            ok &= mt_check(to + i * step, (size_t)recv_counts[i],
                           mt_seed(i, rank, 9));
        }
        worst = MPI_SUCCESS;
    }
    if (worst == MPI_SUCCESS) {
        /* After an error, operations may still be in flight, because Open MPI's
         * own exchange returns before they end. The communicator and the
         * buffers are then not freed. */
        MPI_Comm_free(&comm);
        free(counts);
        free(from);
        free(to);
    }
    return ok;
}

static void test_mismatch(int number)
{
    mrail_bench_coll_t coll;

    mt_hangs_after((unsigned)number, "mpi_planned_life");
    mt_result("a larger receive buffer, few bytes",
              mismatched(500, 1000, 100, 0));
    mt_result("a larger receive buffer, many bytes",
              mismatched(700000, 1500000, 100, 0));
    mt_result("a smaller receive buffer, few bytes",
              mismatched(1000, 500, 100, 0));
    mt_result("an empty receive buffer, few bytes", mismatched(700, 0, 100, 0));
    mt_result("a smaller receive buffer, many bytes",
              mismatched(1500000, 700000, 100, 0));
    mrail_bench_coll_open(&coll);
    if (coll.present) {
        /* Open MPI's own exchange would wait for these bytes. */
        mt_result("others planned, few bytes expected, none sent",
                  mismatched(0, 500, 3000, 0));
        mt_result("others planned, many bytes expected, none sent",
                  mismatched(0, 1500000, 3000, 0));
        mt_result("others planned, an empty receive buffer, few bytes",
                  mismatched(700, 0, 3000, 0));
    }
    mrail_bench_coll_close(&coll);
}

/* ---- in-flight limit ---- */

/* All pairs exchange equal bytes, with random differences of up to a half. Some
 * ranks have more bytes, so that the ranks do not all wait at the same time. */
static void test_limited(int number)
{
    int size = mt_size(MPI_COMM_WORLD), ok = 1;
    uint64_t *bytes = mt_alloc(sizeof(*bytes) * (size_t)(size * size));
    uint64_t calls = 3 * (uint64_t)number, held;
    mrail_bench_coll_t coll;
    mrail_rng_t rng;

    mrail_rng_init(&rng, 11);
    mrail_bench_coll_open(&coll);
    for (int round = 0; round < number; ++round) {
        uint32_t least = 16u << mrail_rng_below(&rng, 14);
        int large = (int)mrail_rng_below(&rng, 2 * (uint32_t)size);
        transfer_t transfer;

        for (int i = 0; i < size * size; ++i) {
            bytes[i] = least + mrail_rng_below(&rng, least / 2);
            bytes[i] *= (i / size == large && i % 3 == 0) ? 5 : 1;
        }
        transfer_init(&transfer, MPI_COMM_WORLD, bytes, (uint64_t)round);
        for (uint64_t i = 0; i < 3; ++i) {
            ok &= transfer_all(&transfer, (uint64_t)round * 3 + i);
        }
        transfer_cleanup(&transfer);
    }
    mt_result("few messages at a time: every byte is correct", ok);
    held = counted(&coll, MRAIL_BENCH_COLL_LIMITED_CALLS);
    mt_result("few messages at a time: many calls delayed messages",
              held > calls / 10 && held < calls);
    ok = 1;
    for (int round = 0; round < 10; ++round) {
        uint64_t before = counted(&coll, MRAIL_BENCH_COLL_LIMITED_CALLS);

        ok &= mismatched(30000, 20000, 20000, 1);
        ok &= counted(&coll, MRAIL_BENCH_COLL_LIMITED_CALLS) > before;
    }
    mt_result(
        "few messages at a time: a small receive buffer, then one that fits",
        ok);
    mrail_bench_coll_close(&coll);
    free(bytes);
}

/* ---- beyond 2 GiB ---- */

enum { MEGA = 1 << 20 };

static void fill_words(uint64_t *words, size_t num, uint64_t seed)
{
    for (size_t i = 0; i < num; ++i) {
        words[i] = (seed + i) * 0x9e3779b97f4a7c15ull;
    }
}

static int check_words(const uint64_t *words, size_t num, uint64_t seed)
{
    for (size_t i = 0; i < num; ++i) {
        if (words[i] != (seed + i) * 0x9e3779b97f4a7c15ull) {
            fprintf(stderr, "rank %d: wrong at byte %zu of %zu\n",
                    mt_rank(MPI_COMM_WORLD), 8 * i, 8 * num);
            return 0;
        }
    }
    return 1;
}

/* Sizes in MB are indexed as megas[from * size + to]. */
static int exchange_megas(const int *megas)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD), ok = 1;
    int *counts = calloc((size_t)(4 * size), sizeof(int));
    int *displs = counts + size, *recv_counts = counts + 2 * size;
    int *recv_displs = counts + 3 * size, sum = 0, recv_sum = 0;
    uint64_t *send, *recv;
    MPI_Datatype mega;

    for (int i = 0; i < size; ++i) {
        displs[i] = sum;
        recv_displs[i] = recv_sum;
        sum += counts[i] = megas[rank * size + i];
        recv_sum += recv_counts[i] = megas[i * size + rank];
    }
    send = mt_alloc((size_t)sum * MEGA);
    recv = mt_alloc((size_t)recv_sum * MEGA);
    for (int i = 0; i < size; ++i) {
        fill_words(send + (size_t)displs[i] * (MEGA / 8),
                   (size_t)counts[i] * (MEGA / 8), mt_seed(rank, i, 5));
    }
    MPI_Type_contiguous(MEGA, MPI_BYTE, &mega);
    MPI_Type_commit(&mega);
    /* A rank does not poll while it touches new pages or checks data. The
     * barriers keep that time outside the exchange. */
    memset(recv, 0x5a, (size_t)recv_sum * MEGA);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Alltoallv(send, counts, displs, mega, recv, recv_counts, recv_displs,
                  mega, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&mega);
    for (int i = 0; i < size; ++i) {
        ok &= check_words(recv + (size_t)recv_displs[i] * (MEGA / 8),
                          (size_t)recv_counts[i] * (MEGA / 8),
                          mt_seed(i, rank, 5));
    }
    free(counts);
    free(send);
    free(recv);
    return ok;
}

/* Needs four ranks. */
static void test_large(int number)
{
    int size = mt_size(MPI_COMM_WORLD);
    int *megas = calloc((size_t)(size * size), sizeof(int));

    (void)number;
    for (int i = 0; i < size * size; ++i) {
        /* The large message goes from rank 0 to the other node. */
        megas[i] = (i == size / 2) ? 2200 : 1;
    }
    mt_result("a pair beyond 2 GiB", exchange_megas(megas));
    for (int i = 0; i < size * size; ++i) {
        megas[i] = 2200 / size;
    }
    mt_result("ranks beyond 2 GiB", exchange_megas(megas));
    free(megas);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*func)(int number);
        int number; /* default value */
        int level;
    } tests[] = {
        {"sizes", test_sizes, 8, MPI_THREAD_MULTIPLE},
        {"backed_off", test_backed_off, 200, MPI_THREAD_MULTIPLE},
        {"functions", test_functions, 20, MPI_THREAD_MULTIPLE},
        {"direct", test_direct, 5, MPI_THREAD_MULTIPLE},
        {"threads", test_threads, 10, MPI_THREAD_MULTIPLE},
        {"freed", test_freed, 10, MPI_THREAD_MULTIPLE},
        {"calls", test_calls, 2000, MPI_THREAD_MULTIPLE},
        {"comms", test_comms, 100, MPI_THREAD_MULTIPLE},
        {"limited", test_limited, 100, MPI_THREAD_MULTIPLE},
        /* With threads, Open MPI 4.1.4 hangs if a truncated message arrived
         * before the wait. */
        {"mismatch", test_mismatch, 20, MPI_THREAD_SINGLE},
        {"large", test_large, 0, MPI_THREAD_MULTIPLE},
    };
    unsigned i = 0;
    int provided;

    mt_hangs_after(TEST_S, "mpi_planned_life");
    while (i < MRAIL_ARRAY_SIZE(tests) &&
           (argc < 2 || strcmp(argv[1], tests[i].name) != 0)) {
        ++i;
    }
    if (i == MRAIL_ARRAY_SIZE(tests)) {
        fprintf(stderr, "mpi_planned_life: no such test\n");
        return 2;
    }
    MPI_Init_thread(NULL, NULL, tests[i].level, &provided);
    if (provided < tests[i].level) {
        mt_result("MPI_THREAD_MULTIPLE", 0);
    } else {
        tests[i].func((argc > 2) ? atoi(argv[2]) : tests[i].number);
    }
    MPI_Finalize();
    return mt_failures != 0;
}
