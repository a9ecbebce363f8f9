/*
 * Tests the .plans file (src/telemetry/plans.c). Readers must see
 * complete forecasts. Arbitrary file contents must not harm them.
 */
#include "config.h"
#include "base/rng.h"
#include "telemetry/plans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ID 0x77u
#define SEEDS 200

static char dir[64];
static mrail_plans_t got;

static int make_dir(void **state)
{
    snprintf(dir, sizeof(dir), MRAIL_TELE_DIR "/test-plans-XXXXXX");
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

static mrail_plans_file_t create(void)
{
    mrail_plans_file_t file;

    assert_int_equal(mrail_plans_create(&file, dir, ID, "job", 3), 0);
    return file;
}

static void read_one(const char *path, void *arg)
{
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
    *(mrail_page_status_t *)arg = mrail_plans_read_fd(fd, &got);
    close(fd);
}

static mrail_page_status_t read_back(void)
{
    mrail_page_status_t status = MRAIL_PAGE_GONE;

    assert_int_equal(
        mrail_tele_file_each(dir, MRAIL_TELE_PLANS, read_one, &status), 1);
    return status;
}

static void add_link(mrail_plans_comm_t *comm, unsigned number)
{
    const mrail_plans_link_t link = {.a = number,
                                     .capacity = 1e9,
                                     .unplanned = number,
                                     .planned = number / 2.0};

    mrail_plans_add(comm, &link);
}

/* Readers of other kinds of files ignore this one. A forecast can be read only
 * once it is complete. */
static void test_forecasts(void **state)
{
    mrail_plans_file_t file = create();
    mrail_plans_comm_t *comm = &file.plans->comms[2];

    assert_int_equal(mrail_tele_file_each(dir, MRAIL_TELE_PAGE, NULL, NULL), 0);
    assert_int_equal(mrail_tele_file_each(dir, MRAIL_TELE_CALLS, NULL, NULL),
                     0);
    mrail_plans_begin(comm);
    snprintf(comm->name, sizeof(comm->name), "comm\n");
    comm->size = 4;
    add_link(comm, 7);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_int_equal(got.comms[2].begun, 0); /* not complete yet */
    mrail_plans_end(comm);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_int_equal(got.pid, getpid());
    assert_int_equal(got.rank, 3);
    assert_string_equal(got.job, "job");
    assert_int_equal(got.comms[2].begun, 1);
    assert_string_equal(got.comms[2].name, "comm?");
    assert_int_equal(got.comms[2].num_links, 1);
    assert_int_equal(got.comms[2].links[0].a, 7);
    assert_true(got.comms[2].links[0].planned == 3.5);
    assert_int_equal(got.comms[0].begun, 0);
    mrail_plans_remove(&file);
    assert_null(file.plans);
    assert_int_equal(mrail_tele_file_each(dir, MRAIL_TELE_ALL, NULL, NULL), 0);
}

static void test_capacity(void **state)
{
    mrail_plans_file_t file = create();
    mrail_plans_comm_t *comm = &file.plans->comms[0];

    mrail_plans_begin(comm);
    for (unsigned i = 0; i < MRAIL_PLANS_LINKS + 3; ++i) {
        add_link(comm, i);
    }
    mrail_plans_end(comm);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_int_equal(got.comms[0].num_links, MRAIL_PLANS_LINKS);
    assert_int_equal(got.comms[0].more_links, 3);
    mrail_plans_remove(&file);
}

/* ---- slots ---- */

static void forecast(mrail_plans_comm_t *comm, const char *name,
                     uint64_t time_ns)
{
    mrail_plans_begin(comm);
    snprintf(comm->name, sizeof(comm->name), "%s", name);
    comm->time_ns = time_ns;
    comm->num_links = comm->more_links = 0;
    mrail_plans_end(comm);
}

/* A new communicator takes the slot of the oldest freed forecast. Until then,
 * freed forecasts are kept. */
static void test_reused_places(void **state)
{
    mrail_plans_file_t file = create();
    mrail_plans_comm_t *comms[MRAIL_PLANS_COMMS], *comm;

    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        comms[i] = mrail_plans_comm_add(&file);
        assert_ptr_equal(comms[i], &file.plans->comms[i]);
        forecast(comms[i], "old", 100 - i);
        forecast(comms[i], "old", 200 - i);
    }
    assert_null(mrail_plans_comm_add(&file));
    mrail_plans_comm_remove(&file, comms[2]);
    mrail_plans_comm_remove(&file, comms[5]);
    mrail_plans_comm_remove(&file, NULL);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_string_equal(got.comms[5].name, "old");
    assert_int_equal(mrail_plans_number(&got.comms[5]), 2);
    comm = mrail_plans_comm_add(&file);
    assert_ptr_equal(comm, comms[5]);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_int_equal(got.comms[5].begun, 0); /* it has no forecast yet */
    forecast(comm, "new", 300);
    assert_int_equal(read_back(), MRAIL_PAGE_ALIVE);
    assert_string_equal(got.comms[5].name, "new");
    assert_int_equal(mrail_plans_number(&got.comms[5]), 1);
    assert_true(got.comms[5].begun > 2); /* never a value that it had before */
    assert_string_equal(got.comms[2].name, "old");
    assert_ptr_equal(mrail_plans_comm_add(&file), comms[2]);
    assert_null(mrail_plans_comm_add(&file));
    mrail_plans_remove(&file);
    mrail_plans_comm_remove(&file, comms[0]); /* does nothing */
    assert_null(mrail_plans_comm_add(&file));
}

static void test_no_directory(void **state)
{
    mrail_plans_file_t file;

    assert_int_equal(mrail_plans_create(&file, "/nowhere", ID, NULL, 0),
                     -ENOENT);
    assert_null(file.plans);
    mrail_plans_remove(&file); /* does nothing */
}

/* ---- copies ---- */

static mrail_plans_t valid(void)
{
    mrail_plans_t plans = {.magic = MRAIL_PLANS_MAGIC,
                           .version = MRAIL_PLANS_VERSION,
                           .size = sizeof(plans)};

    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        plans.comms[i].begun = plans.comms[i].done = 5;
    }
    return plans;
}

static mrail_plans_counts_t counts(uint64_t begun, uint64_t done)
{
    mrail_plans_counts_t result;

    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        result.begun[i] = begun;
        result.done[i] = done;
    }
    return result;
}

static uint64_t begun_after(mrail_plans_counts_t before,
                            mrail_plans_counts_t after)
{
    got = valid();
    assert_int_equal(mrail_plans_check(&got, &before, &after),
                     MRAIL_PAGE_ALIVE);
    return got.comms[1].begun;
}

/* A forecast that changed during the copy is not valid. */
static void test_changes_during_a_copy(void **state)
{
    assert_int_equal(begun_after(counts(5, 5), counts(5, 5)), 5);
    assert_int_equal(begun_after(counts(5, 4), counts(5, 5)), 0);
    assert_int_equal(begun_after(counts(5, 5), counts(6, 5)), 0);
    assert_int_equal(begun_after(counts(4, 4), counts(5, 5)), 0);
}

static void test_invalid_numbers(void **state)
{
    const mrail_plans_counts_t same = counts(5, 5);

    got = valid();
    got.comms[0].num_links = UINT32_MAX;
    got.comms[0].links[0].planned = NAN;
    got.comms[0].links[1].unplanned = -1;
    got.comms[0].links[2].capacity = INFINITY;
    got.comms[0].links[3].a = 9;
    got.comms[0].earlier = 5;
    assert_int_equal(mrail_plans_check(&got, &same, &same), MRAIL_PAGE_ALIVE);
    assert_int_equal(got.comms[0].num_links, MRAIL_PLANS_LINKS - 3);
    assert_int_equal(mrail_plans_number(&got.comms[0]), 5);
    assert_int_equal(got.comms[0].links[0].a, 9);
}

static void test_other_files(void **state)
{
    const mrail_plans_counts_t same = counts(5, 5);
    int fds[2];

    got = valid();
    ++got.version;
    assert_int_equal(mrail_plans_check(&got, &same, &same), MRAIL_PAGE_OTHER);
    got = valid();
    ++got.size;
    assert_int_equal(mrail_plans_check(&got, &same, &same), MRAIL_PAGE_BROKEN);
    got = valid();
    ++got.magic;
    assert_int_equal(mrail_plans_check(&got, &same, &same), MRAIL_PAGE_BROKEN);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(mrail_plans_read_fd(fds[0], &got), MRAIL_PAGE_BROKEN);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(mrail_plans_read_fd(-1, &got), MRAIL_PAGE_GONE);
}

static void test_random_bytes(void **state)
{
    const mrail_plans_counts_t same = counts(5, 5);

    for (unsigned seed = 0; seed < SEEDS; ++seed) {
        const mrail_plans_t head = valid();
        unsigned char *bytes = (unsigned char *)&got;
        mrail_rng_t rng;

        mrail_rng_init(&rng, seed);
        for (size_t i = 0; i < sizeof(got); ++i) {
            bytes[i] = (unsigned char)mrail_rng_next(&rng);
        }
        got.magic = head.magic;
        got.version = head.version;
        got.size = head.size;
        assert_int_equal(mrail_plans_check(&got, &same, &same),
                         MRAIL_PAGE_ALIVE);
        for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
            assert_true(got.comms[i].num_links <= MRAIL_PLANS_LINKS);
            assert_non_null(
                memchr(got.comms[i].name, '\0', sizeof(got.comms[i].name)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forecasts),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_reused_places),
        cmocka_unit_test(test_no_directory),
        cmocka_unit_test(test_changes_during_a_copy),
        cmocka_unit_test(test_invalid_numbers),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_random_bytes),
    };

    return cmocka_run_group_tests_name("plans", tests, make_dir, remove_dir);
}
