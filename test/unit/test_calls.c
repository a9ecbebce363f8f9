/*
 * Tests the .calls file. Readers must see consistent counts and times,
 * even from a killed process. Arbitrary file contents must not harm readers.
 */
#include "config.h"
#include "base/rng.h"
#include "telemetry/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ID 0x77u
#define SEEDS 300

static char dir[64];
static mrail_calls_t got, before, after;

static int make_dir(void **state)
{
    snprintf(dir, sizeof(dir), MRAIL_TELE_DIR "/test-calls-XXXXXX");
    return (mkdtemp(dir) != NULL) ? 0 : -1;
}

static void remove_one(const char *name, void *arg)
{
    unlink(name);
}

static int remove_dir(void **state)
{
    mrail_tele_file_each(dir, MRAIL_TELE_ALL, remove_one, NULL);
    return rmdir(dir);
}

static mrail_calls_file_t create(void)
{
    mrail_calls_file_t file;

    assert_int_equal(mrail_calls_create(&file, dir, ID, "job", 3, "prog"), 0);
    return file;
}

static void read_one(const char *path, void *arg)
{
    *(mrail_page_status_t *)arg = mrail_calls_read(path, &got);
}

static mrail_page_status_t read_back(void)
{
    mrail_page_status_t status = MRAIL_PAGE_GONE;

    assert_int_equal(
        mrail_tele_file_each(dir, MRAIL_TELE_CALLS, read_one, &status), 1);
    return status;
}

static void test_counts(void **state)
{
    uint64_t from_ns = mrail_clock_now();
    mrail_calls_file_t file = create();
    mrail_calls_comm_t *comm = mrail_calls_comm_add(file.calls, 9, 4, 2);
    const mrail_calls_comm_t *copy = &got.comms[0];
    const mrail_calls_record_t *first, *second;

    mrail_calls_comm_name(comm, "MPI_COMM\033WORLD");
    mrail_calls_enter(comm, MRAIL_CALLS_BARRIER, -1);
    mrail_calls_leave(comm);
    mrail_calls_enter(comm, MRAIL_CALLS_BCAST, 1);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_int_equal(mrail_page_each(dir, NULL, NULL), 0);
    assert_int_equal(got.pid, getpid());
    assert_int_equal(got.rank, 3);
    assert_string_equal(got.job, "job");
    assert_string_equal(got.program, "prog");
    assert_int_equal(copy->id, 9);
    assert_string_equal(copy->name, "MPI_COMM?WORLD");
    assert_int_equal(copy->size, 4);
    assert_int_equal(copy->rank, 2);
    assert_int_equal(copy->entered, 2);
    assert_int_equal(copy->left, 1);
    assert_int_equal(copy->counts[MRAIL_CALLS_BARRIER], 1);
    assert_int_equal(copy->counts[MRAIL_CALLS_BCAST], 1);
    first = mrail_calls_record(copy, 0);
    second = mrail_calls_record(copy, 1);
    assert_true(first->entered + MRAIL_NS_PER_MS >= from_ns);
    assert_true(first->left >= first->entered);
    assert_true(second->entered >= first->left);
    assert_true(second->entered <= mrail_clock_now());
    assert_int_equal(second->left, 0);
    assert_int_equal(second->root, 1);
    assert_null(mrail_calls_record(copy, 2));
    assert_true(copy->called <= first->left - first->entered + 1);
    assert_true(copy->computed + 1 >= second->entered - first->left);
    assert_true(copy->computed + copy->called <= mrail_clock_now() - from_ns);
    mrail_calls_comm_remove(comm);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_int_equal(got.comms[0].id, 0);
    mrail_calls_remove(&file);
    assert_int_equal(mrail_tele_file_each(dir, MRAIL_TELE_ALL, NULL, NULL), 0);
}

static void test_wraps(void **state)
{
    mrail_calls_file_t file = create();
    mrail_calls_comm_t *comm = mrail_calls_comm_add(file.calls, 9, 2, 0);
    const mrail_calls_comm_t *copy = &got.comms[0];

    for (int i = 0; i < 1000; ++i) {
        mrail_calls_enter(comm, MRAIL_CALLS_BCAST, i);
        mrail_calls_leave(comm);
    }
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_int_equal(copy->first, 1000 - MRAIL_CALLS_RECORDS + 1);
    for (uint64_t n = copy->first; n < 1000; ++n) {
        assert_int_equal(mrail_calls_record(copy, n)->root, n);
    }
    assert_null(mrail_calls_record(copy, copy->first - 1));
    mrail_calls_remove(&file);
}

static void test_many_communicators(void **state)
{
    mrail_calls_file_t file = create();
    mrail_calls_comm_t *comm = NULL;

    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        comm = mrail_calls_comm_add(file.calls, i + 1, 2, 0);
        assert_non_null(comm);
    }
    assert_null(mrail_calls_comm_add(file.calls, 99, 2, 0));
    assert_int_equal(file.calls->more_comms, 1);
    mrail_calls_comm_remove(comm);
    assert_ptr_equal(mrail_calls_comm_add(file.calls, 99, 2, 0), comm);
    mrail_calls_remove(&file);
}

static void test_waits(void **state)
{
    mrail_calls_file_t file = create();

    mrail_calls_wait_begin(file.calls, MRAIL_CALLS_RECV, 5, 7, 0);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_true(mrail_calls_is_waiting(&got));
    assert_int_equal(got.wait.kind, MRAIL_CALLS_RECV);
    assert_int_equal(got.wait.peer, 5);
    assert_int_equal(got.wait.tag, 7);
    assert_true(got.wait.since <= mrail_clock_now());
    mrail_calls_wait_end(file.calls);
    assert_int_equal(file.calls->num_past, 0);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_false(mrail_calls_is_waiting(&got));

    /* An earlier wait. */
    mrail_calls_wait_begin(file.calls, MRAIL_CALLS_WAIT, -1, -1,
                           MRAIL_CALLS_COMMS);
    file.calls->wait.since = file.calls->start_ticks;
    file.calls->start_ns -= 2 * MRAIL_CALLS_LONG_NS;
    mrail_calls_wait_end(file.calls);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_int_equal(got.num_past, 1);
    assert_true(got.past[0].until - got.past[0].since >= MRAIL_CALLS_LONG_NS);
    mrail_calls_remove(&file);
}

static void test_without_waits(void **state)
{
    mrail_calls_file_t file = create();

    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_true(mrail_calls_has_waits(&got));
    mrail_calls_without_waits(file.calls);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_false(mrail_calls_has_waits(&got));
    assert_false(mrail_calls_is_waiting(&got));
    mrail_calls_remove(&file);
}

static void test_killed(void **state)
{
    int ready[2];
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        mrail_calls_file_t file;

        if (mrail_calls_create(&file, dir, ID, NULL, -1, "child") == 0) {
            mrail_calls_enter(mrail_calls_comm_add(file.calls, 1, 2, 0),
                              MRAIL_CALLS_ALLREDUCE, -1);
            (void)!write(ready[1], &byte, 1);
            pause();
        }
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(read_back(), MRAIL_PAGE_ENDED);
    assert_int_equal(got.comms[0].counts[MRAIL_CALLS_ALLREDUCE], 1);
    assert_string_equal(got.job, "");
    assert_int_equal(mrail_tele_file_clean(dir, 0), 1);
    close(ready[0]);
    close(ready[1]);
}

/* The writer continues while a reader copies. */
static void test_changes_during_the_copy(void **state)
{
    mrail_calls_file_t file = create();
    mrail_calls_comm_t *comm = mrail_calls_comm_add(file.calls, 9, 2, 0);

    for (unsigned i = 0; i < MRAIL_CALLS_RECORDS; ++i) {
        mrail_calls_enter(comm, MRAIL_CALLS_BARRIER, -1);
        mrail_calls_leave(comm);
    }
    before = got = *file.calls;
    mrail_calls_enter(comm, MRAIL_CALLS_BCAST, 0);
    mrail_calls_leave(comm);
    mrail_calls_wait_begin(file.calls, MRAIL_CALLS_RECV, 0, 0, 0);
    after = *file.calls;
    assert_int_equal(mrail_calls_check(&got, &before, &after,
                                       mrail_calls_ticks(), mrail_clock_now()),
                     MRAIL_PAGE_ALIVE);
    assert_int_equal(got.comms[0].entered, MRAIL_CALLS_RECORDS);
    assert_int_equal(got.comms[0].first, 2);
    assert_null(mrail_calls_record(&got.comms[0], 0));
    assert_false(mrail_calls_is_waiting(&got));

    got = before;
    after.comms[0].id = 10;
    assert_int_equal(mrail_calls_check(&got, &before, &after,
                                       mrail_calls_ticks(), mrail_clock_now()),
                     MRAIL_PAGE_ALIVE);
    assert_int_equal(got.comms[0].id, 0);
    mrail_calls_remove(&file);
}

static void fill_at_random(mrail_calls_t *calls, mrail_rng_t *rng)
{
    unsigned char *bytes = (unsigned char *)calls;

    for (size_t i = 0; i < sizeof(*calls); ++i) {
        bytes[i] = (unsigned char)mrail_rng_next(rng);
    }
    calls->magic = MRAIL_CALLS_MAGIC;
    calls->version = MRAIL_CALLS_VERSION;
    calls->size = sizeof(*calls);
}

/* Every number and text of an accepted copy is in its range. */
static void check_copy(uint64_t seed)
{
    char name[MRAIL_CALLS_NAME];

    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        const mrail_calls_comm_t *comm = &got.comms[i];

        if (comm->id != 0 &&
            (comm->rank >= comm->size || comm->left > comm->entered ||
             strnlen(comm->name, sizeof(comm->name)) == sizeof(comm->name))) {
            fail_msg("seed %llu: communicator %u", (unsigned long long)seed, i);
        }
        for (unsigned k = 0; k < MRAIL_CALLS_RECORDS; ++k) {
            mrail_calls_name(name, comm->records[k].kind);
        }
    }
    assert_true(got.wait.comm <= MRAIL_CALLS_COMMS);
}

static void test_any_bytes(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        mrail_rng_t rng;

        mrail_rng_init(&rng, seed);
        fill_at_random(&got, &rng);
        got.start_ticks %= 1000;
        got.start_ns %= 1000;
        before = after = got;
        for (unsigned i = 0; i < MRAIL_CALLS_COMMS; i += 2) {
            before.comms[i].entered %= 200;
            after.comms[i].entered = before.comms[i].entered + i;
            got.comms[i].rank %= got.comms[i].size | 1;
        }
        assert_int_equal(mrail_calls_check(&got, &before, &after,
                                           mrail_rng_next(&rng) | 4096,
                                           mrail_rng_next(&rng) | 4096),
                         MRAIL_PAGE_ALIVE);
        check_copy(seed);
    }
}

static void test_other_files(void **state)
{
    mrail_calls_file_t file = create();
    char path[MRAIL_TELE_PATH];

    snprintf(path, sizeof(path), "%s", file.file.path);
    file.calls->version = MRAIL_CALLS_VERSION + 1;
    assert_int_equal(read_back(), MRAIL_PAGE_OTHER);
    file.calls->version = MRAIL_CALLS_VERSION;
    file.calls->size = 1;
    assert_int_equal(read_back(), MRAIL_PAGE_BROKEN);
    file.calls->size = sizeof(*file.calls);
    file.calls->start_ns = UINT64_MAX; /* later than any time on this machine */
    assert_int_equal(read_back(), MRAIL_PAGE_BROKEN);
    file.calls->magic = 0;
    assert_int_equal(read_back(), MRAIL_PAGE_BROKEN);
    file.calls->magic = MRAIL_CALLS_MAGIC;
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(read_back(), MRAIL_PAGE_BROKEN);
    mrail_calls_remove(&file);
    assert_int_equal(mrail_calls_read(path, &got), MRAIL_PAGE_GONE);
}

static void test_names(void **state)
{
    char name[MRAIL_CALLS_NAME];

    mrail_calls_name(name, MRAIL_CALLS_ALLTOALLV);
    assert_string_equal(name, "MPI_Alltoallv");
    mrail_calls_name(name, MRAIL_CALLS_BARRIER | MRAIL_CALLS_NONBLOCKING);
    assert_string_equal(name, "MPI_Ibarrier");
    mrail_calls_name(name, MRAIL_CALLS_RECV);
    assert_string_equal(name, "MPI_Recv");
    mrail_calls_name(name, UINT32_MAX);
    assert_string_equal(name, "MPI_I?");
}

#define TEST(_func) cmocka_unit_test_setup_teardown(_func, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_counts),
        TEST(test_wraps),
        TEST(test_many_communicators),
        TEST(test_waits),
        TEST(test_without_waits),
        TEST(test_killed),
        TEST(test_changes_during_the_copy),
        TEST(test_any_bytes),
        TEST(test_other_files),
        TEST(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
