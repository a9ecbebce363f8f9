/*
 * A stream of PUTs, messages and GETs in both directions, with all data
 * checked, while error_shim.c turns completions of one process's rail into
 * errors. Data must not be lost, duplicated or reordered, and the lane must
 * recover.
 *
 * usage: rail_errors [both]
 *
 * With "both", errors occur in both processes.
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

#define BYTES (256u << 10)
#define PUTS 8 /* number of PUTs in flight */
#define LIMIT_S 25

/* Words of the shared page: the number of rounds, once the first process has
 * decided it; the marks that each process has seen; and the address and key of
 * each process's memory. */
#define WORD_ITERATIONS 0
#define WORD_SEEN(rank) (1 + (rank))
#define WORD_MEMORY(rank) (8 + 24 * (rank))

static int both;

typedef struct mark {
    uint32_t number;
    uint32_t value;
} mark_t;

typedef struct side {
    uint8_t *source; /* source of PUTs */
    uint8_t *target; /* target of the peer's PUTs */
    uint8_t *back;   /* result of GETs */
    mrail_mem_t *mem[3];
    mrail_rkey_t *rkey;
    uint64_t remote; /* the peer's target */
    unsigned rounds; /* rounds of this process */
    unsigned marks;  /* the peer's marks that this process has seen */
    unsigned wrong;
    int enough; /* 1 if lanes have failed and are all up again */
} side_t;

static uint8_t byte_at(uint32_t value, size_t i)
{
    return (uint8_t)((value + i) * 2654435761u >> 24);
}

static void fill(uint8_t *memory, uint32_t value)
{
    for (size_t i = 0; i < PUTS * BYTES; ++i) {
        memory[i] = byte_at(value, i);
    }
}

static int differs(const uint8_t *memory, uint32_t value)
{
    int wrong = 0;

    for (size_t i = 0; i < PUTS * BYTES; ++i) {
        wrong |= (memory[i] != byte_at(value, i));
    }
    return wrong;
}

/* The message follows a fence, so the data of earlier PUTs is visible. */
static void on_am(job_t *job, uint8_t am_id, const void *data, size_t length)
{
    side_t *side = job->arg;
    mark_t mark;

    memcpy(&mark, data, sizeof(mark));
    side->wrong += (length != sizeof(mark)) || (mark.number != side->marks) ||
                   differs(side->target, mark.value);
    ++side->marks;
    __atomic_store_n(&job->shared->word[WORD_SEEN(job->rank)], side->marks,
                     __ATOMIC_RELEASE);
}

static int setup(job_t *job)
{
    side_t *side = job->arg;
    uint8_t **areas[] = {&side->source, &side->target, &side->back};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(areas); ++i) {
        *areas[i] = calloc(PUTS, BYTES);
        if (mrail_mem_reg(job->engine, *areas[i], PUTS * BYTES,
                          &side->mem[i]) != 0) {
            return 1;
        }
    }
    job->shared->word[WORD_MEMORY(job->rank)] = (uintptr_t)side->target;
    mrail_rkey_pack(side->mem[1],
                    &job->shared->word[WORD_MEMORY(job->rank) + 1]);
    job_barrier(job, 0);
    side->remote = job->shared->word[WORD_MEMORY(!job->rank)];
    return mrail_rkey_unpack(&job->shared->word[WORD_MEMORY(!job->rank) + 1],
                             &side->rkey);
}

static void put_all(job_t *job, mrail_ep_t *ep)
{
    side_t *side = job->arg;
    mrail_iov_t iov = {.length = BYTES, .mem = side->mem[0]};

    for (unsigned i = 0; i < PUTS; ++i) {
        iov.buffer = side->source + (size_t)i * BYTES;
        while (mrail_ep_put_zcopy(ep, &iov, 1, side->remote + i * BYTES,
                                  side->rkey, &job->completed) == -EAGAIN) {
            mrail_iface_progress(job->iface);
        }
    }
}

/* A GET must return the data of the PUTs. */
static int get_all(job_t *job, mrail_ep_t *ep, uint32_t value)
{
    side_t *side = job->arg;
    mrail_iov_t iov = {side->back, PUTS * BYTES, side->mem[2]};
    unsigned wanted = job->completed + 1;

    while (mrail_ep_get_zcopy(ep, &iov, 1, side->remote, side->rkey,
                              &job->completed) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    if (job_wait(job, &job->completed, wanted, LIMIT_S) != 0) {
        return 1;
    }
    side->wrong += (unsigned)differs(side->back, value);
    return 0;
}

/* Waits until the peer has seen `marks` marks. The peer checks its target
 * before it counts a mark, and the next round changes that target. */
static int await_seen(job_t *job, unsigned marks)
{
    const uint64_t *seen = &job->shared->word[WORD_SEEN(!job->rank)];
    mrail_ns_t end = mrail_clock_now() + LIMIT_S * MRAIL_NS_PER_SEC;

    while (__atomic_load_n(seen, __ATOMIC_ACQUIRE) < marks) {
        if (mrail_iface_progress(job->iface) == 0) {
            sched_yield();
        }
        if (mrail_clock_now() > end) {
            return 1;
        }
    }
    return 0;
}

static int one_round(job_t *job, mrail_ep_t *ep)
{
    side_t *side = job->arg;
    mark_t mark = {side->rounds, side->rounds * 7u + job->rank};
    unsigned wanted = job->completed + PUTS;

    fill(side->source, mark.value);
    put_all(job, ep);
    while (mrail_ep_fence(ep) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    while (mrail_ep_am_short(ep, 1, NULL, 0, &mark, sizeof(mark)) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    ++side->rounds;
    return (job_wait(job, &job->completed, wanted, LIMIT_S) != 0) ||
           (job_wait(job, &side->marks, side->rounds, LIMIT_S) != 0) ||
           get_all(job, ep, mark.value) || await_seen(job, side->rounds);
}

static int is_enough(const job_t *job, const mrail_ep_t *ep)
{
    const char *times = getenv("MRAIL_TEST_ERROR_TIMES");
    uint64_t wanted = (times != NULL) ? strtoull(times, NULL, 0) : 1;

    return (job->engine->counters.lanes_failed >= wanted) &&
           (ep->peer->num_up != 0) && (ep->peer->num_up == ep->peer->num_slots);
}

/* Runs until enough errors have occurred. The first process decides when to
 * stop, and announces the last round. The other process needs the first one's
 * next mark to finish its own round. */
static int stream(job_t *job)
{
    uint64_t *rounds = &job->shared->word[WORD_ITERATIONS], last;
    mrail_ns_t end = mrail_clock_now() + LIMIT_S * MRAIL_NS_PER_SEC;
    mrail_ep_t *ep = job_ep(job, !job->rank);
    side_t *side = job->arg;

    do {
        if (one_round(job, ep) != 0) {
            return job_result(0, "nothing hangs", "round %u of rank %u",
                              side->rounds, job->rank);
        }
        last = __atomic_load_n(rounds, __ATOMIC_ACQUIRE);
        side->enough |= is_enough(job, ep);
        if ((job->rank == 0) && (last == 0) &&
            (side->enough || (mrail_clock_now() > end))) {
            last = side->rounds + 1;
            __atomic_store_n(rounds, last, __ATOMIC_RELEASE);
        }
    } while ((last == 0) || (side->rounds < last));
    return job_flush(job, ep);
}

static int check_results(job_t *job)
{
    const mrail_counters_t *c = &job->engine->counters;
    const side_t *side = job->arg;
    const mrail_ep_t *ep = job_ep(job, !job->rank);
    int failed =
        job_result((side->wrong == 0) && (job->failed == 0),
                   (job->rank == 0) ? "all data is correct, first process"
                                    : "all data is correct, second process",
                   "%u wrong in %u rounds, %u operations failed", side->wrong,
                   side->rounds, job->failed);

    if (job->rank == 0) {
        printf("# %u rounds, %llu completions in error, %llu lanes failed, "
               "%llu chunks and %llu messages replayed\n",
               side->rounds, (unsigned long long)c->cqe_errors,
               (unsigned long long)c->lanes_failed,
               (unsigned long long)c->rma_replayed,
               (unsigned long long)c->am_replayed);
        failed |= job_result(
            (c->cqe_errors != 0) && side->enough, "lanes failed and recovered",
            "%llu completions in error, %llu lanes failed, %u of "
            "%u are up",
            (unsigned long long)c->cqe_errors,
            (unsigned long long)c->lanes_failed, ep->peer->num_up,
            ep->peer->num_slots);
    }
    return failed;
}

static int errors_job(job_t *job)
{
    side_t side = {0};
    int failed;

    if ((job->rank != 0) && !both) {
        unsetenv("MRAIL_TEST_ERROR_DEVICE");
    }
    job->am = on_am;
    job->arg = &side;
    if ((job_open(job) != 0) || (setup(job) != 0)) {
        return 1;
    }
    failed = stream(job);
    job_barrier(job, 1);
    failed |= check_results(job);
    job_close(job);
    return failed;
}

static unsigned node(unsigned rank)
{
    return rank;
}

int main(int argc, char **argv)
{
    int failed;

    both = (argc == 2) && (strcmp(argv[1], "both") == 0);
    failed = job_run(2, node, 2 * LIMIT_S, errors_job);
    return job_result(failed == 0, "both processes succeed", "%d failed",
                      failed);
}
