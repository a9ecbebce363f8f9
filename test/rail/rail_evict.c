/*
 * Tests the QP budget. A process with 64 peers opens further lanes to the peers
 * that it sends to, and evicts lanes of idle peers. Both ends close an evicted
 * lane. After that, eight processes with too few QPs send to each other in
 * bursts. Lanes are opened and evicted, some requests are rejected, and every
 * byte and message must arrive in order.
 */
#include "config.h"
#include "rail/data/rma.h"
#include "rail/engine/engine.h"
#include "rail/state/engine.h"
#include "job.h"
#include "base/rng.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEERS 64
#define TARGETS 8
#define HUB_QPS 96 /* 64 first lanes, 8 further lanes, 24 reserved QPs */
#define MIXED 8
#define MIXED_QPS 14 /* 7 first lanes, 4 further lanes, 3 reserved QPs */
#define BYTES (1u << 20)
#define BURST 60 /* number of 4 KB messages */
#define PHASE_S 3

static uint8_t pattern(uint32_t seed, size_t i)
{
    return (uint8_t)(seed * 31 + i * 7 + (i >> 9));
}

/* ---- memory that peers write to ---- */

/* Words 8 + 6 * rank and following hold the rank's address, then the packed
 * key. */
static uint64_t *place(job_t *job, unsigned rank)
{
    return &job->shared->word[8 + 6 * rank];
}

static uint8_t *offer(job_t *job, unsigned rank, size_t size,
                      mrail_mem_t **mem_p)
{
    uint8_t *memory = calloc(1, size);

    if (mrail_mem_reg(job->engine, memory, size, mem_p) != 0) {
        exit(1);
    }
    place(job, rank)[0] = (uintptr_t)memory;
    mrail_rkey_pack(*mem_p, &place(job, rank)[1]);
    return memory;
}

static void put(job_t *job, mrail_ep_t *ep, uint64_t address,
                const mrail_rkey_t *rkey, const mrail_iov_t *iov)
{
    unsigned wanted = job->completed + 1;

    while (mrail_ep_put_zcopy(ep, iov, 1, address, rkey, &job->completed) ==
           -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    if (job_wait(job, &job->completed, wanted, 20) != 0) {
        job_result(0, "a PUT completes", "rank %u: it did not within 20 s",
                   job->rank);
        exit(1);
    }
}

static void am(job_t *job, mrail_ep_t *ep, uint8_t id, const void *data,
               unsigned length)
{
    while (mrail_ep_am_short(ep, id, NULL, 0, data, length) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
}

static unsigned num_qps(job_t *job)
{
    mrail_memory_t memory;

    mrail_engine_memory(job->engine, &memory);
    return memory.num_qps;
}

/* ---- one process with 64 peers ---- */

/* Runs until `ep` has all its lanes, for at most PHASE_S. Returns the largest
 * number of QPs in use. */
static unsigned hub_phase(job_t *job, mrail_ep_t *ep, unsigned target,
                          const mrail_iov_t *iov)
{
    mrail_ns_t end = mrail_clock_now() + PHASE_S * MRAIL_NS_PER_SEC;
    unsigned most = 0;
    mrail_rkey_t *rkey;

    if (mrail_rkey_unpack(&place(job, target - 1)[1], &rkey) != 0) {
        exit(1);
    }
    while ((ep->peer->num_up < ep->peer->num_slots) &&
           (mrail_clock_now() < end)) {
        put(job, ep, place(job, target - 1)[0], rkey, iov);
        most = MRAIL_MAX(most, num_qps(job));
    }
    for (unsigned i = 0; i < 4; ++i) {
        put(job, ep, place(job, target - 1)[0], rkey, iov);
    }
    job_flush(job, ep);
    mrail_rkey_release(rkey);
    return most;
}

static int hub(job_t *job)
{
    mrail_iov_t iov = {.buffer = malloc(BYTES), .length = BYTES};
    unsigned striped = 0, most = 0, qps;
    int failed;

    if (mrail_mem_reg(job->engine, iov.buffer, BYTES, &iov.mem) != 0) {
        return 1;
    }
    for (unsigned i = 1; i <= PEERS; ++i) {
        am(job, job_ep(job, i), 1, &i, sizeof(i));
    }
    for (unsigned i = 1; i <= TARGETS; ++i) {
        mrail_ep_t *ep = job_ep(job, i);

        for (size_t k = 0; k < BYTES; ++k) {
            ((uint8_t *)iov.buffer)[k] = pattern(i, k);
        }
        qps = hub_phase(job, ep, i, &iov);
        most = MRAIL_MAX(most, qps);
        striped += (ep->peer->num_up == ep->peer->num_slots);
    }
    failed = job_result(striped == TARGETS,
                        "one target after another has lanes on all rails",
                        "%u of %u", striped, TARGETS);
    failed |= job_result(most <= HUB_QPS, "never more QPs than the budget",
                         "%u of %u", most, HUB_QPS);
    failed |=
        job_result(job->engine->counters.lanes_evicted >= 3 * TARGETS - 8,
                   "unused lanes are evicted", "%llu",
                   (unsigned long long)job->engine->counters.lanes_evicted);
    mrail_mem_dereg(iov.mem);
    free(iov.buffer);
    return failed;
}

static int spoke(job_t *job, const uint8_t *memory)
{
    size_t wrong = 0;
    int failed = 0;

    if (job->rank <= TARGETS) {
        for (size_t k = 0; k < BYTES; ++k) {
            wrong += (memory[k] != pattern(job->rank, k));
        }
        failed = (wrong != 0) &&
                 job_result(0, "data of the process with 64 peers",
                            "rank %u: %zu wrong bytes", job->rank, wrong);
    }
    /* When the last peer has all its lanes, the first peer must have only its
     * first lane left. */
    if (job->rank == 1) {
        failed |= job_result(
            (job->engine->counters.lanes_evicted == 3) && (num_qps(job) == 1),
            "the peers have released the evicted lanes",
            "%llu evicted, %u QPs left",
            (unsigned long long)job->engine->counters.lanes_evicted,
            num_qps(job));
    }
    return failed;
}

static int hub_job(job_t *job)
{
    uint8_t *memory = NULL;
    mrail_mem_t *mem = NULL;
    char text[16];
    int failed;

    if (job->rank == 0) {
        snprintf(text, sizeof(text), "%u", HUB_QPS);
        setenv("UCX_MRAIL_MAX_QPS", text, 1);
    }
    if (job_open(job) != 0) {
        return 1;
    }
    if ((job->rank != 0) && (job->rank <= TARGETS)) {
        memory = offer(job, job->rank - 1, BYTES, &mem);
    }
    job_barrier(job, 0);
    failed = (job->rank == 0) ? hub(job) : 0;
    job_barrier(job, 1);
    if (job->rank != 0) {
        failed = spoke(job, memory);
    }
    job_close(job);
    return failed;
}

/* ---- eight processes, each with all others ---- */

typedef struct check {
    uint32_t from;
    uint32_t seed;
    uint32_t offset;
    uint32_t length;
} check_t;

typedef struct burst {
    uint32_t from;
    uint32_t number;
    uint8_t data[4096];
} burst_t;

typedef struct mixed {
    uint8_t *memory; /* one block per sender */
    unsigned next[MIXED];
    unsigned num_checks;
    unsigned wrong;
} mixed_t;

static void mixed_on_am(job_t *job, uint8_t am_id, const void *data,
                        size_t length)
{
    mixed_t *mixed = job->arg;

    if (am_id == 2) {
        const burst_t *burst = data;

        mixed->wrong +=
            (burst->number != mixed->next[burst->from]++) ||
            (burst->data[4095] != pattern(burst->number, burst->from));
    } else {
        const check_t *check = data;
        const uint8_t *at =
            mixed->memory + (size_t)check->from * BYTES + check->offset;

        for (size_t i = 0; i < check->length; ++i) {
            mixed->wrong += (at[i] != pattern(check->seed, i));
        }
        ++mixed->num_checks;
        __atomic_add_fetch(&job->shared->word[56 + check->from], 1,
                           __ATOMIC_RELEASE);
    }
}

static size_t pack_burst(void *dest, void *arg)
{
    memcpy(dest, arg, sizeof(burst_t));
    return sizeof(burst_t);
}

static void mixed_burst(job_t *job, unsigned to, uint32_t *number)
{
    burst_t burst = {.from = job->rank};

    for (unsigned i = 0; i < BURST; ++i) {
        burst.number = (*number)++;
        burst.data[4095] = pattern(burst.number, burst.from);
        while (mrail_ep_am_bcopy(job_ep(job, to), 2, pack_burst, &burst) ==
               -EAGAIN) {
            mrail_iface_progress(job->iface);
        }
    }
}

static void mixed_put(job_t *job, mrail_rng_t *rng, unsigned to,
                      mrail_iov_t *iov, mrail_rkey_t *const *rkeys,
                      unsigned *checks)
{
    mrail_ep_t *ep = job_ep(job, to);
    check_t check = {.from = job->rank, .seed = (uint32_t)mrail_rng_next(rng)};

    check.length = 1 + (uint32_t)mrail_rng_below(rng, BYTES);
    check.offset = (uint32_t)mrail_rng_below(rng, BYTES - check.length + 1);
    iov->length = check.length;
    for (size_t i = 0; i < check.length; ++i) {
        ((uint8_t *)iov->buffer)[i] = pattern(check.seed, i);
    }
    put(job, ep, place(job, to)[0] + (size_t)job->rank * BYTES + check.offset,
        rkeys[to], iov);
    while (mrail_ep_fence(ep) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    am(job, ep, 1, &check, sizeof(check));
    ++*checks;
    while (__atomic_load_n(&job->shared->word[56 + job->rank],
                           __ATOMIC_ACQUIRE) < *checks) {
        if (mrail_iface_progress(job->iface) == 0) {
            sched_yield();
        }
    }
}

/* Sends to a random peer for a while, and then to another. */
static void mixed_send(job_t *job, mrail_rng_t *rng)
{
    mrail_ns_t begun = mrail_clock_now(), now_ns = begun, turn_ns = 0;
    mrail_iov_t iov = {.buffer = malloc(BYTES)};
    mrail_rkey_t *rkeys[MIXED];
    uint32_t numbers[MIXED] = {0};
    unsigned checks = 0, to = 0;

    if (mrail_mem_reg(job->engine, iov.buffer, BYTES, &iov.mem) != 0) {
        exit(1);
    }
    for (unsigned i = 0; i < MIXED; ++i) {
        if (mrail_rkey_unpack(&place(job, i)[1], &rkeys[i]) != 0) {
            exit(1);
        }
    }
    for (; now_ns < begun + 2 * PHASE_S * MRAIL_NS_PER_SEC;
         now_ns = mrail_clock_now()) {
        if (now_ns >= turn_ns) {
            to = (job->rank + 1 + (unsigned)mrail_rng_below(rng, MIXED - 1)) %
                 MIXED;
            turn_ns = now_ns + mrail_rng_below(rng, MRAIL_NS_PER_SEC);
        }
        if (mrail_rng_below(rng, 4) == 0) {
            mixed_burst(job, to, &numbers[to]);
        } else {
            mixed_put(job, rng, to, &iov, rkeys, &checks);
        }
    }
    for (unsigned i = 0; i < MIXED; ++i) {
        mrail_rkey_release(rkeys[i]);
    }
    job_barrier(job, 1);
    mrail_mem_dereg(iov.mem);
    free(iov.buffer);
}

static int mixed_job(job_t *job)
{
    mixed_t *mixed = calloc(1, sizeof(*mixed));
    mrail_mem_t *mem;
    char text[16];
    mrail_rng_t rng;
    int failed = 0;

    snprintf(text, sizeof(text), "%u", MIXED_QPS);
    setenv("UCX_MRAIL_MAX_QPS", text, 1);
    job->am = mixed_on_am;
    job->arg = mixed;
    if (job_open(job) != 0) {
        return 1;
    }
    mixed->memory = offer(job, job->rank, (size_t)MIXED * BYTES, &mem);
    mrail_rng_init(&rng, job->rank + 1);
    job_barrier(job, 0);
    mixed_send(job, &rng);
    __atomic_add_fetch(&job->shared->word[0],
                       job->engine->counters.lanes_evicted, __ATOMIC_RELAXED);
    __atomic_add_fetch(&job->shared->word[1], job->engine->counters.lanes_kept,
                       __ATOMIC_RELAXED);
    __atomic_add_fetch(&job->shared->word[2], mixed->num_checks,
                       __ATOMIC_RELAXED);
    __atomic_add_fetch(&job->shared->word[3], mixed->wrong + job->failed,
                       __ATOMIC_RELAXED);
    failed = (num_qps(job) > MIXED_QPS) &&
             job_result(0, "no more QPs than the budget", "%u", num_qps(job));
    job_barrier(job, 1);
    if (job->rank == 0) {
        const uint64_t *word = job->shared->word;

        printf("# %llu lanes evicted, %llu kept, %llu PUTs checked\n",
               (unsigned long long)word[0], (unsigned long long)word[1],
               (unsigned long long)word[2]);
        failed |=
            job_result(word[3] == 0, "every byte and message arrives, in order",
                       "%llu wrong", (unsigned long long)word[3]);
        failed |=
            job_result((word[0] > 10) && (word[1] > 0) && (word[2] > 100),
                       "lanes are evicted and reopened", "too few evictions");
    }
    job_close(job);
    free(mixed->memory);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    if ((argc < 2) || (strcmp(argv[1], "hub") == 0)) {
        failed |= (job_run(PEERS + 1, NULL, 100, hub_job) != 0);
    }
    if ((argc < 2) || (strcmp(argv[1], "mixed") == 0)) {
        failed |= (job_run(MIXED, NULL, 100, mixed_job) != 0);
    }
    return job_result(failed == 0, "all processes succeed", "some failed");
}
