/*
 * Tests two attacks by a peer or an external host. The first puts the control
 * channel's QP into the error state. The second writes to the engine's send
 * buffers with a guessed key.
 */
#include "config.h"
#include "rail/data/rma.h"
#include "rail/engine/engine.h"
#include "rail/state/engine.h"
#include "rail/state/op.h"
#include "job.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned received;

static void on_am(job_t *job, uint8_t am_id, const void *data, size_t length)
{
    ++received;
}

static void no_log(mrail_log_level_t level, const char *file, unsigned line,
                   const char *text)
{
}

/* Breaks all control QPs of this process, as a failing device would. */
static void break_control(job_t *job)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    pthread_mutex_lock(&job->engine->ctl_lock);
    for (unsigned i = 0; i < job->engine->num_rails; ++i) {
        ibv_modify_qp(job->engine->rails[i].ud_qp, &attr, IBV_QP_STATE);
    }
    pthread_mutex_unlock(&job->engine->ctl_lock);
}

static int victim(job_t *job)
{
    mrail_tx_t *tx;
    int failed;

    break_control(job);
    tx = mrail_tx_get(&job->engine->tx_small);
    memset(tx->hdr, 0x11, 64);
    mrail_rkey_pack(tx->mem, &job->shared->word[8]);
    job->shared->word[1] = (uintptr_t)tx->hdr;
    job_barrier(job, 1); /* the control QPs are broken, and the key is known */
    failed = job_result(job_wait(job, &received, 1, 20) == 0,
                        "a control channel in error is set up again",
                        "no message within 20 s");
    while (__atomic_load_n(&job->shared->word[2], __ATOMIC_ACQUIRE) == 0) {
        mrail_iface_progress(job->iface);
    }
    for (unsigned i = 0; i < 64; ++i) {
        if (((const uint8_t *)tx->hdr)[i] != 0x11) {
            return failed | job_result(0, "peers cannot write to send buffers",
                                       "byte %u was written to", i);
        }
    }
    return failed | job_result(1, "peers cannot write to send buffers", "-");
}

static int attacker(job_t *job)
{
    unsigned done = 0;
    mrail_rkey_t *rkey;
    mrail_iov_t iov;
    uint8_t *data;
    int ret;

    job_barrier(job, 1);
    while ((ret = mrail_ep_am_short(job_ep(job, 0), 1, NULL, 0, NULL, 0)) ==
           -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    job_flush(job, job_ep(job, 0));
    data = calloc(1, 4096);
    if ((ret != 0) || (mrail_mem_reg(job->engine, data, 4096, &iov.mem) != 0) ||
        (mrail_rkey_unpack(&job->shared->word[8], &rkey) != 0)) {
        return 1;
    }
    /* otherwise, the failure of the lane would be logged */
    mrail_log_set(no_log, MRAIL_LOG_ERROR);
    iov.buffer = data;
    iov.length = 64;
    ret = mrail_ep_put_zcopy(job_ep(job, 0), &iov, 1, job->shared->word[1],
                             rkey, &done);
    ret = (ret == -EINPROGRESS) ? job_wait(job, &done, 1, 20) : 1;
    __atomic_store_n(&job->shared->word[2], 1, __ATOMIC_RELEASE);
    return ret | job_result(job->failed == 1, "such a write fails",
                            "%u failures", job->failed);
}

static int harden_job(job_t *job)
{
    int failed;

    job->am = on_am;
    if (job_open(job) != 0) {
        return 1;
    }
    failed = (job->rank == 0) ? victim(job) : attacker(job);
    fflush(NULL);
    /* Each process has declared the other failed, so an orderly close is
     * impossible. */
    _exit(failed);
}

int main(void)
{
    int failed = job_run(2, NULL, 60, harden_job);

    return job_result(failed == 0, "all processes succeed", "%d failed",
                      failed);
}
