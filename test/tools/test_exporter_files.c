/* Tests mrail exporter with arbitrary file contents, and its address
 * (src/tools/exporter_scrape.c and exporter_listen.c). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/rng.h"
#include "tools/exporter.h"
#include "tools/exporter_http.h"

#define PROCESSES 6u
#define SECOND 1000000000ull
#define NOW (1000 * SECOND)
#define SEEDS 40

/* ---- MPI calls ---- */

static void test_in_call(void **state)
{
    mrail_calls_t *calls = calloc(1, sizeof(*calls));
    mrail_calls_comm_t *comm = &calls->comms[3];

    assert_int_equal(exporter_in_call(calls, NOW), 0);
    comm->id = 1;
    comm->entered = 70;
    comm->left = 70;
    comm->first = 7;
    comm->records[69 % MRAIL_CALLS_RECORDS].entered = NOW - 5 * SECOND;
    assert_int_equal(exporter_in_call(calls, NOW), 0);
    comm->left = 69;
    assert_int_equal(exporter_in_call(calls, NOW), 5 * SECOND);
    calls->wait.count = 1;
    calls->wait.since = NOW - 3 * SECOND;
    assert_int_equal(exporter_in_call(calls, NOW), 5 * SECOND);
    calls->wait.since = NOW - 8 * SECOND;
    assert_int_equal(exporter_in_call(calls, NOW), 8 * SECOND);
    calls->wait.count = 2; /* the wait has ended */
    comm->id = 0;          /* the communicator was freed */
    assert_int_equal(exporter_in_call(calls, NOW), 0);
    free(calls);
}

/* ---- arbitrary bytes ---- */

/* Checks a line "NAME{LABEL="VALUE",...} NUMBER". */
static int is_sample(const char *line)
{
    line += strspn(line, "abcdefghijklmnopqrstuvwxyz_");
    if (*line == '{') {
        do {
            ++line;
            line += strspn(line, "abcdefghijklmnopqrstuvwxyz_");
            if ((*line++ != '=') || (*line++ != '"')) {
                return 0;
            }
            for (; *line != '"'; ++line) {
                line += (*line == '\\');
                if (!isprint((unsigned char)*line)) {
                    return 0;
                }
            }
            ++line;
        } while (*line == ',');
        if (*line++ != '}') {
            return 0;
        }
    }
    if (*line++ != ' ') {
        return 0;
    }
    line += strspn(line, "0123456789.");
    return *line == '\0';
}

static int line_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every line must be valid, and every sample must have its own series. */
static void check_text(char *text)
{
    char *lines[20000], *save = NULL;
    unsigned num = 0;

    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        if (*line == '#') {
            continue;
        }
        if (!is_sample(line)) {
            fail_msg("not a sample: %s", line);
        }
        *strrchr(line, ' ') = '\0';
        assert_true(num < MRAIL_ARRAY_SIZE(lines));
        lines[num++] = line;
    }
    qsort(lines, num, sizeof(*lines), line_order);
    for (unsigned i = 1; i < num; ++i) {
        if (strcmp(lines[i - 1], lines[i]) == 0) {
            fail_msg("twice: %s", lines[i]);
        }
    }
}

/* Writes a page whose content, except its header, is random. Returns its
 * descriptor. With a lock on it, the process counts as alive. */
static int write_random(const char *dir, unsigned number, uint64_t seed)
{
    static mrail_page_t page;
    unsigned char *bytes = (unsigned char *)&page;
    mrail_rng_t rng;
    char path[128];
    int fd;

    mrail_rng_init(&rng, seed);
    for (size_t i = 0; i < sizeof(page); ++i) {
        /* In every second round, all values are small, so that names and
         * numbers are sometimes equal. */
        bytes[i] = (unsigned char)(mrail_rng_next(&rng) >> 32);
        bytes[i] %= (seed % 2 == 0) ? 255 : 2;
    }
    memset(&page.head, 0, sizeof(page.head));
    page.head.magic = MRAIL_PAGE_MAGIC;
    page.head.version = MRAIL_PAGE_VERSION;
    page.head.size = sizeof(page);
    page.head.pid = number % 2;
    page.rank %= 2;
    snprintf(path, sizeof(path), "%s/mrail-telemetry.%u.%u.%x", dir,
             (unsigned)geteuid(), number % 2, number);
    fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &page, sizeof(page)), sizeof(page));
    assert_int_equal(flock(fd, LOCK_EX), 0);
    return fd;
}

static void remove_one(const char *path, void *arg)
{
    unlink(path);
}

static void test_any_bytes(void **state)
{
    char dir[] = "/dev/shm/test-exporter-XXXXXX";
    exporter_t exporter = {
        .dir = dir, .limits = {100, 100, UINT64_MAX}, .per_lane = 1};

    assert_non_null(mkdtemp(dir));
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        int fds[PROCESSES];
        char *text;
        size_t size;

        for (unsigned i = 0; i < PROCESSES; ++i) {
            fds[i] = write_random(dir, i, seed * PROCESSES + i);
        }
        close(fds[0]); /* one has ended */
        assert_int_equal(
            exporter_scrape(&exporter, EXPORTER_PLAIN, &text, &size), 0);
        assert_int_equal(strlen(text), size);
        check_text(text);
        free(text);
        for (unsigned i = 1; i < PROCESSES; ++i) {
            close(fds[i]);
        }
    }
    assert_int_equal(exporter.self.scrapes, SEEDS);
    mrail_page_each(dir, remove_one, NULL);
    rmdir(dir);
}

/* ---- the address ---- */

static void check_listen(const char *text, const char *want)
{
    exporter_listen_t address = {.text = "unchanged"};
    int ret = exporter_listen_parse(text, &address);

    assert_int_equal(ret, (want == NULL) ? -EINVAL : 0);
    assert_string_equal(address.text, (want == NULL) ? "unchanged" : want);
}

static void test_listen(void **state)
{
    check_listen("127.0.0.1:9467", "127.0.0.1:9467");
    check_listen("0.0.0.0:0", "0.0.0.0:0");
    check_listen("9467", "127.0.0.1:9467");
    check_listen("[::1]:65535", "[::1]:65535");
    check_listen("[::]:80", "[::]:80");
    check_listen("", NULL);
    check_listen(":", NULL);
    check_listen(":9467", NULL);
    check_listen("127.0.0.1", NULL);
    check_listen("127.0.0.1:", NULL);
    check_listen("127.0.0.1:65536", NULL);
    check_listen("127.0.0.1:-1", NULL);
    check_listen("127.0.0.1:http", NULL);
    check_listen("localhost:9467", NULL);
    check_listen("::1:9467", NULL);
    check_listen("[::1]", NULL);
    check_listen("[]:9467", NULL);
    check_listen("[127.0.0.1]:9467", NULL);
    check_listen("1111111111111111111111111111111111111111111111111111111111"
                 "1111111111:1",
                 NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_call),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_listen),
    };

    return cmocka_run_group_tests_name("exporter_files", tests, NULL, NULL);
}
