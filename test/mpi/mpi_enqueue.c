/*
 * Communication in CUDA streams. Kernels fill and verify the buffers in the
 * stream of the exchange, and the CPU does not synchronise in between. The data
 * is therefore correct only if the order in the stream is.
 *
 * usage: mpi_enqueue
 * order|unordered|streams|messages|pair|refused|host|errors|threads|no-gpu
 */
#include "config.h"
#include "mpi_test.h"

#include "cuda/driver.h"
#include "mpi/stream/stream.h"
#include "softgpu/session.h"
#include "tools/bench_device.h"
#include "tools/bench_kernels.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_RANKS 16
#define ROUNDS 6
#define DELAY_US 30000

static int rank, size;
static const int zeros[MAX_RANKS];
static const mrail_cuda_t *cuda;

static void cu(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "rank %d: %s: error %d\n", rank, what, (int)result);
        exit(1);
    }
}

#define CU(_call) cu(cuda->_call, #_call)

/* A stream with its communicator, and buffers in device memory. */
typedef struct lane {
    CUstream stream;
    MPI_Comm comm;
    int counts[MAX_RANKS], offsets[MAX_RANKS];
    size_t block; /* bytes per rank */
    char *send, *recv;
} lane_t;

static uint64_t seed_of(int from, int to, unsigned round)
{
    return ((uint64_t)from << 40) | ((uint64_t)to << 20) | round;
}

static int create(CUstream stream, MPI_Comm *comm_p)
{
    return mrail_stream_comm_create(MPI_COMM_WORLD, stream, comm_p);
}

static void lane_init(lane_t *lane, size_t block)
{
    CU(cuStreamCreate(&lane->stream, CU_STREAM_NON_BLOCKING));
    lane->block = block;
    for (int i = 0; i < size; ++i) {
        lane->counts[i] = (int)block;
        lane->offsets[i] = i * (int)block;
    }
    lane->send =
        mrail_bench_device_allocate(block * (size_t)size, MRAIL_BENCH_DEVICE);
    lane->recv =
        mrail_bench_device_allocate(block * (size_t)size, MRAIL_BENCH_DEVICE);
    if (create(lane->stream, &lane->comm) != MPI_SUCCESS) {
        fprintf(stderr, "rank %d: no communicator\n", rank);
        exit(1);
    }
}

static void lane_cleanup(lane_t *lane)
{
    MPI_Comm_free(&lane->comm);
    CU(cuStreamDestroy(lane->stream));
    mrail_bench_device_free(lane->send);
    mrail_bench_device_free(lane->recv);
}

static void delay(void *arg)
{
    usleep(DELAY_US);
}

/* Fills the buffers. The kernels of a round start late on some ranks. */
static void fill(const lane_t *lane, unsigned round)
{
    if ((unsigned)rank % 2 == round % 2) {
        CU(cuLaunchHostFunc(lane->stream, delay, NULL));
    }
    for (int to = 0; to < size; ++to) {
        mrail_bench_kernels_start_fill(lane->stream,
                                       lane->send + lane->offsets[to],
                                       lane->block, seed_of(rank, to, round));
    }
}

static void verify(const lane_t *lane, unsigned round)
{
    for (int from = 0; from < size; ++from) {
        mrail_bench_kernels_start_verify(
            lane->stream, lane->recv + lane->offsets[from], lane->block,
            seed_of(from, rank, round));
    }
}

static int enqueue(const lane_t *lane)
{
    return mrail_alltoallv_enqueue(lane->send, lane->counts, lane->offsets,
                                   MPI_BYTE, lane->recv, lane->counts,
                                   lane->offsets, MPI_BYTE, lane->comm);
}

/* All rounds use the same buffers, so each round must wait for the previous
 * one. */
static void test_order(void)
{
    static const size_t blocks[] = {100, 70000, 2 << 20};

    for (unsigned i = 0; i < sizeof(blocks) / sizeof(blocks[0]); ++i) {
        lane_t lane;
        int ok = 1;

        lane_init(&lane, blocks[i]);
        for (unsigned round = 0; round < ROUNDS; ++round) {
            fill(&lane, round);
            ok &= enqueue(&lane) == MPI_SUCCESS;
            verify(&lane, round);
        }
        ok &= cuda->cuStreamQuery(lane.stream) == CUDA_ERROR_NOT_READY;
        CU(cuStreamSynchronize(lane.stream));
        ok &= mrail_bench_kernels_wrong() == 0;
        ok &= mrail_stream_error(lane.comm) == MPI_SUCCESS;
        lane_cleanup(&lane);
        mt_result("kernels and exchanges are in order", ok);
    }
}

/* Blocks the stream until the value is set. */
static void gate(void *arg)
{
    while (!__atomic_load_n((int *)arg, __ATOMIC_ACQUIRE)) {
        usleep(1000);
    }
}

/* MPI_Alltoallv() does not wait for the stream, so the kernels find wrong
 * data. */
static void test_unordered(void)
{
    lane_t lane;
    int found, is_open = 0;

    lane_init(&lane, 1000);
    CU(cuLaunchHostFunc(lane.stream, gate, &is_open));
    fill(&lane, 1);
    MPI_Alltoallv(lane.send, lane.counts, lane.offsets, MPI_BYTE, lane.recv,
                  lane.counts, lane.offsets, MPI_BYTE, MPI_COMM_WORLD);
    __atomic_store_n(&is_open, 1, __ATOMIC_RELEASE);
    verify(&lane, 1);
    CU(cuStreamSynchronize(lane.stream));
    found = mrail_bench_kernels_wrong() > 0;
    lane_cleanup(&lane);
    mt_result("a call outside the stream is too early", found);
}

/* The ranks put the exchanges of two streams in opposite orders. */
static void test_streams(void)
{
    lane_t lanes[2];
    int ok = 1;

    lane_init(&lanes[0], 300000);
    lane_init(&lanes[1], 50000);
    for (unsigned round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < 2; ++i) {
            const lane_t *lane = &lanes[(i + rank) % 2];

            fill(lane, round);
            ok &= enqueue(lane) == MPI_SUCCESS;
            verify(lane, round);
        }
    }
    CU(cuStreamSynchronize(lanes[0].stream));
    CU(cuStreamSynchronize(lanes[1].stream));
    ok &= mrail_bench_kernels_wrong() == 0;
    lane_cleanup(&lanes[0]);
    lane_cleanup(&lanes[1]);
    mt_result("concurrent exchanges in two streams", ok);
}

/* In a ring, each rank sends in one stream and receives in another. A message
 * may be shorter than the buffer. */
static void test_messages(void)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, ok = 1;
    MPI_Status statuses[ROUNDS];
    lane_t lanes[2], *out = &lanes[rank % 2], *in = &lanes[1 - rank % 2];

    lane_init(&lanes[0], 1 << 20);
    lane_init(&lanes[1], 1 << 20);
    for (unsigned round = 0; round < ROUNDS; ++round) {
        int count = 3 << (3 * round);

        mrail_bench_kernels_start_fill(out->stream, out->send, (size_t)count,
                                       seed_of(rank, to, round));
        ok &= mrail_send_enqueue(out->send, count, MPI_BYTE, to, (int)round,
                                 out->comm) == MPI_SUCCESS;
        ok &= mrail_recv_enqueue(in->recv, 1 << 20, MPI_BYTE, MPI_ANY_SOURCE,
                                 MPI_ANY_TAG, in->comm,
                                 &statuses[round]) == MPI_SUCCESS;
        mrail_bench_kernels_start_verify(in->stream, in->recv, (size_t)count,
                                         seed_of(from, rank, round));
    }
    CU(cuStreamSynchronize(out->stream));
    CU(cuStreamSynchronize(in->stream));
    ok &= mrail_bench_kernels_wrong() == 0;
    for (unsigned round = 0; round < ROUNDS; ++round) {
        int got = -1;

        MPI_Get_count(&statuses[round], MPI_BYTE, &got);
        ok &= got == 3 << (3 * round) && statuses[round].MPI_SOURCE == from &&
              statuses[round].MPI_TAG == (int)round;
    }
    lane_cleanup(&lanes[0]);
    lane_cleanup(&lanes[1]);
    mt_result("messages in a ring", ok);
}

/* ---- relays in device memory ---- */

#define PAIR_BYTES (32 << 20)

static sgpu_session_t *session;

/* Returns the bytes that GPUs have copied to other GPUs. */
static uint64_t peer_bytes(void)
{
    uint64_t sum = 0;

    for (unsigned gpu = 0; gpu < session->num_gpus; ++gpu) {
        for (unsigned i = 0; i < SGPU_SESSION_SLOTS; ++i) {
            sum += sgpu_session_gpu(session, 0, gpu)
                       ->slots[i]
                       .counters[SGPU_CNT_BYTES_PEER];
        }
    }
    return sum;
}

/* Only rank 0 sends, and only rank 1 receives. The other ranks are relays. */
static void exchange_pair(int is_relayed, const char *what)
{
    uint64_t before;
    lane_t lane;
    int ok;

    lane_init(&lane, PAIR_BYTES);
    for (int i = 0; i < size; ++i) {
        lane.counts[i] = 0;
    }
    if (rank < 2) {
        lane.counts[1 - rank] = PAIR_BYTES;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    before = peer_bytes();
    if (!is_relayed && rank == size - 1) {
        sgpu_session_gpu(session, 0, (unsigned)rank)->faults |=
            SGPU_FAULT_NO_MEMORY;
    }
    for (unsigned round = 0; round < 2; ++round) {
        if (rank == 0) {
            mrail_bench_kernels_start_fill(lane.stream,
                                           lane.send + lane.offsets[1],
                                           PAIR_BYTES, seed_of(0, 1, round));
        }
        ok = mrail_alltoallv_enqueue(
                 lane.send, (rank == 0) ? lane.counts : zeros, lane.offsets,
                 MPI_BYTE, lane.recv, (rank == 1) ? lane.counts : zeros,
                 lane.offsets, MPI_BYTE, lane.comm) == MPI_SUCCESS;
        if (rank == 1) {
            mrail_bench_kernels_start_verify(lane.stream, lane.recv, PAIR_BYTES,
                                             seed_of(0, 1, round));
        }
    }
    CU(cuStreamSynchronize(lane.stream));
    ok &= mrail_bench_kernels_wrong() == 0;
    ok &= mrail_stream_error(lane.comm) == MPI_SUCCESS;
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_relayed) {
        /* Relayed bytes cross two links. */
        ok &= peer_bytes() - before > 2 * (uint64_t)PAIR_BYTES;
    }
    lane_cleanup(&lane);
    mt_result(what, ok);
}

/* The progress thread knows the GPU of a rank that has no bytes. */
static void test_pair(void)
{
    exchange_pair(1, "ranks without bytes relay on their GPUs");
}

/* A rank cannot allocate, and all ranks release their areas, while the streams
 * wait for the exchange. */
static void test_area_refused(void)
{
    exchange_pair(0, "an exchange without memory for relays continues");
}

/* ---- host memory ---- */

typedef struct host {
    int send[MAX_RANKS], recv[MAX_RANKS], message, received;
    unsigned wrong;
} host_t;

static void host_fill(void *arg)
{
    host_t *host = arg;

    usleep(DELAY_US);
    for (int i = 0; i < size; ++i) {
        host->send[i] = 100 * rank + i;
    }
    host->message = rank;
}

static void host_verify(void *arg)
{
    host_t *host = arg;

    for (int i = 0; i < size; ++i) {
        host->wrong += host->recv[i] != 100 * i + rank;
    }
    host->wrong += host->received != rank - 1;
}

static void test_host(void)
{
    static host_t host;
    lane_t lane;
    int ok = 1;

    lane_init(&lane, 4);
    for (int i = 0; i < size; ++i) {
        lane.counts[i] = 1;
        lane.offsets[i] = i;
    }
    host.received = rank - 1;
    CU(cuLaunchHostFunc(lane.stream, host_fill, &host));
    ok &= mrail_alltoallv_enqueue(host.send, lane.counts, lane.offsets, MPI_INT,
                                  host.recv, lane.counts, lane.offsets, MPI_INT,
                                  lane.comm) == MPI_SUCCESS;
    ok &= (rank % 2 == 0)
              ? mrail_send_enqueue(&host.message, 1, MPI_INT, rank + 1, 1,
                                   lane.comm) == MPI_SUCCESS
              : mrail_recv_enqueue(&host.received, 1, MPI_INT, rank - 1, 1,
                                   lane.comm, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    CU(cuLaunchHostFunc(lane.stream, host_verify, &host));
    CU(cuStreamSynchronize(lane.stream));
    lane_cleanup(&lane);
    mt_result("host memory in the order of the stream", ok && host.wrong == 0);
}

/* ---- errors ---- */

/* Returns 1 if the text of the error contains the words. */
static int says(int error, const char *words)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;

    if (error != MPI_SUCCESS) {
        MPI_Error_string(error, text, &length);
    }
    if (strstr(text, words) == NULL) {
        fprintf(stderr, "rank %d: not '%s': %s\n", rank, words, text);
        return 0;
    }
    return 1;
}

static void test_arguments(void)
{
    MPI_Datatype gaps;
    MPI_Comm comm = MPI_COMM_NULL;
    CUcontext ctx = NULL;
    lane_t lane;

    lane_init(&lane, 1000);
    MPI_Type_vector(4, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    mt_result(
        "a communicator without a stream",
        says(mrail_send_enqueue(lane.send, 1, MPI_INT, 0, 0, MPI_COMM_WORLD),
             "the communicator has no stream"));
    mt_result("a datatype with gaps",
              says(mrail_send_enqueue(lane.send, 1, gaps, 0, 0, lane.comm),
                   "a datatype without gaps"));
    mt_result("a negative count",
              mrail_recv_enqueue(lane.recv, -1, MPI_INT, 0, 0, lane.comm,
                                 MPI_STATUS_IGNORE) == MPI_ERR_COUNT);
    mt_result("errors leave the communicator unchanged",
              mrail_stream_error(lane.comm) == MPI_SUCCESS);
    if (rank == 0) {
        CU(cuCtxPopCurrent(&ctx));
    }
    mt_result("a rank without a context",
              says(create(lane.stream, &comm),
                   (rank == 0) ? "no CUDA context is current"
                               : "another rank cannot") &&
                  comm == MPI_COMM_NULL);
    if (rank == 0) {
        CU(cuCtxPushCurrent(ctx));
    }
    MPI_Type_free(&gaps);
    lane_cleanup(&lane);
}

/* A message is longer than the buffer. The stream continues, and later calls
 * return the error. */
static void test_truncated(void)
{
    int class = MPI_SUCCESS, ok;
    lane_t lane;

    lane_init(&lane, 1000);
    if (rank % 2 == 0) {
        ok = mrail_send_enqueue(lane.send, 1000, MPI_BYTE, rank + 1, 0,
                                lane.comm) == MPI_SUCCESS;
        CU(cuStreamSynchronize(lane.stream));
    } else {
        ok = mrail_recv_enqueue(lane.recv, 10, MPI_BYTE, rank - 1, 0, lane.comm,
                                MPI_STATUS_IGNORE) == MPI_SUCCESS;
        CU(cuStreamSynchronize(lane.stream));
        MPI_Error_class(mrail_stream_error(lane.comm), &class);
        ok &= class == MPI_ERR_TRUNCATE;
        ok &= mrail_recv_enqueue(lane.recv, 10, MPI_BYTE, rank - 1, 0,
                                 lane.comm, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    }
    mrail_bench_kernels_start_fill(lane.stream, lane.send, 1000, 1);
    mrail_bench_kernels_start_verify(lane.stream, lane.send, 1000, 1);
    CU(cuStreamSynchronize(lane.stream));
    ok &= mrail_bench_kernels_wrong() == 0;
    lane_cleanup(&lane);
    mt_result("a message that is too long", ok);
}

static void test_errors(void)
{
    test_arguments();
    test_truncated();
}

static void test_refused(void)
{
    MPI_Comm comm = MPI_COMM_NULL;
    int level;

    MPI_Query_thread(&level);
    mt_result("the call reports the reason",
              says(create(NULL, &comm), (level < MPI_THREAD_MULTIPLE)
                                            ? "needs MPI_THREAD_MULTIPLE"
                                            : "needs a GPU") &&
                  comm == MPI_COMM_NULL);
}

typedef struct test {
    const char *name;
    void (*run)(void);
    int has_gpu, level;
} test_t;

static const test_t tests[] = {
    {"order", test_order, 1, MPI_THREAD_MULTIPLE},
    {"unordered", test_unordered, 1, MPI_THREAD_MULTIPLE},
    {"streams", test_streams, 1, MPI_THREAD_MULTIPLE},
    {"messages", test_messages, 1, MPI_THREAD_MULTIPLE},
    {"pair", test_pair, 1, MPI_THREAD_MULTIPLE},
    {"refused", test_area_refused, 1, MPI_THREAD_MULTIPLE},
    {"host", test_host, 1, MPI_THREAD_MULTIPLE},
    {"errors", test_errors, 1, MPI_THREAD_MULTIPLE},
    {"threads", test_refused, 1, MPI_THREAD_SERIALIZED},
    {"no-gpu", test_refused, 0, MPI_THREAD_MULTIPLE}};

static void open_gpu(void)
{
    char reason[128];
    int fd; /* stays open: closing it would release the driver's record lock */

    mrail_bench_device_open(); /* before coll/mrail looks for a driver */
    if (mrail_cuda_open(&cuda, reason, sizeof(reason)) < 0 ||
        !mrail_bench_kernels_open()) {
        fprintf(stderr, "no GPU for kernels\n");
        exit(1);
    }
    if (sgpu_session_open(getenv("MRAIL_SOFT_GPUS"), &session, &fd) != 0) {
        fprintf(stderr, "no software GPUs\n");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    unsigned i = 0;
    int level;

    while (i < MRAIL_ARRAY_SIZE(tests) - 1 &&
           (argc != 2 || strcmp(argv[1], tests[i].name) != 0)) {
        ++i;
    }
    if (tests[i].has_gpu) {
        open_gpu();
    }
    MPI_Init_thread(&argc, &argv, tests[i].level, &level);
    rank = mt_rank(MPI_COMM_WORLD);
    size = mt_size(MPI_COMM_WORLD);
    if (level < tests[i].level || size > MAX_RANKS || size % 2 != 0) {
        fprintf(stderr, "thread level %d, %d ranks\n", level, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    mt_hangs_after(60, argv[1]);
    tests[i].run();
    MPI_Finalize();
    return mt_failures != 0;
}
