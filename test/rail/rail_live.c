/*
 * Tests the live bandwidth of a rail. Under load, it must be close to the
 * rail's rate. While another process uses the same rail, the bandwidth of only
 * that rail must drop, and recover afterwards. After some time without load, it
 * must be unknown.
 *
 * Rank 0 writes to ranks 1 and 2 on another node, and reads from them. Rank 3
 * runs on the node of rank 0 and writes through the first rail to rank 4 on a
 * third node. Ranks 0 and 3 share only the port of that rail.
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RATE 40e6 /* bytes per second, as set by --rate in live.sh */
#define BYTES (1u << 20)
#define PUTS 4 /* number of PUTs in flight per peer */
#define RANKS 5
#define FOREIGN 3
#define LIMIT_S 10

typedef enum phase { PHASE_IDLE, PHASE_LOAD, PHASE_END } phase_t;

typedef struct stream {
    job_t *job;
    mrail_ep_t *ep;
    mrail_iov_t iov;
    mrail_rkey_t *rkey;
    uint64_t remote;
    unsigned posted;
    unsigned completed;
} stream_t;

static unsigned node(unsigned rank)
{
    static const unsigned nodes[RANKS] = {0, 1, 1, 0, 2};

    return nodes[rank];
}

static phase_t phase_now(job_t *job)
{
    return (phase_t)__atomic_load_n(&job->shared->word[0], __ATOMIC_ACQUIRE);
}

static void phase_set(job_t *job, phase_t phase)
{
    __atomic_store_n(&job->shared->word[0], (uint64_t)phase, __ATOMIC_RELEASE);
}

/* Sleeps while waiting, which leaves the cores to the processes that
 * measure. */
static void rest(void)
{
    const struct timespec ts = {.tv_nsec = 2000000};

    nanosleep(&ts, NULL);
}

static int stream_open(stream_t *s, job_t *job, unsigned rank)
{
    memset(s, 0, sizeof(*s));
    s->job = job;
    s->iov.buffer = calloc(1, BYTES);
    s->iov.length = BYTES;
    s->ep = job_ep(job, rank);
    s->remote = job->shared->word[8 * rank + 1];
    return (mrail_mem_reg(job->engine, s->iov.buffer, BYTES, &s->iov.mem) ||
            mrail_rkey_unpack(&job->shared->word[8 * rank + 2], &s->rkey))
               ? -1
               : 0;
}

static void stream_run(stream_t *s, int is_read)
{
    int ret = 0;

    while ((ret != -EAGAIN) && (s->posted < s->completed + PUTS)) {
        ret = is_read ? mrail_ep_get_zcopy(s->ep, &s->iov, 1, s->remote,
                                           s->rkey, &s->completed)
                      : mrail_ep_put_zcopy(s->ep, &s->iov, 1, s->remote,
                                           s->rkey, &s->completed);
        s->posted += (ret == -EINPROGRESS);
        if ((ret != -EAGAIN) && (ret != -EINPROGRESS)) {
            fprintf(stderr, "stream: %s\n", strerror(-ret));
            exit(1);
        }
    }
}

static void stream_close(stream_t *s)
{
    job_wait(s->job, &s->completed, s->posted, LIMIT_S);
    mrail_rkey_release(s->rkey);
    mrail_mem_dereg(s->iov.mem);
    free(s->iov.buffer);
}

/* Loads the rails of rank 0 until the live bandwidth of each, relative to RATE,
 * stays between `low` and `high`, for at most LIMIT_S. Returns 0 if they do.
 * Stores the last values in `live`. */
static int load(stream_t *streams, unsigned count, int is_read,
                const double low[2], const double high[2], double live[2])
{
    mrail_ns_t begin = mrail_clock_now(), now_ns = begin, look_ns = begin;
    job_t *job = streams[0].job;
    mrail_rail_now_t rails[MRAIL_MAX_RAILS];
    unsigned num_in_range = 0;

    while ((num_in_range < 20) &&
           (now_ns < begin + LIMIT_S * MRAIL_NS_PER_SEC)) {
        for (unsigned i = 0; i < count; ++i) {
            stream_run(&streams[i], is_read);
        }
        mrail_iface_progress(job->iface);
        now_ns = mrail_clock_now();
        if (now_ns < look_ns) {
            continue;
        }
        look_ns = now_ns + 10 * MRAIL_NS_PER_MS;
        if (mrail_rails_now(rails) != 2) {
            return -1;
        }
        ++num_in_range;
        for (unsigned i = 0; i < 2; ++i) {
            live[i] =
                (double)(is_read ? rails[i].live_in : rails[i].live_out) / RATE;
            if ((live[i] < low[i]) || (live[i] > high[i])) {
                num_in_range = 0;
            }
        }
        if (getenv("MRAIL_TEST_TRACE") != NULL) {
            printf("# %4llu ms %.3f %.3f\n",
                   (unsigned long long)((now_ns - begin) / MRAIL_NS_PER_MS),
                   live[0], live[1]);
        }
    }
    return (num_in_range < 20) ? -1 : 0;
}

static int report(int ret, const char *name, const double live[2])
{
    return job_result(ret == 0, name, "%.2f and %.2f of the rate", live[0],
                      live[1]);
}

static int measure(job_t *job)
{
    static const double near_low[2] = {0.8, 0.8}, near_high[2] = {1.15, 1.15};
    static const double shared_low[2] = {0.3, 0.8},
                        shared_high[2] = {0.78, 1.15};
    mrail_rail_now_t rails[MRAIL_MAX_RAILS];
    stream_t streams[2];
    double live[2];
    mrail_ns_t end;
    int failed = 0;

    if (stream_open(&streams[0], job, 1) || stream_open(&streams[1], job, 2)) {
        return 1;
    }
    failed |= report(load(streams, 2, 0, near_low, near_high, live),
                     "under load, a rail delivers about its rate", live);
    phase_set(job, PHASE_LOAD);
    failed |= report(load(streams, 2, 0, shared_low, shared_high, live),
                     "a rail that another process uses delivers less", live);
    phase_set(job, PHASE_IDLE);
    failed |= report(load(streams, 2, 0, near_low, near_high, live),
                     "afterwards, the rail delivers its full rate again", live);
    failed |= report(load(streams, 2, 1, near_low, near_high, live),
                     "READs measure the other direction", live);
    failed |= report(load(streams, 1, 0, near_low, near_high, live),
                     "the rail delivers its rate with one peer", live);
    for (unsigned i = 0; i < 2; ++i) {
        stream_close(&streams[i]);
    }
    end = mrail_clock_now() + 1200 * MRAIL_NS_PER_MS;
    while (mrail_clock_now() < end) {
        rest();
    }
    mrail_rails_now(rails);
    failed |= job_result((rails[0].live_out == 0) && (rails[1].live_out == 0) &&
                             (rails[0].live_in == 0),
                         "without load, the live bandwidth is unknown",
                         "it is still known");
    phase_set(job, PHASE_END);
    return failed;
}

static int foreign(job_t *job)
{
    stream_t s;

    if (stream_open(&s, job, 4) != 0) {
        return 1;
    }
    while (phase_now(job) != PHASE_END) {
        if (phase_now(job) == PHASE_LOAD) {
            stream_run(&s, 0);
        } else {
            rest();
        }
        mrail_iface_progress(job->iface);
    }
    stream_close(&s);
    return 0;
}

static int target(job_t *job)
{
    while (phase_now(job) != PHASE_END) {
        mrail_iface_progress(job->iface);
        rest();
    }
    return 0;
}

static int live_job(job_t *job)
{
    void *memory = calloc(1, BYTES);
    mrail_mem_t *mem;
    int failed;

    if (job->rank >= FOREIGN) {
        setenv("UCX_MRAIL_DEVICES", "soft0", 1);
    }
    if ((job_open(job) != 0) ||
        (mrail_mem_reg(job->engine, memory, BYTES, &mem) != 0)) {
        return 1;
    }
    job->shared->word[8 * job->rank + 1] = (uintptr_t)memory;
    mrail_rkey_pack(mem, &job->shared->word[8 * job->rank + 2]);
    job_barrier(job, 0);
    switch (job->rank) {
    case 0:
        failed = measure(job);
        break;
    case FOREIGN:
        failed = foreign(job);
        break;
    default:
        failed = target(job);
    }
    job_close(job);
    return failed;
}

int main(void)
{
    int failed = job_run(RANKS, node, 120, live_job);

    return job_result(failed == 0, "all processes succeed", "%d failed",
                      failed);
}
