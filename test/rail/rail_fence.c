/*
 * Sends PUTs on four rails and then an active message, while one rail of the
 * target makes WRITEs visible only 30 ms after acknowledging them. With a fence
 * or a flush, the receiver must never see the message before the data. Without
 * either, it does see the message first, which proves that the rail is late.
 */
#include "config.h"
#include "rail/data/rma.h"
#include "rail/engine/engine.h"
#include "rail/state/engine.h"
#include "job.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (1 << 20)
#define ROUNDS 12

typedef enum order { ORDER_NONE, ORDER_FENCE, ORDER_FLUSH, ORDERS } order_t;

typedef struct target {
    uint8_t *memory;
    unsigned stale[ORDERS]; /* messages that arrived before their data */
    unsigned rounds;
} target_t;

typedef struct mark {
    uint32_t order;
    uint32_t value;
} mark_t;

static void on_am(job_t *job, uint8_t am_id, const void *data, size_t length)
{
    target_t *target = job->arg;
    const mark_t *mark = data;
    int stale = 0;

    for (size_t i = 0; i < BYTES; ++i) {
        stale |= (target->memory[i] != (uint8_t)mark->value);
    }
    target->stale[mark->order] += (unsigned)stale;
    ++target->rounds;
    __atomic_store_n(&job->shared->word[2], mark->value, __ATOMIC_RELEASE);
}

static void put(job_t *job, mrail_ep_t *ep, const mrail_iov_t *iov,
                const mrail_rkey_t *rkey, int wait)
{
    unsigned wanted = job->completed + 1;

    while (mrail_ep_put_zcopy(ep, iov, 1, job->shared->word[1], rkey,
                              &job->completed) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    while (wait && (job->completed < wanted)) {
        mrail_iface_progress(job->iface);
    }
}

static void one_round(job_t *job, mrail_ep_t *ep, const mrail_iov_t *iov,
                      const mrail_rkey_t *rkey, order_t order, unsigned value)
{
    mark_t mark = {order, value};

    memset(iov->buffer, (int)value, BYTES);
    put(job, ep, iov, rkey, order == ORDER_NONE);
    if (order == ORDER_FENCE) {
        while (mrail_ep_fence(ep) == -EAGAIN) {
            mrail_iface_progress(job->iface);
        }
    } else if (order == ORDER_FLUSH) {
        job_flush(job, ep);
    }
    while (mrail_ep_am_short(ep, 1, NULL, 0, &mark, sizeof(mark)) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    /* The receiver must have checked the data before the next round changes
     * it. */
    while (__atomic_load_n(&job->shared->word[2], __ATOMIC_ACQUIRE) != value) {
        if (mrail_iface_progress(job->iface) == 0) {
            sched_yield();
        }
    }
}

static int source(job_t *job)
{
    mrail_ep_t *ep = job_ep(job, 1);
    mrail_iov_t iov = {.buffer = malloc(BYTES), .length = BYTES};
    mrail_rkey_t *rkey;
    unsigned value = 0;
    char words[64];

    if ((mrail_mem_reg(job->engine, iov.buffer, BYTES, &iov.mem) != 0) ||
        (mrail_rkey_unpack(&job->shared->word[8], &rkey) != 0)) {
        return 1;
    }
    do { /* repeats until all rails have lanes */
        put(job, ep, &iov, rkey, 1);
    } while ((ep->peer->num_up == 0) ||
             (ep->peer->num_up < ep->peer->num_slots));
    job_flush(job, ep);
    /* Delays a rail that does not carry the messages, because a message makes
     * earlier WRITEs on the same rail visible. */
    snprintf(words, sizeof(words), "--node 1 --rail %u write_delay=30000us",
             (ep->peer->up[0]->rail->index + 2) % 4);
    if (job_soft_ctl(words) != 0) {
        return job_result(0, "a rail can be delayed", "mrail soft ctl failed");
    }
    for (unsigned i = 0; i < ROUNDS; ++i) {
        for (order_t order = ORDER_NONE; order < ORDERS; ++order) {
            value = 1 + (value % 200);
            one_round(job, ep, &iov, rkey, order, value);
            /* Otherwise, late WRITEs from this round could change the data of
             * the next one. */
            job_flush(job, ep);
        }
    }
    __atomic_store_n(&job->shared->word[0], 1, __ATOMIC_RELEASE);
    mrail_rkey_release(rkey);
    mrail_mem_dereg(iov.mem);
    free(iov.buffer);
    return 0;
}

static int sink(job_t *job)
{
    target_t *target = job->arg;
    int failed;

    while (!__atomic_load_n(&job->shared->word[0], __ATOMIC_ACQUIRE)) {
        if (mrail_iface_progress(job->iface) == 0) {
            sched_yield();
        }
    }
    printf("# stale of %u: %u without order, %u fenced, %u flushed\n", ROUNDS,
           target->stale[ORDER_NONE], target->stale[ORDER_FENCE],
           target->stale[ORDER_FLUSH]);
    failed = job_result(
        target->stale[ORDER_NONE] > 0, "the delayed rail is late",
        "no message overtook its data, so the other checks prove nothing");
    failed |= job_result(target->stale[ORDER_FENCE] == 0,
                         "no message is seen before fenced data", "%u of %u",
                         target->stale[ORDER_FENCE], ROUNDS);
    failed |= job_result(target->stale[ORDER_FLUSH] == 0,
                         "no message is seen before flushed data", "%u of %u",
                         target->stale[ORDER_FLUSH], ROUNDS);
    return failed | (target->rounds != 3 * ROUNDS);
}

static int fence_job(job_t *job)
{
    target_t *target = calloc(1, sizeof(*target));
    mrail_mem_t *mem = NULL;
    int failed;

    job->am = on_am;
    job->arg = target;
    if (job_open(job) != 0) {
        return 1;
    }
    if (job->rank == 1) {
        target->memory = calloc(1, BYTES);
        if (mrail_mem_reg(job->engine, target->memory, BYTES, &mem) != 0) {
            return 1;
        }
        job->shared->word[1] = (uintptr_t)target->memory;
        mrail_rkey_pack(mem, &job->shared->word[8]);
    }
    job_barrier(job, 0);
    failed = (job->rank == 0) ? source(job) : sink(job);
    job_close(job);
    return failed;
}

static unsigned node(unsigned rank)
{
    return rank;
}

int main(void)
{
    int failed = job_run(2, node, 60, fence_job);

    return job_result(failed == 0, "both processes succeed", "%d failed",
                      failed);
}
