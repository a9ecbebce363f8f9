/*
 * If the rails to one peer lose all packets for a while, only that peer's
 * stream may be delayed. The other peers' streams must continue, and must not
 * run out of buffers. Afterwards the delayed stream must be complete and in
 * order.
 */
#include "config.h"
#include "rail/engine/engine.h"
#include "rail/state/engine.h"
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PEERS 4 /* the rails of rank 1 are cut */
#define BYTES 6000

typedef struct sink {
    unsigned next[PEERS + 1];
    unsigned wrong;
} sink_t;

static void on_am(job_t *job, uint8_t am_id, const void *data, size_t length)
{
    sink_t *sink = job->arg;
    const uint32_t *words = data;

    if ((length != BYTES) || (words[0] > PEERS) ||
        (words[1] != sink->next[words[0]])) {
        ++sink->wrong;
        return;
    }
    ++sink->next[words[0]];
}

static size_t pack(void *dest, void *arg)
{
    memcpy(dest, arg, 8);
    memset((char *)dest + 8, 0x5a, BYTES - 8);
    return BYTES;
}

/* Sends until word 0 is set. Returns the number of messages. */
static unsigned stream(job_t *job)
{
    mrail_ep_t *ep = job_ep(job, 0);
    uint32_t words[2] = {job->rank, 0};

    while (!__atomic_load_n(&job->shared->word[0], __ATOMIC_ACQUIRE)) {
        if (mrail_ep_am_bcopy(ep, 1, pack, words) >= 0) {
            ++words[1];
        }
        if (mrail_iface_progress(job->iface) == 0) {
            usleep(100);
        }
    }
    return words[1];
}

/* Polls the iface for `ms`. Stores in `gain` how many messages arrived from
 * each peer. */
static void serve(job_t *job, unsigned ms, unsigned *gain)
{
    mrail_ns_t end = mrail_clock_now() + ms * MRAIL_NS_PER_MS;
    sink_t *sink = job->arg;
    unsigned before[PEERS + 1];

    memcpy(before, sink->next, sizeof(before));
    while (mrail_clock_now() < end) {
        if (mrail_iface_progress(job->iface) == 0) {
            usleep(50);
        }
    }
    for (unsigned i = 1; i <= PEERS; ++i) {
        gain[i] += sink->next[i] - before[i];
    }
}

static unsigned least_of_others(const unsigned *gain)
{
    unsigned least = ~0u;

    for (unsigned i = 2; i <= PEERS; ++i) {
        least = MRAIL_MIN(least, gain[i]);
    }
    return least;
}

static int receive(job_t *job)
{
    unsigned before[PEERS + 1] = {0}, during[PEERS + 1] = {0};
    int failed;

    /* Wait until all peers are connected and sending. */
    while (least_of_others(before) < 10) {
        serve(job, 100, before);
    }
    /* The four rails of node 1 lose all packets in both directions. */
    failed = (job_soft_ctl("--node 1 loss=1000000") != 0);
    serve(job, 50, before);
    /* The cut is usually much shorter than the time until a QP fails, but a
     * busy machine needs longer. */
    for (int i = 0; (i < 10) && (least_of_others(during) < 10); ++i) {
        serve(job, 250, during);
    }
    failed |= (job_soft_ctl("--node 1 loss=0") != 0);
    failed =
        job_result(!failed, "the rails can be cut", "mrail soft ctl failed");
    printf(
        "# while cut: %u from the cut peer, at least %u from each other peer\n",
        during[1], least_of_others(during));
    failed |= job_result(during[1] == 0, "no message arrives from the cut peer",
                         "%u arrived", during[1]);
    failed |= job_result(
        least_of_others(during) >= 10, "other peers' streams continue",
        "one delivered only %u messages", least_of_others(during));
    __atomic_store_n(&job->shared->word[0], 1, __ATOMIC_RELEASE);
    return failed;
}

static int blocked_job(job_t *job)
{
    sink_t *sink = calloc(1, sizeof(*sink));
    mrail_ns_t end;
    unsigned good = 0;
    int failed = 0;

    job->am = on_am;
    job->arg = sink;
    if (job_open(job) != 0) {
        return 1;
    }
    if (job->rank == 0) {
        failed = receive(job);
    } else {
        job->shared->word[job->rank] = stream(job);
        failed = job_flush(job, job_ep(job, 0)) != 0;
        __atomic_add_fetch(&job->shared->word[10], 1, __ATOMIC_RELEASE);
    }
    end = mrail_clock_now() + 20 * MRAIL_NS_PER_SEC;
    while (
        (__atomic_load_n(&job->shared->word[10], __ATOMIC_ACQUIRE) < PEERS) &&
        (mrail_clock_now() < end)) {
        mrail_iface_progress(job->iface);
    }
    if (job->rank == 0) {
        for (unsigned i = 1; i <= PEERS; ++i) {
            good += (sink->next[i] == job->shared->word[i]);
        }
        failed |=
            job_result((good == PEERS) && (sink->wrong == 0),
                       "afterwards every stream is complete and in order",
                       "%u of %u complete, %u wrong", good, PEERS, sink->wrong);
    }
    job_close(job);
    return failed;
}

static unsigned node(unsigned rank)
{
    return (rank == 1) ? 1 : 0;
}

int main(void)
{
    int failed = job_run(PEERS + 1, node, 60, blocked_job);

    return job_result(failed == 0, "all processes succeed", "%d failed",
                      failed);
}
