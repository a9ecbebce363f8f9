/*
 * A process can connect to new peers although further lanes to one busy peer
 * use its whole QP budget. It can also connect if the busy peer has no QPs left
 * and does not call the library for a long time.
 */
#include "config.h"
#include "rail/data/rma.h"
#include "rail/engine/engine.h"
#include "rail/state/engine.h"
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 5
#define QPS 4 /* QPs of rank 0, enough for one per peer */
#define BYTES (1u << 20)
#define DEPTH 8
#define LIMIT_S 15

static void on_am(job_t *job, uint8_t am_id, const void *data, size_t length)
{
    ++*(unsigned *)job->arg;
}

static void keep_busy(job_t *job, mrail_ep_t *ep, const mrail_iov_t *iov,
                      const mrail_rkey_t *rkey, unsigned *posted)
{
    while (*posted - job->completed < DEPTH) {
        if (mrail_ep_put_zcopy(ep, iov, 1, job->shared->word[0], rkey,
                               &job->completed) != -EINPROGRESS) {
            break;
        }
        ++*posted;
    }
    mrail_iface_progress(job->iface);
}

static int busy(job_t *job)
{
    mrail_iov_t iov = {.buffer = calloc(1, BYTES), .length = BYTES};
    mrail_ep_t *ep = job_ep(job, 1);
    unsigned posted = 0, sent = 0, byte = 1;
    mrail_ns_t end;
    mrail_rkey_t *rkey;
    int failed;

    if ((mrail_mem_reg(job->engine, iov.buffer, BYTES, &iov.mem) != 0) ||
        (mrail_rkey_unpack(&job->shared->word[1], &rkey) != 0)) {
        return 1;
    }
    end = mrail_clock_now() + 5 * MRAIL_NS_PER_SEC;
    while ((ep->peer->num_up < 3) && (mrail_clock_now() < end)) {
        keep_busy(job, ep, &iov, rkey, &posted);
    }
    failed = job_result(ep->peer->num_up == 3, "one peer has three lanes", "%u",
                        ep->peer->num_up);
    end = mrail_clock_now() + LIMIT_S * MRAIL_NS_PER_SEC;
    for (unsigned i = 2; i < RANKS; ++i) {
        (void)job_ep(job, i);
    }
    while ((sent < RANKS - 2) && (mrail_clock_now() < end)) {
        keep_busy(job, ep, &iov, rkey, &posted);
        sent += (mrail_ep_am_short(job_ep(job, 2 + sent), 1, NULL, 0, &byte,
                                   sizeof(byte)) == 0);
    }
    failed |= job_result(
        sent == RANKS - 2,
        "a rank that keeps sending to one peer reaches all peers",
        "%u of %u after %u s; %llu lanes kept, %llu evicted", sent, RANKS - 2,
        LIMIT_S, (unsigned long long)job->engine->counters.lanes_kept,
        (unsigned long long)job->engine->counters.lanes_evicted);
    if (job_wait(job, &job->completed, posted, 20) != 0) {
        return 1;
    }
    mrail_rkey_release(rkey);
    mrail_mem_dereg(iov.mem);
    free(iov.buffer);
    return failed;
}

static int starve_job(job_t *job)
{
    uint8_t *memory = calloc(1, BYTES);
    unsigned received = 0;
    char text[16];
    mrail_mem_t *mem = NULL;
    int failed = 0;

    job->am = on_am;
    job->arg = &received;
    if (job->rank == 0) {
        snprintf(text, sizeof(text), "%u", QPS);
        setenv("UCX_MRAIL_MAX_QPS", text, 1);
    }
    if (job_open(job) != 0) {
        return 1;
    }
    if (job->rank == 1) {
        if (mrail_mem_reg(job->engine, memory, BYTES, &mem) != 0) {
            return 1;
        }
        job->shared->word[0] = (uintptr_t)memory;
        mrail_rkey_pack(mem, &job->shared->word[1]);
    }
    job_barrier(job, 0);
    if (job->rank == 0) {
        failed = busy(job);
    }
    job_barrier(job, 1);
    job_close(job);
    free(memory);
    return failed;
}

int main(void)
{
    int failed = job_run(RANKS, NULL, 90, starve_job);

    return job_result(failed == 0, "all processes succeed", "some failed");
}
