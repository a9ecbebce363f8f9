/*
 * Tests the findings of mrail diagnose about ranks: snapshots with one fault
 * each, and snapshots without a fault that look suspicious.
 */
#include "config.h"
#include "base/rng.h"
#include "diagnose_snapshot.h"

#include <stdlib.h>
#include <string.h>

#define SEEDS 300u

/* ---- processes ---- */

static void test_nothing(void **state)
{
    assert_none();
    add_all(MRAIL_CALLS_BARRIER, NOW - 10 * MS, NOW - 9 * MS);
    assert_none();
    snapshot.num_ranks = 0;
    assert_none();
}

static void test_stopped(void **state)
{
    add_all(MRAIL_CALLS_BARRIER, NOW - 6000 * MS, NOW - 5990 * MS);
    for (unsigned i = 0; i < RANKS; ++i) {
        if (i != 2) {
            add(comm_of(i, 0), MRAIL_CALLS_BARRIER, -1, NOW - 5000 * MS, 0);
        }
    }
    ranks[2].state = 'T';
    ranks[0].paths[0] = (diagnose_path_t){.peer = 502, .rail = 1};
    ranks[0].num_paths = 1;
    assert_one(DIAGNOSE_STOPPED, "rank 2");
    ranks[2].state = 'R';
    ranks[2].alive = 0;
    assert_one(DIAGNOSE_ENDED, "rank 2");
}

static void test_ended_job(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].alive = 0;
        ranks[i].state = '?';
        ranks[i].run = ranks[i].delay = -1;
    }
    assert_none();
    ranks[1].last_ns = NOW - 5000 * MS;
    assert_one(DIAGNOSE_ENDED, "rank 1");
}

/* ---- two runs of the same name ---- */

static void drop_earlier(void)
{
    snapshot.num_ranks = diagnose_drop_earlier(ranks, snapshot.num_ranks);
}

static diagnose_rank_t *add_ended(unsigned rank, uint64_t ago_ns)
{
    diagnose_rank_t *copy = add_copy(rank);

    copy->alive = 0;
    copy->state = '?';
    copy->last_ns = NOW - ago_ns;
    return copy;
}

/* A batch system starts a killed job again, under the same name. */
static void test_started_again(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].start_ns = NOW - 60000 * MS;
    }
    add_ended(2, 300000 * MS);
    add_ended(3, 300000 * MS)->rank = 17; /* was on this host before */
    assert_int_equal(snapshot.num_ranks, RANKS + 2);
    drop_earlier();
    assert_int_equal(snapshot.num_ranks, RANKS);
    assert_none();
    for (unsigned i = 0; i < RANKS; ++i) {
        assert_int_equal(ranks[i].rank, i);
        assert_true(ranks[i].alive);
    }
}

/* The ended process comes first in the list, which is sorted by pid. */
static void test_started_again_with_higher_pid(void **state)
{
    add_copy(2);
    ranks[2].alive = 0;
    ranks[2].last_ns = NOW - 300000 * MS;
    drop_earlier();
    assert_int_equal(snapshot.num_ranks, RANKS);
    assert_int_equal(ranks[2].rank, 3);
    assert_int_equal(ranks[3].rank, 2);
    assert_none();
}

/* A rank of this run that has been killed is still found. */
static void test_started_again_and_ended(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].start_ns = NOW - 60000 * MS;
    }
    add_ended(1, 300000 * MS);
    ranks[1].alive = 0;
    ranks[1].last_ns = NOW - 5000 * MS;
    drop_earlier();
    assert_int_equal(snapshot.num_ranks, RANKS);
    assert_one(DIAGNOSE_ENDED, "rank 1");
}

/* Both runs were killed. */
static void test_both_ended(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].alive = 0;
        ranks[i].state = '?';
        add_ended(i, 300000 * MS);
    }
    drop_earlier();
    assert_int_equal(snapshot.num_ranks, RANKS);
    assert_none();
}

static void test_without_ranks(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].rank = -1;
        ranks[i].start_ns = NOW - 60000 * MS;
    }
    add_ended(0, 300000 * MS);
    drop_earlier();
    assert_int_equal(snapshot.num_ranks, RANKS + 1);
}

/* Two jobs of the same name run at the same time: their communicators cannot be
 * told apart. */
static void test_two_jobs(void **state)
{
    add(comm_of(2, 0), MRAIL_CALLS_BARRIER, -1, NOW - 5000 * MS, 0);
    add_copy(2);
    comm_of(RANKS, 0)->records[0].kind = MRAIL_CALLS_BCAST;
    calls[0].wait = (mrail_calls_wait_t){.count = 1,
                                         .since = NOW - 5000 * MS,
                                         .kind = MRAIL_CALLS_RECV,
                                         .peer = 2};
    drop_earlier();
    assert_int_equal(snapshot.num_ranks, RANKS + 1);
    assert_none();
}

/* ---- hang ---- */

/* All ranks but one wait in a collective. */
static void hang(unsigned absent, uint64_t ago_ns)
{
    add_all(MRAIL_CALLS_ALLREDUCE, NOW - ago_ns - 20 * MS,
            NOW - ago_ns - 10 * MS);
    for (unsigned i = 0; i < RANKS; ++i) {
        if (i != absent) {
            add(comm_of(i, 0), MRAIL_CALLS_ALLTOALLV, -1, NOW - ago_ns, 0);
        }
    }
}

static void test_computes(void **state)
{
    hang(3, 5000 * MS);
    assert_one(DIAGNOSE_COMPUTE, "rank 3");
    assert_non_null(strstr(report.findings[0].evidence,
                           "has not entered MPI_Alltoallv, call 2 of"));
    assert_non_null(strstr(report.findings[0].evidence,
                           "in which ranks 0,1,2 wait for 5.0 s"));
    snapshot.patience_ns = 6000 * MS;
    assert_none();
}

static void test_computes_in_a_dead_job(void **state)
{
    hang(3, 5000 * MS);
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].alive = 0;
        ranks[i].state = '?';
    }
    assert_one(DIAGNOSE_COMPUTE, "rank 3");
}

static void test_starved(void **state)
{
    hang(1, 3000 * MS);
    ranks[1].run = 0.2;
    ranks[1].delay = 0.8;
    assert_one(DIAGNOSE_CORES, "rank 1");
    /* If all ranks hardly run, none is the cause, unless this lasts. */
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].run = 0.2;
        ranks[i].delay = 0.8;
    }
    assert_none();
    assert_true(report.contended > 0.7);
    /* The ranks get different shares of too few cores. */
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].delay = (i == 1) ? 0.8 : 0.2;
    }
    assert_none();
    set_up(NULL);
    hang(1, 5000 * MS);
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].run = 0.2;
        ranks[i].delay = 0.8;
    }
    assert_one(DIAGNOSE_COMPUTE, "rank 1");
}

static void test_posted(void **state)
{
    add_all(MRAIL_CALLS_BARRIER, NOW - 6000 * MS, NOW - 5990 * MS);
    for (unsigned i = 0; i < RANKS; ++i) {
        if (i != 0) {
            add(comm_of(i, 0), MRAIL_CALLS_BCAST | MRAIL_CALLS_NONBLOCKING, 2,
                NOW - 5000 * MS, NOW - 5000 * MS);
            calls[i].wait = (mrail_calls_wait_t){.count = 1,
                                                 .since = NOW - 4900 * MS,
                                                 .kind = MRAIL_CALLS_WAIT,
                                                 .peer = -1,
                                                 .comm = MRAIL_CALLS_COMMS};
        }
    }
    assert_one(DIAGNOSE_COMPUTE, "rank 0");
    assert_non_null(strstr(report.findings[0].evidence, "MPI_Ibcast"));
}

/* All ranks are in the same call, which takes long, so no rank is missing. */
static void test_long_call(void **state)
{
    add_all(MRAIL_CALLS_ALLTOALL, NOW - 9000 * MS, 0);
    assert_none();
}

static void test_crossed(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        add(comm_of(i, (i == 2) ? 1 : 0), MRAIL_CALLS_BARRIER, -1,
            NOW - 5000 * MS, 0);
    }
    check();
    assert_true(report.num_findings >= 1);
    assert_int_equal(report.findings[0].cause, DIAGNOSE_MISMATCH);
}

/* Rank 2 is in a long call of another communicator, and is not the cause. */
static void test_waits_elsewhere(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        add(comm_of(i, 1), MRAIL_CALLS_ALLTOALL, -1, NOW - 5000 * MS,
            (i == 2) ? 0 : NOW - 4900 * MS);
        if (i != 2) {
            add(comm_of(i, 0), MRAIL_CALLS_BARRIER, -1, NOW - 4800 * MS, 0);
        }
    }
    assert_none();
}

/* ---- order ---- */

static void test_mismatch(void **state)
{
    add_all(MRAIL_CALLS_BCAST, NOW - 7000 * MS, NOW - 6900 * MS);
    for (unsigned i = 0; i < RANKS; ++i) {
        add(comm_of(i, 0),
            (i == 1) ? MRAIL_CALLS_BARRIER : MRAIL_CALLS_ALLREDUCE, -1,
            NOW - 5000 * MS, 0);
    }
    assert_one(DIAGNOSE_MISMATCH, "rank 1");
    assert_non_null(strstr(report.findings[0].evidence,
                           "is MPI_Barrier at rank 1, but MPI_Allreduce at "
                           "rank 0 and 2 others"));
}

static void test_other_root(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        add(comm_of(i, 0), MRAIL_CALLS_BCAST, (i == 3) ? 1 : 0, NOW - 50 * MS,
            NOW - 40 * MS);
    }
    assert_one(DIAGNOSE_MISMATCH, "rank 3");
}

/* ---- late ---- */

/* Adds rounds of two calls, with a computation before the first. Each rank has
 * random times; `late` computes longer by late_ns. */
static void add_rounds(uint64_t seed, unsigned late, uint64_t late_ns)
{
    uint64_t at[RANKS], from = NOW - 5000 * MS;
    mrail_rng_t rng;

    mrail_rng_init(&rng, seed);
    for (unsigned round = 0; round < 60; ++round) {
        uint64_t last = 0;

        for (unsigned i = 0; i < RANKS; ++i) {
            at[i] = from + 5 * MS + mrail_rng_below(&rng, 3000000) +
                    ((i == late) ? late_ns : 0);
            if (mrail_rng_hit(&rng, 50000)) { /* another process ran */
                at[i] += mrail_rng_below(&rng, 60000000);
            }
            last = MRAIL_MAX(last, at[i]);
        }
        for (unsigned i = 0; i < RANKS; ++i) {
            add(comm_of(i, 0), MRAIL_CALLS_ALLTOALL, -1, at[i], last + 5 * MS);
            add(comm_of(i, 0), MRAIL_CALLS_ALLREDUCE, -1,
                last + 5 * MS + mrail_rng_below(&rng, 100000), last + 6 * MS);
        }
        from = last + 6 * MS;
    }
}

static void test_late(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        set_up(NULL);
        add_rounds(seed, (unsigned)seed % RANKS, 15 * MS);
        check();
        if ((report.num_findings != 1) ||
            (report.findings[0].cause != DIAGNOSE_COMPUTE) ||
            (report.findings[0].rank != (int)(seed % RANKS))) {
            fail_msg("seed %u: %u findings", (unsigned)seed,
                     report.num_findings);
        }
    }
}

/* The rank computes as long as the others, but has a fifth of a core. */
static void test_late_and_starved(void **state)
{
    add_rounds(1, 2, 15 * MS);
    ranks[2].run = 0.2;
    ranks[2].delay = 0.8;
    assert_one(DIAGNOSE_CORES, "rank 2");
    set_up(NULL);
    add_rounds(1, 2, 80 * MS); /* also with a core */
    ranks[2].run = 0.3;
    ranks[2].delay = 0.7;
    assert_one(DIAGNOSE_COMPUTE, "rank 2");
}

static void test_not_late(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        set_up(NULL);
        add_rounds(seed, RANKS, 0);
        check();
        if (report.num_findings != 0) {
            fail_msg("seed %u: %s", (unsigned)seed,
                     report.findings[0].evidence);
        }
    }
}

/* Calls are too frequent for the records: the sums of two samples count. Rank i
 * is sampled after `apart` more calls than rank i - 1. */
static void add_sums(unsigned apart)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        for (unsigned n = 0; n < 100 + apart * i; ++n) {
            add(comm_of(i, 0), MRAIL_CALLS_BARRIER, -1, NOW - 500 * MS + n * MS,
                NOW - 500 * MS + n * MS + MS / 2);
        }
        comm_of(i, 0)->computed = ((i == 2) ? 500 : 100) * MS;
        earlier[i] = calls[i];
        earlier[i].comms[0].entered = 10 + apart * i;
        earlier[i].comms[0].computed = 50 * MS;
        ranks[i].earlier = &earlier[i];
    }
}

static void test_late_by_sums(void **state)
{
    for (unsigned apart = 0; apart <= 100; apart += 50) {
        set_up(NULL);
        add_sums(apart);
        assert_one(DIAGNOSE_COMPUTE, "rank 2");
        comm_of(2, 0)->computed = 120 * MS;
        assert_none();
    }
}

/* Too few calls, or a rank without a first sample. */
static void test_no_sums(void **state)
{
    add_sums(100);
    earlier[1].comms[0].entered = comm_of(1, 0)->entered - 5;
    assert_none();
    set_up(NULL);
    add_sums(100);
    ranks[1].earlier = NULL;
    assert_none();
}

/* The samples of two hosts are not from the same period. */
static void test_sums_of_hosts(void **state)
{
    add_sums(100);
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].host = (i == 2) ? "a" : "b";
    }
    assert_none();
    ranks[0].host = "a";
    assert_one(DIAGNOSE_COMPUTE, "rank 2");
}

/* ---- order of findings ---- */

static void test_order_of_findings(void **state)
{
    hang(3, 5000 * MS);
    ranks[0].rails[1].is_down = 1;
    ranks[1].state = 'T';
    check();
    assert_int_equal(report.num_findings, 3);
    assert_int_equal(report.findings[0].cause, DIAGNOSE_STOPPED);
    assert_int_equal(report.findings[1].cause, DIAGNOSE_RAIL_DOWN);
    assert_int_equal(report.findings[2].cause, DIAGNOSE_COMPUTE);
}

/* A rank that mostly sleeps, and waits for a core for a moment. */
static void test_sleeping_rank(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].run = ranks[i].delay = 0;
    }
    ranks[1].run = 0.002;
    ranks[1].delay = 0.008;
    assert_none();
}

#define TEST(_func) cmocka_unit_test_setup(_func, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sleeping_rank),
        TEST(test_nothing),
        TEST(test_stopped),
        TEST(test_ended_job),
        TEST(test_started_again),
        TEST(test_started_again_with_higher_pid),
        TEST(test_started_again_and_ended),
        TEST(test_both_ended),
        TEST(test_without_ranks),
        TEST(test_two_jobs),
        TEST(test_computes),
        TEST(test_computes_in_a_dead_job),
        TEST(test_starved),
        TEST(test_posted),
        TEST(test_long_call),
        TEST(test_crossed),
        TEST(test_waits_elsewhere),
        TEST(test_mismatch),
        TEST(test_other_root),
        TEST(test_late),
        TEST(test_late_and_starved),
        TEST(test_not_late),
        TEST(test_late_by_sums),
        TEST(test_no_sums),
        TEST(test_sums_of_hosts),
        TEST(test_order_of_findings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
