/*
 * Runs a small job of N processes of one program on software rails, which share
 * a page for addresses and barriers. Each process opens the engine.
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
    unsigned arrived[256];    /* barriers, each used once */
    uint64_t word[JOB_WORDS]; /* free for the test's own use */
} job_shared_t;

typedef struct job {
    unsigned rank;
    unsigned size;
    job_shared_t *shared;
    unsigned barriers;
    mrail_engine_t *engine;
    mrail_iface_t *iface;
    mrail_ep_t *eps[JOB_MAX];
    /* Callbacks of the iface. Set them before job_open(). */
    void (*am)(struct job *job, uint8_t am_id, const void *data, size_t length);
    /* The `comp` of an operation points to an unsigned that counts
     * completions. */
    unsigned completed; /* a counter for `comp`, free for the test's use */
    unsigned failed;    /* completions with an error status */
    void *arg;
} job_t;

/*
 * Runs `func` in `size` processes for at most limit_s seconds. `node` gives the
 * emulated node of a rank; NULL means node 0. Returns the number of processes
 * that failed or were killed.
 */
typedef int (*job_func_t)(job_t *job);
int job_run(unsigned size, unsigned (*node)(unsigned rank), unsigned limit_s,
            job_func_t func);

/* Called in each process. Opens the engine and an iface, and shares their
 * addresses with the other processes. */
int job_open(job_t *job);
void job_close(job_t *job);
mrail_ep_t *job_ep(job_t *job, unsigned rank);

/* Waits for all processes. With `progress`, polls the iface while waiting. */
void job_barrier(job_t *job, int progress);

/* Polls until *counter >= wanted. Returns 0, or -1 if the deadline passes
 * first. */
int job_wait(job_t *job, const unsigned *counter, unsigned wanted,
             unsigned limit_s);

/* Flushes the endpoint. */
int job_flush(job_t *job, mrail_ep_t *ep);

/* Prints "ok - NAME" or "not ok - NAME: WHY". Returns 0 if `ok`. */
int job_result(int ok, const char *name, const char *reason, ...)
    MRAIL_PRINTF(3, 4);

/* Returns the sum of the session's counter `name` over all rails, or -1 if it
 * cannot be read. */
long job_soft_count(const char *name);

/* Runs `mrail soft ctl` with these words. Returns its exit status. */
int job_soft_ctl(const char *words);

#endif
