/*
 * A peer that computes outside the library for ten seconds must still answer
 * connection requests and probes within 10 ms (median). Because a busy machine
 * slows down every process, the test alternates between a peer that polls and
 * one that computes. It also compares the time of each probe with that of a
 * thread that only wakes up and answers. A probe may take a few times as long.
 */
#include "config.h"
#include "rail/engine/engine.h"
#include "rail/state/engine.h"
#include "job.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_MS 10.0
#define LATE_MS 250.0
#define CONNECTS 5
#define PROBE_WAKES 5   /* thread wakeups of a probe; an echo needs two */
#define CONNECT_TIMES 3 /* limit, relative to a peer that polls */

static int echo_fds[2]; /* sockets to and from the thread that answers */
static int peer_polls;  /* 1 if the peer polls, 0 if it computes */
static double *took_ms; /* time of the last connection, in shared memory */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void *answer(void *arg)
{
    char byte;

    while (read(echo_fds[1], &byte, 1) == 1) {
        (void)!write(echo_fds[1], &byte, 1);
    }
    return NULL;
}

/* Returns the time that it takes to wake a thread of the peer. The measuring
 * process polls, as the library does. */
static double echo_ms(job_t *job)
{
    mrail_ns_t start = mrail_clock_now();
    char byte = 0;

    (void)!write(echo_fds[0], &byte, 1);
    while (recv(echo_fds[0], &byte, 1, MSG_DONTWAIT) != 1) {
        mrail_iface_progress(job->iface);
    }
    return (double)(mrail_clock_now() - start) / 1e6;
}

static double limit_ms(double least_ms, double times, double ms)
{
    return (times * ms > least_ms) ? times * ms : least_ms;
}

/* Computes until word 0 is set. */
static void compute(job_t *job)
{
    volatile double x = 1;
    pthread_t thread;

    if (pthread_create(&thread, NULL, answer, NULL) != 0) {
        exit(1);
    }
    while (!__atomic_load_n(&job->shared->word[0], __ATOMIC_ACQUIRE)) {
        if (peer_polls) {
            mrail_iface_progress(job->iface);
            continue;
        }
        for (int i = 0; i < 100000; ++i) {
            x = x * 1.0000001 + 1e-9;
        }
    }
}

static double connect_ms(job_t *job)
{
    mrail_ep_t *ep = job_ep(job, 1);
    mrail_ns_t start = mrail_clock_now();
    const char text[8] = "hello";

    while (mrail_ep_am_short(ep, 1, NULL, 0, text, sizeof(text)) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    return (double)(mrail_clock_now() - start) / 1e6;
}

static int connect_job(job_t *job)
{
    if (job_open(job) != 0) {
        return 1;
    }
    if (job->rank == 0) {
        usleep(100000); /* by then, the peer computes */
        *took_ms = connect_ms(job);
        __atomic_store_n(&job->shared->word[0], 1, __ATOMIC_RELEASE);
    } else {
        compute(job);
    }
    job_close(job);
    return 0;
}

/* Compares the median for a peer that computes with the median for one that
 * polls. */
static int connect_both(void)
{
    double ms[2][CONNECTS], limit;
    int failed = 0;

    for (int i = 0; i < 2 * CONNECTS; ++i) {
        peer_polls = i % 2;
        *took_ms = 1e9;
        failed |= (job_run(2, NULL, 30, connect_job) != 0);
        ms[peer_polls][i / 2] = *took_ms;
    }
    peer_polls = 0;
    qsort(ms[0], CONNECTS, sizeof(ms[0][0]), compare);
    qsort(ms[1], CONNECTS, sizeof(ms[1][0]), compare);
    printf("# connect: median %.2f ms, with a peer that polls %.2f ms\n",
           ms[0][CONNECTS / 2], ms[1][CONNECTS / 2]);
    limit = limit_ms(LIMIT_MS, CONNECT_TIMES, ms[1][CONNECTS / 2]);
    return job_result(!failed && (ms[0][CONNECTS / 2] <= limit),
                      "a peer that computes is connected within 10 ms",
                      "median %.2f ms; limit %.2f ms", ms[0][CONNECTS / 2],
                      limit);
}

static double probe_ms(job_t *job, mrail_ep_t *ep)
{
    mrail_ns_t start = mrail_clock_now();

    if (mrail_ep_check(ep) != 0) {
        return 1e9;
    }
    while (__atomic_load_n(&ep->peer->probe_tries, __ATOMIC_ACQUIRE) != 0) {
        mrail_iface_progress(job->iface);
        if (mrail_clock_now() - start > MRAIL_NS_PER_SEC) {
            break;
        }
    }
    return (double)(mrail_clock_now() - start) / 1e6;
}

static int probe_and_report(job_t *job)
{
    double ms[20], echo[20], limit;
    int failed;

    connect_ms(job);
    for (int i = 0; i < 20; ++i) {
        usleep(500000);
        echo[i] = echo_ms(job);
        ms[i] = probe_ms(job, job_ep(job, 1));
    }
    qsort(ms, 20, sizeof(ms[0]), compare);
    qsort(echo, 20, sizeof(echo[0]), compare);
    printf("# probe: median %.2f ms, max %.2f ms, over 10 s; echo %.2f, %.2f\n",
           ms[10], ms[19], echo[10], echo[19]);
    limit = limit_ms(LIMIT_MS, PROBE_WAKES, echo[10]);
    failed =
        job_result(ms[10] <= limit,
                   "a peer that computes for 10 s answers probes within 10 ms",
                   "median %.2f ms; limit %.2f ms", ms[10], limit);
    /* If the control thread were not woken, it would read the socket up to a
     * second later. */
    limit = limit_ms(LATE_MS, PROBE_WAKES, echo[19]);
    return failed |
           job_result(ms[19] <= limit, "every probe is answered in time",
                      "one took %.2f ms; limit %.2f ms", ms[19], limit);
}

static int probe_job(job_t *job)
{
    int failed = 0;

    if (job_open(job) != 0) {
        return 1;
    }
    if (job->rank == 0) {
        failed = probe_and_report(job);
        __atomic_store_n(&job->shared->word[0], 1, __ATOMIC_RELEASE);
    } else {
        compute(job);
    }
    job_close(job);
    return failed;
}

int main(void)
{
    int failed;

    took_ms = mmap(NULL, sizeof(*took_ms), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((took_ms == MAP_FAILED) ||
        (socketpair(AF_UNIX, SOCK_STREAM, 0, echo_fds) != 0)) {
        perror("set-up");
        return 1;
    }
    failed = connect_both();
    failed |= (job_run(2, NULL, 40, probe_job) != 0);
    return failed;
}
