/*
 * Tests the findings of mrail diagnose about ranks that wait for messages of
 * other ranks.
 */
#include "config.h"
#include "diagnose_snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG 3

/* A rank waits in a call with this peer and TAG. */
static void wait_in(unsigned rank, uint32_t kind, int peer, uint64_t ago_ns)
{
    calls[rank].wait = (mrail_calls_wait_t){.count = 7,
                                            .since = NOW - ago_ns,
                                            .kind = kind,
                                            .peer = peer,
                                            .tag = TAG};
}

static void wait_for(unsigned rank, int peer, uint64_t ago_ns)
{
    wait_in(rank, MRAIL_CALLS_RECV, peer, ago_ns);
}

static void test_message(void **state)
{
    add_all(MRAIL_CALLS_BARRIER, NOW - 9000 * MS, NOW - 8990 * MS);
    wait_for(0, 3, 5000 * MS);
    assert_one(DIAGNOSE_COMPUTE, "rank 3");
    assert_non_null(strstr(report.findings[0].evidence,
                           "rank 0 waits for it in MPI_Recv with tag 3"));
    wait_for(0, 3, 1000 * MS);
    assert_none();
    wait_for(0, -1, 5000 * MS);
    assert_none();
}

static void assert_cycle(void)
{
    check();
    assert_int_equal(report.num_findings, 2);
    assert_int_equal(report.findings[0].cause, DIAGNOSE_MISMATCH);
    assert_string_equal(report.findings[0].subject, "rank 0");
    assert_int_equal(report.findings[1].cause, DIAGNOSE_MISMATCH);
    assert_string_equal(report.findings[1].subject, "rank 1");
}

static void test_cycle(void **state)
{
    static const uint32_t kinds[] = {MRAIL_CALLS_RECV, MRAIL_CALLS_SEND,
                                     MRAIL_CALLS_PROBE};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(kinds); ++i) {
        wait_in(0, kinds[i], 1, 5000 * MS);
        wait_in(1, kinds[i], 0, 5000 * MS);
        assert_cycle();
    }
}

static void test_cycle_of_three(void **state)
{
    wait_for(0, 1, 5000 * MS);
    wait_for(1, 2, 5000 * MS);
    wait_for(2, 0, 5000 * MS);
    wait_for(3, 0, 5000 * MS); /* is not part of the cycle */
    check();
    assert_int_equal(report.num_findings, 3);
    for (unsigned i = 0; i < 3; ++i) {
        assert_int_equal(report.findings[i].cause, DIAGNOSE_MISMATCH);
        assert_int_equal(report.findings[i].rank, (int)i);
    }
}

/* One rank sends what the other one receives, which takes long. */
static void test_match(void **state)
{
    static const uint32_t kinds[] = {MRAIL_CALLS_RECV, MRAIL_CALLS_PROBE};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(kinds); ++i) {
        wait_in(0, kinds[i], 1, 5000 * MS);
        wait_in(1, MRAIL_CALLS_SEND, 0, 5000 * MS);
        assert_none();
        calls[0].wait.tag = -1; /* MPI_ANY_TAG */
        assert_none();
        calls[0].wait.tag = TAG + 1;
        assert_cycle();
        calls[0].wait.tag = TAG;
        calls[0].wait.comm = 1;
        assert_cycle();
    }
}

static void exchange(unsigned rank, uint64_t peer, uint64_t ago_ns)
{
    ranks[rank].exchanges[0] = (diagnose_exchange_t){peer, NOW - ago_ns};
    ranks[rank].num_exchanges = 1;
}

/* Both ranks exchange long messages, and wait for each other: in MPI_Sendrecv,
 * or in MPI_Recv after MPI_Isend. */
static void test_long_exchange(void **state)
{
    static const uint32_t kinds[] = {MRAIL_CALLS_RECV, MRAIL_CALLS_SEND};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(kinds); ++i) {
        wait_in(0, kinds[i], 1, 5000 * MS);
        wait_in(1, kinds[i], 0, 4000 * MS);
        exchange(0, 501, 100 * MS);
        assert_none();
        exchange(0, 502, 100 * MS); /* with another rank */
        assert_cycle();
        exchange(1, 500, 100 * MS);
        assert_none();
        exchange(1, 500, 3000 * MS); /* has ended */
        assert_cycle();
    }
}

/* A fault of a rail delays the messages of both ranks. */
static void test_cycle_and_rail(void **state)
{
    wait_for(0, 1, 5000 * MS);
    wait_for(1, 0, 5000 * MS);
    ranks[1].rails[1].is_down = 1;
    assert_one(DIAGNOSE_RAIL_DOWN, "rail nic1:1");
    ranks[1].rails[1].is_down = 0;
    ranks[0].paths[0] = (diagnose_path_t){.peer = 501, .rail = 2};
    ranks[0].num_paths = 1;
    assert_one(DIAGNOSE_PATH, "rail nic2:1");
    /* A rail of ranks outside the cycle does not matter. */
    ranks[0].num_paths = 0;
    ranks[3].rails[0].is_down = 1;
    check();
    assert_int_equal(report.num_findings, 3);
    assert_int_equal(report.findings[0].cause, DIAGNOSE_MISMATCH);
    assert_int_equal(report.findings[2].cause, DIAGNOSE_RAIL_DOWN);
}

/* ---- waits that are not recorded ---- */

/* As with MPI_THREAD_MULTIPLE. */
static void record_no_waits(void)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        mrail_calls_without_waits(&calls[i]);
    }
}

/* Rank 1 waits for a message of rank 2, which computes, and the others wait for
 * both. */
static void test_two_absent(void **state)
{
    add_all(MRAIL_CALLS_BARRIER, NOW - 6000 * MS, NOW - 5990 * MS);
    add(comm_of(0, 0), MRAIL_CALLS_BARRIER, -1, NOW - 5000 * MS, 0);
    add(comm_of(3, 0), MRAIL_CALLS_BARRIER, -1, NOW - 5000 * MS, 0);
    wait_for(1, 2, 5000 * MS);
    assert_one(DIAGNOSE_COMPUTE, "rank 2");
    calls[1].wait.count = 0;
    record_no_waits();
    assert_none();
    /* If rank 2 cannot run, it is the cause. */
    ranks[2].state = 'T';
    assert_one(DIAGNOSE_STOPPED, "rank 2");
}

/* A rank for which all others wait is named, but may wait as well. */
static void test_one_absent(void **state)
{
    add_all(MRAIL_CALLS_BARRIER, NOW - 6000 * MS, NOW - 5990 * MS);
    for (unsigned i = 1; i < RANKS; ++i) {
        add(comm_of(i, 0), MRAIL_CALLS_BARRIER, -1, NOW - 5000 * MS, 0);
    }
    assert_one(DIAGNOSE_COMPUTE, "rank 0");
    assert_null(strstr(report.findings[0].evidence, "does not record"));
    record_no_waits();
    assert_one(DIAGNOSE_COMPUTE, "rank 0");
    assert_non_null(strstr(report.findings[0].evidence,
                           "waits for a message, which this job does not "
                           "record"));
}

static void test_outside(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream;

    add_all(MRAIL_CALLS_BARRIER, NOW - 10 * MS, NOW - 9 * MS);
    mrail_calls_without_waits(&calls[0]);
    check();
    stream = open_memstream(&text, &size);
    assert_non_null(stream);
    diagnose_print(stream, "job", &snapshot, &report);
    assert_int_equal(fclose(stream), 0);
    assert_non_null(strstr(text, "outside collectives"));
    assert_non_null(strstr(text, "outside MPI"));
    free(text);
}

#define TEST(_func) cmocka_unit_test_setup(_func, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_message),        TEST(test_cycle),
        TEST(test_cycle_of_three), TEST(test_match),
        TEST(test_long_exchange),  TEST(test_cycle_and_rail),
        TEST(test_two_absent),     TEST(test_one_absent),
        TEST(test_outside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
