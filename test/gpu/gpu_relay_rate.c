/*
 * Measures the rate between two devices of a node over several paths: direct,
 * and over relays on other devices. Processes share devices if there are too
 * few.
 *
 * usage: gpu_relay_rate PATHS MIB [copy|kernel]: The first path is the direct
 * one; each further path has a relay. Copy engines copy (copy), or the relay
 * kernel. With 0 paths, the rate is that of cuMemcpyDtoD within device 0.
 * Writes MB/s.
 */
#include "config.h"
#include "gpu_test.h"
#include "relay_job.h"

#include "base/clock.h"
#include "base/util.h"

/* Copies within device 0, and returns the best of three times in seconds. */
static double plain_copy(uint64_t bytes)
{
    double best = 0;
    CUdeviceptr to, from;

    gpu_use(0);
    if ((cuMemAlloc(&to, bytes) != CUDA_SUCCESS) ||
        (cuMemAlloc(&from, bytes) != CUDA_SUCCESS)) {
        fprintf(stderr, "gpu_relay_rate: out of device memory\n");
        exit(1);
    }
    for (unsigned i = 0; i < 4; ++i) {
        mrail_ns_t start_ns = mrail_clock_now();
        double seconds;

        cuMemcpyDtoD(to, from, bytes);
        cuCtxSynchronize();
        seconds = (double)(mrail_clock_now() - start_ns) / 1e9;
        if ((i == 1) || ((i > 1) && (seconds < best))) {
            best = seconds; /* the first copy touches the pages */
        }
    }
    return best;
}

int main(int argc, char **argv)
{
    relay_job_t job = {.num_ranks = JOB_RANKS,
                       .out_slots = 16,
                       .in_slots = 1,
                       .chunk = (size_t)128 << 10,
                       .num_exchanges = 3,
                       .has_no_checks = 1};
    relay_job_result_t results[JOB_RANKS];
    unsigned paths = (argc >= 3) ? (unsigned)atoi(argv[1]) : 0;
    uint64_t bytes = (argc >= 3) ? (uint64_t)atoi(argv[2]) << 20 : 0;
    uint64_t share;

    if ((paths > 3) || (bytes == 0)) {
        fprintf(stderr, "usage: gpu_relay_rate PATHS MIB [copy|kernel]\n");
        return 2;
    }
    if (paths == 0) {
        printf("%.1f\n", (double)bytes / 1e6 / plain_copy(bytes));
        return 0;
    }
    job.with_kernel = (argc == 4) && (strcmp(argv[3], "kernel") == 0);
    share = bytes / paths;
    for (unsigned i = 0; i < paths; ++i) {
        job.flows[job.num_flows++] = (mrail_relay_flow_t){
            .from = 0,
            .to = 1,
            .relay_out = (i == 0) ? MRAIL_RELAY_NONE : 1 + i,
            .relay_in = MRAIL_RELAY_NONE,
            .offset = i * share,
            .bytes = (i + 1 < paths) ? share : bytes - i * share};
    }
    if (relay_job_run(&job, results) != 0) {
        return 1;
    }
    printf("%.1f\n", (double)bytes / 1e6 /
                         MRAIL_MAX(results[0].seconds, results[1].seconds));
    return 0;
}
