/*
 * Exports telemetry of a job that does not exist, for tests of tools:
 *
 *   exporter_pages DIR JOB RANKS RAILS LANES [plans | FIRST]
 *
 * Each rank has LANES lanes on each of its RAILS. Once all files exist, prints
 * "ready". Updates the files ten times per second until its standard input
 * ends, then removes them. If it is killed, the files remain. Rank 0 waits in a
 * collective from the start. With "plans", it has made a forecast before, in an
 * MPI_Alltoallv. With FIRST, the ranks begin at this number, and their trace
 * rings are full.
 *
 * All ranks have the same process id, as ranks in different PID namespaces may
 * have.
 */
#include "config.h"
#include "base/clock.h"
#include "orchestrator/plan.h"
#include "telemetry/calls.h"
#include "telemetry/plans.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORDS 4096u
#define PERIOD_MS 100
#define PORT_RATE 12500000000ull

typedef struct rank {
    mrail_page_file_t *file;
    mrail_calls_file_t calls;
    mrail_plans_file_t plans;
} rank_t;

static const char *const counters[] = {
    "am_sent",      "am_received", "put_bytes",     "get_bytes",
    "lanes_failed", "am_replayed", "lanes_evicted", "cqe_errors"};

static void fill(mrail_page_t *page, const char *job, int rank, unsigned rails,
                 unsigned lanes)
{
    page->rank = rank;
    snprintf(page->job, sizeof(page->job), "%s", job);
    snprintf(page->program, sizeof(page->program), "exporter_pages");
    page->num_rails = rails;
    page->num_lanes = rails * lanes;
    page->num_counters = MRAIL_ARRAY_SIZE(counters);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(counters); ++i) {
        snprintf(page->counters[i].name, sizeof(page->counters[i].name), "%s",
                 counters[i]);
    }
    for (unsigned i = 0; i < rails; ++i) {
        snprintf(page->rails[i].device, sizeof(page->rails[i].device),
                 "mlx5_%u", i);
        page->rails[i].port = 1;
        page->rails[i].num_lanes = lanes;
        page->rails[i].nominal = PORT_RATE;
    }
    for (unsigned i = 0; i < page->num_lanes; ++i) {
        page->lanes[i].peer = 0x1000;
        page->lanes[i].slot = (uint16_t)i;
        page->lanes[i].rail = i % rails;
        page->lanes[i].sport = (uint16_t)(0xC000 + i);
        snprintf(page->lanes[i].state, sizeof(page->lanes[i].state), "up");
    }
}

/* Every figure grows with each update. */
static void advance(mrail_page_t *page)
{
    for (unsigned i = 0; i < page->num_counters; ++i) {
        page->counters[i].value += 1000 + i;
    }
    for (unsigned i = 0; i < page->num_lanes; ++i) {
        mrail_page_lane_t *lane = &page->lanes[i];

        lane->bytes += 1000003;
        lane->stalled_ns += 1000;
        lane->idle_ns += 2000;
        lane->rate = PORT_RATE / 3;
        lane->outstanding = 4096;
        page->rails[lane->rail].bytes += 1000003;
        page->rails[lane->rail].stalled_ns += 1000;
        page->rails[lane->rail].idle_ns += 2000;
        page->rails[lane->rail].live_out = PORT_RATE / 2;
        page->rails[lane->rail].work_out.bytes += 1000003;
        page->rails[lane->rail].work_out.busy_ns += 160000;
        page->rails[lane->rail].work_out.chunks += 4;
        page->rails[lane->rail].work_out.chunk_ns += 1600000;
    }
}

/* Fills the ring with the chunks of half a second. */
static void fill_ring(const mrail_page_file_t *file, unsigned rails,
                      unsigned lanes)
{
    mrail_ring_t ring = mrail_page_ring(file);
    mrail_ns_t now_ns = mrail_clock_now();

    for (unsigned i = 0; i < RECORDS; ++i) {
        mrail_ns_t at_ns = now_ns - MRAIL_NS_PER_SEC / 2 +
                           i * (MRAIL_NS_PER_SEC / 2 / RECORDS);

        mrail_ring_write(&ring, at_ns, at_ns + MRAIL_NS_PER_MS, 0x1000,
                         mrail_ring_tail(65536, i % (rails * lanes), i % rails,
                                         MRAIL_RING_PUT, 1));
    }
}

/* Makes a forecast for four ranks on two nodes: 0.5 s without a plan, and 0.25 s
 * with it. */
static int make_forecast(rank_t *rank, const char *dir, const char *job,
                         mrail_calls_comm_t *calls)
{
    mrail_plans_comm_t *comm;

    if (mrail_plans_create(&rank->plans, dir, 1, job, 0) != 0) {
        return -1;
    }
    mrail_calls_comm_name(calls, "MPI_COMM_WORLD");
    mrail_calls_enter(calls, MRAIL_CALLS_ALLTOALLV, -1);
    usleep(20000);
    comm = mrail_plans_comm_add(&rank->plans);
    mrail_plans_begin(comm);
    comm->time_ns = mrail_page_now();
    comm->unplanned_s = 0.5;
    comm->planned_s = 0.25;
    comm->size = 4;
    comm->is_planned = comm->is_executed = 1;
    snprintf(comm->name, sizeof(comm->name), "MPI_COMM_WORLD");
    for (unsigned i = 0; i < 4; ++i) {
        const mrail_plans_link_t link = {.kind = MRAIL_PLAN_RAIL_OUT,
                                         .a = i / 2,
                                         .b = i % 2,
                                         .capacity = (double)PORT_RATE,
                                         .unplanned = 4e9 * (i % 2),
                                         .planned = 2e9};

        mrail_plans_add(comm, &link);
    }
    mrail_plans_end(comm);
    usleep(20000);
    mrail_calls_leave(calls);
    return 0;
}

static int open_rank(rank_t *rank, const char *dir, const char *job,
                     unsigned number, unsigned rails, unsigned lanes,
                     int has_plans)
{
    mrail_calls_comm_t *comm;

    if ((mrail_page_create(dir, number, RECORDS, &rank->file) != 0) ||
        (mrail_calls_create(&rank->calls, dir, number, job, (int)number,
                            "exporter_pages") != 0)) {
        return -1;
    }
    comm = mrail_calls_comm_add(rank->calls.calls, 1, 32, number);
    if (has_plans && (number == 0) &&
        (make_forecast(rank, dir, job, comm) != 0)) {
        return -1;
    }
    mrail_calls_enter(comm, MRAIL_CALLS_BARRIER, -1);
    if (number != 0) {
        mrail_calls_leave(comm);
    }
    fill(mrail_page_own(rank->file), job, (int)number, rails, lanes);
    return 0;
}

static void update_until_end(rank_t *ranks, unsigned num)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    int is_ready = 0;
    char text[64];

    do {
        for (unsigned i = 0; i < num; ++i) {
            advance(mrail_page_own(ranks[i].file));
            mrail_page_update(ranks[i].file);
        }
        if (!is_ready) {
            puts("ready");
            fflush(stdout);
            is_ready = 1;
        }
    } while ((poll(&in, 1, PERIOD_MS) == 0) ||
             (read(STDIN_FILENO, text, sizeof(text)) > 0));
}

int main(int argc, char **argv)
{
    unsigned num, rails, lanes, first;
    int has_plans, has_first;
    rank_t *ranks;

    if ((argc != 6) && (argc != 7)) {
        fputs("usage: exporter_pages DIR JOB RANKS RAILS LANES "
              "[plans | FIRST]\n",
              stderr);
        return 2;
    }
    num = (unsigned)strtoul(argv[3], NULL, 10);
    rails = (unsigned)strtoul(argv[4], NULL, 10);
    lanes = (unsigned)strtoul(argv[5], NULL, 10);
    has_plans = (argc == 7) && (strcmp(argv[6], "plans") == 0);
    has_first = (argc == 7) && !has_plans;
    first = has_first ? (unsigned)strtoul(argv[6], NULL, 10) : 0;
    ranks = calloc(num, sizeof(*ranks));
    if ((ranks == NULL) || (num == 0) || (rails == 0) ||
        (rails > MRAIL_PAGE_RAILS) || (rails * lanes > MRAIL_PAGE_LANES)) {
        return 2;
    }
    for (unsigned i = 0; i < num; ++i) {
        if (open_rank(&ranks[i], argv[1], argv[2], first + i, rails, lanes,
                      has_plans) != 0) {
            perror("exporter_pages");
            return 1;
        }
        if (has_first) {
            fill_ring(ranks[i].file, rails, lanes);
        }
    }
    update_until_end(ranks, num);
    for (unsigned i = 0; i < num; ++i) {
        mrail_plans_remove(&ranks[i].plans);
        mrail_calls_remove(&ranks[i].calls);
        mrail_page_remove(ranks[i].file);
    }
    free(ranks);
    return 0;
}
