/* Functions that the sources of findings about MPI calls share. */
#ifndef MRAIL_TOOLS_DIAGNOSE_CALLS_H
#define MRAIL_TOOLS_DIAGNOSE_CALLS_H

#include "tools/diagnose.h"

/* A rank's part in a communicator. */
typedef struct diagnose_member {
    const diagnose_rank_t *rank;
    const mrail_calls_comm_t *comm, *earlier; /* earlier: may be NULL */
} diagnose_member_t;

/* The members of one communicator that run on this machine. */
typedef struct diagnose_group {
    const diagnose_member_t *members;
    unsigned count;
} diagnose_group_t;

typedef struct diagnose_check {
    const diagnose_snapshot_t *snapshot;
    diagnose_report_t *report;
    uint64_t now_ns;
    int lives; /* 1 if any process of the job is running */
} diagnose_check_t;

static inline double diagnose_seconds(uint64_t from_ns, uint64_t to_ns)
{
    return (to_ns > from_ns) ? (double)(to_ns - from_ns) / 1e9 : 0;
}

static inline int diagnose_is_inside(const mrail_calls_comm_t *comm)
{
    return comm->entered > comm->left;
}

static inline const char *diagnose_comm_name(const mrail_calls_comm_t *comm)
{
    return (comm->name[0] != '\0') ? comm->name : "a communicator";
}

/* Returns a communicator in whose collective the rank is, or NULL. */
const mrail_calls_comm_t *diagnose_inside_of(const mrail_calls_t *calls);

/* Adds a finding that a rank runs outside MPI. `reason` describes the ranks
 * that wait for it. If the rank is rarely scheduled on a core, but is not
 * starved, the time limit is twice as long. */
void diagnose_add_compute(const diagnose_check_t *check,
                          const diagnose_rank_t *rank, const char *reason);

/* Looks for ranks that wait in a collective that other ranks have not
 * entered. */
void diagnose_check_hang(const diagnose_check_t *check,
                         const diagnose_group_t *group);

/* Looks for ranks that make different calls at the same position of their
 * sequences. Returns 1 if it finds one. */
int diagnose_check_order(const diagnose_check_t *check,
                         const diagnose_group_t *group);

/* Looks for ranks that compute longer than the other ranks before each
 * collective. `scratch` is memory with one element for each member. */
void diagnose_check_late(const diagnose_check_t *check,
                         const diagnose_group_t *group, uint64_t *scratch);

#endif
