/*
 * One rank sends a large message in device memory to another. Checks every
 * byte, and the counters of the GPUs: no kernel, and no byte through host
 * memory.
 *
 *   --mib N        size of the message (8)
 *   --to RANK      receiver of rank 0's message (1)
 *   --rate         prints the median rate of three exchanges, and the kernels
 *                  that were launched
 *   --kernel       relays copy with a kernel (coll_mrail_gpu)
 *   --fault NAME   no_memory, ipc_error: the last rank's device has this fault
 *                  from the start, and the exchanges succeed
 *                  copy_error, cut, kill: in the second exchange, a copy of
 *                  rank 0 fails, its link to the last rank is cut, or the last
 *                  rank is killed; the job aborts
 *                  reset: rank 0's primary context is destroyed before the
 *                  second exchange; the job aborts
 */
#include "config.h"
#include "mpi_test.h"

#include "base/clock.h"
#include "cuda/driver.h"
#include "softgpu/session.h"
#include "tools/bench_coll.h"
#include "tools/bench_device.h"

#include <dlfcn.h>

enum { LIMIT_S = 40, MIB = 1 << 20, FAULT_MS = 200, TIMED = 3 };

static sgpu_session_t *session;
static const char *fault = "";
static int rank, num, to = 1, with_kernel;
static size_t bytes;
/* A buffer in device memory, and the host memory with which it is filled and
 * checked. Kernels of the test would be counted, so the test uses none. */
typedef struct buffer {
    char *mpi, *host;
    size_t size;
} buffer_t;

static buffer_t out, in;
static uint64_t host_bytes; /* bytes copied to and from GPUs by the exchanges */

static sgpu_gpu_t *gpu_of(int of)
{
    const char *node = getenv("MRAIL_SOFT_NODE");

    return sgpu_session_gpu(session, (node != NULL) ? (unsigned)atoi(node) : 0,
                            (unsigned)of % session->num_gpus);
}

/* Sums up a counter over all GPUs and processes. */
static uint64_t gpu_count(sgpu_counter_t counter)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < session->num_nodes * session->num_gpus; ++i) {
        for (unsigned k = 0; k < SGPU_SESSION_SLOTS; ++k) {
            sum += session->gpus[i].slots[k].counters[counter];
        }
    }
    return sum;
}

static uint64_t count_host(void)
{
    return gpu_count(SGPU_CNT_BYTES_IN) + gpu_count(SGPU_CNT_BYTES_OUT);
}

static int is_fault(const char *name)
{
    return strcmp(fault, name) == 0;
}

static void fault_before(void)
{
    if (rank == num - 1 && is_fault("no_memory")) {
        gpu_of(rank)->faults |= SGPU_FAULT_NO_MEMORY;
    }
    if (rank == num - 1 && is_fault("ipc_error")) {
        gpu_of(rank)->faults |= SGPU_FAULT_IPC_ERROR;
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void buffer_init(buffer_t *buffer, size_t size)
{
    buffer->mpi = mrail_bench_device_allocate(size, MRAIL_BENCH_DEVICE);
    buffer->host = calloc(1, size);
    buffer->size = size;
    if (buffer->host == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void buffer_cleanup(buffer_t *buffer)
{
    mrail_bench_device_free(buffer->mpi);
    free(buffer->host);
}

static void upload(const buffer_t *buffer)
{
    mrail_bench_device_copy(buffer->mpi, buffer->host, buffer->size);
}

static void fault_between(void)
{
    if (rank == 0 && is_fault("copy_error")) {
        gpu_of(rank)->copy_errors = 1;
    }
    if (rank == 0 && is_fault("reset")) {
        CUresult (*reset)(CUdevice);
        CUdevice device;

        *(void **)&reset = dlsym(dlopen("libcuda.so.1", RTLD_NOW),
                                 "cuDevicePrimaryCtxReset_v2");
        (void)mrail_cuda_find()->cuCtxGetDevice(&device);
        (void)reset(device);
        mrail_bench_device_open();
        out.mpi = mrail_bench_device_allocate(out.size, MRAIL_BENCH_DEVICE);
        in.mpi = mrail_bench_device_allocate(in.size, MRAIL_BENCH_DEVICE);
        upload(&out);
    }
}

static void fault_during(void)
{
    if (rank == 0 && is_fault("cut")) {
        gpu_of(0)->mesh[num - 1].is_down = 1;
    }
    if (rank == num - 1 && is_fault("kill")) {
        raise(SIGKILL);
    }
}

/* Performs an exchange, and returns the time of the slowest rank in seconds. */
static double exchange(uint64_t message, int is_faulty)
{
    int counts[16] = {0}, expected[16] = {0}, displs[16] = {0};
    mrail_ns_t from_ns;
    MPI_Request request;
    double seconds;
    int done = 0;

    mt_hangs_after(LIMIT_S, "mpi_gpu_pair");
    if (rank == 0) {
        mt_fill(out.host, bytes, mt_seed(0, to, message));
        counts[to] = (int)bytes;
    }
    memset(in.host, 0, in.size);
    if (rank == to) {
        expected[0] = (int)bytes;
    }
    upload(&out);
    upload(&in);
    if (is_faulty) {
        fault_between();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    host_bytes -= count_host();
    MPI_Barrier(MPI_COMM_WORLD);
    from_ns = mrail_clock_now();
    MPI_Ialltoallv(out.mpi, counts, displs, MPI_BYTE, in.mpi, expected, displs,
                   MPI_BYTE, MPI_COMM_WORLD, &request);
    while (is_faulty &&
           mrail_clock_now() < from_ns + FAULT_MS * MRAIL_NS_PER_MS) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    if (is_faulty) {
        fault_during();
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    seconds = (double)(mrail_clock_now() - from_ns) / 1e9;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    host_bytes += count_host();
    MPI_Barrier(MPI_COMM_WORLD);
    return seconds;
}

static int check(uint64_t message)
{
    if (rank != to) {
        return 1;
    }
    mrail_bench_device_copy(in.host, in.mpi, in.size);
    return mt_check(in.host, bytes, mt_seed(0, to, message));
}

static void check_counters(const mrail_bench_coll_t *coll)
{
    uint64_t counts[MRAIL_BENCH_COLL_NUM];

    mrail_bench_coll_read(coll, counts);
    MPI_Allreduce(MPI_IN_PLACE, counts, MRAIL_BENCH_COLL_NUM, MPI_UINT64_T,
                  MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("relayed %llu between %llu staged %llu bytes\n",
               (unsigned long long)counts[MRAIL_BENCH_COLL_RELAYED_BYTES],
               (unsigned long long)counts[MRAIL_BENCH_COLL_PEER_BYTES],
               (unsigned long long)counts[MRAIL_BENCH_COLL_STAGED_BYTES]);
    }
    if (fault[0] != '\0') {
        mt_result("no relay in device memory",
                  counts[MRAIL_BENCH_COLL_RELAYED_BYTES] == 0);
    }
}

static double median_of(const double values[TIMED])
{
    double low = MRAIL_MIN(values[0], values[1]);
    double high = MRAIL_MAX(values[0], values[1]);

    return MRAIL_MAX(low, MRAIL_MIN(high, values[2]));
}

/* The first exchange computes the plan and sets up relays. */
static void run(int is_rate)
{
    double times_s[TIMED] = {0};
    int ok = 1;

    for (uint64_t i = 0; i < (is_rate ? 1 + TIMED : 2); ++i) {
        double seconds = exchange(i, i == 1 && fault[0] != '\0');

        if (i > 0) {
            times_s[i - 1] = seconds;
        }
        ok &= check(i);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    mt_result("every byte is correct", ok);
    mt_result(with_kernel ? "a kernel was launched" : "no kernel was launched",
              (gpu_count(SGPU_CNT_LAUNCHES) > 0) == with_kernel);
    if (fault[0] == '\0') {
        mt_result("no byte went through host memory", host_bytes == 0);
    }
    if (rank == 0 && is_rate) {
        printf("rate %.2f MB/s launches %llu\n",
               (double)bytes / median_of(times_s) / 1e6,
               (unsigned long long)gpu_count(SGPU_CNT_LAUNCHES));
    }
}

int main(int argc, char **argv)
{
    mrail_bench_coll_t coll;
    size_t mib = 8;
    int is_rate = 0, fd;

    for (int i = 1; i < argc; ++i) {
        is_rate |= (strcmp(argv[i], "--rate") == 0);
        with_kernel |= (strcmp(argv[i], "--kernel") == 0);
        if (i + 1 < argc && strcmp(argv[i], "--mib") == 0) {
            mib = (size_t)atoi(argv[++i]);
        } else if (i + 1 < argc && strcmp(argv[i], "--to") == 0) {
            to = atoi(argv[++i]);
        } else if (i + 1 < argc && strcmp(argv[i], "--fault") == 0) {
            fault = argv[++i];
        }
    }
    bytes = mib * MIB;
    mrail_bench_device_open();
    /* The descriptor stays open: closing it would release the record lock of
     * the driver. */
    if (sgpu_session_open(getenv("MRAIL_SOFT_GPUS"), &session, &fd) != 0) {
        fprintf(stderr, "mpi_gpu_pair: no software GPUs\n");
        return 2;
    }
    MPI_Init(NULL, NULL);
    mrail_bench_coll_open(&coll);
    rank = mt_rank(MPI_COMM_WORLD);
    num = mt_size(MPI_COMM_WORLD);
    buffer_init(&out, (rank == 0) ? bytes : 1);
    buffer_init(&in, (rank == to) ? bytes : 1);
    fault_before();
    run(is_rate);
    check_counters(&coll);
    buffer_cleanup(&out);
    buffer_cleanup(&in);
    mrail_bench_coll_close(&coll);
    MPI_Finalize();
    return mt_failures != 0;
}
