/*
 * Tests mrail collect without processes: names, manifests, the words that reach
 * a host, and archives that are complete, truncated, or too large.
 */
#include "config.h"
#include "base/rng.h"
#include "tools/collect.h"
#include "tools/collect_hosts.h"
#include "tools/collect_share.h"
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
#include <sys/mman.h>
#include <unistd.h>

static char error[COLLECT_ERROR];

/* ---- names ---- */

static void test_host_names(void **state)
{
    static const char *const good[] = {"n1", "alice@node-3.example.org",
                                       "[fe80::1]", "10.0.0.1"};
    static const char *const bad[] = {
        "",     "-oProxyCommand=x", "..",  ".n1", "a/b", "a b", "a;b", "a$b",
        "n1\n", "manifest.json",    "a`b`"};
    char longest[COLLECT_NAME + 1];

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(good); ++i) {
        assert_true(collect_is_host_name(good[i]));
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        assert_false(collect_is_host_name(bad[i]));
    }
    memset(longest, 'n', COLLECT_NAME);
    longest[COLLECT_NAME] = '\0';
    assert_false(collect_is_host_name(longest));
    longest[COLLECT_NAME - 1] = '\0';
    assert_true(collect_is_host_name(longest));
}

static void test_file_names(void **state)
{
    static const char *const bad[] = {"manifest.json",
                                      "../mrail-telemetry.0.1.1",
                                      "earlier/../mrail-telemetry.0.1.1",
                                      "earlier/earlier/mrail-telemetry.0.1.1",
                                      "/mrail-telemetry.0.1.1",
                                      "mrail-telemetry.0.1@1.1"};
    mrail_tele_name_t name;
    int is_earlier;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        assert_int_equal(collect_file_parse(bad[i], &name, &is_earlier),
                         -EINVAL);
    }
    assert_int_equal(
        collect_file_parse("mrail-telemetry.5.6.7", &name, &is_earlier), 0);
    assert_int_equal(is_earlier, 0);
    assert_int_equal(name.pid, 6);
    assert_int_equal(collect_file_parse("earlier/mrail-telemetry.5.6.7.calls",
                                        &name, &is_earlier),
                     0);
    assert_int_equal(is_earlier, 1);
    assert_int_equal(name.kind, MRAIL_TELE_CALLS);
}

/* ---- manifests ---- */

static int parse(const char *text)
{
    collect_manifest_t manifest;
    int ret = collect_manifest_parse(text, strlen(text), &manifest, error);

    if (ret == 0) {
        collect_manifest_cleanup(&manifest);
    }
    return ret;
}

#define HEAD                                                                   \
    "{\"format\": \"mrail archive\", \"version\": 1, \"time_ns\": 5, "         \
    "\"job\": \"\", \"hosts\": ["
#define HOST(_name, _offset, _files)                                           \
    "{\"name\": \"" _name "\", \"offset_ns\": " _offset ", \"bound_ns\": 1, "  \
    "\"time_ns\": 1, \"sample_ns\": 1, \"left_out\": 0, \"refused\": 0, "      \
    "\"foreign\": 0, \"processes\": [], \"files\": [" _files "]}"

typedef struct bad_manifest {
    const char *text;
    int ret;
    const char *message;
} bad_manifest_t;

static void test_bad_manifests(void **state)
{
    static const bad_manifest_t bad[] = {
        {"", -EINVAL, "not JSON"},
        {"{", -EINVAL, "not JSON"},
        {"[]", -EINVAL, "not a mrail collect archive"},
        {"{\"format\": \"zip\"}", -EINVAL, "not a mrail collect archive"},
        {"{\"format\": \"mrail archive\", \"version\": 2}", -EPROTO,
         "format version 2, but this mrail reads only version 1"},
        {"{\"format\": \"mrail archive\", \"version\": \"1\"}", -EINVAL,
         "'version'"},
        {"{\"format\": \"mrail archive\", \"version\": 1}", -EINVAL,
         "'time_ns'"},
        {HEAD "]", -EINVAL, "not JSON"},
        {HEAD "{\"name\": \"n1\"}]}", -EINVAL, "'offset_ns'"},
        {HEAD "{\"name\": \"../n1\"}]}", -EINVAL, "host '../n1'"},
        {HEAD HOST("n1", "0", "") "," HOST("n1", "0", "") "]}", -EINVAL,
         "host 'n1'"},
        {HEAD HOST("n1", "1e300", "") "]}", -EINVAL, "'offset_ns'"},
        {HEAD HOST("n1", "\"0\"", "") "]}", -EINVAL, "'offset_ns'"},
        {HEAD HOST("n1", "0", "{\"name\": \"/etc/passwd\", \"size\": 1}") "]}",
         -EINVAL, "file '/etc/passwd'"},
        {HEAD HOST("n1", "0",
                   "{\"name\": \"mrail-telemetry.0.1.1\", \"size\": 1e12}") "]"
                                                                            "}",
         -EINVAL, "'size'"},
        {HEAD HOST("n1", "0",
                   "{\"name\": \"mrail-telemetry.0.1.1\", \"size\": -1}") "]}",
         -EINVAL, "'size'"},
        {HEAD HOST("n1", "0",
                   "{\"name\": \"mrail-telemetry.0.1.1\", \"size\": 0}") "]}",
         -EINVAL, "not a telemetry file"}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        int ret = parse(bad[i].text);

        if ((ret != bad[i].ret) || (strstr(error, bad[i].message) == NULL)) {
            fail_msg("%s: %d, '%s'", bad[i].text, ret, error);
        }
    }
    assert_int_equal(parse(HEAD HOST("n1", "-3600000000000", "") "]}"), 0);
}

/* ---- archives ---- */

#define HOSTS 3u
#define FILES 4u

static void add_file(collect_host_t *host, unsigned number, size_t size)
{
    collect_file_t *file = collect_host_add_file(host);

    assert_non_null(file);
    snprintf(file->name, sizeof(file->name), "%smrail-telemetry.0.%u.%x%s",
             (number % 4 == 3) ? COLLECT_EARLIER : "", number / 2, number,
             (number % 2 == 1) ? ".calls" : "");
    file->size = size;
    file->alive = number % 3 == 0;
    file->data = malloc(size);
    assert_non_null(file->data);
    memset(file->data, 'a' + (int)number, size);
}

static void make_manifest(collect_manifest_t *manifest)
{
    memset(manifest, 0, sizeof(*manifest));
    manifest->time_ns = 1764263404000000000;
    snprintf(manifest->job, sizeof(manifest->job), "job \"x\"");
    for (unsigned h = 0; h < HOSTS; ++h) {
        collect_host_t *host = collect_manifest_add(manifest);

        assert_non_null(host);
        snprintf(host->name, sizeof(host->name), "n%u", h);
        host->offset_ns = -(int64_t)h * 3600000000123;
        host->bound_ns = h * 1000;
        host->left_out = h;
        if (h == 1) {
            snprintf(host->error, sizeof(host->error), "no route");
            continue;
        }
        for (unsigned i = 0; i < FILES; ++i) {
            add_file(host, i, 1 + i * 700);
        }
        *collect_host_add_process(host) = (collect_process_t){
            .pid = 17, .state = 'R', .run = 0.25, .delay = -1};
    }
}

static ssize_t read_fd(void *arg, void *data, size_t size)
{
    return read(*(int *)arg, data, size);
}

/* Returns a file in memory with an archive. */
static int written(const collect_manifest_t *manifest, int gzip)
{
    int fd = memfd_create("archive", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(collect_tar_write(fd, gzip, manifest, error), 0);
    return fd;
}

/* Reads an archive. Returns the result of the last call, and the number of
 * files. */
static int read_archive(int fd, uint64_t max_size, unsigned *count_p)
{
    collect_reader_t *reader;
    collect_item_t item;
    int ret;

    *count_p = 0;
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    ret = collect_reader_open(read_fd, &fd, max_size, &reader, error);
    if (ret != 0) {
        return ret;
    }
    while ((ret = collect_reader_next(reader, &item, error)) == 1) {
        const collect_manifest_t *manifest = collect_reader_manifest(reader);
        const collect_file_t *file =
            &manifest->hosts[item.host].files[item.file];

        for (uint64_t i = 0; i < file->size; ++i) {
            assert_int_equal(((char *)item.data)[i], 'a' + (int)item.file);
        }
        free(item.data);
        ++*count_p;
    }
    collect_reader_close(reader);
    return ret;
}

static void check_same(const collect_manifest_t *a, const collect_manifest_t *b)
{
    assert_int_equal(a->num_hosts, b->num_hosts);
    assert_string_equal(a->job, b->job);
    for (unsigned h = 0; h < a->num_hosts; ++h) {
        const collect_host_t *x = &a->hosts[h], *y = &b->hosts[h];

        assert_string_equal(x->name, y->name);
        assert_string_equal(x->error, y->error);
        assert_int_equal(x->num_files, y->num_files);
        if (x->error[0] != '\0') {
            continue;
        }
        assert_int_equal(x->offset_ns, y->offset_ns);
        assert_int_equal(x->bound_ns, y->bound_ns);
        assert_int_equal(x->needed, y->needed);
        assert_int_equal(x->left_out, y->left_out);
        assert_int_equal(y->num_processes, 1);
        assert_int_equal(y->processes[0].state, 'R');
        assert_true(y->processes[0].run == 0.25);
        assert_true(y->processes[0].delay == -1);
        for (unsigned i = 0; i < x->num_files; ++i) {
            assert_string_equal(x->files[i].name, y->files[i].name);
            assert_int_equal(x->files[i].size, y->files[i].size);
            assert_int_equal(x->files[i].alive, y->files[i].alive);
        }
    }
}

static void test_archive(void **state)
{
    collect_manifest_t manifest;
    collect_reader_t *reader;

    make_manifest(&manifest);
    for (int gzip = 0; gzip < 2; ++gzip) {
        int fd = written(&manifest, gzip);
        unsigned count;

        assert_int_equal(read_archive(fd, 1u << 20, &count), 0);
        assert_int_equal(count, 2 * FILES);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(collect_reader_open(read_fd, &fd, 1, &reader, error),
                         0);
        check_same(&manifest, collect_reader_manifest(reader));
        collect_reader_close(reader);
        close(fd);
    }
    collect_manifest_cleanup(&manifest);
}

/* An archive that is truncated anywhere is recognised. */
static void test_cut_off(void **state)
{
    collect_manifest_t manifest;

    make_manifest(&manifest);
    for (int gzip = 0; gzip < 2; ++gzip) {
        int fd = written(&manifest, gzip), ret;
        off_t size = lseek(fd, 0, SEEK_END);
        unsigned count;

        /* A tar file ends with zeros, which may be missing. */
        for (; size >= 0; size -= gzip ? 7 : 101) {
            assert_int_equal(ftruncate(fd, size), 0);
            ret = read_archive(fd, 1u << 20, &count);
            if ((ret == 0) ? (count != 2 * FILES)
                           : ((ret != -ENODATA) && (ret != -EINVAL))) {
                fail_msg("%d bytes: %d after %u files", (int)size, ret, count);
            }
            if (ret != 0) {
                assert_true(strstr(error, "truncated") != NULL ||
                            strstr(error, "not a mrail collect") != NULL ||
                            strstr(error, "cannot be read") != NULL);
            }
        }
        assert_int_equal(ret, -EINVAL);
        close(fd);
    }
    collect_manifest_cleanup(&manifest);
}

static void test_too_large(void **state)
{
    collect_manifest_t manifest;
    unsigned count;
    int fd;

    make_manifest(&manifest);
    fd = written(&manifest, 1);
    assert_int_equal(read_archive(fd, 2000, &count), -EFBIG);
    assert_string_equal(error, "larger than the maximum size");
    assert_int_equal(count, 2);
    close(fd);
    collect_manifest_cleanup(&manifest);
}

static void test_full_device(void **state)
{
    collect_manifest_t manifest;
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    make_manifest(&manifest);
    assert_int_equal(collect_tar_write(fd, 0, &manifest, error), -ENOSPC);
    assert_non_null(strstr(error, "No space left"));
    close(fd);
    collect_manifest_cleanup(&manifest);
}

/* ---- words ---- */

static void test_words(void **state)
{
    collect_hosts_t config = {.ssh = " ssh  -p 22 "};
    mrail_tool_args_t args;

    mrail_tool_args_add(&config.remote, "/opt/my mrail");
    mrail_tool_args_add(&config.remote, "--job=a'b;c");
    args = collect_words(&config, "n1", 4321);
    assert_int_equal(args.count, 5);
    assert_string_equal(args.items[0], "ssh");
    assert_string_equal(args.items[2], "22");
    assert_string_equal(args.items[3], "n1");
    assert_string_equal(args.items[4],
                        "'/opt/my mrail' '--job=a'\\''b;c' --max-size=4321");
    mrail_tool_args_cleanup(&args);
    config.srun = 1;
    args = collect_words(&config, "n1", COLLECT_MAX_SIZE);
    assert_string_equal(args.items[0], "srun");
    assert_string_equal(args.items[args.count - 4], "--nodelist=n1");
    assert_string_equal(args.items[args.count - 2], "--job=a'b;c");
    assert_string_equal(args.items[args.count - 1], "--max-size=4294967296");
    mrail_tool_args_cleanup(&args);
    mrail_tool_args_cleanup(&config.remote);
}

/* ---- shares ---- */

static void check_shares(const uint64_t *needs, const uint64_t *wanted,
                         unsigned count, uint64_t total)
{
    uint64_t shares[8];

    collect_share(needs, shares, count, total);
    for (unsigned i = 0; i < count; ++i) {
        assert_int_equal(shares[i], wanted[i]);
    }
}

static void test_shares(void **state)
{
    /* The third host leaves 28 of its equal share to the other hosts, and the
     * first host then leaves 7 of its 47. */
    check_shares((uint64_t[]){40, 500, 5}, (uint64_t[]){40, 55, 5}, 3, 100);
    check_shares((uint64_t[]){500, 500}, (uint64_t[]){50, 50}, 2, 101);
    /* All needs are met, and some space is left. */
    check_shares((uint64_t[]){10, 20}, (uint64_t[]){45, 55}, 2, 100);
    check_shares((uint64_t[]){7}, (uint64_t[]){100}, 1, 100);
    check_shares((uint64_t[]){7}, (uint64_t[]){0}, 1, 0);
    check_shares((uint64_t[]){UINT64_MAX - 1, 0}, (uint64_t[]){9, 0}, 2, 9);
    collect_share(NULL, NULL, 0, 100);
}

/* A host gets at least an equal share if it needs one, and all shares together
 * never exceed the total. */
static void test_random_shares(void **state)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, 1);
    for (unsigned round = 0; round < 2000; ++round) {
        unsigned count = 1 + (unsigned)mrail_rng_below(&rng, 50);
        uint64_t needs[50], shares[50], sum = 0, need = 0;
        uint64_t total = mrail_rng_below(&rng, 100000);

        for (unsigned i = 0; i < count; ++i) {
            needs[i] = mrail_rng_below(&rng, 1u << mrail_rng_below(&rng, 16));
            need += needs[i];
        }
        collect_share(needs, shares, count, total);
        for (unsigned i = 0; i < count; ++i) {
            assert_true(shares[i] >= MRAIL_MIN(needs[i], total / count));
            assert_true((need > total) || (shares[i] >= needs[i]));
            assert_true((need <= total) || (shares[i] <= needs[i]));
            sum += shares[i];
        }
        assert_true(sum <= total);
        assert_true(total - sum < count);
    }
}

#define LOCAL(_test)                                                           \
    cmocka_unit_test_setup_teardown(_test, make_dir, remove_dir)

/* Without libarchive, test/tools/collect.sh checks the message. */
static int needs_archives(void **state)
{
    if (!collect_tar_is_built()) {
        skip();
    }
    return 0;
}

int main(void)
{
#define ARCHIVE(_test) cmocka_unit_test_setup(_test, needs_archives)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_names),
        cmocka_unit_test(test_file_names),
        cmocka_unit_test(test_bad_manifests),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_random_shares),
        ARCHIVE(test_archive),
        ARCHIVE(test_cut_off),
        ARCHIVE(test_too_large),
        ARCHIVE(test_full_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
