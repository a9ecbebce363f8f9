/* A snapshot of a job, for tests of mrail diagnose. */
#ifndef MRAIL_TEST_DIAGNOSE_SNAPSHOT_H
#define MRAIL_TEST_DIAGNOSE_SNAPSHOT_H

#include "tools/diagnose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RANKS 4u
#define MAX_RANKS (2 * RANKS) /* for tests that add ranks */
#define MS MRAIL_NS_PER_MS
#define NOW (1000 * MRAIL_NS_PER_SEC)
#define WORLD 11u
#define SECOND 12u

extern mrail_calls_t calls[MAX_RANKS], earlier[MAX_RANKS];
extern diagnose_rank_t ranks[MAX_RANKS];
extern diagnose_snapshot_t snapshot;
extern diagnose_report_t report;

/* Makes a snapshot without a fault: RANKS ranks in two communicators without
 * calls, with four equal rails. For cmocka_unit_test_setup(). */
int set_up(void **state);

/* Returns a communicator of a rank. */
mrail_calls_comm_t *comm_of(unsigned rank, unsigned index);

/* Adds a call to a communicator. left_ns 0: the rank is still in it. */
void add(mrail_calls_comm_t *comm, uint32_t kind, int root, uint64_t entered_ns,
         uint64_t left_ns);

/* All ranks make the call at the same time, in their first communicator. */
void add_all(uint32_t kind, uint64_t entered_ns, uint64_t left_ns);

/* Makes the report. */
void check(void);

/* Adds a copy of a rank, with its own calls, to the snapshot. Returns it. */
diagnose_rank_t *add_copy(unsigned rank);

/* Fail unless the report has no finding, or only this one. */
void assert_none(void);
void assert_one(diagnose_cause_t cause, const char *subject);

#endif
