/*
 * Tests images of telemetry files (image.h): they have the contents of the file
 * with CLOCK_REALTIME times, readers accept them, times can be shifted, and
 * arbitrary bytes are checked. The images are read from files, because the
 * readers need them.
 */
#include "config.h"
#include "base/clock.h"
#include "base/rng.h"
#include "telemetry/calls.h"
#include "telemetry/follow.h"
#include "telemetry/image.h"
#include "telemetry/plans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define RECORDS 64u
#define SECOND ((int64_t)MRAIL_NS_PER_SEC)
#define SEEDS 3000

static char dir[64];
static mrail_image_t image;

static int make_dir(void **state)
{
    snprintf(dir, sizeof(dir), MRAIL_TELE_DIR "/test-image-XXXXXX");
    return (mkdtemp(dir) == NULL) ? -1 : 0;
}

static void remove_one(const char *name, void *arg)
{
    unlink(name);
}

static int remove_dir(void **state)
{
    free(image.data);
    image.data = NULL;
    mrail_tele_file_each(dir, MRAIL_TELE_ALL, remove_one, NULL);
    return rmdir(dir);
}

/* Returns an open file with the bytes of an image. */
static int image_file(const mrail_image_t *from)
{
    char path[96];
    int fd;

    snprintf(path, sizeof(path), "%s/image-XXXXXX", dir);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(write(fd, from->data, from->size), from->size);
    return fd;
}

static uint64_t clock_ns(void)
{
    return mrail_page_now() - mrail_clock_now();
}

/* Opens a file of the directory by its path. */
static int open_file(const char *path)
{
    struct stat st;
    int fd = mrail_tele_file_open(path, &st);

    assert_true(fd >= 0);
    return fd;
}

static void page_path(char path[MRAIL_TELE_PATH], mrail_tele_kind_t kind)
{
    const mrail_tele_name_t name = {
        .pid = (unsigned)getpid(), .host = -1, .id = 7, .kind = kind};
    char base[96];

    assert_int_equal(mrail_tele_name_write(base, sizeof(base), &name), 0);
    snprintf(path, MRAIL_TELE_PATH, "%s/%s", dir, base);
}

/* ---- pages ---- */

static mrail_page_file_t *create_page(unsigned num_records)
{
    mrail_page_file_t *file;
    mrail_ring_t ring;

    assert_int_equal(mrail_page_create(dir, 7, RECORDS, &file), 0);
    ring = mrail_page_ring(file);
    for (unsigned i = 0; i < num_records; ++i) {
        mrail_ring_write(&ring, 1000 + i, 2000 + i, 42,
                         mrail_ring_tail(100 + i, 1, 0, MRAIL_RING_PUT, 1));
    }
    snprintf(mrail_page_own(file)->job, 48, "a job");
    mrail_page_own(file)->clock_offset_ns = 12345;
    mrail_page_event(file, "an event");
    mrail_page_update(file);
    return file;
}

static mrail_page_status_t take_page(int with_ring)
{
    char path[MRAIL_TELE_PATH];
    mrail_page_status_t status;
    int fd;

    page_path(path, MRAIL_TELE_PAGE);
    fd = open_file(path);
    free(image.data);
    status = mrail_image_page(fd, clock_ns(), with_ring, &image);
    close(fd);
    return status;
}

static void check_records(int fd, unsigned first, unsigned count)
{
    mrail_ring_record_t records[2 * RECORDS];
    mrail_follow_t follow;

    assert_int_equal(mrail_follow_open_fd(&follow, fd), MRAIL_PAGE_ALIVE);
    assert_int_equal(mrail_follow_read(&follow, records, 2 * RECORDS), count);
    for (unsigned i = 0; i < count; ++i) {
        assert_int_equal(records[i].length, 100 + first + i);
        assert_int_equal(records[i].done_ns - records[i].post_ns, 1000);
        assert_true(records[i].post_ns > clock_ns() - SECOND);
    }
}

static void test_page(void **state)
{
    mrail_page_file_t *file = create_page(3);
    static mrail_page_t page;
    int fd;

    assert_int_equal(take_page(1), MRAIL_PAGE_ALIVE);
    assert_true(image.alive);
    assert_string_equal(image.job, "a job");
    assert_int_equal(mrail_image_check(MRAIL_TELE_PAGE, image.data, image.size),
                     MRAIL_PAGE_ALIVE);
    fd = image_file(&image);
    /* The image's lock is free. */
    assert_int_equal(mrail_page_read_fd(fd, &page), MRAIL_PAGE_ENDED);
    assert_string_equal(page.job, "a job");
    assert_int_equal(page.clock_offset_ns, 0);
    assert_int_equal(page.num_events, 1);
    assert_string_equal(page.events[0].text, "an event");
    check_records(fd, 0, 3);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    close(fd);
    mrail_page_remove(file);
}

/* A full ring keeps all of its valid records. */
static void test_full_ring(void **state)
{
    mrail_page_file_t *file = create_page(3 * RECORDS);
    int fd;

    assert_int_equal(take_page(1), MRAIL_PAGE_ALIVE);
    fd = image_file(&image);
    /* The writer may be overwriting the oldest record. */
    check_records(fd, 2 * RECORDS + 1, RECORDS - 1);
    close(fd);
    mrail_page_remove(file);
}

static void test_no_ring(void **state)
{
    mrail_page_file_t *file = create_page(3);
    mrail_follow_t follow;
    int fd;

    assert_int_equal(take_page(0), MRAIL_PAGE_ALIVE);
    assert_int_equal(image.size, sizeof(mrail_page_t));
    fd = image_file(&image);
    assert_int_equal(mrail_follow_open_fd(&follow, fd), MRAIL_PAGE_NO_RING);
    close(fd);
    mrail_page_remove(file);
}

static void test_shift_page(void **state)
{
    mrail_page_file_t *file = create_page(3);
    static mrail_page_t before, after;
    mrail_ring_header_t *header;
    uint64_t post_ns;

    assert_int_equal(take_page(1), MRAIL_PAGE_ALIVE);
    memcpy(&before, image.data, sizeof(before));
    header = (mrail_ring_header_t *)((char *)image.data + MRAIL_PAGE_RING_AT);
    post_ns = mrail_ring_words(header, 0)[0];
    mrail_image_shift(MRAIL_TELE_PAGE, image.data, image.size, -3600 * SECOND);
    memcpy(&after, image.data, sizeof(after));
    assert_int_equal(before.start_ns - after.start_ns, 3600 * SECOND);
    assert_int_equal(before.update_ns - after.update_ns, 3600 * SECOND);
    assert_int_equal(before.events[0].time_ns - after.events[0].time_ns,
                     3600 * SECOND);
    assert_int_equal(post_ns - mrail_ring_words(header, 0)[0], 3600 * SECOND);
    assert_int_equal(after.events[1].time_ns, 0);
    mrail_image_shift(MRAIL_TELE_PAGE, image.data, image.size, 3600 * SECOND);
    memcpy(&after, image.data, sizeof(after));
    assert_memory_equal(&before, &after, sizeof(after));
    mrail_page_remove(file);
}

/* Times stay within their range, so that viewers can compute with them. */
static void test_shift_limits(void **state)
{
    mrail_page_file_t *file = create_page(0);
    mrail_page_t *page;

    assert_int_equal(take_page(0), MRAIL_PAGE_ALIVE);
    page = image.data;
    mrail_image_shift(MRAIL_TELE_PAGE, page, image.size, INT64_MIN);
    assert_int_equal(page->start_ns, 1);
    page->start_ns = UINT64_MAX;
    mrail_image_shift(MRAIL_TELE_PAGE, page, image.size, INT64_MAX);
    assert_int_equal(page->start_ns, MRAIL_CALLS_MAX_NS);
    mrail_page_remove(file);
}

/* ---- calls ---- */

static mrail_page_status_t take_calls(void)
{
    char path[MRAIL_TELE_PATH];
    mrail_page_status_t status;
    int fd;

    page_path(path, MRAIL_TELE_CALLS);
    fd = open_file(path);
    free(image.data);
    status = mrail_image_calls(fd, clock_ns(), &image);
    close(fd);
    return status;
}

static void test_calls(void **state)
{
    mrail_calls_file_t file;
    static mrail_calls_t calls;
    mrail_calls_comm_t *comm;
    uint64_t begin_ns = mrail_page_now();
    int fd;

    assert_int_equal(mrail_calls_create(&file, dir, 7, "a job", 3, "program"),
                     0);
    comm = mrail_calls_comm_add(file.calls, 9, 4, 3);
    for (unsigned i = 0; i < 100; ++i) {
        mrail_calls_enter(comm, MRAIL_CALLS_BCAST, 0);
        mrail_calls_leave(comm);
    }
    mrail_calls_enter(comm, MRAIL_CALLS_BARRIER, -1);
    assert_int_equal(take_calls(), MRAIL_PAGE_ALIVE);
    assert_true(image.alive);
    assert_string_equal(image.job, "a job");
    assert_int_equal(
        mrail_image_check(MRAIL_TELE_CALLS, image.data, image.size),
        MRAIL_PAGE_ALIVE);
    mrail_image_shift(MRAIL_TELE_CALLS, image.data, image.size, 50 * SECOND);
    fd = image_file(&image);
    assert_int_equal(mrail_calls_read_fd(fd, &calls), MRAIL_PAGE_ENDED);
    close(fd);
    assert_int_equal(calls.rank, 3);
    assert_int_equal(calls.comms[0].entered, 101);
    assert_int_equal(calls.comms[0].left, 100);
    assert_int_equal(calls.comms[0].counts[MRAIL_CALLS_BCAST], 100);
    for (uint64_t n = calls.comms[0].first; n < 101; ++n) {
        const mrail_calls_record_t *record =
            mrail_calls_record(&calls.comms[0], n);

        /* The length of a tick is measured, so the time is not exact. */
        assert_true(record->entered > begin_ns + 49 * SECOND);
        assert_true(record->entered < mrail_page_now() + 51 * SECOND);
    }
    assert_int_equal(mrail_calls_record(&calls.comms[0], 100)->left, 0);
    mrail_calls_remove(&file);
}

/* Records that were overwritten during the copy are left out. */
static void test_first_record(void **state)
{
    mrail_calls_file_t file;
    static mrail_calls_t calls;
    mrail_calls_comm_t *comm;
    int fd;

    assert_int_equal(mrail_calls_create(&file, dir, 7, NULL, 0, "program"), 0);
    comm = mrail_calls_comm_add(file.calls, 9, 1, 0);
    for (unsigned i = 0; i < 100; ++i) {
        mrail_calls_enter(comm, MRAIL_CALLS_BCAST, 0);
        mrail_calls_leave(comm);
    }
    assert_int_equal(take_calls(), MRAIL_PAGE_ALIVE);
    ((mrail_calls_t *)image.data)->comms[0].first = 90;
    fd = image_file(&image);
    assert_int_equal(mrail_calls_read_fd(fd, &calls), MRAIL_PAGE_ENDED);
    assert_int_equal(calls.comms[0].first, 90);
    assert_null(mrail_calls_record(&calls.comms[0], 89));
    close(fd);
    mrail_calls_remove(&file);
}

/* ---- other files ---- */

static void test_other_files(void **state)
{
    mrail_page_file_t *file = create_page(3);
    mrail_page_head_t *head;
    char text[] = "this is neither";

    assert_int_equal(take_page(1), MRAIL_PAGE_ALIVE);
    for (size_t size = 0; size < image.size; size += 997) {
        assert_int_equal(mrail_image_check(MRAIL_TELE_PAGE, image.data, size),
                         MRAIL_PAGE_BROKEN);
    }
    head = image.data;
    head->version++;
    assert_int_equal(mrail_image_check(MRAIL_TELE_PAGE, image.data, image.size),
                     MRAIL_PAGE_OTHER);
    head->version--;
    head->ring_size = 0;
    assert_int_equal(mrail_image_check(MRAIL_TELE_PAGE, image.data, image.size),
                     MRAIL_PAGE_BROKEN);
    assert_int_equal(mrail_image_check(MRAIL_TELE_CALLS, text, sizeof(text)),
                     MRAIL_PAGE_BROKEN);
    mrail_page_remove(file);
}

/* Any bytes that pass the check can be shifted in time, and then read. */
static void test_any_bytes(void **state)
{
    mrail_page_file_t *file = create_page(40);
    unsigned accepted = 0;
    static mrail_page_t page;
    mrail_image_t copy;

    assert_int_equal(take_page(1), MRAIL_PAGE_ALIVE);
    copy.data = malloc(image.size);
    copy.size = image.size;
    assert_non_null(copy.data);
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        mrail_rng_t rng;
        int fd;

        mrail_rng_init(&rng, seed);
        memcpy(copy.data, image.data, image.size);
        for (unsigned n = mrail_rng_below(&rng, 40); n > 0; --n) {
            size_t at = (mrail_rng_below(&rng, 2) == 0)
                            ? mrail_rng_below(&rng, (uint32_t)image.size)
                            : MRAIL_PAGE_RING_AT + mrail_rng_below(&rng, 32);

            ((uint8_t *)copy.data)[at] = (uint8_t)mrail_rng_next(&rng);
        }
        if (mrail_image_check(MRAIL_TELE_PAGE, copy.data, copy.size) !=
            MRAIL_PAGE_ALIVE) {
            continue;
        }
        ++accepted;
        mrail_image_shift(MRAIL_TELE_PAGE, copy.data, copy.size,
                          (int64_t)mrail_rng_next(&rng));
        if (seed % 100 == 0) {
            fd = image_file(&copy);
            assert_int_equal(mrail_page_read_fd(fd, &page), MRAIL_PAGE_ENDED);
            close(fd);
        }
    }
    assert_true(accepted > SEEDS / 100);
    free(copy.data);
    mrail_page_remove(file);
}

/* ---- names ---- */

static void test_names(void **state)
{
    static const char *const bad[] = {"",
                                      "mrail-telemetry.",
                                      "mrail-telemetry.0.1",
                                      "mrail-telemetry.0.1.",
                                      "mrail-telemetry.0..1",
                                      "mrail-telemetry.-1.1.1",
                                      "mrail-telemetry.0.1.g",
                                      "mrail-telemetry.0.4294967296.1",
                                      "mrail-telemetry.0.1.10000000000000000",
                                      "mrail-telemetry.0.1@.1",
                                      "mrail-telemetry.0.1@4294967296.1",
                                      "mrail-telemetry.0.1.1.call",
                                      "mrail-telemetry.0.1.1.callss",
                                      "mrail-telemetry.0.1.1/..",
                                      "mrail-telemetry.0.1.1.calls/",
                                      "xmrail-telemetry.0.1.1",
                                      "mrail-telemetry.0.1.1 "};
    mrail_tele_name_t name = {.pid = 5};
    char text[96];

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        if (mrail_tele_name_parse(bad[i], &name) != -EINVAL) {
            fail_msg("'%s' is accepted", bad[i]);
        }
    }
    assert_int_equal(name.pid, 5);
    assert_int_equal(
        mrail_tele_name_parse("mrail-telemetry.12.345@6.Ff.calls", &name), 0);
    assert_int_equal(name.uid, 12);
    assert_int_equal(name.pid, 345);
    assert_int_equal(name.host, 6);
    assert_int_equal(name.id, 255);
    assert_int_equal(name.kind, MRAIL_TELE_CALLS);
    name.kind = MRAIL_TELE_PLANS;
    assert_int_equal(mrail_tele_name_write(text, sizeof(text), &name), 0);
    assert_int_equal(mrail_tele_name_parse(text, &name), 0);
    assert_int_equal(name.kind, MRAIL_TELE_PLANS);
    assert_int_equal(mrail_tele_name_write(text, sizeof(text), &name), 0);
    assert_int_equal(mrail_tele_file_host(text), 6);
    assert_int_equal(mrail_tele_name_write(text, 20, &name), -ENAMETOOLONG);
    assert_int_equal(mrail_tele_file_host("/dir@3/mrail-telemetry.0.1.2"), -1);
    assert_int_equal(mrail_tele_file_host("elsewhere"), -1);
}

/* ---- forecasts ---- */

static void test_plans(void **state)
{
    const mrail_plans_link_t link = {.a = 3, .capacity = 1e9, .planned = 5};
    char path[MRAIL_TELE_PATH];
    mrail_plans_file_t file;
    mrail_plans_t *plans;
    int fd;

    assert_int_equal(mrail_plans_create(&file, dir, 7, "a job", 3), 0);
    mrail_plans_begin(&file.plans->comms[1]);
    file.plans->comms[1].time_ns = 100 * SECOND;
    mrail_plans_add(&file.plans->comms[1], &link);
    mrail_plans_end(&file.plans->comms[1]);
    page_path(path, MRAIL_TELE_PLANS);
    fd = open_file(path);
    free(image.data);
    assert_int_equal(mrail_image_plans(fd, &image), MRAIL_PAGE_ALIVE);
    close(fd);
    assert_string_equal(image.job, "a job");
    plans = image.data;
    assert_int_equal(
        mrail_image_check(MRAIL_TELE_PLANS, image.data, image.size),
        MRAIL_PAGE_ALIVE);
    mrail_image_shift(MRAIL_TELE_PLANS, image.data, image.size, 50 * SECOND);
    assert_int_equal(plans->comms[1].time_ns, 150 * SECOND);
    assert_int_equal(plans->comms[0].time_ns, 0);
    assert_int_equal(plans->comms[1].num_links, 1);
    assert_int_equal(plans->comms[1].links[0].a, 3);
    for (size_t size = 0; size < image.size; size += 97) {
        assert_int_equal(mrail_image_check(MRAIL_TELE_PLANS, image.data, size),
                         MRAIL_PAGE_BROKEN);
    }
    ++plans->version;
    assert_int_equal(
        mrail_image_check(MRAIL_TELE_PLANS, image.data, image.size),
        MRAIL_PAGE_OTHER);
    mrail_plans_remove(&file);
}

#define TEST(_test) cmocka_unit_test_setup_teardown(_test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_page),         TEST(test_full_ring),    TEST(test_no_ring),
        TEST(test_shift_page),   TEST(test_shift_limits), TEST(test_calls),
        TEST(test_first_record), TEST(test_other_files),  TEST(test_any_bytes),
        TEST(test_names),        TEST(test_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
