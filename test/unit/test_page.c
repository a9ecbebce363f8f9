/*
 * Tests the telemetry page. Readers must obtain consistent copies, both during
 * writes and after the process has been killed. Any other file in the directory
 * must be recognised, and must harm neither readers nor the writer.
 */
#include "config.h"
#include "base/rng.h"
#include "base/clock.h"
#include "telemetry/follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX 0x1234u
#define RECORDS 64u
#define COPIES 600
#define SEEDS 300

static char dir[64];
static char path[128];
static mrail_page_t got;

static int make_dir(void **state)
{
    snprintf(dir, sizeof(dir), MRAIL_TELE_DIR "/test-page-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/mrail-telemetry.%u.%d.%016x", dir,
             (unsigned)geteuid(), (int)getpid(), SUFFIX);
    return 0;
}

static void remove_one(const char *name, void *arg)
{
    unlink(name);
}

static int remove_dir(void **state)
{
    mrail_page_each(dir, remove_one, NULL);
    return rmdir(dir);
}

static mrail_page_file_t *create(void)
{
    mrail_page_file_t *file;

    assert_int_equal(mrail_page_create(dir, SUFFIX, RECORDS, &file), 0);
    return file;
}

static int count(void)
{
    return mrail_page_each(dir, NULL, NULL);
}

static void test_written_and_read(void **state)
{
    mrail_page_file_t *file = create();
    mrail_page_t *page = mrail_page_own(file);
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0400);
    assert_int_equal(st.st_size, mrail_page_file_size(RECORDS));
    page->rank = 5;
    page->num_lanes = 1;
    page->lanes[0].bytes = 77;
    page->lanes[0].rail = 3;
    page->lanes[0].moves = UINT16_MAX;
    snprintf(page->lanes[0].state, sizeof(page->lanes[0].state), "suspect");
    mrail_page_update(file);
    mrail_page_event(file, "%s: %s", "soft0", "port error");
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_ALIVE);
    assert_int_equal(got.head.pid, getpid());
    assert_int_equal(got.rank, 5);
    assert_int_equal(got.lanes[0].bytes, 77);
    assert_int_equal(got.lanes[0].rail, 3);
    assert_int_equal(got.lanes[0].moves, UINT16_MAX);
    assert_string_equal(got.lanes[0].state, "suspect");
    assert_int_equal(got.num_events, 1);
    assert_string_equal(got.events[0].text, "soft0: port error");
    assert_true(got.events[0].time_ns >= got.start_ns);
    mrail_page_remove(file);
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_GONE);
    assert_int_equal(count(), 0);
}

static void test_events_wrap(void **state)
{
    mrail_page_file_t *file = create();
    char text[32];

    for (unsigned i = 0; i < MRAIL_PAGE_EVENTS + 100; ++i) {
        mrail_page_event(file, "event %u", i);
    }
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_ALIVE);
    assert_int_equal(mrail_page_first_event(&got), 100);
    for (uint64_t n = 100; n < got.num_events; ++n) {
        snprintf(text, sizeof(text), "event %u", (unsigned)n);
        assert_string_equal(got.events[n % MRAIL_PAGE_EVENTS].text, text);
    }
    mrail_page_event(NULL, "nobody listens");
    mrail_page_remove(file);
}

static void test_text(void **state)
{
    mrail_page_file_t *file = create();
    char text[400];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    mrail_page_event(file, "%s", text);
    mrail_page_event(file, "a\033[2Jb\xff");
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_ALIVE);
    assert_int_equal(strlen(got.events[0].text),
                     sizeof(got.events[0].text) - 1);
    assert_string_equal(got.events[1].text, "a?[2Jb?");
    mrail_page_remove(file);
}

/* ---- processes ---- */

/* Starts a child that creates a page, updates it `writes` times (0 means
 * forever), and waits. */
static pid_t child(unsigned writes, char *name, size_t size)
{
    int ready[2];
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        mrail_page_file_t *file;
        mrail_page_t *page;

        if (mrail_page_create(dir, 1, RECORDS, &file) != 0) {
            _exit(1);
        }
        page = mrail_page_own(file);
        page->num_lanes = MRAIL_PAGE_LANES;
        for (uint64_t k = 1; (writes == 0) || (k <= writes); ++k) {
            for (unsigned i = 0; i < MRAIL_PAGE_LANES; ++i) {
                page->lanes[i].bytes = page->lanes[i].outstanding = k;
            }
            page->counters[0].value = k;
            mrail_page_update(file);
            mrail_page_event(file, "write %llu", (unsigned long long)k);
            if (k == 1) {
                (void)!write(ready[1], &byte, 1);
            }
            if (k % 8 == 0) {
                usleep(20);
            }
        }
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    snprintf(name, size, "%s/mrail-telemetry.%u.%d.%016x", dir,
             (unsigned)geteuid(), (int)pid, 1);
    return pid;
}

static void kill_child(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_killed(void **state)
{
    char name[128];
    pid_t pid = child(1, name, sizeof(name));

    assert_int_equal(mrail_page_read(name, &got), MRAIL_PAGE_ALIVE);
    kill_child(pid);
    assert_int_equal(mrail_page_read(name, &got), MRAIL_PAGE_ENDED);
    assert_int_equal(got.head.pid, pid);
    assert_string_equal(got.events[0].text, "write 1");
}

/* A process exits, but its forked child continues to run. The child does not
 * use mrail, so it must not keep the page alive. */
static void test_child_of_the_ended(void **state)
{
    char name[128], byte = 0;
    int ready[2], stay[2];
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(stay), 0);
    pid = fork();
    if (pid == 0) {
        mrail_page_file_t *file;

        if (mrail_page_create(dir, 1, RECORDS, &file) != 0) {
            _exit(1);
        }
        if (fork() == 0) {
            close(stay[1]);
            (void)!write(ready[1], &byte, 1);
            (void)!read(stay[0], &byte, 1); /* waits until the test ends */
            /* This has no effect, because the file belongs to the parent. */
            mrail_page_remove(file);
            (void)!write(ready[1], &byte, 1);
            _exit(0);
        }
        (void)!read(stay[0], &byte, 1);
        _exit(0);
    }
    snprintf(name, sizeof(name), "%s/mrail-telemetry.%u.%d.%016x", dir,
             (unsigned)geteuid(), (int)pid, 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(mrail_page_read(name, &got), MRAIL_PAGE_ALIVE);
    kill_child(pid);
    assert_int_equal(mrail_page_read(name, &got), MRAIL_PAGE_ENDED);
    close(stay[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(mrail_page_read(name, &got), MRAIL_PAGE_ENDED);
    close(stay[0]);
    close(ready[0]);
    close(ready[1]);
}

/* A copy that mixed two updates would have different values in its lanes. */
static void test_copies_hold_together(void **state)
{
    char name[128], text[32];
    pid_t pid = child(0, name, sizeof(name));
    uint64_t last = 0, changes = 0, torn = 0, copies;
    mrail_ns_t end_ns = mrail_clock_now() + 30 * MRAIL_NS_PER_SEC;

    /* On a busy machine, the writer may have to wait for a core. */
    for (copies = 0;
         (copies < COPIES) || ((changes <= 10) && (mrail_clock_now() < end_ns));
         ++copies) {
        uint64_t k;

        assert_int_equal(mrail_page_read(name, &got), MRAIL_PAGE_ALIVE);
        k = got.counters[0].value;
        if (got.head.begun != got.head.done) {
            ++torn; /* every attempt overlapped with a write */
            continue;
        }
        for (unsigned lane = 0; lane < MRAIL_PAGE_LANES; ++lane) {
            assert_int_equal(got.lanes[lane].bytes, k);
            assert_int_equal(got.lanes[lane].outstanding, k);
        }
        assert_true((got.num_events == k) || (got.num_events + 1 == k));
        snprintf(text, sizeof(text), "write %u", (unsigned)got.num_events);
        assert_string_equal(
            got.events[(got.num_events - 1) % MRAIL_PAGE_EVENTS].text, text);
        changes += (k != last);
        last = k;
    }
    kill_child(pid);
    assert_true(changes > 10);
    assert_true(torn < copies / 20);
}

static void test_clean(void **state)
{
    char alive[128], ended[128];
    mrail_page_file_t *file = create();
    pid_t pid = child(1, ended, sizeof(ended));
    pid_t other;

    kill_child(pid);
    other = child(1, alive, sizeof(alive));
    /* A new file is kept, because its process may still be starting. */
    assert_int_equal(mrail_tele_file_clean(dir, MRAIL_TELE_KEEP_S), 0);
    assert_int_equal(count(), 3);
    assert_int_equal(mrail_tele_file_clean(dir, 0), 1);
    assert_int_equal(access(ended, F_OK), -1);
    assert_int_equal(access(alive, F_OK), 0);
    assert_int_equal(access(path, F_OK), 0);
    kill_child(other);
    assert_int_equal(mrail_tele_file_clean(dir, 0), 1);
    mrail_page_remove(file);
    assert_int_equal(mrail_tele_file_clean("/nonexistent", 0), -ENOENT);
}

/* Writes the name of a file of any kind of a process. */
static void name_of(char *name, size_t size, unsigned pid, unsigned id,
                    const char *suffix)
{
    snprintf(name, size, "%s/mrail-telemetry.%u.%u.%016x%s", dir,
             (unsigned)geteuid(), pid, id, suffix);
}

/* Creates a file that no process holds, last changed `age_s` ago. */
static void put_dead(const char *name, long age_s)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - age_s}};
    int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    times[1] = times[0];
    assert_true(fd >= 0);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static int exists(const char *name)
{
    return access(name, F_OK) == 0;
}

/* The file of the MPI calls is written through a mapping, so it has the time of
 * MPI_Init. It must stay for as long as the page, which says when the process
 * was last alive. */
static void test_clean_keeps_processes(void **state)
{
    char page[128], calls[128], before[128], after[128];
    pid_t pid = child(1, page, sizeof(page));

    kill_child(pid);
    name_of(calls, sizeof(calls), (unsigned)pid, 0, ".calls");
    put_dead(calls, 2 * MRAIL_TELE_KEEP_S);
    assert_int_equal(mrail_tele_file_clean(dir, MRAIL_TELE_KEEP_S), 0);
    assert_true(exists(calls));
    /* other processes, whose numbers begin with the same digits */
    name_of(before, sizeof(before), (unsigned)pid / 10, 0, ".calls");
    name_of(after, sizeof(after), (unsigned)pid * 10, 0, ".calls");
    put_dead(before, 2 * MRAIL_TELE_KEEP_S);
    put_dead(after, 2 * MRAIL_TELE_KEEP_S);
    assert_int_equal(mrail_tele_file_clean(dir, MRAIL_TELE_KEEP_S), 2);
    assert_true(exists(page) && exists(calls));
    assert_int_equal(chmod(page, 0600), 0);
    put_dead(page, 2 * MRAIL_TELE_KEEP_S);
    assert_int_equal(mrail_tele_file_clean(dir, MRAIL_TELE_KEEP_S), 2);
    assert_false(exists(page) || exists(calls));
}

/* A process that crashes repeatedly must not fill the file system. The oldest
 * process is removed first, with all its files. */
static void test_keeps_few(void **state)
{
    mrail_page_file_t *file = create();
    char name[128], calls[128];

    for (unsigned pid = 1; pid < MRAIL_TELE_KEEP; ++pid) {
        name_of(name, sizeof(name), pid, 0, "");
        put_dead(name, pid);
    }
    name_of(calls, sizeof(calls), MRAIL_TELE_KEEP - 1, 1, ".calls");
    put_dead(calls, MRAIL_TELE_KEEP);
    mrail_page_remove(file);
    file = create();
    assert_true(exists(name) && exists(calls)); /* exactly MRAIL_TELE_KEEP */
    name_of(name, sizeof(name), MRAIL_TELE_KEEP, 0, "");
    put_dead(name, 0);
    mrail_page_remove(file);
    file = create();
    assert_true(exists(name));
    assert_false(exists(calls));
    assert_int_equal(count(), MRAIL_TELE_KEEP);
    assert_true(exists(path));
    mrail_page_remove(file);
}

/* The files of running processes do not count, however many there are, nor do
 * the files of other users, who can choose any name. */
static void test_counts_own_and_dead(void **state)
{
    char held[128], name[128], ended[128];
    mrail_page_file_t *file;
    unsigned other = 0;
    int fd;

    name_of(held, sizeof(held), 1, 0, "");
    put_dead(held, 0);
    fd = open(held, O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    for (unsigned id = 1; id <= MRAIL_TELE_KEEP; ++id) {
        name_of(name, sizeof(name), 1, id, "");
        assert_int_equal(link(held, name), 0);
    }
    if (geteuid() == 0) {
        name_of(ended, sizeof(ended), 2, 0, "");
        put_dead(ended, 0);
        assert_int_equal(chown(ended, 65534, 65534), 0);
        for (; other < MRAIL_TELE_KEEP; ++other) {
            name_of(name, sizeof(name), 2, other + 1, "");
            assert_int_equal(link(ended, name), 0);
        }
        ++other;
    } else {
        print_message("only root can create files of other users\n");
    }
    kill_child(child(1, ended, sizeof(ended)));
    file = create();
    assert_true(exists(ended));
    assert_int_equal(count(), MRAIL_TELE_KEEP + 1 + other + 2);
    close(fd);
    mrail_page_remove(file);
}

/* ---- other files ---- */

static void put_file(const void *data, size_t size)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    close(fd);
}

/* Writes a complete page to a file that belongs to no process. */
static void put_whole(mrail_page_t *page)
{
    mrail_page_file_t *file = create();

    *page = *mrail_page_own(file);
    page->head.ring_size = 0;
    mrail_page_remove(file);
    put_file(page, sizeof(*page));
}

static void test_truncated(void **state)
{
    static mrail_page_t page;
    const size_t sizes[] = {0,
                            1,
                            sizeof(mrail_page_head_t) - 1,
                            sizeof(mrail_page_head_t),
                            offsetof(mrail_page_t, events),
                            sizeof(page) - 1};

    put_whole(&page);
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_ENDED);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(sizes); ++i) {
        put_file(&page, sizes[i]);
        assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_BROKEN);
    }
    assert_int_equal(truncate(path, sizeof(page) + 1), 0);
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_BROKEN);
    /* the page is complete, but the ring is not */
    page.head.ring_size = mrail_ring_size(RECORDS);
    put_file(&page, sizeof(page));
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_BROKEN);
    assert_int_equal(truncate(path, mrail_page_file_size(RECORDS)), 0);
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_ENDED);
    page.head.ring_size = UINT64_MAX;
    put_file(&page, sizeof(page));
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_BROKEN);
}

static void test_other_versions(void **state)
{
    static mrail_page_t page;

    put_whole(&page);
    ++page.head.version;
    put_file(&page, sizeof(page));
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_OTHER);
    /* The file is shorter than a page. */
    put_file(&page, sizeof(page) / 2);
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_OTHER);
    --page.head.version;
    ++page.head.size;
    put_file(&page, sizeof(page));
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_BROKEN);
    --page.head.size;
    ++page.head.magic;
    put_file(&page, sizeof(page));
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_BROKEN);
}

static void test_no_file(void **state)
{
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_GONE);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_GONE);
    assert_int_equal(mrail_tele_file_clean(dir, 0), 0);
    unlink(path);
    /* A FIFO must not block the reader until a writer opens it. */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_BROKEN);
    assert_int_equal(mrail_tele_file_clean(dir, 0), 0);
}

static void test_foreign(void **state)
{
    static mrail_page_t page;
    int status;
    pid_t pid;

    if (geteuid() != 0) {
        print_message("only root can create files of other users\n");
        skip();
    }
    put_whole(&page);
    chmod(dir, 0755);
    pid = fork();
    if (pid == 0) {
        if (seteuid(65534) != 0) {
            _exit(100);
        }
        _exit((int)mrail_page_read(path, &got));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), MRAIL_PAGE_FOREIGN);
}

/* When a page holds random bytes, numbers must stay in range and text must
 * contain no control characters. */
static void test_any_bytes(void **state)
{
    static mrail_page_t page;
    uint8_t *bytes = (uint8_t *)&page;
    mrail_rng_t rng;

    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        mrail_rng_init(&rng, seed);
        for (size_t i = sizeof(page.head); i < sizeof(page); ++i) {
            bytes[i] = (uint8_t)mrail_rng_next(&rng);
        }
        page.head = (mrail_page_head_t){.magic = MRAIL_PAGE_MAGIC,
                                        .version = MRAIL_PAGE_VERSION,
                                        .size = sizeof(page),
                                        .begun = seed & 1};
        put_file(&page, sizeof(page));
        assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_ENDED);
        assert_true(got.num_rails <= MRAIL_PAGE_RAILS);
        assert_true(got.num_lanes <= MRAIL_PAGE_LANES);
        assert_true(got.num_counters <= MRAIL_PAGE_COUNTERS);
        for (unsigned i = 0; i < MRAIL_PAGE_EVENTS; ++i) {
            const char *text = got.events[i].text;

            assert_true(strnlen(text, sizeof(got.events[i].text)) <
                        sizeof(got.events[i].text));
            for (; *text != '\0'; ++text) {
                assert_true((*text >= ' ') && (*text <= '~'));
            }
        }
        for (unsigned i = 0; i < MRAIL_PAGE_LANES; ++i) {
            assert_true(got.lanes[i].rail < MRAIL_PAGE_RAILS);
        }
    }
}

/* ---- the ring ---- */

/* Truncates a page. The file's mode permits that only to root. */
static void cut(off_t size)
{
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, size), 0);
}

/* Runs in a process without privileges. Returns 0 if the process cannot
 * truncate its own page. If it could, its next record would kill it. */
static int try_to_truncate(void)
{
    mrail_page_file_t *file;
    int ret = 1;

    if ((geteuid() == 0) && (seteuid(65534) != 0)) {
        return 2;
    }
    if (mrail_page_create(dir, 1, RECORDS, &file) != 0) {
        return 3;
    }
    snprintf(path, sizeof(path), "%s/mrail-telemetry.%u.%d.%016x", dir,
             (unsigned)geteuid(), (int)getpid(), 1);
    if (access(path, F_OK) == 0) {
        ret = (truncate(path, 0) == 0) || (errno != EACCES) ||
              (open(path, O_WRONLY | O_CLOEXEC) >= 0);
    }
    mrail_page_remove(file);
    return ret;
}

static void test_not_truncated_by_mistake(void **state)
{
    int status;
    pid_t pid;

    assert_int_equal(chmod(dir, 0777), 0);
    pid = fork();
    if (pid == 0) {
        _exit(try_to_truncate());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void write_record(mrail_ring_t *ring, uint64_t n)
{
    mrail_ring_write(ring, n, n + 5, 7,
                     mrail_ring_tail((uint32_t)n, 1, 2, MRAIL_RING_PUT, 1));
}

static void test_ring_is_followed(void **state)
{
    mrail_page_file_t *file = create();
    mrail_ring_t ring = mrail_page_ring(file);
    mrail_ring_record_t records[RECORDS];
    mrail_follow_t follow, late;

    assert_int_equal(mrail_follow_open(&follow, path), MRAIL_PAGE_ALIVE);
    assert_int_equal(mrail_follow_read(&follow, records, RECORDS), 0);
    for (uint64_t n = 0; n < 10; ++n) {
        write_record(&ring, n);
    }
    assert_int_equal(mrail_follow_open(&late, path), MRAIL_PAGE_ALIVE);
    assert_int_equal(mrail_follow_skip(&late), 0);
    assert_int_equal(mrail_follow_read(&late, records, RECORDS), 0);
    assert_int_equal(mrail_follow_read(&follow, records, 4), 4);
    assert_int_equal(records[3].post_ns, 3);
    assert_int_equal(mrail_follow_read(&follow, records, RECORDS), 6);
    assert_int_equal(records[5].done_ns, 14);
    assert_int_equal(records[5].peer, 7);
    assert_int_equal(records[5].length, 9);
    assert_int_equal(records[5].lane, 1);
    assert_int_equal(records[5].rail, 2);
    assert_true(mrail_follow_is_alive(&follow));
    /* The last records remain after the file is removed. */
    write_record(&ring, 10);
    mrail_page_remove(file);
    assert_false(mrail_follow_is_alive(&follow));
    assert_int_equal(mrail_follow_read(&follow, records, RECORDS), 1);
    assert_int_equal(records[0].post_ns, 10);
    assert_int_equal(mrail_follow_read(&late, records, RECORDS), 1);
    mrail_follow_close(&follow);
    mrail_follow_close(&late);
    assert_int_equal(mrail_follow_open(&follow, path), MRAIL_PAGE_GONE);
}

/* A reader requests records for as long as it has the file open. */
static void test_records_are_requested(void **state)
{
    mrail_page_file_t *file = create();
    mrail_follow_t one, other;

    assert_int_equal(mrail_follow_open(&one, path), MRAIL_PAGE_ALIVE);
    assert_int_equal(mrail_follow_open(&other, path), MRAIL_PAGE_ALIVE);
    assert_false(mrail_page_is_followed(file));
    mrail_follow_request(&one);
    mrail_follow_request(&other);
    assert_true(mrail_page_is_followed(file));
    assert_true(mrail_follow_is_alive(&one));
    mrail_follow_close(&one);
    assert_true(mrail_page_is_followed(file));
    mrail_follow_close(&other);
    assert_false(mrail_page_is_followed(file));
    mrail_page_remove(file);
}

static void test_no_ring(void **state)
{
    mrail_page_file_t *file;
    mrail_follow_t follow;
    mrail_ring_t ring;

    assert_int_equal(mrail_page_create(dir, SUFFIX, 0, &file), 0);
    ring = mrail_page_ring(file);
    write_record(&ring, 0); /* this must have no effect */
    assert_int_equal(ring.head, 0);
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_ALIVE);
    assert_int_equal(mrail_follow_open(&follow, path), MRAIL_PAGE_NO_RING);
    mrail_page_remove(file);
}

/* The ring is still in its file after an update of the page, and the file stays
 * valid while a reader follows it. If the file becomes shorter, reading must
 * end. */
static void test_ring_that_shrinks(void **state)
{
    static mrail_page_t page;
    mrail_page_file_t *file = create();
    mrail_ring_t ring = mrail_page_ring(file);
    mrail_ring_record_t record;
    mrail_follow_t follow;

    write_record(&ring, 0);
    mrail_page_update(file);
    assert_int_equal(mrail_follow_open(&follow, path), MRAIL_PAGE_ALIVE);
    assert_int_equal(mrail_follow_read(&follow, &record, 1), 1);
    write_record(&ring, 1);
    cut(MRAIL_PAGE_RING_AT);
    assert_int_equal(mrail_follow_read(&follow, &record, 1), -EINVAL);
    mrail_follow_close(&follow);
    page = *mrail_page_own(file);
    mrail_page_remove(file);
    /* zeros instead of a ring */
    put_file(&page, sizeof(page));
    assert_int_equal(truncate(path, mrail_page_file_size(RECORDS)), 0);
    assert_int_equal(mrail_follow_open(&follow, path), MRAIL_PAGE_BROKEN);
}

/* A forked child has the same addresses, but writes to its own memory. */
static void test_ring_of_a_child(void **state)
{
    mrail_page_file_t *file = create();
    mrail_ring_t ring = mrail_page_ring(file);
    mrail_ring_record_t record;
    mrail_follow_t follow;
    pid_t pid;
    int status;

    pid = fork();
    if (pid == 0) {
        write_record(&ring, 100);
        mrail_page_remove(file);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(mrail_follow_open(&follow, path), MRAIL_PAGE_ALIVE);
    assert_int_equal(mrail_follow_read(&follow, &record, 1), 0);
    write_record(&ring, 3);
    assert_int_equal(mrail_follow_read(&follow, &record, 1), 1);
    assert_int_equal(record.post_ns, 3);
    mrail_follow_close(&follow);
    mrail_page_remove(file);
}

/* ---- a full file system, and a truncated file ---- */

static void test_no_space(void **state)
{
    struct rlimit before, little;
    mrail_page_file_t *file = NULL;
    int ret;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = before;
    little.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    ret = mrail_page_create(dir, SUFFIX, RECORDS, &file);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(ret, -EFBIG);
    assert_null(file);
    assert_int_equal(count(), 0);
    assert_int_equal(mrail_page_create("/nonexistent", SUFFIX, RECORDS, &file),
                     -ENOENT);
}

static void test_cut_while_written(void **state)
{
    mrail_page_file_t *file = create();

    cut(0);
    mrail_page_update(file);
    mrail_page_event(file, "still here");
    assert_int_equal(mrail_page_read(path, &got), MRAIL_PAGE_BROKEN);
    unlink(path);
    mrail_page_update(file);
    mrail_page_remove(file);
    mrail_page_remove(NULL);
}

#define TEST(_func) cmocka_unit_test_setup_teardown(_func, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_written_and_read),
        TEST(test_events_wrap),
        TEST(test_text),
        TEST(test_killed),
        TEST(test_child_of_the_ended),
        TEST(test_copies_hold_together),
        TEST(test_clean),
        TEST(test_clean_keeps_processes),
        TEST(test_keeps_few),
        TEST(test_counts_own_and_dead),
        TEST(test_truncated),
        TEST(test_other_versions),
        TEST(test_no_file),
        TEST(test_foreign),
        TEST(test_any_bytes),
        TEST(test_ring_is_followed),
        TEST(test_records_are_requested),
        TEST(test_no_ring),
        TEST(test_ring_that_shrinks),
        TEST(test_ring_of_a_child),
        TEST(test_not_truncated_by_mistake),
        TEST(test_no_space),
        TEST(test_cut_while_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
