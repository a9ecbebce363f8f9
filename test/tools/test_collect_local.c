/*
 * Tests mrail collect on this machine: the telemetry of running processes,
 * of one job, in a limited space, and among other files.
 */
#include "config.h"
#include "base/util.h"
#include "telemetry/calls.h"
#include "telemetry/image.h"
#include "tools/collect_local.h"
#include "tools/collect_tar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char error[COLLECT_ERROR];
static char dir[64];
static mrail_page_file_t *page;
static mrail_calls_file_t calls;

static int make_dir(void **state)
{
    snprintf(dir, sizeof(dir), MRAIL_TELE_DIR "/test-collect-XXXXXX");
    if ((mkdtemp(dir) == NULL) || (mrail_page_create(dir, 7, 64, &page) != 0) ||
        (mrail_calls_create(&calls, dir, 7, "mine", 0, "program") != 0)) {
        return -1;
    }
    snprintf(mrail_page_own(page)->job, COLLECT_JOB, "mine");
    mrail_page_own(page)->rank = 0;
    mrail_page_update(page);
    return 0;
}

static void remove_one(const char *name, void *arg)
{
    unlink(name);
}

static int remove_dir(void **state)
{
    mrail_page_remove(page);
    mrail_calls_remove(&calls);
    mrail_tele_file_each(dir, MRAIL_TELE_ALL, remove_one, NULL);
    return rmdir(dir);
}

static collect_host_t gather(const char *job, uint64_t max_size)
{
    const collect_local_t local = {
        .dir = dir, .job = job, .max_size = max_size, .sample_ns = 1000};
    collect_host_t host = {.num_files = 0};

    assert_int_equal(collect_local(&local, &host, error), 0);
    return host;
}

static void test_local(void **state)
{
    collect_host_t host = gather(NULL, 1u << 20);
    uint64_t needed;

    assert_int_equal(host.num_files, 4);
    assert_int_equal(host.num_processes, 1);
    assert_int_equal(host.processes[0].pid, getpid());
    assert_int_equal(host.processes[0].state, 'R');
    assert_int_equal(collect_host_count(&host), 1);
    assert_int_equal(host.refused, 0);
    needed = host.needed;
    assert_int_equal(needed, collect_tar_files(&host));
    for (unsigned i = 0; i < 4; ++i) {
        mrail_tele_name_t name;
        int is_earlier;

        assert_int_equal(
            collect_file_parse(host.files[i].name, &name, &is_earlier), 0);
        assert_int_equal(is_earlier, i >= 2);
        assert_int_equal(host.files[i].alive, 1);
        assert_int_equal(mrail_image_check(name.kind, host.files[i].data,
                                           (size_t)host.files[i].size),
                         MRAIL_PAGE_ALIVE);
    }
    collect_host_cleanup(&host);
    host = gather("other", 1u << 20);
    assert_int_equal(host.num_files, 0);
    collect_host_cleanup(&host);
    host = gather("mine", 100000);
    assert_int_equal(host.num_files, 0);
    assert_int_equal(host.left_out, 1);
    assert_int_equal(host.needed, needed);
    collect_host_cleanup(&host);
}

static void path_of(char path[MRAIL_TELE_PATH], unsigned pid)
{
    snprintf(path, MRAIL_TELE_PATH, "%s/mrail-telemetry.%u.%u.1", dir,
             (unsigned)geteuid(), pid);
}

/* Processes in different PID namespaces may have the same pid. */
static void test_same_pid(void **state)
{
    mrail_calls_file_t other;
    collect_host_t host;

    assert_int_equal(mrail_calls_create(&other, dir, 8, "mine", 1, "program"),
                     0);
    host = gather("mine", 1u << 20);
    assert_int_equal(host.num_files, 6);
    assert_int_equal(host.num_processes, 2);
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(host.processes[i].pid, getpid());
        assert_int_equal(host.processes[i].state, 'R');
    }
    assert_int_equal(host.processes[0].rank + host.processes[1].rank, 1);
    assert_int_equal(collect_host_count(&host), 2);
    collect_host_cleanup(&host);
    mrail_calls_remove(&other);
}

/* In a file from another PID namespace, the pid is that of another process
 * here. */
static void test_other_namespace(void **state)
{
    char path[MRAIL_TELE_PATH];
    collect_host_t host;

    snprintf(path, sizeof(path), "%s/mrail-telemetry.%u.1.7.calls", dir,
             (unsigned)geteuid());
    assert_int_equal(rename(calls.file.path, path), 0);
    calls.calls->pid = 1;
    host = gather("mine", 1u << 20);
    assert_int_equal(host.num_processes, 2);
    for (unsigned i = 0; i < 2; ++i) {
        const collect_process_t *process = &host.processes[i];

        assert_int_equal(process->state, (process->pid == 1) ? '?' : 'R');
        assert_true((process->run >= 0) == (process->pid != 1));
    }
    collect_host_cleanup(&host);
}

/* Links, pipes, other files and other names are counted and left out. */
static void test_planted(void **state)
{
    char path[MRAIL_TELE_PATH];
    collect_host_t host;
    int fd;

    path_of(path, 1);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    path_of(path, 2);
    assert_int_equal(mkfifo(path, 0600), 0);
    path_of(path, 3);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "text", 4), 4);
    close(fd);
    snprintf(path, sizeof(path), "%s/mrail-telemetry.%u.name", dir,
             (unsigned)geteuid());
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    if (geteuid() == 0) { /* this user's name, but another user's file */
        path_of(path, 4);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(fchown(fd, 65534, 65534), 0);
        close(fd);
    }
    host = gather(NULL, 1u << 20);
    assert_int_equal(host.num_files, 4);
    assert_int_equal(host.refused, 4);
    assert_int_equal(host.foreign, geteuid() == 0);
    collect_host_cleanup(&host);
}

static void test_no_directory(void **state)
{
    const collect_local_t local = {.dir = "/nonexistent", .max_size = 1};
    collect_host_t host = {.num_files = 0};

    assert_int_equal(collect_local(&local, &host, error), -ENOENT);
    assert_string_equal(error,
                        "cannot read /nonexistent: No such file or directory");
}

#define TEST(_test) cmocka_unit_test_setup_teardown(_test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_local),
        TEST(test_same_pid),
        TEST(test_other_namespace),
        TEST(test_planted),
        cmocka_unit_test(test_no_directory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
