/*
 * Runs the job under attack (attack.sh). Four processes on two nodes write to
 * each other, fence, send messages and check every byte for
 * MRAIL_ATTACK_SECONDS, while attacker.c attacks on the same network.
 *
 * Guard bytes surround the memory that peers may write to. Another region, the
 * secret, is registered, but its key is never sent to a peer.
 */
#include "config.h"
#include "rail/data/rma.h"
#include "rail/engine/engine.h"
#include "rail/mrail.h"
#include "rail/state/engine.h"
#include "../rail/job.h"
#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 4
#define SLOT (128u << 10) /* bytes that one peer may write to */
#define GUARD (64u << 10)
#define GUARD_BYTE 0xc5
#define WORDS 4 /* words of the shared page per rank */

typedef struct attacked {
    job_t *job;
    /* Layout: a guard, RANKS slots with a guard after each, the secret region,
     * and a guard. */
    uint8_t *memory;
    mrail_mem_t *mem, *secret_mem;
    mrail_rkey_t *rkey[RANKS];
    uint64_t address[RANKS];
    uint8_t *source;
    mrail_mem_t *source_mem;
    uint32_t written[RANKS]; /* written by the peer and not yet checked */
    uint32_t written_round[RANKS];
    uint32_t answered; /* peers that have confirmed this round */
    uint32_t round;
    uint32_t wrong; /* number of wrong bytes from peers */
} attacked_t;

typedef struct note {
    uint32_t round;
    uint32_t length;
} note_t;

enum { AM_WRITTEN = 1, AM_RIGHT = 2 };

static uint8_t *slot_of(const attacked_t *a, unsigned rank)
{
    return a->memory + GUARD + rank * (SLOT + GUARD);
}

static uint8_t *secret_of(const attacked_t *a)
{
    return slot_of(a, RANKS);
}

static size_t memory_bytes(void)
{
    return GUARD + (RANKS + 1) * (size_t)(SLOT + GUARD);
}

static uint8_t pattern(uint32_t from, uint32_t to, uint32_t round, uint32_t i)
{
    return (uint8_t)((from * 7 + to * 13 + round * 29) ^ i ^ (i >> 8));
}

/* ---- messages ---- */

/* The upper bits of am_id hold the sender's rank, because a message does not
 * name its endpoint. */
static void on_am(job_t *job, uint8_t am_id, const void *data, size_t length)
{
    attacked_t *a = job->arg;
    unsigned from = am_id >> 2;
    note_t note;

    if ((length != sizeof(note)) || (from >= RANKS)) {
        ++a->wrong;
        return;
    }
    memcpy(&note, data, sizeof(note));
    if ((am_id & 3) == AM_WRITTEN) {
        a->written[from] = note.length;
        a->written_round[from] = note.round;
    } else {
        a->answered += (note.round == a->round);
    }
}

static void send_note(attacked_t *a, unsigned to, unsigned kind, uint32_t round,
                      uint32_t length)
{
    note_t note = {round, length};
    uint8_t id = (uint8_t)((a->job->rank << 2) | kind);
    int ret;

    while ((ret = mrail_ep_am_short(job_ep(a->job, to), id, NULL, 0, &note,
                                    sizeof(note))) == -EAGAIN) {
        mrail_iface_progress(a->job->iface);
    }
    a->wrong += (ret != 0);
}

/* Checks the data that a peer has announced, and replies. */
static void check_reported(attacked_t *a)
{
    for (unsigned from = 0; from < RANKS; ++from) {
        uint32_t length = a->written[from], round = a->written_round[from];
        const uint8_t *slot = slot_of(a, from);

        if (length == 0) {
            continue;
        }
        a->written[from] = 0;
        for (uint32_t i = 0; i < length; ++i) {
            a->wrong += (slot[i] != pattern(from, a->job->rank, round, i));
        }
        send_note(a, from, AM_RIGHT, round, 0);
    }
}

/* ---- rounds ---- */

static void write_to(attacked_t *a, unsigned to, uint32_t length)
{
    mrail_iov_t iov = {a->source + (size_t)to * SLOT, length, a->source_mem};
    int ret;

    for (uint32_t i = 0; i < length; ++i) {
        a->source[(size_t)to * SLOT + i] =
            pattern(a->job->rank, to, a->round, i);
    }
    while ((ret = mrail_ep_put_zcopy(job_ep(a->job, to), &iov, 1,
                                     a->address[to], a->rkey[to],
                                     &a->job->completed)) == -EAGAIN) {
        mrail_iface_progress(a->job->iface);
    }
    a->wrong += (ret != -EINPROGRESS);
    while ((ret = mrail_ep_fence(job_ep(a->job, to))) == -EAGAIN) {
        mrail_iface_progress(a->job->iface);
    }
    send_note(a, to, AM_WRITTEN, a->round, length);
}

/* Returns 0, or 1 if peers do not reply. */
static int one_round(attacked_t *a, mrail_rng_t *rng)
{
    mrail_ns_t end = mrail_clock_now() + 30 * MRAIL_NS_PER_SEC;
    unsigned writes = a->job->completed + RANKS - 1;

    ++a->round;
    a->answered = 0;
    for (unsigned i = 1; i < RANKS; ++i) {
        write_to(a, (a->job->rank + i) % RANKS, 1 + mrail_rng_below(rng, SLOT));
    }
    while ((a->answered < RANKS - 1) || (a->job->completed < writes)) {
        mrail_iface_progress(a->job->iface);
        check_reported(a);
        if (mrail_clock_now() > end) {
            printf("# rank %u round %u: %u of %u answers\n", a->job->rank,
                   a->round, a->answered, RANKS - 1);
            return 1;
        }
    }
    return 0;
}

/* ---- set-up, results ---- */

static int prepare(attacked_t *a)
{
    job_t *job = a->job;
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];
    mrail_engine_attr_t attr;

    mrail_engine_query(job->engine, &attr);
    a->memory = aligned_alloc(4096, memory_bytes());
    a->source = aligned_alloc(4096, (size_t)RANKS * SLOT);
    if ((a->memory == NULL) || (a->source == NULL)) {
        return 1;
    }
    memset(a->memory, GUARD_BYTE, memory_bytes());
    if ((mrail_mem_reg(job->engine, slot_of(a, 0), RANKS * (SLOT + GUARD),
                       &a->mem) != 0) ||
        (mrail_mem_reg(job->engine, secret_of(a), SLOT, &a->secret_mem) != 0) ||
        (mrail_mem_reg(job->engine, a->source, (size_t)RANKS * SLOT,
                       &a->source_mem) != 0)) {
        return 1;
    }
    mrail_rkey_pack(a->mem, packed);
    job->shared->word[job->rank * WORDS] = (uintptr_t)slot_of(a, 0);
    memcpy(&job->shared->word[job->rank * WORDS + 1], packed, attr.rkey_size);
    job_barrier(job, 1);
    for (unsigned i = 0; i < RANKS; ++i) {
        memcpy(packed, &job->shared->word[i * WORDS + 1], attr.rkey_size);
        a->address[i] =
            job->shared->word[i * WORDS] + job->rank * (uint64_t)(SLOT + GUARD);
        if (mrail_rkey_unpack(packed, &a->rkey[i]) != 0) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if guard bytes, this rank's own slot or the secret region have
 * changed. */
static int touched(const attacked_t *a)
{
    const uint8_t *p = a->memory;
    size_t at = 0;

    while (at < memory_bytes()) {
        size_t in = (at < GUARD) ? 0 : (at - GUARD) % (SLOT + GUARD);
        size_t slot = (at < GUARD) ? RANKS : (at - GUARD) / (SLOT + GUARD);

        if ((slot < RANKS) && (slot != a->job->rank) && (in < SLOT)) {
            at += SLOT; /* skip a slot that a peer may write to */
            continue;
        }
        if (p[at++] != GUARD_BYTE) {
            return 1;
        }
    }
    return 0;
}

static int check_attack(attacked_t *a)
{
    mrail_engine_t *engine = a->job->engine;
    const mrail_counters_t *c = &engine->counters;
    uint64_t refused;
    unsigned peers;
    int failed = 0;

    pthread_mutex_lock(&engine->ctl_lock);
    refused = c->ctl_bad_format + c->ctl_bad_version + c->ctl_bad_cookie +
              c->ctl_unexpected;
    peers = engine->num_peers;
    pthread_mutex_unlock(&engine->ctl_lock);
    printf("# rank %u: %u rounds; control: %llu cookie, %llu format, %llu "
           "unexpected; headers %llu\n",
           a->job->rank, a->round, (unsigned long long)c->ctl_bad_cookie,
           (unsigned long long)c->ctl_bad_format,
           (unsigned long long)c->ctl_unexpected,
           (unsigned long long)c->rx_bad_header);
    failed = (a->wrong != 0) || (a->job->failed != 0);
    if (a->job->rank != 0) {
        failed |= touched(a) || (peers != RANKS - 1) || (refused == 0);
        if (failed) {
            printf("# rank %u: %u wrong, %u failed, touched %d, %u peers\n",
                   a->job->rank, a->wrong, a->job->failed, touched(a), peers);
        }
        return failed;
    }
    failed = job_result(!failed && (a->round > 2), "the data remains correct",
                        "%u wrong, %u failed, %u rounds", a->wrong,
                        a->job->failed, a->round);
    failed |= job_result(!touched(a), "no other memory is written", "it was");
    failed |= job_result(peers == RANKS - 1, "no attacker becomes a peer",
                         "%u peers", peers);
    return failed | job_result(c->ctl_bad_cookie > 0,
                               "messages without the cookie are counted", "0");
}

static int attacked_job(job_t *job)
{
    const char *text = getenv("MRAIL_ATTACK_SECONDS");
    mrail_ns_t seconds = (text != NULL) ? strtoul(text, NULL, 10) : 5;
    attacked_t a = {.job = job};
    mrail_ns_t end;
    mrail_rng_t rng;
    int failed = 0;

    job->am = on_am;
    job->arg = &a;
    if ((job_open(job) != 0) || (prepare(&a) != 0)) {
        return 1;
    }
    mrail_rng_init(&rng, job->rank);
    end = mrail_clock_now() + seconds * MRAIL_NS_PER_SEC;
    while (!failed && (mrail_clock_now() < end)) {
        failed = one_round(&a, &rng);
    }
    /* Other ranks may not have finished their round yet. */
    __atomic_add_fetch(&job->shared->word[63], 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&job->shared->word[63], __ATOMIC_ACQUIRE) < RANKS) {
        mrail_iface_progress(job->iface);
        check_reported(&a);
    }
    failed |= check_attack(&a);
    job_close(job);
    return failed;
}

static unsigned node_of(unsigned rank)
{
    return rank % 2;
}

int main(void)
{
    const char *text = getenv("MRAIL_ATTACK_SECONDS");
    unsigned seconds = (text != NULL) ? (unsigned)strtoul(text, NULL, 10) : 5;
    int failed = job_run(RANKS, node_of, seconds + 60, attacked_job);

    return job_result(failed == 0, "all processes succeed in time", "%d failed",
                      failed);
}
