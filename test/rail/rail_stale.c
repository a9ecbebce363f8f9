/*
 * Tests late and unrequested input: messages for an iface whose slot now
 * belongs to another, and replies to probes that were never sent. The test also
 * checks that the control thread releases a peer that the progress thread has
 * given up.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/engine/engine.h"
#include "rail/proto/wire.h"
#include "rail/state/engine.h"
#include "job.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_S 20

/* Words of the shared page, which hold the state of the test. */
enum { STEP, FIRST_GOT };

static unsigned second_got; /* messages that reached the second iface */

static uint64_t word(job_t *job, unsigned index)
{
    return __atomic_load_n(&job->shared->word[index], __ATOMIC_ACQUIRE);
}

static int wait_word(job_t *job, unsigned index, uint64_t value)
{
    mrail_ns_t end = mrail_clock_now() + LIMIT_S * MRAIL_NS_PER_SEC;

    while (word(job, index) < value) {
        if (mrail_clock_now() > end) {
            return -1;
        }
        if (mrail_iface_progress(job->iface) == 0) {
            usleep(50);
        }
    }
    return 0;
}

static void set_word(job_t *job, unsigned index, uint64_t value)
{
    __atomic_store_n(&job->shared->word[index], value, __ATOMIC_RELEASE);
}

static void on_first(void *arg, uint8_t am_id, void *data, size_t length)
{
    job_t *job = arg;

    set_word(job, FIRST_GOT, word(job, FIRST_GOT) + 1);
}

static void on_second(void *arg, uint8_t am_id, void *data, size_t length)
{
    ++second_got;
}

static void on_complete(void *arg, void *comp, int status)
{
}

static int make_iface(job_t *job,
                      void (*am)(void *arg, uint8_t am_id, void *data,
                                 size_t length),
                      mrail_iface_t **iface_p)
{
    const mrail_iface_params_t params = {
        .arg = job, .am = am, .complete = on_complete};

    return mrail_iface_create(job->engine, &params, iface_p);
}

/* Rank 0 creates an iface, replaces it with another, and checks which one
 * receives messages. */
static int target(job_t *job)
{
    const mrail_counters_t *counters = &job->engine->counters;
    mrail_ns_t end = mrail_clock_now() + LIMIT_S * MRAIL_NS_PER_SEC;
    mrail_iface_t *iface;
    int failed;

    if (make_iface(job, on_first, &iface) != 0) {
        return 1;
    }
    /* Rank 2 does not exist. Its entry stores the address of this iface. */
    mrail_iface_addr_pack(iface, job->shared->iface_addr[2]);
    memcpy(job->shared->device_addr[2], job->shared->device_addr[0],
           sizeof(job->shared->device_addr[0]));
    set_word(job, STEP, 1);
    while ((word(job, FIRST_GOT) == 0) && (mrail_clock_now() < end)) {
        mrail_iface_progress(iface);
    }
    failed = job_result(word(job, FIRST_GOT) == 1,
                        "an iface receives its message", "it did not");
    mrail_iface_destroy(iface);
    if (make_iface(job, on_second, &iface) != 0) {
        return 1;
    }
    set_word(job, STEP, 2);
    while ((counters->rx_no_iface == 0) && (second_got == 0) &&
           (mrail_clock_now() < end)) {
        mrail_iface_progress(iface);
    }
    failed |=
        job_result((second_got == 0) && (counters->rx_no_iface == 1),
                   "a message for a destroyed iface reaches no other iface",
                   "the next iface received %u, %llu were counted", second_got,
                   (unsigned long long)counters->rx_no_iface);
    mrail_iface_destroy(iface);
    return failed;
}

static int send_one(job_t *job, unsigned rank)
{
    int ret;

    while ((ret = mrail_ep_am_short(job_ep(job, rank), 1, NULL, 0, &rank,
                                    sizeof(rank))) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    return ret;
}

static mrail_peer_t *only_peer(job_t *job)
{
    mrail_engine_t *engine = job->engine;

    if (!mrail_list_empty(&engine->peers)) {
        return mrail_list_head(&engine->peers, mrail_peer_t, list);
    }
    return NULL;
}

/* Delivers a reply to a probe. The caller holds the control lock. */
static void forge_answer(job_t *job, const mrail_peer_t *peer, uint32_t seq)
{
    const mrail_ctl_msg_t msg = {.type = MRAIL_CTL_PROBE_REP,
                                 .seq = seq,
                                 .dst_cookie = job->engine->cookie,
                                 .src_cookie = peer->cookie,
                                 .src_id = peer->id};
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    int length = mrail_ctl_encode(&msg, buf, sizeof(buf));

    mrail_ctl_receive(job->engine, &job->engine->rails[0], buf, (size_t)length);
}

static int probes(job_t *job, mrail_peer_t *peer)
{
    uint64_t unexpected;
    unsigned after_wrong, after_right;

    pthread_mutex_lock(&job->engine->ctl_lock);
    unexpected = job->engine->counters.ctl_unexpected;
    peer->probe_tries = 3;
    peer->probe_request = 77;
    forge_answer(job, peer, 76);
    after_wrong = peer->probe_tries;
    unexpected = job->engine->counters.ctl_unexpected - unexpected;
    forge_answer(job, peer, 77);
    after_right = peer->probe_tries;
    pthread_mutex_unlock(&job->engine->ctl_lock);
    return job_result(
        (after_wrong == 3) && (unexpected == 1) && (after_right == 0),
        "only the answer to its own probe proves that a peer is alive",
        "%u attempts after another answer, %u after its own", after_wrong,
        after_right);
}

static int given_up(job_t *job, mrail_peer_t *peer)
{
    mrail_ns_t end = mrail_clock_now() + LIMIT_S * MRAIL_NS_PER_SEC;
    mrail_peer_state_t state;
    int lane_state;

    pthread_mutex_lock(&job->engine->ctl_lock);
    mrail_ctl_peer_failed(peer, -ECONNRESET);
    pthread_mutex_unlock(&job->engine->ctl_lock);
    do {
        mrail_iface_progress(job->iface);
        pthread_mutex_lock(&job->engine->ctl_lock);
        state = peer->state;
        lane_state = peer->lanes[0]->state;
        pthread_mutex_unlock(&job->engine->ctl_lock);
    } while ((state != MRAIL_PEER_GONE) && (mrail_clock_now() < end));
    return job_result((state == MRAIL_PEER_GONE) &&
                          (lane_state == MRAIL_LANE_FAILED),
                      "the control thread releases a peer that was given up",
                      "state %d, lane %d", state, lane_state);
}

static int source(job_t *job)
{
    mrail_peer_t *peer;
    int failed;

    failed = (wait_word(job, STEP, 1) != 0) || (send_one(job, 2) != 0) ||
             (wait_word(job, STEP, 2) != 0) || (send_one(job, 2) != 0) ||
             (job_flush(job, job_ep(job, 2)) != 0);
    job_barrier(job, 1);
    peer = only_peer(job);
    failed |= probes(job, peer);
    failed |= given_up(job, peer);
    return failed;
}

static int stale_job(job_t *job)
{
    int failed;

    if (job_open(job) != 0) {
        return 1;
    }
    if (job->rank == 0) {
        failed = target(job);
        job_barrier(job, 1);
    } else {
        failed = source(job);
        mrail_ep_destroy(job->eps[2]);
        job->eps[2] = NULL;
    }
    job_close(job);
    return failed;
}

int main(void)
{
    int failed = job_run(2, NULL, 60, stale_job);

    return job_result(failed == 0, "all processes succeed", "%d failed",
                      failed);
}
