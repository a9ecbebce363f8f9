/*
 * Sends control messages that have a wrong cookie, are truncated or corrupted,
 * or have another version. The victim must drop and count them, and continue to
 * communicate with its real peer.
 */
#include "config.h"
#include "rail/engine/engine.h"
#include "rail/proto/wire.h"
#include "rail/state/engine.h"
#include "rail/verbs/rail.h"
#include "job.h"
#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORGED 3000

static unsigned received;

static void on_am(job_t *job, uint8_t am_id, const void *data, size_t length)
{
    ++received;
}

/* Sends through the UD QP of the first rail, bypassing the engine. The lock
 * keeps the control thread from using the QP. */
static int send_raw(job_t *job, struct ibv_ah *ah, uint32_t qpn,
                    const void *data, size_t length)
{
    mrail_engine_t *engine = job->engine;
    int ret;

    do {
        pthread_mutex_lock(&engine->ctl_lock);
        ret = mrail_rail_ud_send(&engine->rails[0], ah, qpn, data, length);
        if (ret == -EAGAIN) {
            mrail_rail_ud_reap(&engine->rails[0]);
        }
        pthread_mutex_unlock(&engine->ctl_lock);
    } while (ret == -EAGAIN);
    return ret;
}

/* Makes a forged message of one kind. The victim must reject all kinds. */
static size_t forge(mrail_rng_t *rng, const mrail_wire_iface_addr_t *victim,
                    unsigned kind, uint8_t *buf)
{
    mrail_ctl_msg_t msg;
    size_t length;

    memset(&msg, 0, sizeof(msg));
    msg.type = 1 + mrail_rng_below(rng, MRAIL_CTL_LAST - 1);
    msg.src_id = mrail_rng_next(rng);
    msg.src_cookie = mrail_rng_next(rng);
    msg.dst_cookie = victim->cookie;
    msg.seq = mrail_rng_below(rng, 100);
    if ((msg.type == MRAIL_CTL_HELLO) || (msg.type == MRAIL_CTL_HELLO_REP)) {
        msg.hello.num_rails = 1;
        msg.hello.rails[0].mtu = 5;
    } else if (msg.type == MRAIL_CTL_LANE_REQ) {
        msg.lane.slot = (uint16_t)mrail_rng_next(rng);
    }
    if (kind == 0) {
        msg.dst_cookie = mrail_rng_next(rng); /* guesses the cookie */
    }
    length = (size_t)mrail_ctl_encode(&msg, buf, MRAIL_CTL_MAX_SIZE);
    switch (kind) {
    case 1: /* truncated */
        length = mrail_rng_below(rng, (uint32_t)length);
        break;
    case 2: /* another version */
        buf[2] += 1 + (uint8_t)mrail_rng_below(rng, 200);
        break;
    case 3: /* random bytes */
        length = 1 + mrail_rng_below(rng, MRAIL_CTL_MAX_SIZE);
        for (size_t i = 0; i < length; ++i) {
            buf[i] = (uint8_t)mrail_rng_next(rng);
        }
        break;
    }
    return (length == 0) ? 1 : length;
}

static int attack(job_t *job)
{
    mrail_wire_device_addr_t device;
    mrail_wire_iface_addr_t victim;
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    struct ibv_ah *ah;
    unsigned version;
    mrail_rng_t rng;

    mrail_device_addr_decode(&device, job->shared->device_addr[0], &version);
    mrail_iface_addr_decode(&victim, job->shared->iface_addr[0], &version);
    ah = mrail_rail_create_ah(&job->engine->rails[0], &job->engine->config,
                              device.gid, 0xC000);
    if (ah == NULL) {
        return 1;
    }
    mrail_rng_init(&rng, 7);
    /* A full UD queue drops messages before the victim sees them, so the attack
     * continues until the victim has checked enough. */
    for (unsigned i = 0;
         (i < 10 * FORGED) &&
         (__atomic_load_n(&job->shared->word[1], __ATOMIC_ACQUIRE) < FORGED);
         ++i) {
        size_t length = forge(&rng, &victim, i % 4, buf);

        if (send_raw(job, ah, victim.ud_qpn, buf, length) != 0) {
            return 1;
        }
        if (i % 32 == 0) {
            usleep(500);
        }
    }
    ibv_destroy_ah(ah);
    return 0;
}

static uint64_t count_dropped(job_t *job)
{
    const mrail_counters_t *c = &job->engine->counters;
    uint64_t sum;

    pthread_mutex_lock(&job->engine->ctl_lock);
    sum = c->ctl_bad_format + c->ctl_bad_version + c->ctl_bad_cookie +
          c->ctl_unexpected;
    pthread_mutex_unlock(&job->engine->ctl_lock);
    return sum;
}

/* Polls until the real peer has sent everything. */
static int victim_serve(job_t *job)
{
    mrail_ns_t end = mrail_clock_now() + 60 * MRAIL_NS_PER_SEC;

    while ((received < 200) && (mrail_clock_now() < end)) {
        if (mrail_iface_progress(job->iface) == 0) {
            __atomic_store_n(&job->shared->word[1], count_dropped(job),
                             __ATOMIC_RELEASE);
            usleep(50);
        }
    }
    return received < 200;
}

static int victim_check(job_t *job)
{
    const mrail_counters_t *c = &job->engine->counters;
    uint64_t dropped = count_dropped(job);
    int failed;

    printf("# format %llu, version %llu, cookie %llu, unexpected %llu\n",
           (unsigned long long)c->ctl_bad_format,
           (unsigned long long)c->ctl_bad_version,
           (unsigned long long)c->ctl_bad_cookie,
           (unsigned long long)c->ctl_unexpected);
    failed = job_result(dropped >= FORGED,
                        "forged control messages are dropped and counted",
                        "only %llu of %u", (unsigned long long)dropped, FORGED);
    failed |= job_result((c->ctl_bad_format > 0) && (c->ctl_bad_version > 0) &&
                             (c->ctl_bad_cookie > 0),
                         "each kind has its counter", "one counter remained 0");
    failed |= job_result(job->engine->num_peers == 1,
                         "no forged message created a peer", "%u peers",
                         job->engine->num_peers);
    return failed;
}

static int spoof_job(job_t *job)
{
    int failed = 0;

    job->am = on_am;
    if (job_open(job) != 0) {
        return 1;
    }
    switch (job->rank) {
    case 0: /* the victim */
        failed = victim_serve(job);
        failed |= victim_check(job);
        failed |=
            job_result(received == 200, "the messages of the real peer arrive",
                       "%u of 200 messages", received);
        break;
    case 1:
        failed = attack(job);
        __atomic_store_n(&job->shared->word[0], 1, __ATOMIC_RELEASE);
        break;
    case 2: /* the real peer, which connects and sends during the attack */
        for (unsigned i = 0; i < 200; ++i) {
            int ret;

            while ((ret = mrail_ep_am_short(job_ep(job, 0), 1, NULL, 0, &i,
                                            sizeof(i))) == -EAGAIN) {
                mrail_iface_progress(job->iface);
            }
            failed |= (ret != 0);
            while ((i == 198) &&
                   !__atomic_load_n(&job->shared->word[0], __ATOMIC_ACQUIRE)) {
                usleep(1000); /* makes the last message come after the attack */
            }
        }
        break;
    }
    job_close(job);
    return failed;
}

int main(void)
{
    int failed = job_run(3, NULL, 60, spoof_job);

    return job_result(failed == 0, "all processes succeed", "%d failed",
                      failed);
}
