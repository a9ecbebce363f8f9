/*
 * Two ifaces of one process, on two threads, share its lanes, as two UCX
 * contexts do. Every message must reach its own iface, in order, in that
 * iface's own progress call. PUTs and GETs of both ifaces must complete.
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 2
#define MESSAGES 3000
#define BLOCK 65536

typedef struct worker {
    job_t *job;
    unsigned index;
    pthread_t self;
    mrail_iface_t *iface;
    mrail_ep_t *ep;
    unsigned next; /* next expected message */
    unsigned wrong;
    unsigned done; /* completions */
    unsigned failed;
    /* BLOCK bytes for the peer's PUTs, followed by BLOCK bytes for this
     * worker. */
    uint8_t *memory;
    mrail_mem_t *mem;
    mrail_rkey_t *rkey;
} worker_t;

/* The information that processes exchange, per rank and worker. */
typedef struct conn_info {
    uint8_t addr[MRAIL_IFACE_ADDR_MAX];
    uint8_t key[128];
    uint64_t memory;
} conn_info_t;

static conn_info_t (
    *conn_infos)[THREADS]; /* [rank][worker], in shared memory */

static void on_am(void *arg, uint8_t am_id, void *data, size_t length)
{
    worker_t *w = arg;
    unsigned number;

    memcpy(&number, data, sizeof(number));
    w->wrong += (am_id != w->index) || (number != w->next) ||
                !pthread_equal(w->self, pthread_self());
    ++w->next;
}

static void on_complete(void *arg, void *comp, int status)
{
    worker_t *w = arg;

    w->failed += (status != 0);
    w->wrong += !pthread_equal(w->self, pthread_self());
    ++w->done;
}

static void progress(worker_t *w)
{
    if (mrail_iface_progress(w->iface) == 0) {
        sched_yield();
    }
}

static void wait_done(worker_t *w, unsigned wanted)
{
    while (w->done < wanted) {
        progress(w);
    }
}

/* Makes one PUT to the peer, and one GET that reads the same data back. */
static void round_trip(worker_t *w, unsigned round)
{
    const conn_info_t *peer = &conn_infos[!w->job->rank][w->index];
    uint8_t *ours = w->memory + BLOCK;
    mrail_iov_t iov = {ours, BLOCK, w->mem};
    unsigned wanted = w->done + 1;
    int ret;

    memset(ours, (int)(round + w->index * 16 + w->job->rank), BLOCK);
    while ((ret = mrail_ep_put_zcopy(w->ep, &iov, 1, peer->memory, w->rkey,
                                     w)) == -EAGAIN) {
        progress(w);
    }
    wait_done(w, wanted);
    while ((ret = mrail_ep_flush(w->ep, w)) == -EAGAIN) {
        progress(w);
    }
    if (ret == -EINPROGRESS) {
        wait_done(w, ++wanted);
    }
    memset(ours, 0, BLOCK);
    ++wanted;
    while ((ret = mrail_ep_get_zcopy(w->ep, &iov, 1, peer->memory, w->rkey,
                                     w)) == -EAGAIN) {
        progress(w);
    }
    wait_done(w, wanted);
    for (unsigned i = 0; i < BLOCK; ++i) {
        w->wrong +=
            (ours[i] != (uint8_t)(round + w->index * 16 + w->job->rank));
    }
}

static void *work(void *arg)
{
    worker_t *w = arg;

    w->self = pthread_self();
    for (unsigned i = 0; i < MESSAGES; ++i) {
        while (mrail_ep_am_short(w->ep, (uint8_t)w->index, NULL, 0, &i,
                                 sizeof(i)) == -EAGAIN) {
            progress(w);
        }
        if (i % 100 == 99) {
            round_trip(w, i / 100);
        }
    }
    while (w->next < MESSAGES) {
        progress(w);
    }
    /* The peer's last operations may need replies from this process, so it
     * polls until all processes have finished. */
    __atomic_add_fetch(&w->job->shared->word[0], 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&w->job->shared->word[0], __ATOMIC_ACQUIRE) <
           2 * THREADS) {
        progress(w);
    }
    return NULL;
}

static int open_worker(worker_t *w)
{
    const mrail_iface_params_t params = {
        .arg = w, .am = on_am, .complete = on_complete};
    conn_info_t *conn_info = &conn_infos[w->job->rank][w->index];

    w->memory = calloc(2, BLOCK);
    if ((mrail_iface_create(w->job->engine, &params, &w->iface) != 0) ||
        (mrail_mem_reg(w->job->engine, w->memory, 2 * BLOCK, &w->mem) != 0)) {
        return 1;
    }
    mrail_iface_addr_pack(w->iface, conn_info->addr);
    mrail_rkey_pack(w->mem, conn_info->key);
    conn_info->memory = (uintptr_t)w->memory;
    return 0;
}

static int threads_job(job_t *job)
{
    pthread_t threads[THREADS];
    worker_t w[THREADS] = {{0}};
    int failed = 0;

    conn_infos = (void *)&job->shared->iface_addr[8];
    if (job_open(job) != 0) {
        return 1;
    }
    for (unsigned i = 0; i < THREADS; ++i) {
        w[i].job = job;
        w[i].index = i;
        if (open_worker(&w[i]) != 0) {
            return 1;
        }
    }
    job_barrier(job, 0);
    for (unsigned i = 0; i < THREADS; ++i) {
        const conn_info_t *peer = &conn_infos[!job->rank][i];

        if ((mrail_ep_create(w[i].iface, job->shared->device_addr[!job->rank],
                             peer->addr, NULL, &w[i].ep) != 0) ||
            (mrail_rkey_unpack(peer->key, &w[i].rkey) != 0)) {
            return 1;
        }
    }
    for (unsigned i = 0; i < THREADS; ++i) {
        pthread_create(&threads[i], NULL, work, &w[i]);
    }
    for (unsigned i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
        failed |= (w[i].wrong != 0) || (w[i].failed != 0);
        if (failed) {
            printf("# rank %u worker %u: %u wrong, %u failed\n", job->rank, i,
                   w[i].wrong, w[i].failed);
        }
        mrail_rkey_release(w[i].rkey);
        mrail_ep_destroy(w[i].ep);
        mrail_iface_destroy(w[i].iface);
        mrail_mem_dereg(w[i].mem);
        free(w[i].memory);
    }
    job_close(job);
    return failed;
}

int main(void)
{
    int failed = job_run(2, NULL, 100, threads_job);

    return job_result(failed == 0, "two ifaces on two threads share the lanes",
                      "%d processes failed", failed);
}
