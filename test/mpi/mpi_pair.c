/*
 * A hot pair streams large messages in one direction while all other ranks
 * exchange data. The program shows the bandwidth of the pair and of the other
 * ranks. In the hot pair, the last rank of the first half sends to the last
 * rank of the job. The other ranks send to the opposite half, in both
 * directions. With "--no-others", the other ranks are idle, and with
 * "--no-pair", the pair is.
 *
 * Usage: mpi_pair SECONDS [--no-others] [--no-pair]
 *
 * Rank 0 prints "under way". At the end, it prints one line for each second in
 * which the pair and the other ranks were active,
 *
 *     second N: pair MB/s, others MB/s
 *
 * and "start T", the time of day in seconds when second 0 began. The rates are
 * measured at the receivers in the second half, whose data comes from the first
 * half.
 */
#include "config.h"
#include "mpi_test.h"

#include <string.h>
#include <time.h>

#define PAIR_BYTES (16 << 20)
#define OTHER_BYTES (2 << 20)
#define SLOTS 2     /* messages of the pair in flight */
#define SAMPLE 4093 /* one byte in this many is checked */
#define MAX_SECONDS 60
/* Ticks per second. Bytes that arrive over several ticks are split among
 * them. */
#define TICKS 20

typedef struct job {
    int rank, size, half;
    int seconds;
    double start_s;
    double bytes[MAX_SECONDS * TICKS]; /* bytes received in each tick */
    int ok;
} job_t;

static double read_clock_s(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now_s(void)
{
    return read_clock_s(CLOCK_MONOTONIC);
}

static int is_over(const job_t *job)
{
    return now_s() - job->start_s > job->seconds;
}

static void fill(unsigned char *buffer, size_t length, uint64_t seed)
{
    for (size_t i = 0; i < length; i += SAMPLE) {
        buffer[i] = mt_byte(seed, i);
    }
}

/* Checks the samples and overwrites them. */
static int check(unsigned char *buffer, size_t length, uint64_t seed)
{
    int ok = 1;

    for (size_t i = 0; i < length; i += SAMPLE) {
        ok &= (buffer[i] == mt_byte(seed, i));
        buffer[i] = (unsigned char)~buffer[i];
    }
    return ok;
}

/* Counts bytes that arrived at a constant rate from `from_s` until now. */
static void count(job_t *job, double from_s, double bytes)
{
    double to = (now_s() - job->start_s) * TICKS;
    double from = MRAIL_MAX((from_s - job->start_s) * TICKS, 0);

    for (int i = (int)from; (i <= (int)to) && (i < MAX_SECONDS * TICKS); ++i) {
        double part = MRAIL_MIN(i + 1.0, to) - MRAIL_MAX((double)i, from);

        job->bytes[i] += bytes * part / (to - from);
    }
}

static void send_stream(job_t *job)
{
    MPI_Request requests[SLOTS];
    unsigned char *buffer = mt_alloc(PAIR_BYTES);
    int over = 0, slot = 0;

    memset(buffer, 0, PAIR_BYTES);
    fill(buffer, PAIR_BYTES, 1);
    for (int i = 0; i < SLOTS; ++i) {
        requests[i] = MPI_REQUEST_NULL;
    }
    for (; !over; slot = (slot + 1) % SLOTS) {
        MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
        over = is_over(job);
        MPI_Isend(buffer, over ? 0 : PAIR_BYTES, MPI_BYTE, job->size - 1, 0,
                  MPI_COMM_WORLD, &requests[slot]);
    }
    MPI_Waitall(SLOTS, requests, MPI_STATUSES_IGNORE);
    free(buffer);
}

static void receive_stream(job_t *job)
{
    unsigned char *buffer[SLOTS];
    MPI_Request requests[SLOTS];
    double before_s = job->start_s;
    int bytes = 1, slot = 0;
    MPI_Status status;

    for (int i = 0; i < SLOTS; ++i) {
        buffer[i] = mt_alloc(PAIR_BYTES);
        memset(buffer[i], 0, PAIR_BYTES);
        MPI_Irecv(buffer[i], PAIR_BYTES, MPI_BYTE, job->half - 1, 0,
                  MPI_COMM_WORLD, &requests[i]);
    }
    for (; bytes != 0; slot = (slot + 1) % SLOTS) {
        MPI_Wait(&requests[slot], &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        count(job, before_s, bytes);
        before_s = now_s();
        if (bytes != 0) {
            job->ok &= check(buffer[slot], PAIR_BYTES, 1);
            MPI_Irecv(buffer[slot], PAIR_BYTES, MPI_BYTE, job->half - 1, 0,
                      MPI_COMM_WORLD, &requests[slot]);
        }
    }
    for (int i = 0; i < SLOTS; ++i) {
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&requests[i]);
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        }
        free(buffer[i]);
    }
}

/* Exchanges data with all ranks of the opposite half at the same time. Each
 * completed message is followed by another. */
static void exchange(job_t *job, MPI_Comm others)
{
    int far = (job->rank < job->half) ? job->half : 0;
    int num = job->half - 1, over = 0, all = 0;
    unsigned char *out = mt_alloc(OTHER_BYTES);
    unsigned char *in = mt_alloc((size_t)num * OTHER_BYTES);
    MPI_Request *requests = mt_alloc(2 * (size_t)num * sizeof(*requests));

    memset(in, 0, (size_t)num * OTHER_BYTES);
    memset(out, 0, OTHER_BYTES);
    fill(out, OTHER_BYTES, (uint64_t)job->rank);
    while (!all) {
        double from_s = now_s();

        for (int i = 0; i < num; ++i) {
            MPI_Irecv(in + (size_t)i * OTHER_BYTES, OTHER_BYTES, MPI_BYTE,
                      far + i, 1, MPI_COMM_WORLD, &requests[2 * i]);
            MPI_Isend(out, OTHER_BYTES, MPI_BYTE, far + i, 1, MPI_COMM_WORLD,
                      &requests[2 * i + 1]);
        }
        MPI_Waitall(2 * num, requests, MPI_STATUSES_IGNORE);
        count(job, from_s, (double)num * OTHER_BYTES);
        for (int i = 0; i < num; ++i) {
            job->ok &= check(in + (size_t)i * OTHER_BYTES, OTHER_BYTES,
                             (uint64_t)(far + i));
        }
        over = is_over(job);
        MPI_Allreduce(&over, &all, 1, MPI_INT, MPI_LOR, others);
    }
    free(requests);
    free(in);
    free(out);
}

static void report(job_t *job)
{
    int is_pair = (job->rank == job->size - 1);
    double mine[2][MAX_SECONDS] = {{0}}, sum[2][MAX_SECONDS];

    for (int i = 0; (job->rank >= job->half) && (i < job->seconds * TICKS);
         ++i) {
        mine[!is_pair][i / TICKS] += job->bytes[i] * 1e-6;
    }
    MPI_Reduce(mine, sum, 2 * MAX_SECONDS, MPI_DOUBLE, MPI_SUM, 0,
               MPI_COMM_WORLD);
    if (job->rank == 0) {
        printf("start %.3f\n",
               read_clock_s(CLOCK_REALTIME) - (now_s() - job->start_s));
    }
    for (int i = 1; (job->rank == 0) && (i < job->seconds); ++i) {
        printf("second %d: %.1f %.1f\n", i, sum[0][i], sum[1][i]);
    }
}

static int has(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], name) == 0) {
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    static job_t job = {.ok = 1};
    MPI_Comm others;
    int in_pair;

    MPI_Init(&argc, &argv);
    job.rank = mt_rank(MPI_COMM_WORLD);
    job.size = mt_size(MPI_COMM_WORLD);
    job.half = job.size / 2;
    job.seconds = (argc > 1) ? atoi(argv[1]) : 0;
    if ((job.seconds < 2) || (job.seconds > MAX_SECONDS) || (job.size < 4) ||
        (job.size % 2 != 0)) {
        fprintf(stderr,
                "usage: mpi_pair SECONDS, from 2 to %d, on an even number "
                "of ranks, at least 4\n",
                MAX_SECONDS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    in_pair = ((job.rank + 1) % job.half == 0);
    MPI_Comm_split(MPI_COMM_WORLD, in_pair, job.rank, &others);
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == 0) {
        puts("under way");
        fflush(stdout);
    }
    job.start_s = now_s();
    MPI_Bcast(&job.start_s, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (!in_pair) {
        if (!has(argc, argv, "--no-others")) {
            exchange(&job, others);
        }
    } else if (!has(argc, argv, "--no-pair")) {
        (job.rank == job.size - 1) ? receive_stream(&job) : send_stream(&job);
    }
    report(&job);
    mt_result("the bytes of the pair and of the other ranks", job.ok);
    MPI_Comm_free(&others);
    MPI_Finalize();
    return mt_failures != 0;
}
