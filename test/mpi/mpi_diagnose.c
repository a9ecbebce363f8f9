/*
 * A job with a planted fault, for mrail diagnose:
 *
 *   mpi_diagnose CASE RANK ROUND BYTES
 *
 *   healthy   rounds of computation, MPI_Alltoall and MPI_Allreduce
 *   stopped   RANK stops itself in ROUND
 *   compute   RANK computes from ROUND on, and the others wait
 *   late      RANK computes longer than the others in each round
 *   mismatch  RANK calls MPI_Barrier in place of MPI_Allreduce in ROUND
 *   crossed   RANK uses two communicators in another order in ROUND
 *   message   RANK computes from ROUND on, and the next rank awaits a message
 *   posted    RANK computes from ROUND on, and the others are in MPI_Wait after
 *             MPI_Iallreduce
 *   cores     RANK shares its core with other processes
 *
 * Rank 0 prints "under way" in ROUND. BYTES is the size of the messages of
 * MPI_Alltoall. The job ends after 90 seconds at the latest.
 */
#include "config.h"
#include "mpi_test.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#define WORK_US 3000
#define LATE_US 15000
#define SHARERS 5
#define LIMIT_S 90

static void spin_us(double us)
{
    struct timespec t;
    double end_us;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    end_us = (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3 + us;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while ((double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3 < end_us);
}

static void compute_forever(void)
{
    for (;;) {
        spin_us(1e6);
    }
}

static void stop(void)
{
    kill(getpid(), SIGSTOP);
}

/* The calls of RANK in ROUND, in place of the usual call. */
static int mismatch(MPI_Comm second)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return 1;
}

static int fault_stop(MPI_Comm second)
{
    stop();
    return 0;
}

static int fault_compute(MPI_Comm second)
{
    compute_forever();
    return 0;
}

static int fault_crossed(MPI_Comm second)
{
    MPI_Barrier(second);
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

/* The calls of the other ranks in ROUND. */
static void others_crossed(int rank, MPI_Comm second)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(second);
}

static void others_message(int rank, MPI_Comm second)
{
    int size = mt_size(MPI_COMM_WORLD);
    char byte;

    if (mt_rank(MPI_COMM_WORLD) == (rank + 1) % size) {
        MPI_Recv(&byte, 1, MPI_BYTE, rank, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
}

static void others_posted(int rank, MPI_Comm second)
{
    MPI_Request request;
    int one = 1, sum;

    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, second, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

typedef struct fault {
    const char *name;
    /* called in ROUND at RANK; returns 1 if it replaced MPI_Allreduce */
    int (*own)(MPI_Comm second);
    void (*others)(int rank, MPI_Comm second); /* in ROUND, at other ranks */
    double late_us;                            /* delay in each round at RANK */
    int sharers; /* processes on the core of RANK */
} fault_t;

static const fault_t faults[] = {
    {"healthy", NULL, NULL, 0, 0},
    {"stopped", fault_stop, NULL, 0, 0},
    {"compute", fault_compute, NULL, 0, 0},
    {"late", NULL, NULL, LATE_US, 0},
    {"mismatch", mismatch, NULL, 0, 0},
    {"crossed", fault_crossed, others_crossed, 0, 0},
    {"message", fault_compute, others_message, 0, 0},
    {"posted", fault_compute, others_posted, 0, 0},
    {"cores", NULL, NULL, 0, SHARERS},
};

static const fault_t *find(const char *name)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(faults); ++i) {
        if (strcmp(faults[i].name, name) == 0) {
            return &faults[i];
        }
    }
    fprintf(stderr, "no case %s\n", name);
    exit(2);
}

/* Binds RANK to the first core with other processes, and the other ranks to the
 * second one. */
static void share_core(int is_own, int sharers)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(is_own ? 0 : 1, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        perror("sched_setaffinity");
        exit(1);
    }
    for (int i = 0; is_own && (i < sharers); ++i) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(LIMIT_S);
            compute_forever();
        }
    }
}

/* Buffers of MPI_Alltoall. */
typedef struct buffers {
    char *send, *recv;
    int bytes; /* of a message */
} buffers_t;

static void run_round(const fault_t *fault, int is_own, int is_now, int rank,
                      MPI_Comm second, const buffers_t *buffers)
{
    int sum = 1, done = 0;

    spin_us(WORK_US + (is_own ? fault->late_us : 0));
    MPI_Alltoall(buffers->send, buffers->bytes, MPI_BYTE, buffers->recv,
                 buffers->bytes, MPI_BYTE, MPI_COMM_WORLD);
    if (is_now && is_own && (fault->own != NULL)) {
        done = fault->own(second);
    } else if (is_now && (fault->others != NULL)) {
        fault->others(rank, second);
    }
    if (!done) {
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    const char *world = getenv("OMPI_COMM_WORLD_RANK");
    int rank = (argc > 4) ? atoi(argv[2]) : 0;
    int round = (argc > 4) ? atoi(argv[3]) : 0;
    const fault_t *fault = find((argc > 4) ? argv[1] : "");
    int is_own = (world != NULL) && (atoi(world) == rank);
    buffers_t buffers = {.bytes = (argc > 4) ? atoi(argv[4]) : 0};
    size_t size;
    MPI_Comm second;

    if (fault->sharers > 0) {
        share_core(is_own, fault->sharers);
    }
    alarm(LIMIT_S);
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    size = (size_t)mt_size(MPI_COMM_WORLD) * (size_t)buffers.bytes;
    buffers.send = mt_alloc(size);
    buffers.recv = mt_alloc(size);
    memset(buffers.send, 1, size);
    for (int i = 0;; ++i) {
        if ((i == round) && (mt_rank(MPI_COMM_WORLD) == 0)) {
            puts("under way");
            fflush(stdout);
        }
        run_round(fault, is_own, i == round, rank, second, &buffers);
    }
}
