/*
 * A little job: N processes of one program on software rails, which share a
 * page for addresses and barriers.  The engine is opened in each of them.
 */
#ifndef MRAIL_TEST_JOB_H
#define MRAIL_TEST_JOB_H

#include "base/clock.h"
#include "rail/mrail.h"

#define JOB_MAX 80
#define JOB_WORDS 64

typedef struct job_shared {
    uint8_t device_addr[JOB_MAX][MRAIL_DEVICE_ADDR_MAX];
    uint8_t iface_addr[JOB_MAX][MRAIL_IFACE_ADDR_MAX];
    unsigned arrived[64];     /* barriers, each used once */
    uint64_t word[JOB_WORDS]; /* for the test */
} job_shared_t;

typedef struct job {
    unsigned rank;
    unsigned size;
    job_shared_t *shared;
    unsigned barriers;
    mrail_engine_t *engine;
    mrail_iface_t *iface;
    mrail_ep_t *eps[JOB_MAX];
    /* Callbacks of the iface; set them before job_open(). */
    void (*am)(struct job *job, uint8_t am_id, const void *data, size_t length);
    /* An operation's `comp` is an unsigned that counts completions. */
    unsigned completed; /* one such counter, for the test */
    unsigned failed;    /* completions with another status than 0 */
    void *arg;
} job_t;

/*
 * Runs `func` in `size` processes, each on the emulated node that `node` gives
 * for its rank (NULL: node 0), within limit_s seconds.  Returns how many of
 * them failed or were killed.
 */
typedef int (*job_func_t)(job_t *job);
int job_run(unsigned size, unsigned (*node)(unsigned rank), unsigned limit_s,
            job_func_t func);

/* In a process: opens the engine and an iface, tells the others where. */
int job_open(job_t *job);
void job_close(job_t *job);
mrail_ep_t *job_ep(job_t *job, unsigned rank);

/* Waits for all processes; with `progress`, the iface is served meanwhile. */
void job_barrier(job_t *job, int progress);

/* Progress until *counter >= wanted or the deadline: 0 or -1. */
int job_wait(job_t *job, const unsigned *counter, unsigned wanted,
             unsigned limit_s);

/* Flushes the endpoint. */
int job_flush(job_t *job, mrail_ep_t *ep);

/* "ok - NAME" or "not ok - NAME: WHY"; returns 0 if good. */
int job_say(int good, const char *name, const char *why, ...)
    MRAIL_PRINTF(3, 4);

/* Sum over all rails of the session's counter `name`; -1 if it cannot be read. */
long job_soft_count(const char *name);

/* mrail soft ctl with these words; 0 or its exit status. */
int job_soft_ctl(const char *words);

#endif
