/*
 * Shared by the MPI test programs: data that differs for every message and
 * position, and results on which all ranks agree. Rank 0 prints one line per
 * test, "ok - NAME" or "not ok - NAME: WHY". Every rank with wrong data reports
 * it on stderr.
 */
#ifndef MRAIL_TEST_MPI_TEST_H
#define MRAIL_TEST_MPI_TEST_H

#include "base/util.h"

#include <mpi.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int mt_failures; /* failed tests, the same on all ranks */
static char mt_timeout_text[128];

static inline int mt_rank(MPI_Comm comm)
{
    int rank;

    MPI_Comm_rank(comm, &rank);
    return rank;
}

static inline int mt_size(MPI_Comm comm)
{
    int size;

    MPI_Comm_size(comm, &size);
    return size;
}

static inline void mt_on_timeout(int signal)
{
    ssize_t written = write(2, mt_timeout_text, strlen(mt_timeout_text));

    (void)signal;
    _exit((written < 0) ? 2 : 1);
}

/* Ends this rank with the message "WHAT hangs" unless it is called again in
 * time. */
static inline void mt_hangs_after(unsigned seconds, const char *what)
{
    snprintf(mt_timeout_text, sizeof(mt_timeout_text), "%s hangs\n", what);
    signal(SIGALRM, mt_on_timeout);
    alarm(seconds);
}

/* Ends this rank with a message that names the seed unless it is called again
 * in time. */
static inline void mt_seed_hangs_after(unsigned seconds, const char *program,
                                       uint64_t seed)
{
    char what[96];

    snprintf(what, sizeof(what), "rank %d: %s --seeds %llu-%llu",
             mt_rank(MPI_COMM_WORLD), program, (unsigned long long)seed,
             (unsigned long long)seed);
    mt_hangs_after(seconds, what);
}

static inline void *mt_alloc(size_t size)
{
    void *memory = malloc(MRAIL_MAX(size, 1));

    if (memory == NULL) {
        fprintf(stderr, "out of memory: %zu bytes\n", size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* Returns byte `i` of the message generated from this seed. */
static inline unsigned char mt_byte(uint64_t seed, size_t i)
{
    uint64_t x = (seed + 1 + i / 8) * 0x9e3779b97f4a7c15ull;

    return (unsigned char)(x >> (8 * (i % 8)));
}

static inline void mt_fill(void *buffer, size_t length, uint64_t seed)
{
    unsigned char *bytes = buffer;

    for (size_t i = 0; i < length; ++i) {
        bytes[i] = mt_byte(seed, i);
    }
}

/* Returns 1 if the bytes are correct. Otherwise, prints the first wrong one. */
static inline int mt_check(const void *buffer, size_t length, uint64_t seed)
{
    const unsigned char *bytes = buffer;

    for (size_t i = 0; i < length; ++i) {
        if (bytes[i] != mt_byte(seed, i)) {
            fprintf(stderr,
                    "rank %d: byte %zu of %zu is 0x%02x, not 0x%02x "
                    "(seed 0x%llx)\n",
                    mt_rank(MPI_COMM_WORLD), i, length, bytes[i],
                    mt_byte(seed, i), (unsigned long long)seed);
            return 0;
        }
    }
    return 1;
}

static inline uint64_t mt_seed(int from, int to, uint64_t message)
{
    return mrail_mix64(((uint64_t)from << 40) ^ ((uint64_t)to << 20) ^
                       (message << 1) ^ 1);
}

/* Reports a test as passed if all ranks passed. Collective over
 * MPI_COMM_WORLD. */
static inline void mt_result(const char *name, int local_ok)
{
    int failed = !local_ok, failed_ranks;

    MPI_Allreduce(&failed, &failed_ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (mt_rank(MPI_COMM_WORLD) == 0) {
        if (failed_ranks == 0) {
            printf("ok - %s\n", name);
        } else {
            printf("not ok - %s: wrong on %d of %d ranks\n", name, failed_ranks,
                   mt_size(MPI_COMM_WORLD));
        }
        fflush(stdout);
    }
    mt_failures += (failed_ranks != 0);
}

#endif
