/* Tests decisions that all ranks of a planned exchange must make
 * identically: agreement rounds, topology, and the path of each byte. */
#include "config.h"
#include "mpi/coll/allgather_gain.h"
#include "mpi/coll/mode.h"
#include "mpi/coll/inflight.h"
#include "mpi/coll/pool_shape.h"
#include "mpi/coll/rail_view.h"
#include "mpi/coll/schedule.h"
#include "mpi/coll/topology.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/util.h"

#define MAX_RANKS 24u

/* ---- mode ---- */

/* Makes `calls` calls. This rank has a large demand in all of them, or in none.
 * Returns the number of agreement rounds. */
static unsigned agreement_rounds(mca_coll_mrail_mode_t *mode, unsigned calls,
                                 int is_large)
{
    unsigned count = 0;

    for (unsigned i = 0; i < calls; ++i) {
        if (mca_coll_mrail_mode_call(mode, is_large)) {
            mca_coll_mrail_mode_vote(mode, mode->wanted);
            ++count;
        }
    }
    return count;
}

static void test_small_calls_seldom_agree(void **state)
{
    mca_coll_mrail_mode_t mode;

    mca_coll_mrail_mode_init(&mode);
    /* Agreement rounds take place in calls 1, 3, 6, 11, 20, 37, 70, 135, ... */
    assert_int_equal(agreement_rounds(&mode, 135, 0), 8);
    assert_int_equal(agreement_rounds(&mode, 65 * 100, 0), 100);
    assert_true(mca_coll_mrail_mode_is_backed_off(&mode));
}

static void test_large_calls_agree(void **state)
{
    mca_coll_mrail_mode_t mode;

    mca_coll_mrail_mode_init(&mode);
    assert_int_equal(agreement_rounds(&mode, 1000, 1), 1000);
    /* Small calls between large ones must not stop the agreement rounds. */
    for (unsigned i = 0; i < 100; ++i) {
        assert_int_equal(agreement_rounds(&mode, MCA_COLL_MRAIL_GRACE_CALLS, 0),
                         MCA_COLL_MRAIL_GRACE_CALLS);
        assert_int_equal(agreement_rounds(&mode, 1, 1), 1);
    }
}

static void test_large_calls_are_detected(void **state)
{
    mca_coll_mrail_mode_t mode;
    unsigned missed = 0;

    mca_coll_mrail_mode_init(&mode);
    agreement_rounds(&mode, 10000, 0);
    while (!agreement_rounds(&mode, 1, 1)) {
        ++missed;
    }
    assert_true(missed <= MCA_COLL_MRAIL_MAX_PERIOD);
    assert_int_equal(agreement_rounds(&mode, 100, 1), 100);
    assert_false(mca_coll_mrail_mode_is_backed_off(&mode));
}

/* A rank without a large demand learns of one from the other ranks. */
static void test_states_stay_equal(void **state)
{
    mca_coll_mrail_mode_t modes[3];
    mrail_rng_t rng;

    mrail_rng_init(&rng, 7);
    for (unsigned i = 0; i < 3; ++i) {
        mca_coll_mrail_mode_init(&modes[i]);
    }
    for (unsigned call = 0; call < 100000; ++call) {
        int holds_round[3], any_wanted = 0;

        for (unsigned i = 0; i < 3; ++i) {
            int is_large = mrail_rng_hit(&rng, 10000);

            holds_round[i] = mca_coll_mrail_mode_call(&modes[i], is_large);
            any_wanted |= modes[i].wanted;
            assert_int_equal(holds_round[i], holds_round[0]);
        }
        for (unsigned i = 0; i < 3 && holds_round[0]; ++i) {
            mca_coll_mrail_mode_vote(&modes[i], any_wanted);
        }
    }
}

/* ---- topology ---- */

/* Ranks are placed on nodes in blocks, and assigned rails round-robin. */
static void fill_rank_entries(mca_coll_mrail_rank_entry_t *entries,
                              unsigned nodes, unsigned ranks_per_node,
                              unsigned rails)
{
    for (unsigned i = 0; i < nodes * ranks_per_node; ++i) {
        entries[i] = (mca_coll_mrail_rank_entry_t){
            .version = 5,
            .node = 1000 - i / ranks_per_node,
            .num_rails = 1,
            .leaf = {77 + 10 * (i % ranks_per_node % rails)},
            .params = {.relay_threshold = 100000,
                       .relay_chunk_size = 4096,
                       .relay_buffers = 4,
                       .relay_memory = 1u << 30,
                       .copy_bandwidth = 1000000000000ull,
                       .cross_rail = 1},
        };
    }
}

static const char *refusal(const mca_coll_mrail_rank_entry_t *entries,
                           unsigned num_ranks)
{
    mca_coll_mrail_topology_t *topology = NULL;
    const char *reason = NULL;
    int ret = mca_coll_mrail_topology_create(entries, num_ranks, 0, NULL, NULL,
                                             &topology, &reason);

    if (ret == 0) {
        mca_coll_mrail_topology_destroy(topology);
        return "";
    }
    assert_int_equal(ret, 1);
    assert_non_null(reason);
    return reason;
}

static void test_rank_places(void **state)
{
    mca_coll_mrail_rank_entry_t entries[12];
    mca_coll_mrail_topology_t *topology;
    const char *reason;

    fill_rank_entries(entries, 3, 4, 3);
    entries[11].leaf[0] = 20; /* a leaf that no other rank has */
    entries[1].node = entries[11].node;
    assert_int_equal(mca_coll_mrail_topology_create(entries, 12, 1, NULL, NULL,
                                                    &topology, &reason),
                     0);
    assert_int_equal(topology->num_ranks, 12);
    assert_int_equal(topology->num_nodes, 3);
    assert_int_equal(topology->num_rails, 4);
    assert_int_equal(topology->num_local, 5);
    assert_int_equal(topology->max_local, 5);
    assert_int_equal(topology->local[0], 1);
    assert_int_equal(topology->local[4], 11);
    assert_int_equal(topology->node_of[0], 0);
    assert_int_equal(topology->node_of[1], 1);
    assert_int_equal(topology->node_of[4], 2);
    assert_int_equal(mca_coll_mrail_topology_rail(topology, 11, 0), 0);
    assert_int_equal(mca_coll_mrail_topology_rail(topology, 0, 0), 1);
    assert_int_equal(mca_coll_mrail_topology_rail(topology, 6, 0), 3);
    mca_coll_mrail_topology_destroy(topology);
}

static void test_unsupported_topologies(void **state)
{
    mca_coll_mrail_rank_entry_t entries[8];

    fill_rank_entries(entries, 2, 4, 4);
    assert_string_equal(refusal(entries, 8), "");
    assert_null(mca_coll_mrail_rank_entries_differ(entries, 8));
    entries[5].version = 6;
    assert_non_null(
        strstr(mca_coll_mrail_rank_entries_differ(entries, 8), "versions"));
    /* The versions are equal, but version 0 is not valid. */
    entries[7].version = entries[6].version = 0;
    assert_non_null(
        strstr(mca_coll_mrail_rank_entries_differ(entries, 8), "memory"));
    entries[6].version = MCA_COLL_MRAIL_ABSENT;
    assert_non_null(strstr(mca_coll_mrail_rank_entries_differ(entries, 8),
                           "does not use mrail"));
    entries[6].version = MCA_COLL_MRAIL_FOREIGN;
    assert_non_null(
        strstr(mca_coll_mrail_rank_entries_differ(entries, 8), "jobs"));
    /* A reason on any one rank must prevent plans for all ranks. */
    assert_string_equal(mca_coll_mrail_rank_entry_refusal(&entries[6]),
                        mca_coll_mrail_rank_entries_differ(entries, 8));
    assert_null(mca_coll_mrail_rank_entry_refusal(&entries[0]));
    fill_rank_entries(entries, 2, 4, 4);
    entries[5].num_rails = 0;
    assert_non_null(strstr(refusal(entries, 8), "does not use mrail"));
    fill_rank_entries(entries, 2, 4, 4);
    entries[5].is_soft = 1;
    assert_non_null(strstr(refusal(entries, 8), "emulated"));
    fill_rank_entries(entries, 1, 8, 4);
    assert_non_null(strstr(refusal(entries, 8), "one node"));
    fill_rank_entries(entries, 2, 4, 1);
    assert_non_null(strstr(refusal(entries, 8), "one rail"));
    fill_rank_entries(entries, 8, 1, 1);
    for (unsigned i = 0; i < 8; ++i) {
        entries[i].leaf[0] = i;
    }
    assert_non_null(strstr(refusal(entries, 8), "two ranks"));
}

static void test_too_many_rails(void **state)
{
    mca_coll_mrail_rank_entry_t entries[2 * (UCT_MRAIL_MAX_RAILS + 1)];

    fill_rank_entries(entries, 2, UCT_MRAIL_MAX_RAILS + 1,
                      UCT_MRAIL_MAX_RAILS + 1);
    assert_non_null(
        strstr(refusal(entries, MRAIL_ARRAY_SIZE(entries)), "more rails"));
    fill_rank_entries(entries, 2, UCT_MRAIL_MAX_RAILS, UCT_MRAIL_MAX_RAILS);
    assert_string_equal(refusal(entries, 2 * UCT_MRAIL_MAX_RAILS), "");
}

/* ---- announced bandwidth ---- */

/* Returns how often the announced value changes while the measured bandwidth
 * alternates between two fractions of the port rate. */
static unsigned num_changes(double low, double high)
{
    uint64_t last = 100000000;
    unsigned changes = 0;

    for (unsigned i = 0; i < 100; ++i) {
        uint64_t now = mca_coll_mrail_rail_live(
            last, 1e8 * ((i % 2 == 0) ? low : high), 1e8, 1e8);

        changes += now != last;
        last = now;
    }
    return changes;
}

static void test_noise_changes_nothing(void **state)
{
    for (unsigned i = 30; i < 110; ++i) {
        double low = i / 100.0;

        assert_true(num_changes(low, low + 0.02) <= 1);
        assert_true(num_changes(low, low * 1.09) <= 1);
    }
    assert_int_equal(num_changes(0.8, 1.0), 0);
    assert_int_equal(num_changes(0.5, 1.0), 100);
}

static void test_degraded_and_recovered(void **state)
{
    uint64_t last = mca_coll_mrail_rail_live(0, 76e6, 1e8, 1e8);

    assert_int_equal(last, 100000000);
    last = mca_coll_mrail_rail_live(last, 74e6, 1e8, 1e8);
    assert_int_equal(last, 74000000);
    last = mca_coll_mrail_rail_live(last, 80e6, 1e8, 1e8); /* less than 10 % */
    assert_int_equal(last, 74000000);
    last = mca_coll_mrail_rail_live(last, 85e6, 1e8, 1e8);
    assert_int_equal(last, 85000000);
    last = mca_coll_mrail_rail_live(last, 91e6, 1e8, 1e8);
    assert_int_equal(last, 100000000);
    /* the rate of an idle rail is unknown (0) */
    assert_int_equal(mca_coll_mrail_rail_live(last, 0, 1e8, 1e8), 0);
    assert_int_equal(mca_coll_mrail_rail_live(0, 20e6, 1e8, 1e8), 20000000);
    /* The uplinks' limit explains a measured bandwidth of 1/5 of the port rate,
     * but not of 1/10. */
    assert_int_equal(mca_coll_mrail_rail_live(0, 16e6, 1e8, 20e6), 100000000);
    assert_int_equal(mca_coll_mrail_rail_live(0, 10e6, 1e8, 20e6), 10000000);
    assert_int_equal(mca_coll_mrail_rail_live(10000000, 19e6, 1e8, 20e6),
                     100000000);
    assert_int_equal(mca_coll_mrail_rail_port(0, 1e8), 100000000);
    assert_int_equal(mca_coll_mrail_rail_port(100000000, 105e6), 100000000);
    assert_int_equal(mca_coll_mrail_rail_port(100000000, 0), 0);
}

/* ---- in-flight limit ---- */

static void test_share_of_the_rails(void **state)
{
    mca_coll_mrail_rank_entry_t entries[8];

    fill_rank_entries(entries, 2, 4, 4);
    for (unsigned i = 0; i < 8; ++i) {
        entries[i].num_rails = 4;
        entries[i].speed = 400000000;
        entries[i].params.inflight_us =
            (i == 0) ? 2000 : 77; /* only rank 0's value counts */
    }
    entries[7].speed = 200000000;
    assert_int_equal(mca_coll_mrail_inflight_bytes(entries, 8, 0), 200000);
    assert_int_equal(mca_coll_mrail_inflight_bytes(entries, 8, 7), 100000);
    /* Node 0 now has five ranks, and the other node three. */
    entries[6].node = entries[0].node;
    assert_int_equal(mca_coll_mrail_inflight_bytes(entries, 8, 6), 160000);
    assert_int_equal(mca_coll_mrail_inflight_bytes(entries, 8, 4), 266666);
    entries[2].speed = 0; /* a rank with an unknown rate still counts */
    assert_int_equal(mca_coll_mrail_inflight_bytes(entries, 8, 2), 1);
    entries[2].speed = UINT64_MAX;
    assert_true(mca_coll_mrail_inflight_bytes(entries, 8, 2) > 1ull << 50);
}

/* Conditions that all ranks must evaluate identically. */
static void test_inflight_limit_conditions(void **state)
{
    mca_coll_mrail_rank_entry_t entries[8];

    for (unsigned how = 0; how < 4; ++how) {
        fill_rank_entries(entries, how == 1 ? 1 : 2, how == 1 ? 8 : 4, 4);
        for (unsigned i = 0; i < 8; ++i) {
            entries[i].speed = 400000000;
            entries[i].params.inflight_us = 2000;
        }
        entries[3].num_rails = how != 2;
        entries[0].params.inflight_us = (how == 3) ? 0 : 2000;
        for (unsigned i = 0; i < 8; ++i) {
            assert_int_equal(mca_coll_mrail_inflight_bytes(entries, 8, i) != 0,
                             how == 0);
        }
    }
}

static uint64_t window_of(uint64_t one, uint64_t others, uint64_t in)
{
    mca_coll_mrail_load_t loads[2] = {{0}};

    for (unsigned i = 0; i < 7; ++i) {
        mca_coll_mrail_load_add(&loads[0], (i == 2) ? one : others);
        mca_coll_mrail_load_add(&loads[1], in);
    }
    /* The directions are symmetric. */
    assert_int_equal(
        mca_coll_mrail_inflight_window(200000, &loads[0], &loads[1]),
        mca_coll_mrail_inflight_window(200000, &loads[1], &loads[0]));
    return mca_coll_mrail_inflight_window(200000, &loads[0], &loads[1]);
}

static void test_inflight_limit(void **state)
{
    assert_int_equal(window_of(0, 0, 0), 200000);
    assert_int_equal(window_of(150000, 150000, 150000), 200000);
    /* Long exchanges, here of 2.1 MB, need no window. */
    assert_int_equal(window_of(300000, 300000, 300000), UINT64_MAX);
    /* An exchange also needs no window if one message is much larger than the
     * others. */
    assert_int_equal(window_of(200000, 120000, 130000), 200000);
    assert_int_equal(window_of(500000, 80000, 140000), UINT64_MAX);
    /* The same applies if one direction carries much more than the other. */
    assert_int_equal(window_of(100000, 100000, 60000), 200000);
    assert_int_equal(window_of(100000, 100000, 40000), UINT64_MAX);
}

/* ---- schedule ---- */

/* Describes a rank: flags, its rail, and its bytes to each rank. */
enum { FLAGS, PORT, OUT, IN, BYTES };

/* All ranks of a job, simulated in one process. */
typedef struct job {
    unsigned num_ranks;
    mca_coll_mrail_topology_t *topologies[MAX_RANKS];
    mca_coll_mrail_schedule_t *schedule[MAX_RANKS];
    uint64_t words[MAX_RANKS][BYTES + MAX_RANKS];
    mca_coll_mrail_records_t records; /* built from the descriptions above */
} job_t;

static uint64_t *record_of(job_t *job, unsigned rank)
{
    return job->words[rank];
}

/* Returns the bytes of a demand if the sender announces them, or 0. */
static uint64_t announced_bytes(job_t *job, uint32_t from, uint32_t to)
{
    const mca_coll_mrail_topology_t *topology = job->topologies[from];
    mca_coll_mrail_record_rule_t rule = mca_coll_mrail_schedule_rule(topology);
    uint64_t bytes = record_of(job, from)[BYTES + to];

    return mca_coll_mrail_record_is_announced(
               &rule, bytes, topology->node_of[from] == topology->node_of[to])
               ? bytes
               : 0;
}

static const mca_coll_mrail_records_t *records_of(job_t *job)
{
    uint64_t words[MCA_COLL_MRAIL_RECORD_MAX_HEAD + MAX_RANKS];
    const uint32_t *node_of = job->topologies[0]->node_of;
    mca_coll_mrail_record_rule_t rule =
        mca_coll_mrail_schedule_rule(job->topologies[0]);

    for (uint32_t self = 0; self < job->num_ranks; ++self) {
        const uint64_t *record = record_of(job, self);
        mca_coll_mrail_rail_rate_t rail = {
            .port = record[PORT], .out = record[OUT], .in = record[IN]};
        mca_coll_mrail_record_writer_t writer;
        size_t length;

        mca_coll_mrail_record_begin(&writer, &rule, self, &rail, 1, words);
        for (uint32_t i = 0; i < job->num_ranks; ++i) {
            if (i != self) {
                mca_coll_mrail_record_send(&writer, i, record[BYTES + i],
                                           node_of[i] == node_of[self]);
                mca_coll_mrail_record_recv(&writer, i,
                                           record_of(job, i)[BYTES + self],
                                           node_of[i] == node_of[self]);
            }
        }
        length = mca_coll_mrail_record_end(&writer, (unsigned)record[FLAGS]);
        assert_true(
            mca_coll_mrail_record_check(words, length, self, job->num_ranks));
        memcpy(mca_coll_mrail_records_add(&job->records, self, length), words,
               length * sizeof(*words));
    }
    return &job->records;
}

static void job_init(job_t *job, const mca_coll_mrail_rank_entry_t *entries,
                     unsigned num_ranks)
{
    const char *reason;

    memset(job, 0, sizeof(*job));
    job->num_ranks = num_ranks;
    assert_int_equal(mca_coll_mrail_records_init(&job->records, num_ranks), 0);
    assert_int_equal(
        mca_coll_mrail_records_reserve(
            &job->records,
            num_ranks * (MCA_COLL_MRAIL_RECORD_MAX_HEAD + MAX_RANKS)),
        0);
    for (unsigned i = 0; i < num_ranks; ++i) {
        assert_int_equal(
            mca_coll_mrail_topology_create(entries, num_ranks, i, NULL, NULL,
                                           &job->topologies[i], &reason),
            0);
        assert_int_equal(mca_coll_mrail_schedule_create(job->topologies[i],
                                                        &job->schedule[i]),
                         0);
    }
}

static void job_cleanup(job_t *job)
{
    for (unsigned i = 0; i < job->num_ranks; ++i) {
        mca_coll_mrail_schedule_destroy(job->schedule[i]);
        mca_coll_mrail_topology_destroy(job->topologies[i]);
    }
    mca_coll_mrail_records_cleanup(&job->records);
}

static void set_rail(uint64_t *records, uint64_t capacity)
{
    records[PORT] = capacity;
    records[OUT] = records[IN] = capacity;
}

static void draw_records(job_t *job, mrail_rng_t *rng)
{
    static const uint64_t most[] = {1, 1000, 100000, 5000000, 50000000};

    for (unsigned from = 0; from < job->num_ranks; ++from) {
        uint64_t *records = record_of(job, from);

        records[0] = mrail_rng_hit(rng, 200000) ? MCA_COLL_MRAIL_GAPS_OUT : 0;
        records[0] |= mrail_rng_hit(rng, 200000) ? MCA_COLL_MRAIL_GAPS_IN : 0;
        set_rail(records, 100000000u * (1 + mrail_rng_below(rng, 4)));
        if (mrail_rng_hit(rng, 300000)) {
            records[OUT] /= 2;
        }
        for (unsigned to = 0; to < job->num_ranks; ++to) {
            uint64_t bound = most[mrail_rng_below(rng, 5)];

            records[BYTES + to] =
                mrail_rng_hit(rng, 300000)
                    ? 0
                    : mrail_rng_below(rng, (uint32_t)bound + 1);
        }
    }
}

static const mca_coll_mrail_schedule_entry_t *
find_entry(const mca_coll_mrail_schedule_entry_t *schedule, size_t count,
           uint32_t peer)
{
    for (size_t i = 0; i < count; ++i) {
        if (schedule[i].peer == peer) {
            return &schedule[i];
        }
    }
    return NULL;
}

static void check_relay(const mca_coll_mrail_topology_t *topology,
                        const mrail_relay_flow_t *flow)
{
    if (flow->relay_out != MRAIL_RELAY_NONE) {
        assert_int_equal(topology->node_of[flow->relay_out],
                         topology->node_of[flow->from]);
        assert_int_not_equal(flow->relay_out, flow->from);
    }
    if (flow->relay_in != MRAIL_RELAY_NONE) {
        assert_int_equal(topology->node_of[flow->relay_in],
                         topology->node_of[flow->to]);
        assert_int_not_equal(flow->relay_in, flow->to);
    }
    if (topology->node_of[flow->from] == topology->node_of[flow->to]) {
        assert_int_equal(flow->relay_out, MRAIL_RELAY_NONE);
        assert_int_equal(flow->relay_in, MRAIL_RELAY_NONE);
        assert_true(topology->is_soft);
    }
}

/* Checks that both ends agree on whether the receiver READs its bytes, and that
 * its rails carry all of them, unless they stay within a node. */
static void check_read(const job_t *job, uint32_t from, uint32_t to,
                       const mca_coll_mrail_schedule_entry_t *send,
                       const mca_coll_mrail_schedule_entry_t *recv,
                       int has_gaps)
{
    const mca_coll_mrail_topology_t *topology = job->topologies[to];
    uint64_t quota = 0;

    assert_int_equal(send->is_read, recv->is_read);
    assert_int_equal(send->is_read,
                     topology->has_reads && !has_gaps &&
                         send->bytes >= MCA_COLL_MRAIL_READ_MIN &&
                         topology->node_of[from] != topology->node_of[to]);
    for (unsigned i = 0; i < topology->num_rails; ++i) {
        if (recv->quota[i] > 0) {
            assert_true(mca_coll_mrail_topology_own_rail(topology, i) >= 0);
        }
        quota += recv->quota[i];
    }
    assert_int_equal(quota, (topology->node_of[from] == topology->node_of[to])
                                ? 0
                                : recv->bytes);
}

/* Checks that the direct path and the flows of a pair together carry each byte
 * exactly once, and that both ends agree on the direct part. */
static void check_pair(job_t *job, uint32_t from, uint32_t to)
{
    const mca_coll_mrail_schedule_t *sender = job->schedule[from];
    const mca_coll_mrail_schedule_t *receiver = job->schedule[to];
    uint64_t bytes = announced_bytes(job, from, to);
    uint64_t at = 0, covered = 0;
    const mca_coll_mrail_schedule_entry_t *send =
        find_entry(sender->sends, sender->num_sends, to);
    const mca_coll_mrail_schedule_entry_t *recv =
        find_entry(receiver->recvs, receiver->num_recvs, from);
    int has_gaps = (record_of(job, from)[0] & MCA_COLL_MRAIL_GAPS_OUT) ||
                   (record_of(job, to)[0] & MCA_COLL_MRAIL_GAPS_IN);

    assert_int_equal(
        (sender->announced[to] & MCA_COLL_MRAIL_ANNOUNCED_OUT) != 0, bytes > 0);
    assert_int_equal(
        (receiver->announced[from] & MCA_COLL_MRAIL_ANNOUNCED_IN) != 0,
        bytes > 0);
    assert_int_equal(send != NULL, recv != NULL);
    if (send != NULL) {
        assert_int_equal(send->offset, recv->offset);
        assert_int_equal(send->bytes, recv->bytes);
        assert_int_equal(send->is_whole, recv->is_whole);
        assert_int_equal(send->is_whole, send->bytes == bytes);
        assert_true(send->is_whole || !has_gaps);
        covered = send->bytes;
        check_read(job, from, to, send, recv, has_gaps);
    }
    for (size_t i = 0; i < sender->num_flows; ++i) {
        const mrail_relay_flow_t *flow = &sender->flows[i];

        if (flow->from == from && flow->to == to) {
            at += (send != NULL && at == send->offset) ? send->bytes : 0;
            assert_int_equal(flow->offset, at);
            at += flow->bytes;
            covered += flow->bytes;
            check_relay(job->topologies[from], flow);
        }
    }
    assert_int_equal(covered, bytes);
}

static void check_job(job_t *job)
{
    for (unsigned i = 1; i < job->num_ranks; ++i) {
        assert_int_equal(job->schedule[i]->hash, job->schedule[0]->hash);
        assert_int_equal(job->schedule[i]->num_flows,
                         job->schedule[0]->num_flows);
    }
    for (uint32_t from = 0; from < job->num_ranks; ++from) {
        for (uint32_t to = 0; to < job->num_ranks; ++to) {
            if (from != to) {
                check_pair(job, from, to);
            }
        }
    }
}

/* Each rank computes its plan several times, starting from the previous plan
 * each time. */
static uint64_t run_seed(uint64_t seed)
{
    mca_coll_mrail_rank_entry_t entries[MAX_RANKS];
    mrail_rng_t rng;
    uint64_t relayed = 0;
    unsigned nodes, ranks, rails;
    job_t job;

    mrail_rng_init(&rng, seed);
    nodes = 2 + mrail_rng_below(&rng, 3);
    ranks = 2 + mrail_rng_below(&rng, MAX_RANKS / nodes - 1);
    rails = 2 + mrail_rng_below(&rng, MRAIL_MIN(ranks, 6) - 1);
    fill_rank_entries(entries, nodes, ranks, rails);
    for (unsigned i = 0; i < nodes * ranks; ++i) {
        entries[i].is_soft = seed % 2;
        entries[i].address_length = 80;
    }
    entries[0].address_length *= seed % 3; /* 0 for every third seed */
    job_init(&job, entries, nodes * ranks);
    for (unsigned round = 0; round < 3; ++round) {
        draw_records(&job, &rng);
        for (unsigned i = 0; i < job.num_ranks; ++i) {
            mca_coll_mrail_schedule_t *schedule = job.schedule[i];

            assert_false(
                mca_coll_mrail_schedule_fit(schedule, records_of(&job)));
            assert_int_equal(
                mca_coll_mrail_schedule_make(schedule, records_of(&job)), 0);
            assert_true(
                mca_coll_mrail_schedule_fit(schedule, records_of(&job)));
            relayed += schedule->relayed;
        }
        check_job(&job);
    }
    job_cleanup(&job);
    return relayed;
}

static void test_all_bytes_are_sent_once(void **state)
{
    uint64_t relayed = 0;

    for (uint64_t seed = 1; seed <= 60; ++seed) {
        print_message("seed %llu\n", (unsigned long long)seed);
        relayed += run_seed(seed);
    }
    assert_true(relayed > 1000000000u);
}

/* Makes the schedule of rank 0, which must be refused for this reason, and must
 * hold for later calls with the same records. */
static void make_refused(job_t *job, const char *reason)
{
    mca_coll_mrail_schedule_t *schedule = job->schedule[0];

    assert_int_equal(mca_coll_mrail_schedule_make(schedule, records_of(job)),
                     0);
    assert_non_null(schedule->forecast.refusal);
    assert_string_equal(schedule->forecast.refusal, reason);
    assert_false(schedule->forecast.is_gain);
    assert_true(schedule->num_sends + schedule->num_recvs == 0);
    assert_true(schedule->num_flows == 0 && schedule->relayed == 0);
    assert_true(mca_coll_mrail_schedule_fit(schedule, records_of(job)));
}

/* After the records have changed, there is no plan until a demand has a path
 * again. */
static void test_no_plan(void **state)
{
    mca_coll_mrail_rank_entry_t entries[8];
    mrail_rng_t rng;
    job_t job;

    mrail_rng_init(&rng, 3);
    fill_rank_entries(entries, 2, 4, 4);
    job_init(&job, entries, 8);
    draw_records(&job, &rng);
    assert_int_equal(
        mca_coll_mrail_schedule_make(job.schedule[0], records_of(&job)), 0);
    record_of(&job, 3)[BYTES + 4] += 1000000;
    assert_false(
        mca_coll_mrail_schedule_fit(job.schedule[0], records_of(&job)));
    for (unsigned i = 0; i < 4; ++i) {
        /* All rails of the first node are down. */
        set_rail(record_of(&job, i), 0);
    }
    make_refused(&job, "a demand has no path");
    for (unsigned i = 0; i < 4; ++i) {
        set_rail(record_of(&job, i), 50000000);
    }
    assert_false(
        mca_coll_mrail_schedule_fit(job.schedule[0], records_of(&job)));
    assert_int_equal(
        mca_coll_mrail_schedule_make(job.schedule[0], records_of(&job)), 0);
    assert_null(job.schedule[0]->forecast.refusal);
    mca_coll_mrail_schedule_discard_warm_start(job.schedule[0]);
    assert_false(
        mca_coll_mrail_schedule_fit(job.schedule[0], records_of(&job)));
    job_cleanup(&job);
}

/* A plan whose relays need more memory than ranks may use is made only once. */
static void test_small_relay_memory(void **state)
{
    mca_coll_mrail_rank_entry_t entries[8];
    mrail_rng_t rng;
    job_t job;

    mrail_rng_init(&rng, 3);
    fill_rank_entries(entries, 2, 4, 4);
    job_init(&job, entries, 8);
    do {
        draw_records(&job, &rng);
        assert_int_equal(
            mca_coll_mrail_schedule_make(job.schedule[0], records_of(&job)), 0);
    } while (job.schedule[0]->num_flows == 0);
    job.topologies[0]->params.relay_memory = 4096;
    make_refused(&job, "coll_mrail_relay_memory is too small");
    job_cleanup(&job);
}

/* If ranks report different states of a rail, the lowest capacity counts. */
static void test_views_of_a_rail(void **state)
{
    mca_coll_mrail_rank_entry_t entries[8];
    mrail_rng_t rng;
    uint64_t hash;
    job_t job;

    mrail_rng_init(&rng, 4);
    fill_rank_entries(entries, 2, 4, 2);
    job_init(&job, entries, 8);
    draw_records(&job, &rng);
    for (unsigned i = 0; i < 8; ++i) {
        set_rail(record_of(&job, i), 100000000);
    }
    assert_int_equal(
        mca_coll_mrail_schedule_make(job.schedule[0], records_of(&job)), 0);
    hash = job.schedule[0]->hash;
    record_of(&job, 2)[PORT] = 0; /* on the rail of rank 0 */
    for (unsigned i = 0; i < 8; ++i) {
        assert_int_equal(
            mca_coll_mrail_schedule_make(job.schedule[i], records_of(&job)), 0);
    }
    assert_int_not_equal(job.schedule[0]->hash, hash);
    check_job(&job);
    for (size_t i = 0; i < job.schedule[0]->num_sends; ++i) {
        uint32_t peer = job.schedule[0]->sends[i].peer;

        assert_true(peer < 4); /* the rail of rank 0 carries nothing */
    }
    job_cleanup(&job);
}

/* Returns the number of bytes on the direct path from rank 0 to rank 4, for a
 * single demand of 40 MB. */
static uint64_t direct_of(job_t *job)
{
    const mca_coll_mrail_schedule_entry_t *send;

    for (unsigned i = 0; i < job->num_ranks; ++i) {
        assert_int_equal(
            mca_coll_mrail_schedule_make(job->schedule[i], records_of(job)), 0);
    }
    check_job(job);
    send = find_entry(job->schedule[0]->sends, job->schedule[0]->num_sends, 4);
    return (send != NULL) ? send->bytes : 0;
}

/* A rail is planned with its live capacity, which is the sum over the ranks
 * that share it. */
static void test_live_capacities(void **state)
{
    mca_coll_mrail_rank_entry_t entries[8];
    job_t job;

    fill_rank_entries(entries, 2, 4, 2);
    job_init(&job, entries, 8);
    for (unsigned i = 0; i < 8; ++i) {
        set_rail(record_of(&job, i), 100000000);
    }
    record_of(&job, 0)[BYTES + 4] = 40000000;
    assert_in_range(direct_of(&job), 19500000, 20500000);
    /* Each of two busy ranks measures half of the rail, so together they have
     * the whole rail. */
    record_of(&job, 0)[OUT] = 50000000;
    record_of(&job, 2)[OUT] = 50000000;
    assert_in_range(direct_of(&job), 19500000, 20500000);
    /* Each rank measures a quarter, because other traffic uses half of the
     * rail. The ratio is 33 : 67. */
    record_of(&job, 0)[OUT] = 25000000;
    record_of(&job, 2)[OUT] = 25000000;
    assert_in_range(direct_of(&job), 12800000, 13900000);
    /* Rank 2 is idle, so it has no measurement. The ratio is 20 : 80. */
    record_of(&job, 2)[OUT] = 0;
    assert_in_range(direct_of(&job), 7500000, 8500000);
    /* Rank 2 uses the rest of the rail. */
    record_of(&job, 2)[OUT] = 100000000;
    assert_in_range(direct_of(&job), 19500000, 20500000);
    record_of(&job, 2)[OUT] = 25000000;
    /* The bytes that ranks 0 and 2 receive do not affect this direction. */
    record_of(&job, 0)[IN] = 1;
    record_of(&job, 2)[IN] = 1;
    assert_in_range(direct_of(&job), 12800000, 13900000);
    /* At the receiving rail, the incoming bytes do count. */
    record_of(&job, 4)[IN] = 10000000;
    record_of(&job, 6)[IN] = 1;
    assert_in_range(direct_of(&job), 3000000, 4100000);
    job_cleanup(&job);
}

/* A value that does not change the capacity of any rail needs no new plan. */
static void test_same_capacities(void **state)
{
    mca_coll_mrail_rank_entry_t entries[8];
    const mrail_plan_t *plan;
    job_t job;

    fill_rank_entries(entries, 2, 4, 2);
    job_init(&job, entries, 8);
    for (unsigned i = 0; i < 8; ++i) {
        set_rail(record_of(&job, i), 100000000);
    }
    record_of(&job, 0)[BYTES + 4] = 40000000;
    (void)direct_of(&job);
    plan = job.schedule[0]->plan;
    record_of(&job, 3)[OUT] = 0;
    record_of(&job, 5)[IN] = 0;
    assert_true(mca_coll_mrail_schedule_fit(job.schedule[0], records_of(&job)));
    record_of(&job, 0)[BYTES + 4] = 50000000;
    assert_false(
        mca_coll_mrail_schedule_fit(job.schedule[0], records_of(&job)));
    (void)direct_of(&job);
    assert_ptr_equal(job.schedule[0]->plan, plan);
    set_rail(record_of(&job, 3), 20000000);
    assert_false(
        mca_coll_mrail_schedule_fit(job.schedule[0], records_of(&job)));
    job_cleanup(&job);
}

/* Small demands are not in the schedule, but the planner knows that they load
 * the rails. */
static void test_small_demands_load_rails(void **state)
{
    mca_coll_mrail_rank_entry_t entries[8];
    job_t job;

    fill_rank_entries(entries, 2, 4, 2);
    for (unsigned i = 0; i < 8; ++i) {
        entries[i].params.relay_threshold = 30000000;
    }
    job_init(&job, entries, 8);
    for (unsigned i = 0; i < 8; ++i) {
        set_rail(record_of(&job, i), 100000000);
    }
    record_of(&job, 0)[BYTES + 4] = 40000000;
    assert_in_range(direct_of(&job), 19500000, 20500000);
    record_of(&job, 0)[BYTES + 1] = 30000000; /* within the node */
    assert_in_range(direct_of(&job), 19500000, 20500000);
    record_of(&job, 0)[BYTES + 6] = 20000000;
    assert_false(
        mca_coll_mrail_schedule_fit(job.schedule[0], records_of(&job)));
    assert_in_range(direct_of(&job), 9500000, 10500000);
    assert_int_equal(job.schedule[0]->num_demands, 1);
    job_cleanup(&job);
}

/* ---- relay buffers ---- */

/* Returns the bytes of shared memory per rank, or 0 if there is no pool. */
static size_t pool_bytes(mca_coll_mrail_topology_t *topology, unsigned channels,
                         mrail_relay_shape_t *shape)
{
    int ret = mca_coll_mrail_pool_shape(topology, channels, 0, shape);
    size_t size;

    if (ret < 0) {
        assert_int_equal(ret, -ENOSPC);
        return 0;
    }
    assert_true(shape->in_slots >= channels);
    size = mrail_relay_shm_pool_size(shape) / shape->num_local;
    assert_in_range(size, 1, topology->params.relay_memory);
    return size;
}

/* The number of ranks does not matter, only that of channels. */
static void test_pool_of_a_large_job(void **state)
{
    mca_coll_mrail_topology_t topology = {
        .num_ranks = 100000,
        .num_local = 8,
        .max_local = 8,
        .params = {.relay_chunk_size = 131072,
                   .relay_buffers = 16,
                   .relay_memory = 64u << 20}};
    mrail_relay_shape_t shape;

    assert_in_range(pool_bytes(&topology, 0, &shape), 1, 3u << 20);
    assert_in_range(pool_bytes(&topology, 1, &shape), 4u << 20, 5u << 20);
    assert_in_range(pool_bytes(&topology, 7, &shape), 6u << 20, 7u << 20);
    assert_int_equal(shape.in_slots, 32);
    assert_int_equal(shape.chunk, 131072);
    assert_true(pool_bytes(&topology, 1000, &shape) > 60u << 20);
    assert_in_range(shape.chunk, 32768, 131071);
    assert_int_equal(pool_bytes(&topology, 1025, &shape), 0);
}

/* Rings and headers also need memory, and chunks have the same size on all
 * nodes. */
static void test_pool_of_a_large_node(void **state)
{
    mca_coll_mrail_topology_t topology = {.num_ranks = 1025,
                                          .max_local = 256,
                                          .params = {.relay_chunk_size = 131072,
                                                     .relay_buffers = 512,
                                                     .relay_memory = 8u << 20}};
    size_t chunk = 0;

    for (unsigned local = 1; local <= 256; local *= 4) {
        mrail_relay_shape_t shape;

        topology.num_local = local;
        assert_true(pool_bytes(&topology, 100, &shape) > 0);
        assert_true(chunk == 0 || shape.chunk == chunk);
        chunk = shape.chunk;
    }
    topology.params.relay_memory = 100000;
    for (unsigned channels = 0; channels < 100; ++channels) {
        mrail_relay_shape_t shape;

        (void)pool_bytes(&topology, channels, &shape);
    }
    topology.params.relay_memory = 1;
    assert_int_equal(pool_bytes(&topology, 0, &(mrail_relay_shape_t){0}), 0);
    topology.params.relay_memory = 64u << 20;
    topology.max_local = 257;
    assert_int_equal(pool_bytes(&topology, 1, &(mrail_relay_shape_t){0}), 0);
}

/* The schedule knows how many channels it needs. */
static void test_channels_of_a_schedule(void **state)
{
    mca_coll_mrail_rank_entry_t entries[8];
    job_t job;

    fill_rank_entries(entries, 2, 4, 4);
    job_init(&job, entries, 8);
    for (unsigned i = 0; i < 8; ++i) {
        set_rail(record_of(&job, i), 100000000);
        record_of(&job, i)[BYTES + (i + 4) % 8] = 9000000;
    }
    assert_int_equal(direct_of(&job), 9000000);
    assert_int_equal(job.schedule[0]->num_flows, 0);
    assert_int_equal(job.schedule[0]->max_channels, 0);
    record_of(&job, 0)[BYTES + 4] = 90000000;
    (void)direct_of(&job);
    assert_true(job.schedule[0]->num_flows > 0);
    assert_in_range(job.schedule[0]->max_channels, 1, 7);
    assert_int_equal(job.schedule[0]->max_channels,
                     job.schedule[7]->max_channels);
    job_cleanup(&job);
}

/* ---- version ---- */

static void test_version_is_that_of_the_planner(void **state)
{
    uint64_t version = mca_coll_mrail_schedule_fingerprint();

    assert_int_not_equal(version, 0);
    assert_int_equal(version, mca_coll_mrail_schedule_fingerprint());
}

/* ---- MPI_Allgatherv ---- */

static int allgather_gains(double part, unsigned nodes, unsigned local,
                           double rail, double copy)
{
    const mca_coll_mrail_allgather_t all = {
        .largest = (uint64_t)(part * 1e9),
        .total = 1000000000,
        .num_ranks = nodes * local,
        .num_nodes = nodes,
        .least_local = local,
        .rail_rate = (uint64_t)rail,
        .copy_rate = (uint64_t)copy,
    };

    return mca_coll_mrail_allgather_gains(&all);
}

static void test_allgather_gain(void **state)
{
    /* 2 nodes with 4 rails each, which are slower than copies */
    assert_true(allgather_gains(0.3, 2, 4, 100e6, 8e9));
    assert_false(allgather_gains(0.2, 2, 4, 100e6, 8e9));
    /* rails that are much faster than copies */
    assert_false(allgather_gains(1, 2, 4, 25e9, 8e9));
    /* one rank on each node, one node, or an unknown rate */
    assert_false(allgather_gains(1, 8, 1, 100e6, 8e9));
    assert_false(allgather_gains(1, 1, 8, 100e6, 8e9));
    assert_false(allgather_gains(1, 2, 4, 0, 8e9));
    /* with many nodes, the block leaves its node too often */
    assert_true(allgather_gains(1, 16, 8, 1e9, 8e9));
    assert_false(allgather_gains(1, 128, 8, 1e9, 8e9));
    assert_int_equal(mca_coll_mrail_allgather_steps(1), 0);
    assert_int_equal(mca_coll_mrail_allgather_steps(5), 3);
    assert_int_equal(mca_coll_mrail_allgather_steps(8), 3);
}

/* The parts of a block cover it without gaps, and differ by at most a byte. */
static void test_allgather_parts(void **state)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, 1);
    for (unsigned i = 0; i < 1000; ++i) {
        unsigned num = 1 + mrail_rng_below(&rng, 64);
        uint64_t bytes = mrail_rng_below(&rng, i % 2 ? UINT32_MAX : 100);

        assert_int_equal(mca_coll_mrail_allgather_offset(bytes, 0, num), 0);
        for (unsigned part = 0; part < num; ++part) {
            uint64_t length =
                mca_coll_mrail_allgather_offset(bytes, part + 1, num) -
                mca_coll_mrail_allgather_offset(bytes, part, num);

            assert_true(length == bytes / num || length == bytes / num + 1);
        }
        assert_int_equal(mca_coll_mrail_allgather_offset(bytes, num, num),
                         bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_calls_seldom_agree),
        cmocka_unit_test(test_large_calls_agree),
        cmocka_unit_test(test_large_calls_are_detected),
        cmocka_unit_test(test_states_stay_equal),
        cmocka_unit_test(test_rank_places),
        cmocka_unit_test(test_unsupported_topologies),
        cmocka_unit_test(test_too_many_rails),
        cmocka_unit_test(test_noise_changes_nothing),
        cmocka_unit_test(test_degraded_and_recovered),
        cmocka_unit_test(test_share_of_the_rails),
        cmocka_unit_test(test_inflight_limit_conditions),
        cmocka_unit_test(test_inflight_limit),
        cmocka_unit_test(test_all_bytes_are_sent_once),
        cmocka_unit_test(test_no_plan),
        cmocka_unit_test(test_small_relay_memory),
        cmocka_unit_test(test_views_of_a_rail),
        cmocka_unit_test(test_live_capacities),
        cmocka_unit_test(test_same_capacities),
        cmocka_unit_test(test_small_demands_load_rails),
        cmocka_unit_test(test_pool_of_a_large_job),
        cmocka_unit_test(test_pool_of_a_large_node),
        cmocka_unit_test(test_channels_of_a_schedule),
        cmocka_unit_test(test_allgather_gain),
        cmocka_unit_test(test_allgather_parts),
        cmocka_unit_test(test_version_is_that_of_the_planner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
