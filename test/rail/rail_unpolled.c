/*
 * An iface that is not polled must not block another iface of its process. The
 * test sends 5,000 messages to it, and then one to the other iface, which must
 * arrive. Once the first iface is polled, it must receive each of its messages
 * once and in order.
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define MESSAGES 5000
#define LONGEST 4000
#define LIMIT_S 10

typedef struct unpolled {
    unsigned next;  /* next expected message */
    unsigned wrong; /* messages out of order or with wrong bytes */
} unpolled_t;

/* Messages are short, medium or long. One lane carries the short ones, and all
 * lanes carry the long ones. */
static size_t length_of(unsigned number)
{
    static const size_t lengths[] = {8, 64, 700, LONGEST};

    return lengths[number % 4];
}

static void fill(uint8_t *bytes, unsigned number)
{
    memset(bytes, (int)(number * 7 + 1), length_of(number));
    memcpy(bytes, &number, sizeof(number));
}

static void on_late_am(void *arg, uint8_t am_id, void *data, size_t length)
{
    unpolled_t *unpolled = arg;
    uint8_t wanted[LONGEST];

    fill(wanted, unpolled->next);
    unpolled->wrong += (am_id != 3) || (length != length_of(unpolled->next)) ||
                       (memcmp(data, wanted, length) != 0);
    ++unpolled->next;
}

static void on_am(job_t *job, uint8_t am_id, const void *data, size_t length)
{
    ++*(unsigned *)job->arg;
}

static size_t pack(void *dest, void *arg)
{
    unsigned number = *(unsigned *)arg;

    fill(dest, number);
    return length_of(number);
}

static int send_one(job_t *job, mrail_ep_t *ep, unsigned number)
{
    mrail_ns_t end = mrail_clock_now() + LIMIT_S * MRAIL_NS_PER_SEC;

    while (mrail_ep_am_bcopy(ep, 3, pack, &number) == -EAGAIN) {
        if (mrail_iface_progress(job->iface) == 0) {
            sched_yield();
        }
        if (mrail_clock_now() > end) {
            return -1;
        }
    }
    return 0;
}

static int source(job_t *job)
{
    unsigned sent = 0;
    mrail_ep_t *late;
    int failed;

    if (mrail_ep_create(job->iface, job->shared->device_addr[1],
                        &job->shared->word[8], NULL, &late) != 0) {
        return 1;
    }
    while ((sent < MESSAGES) && (send_one(job, late, sent) == 0)) {
        ++sent;
    }
    failed = job_result(sent == MESSAGES, "messages to an idle iface are sent",
                        "%u of %u did", sent, MESSAGES);
    failed |= send_one(job, job_ep(job, 1), 0);
    job_barrier(job, 1);
    job_barrier(job, 1);
    mrail_ep_destroy(late);
    return failed;
}

static int target(job_t *job, mrail_iface_t *late, unpolled_t *unpolled)
{
    mrail_ns_t end;
    int failed;

    failed = job_result(job_wait(job, job->arg, 1, 3 * LIMIT_S) == 0,
                        "a message for the polled iface arrives", "it did not");
    failed |=
        job_result(unpolled->next == 0, "the other iface receives no callback",
                   "%u calls", unpolled->next);
    job_barrier(job, 1);
    end = mrail_clock_now() + LIMIT_S * MRAIL_NS_PER_SEC;
    while ((unpolled->next < MESSAGES) && (mrail_clock_now() < end)) {
        mrail_iface_progress(late);
    }
    for (unsigned i = 0; i < 1000; ++i) {
        mrail_iface_progress(late);
    }
    failed |=
        job_result((unpolled->next == MESSAGES) && (unpolled->wrong == 0),
                   "later polling delivers all messages, once and in order",
                   "%u of %u, %u of them wrong", unpolled->next, MESSAGES,
                   unpolled->wrong);
    job_barrier(job, 1);
    return failed;
}

static int unpolled_job(job_t *job)
{
    unpolled_t unpolled = {0};
    const mrail_iface_params_t params = {.arg = &unpolled, .am = on_late_am};
    mrail_iface_t *late = NULL;
    unsigned arrived = 0;
    int failed;

    job->am = on_am;
    job->arg = &arrived;
    if (job_open(job) != 0) {
        return 1;
    }
    if (job->rank == 1) {
        if (mrail_iface_create(job->engine, &params, &late) != 0) {
            return 1;
        }
        mrail_iface_addr_pack(late, &job->shared->word[8]);
    }
    job_barrier(job, 0);
    failed = (job->rank == 0) ? source(job) : target(job, late, &unpolled);
    if (late != NULL) {
        mrail_iface_destroy(late);
    }
    job_close(job);
    return failed;
}

static unsigned node(unsigned rank)
{
    return rank;
}

int main(void)
{
    int failed = job_run(2, node, 60, unpolled_job);

    return job_result(failed == 0, "both processes succeed", "%d failed",
                      failed);
}
