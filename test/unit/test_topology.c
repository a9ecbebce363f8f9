/* Tests topologies with multi-rail ranks: rail numbers, topology files, and the
 * decision whether a plan is worth its cost. */
#include "config.h"
#include "mpi/coll/plan_cost.h"
#include "mpi/coll/relay_quota.h"
#include "mpi/coll/schedule_internal.h"
#include "mpi/coll/topo_file.h"
#include "mpi/coll/topology.h"
#include "mpi/coll/unplanned.h"
#include "mpi/coll/uplinks.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/util.h"

#define MAX_RANKS 16u
#define MAX_RECORD (MCA_COLL_MRAIL_RECORD_MAX_HEAD + MAX_RANKS)
#define MB 1000000ull
/* Records contain rounded numbers. */
#define ERROR 0.001

/* ---- jobs ---- */

/* All ranks of a job with `nodes` nodes. Each rank reaches the rails of its
 * mask. */
typedef struct job {
    unsigned num_ranks;
    mca_coll_mrail_rank_entry_t entries[MAX_RANKS];
    uint32_t world[MAX_RANKS];
    mca_coll_mrail_topo_file_t file;
    mca_coll_mrail_topology_t *topologies[MAX_RANKS];
    mca_coll_mrail_schedule_t *schedules[MAX_RANKS];
    mca_coll_mrail_rail_rate_t rates[MAX_RANKS][UCT_MRAIL_MAX_RAILS];
    uint64_t bytes[MAX_RANKS][MAX_RANKS];
    unsigned plan_cost_level;         /* the level that all ranks announce */
    mca_coll_mrail_records_t records; /* built from the fields above */
} job_t;

/* Creates a job in which every rank reaches these rails, each of 100 MB/s. */
static void fill(job_t *job, unsigned nodes, unsigned ranks_per_node,
                 uint32_t rails)
{
    memset(job, 0, sizeof(*job));
    job->num_ranks = nodes * ranks_per_node;
    for (unsigned i = 0; i < job->num_ranks; ++i) {
        mca_coll_mrail_rank_entry_t *entry = &job->entries[i];

        *entry = (mca_coll_mrail_rank_entry_t){
            .version = 5,
            .node = 1000 - i / ranks_per_node,
            .params = {.relay_threshold = 100000,
                       .relay_chunk_size = 4096,
                       .relay_buffers = 4,
                       .relay_memory = 1u << 30,
                       .copy_bandwidth = 1000000000000ull,
                       .cross_rail = 1}};
        for (uint32_t left = rails; left != 0; left &= left - 1) {
            entry->rates[entry->num_rails] = 100 * MB;
            entry->leaf[entry->num_rails++] =
                10 + (unsigned)__builtin_ctz(left);
        }
        job->world[i] = i;
    }
}

static void set_rails(job_t *job, unsigned rank, uint32_t rails)
{
    job_t other;

    fill(&other, 1, 1, rails);
    job->entries[rank].num_rails = other.entries[0].num_rails;
    memcpy(job->entries[rank].leaf, other.entries[0].leaf,
           sizeof(other.entries[0].leaf));
    memcpy(job->entries[rank].rates, other.entries[0].rates,
           sizeof(other.entries[0].rates));
}

/* Gives all ranks a topology file with this text. */
static void set_file(job_t *job, const char *text)
{
    char reason[MCA_COLL_MRAIL_REASON_SIZE] = "";

    strcpy(job->file.name, "topo");
    if (mrail_topo_text_read("topo", text, strlen(text), &job->file.text,
                             reason, sizeof(reason)) != 0) {
        fail_msg("%s", reason);
    }
    job->file.hash = 77;
    for (unsigned i = 0; i < job->num_ranks; ++i) {
        job->entries[i].topo_file = 77;
    }
}

static int create(job_t *job, unsigned self, const char **reason_p)
{
    return mca_coll_mrail_topology_create(job->entries, job->num_ranks, self,
                                          job->file.text.topo, job->world,
                                          &job->topologies[self], reason_p);
}

/* Returns the reason why plans cannot help, or "". */
static const char *refusal(job_t *job)
{
    const char *reason = "";

    if (create(job, 0, &reason) == 0) {
        mca_coll_mrail_topology_destroy(job->topologies[0]);
        job->topologies[0] = NULL;
        return "";
    }
    return reason;
}

static void set_demand(job_t *job, unsigned from, unsigned to, uint64_t bytes)
{
    job->bytes[from][to] = bytes;
}

/* Returns the records of all ranks. */
static const mca_coll_mrail_records_t *records_of(job_t *job)
{
    uint64_t words[MCA_COLL_MRAIL_RECORD_MAX_HEAD + MAX_RANKS];
    const uint32_t *node_of = job->topologies[0]->node_of;
    mca_coll_mrail_record_rule_t rule =
        mca_coll_mrail_schedule_rule(job->topologies[0]);
    mca_coll_mrail_record_writer_t writer;

    for (uint32_t self = 0; self < job->num_ranks; ++self) {
        size_t length;

        mca_coll_mrail_record_begin(&writer, &rule, self, job->rates[self],
                                    (unsigned)job->entries[self].num_rails,
                                    words);
        for (uint32_t i = 0; i < job->num_ranks; ++i) {
            int is_near = node_of[i] == node_of[self];

            if (i != self) {
                mca_coll_mrail_record_send(&writer, i, job->bytes[self][i],
                                           is_near);
                mca_coll_mrail_record_recv(&writer, i, job->bytes[i][self],
                                           is_near);
            }
        }
        length = mca_coll_mrail_record_end(
            &writer, job->plan_cost_level << MCA_COLL_MRAIL_PLAN_COST_SHIFT);
        assert_true(
            mca_coll_mrail_record_check(words, length, self, job->num_ranks));
        memcpy(mca_coll_mrail_records_add(&job->records, self, length), words,
               length * sizeof(*words));
    }
    return &job->records;
}

static void begin(job_t *job)
{
    const char *reason = "";

    for (unsigned i = 0; i < job->num_ranks; ++i) {
        if (create(job, i, &reason) != 0) {
            fail_msg("%s", reason);
        }
        assert_int_equal(mca_coll_mrail_schedule_create(job->topologies[i],
                                                        &job->schedules[i]),
                         0);
    }
    assert_int_equal(mca_coll_mrail_records_init(&job->records, job->num_ranks),
                     0);
    assert_int_equal(mca_coll_mrail_records_reserve(
                         &job->records, job->num_ranks * MAX_RECORD),
                     0);
    for (unsigned i = 0; i < job->num_ranks; ++i) {
        for (unsigned k = 0; k < job->entries[i].num_rails; ++k) {
            job->rates[i][k].port = job->entries[i].rates[k];
        }
    }
}

static void end(job_t *job)
{
    for (unsigned i = 0; i < job->num_ranks; ++i) {
        mca_coll_mrail_schedule_destroy(job->schedules[i]);
        mca_coll_mrail_topology_destroy(job->topologies[i]);
    }
    mca_coll_mrail_topo_file_cleanup(&job->file);
    mca_coll_mrail_records_cleanup(&job->records);
}

/* Computes the schedules of all ranks, and returns the forecast, which is the
 * same on all of them. */
static const mca_coll_mrail_forecast_t *make(job_t *job)
{
    for (unsigned i = 0; i < job->num_ranks; ++i) {
        assert_int_equal(
            mca_coll_mrail_schedule_make(job->schedules[i], records_of(job)),
            0);
        assert_int_equal(job->schedules[i]->hash, job->schedules[0]->hash);
        assert_memory_equal(&job->schedules[i]->forecast,
                            &job->schedules[0]->forecast,
                            sizeof(job->schedules[0]->forecast));
    }
    return &job->schedules[0]->forecast;
}

static const mca_coll_mrail_schedule_entry_t *
send_to(const job_t *job, unsigned from, unsigned to)
{
    const mca_coll_mrail_schedule_t *schedule = job->schedules[from];

    for (size_t i = 0; i < schedule->num_sends; ++i) {
        if (schedule->sends[i].peer == to) {
            return &schedule->sends[i];
        }
    }
    return NULL;
}

static uint64_t quota_sum(const mca_coll_mrail_schedule_entry_t *entry)
{
    uint64_t sum = 0;

    for (unsigned rail = 0; rail < UCT_MRAIL_MAX_RAILS; ++rail) {
        sum += entry->quota[rail];
    }
    return sum;
}

/* ---- rails of ranks ---- */

static void test_rails_have_numbers(void **state)
{
    job_t job;
    const char *reason;

    fill(&job, 2, 2, 0x7);
    set_rails(&job, 1, 0x2);
    set_rails(&job, 2, 0x5);
    assert_int_equal(create(&job, 0, &reason), 0);
    assert_int_equal(job.topologies[0]->num_rails, 3);
    assert_int_equal(job.topologies[0]->max_rails, 3);
    assert_int_equal(job.topologies[0]->rails_of[0], 0x7);
    assert_int_equal(job.topologies[0]->rails_of[1], 0x2);
    assert_int_equal(job.topologies[0]->rails_of[2], 0x5);
    assert_int_equal(mca_coll_mrail_topology_rail(job.topologies[0], 2, 1), 2);
    mca_coll_mrail_topology_destroy(job.topologies[0]);
}

/* Two ports of a rank on one leaf are two rails. */
static void test_rails_of_one_leaf(void **state)
{
    job_t job;
    const char *reason;

    fill(&job, 2, 2, 0x3);
    for (unsigned i = 0; i < 4; ++i) {
        job.entries[i].leaf[1] = job.entries[i].leaf[0];
    }
    job.entries[3].num_rails = 1;
    assert_int_equal(create(&job, 0, &reason), 0);
    assert_int_equal(job.topologies[0]->num_rails, 2);
    assert_int_equal(job.topologies[0]->rails_of[0], 0x3);
    assert_int_equal(job.topologies[0]->rails_of[3], 0x1);
    mca_coll_mrail_topology_destroy(job.topologies[0]);
}

static void test_too_many_rails(void **state)
{
    job_t job;

    fill(&job, 2, 2, 0xffff);
    set_rails(&job, 1, 0xff);
    assert_string_equal(refusal(&job), "");
    for (unsigned k = 0; k < 8; ++k) {
        job.entries[1].leaf[k] = 100 + k;
    }
    assert_non_null(strstr(refusal(&job), "more rails"));
}

/* If the lanes of the transport are as good as any plan, a communicator never
 * has an agreement round. */
static void test_balanced_rails_need_no_plan(void **state)
{
    job_t job;

    fill(&job, 2, 4, 0xf);
    assert_non_null(strstr(refusal(&job), "several rails"));
    /* all rails of one node are half as fast */
    for (unsigned k = 0; k < 4; ++k) {
        for (unsigned i = 4; i < 8; ++i) {
            job.entries[i].rates[k] /= 2;
        }
    }
    assert_non_null(strstr(refusal(&job), "several rails"));
    /* one rail of all nodes is slower */
    for (unsigned i = 0; i < 8; ++i) {
        job.entries[i].rates[2] /= 4;
    }
    assert_non_null(strstr(refusal(&job), "several rails"));
    job.entries[5].rates[2] *= 2;
    assert_string_equal(refusal(&job), "");
    job.entries[5].rates[2] /= 2;
    set_rails(&job, 5, 0xe);
    assert_string_equal(refusal(&job), "");
    fill(&job, 1, 8, 0xf);
    set_rails(&job, 5, 0xe);
    assert_non_null(strstr(refusal(&job), "one node"));
}

/* ---- forecast ---- */

/* Two nodes with two ranks and two rails. On node 1, rail 1 has half the rate
 * of rail 0. A pair splits its bytes 2 : 1. */
static void test_forecast_without_a_plan(void **state)
{
    const mca_coll_mrail_forecast_t *forecast;
    job_t job;

    fill(&job, 2, 2, 0x3);
    job.entries[2].rates[1] = job.entries[3].rates[1] = 50 * MB;
    begin(&job);
    set_demand(&job, 0, 2, 30 * MB);
    set_demand(&job, 3, 1, 15 * MB);
    forecast = make(&job);
    assert_true(fabs(forecast->unplanned - 0.2) < ERROR);
    assert_true(fabs(forecast->planned - 0.2) < ERROR);
    assert_false(forecast->is_planned);
    assert_false(forecast->is_gain);
    assert_int_equal(job.schedules[0]->num_sends, 0);
    assert_true(
        mca_coll_mrail_schedule_fit(job.schedules[0], records_of(&job)));
    end(&job);
}

/* Rail 1 of node 1 and rail 0 of node 2 carry 20 MB/s. Ranks 1 and 2 have no
 * rail that is fast at both ends. The bytes from rank 0 to rank 1 should leave
 * the capacity of rail 1 of node 1 to the bytes from rank 2. The lanes cannot
 * know this. */
static void test_a_plan_is_made_where_it_gains(void **state)
{
    const mca_coll_mrail_forecast_t *forecast;
    const mca_coll_mrail_schedule_entry_t *entry;
    job_t job;

    fill(&job, 3, 1, 0x3);
    job.entries[1].rates[1] = 20 * MB;
    job.entries[2].rates[0] = 20 * MB;
    begin(&job);
    set_demand(&job, 0, 1, 60 * MB);
    set_demand(&job, 0, 2, 30 * MB);
    set_demand(&job, 2, 1, 40 * MB);
    forecast = make(&job);
    /* rail 1 of node 1: 1/6 of 60 MB and 1/2 of 40 MB */
    assert_true(fabs(forecast->unplanned - 1.5) < ERROR);
    assert_in_range((int)(forecast->planned * 1000), 998, 1012);
    assert_true(forecast->is_gain);
    for (unsigned from = 0; from < 3; ++from) {
        for (unsigned to = 0; to < 3; ++to) {
            entry = send_to(&job, from, to);
            if (entry != NULL) {
                assert_int_equal(quota_sum(entry), entry->bytes);
            }
        }
    }
    end(&job);
}

/* Rank 1 of each node reaches only rail 1. Rank 0 has most of the bytes, so a
 * plan moves them away from rail 1. */
static void test_masks_that_differ(void **state)
{
    const mca_coll_mrail_forecast_t *forecast;
    const mca_coll_mrail_schedule_entry_t *entry;
    job_t job;

    fill(&job, 2, 2, 0x3);
    set_rails(&job, 1, 0x2);
    set_rails(&job, 3, 0x2);
    begin(&job);
    set_demand(&job, 0, 2, 60 * MB);
    set_demand(&job, 1, 3, 60 * MB);
    forecast = make(&job);
    assert_true(fabs(forecast->unplanned - 0.9) < ERROR);
    assert_in_range((int)(forecast->planned * 1000), 599, 608);
    assert_true(forecast->is_gain);
    assert_int_equal(job.schedules[0]->num_flows, 0);
    entry = send_to(&job, 0, 2);
    assert_non_null(entry);
    assert_true(entry->is_whole);
    assert_in_range(entry->quota[0], 59 * MB, 60 * MB);
    assert_int_equal(quota_sum(entry), 60 * MB);
    entry = send_to(&job, 1, 3);
    assert_non_null(entry);
    assert_int_equal(entry->quota[1], 60 * MB);
    /* A rank with one rail and most of the bytes needs relays. */
    set_demand(&job, 0, 2, 0);
    forecast = make(&job);
    assert_true(forecast->is_gain);
    assert_in_range((int)(forecast->planned * 1000), 299, 307);
    assert_true(job.schedules[0]->num_flows > 0);
    end(&job);
}

/* If an exchange is shorter than the time to make a plan, no plan is made. */
static void test_short_exchanges_have_no_plan(void **state)
{
    job_t job;

    fill(&job, 2, 2, 0x3);
    set_rails(&job, 1, 0x2);
    set_rails(&job, 3, 0x2);
    for (unsigned i = 0; i < 4; ++i) {
        job.entries[i].rates[0] = job.entries[i].rates[1] = 100000 * MB;
    }
    begin(&job);
    set_demand(&job, 0, 2, 6 * MB);
    set_demand(&job, 1, 3, 6 * MB);
    assert_false(make(&job)->is_gain);
    assert_false(job.schedules[0]->forecast.is_planned);
    end(&job);
}

/* ---- schedules ---- */

/* The direct part and the flows of a pair carry each byte once, and both ends
 * agree. */
static void check_pair(const job_t *job, unsigned from, unsigned to,
                       uint64_t bytes)
{
    const mca_coll_mrail_schedule_t *sender = job->schedules[from];
    const mca_coll_mrail_schedule_entry_t *send = send_to(job, from, to);
    uint64_t at = 0, covered = 0;

    for (size_t i = 0; i < job->schedules[to]->num_recvs; ++i) {
        if (job->schedules[to]->recvs[i].peer == from) {
            assert_non_null(send);
            assert_int_equal(job->schedules[to]->recvs[i].offset, send->offset);
            assert_memory_equal(job->schedules[to]->recvs[i].quota, send->quota,
                                sizeof(send->quota));
        }
    }
    if (send != NULL) {
        covered = send->bytes;
        assert_int_equal(quota_sum(send), send->bytes);
        for (unsigned rail = 0; rail < UCT_MRAIL_MAX_RAILS; ++rail) {
            assert_true(send->quota[rail] == 0 ||
                        (job->topologies[0]->rails_of[to] >> rail & 1) != 0);
        }
    }
    for (size_t i = 0; i < sender->num_flows; ++i) {
        if (sender->flows[i].from == from && sender->flows[i].to == to) {
            at += (send != NULL && at == send->offset) ? send->bytes : 0;
            assert_int_equal(sender->flows[i].offset, at);
            at += sender->flows[i].bytes;
            covered += sender->flows[i].bytes;
        }
    }
    assert_int_equal(covered, bytes);
}

typedef uint64_t node_rails_t[MAX_RANKS][UCT_MRAIL_MAX_RAILS];

/* Adds the bytes that a rank READs, by node and rail. */
static void add_reads(const job_t *job, uint32_t rank, size_t header,
                      node_rails_t sums)
{
    const mca_coll_mrail_schedule_t *schedule = job->schedules[rank];
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    const mca_coll_mrail_relay_sizes_t sizes = {4096, header};
    mca_coll_mrail_relay_quota_t quotas[MAX_RANKS];
    uint64_t *row = sums[topology->node_of[rank]];
    uint32_t place[MAX_RANKS];
    unsigned count = mca_coll_mrail_relay_quotas(
        topology, schedule->flows, schedule->num_flows, &sizes, place, quotas);

    assert_int_equal(count, schedule->channels[rank]);
    for (size_t i = 0; i < schedule->num_recvs; ++i) {
        for (unsigned rail = 0; rail < topology->num_rails; ++rail) {
            row[rail] += schedule->recvs[i].quota[rail];
        }
    }
    for (unsigned i = 0; i < count; ++i) {
        assert_int_equal(place[quotas[i].from], i);
        assert_true(topology->node_of[quotas[i].from] !=
                    topology->node_of[rank]);
        for (unsigned k = 0; k < UCT_MRAIL_MAX_RAILS; ++k) {
            if (k < mca_coll_mrail_topology_num_rails(topology, rank)) {
                row[mca_coll_mrail_topology_rail(topology, rank, k)] +=
                    quotas[i].bytes[k];
            } else {
                assert_int_equal(quotas[i].bytes[k], 0);
            }
        }
    }
}

static uint64_t count_chunks(const job_t *job)
{
    const mca_coll_mrail_schedule_t *schedule = job->schedules[0];
    const uint32_t *node_of = schedule->topology->node_of;
    uint64_t chunks = 0;

    for (size_t i = 0; i < schedule->num_flows; ++i) {
        const mrail_relay_flow_t *flow = &schedule->flows[i];

        chunks += (node_of[flow->from] != node_of[flow->to])
                      ? (flow->bytes + 4095) / 4096
                      : 0;
    }
    return chunks;
}

/* The READs of all ranks load each rail with the bytes of the plan. */
static void check_rails(const job_t *job)
{
    const mca_coll_mrail_schedule_t *schedule = job->schedules[0];
    node_rails_t sums = {{0}}, with_headers = {{0}};
    uint64_t headers = 0;

    for (uint32_t i = 0; i < job->num_ranks; ++i) {
        add_reads(job, i, 0, sums);
        add_reads(job, i, 64, with_headers);
    }
    for (unsigned i = 0; i < mrail_plan_num_links(schedule->plan); ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(schedule->plan, i, &link);
        if (link.kind == MRAIL_PLAN_RAIL_IN) {
            link.bytes -=
                (double)mca_coll_mrail_schedule_rail(
                    schedule->topology, schedule->rails, link.a, link.b)
                    ->small_in;
            assert_int_equal(sums[link.a][link.b], (uint64_t)link.bytes);
            headers += with_headers[link.a][link.b] - sums[link.a][link.b];
        }
    }
    assert_int_equal(headers, 64 * count_chunks(job));
}

static uint32_t draw_rails(mrail_rng_t *rng, unsigned rails)
{
    uint32_t mask = 0;

    while (mask == 0) {
        mask = mrail_rng_below(rng, 1u << rails);
    }
    return mask;
}

static unsigned run_seed(uint64_t seed)
{
    mrail_rng_t rng;
    unsigned nodes, ranks, rails, planned;
    job_t job;

    mrail_rng_init(&rng, seed);
    nodes = 2 + mrail_rng_below(&rng, 3);
    ranks = 1 + mrail_rng_below(&rng, 4);
    rails = 2 + mrail_rng_below(&rng, 3);
    fill(&job, nodes, ranks, (1u << rails) - 1);
    for (unsigned i = 0; i < job.num_ranks; ++i) {
        if (i > 1 && mrail_rng_hit(&rng, 600000)) {
            set_rails(&job, i, draw_rails(&rng, rails));
        }
        job.entries[i].rates[0] = MB * (50 + mrail_rng_below(&rng, 100));
    }
    if (refusal(&job)[0] != '\0') {
        return 0;
    }
    begin(&job);
    for (unsigned from = 0; from < job.num_ranks; ++from) {
        for (unsigned to = 0; to < job.num_ranks; ++to) {
            if (from != to && mrail_rng_hit(&rng, 700000)) {
                set_demand(&job, from, to, mrail_rng_below(&rng, 9000000));
            }
        }
    }
    planned = make(&job)->is_planned;
    if (planned) {
        check_rails(&job);
    }
    for (unsigned from = 0; planned && from < job.num_ranks; ++from) {
        for (unsigned to = 0; to < job.num_ranks; ++to) {
            uint64_t bytes = job.bytes[from][to];

            if (from / ranks != to / ranks) {
                check_pair(&job, from, to, (bytes > 100000) ? bytes : 0);
            }
        }
    }
    end(&job);
    return planned;
}

static void test_all_bytes_have_a_path(void **state)
{
    unsigned planned = 0;

    for (uint64_t seed = 1; seed <= 200; ++seed) {
        print_message("seed %llu\n", (unsigned long long)seed);
        planned += run_seed(seed);
    }
    assert_true(planned > 50);
}

/* ---- budget ---- */

/* Planning takes 1 ms per demand, and a plan saves a third of a millisecond. A
 * plan is made once it would have saved its own cost over the repeated
 * exchanges. */
static void test_budget(void **state)
{
    const mca_coll_mrail_forecast_t *forecast;
    unsigned calls = 1;
    job_t job;

    fill(&job, 4, 2, 0x3);
    for (unsigned i = 0; i < job.num_ranks; ++i) {
        job.entries[i].rates[0] = job.entries[i].rates[1] = 1000 * MB;
        job.entries[i].params.plan_budget = 1;
    }
    set_file(&job, "nodes 4\nrails 2\nrail * * 1GB\nranks * 2 multi-rail\n"
                   "leaf_group 2-3 1\nuplink * 0 800MB\nuplink * 1 200MB\n");
    begin(&job);
    job.plan_cost_level = 7;
    set_demand(&job, 0, 4, 110000);
    set_demand(&job, 2, 6, 110000);
    forecast = make(&job);
    assert_true(forecast->is_deferred);
    assert_false(forecast->is_planned || forecast->is_gain);
    assert_true(fabs(forecast->cost - 2 * 1.024e-3) < 1e-6);
    while (mca_coll_mrail_schedule_fit(job.schedules[0], records_of(&job))) {
        assert_true(++calls < 100);
    }
    assert_int_equal(calls, 6);
    for (unsigned i = 1; i < job.num_ranks; ++i) {
        for (unsigned k = 1; k < calls; ++k) {
            assert_true(mca_coll_mrail_schedule_fit(job.schedules[i],
                                                    records_of(&job)));
        }
        assert_false(
            mca_coll_mrail_schedule_fit(job.schedules[i], records_of(&job)));
    }
    forecast = make(&job);
    assert_true(forecast->is_planned && forecast->is_gain);
    assert_true(
        mca_coll_mrail_schedule_fit(job.schedules[0], records_of(&job)));
    /* Different demands restart the count. */
    set_demand(&job, 0, 4, 120000);
    for (unsigned i = 0; i < job.num_ranks; ++i) {
        assert_false(
            mca_coll_mrail_schedule_fit(job.schedules[i], records_of(&job)));
    }
    assert_true(make(&job)->is_deferred);
    job.plan_cost_level = 1;
    set_demand(&job, 0, 4, 130000);
    for (unsigned i = 0; i < job.num_ranks; ++i) {
        assert_false(
            mca_coll_mrail_schedule_fit(job.schedules[i], records_of(&job)));
    }
    assert_true(make(&job)->is_planned);
    end(&job);
}

/* Single-rail ranks are planned for any gain, but not without one. */
static void test_budget_of_single_rail_ranks(void **state)
{
    job_t job;

    fill(&job, 2, 2, 0x3);
    for (unsigned i = 0; i < job.num_ranks; ++i) {
        set_rails(&job, i, 1u << (i % 2));
        job.entries[i].params.plan_budget = 1;
    }
    begin(&job);
    set_demand(&job, 0, 2, 5 * MB);
    set_demand(&job, 1, 3, 5 * MB);
    assert_false(make(&job)->is_planned);
    assert_false(job.schedules[0]->forecast.is_deferred);
    set_demand(&job, 1, 3, 4 * MB);
    for (unsigned i = 0; i < job.num_ranks; ++i) {
        assert_false(
            mca_coll_mrail_schedule_fit(job.schedules[i], records_of(&job)));
    }
    assert_true(make(&job)->is_planned);
    end(&job);
}

static void test_levels_of_the_cost(void **state)
{
    unsigned level = mca_coll_mrail_plan_cost_level(0, 1100);

    assert_true(mca_coll_mrail_plan_cost_ns(level) == 1000);
    assert_int_equal(mca_coll_mrail_plan_cost_level(level, 3900), level);
    assert_int_equal(mca_coll_mrail_plan_cost_level(level, 260), level);
    assert_int_equal(mca_coll_mrail_plan_cost_level(level, 4100), level + 1);
    assert_int_equal(mca_coll_mrail_plan_cost_level(level, 10), 1);
    assert_int_equal(mca_coll_mrail_plan_cost_level(level, 1e12), 7);
    assert_true(mca_coll_mrail_plan_cost_ns(0) == 1000);
}

/* ---- topology files ---- */

#define HEAD "nodes 4\nrails 2\nrail * * 100MB\n"
#define RANKS "ranks * 2 multi-rail\n"
#define GROUPS "leaf_group 2-3 1\n"

/* Two leaf groups have two nodes each. The uplinks of rail 1 have a quarter of
 * the capacity of those of rail 0, which the lanes do not know. */
static void test_uplinks(void **state)
{
    const mca_coll_mrail_forecast_t *forecast;
    const mca_coll_mrail_schedule_entry_t *entry;
    job_t job;

    fill(&job, 4, 2, 0x3);
    set_file(&job, HEAD RANKS GROUPS "uplink * 0 80MB\nuplink * 1 20MB\n");
    begin(&job);
    set_demand(&job, 0, 4, 50 * MB);
    set_demand(&job, 2, 6, 50 * MB);
    forecast = make(&job);
    assert_true(fabs(forecast->unplanned - 2.5) < ERROR);
    assert_in_range((int)(forecast->planned * 1000), 998, 1012);
    assert_true(forecast->is_gain);
    assert_int_equal(job.schedules[0]->num_flows, 0);
    entry = send_to(&job, 0, 4);
    assert_non_null(entry);
    assert_in_range(entry->quota[0] + send_to(&job, 2, 6)->quota[0], 79 * MB,
                    81 * MB);
    end(&job);
}

static const uct_mrail_direct_lanes_t *lanes_of(void *arg, uint32_t rank)
{
    return &((job_t *)arg)->entries[rank].lanes;
}

/* Sums a rail's uplink counters over all ranks. */
static void sum_uplinks(job_t *job, unsigned rail, uint64_t up[4],
                        uint64_t down[4])
{
    for (unsigned u = 0; u < 4; ++u) {
        up[u] = down[u] = 0;
    }
    for (unsigned i = 0; i < job->num_ranks; ++i) {
        mca_coll_mrail_uplinks_t uplinks = {0};

        mca_coll_mrail_uplinks_add(&uplinks, job->schedules[i], lanes_of, job);
        for (unsigned u = 0; u < 4; ++u) {
            up[u] += uplinks.up[rail][u];
            down[u] += uplinks.down[rail][u];
        }
    }
}

/* Each leaf has four uplinks. */
static void set_lanes(job_t *job, unsigned num_lanes)
{
    for (unsigned i = 0; i < job->num_ranks; ++i) {
        job->entries[i].lanes = (uct_mrail_direct_lanes_t){
            .uplinks = 4,
            .num_lanes = num_lanes,
            .nic_index = {2 + i / 2, 6 + i / 2},
        };
    }
}

/* Each NIC has two lanes, and each leaf has four uplinks. NIC i uses the
 * uplinks 2 i and 2 i + 1, modulo 4. Rank 0 sends twice as much as rank 2. */
static void test_bytes_of_uplinks(void **state)
{
    const mca_coll_mrail_schedule_entry_t *first, *second;
    uint64_t up[4], down[4];
    job_t job;

    fill(&job, 4, 2, 0x3);
    set_lanes(&job, 2);
    set_file(&job, HEAD RANKS GROUPS "uplink * 0 80MB\nuplink * 1 20MB\n");
    begin(&job);
    set_demand(&job, 0, 4, 60 * MB);
    set_demand(&job, 2, 6, 30 * MB);
    set_demand(&job, 2, 0, 5 * MB); /* does not leave its leaf switch */
    assert_true(make(&job)->is_gain);
    first = send_to(&job, 0, 4);
    second = send_to(&job, 2, 6);
    assert_true(first != NULL && second != NULL);
    for (unsigned rail = 0; rail < 2; ++rail) {
        sum_uplinks(&job, rail, up, down);
        assert_memory_equal(up, down, sizeof(up));
        assert_int_equal(up[0] + up[1], first->quota[rail]);
        assert_int_equal(up[2] + up[3], second->quota[rail]);
        assert_true(up[0] - up[1] <= 1 && up[2] - up[3] <= 1);
    }
    end(&job);
}

/* A rail has two lanes for each of four uplinks. An uplink with half the rate
 * of the others carries half as many bytes. */
static void test_slow_uplink(void **state)
{
    const mca_coll_mrail_schedule_entry_t *entry;
    double paths[MRAIL_PLAN_MAX_UPLINKS];
    uint64_t up[4], down[4];
    job_t job;

    fill(&job, 4, 2, 0x3);
    set_lanes(&job, 8);
    set_file(&job, HEAD RANKS GROUPS "uplink * * 20MB,20MB,20MB,20MB\n"
                                     "uplink 0 1 20MB,10MB,20MB,dead\n");
    begin(&job);
    assert_int_equal(mca_coll_mrail_topology_uplinks(job.schedules[4]->topology,
                                                     0, 4, 1, paths),
                     4);
    assert_true(paths[0] == 20e6 && paths[1] == 10e6 && paths[3] == 0);
    assert_int_equal(mca_coll_mrail_topology_uplinks(job.schedules[4]->topology,
                                                     0, 2, 1, paths),
                     0);
    set_demand(&job, 0, 4, 130 * MB);
    assert_true(make(&job)->is_gain);
    entry = send_to(&job, 0, 4);
    assert_in_range(entry->quota[0], 79 * MB, 81 * MB);
    sum_uplinks(&job, 1, up, down);
    assert_memory_equal(up, down, sizeof(up));
    assert_int_equal(up[0] + up[1] + up[2], entry->quota[1]);
    assert_in_range(up[0], up[2] - 2, up[2] + 2);
    assert_in_range(up[0], 2 * up[1] - 4, 2 * up[1] + 4);
    assert_int_equal(up[3], 0);
    sum_uplinks(&job, 0, up, down);
    assert_in_range(up[0], up[3] - 1, up[3] + 1);
    end(&job);
}

/* A measured rate is compared with the rank's limit, or with its part of the
 * uplinks. Each leaf group has four ranks. */
static void test_expected_rates(void **state)
{
    const mrail_topo_port_t *limits;
    job_t job;

    fill(&job, 4, 2, 0x3);
    set_file(&job, HEAD RANKS GROUPS "uplink 0 0 80MB\nuplink 1 0 20MB\n"
                                     "uplink * 1 400MB\nreach 1 1 50MB 60MB\n");
    begin(&job);
    limits = job.topologies[0]->limits;
    assert_true(limits[0].out == 5e6 && limits[0].in == 5e6);
    assert_true(limits[1].out == 100e6);
    limits = job.topologies[1]->limits;
    assert_true(limits[1].out == 50e6 && limits[1].in == 60e6);
    end(&job);
    fill(&job, 2, 2, 0x3);
    set_rails(&job, 1, 0x2);
    begin(&job);
    assert_true(isinf(job.topologies[0]->limits[0].out));
    end(&job);
}

/* Uplinks are irrelevant to a communicator within one leaf group. */
static void test_uplinks_of_others(void **state)
{
    job_t job;

    fill(&job, 2, 2, 0x3);
    set_file(&job, HEAD RANKS GROUPS "uplink * * 10MB\n");
    assert_non_null(strstr(refusal(&job), "several rails"));
    mca_coll_mrail_topo_file_cleanup(&job.file);
}

/* Rank 0 of each node is near rail 0, and rank 1 is near rail 1. */
static void test_limits_of_ranks(void **state)
{
    const mca_coll_mrail_forecast_t *forecast;
    job_t job;

    fill(&job, 2, 2, 0x3);
    set_file(&job, "nodes 2\nrails 2\nrail * * 100MB\nranks * 2 multi-rail\n"
                   "reach 0,2 1 50MB\nreach 1,3 0 50MB\n");
    begin(&job);
    set_demand(&job, 0, 2, 150 * MB);
    set_demand(&job, 1, 3, 15 * MB);
    forecast = make(&job);
    assert_true(forecast->unplanned > 0.99);
    assert_true(forecast->is_planned);
    end(&job);
}

/* Checks the message about the file. */
static void check_says(job_t *job, const char *part)
{
    char reason[MCA_COLL_MRAIL_REASON_SIZE] = "";
    unsigned rank = 99;
    int ret = mca_coll_mrail_topo_file_check(
        (job->file.text.topo != NULL || job->file.reason[0] != '\0')
            ? &job->file
            : NULL,
        job->entries, job->world, job->num_ranks, &rank, reason,
        sizeof(reason));

    if (ret != ((part != NULL) ? 1 : 0) ||
        (part != NULL && strstr(reason, part) == NULL)) {
        fail_msg("%d, '%s', not '%s'", ret, reason, (part != NULL) ? part : "");
    }
    assert_true(rank < job->num_ranks);
    mca_coll_mrail_topo_file_cleanup(&job->file);
}

static void test_files_that_match(void **state)
{
    job_t job;

    fill(&job, 4, 2, 0x3);
    check_says(&job, NULL);
    set_file(&job, HEAD RANKS);
    check_says(&job, NULL);
    set_file(&job, HEAD RANKS GROUPS "uplink * * 10MB\n");
    check_says(&job, NULL);
    /* ranks in a different order, on some of the nodes */
    set_file(&job, "nodes 9\nrails 2\nrail * * 100MB\nranks 8 1 multi-rail\n"
                   "ranks 0-3,8 2 multi-rail\n");
    for (unsigned i = 0; i < 8; ++i) {
        job.world[i] = 1 + i;
    }
    check_says(&job, NULL);
}

static void test_files_that_differ(void **state)
{
    job_t job;

    fill(&job, 4, 2, 0x3);
    set_file(&job, HEAD RANKS);
    job.entries[3].topo_file = 78;
    check_says(&job, "rank 3 has a different topology file from rank 0");
    set_file(&job, HEAD RANKS);
    job.entries[5].topo_file = MCA_COLL_MRAIL_NO_FILE;
    check_says(&job, "rank 5 has a different topology file from rank 0");
    job.entries[4].topo_file = MCA_COLL_MRAIL_BAD_FILE;
    strcpy(job.file.reason, "topo:4: the reason");
    check_says(&job, "rank 4: topo:4: the reason");
}

static void test_ranks_that_differ(void **state)
{
    job_t job;

    fill(&job, 4, 2, 0x3);
    set_file(&job, HEAD "ranks 0-2 2 multi-rail\n");
    check_says(
        &job,
        "topo:4: the last rank of the file is 5, but the job has a rank 6");
    set_file(&job, HEAD "ranks 0-2 2 multi-rail\nranks 3 2 single-rail\n");
    check_says(&job, "topo:5: rank 6 reaches 1 rails, but its process has 2");
    set_file(&job, HEAD RANKS "reach 3 0 none\n");
    check_says(&job, "topo:5: rank 3 reaches 1 rails, but its process has 2");
    /* a rank without any rail */
    set_file(&job, HEAD RANKS);
    job.entries[2].num_rails = 0;
    check_says(&job, "topo:4: rank 2 reaches 2 rails, but its process has 0");
    job.entries[2].num_rails = 2;
    set_file(&job, HEAD "ranks 0 3 multi-rail\nranks 1 1 multi-rail\n"
                        "ranks 2-3 2 multi-rail\n");
    check_says(&job, "topo:4: rank 2 is on node 0, like rank 0, but the "
                     "processes are on different nodes");
    set_file(&job, HEAD "ranks 0 1 multi-rail\nranks 1 1 multi-rail\n"
                        "ranks 2-3 3 multi-rail\n");
    job.entries[2].node = job.entries[3].node = job.entries[4].node;
    for (unsigned i = 5; i < 8; ++i) {
        job.entries[i].node = 1;
    }
    check_says(&job, "topo:5: ranks 0 and 1 are on nodes 0 and 1, but the "
                     "processes are on one node");
}

static void test_rails_that_differ(void **state)
{
    job_t job;

    fill(&job, 4, 2, 0x3);
    set_file(&job, "nodes 4\nrails 2\nrail * * 100MB\nrail 2 1 120MB\n" RANKS);
    check_says(&job, "topo:4: rail 1 of node 2 carries 120.0 MB/s, but the "
                     "port of rank 4 has 100.0 MB/s");
    set_file(&job, "nodes 4\nrails 2\nrail 0-2 * 105MB\nrail 3 0 95MB\n" RANKS);
    check_says(&job, "topo:5: rail 1 of node 3 carries 0.0 MB/s, but the port "
                     "of rank 6 has 100.0 MB/s");
    job.entries[6].rates[1] = 0; /* unknown */
    job.entries[7].rates[1] = 0;
    set_file(&job, "nodes 4\nrails 2\nrail 0-2 * 105MB\nrail 3 0 95MB\n" RANKS);
    check_says(&job, NULL);
}

static void test_groups_that_differ(void **state)
{
    job_t job;

    fill(&job, 4, 2, 0x3);
    for (unsigned i = 4; i < 8; ++i) {
        job.entries[i].leaf[0] += 100;
        job.entries[i].leaf[1] += 100;
    }
    set_file(&job, HEAD RANKS GROUPS);
    check_says(&job, NULL);
    set_file(&job, HEAD RANKS);
    check_says(
        &job,
        "topo:4: rail 0 of rank 4 is in leaf group 0, like the same rail of "
        "rank 0, but the two ports are in different subnets");
    set_file(&job, HEAD RANKS "leaf_group 1 1\nleaf_group 2-3 1\n");
    check_says(
        &job,
        "topo:6: rail 0 of rank 4 is in leaf group 1, like the same rail of "
        "rank 2");
}

static void test_groups_without_uplinks(void **state)
{
    job_t job;

    fill(&job, 4, 2, 0x3);
    set_file(&job, HEAD RANKS GROUPS "uplink 0 * 10MB\n");
    check_says(
        &job,
        "topo:5: leaf group 1 (rank 4) has no uplink for rail 0, but line 6 "
        "lists uplinks");
    set_file(&job, HEAD RANKS GROUPS "uplink 0 * 10MB\nuplink 1 * dead\n");
    check_says(&job, "topo:7: all uplinks of leaf group 1 (rank 4) are dead");
    set_lanes(&job, 1);
    set_file(&job, HEAD RANKS GROUPS "uplink 0 * 10MB,20MB\nuplink 1 * 10MB\n");
    check_says(&job, "topo:6: 2 uplinks, but the process of rank 0 has port "
                     "rules for 4 (UCX_MRAIL_UPLINKS)");
}

/* Errors of the file itself, which the process that reads the file finds. */
static void test_bad_files(void **state)
{
    mca_coll_mrail_topo_file_t file;
    char path[] = "/tmp/mrail-test-XXXXXX";
    int fd = mkstemp(path);
    FILE *stream;

    assert_true(fd >= 0);
    stream = fdopen(fd, "w");
    assert_non_null(stream);
    fputs("nodes 4\nrails 17\n", stream);
    assert_int_equal(fclose(stream), 0);
    mca_coll_mrail_topo_file_read(&file, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(file.hash, MCA_COLL_MRAIL_BAD_FILE);
    assert_non_null(strstr(file.reason, ":2: "));
    assert_non_null(strstr(file.reason, "16"));
    mca_coll_mrail_topo_file_cleanup(&file);
    mca_coll_mrail_topo_file_read(&file, path);
    assert_int_equal(file.hash, MCA_COLL_MRAIL_BAD_FILE);
    assert_non_null(strstr(file.reason, "No such file"));
    assert_non_null(strstr(file.reason, path));
    mca_coll_mrail_topo_file_cleanup(&file);
    mca_coll_mrail_topo_file_read(&file, "");
    assert_int_equal(file.hash, MCA_COLL_MRAIL_NO_FILE);
    assert_string_equal(file.reason, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rails_have_numbers),
        cmocka_unit_test(test_rails_of_one_leaf),
        cmocka_unit_test(test_too_many_rails),
        cmocka_unit_test(test_balanced_rails_need_no_plan),
        cmocka_unit_test(test_forecast_without_a_plan),
        cmocka_unit_test(test_a_plan_is_made_where_it_gains),
        cmocka_unit_test(test_masks_that_differ),
        cmocka_unit_test(test_short_exchanges_have_no_plan),
        cmocka_unit_test(test_all_bytes_have_a_path),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_budget_of_single_rail_ranks),
        cmocka_unit_test(test_levels_of_the_cost),
        cmocka_unit_test(test_uplinks),
        cmocka_unit_test(test_bytes_of_uplinks),
        cmocka_unit_test(test_slow_uplink),
        cmocka_unit_test(test_expected_rates),
        cmocka_unit_test(test_uplinks_of_others),
        cmocka_unit_test(test_limits_of_ranks),
        cmocka_unit_test(test_files_that_match),
        cmocka_unit_test(test_files_that_differ),
        cmocka_unit_test(test_ranks_that_differ),
        cmocka_unit_test(test_rails_that_differ),
        cmocka_unit_test(test_groups_that_differ),
        cmocka_unit_test(test_groups_without_uplinks),
        cmocka_unit_test(test_bad_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
