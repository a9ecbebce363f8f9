/*
 * Forecasts of planned exchanges, in a separate file (file.h). Rank 0 of a
 * communicator writes the loads of all links with and without the last plan. A
 * process creates the file for its first forecast, so most processes do not
 * have a file.
 *
 * The process writes through a mapping. The writer's calls must be serialised
 * for each communicator, and calls that allocate or free a slot for the whole
 * file. A reader does not trust the content: it checks numbers and makes text
 * printable.
 *
 * The forecast of a freed communicator stays until another communicator needs
 * its slot.
 *
 * Source: [NIMBLE] IV-A (loads of links).
 */
#ifndef MRAIL_TELEMETRY_PLANS_H
#define MRAIL_TELEMETRY_PLANS_H

#include "telemetry/page.h"

#define MRAIL_PLANS_MAGIC 0x6d506c6eu
#define MRAIL_PLANS_VERSION 1u
#define MRAIL_PLANS_COMMS 8u
#define MRAIL_PLANS_LINKS 256u

typedef struct mrail_plans_link {
    uint32_t kind; /* mrail_plan_link_kind_t */
    uint32_t a, b; /* as in mrail_plan_link_t */
    uint32_t reserved;
    double capacity;           /* bytes per second */
    double unplanned, planned; /* bytes */
} mrail_plans_link_t;

/* The last forecast of a communicator. */
typedef struct mrail_plans_comm {
    uint64_t begun;   /* number of forecasts that were started; 0 if free */
    uint64_t done;    /* number of forecasts that were completed */
    uint64_t time_ns; /* CLOCK_REALTIME */
    double unplanned_s, planned_s; /* predicted times of the exchange */
    uint32_t size;                 /* number of ranks */
    uint32_t is_planned;           /* 1 if there is a plan; 0 if only a
                                    * forecast */
    uint32_t is_executed;          /* 1 if the call followed the plan */
    uint32_t num_links;
    uint32_t more_links; /* links beyond MRAIL_PLANS_LINKS */
    uint32_t earlier;    /* value of `begun` before the first forecast of this
                          * communicator; see mrail_plans_number() */
    char name[64];
    mrail_plans_link_t links[MRAIL_PLANS_LINKS];
} mrail_plans_comm_t;

typedef struct mrail_plans {
    uint32_t magic;
    uint32_t version;
    uint32_t size; /* bytes */
    uint32_t pid;
    int32_t rank;        /* -1 if there is no job */
    uint32_t more_comms; /* communicators beyond MRAIL_PLANS_COMMS */
    char job[48];
    mrail_plans_comm_t comms[MRAIL_PLANS_COMMS];
} mrail_plans_t;

/* ---- writer ---- */

typedef struct mrail_plans_file {
    mrail_tele_file_t file;
    mrail_plans_t *plans; /* the mapping; NULL if there is no file */
    unsigned num_used;    /* slots that have been allocated */
    uint32_t freed;       /* bit mask of slots whose communicators were freed */
} mrail_plans_file_t;

/* Creates the file of this process. `job` may be NULL. On failure, returns
 * -errno, leaves no file behind, and sets file->plans to NULL. */
int mrail_plans_create(mrail_plans_file_t *file, const char *dir, uint64_t id,
                       const char *job, int rank);
/* Removes the file when the process exits normally. */
void mrail_plans_remove(mrail_plans_file_t *file);

/* Returns a slot for a communicator: an unused one, or else the slot with the
 * oldest forecast of a freed communicator. Readers no longer see that forecast.
 * Returns NULL if all slots are in use, or if there is no file. */
mrail_plans_comm_t *mrail_plans_comm_add(mrail_plans_file_t *file);
/* Marks the slot of a freed communicator as reusable. `comm` may be NULL. Does
 * nothing after mrail_plans_remove(). */
void mrail_plans_comm_remove(mrail_plans_file_t *file,
                             const mrail_plans_comm_t *comm);

/* Starts a forecast, which readers see after mrail_plans_end(). Between the two
 * calls, the caller fills in all fields except `begun`, `done` and `earlier`. */
void mrail_plans_begin(mrail_plans_comm_t *comm);
void mrail_plans_end(mrail_plans_comm_t *comm);

/* Adds a link to a forecast. The caller sets num_links to 0 before the first
 * link. */
void mrail_plans_add(mrail_plans_comm_t *comm, const mrail_plans_link_t *link);

/* ---- readers ---- */

/* Returns the number of forecasts of a communicator, in a copy with begun != 0. */
static inline uint64_t mrail_plans_number(const mrail_plans_comm_t *comm)
{
    return comm->begun - comm->earlier;
}

/* Reads a copy of an open file, which stays readable after the process has
 * removed it. A communicator whose forecast is changing has begun == 0. *plans
 * is valid only for ALIVE and ENDED. */
mrail_page_status_t mrail_plans_read_fd(int fd, mrail_plans_t *plans);

/* Checks `plans`, a copy that was made after `before` and before `after`, which
 * are copies of `begun` and `done` of each communicator. Returns ALIVE, OTHER
 * or BROKEN. */
typedef struct mrail_plans_counts {
    uint64_t begun[MRAIL_PLANS_COMMS], done[MRAIL_PLANS_COMMS];
} mrail_plans_counts_t;
mrail_page_status_t mrail_plans_check(mrail_plans_t *plans,
                                      const mrail_plans_counts_t *before,
                                      const mrail_plans_counts_t *after);

#endif
