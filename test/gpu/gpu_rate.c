/*
 * Tests link rates with copies that should take 10 ms, and with processes that
 * share a link. rates.sh has the limits.
 *
 * usage: gpu_rate [PROCESSES]: each process copies from device 0 to device 1,
 * all at the same time. Writes the times in microseconds.
 */
#include "config.h"
#include "gpu_test.h"

#include "base/clock.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <stdatomic.h>
#include <unistd.h>

#define SIZE 2400000u /* 10 ms at 240 MB/s */
#define COPIES 20

typedef struct shared {
    atomic_uint arrived;
} shared_t;

static CUdeviceptr from, to;
static CUstream stream;

/* Returns the time of consecutive copies, in microseconds. */
static double copies_us(unsigned num)
{
    mrail_ns_t start_ns = mrail_clock_now();

    for (unsigned i = 0; i < num; ++i) {
        cuMemcpyDtoDAsync(to, from, SIZE, stream);
    }
    cuStreamSynchronize(stream);
    return (double)(mrail_clock_now() - start_ns) / 1000;
}

static int run(shared_t *shared, unsigned num_procs)
{
    CUcontext other = gpu_use(1);
    int has_link;

    CU(cuDeviceCanAccessPeer(&has_link, 0, 1));
    CU(cuMemAlloc(&to, SIZE));
    gpu_use(0);
    CU(cuMemAlloc(&from, SIZE));
    if (has_link) {
        CU(cuCtxEnablePeerAccess(other, 0));
    }
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemsetD8Async(from, 1, SIZE, stream));
    (void)copies_us(1); /* touches all pages */
    atomic_fetch_add(&shared->arrived, 1);
    while (atomic_load(&shared->arrived) != num_procs) {
        usleep(100);
    }
    /* One process: single copies. Several processes: many consecutive
     * copies. */
    for (unsigned i = 0; i < ((num_procs == 1) ? COPIES : 1); ++i) {
        printf("%.0f\n", copies_us((num_procs == 1) ? 1 : COPIES));
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned procs = (argc > 1) ? (unsigned)atoi(argv[1]) : 1;
    shared_t *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed = 0, status;

    for (unsigned i = 0; i < procs; ++i) {
        if (fork() == 0) {
            int ret = run(shared, procs);

            fflush(stdout);
            _exit(ret != 0);
        }
    }
    while (wait(&status) > 0) {
        failed |= (status != 0);
    }
    return failed;
}
