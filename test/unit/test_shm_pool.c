/*
 * Tests src/relay/shm_pool.c: pools of all valid shapes, and the rejection of
 * invalid ones. Any other file with the name of a pool must be rejected, and
 * nothing may be left behind.
 */
#include "config.h"
#include "relay/shm_pool.h"
#include "relay/slot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

static const mrail_relay_shape_t small = {
    .num_local = 3, .out_slots = 2, .in_slots = 3, .chunk = 8192};

static mrail_relay_shm_pool_t pool, other;
static char name[MRAIL_RELAY_NAME_SIZE];
static char path[128];

/* A file mode that no other process uses, which marks this test's pools. */
#define MASK 0200

static int count(void)
{
    DIR *dir = opendir(MRAIL_RELAY_DIR);
    struct dirent *entry;
    struct stat st;
    int found = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        found += (strncmp(entry->d_name, "mrail-relay.", 12) == 0) &&
                 (fstatat(dirfd(dir), entry->d_name, &st,
                          AT_SYMLINK_NOFOLLOW) == 0) &&
                 ((st.st_mode & 07777) == (0600 & ~MASK));
    }
    closedir(dir);
    return found;
}

static int is_there(void)
{
    return access(path, F_OK) == 0;
}

static void create(void)
{
    assert_int_equal(mrail_relay_shm_pool_create(&small, name, &pool), 0);
    snprintf(path, sizeof(path), "%s/%s", MRAIL_RELAY_DIR, name);
}

static void destroy(void)
{
    assert_true(is_there());
    mrail_relay_shm_pool_unlink(name);
    assert_false(is_there());
    mrail_relay_shm_pool_detach(&pool);
}

static int attach(void)
{
    return mrail_relay_shm_pool_attach(&small, name, &other);
}

static void refuse_shape(mrail_relay_shape_t shape)
{
    memset(name, 'x', sizeof(name));
    assert_int_equal(mrail_relay_shm_pool_size(&shape), 0);
    assert_int_equal(mrail_relay_shm_pool_create(&shape, name, &pool), -EINVAL);
    assert_int_equal(name[0], 'x');
    create();
    assert_int_equal(mrail_relay_shm_pool_attach(&shape, name, &other),
                     -EINVAL);
    destroy();
}

static void test_shapes_out_of_range(void **state)
{
    refuse_shape((mrail_relay_shape_t){0, 1, 1, 4096, 0});
    refuse_shape(
        (mrail_relay_shape_t){MRAIL_RELAY_MAX_LOCAL + 1, 1, 1, 4096, 0});
    refuse_shape((mrail_relay_shape_t){UINT32_MAX, 1, 1, 4096, 0});
    refuse_shape((mrail_relay_shape_t){1, 0, 1, 4096, 0});
    refuse_shape(
        (mrail_relay_shape_t){1, MRAIL_RELAY_MAX_SLOTS + 1, 1, 4096, 0});
    refuse_shape((mrail_relay_shape_t){1, 1, 0, 4096, 0});
    refuse_shape(
        (mrail_relay_shape_t){1, 1, MRAIL_RELAY_MAX_SLOTS + 1, 4096, 0});
    refuse_shape((mrail_relay_shape_t){1, UINT32_MAX, 1, 4096, 0});
    refuse_shape((mrail_relay_shape_t){1, 1, UINT32_MAX, 4096, 0});
    refuse_shape((mrail_relay_shape_t){1, 1, 1, 0, 0});
    refuse_shape((mrail_relay_shape_t){1, 1, 1, 4095, 0});
    refuse_shape((mrail_relay_shape_t){1, 1, 1, 4097, 0});
    refuse_shape(
        (mrail_relay_shape_t){1, 1, 1, MRAIL_RELAY_MAX_CHUNK + 4096u, 0});
    refuse_shape((mrail_relay_shape_t){1, 1, 1, SIZE_MAX - 4095, 0});
}

/* Each buffer of each rank must be page-aligned, lie within the pool, and
 * overlap no other buffer. Its header must not overlap the preceding buffer. */
static void test_layout(void **state)
{
    mrail_relay_shape_t shape = {3, 5, 7, 12288, 0};
    mrail_relay_layout_t layout;
    size_t end;
    char *base, *area;

    assert_int_equal(mrail_relay_layout(&shape, &layout), 0);
    base = malloc(layout.size);
    assert_non_null(base);
    assert_int_equal(layout.slots, 12);
    assert_int_equal(layout.ring_size, 16);
    assert_int_equal(mrail_relay_shm_pool_size(&shape), layout.size);
    end = layout.headers;
    for (uint32_t owner = 0; owner < 3; ++owner) {
        area = mrail_relay_pool_area(&layout, base, owner);
        for (uint32_t slot = 0; slot < 12; ++slot) {
            char *payload = mrail_relay_payload(&layout, area, owner, slot);
            size_t at = (size_t)(payload - base);

            assert_ptr_equal(
                mrail_relay_slot_header(&layout, base, owner, slot),
                payload - MRAIL_RELAY_HEADER);
            assert_int_equal(at % 4096, 0);
            assert_true(at >= end);
            end = at + shape.chunk;
            assert_true(end <= layout.size);
        }
    }
    assert_int_equal(end, layout.size);
    free(base);
}

/* Payloads are in an area outside the pool: out-slots of all owners, then
 * in-slots. */
static void test_external_layout(void **state)
{
    mrail_relay_shape_t shape = {3, 5, 7, 12288, 1};
    mrail_relay_layout_t layout;
    char *area = (char *)4096;
    size_t at = 0;

    assert_int_equal(mrail_relay_layout(&shape, &layout), 0);
    assert_int_equal(layout.size, layout.headers + 4096); /* 36 headers */
    for (uint32_t owner = 0; owner < 3; ++owner) {
        for (uint32_t slot = 0; slot < 5; ++slot, at += shape.chunk) {
            assert_ptr_equal(mrail_relay_payload(&layout, area, owner, slot),
                             area + at);
        }
    }
    for (uint32_t slot = 5; slot < 12; ++slot, at += shape.chunk) {
        assert_ptr_equal(mrail_relay_payload(&layout, area, 1, slot),
                         area + at);
    }
    assert_int_equal(layout.area_size, at);
}

/* The size of the largest shape must be valid in 64 bits. */
static void test_largest(void **state)
{
    mrail_relay_shape_t shape = {MRAIL_RELAY_MAX_LOCAL, MRAIL_RELAY_MAX_SLOTS,
                                 MRAIL_RELAY_MAX_SLOTS, MRAIL_RELAY_MAX_CHUNK,
                                 0};
    uint64_t bytes = 256ull * 2048 * MRAIL_RELAY_MAX_CHUNK;
    size_t size = mrail_relay_shm_pool_size(&shape);

    if (sizeof(size_t) < 8) {
        assert_int_equal(size, 0);
    } else {
        assert_true(size > bytes);
    }
}

static void test_shared(void **state)
{
    struct stat st;

    create();
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, mrail_relay_shm_pool_size(&small));
    assert_true((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size);
    assert_int_equal(attach(), 0);
    assert_int_equal(other.size, pool.size);
    assert_int_equal((uintptr_t)other.base % 4096, 0);
    strcpy((char *)pool.base + pool.size - 8, "here");
    assert_string_equal((char *)other.base + pool.size - 8, "here");
    mrail_relay_shm_pool_unlink(name);
    assert_false(is_there());
    assert_string_equal((char *)other.base + pool.size - 8, "here");
    mrail_relay_shm_pool_detach(&other);
    mrail_relay_shm_pool_detach(&pool);
}

/* A pool is closed once each rank that has joined it has closed it. */
static void test_closed(void **state)
{
    create();
    assert_true(mrail_relay_shm_pool_is_closed(&pool));
    for (unsigned i = 0; i < small.num_local; ++i) {
        mrail_relay_shm_pool_join(&pool);
    }
    for (unsigned i = 0; i < small.num_local; ++i) {
        assert_false(mrail_relay_shm_pool_is_closed(&pool));
        assert_int_equal(mrail_relay_shm_pool_attach(&small, name, &other), 0);
        mrail_relay_shm_pool_close(&other);
        mrail_relay_shm_pool_detach(&other);
    }
    assert_true(mrail_relay_shm_pool_is_closed(&pool));
    destroy();
}

static void test_unlinked(void **state)
{
    create();
    mrail_relay_shm_pool_unlink(name);
    assert_int_equal(attach(), -ENOENT);
    mrail_relay_shm_pool_unlink(name);
    mrail_relay_shm_pool_detach(&pool);
    assert_null(pool.base);
}

static void test_names(void **state)
{
    static const char *const bad[] = {
        "",
        ".",
        "mrail-relay.",
        "/dev/shm/x",
        "../etc/passwd",
        "mrail-relay.0123456789abcdef0123456789abcde",
        "mrail-relay.0123456789abcdef0123456789abcdef0",
        "mrail-relay.0123456789ABCDEF0123456789abcdef",
        "mrail-relay.0123456789abcdef/../../../../abcd",
        "mrail-telemetry..0123456789abcdef0123456789abcdef",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); ++i) {
        assert_int_equal(mrail_relay_shm_pool_attach(&small, bad[i], &other),
                         -EINVAL);
        mrail_relay_shm_pool_unlink(bad[i]);
    }
    assert_int_equal(
        mrail_relay_shm_pool_attach(
            &small, "mrail-relay.0123456789abcdef0123456789abcdef", &other),
        -ENOENT);
}

static void test_two_have_two_names(void **state)
{
    char first[MRAIL_RELAY_NAME_SIZE];

    create();
    memcpy(first, name, sizeof(first));
    destroy();
    create();
    assert_string_not_equal(first, name);
    destroy();
}

static void test_modes(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0666};

    create();
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); ++i) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(attach(), -EPERM);
    }
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(attach(), 0);
    mrail_relay_shm_pool_detach(&other);
    destroy();
}

static void test_other_user(void **state)
{
    if (geteuid() != 0) {
        print_message("only root can change the owner of a file\n");
        skip();
    }
    create();
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    assert_int_equal(attach(), -EPERM);
    destroy();
}

static void test_other_length(void **state)
{
    create();
    assert_int_equal(truncate(path, (off_t)pool.size - 4096), 0);
    assert_int_equal(attach(), -EINVAL);
    assert_int_equal(truncate(path, (off_t)pool.size + 1), 0);
    assert_int_equal(attach(), -EINVAL);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(attach(), -EINVAL);
    /* The file has the right length, but no content. */
    assert_int_equal(truncate(path, (off_t)pool.size), 0);
    assert_int_equal(attach(), -EINVAL);
    destroy();
}

/* A pool of another shape may have the same length. */
static void test_other_shape(void **state)
{
    mrail_relay_shape_t shape = small;

    create();
    shape.out_slots = 3;
    shape.in_slots = 2;
    assert_int_equal(mrail_relay_shm_pool_size(&shape), pool.size);
    assert_int_equal(mrail_relay_shm_pool_attach(&shape, name, &other),
                     -EINVAL);
    shape = small;
    shape.chunk *= 2;
    assert_int_equal(mrail_relay_shm_pool_attach(&shape, name, &other),
                     -EINVAL);
    for (unsigned i = 0; i < 40; ++i) { /* each byte of the header */
        ((char *)pool.base)[i] ^= 1;
        assert_int_equal(attach(), -EINVAL);
        ((char *)pool.base)[i] ^= 1;
    }
    assert_int_equal(attach(), 0);
    mrail_relay_shm_pool_detach(&other);
    destroy();
}

static void test_no_file(void **state)
{
    char target[sizeof(path) + 8];

    create();
    snprintf(target, sizeof(target), "%s.moved", path);
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(attach(), -ELOOP);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(attach(), -EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(attach(), -EISDIR);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rename(target, path), 0);
    destroy();
}

/* The file system is full, as far as a process can simulate this. */
static void test_full(void **state)
{
    struct rlimit before, limit;
    mode_t mask = umask(MASK);
    int before_count = count();

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 8192;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    memset(name, 'x', sizeof(name));
    assert_int_equal(mrail_relay_shm_pool_create(&small, name, &pool), -EFBIG);
    assert_int_equal(name[0], 'x');
    assert_int_equal(count(), before_count);
    umask(mask);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
}

/* The pool is larger than any /dev/shm. Creation fails, not the first write. */
static void test_too_large(void **state)
{
    mrail_relay_shape_t shape = {MRAIL_RELAY_MAX_LOCAL, MRAIL_RELAY_MAX_SLOTS,
                                 MRAIL_RELAY_MAX_SLOTS, MRAIL_RELAY_MAX_CHUNK,
                                 0};

    struct statvfs fs;

    assert_int_equal(statvfs(MRAIL_RELAY_DIR, &fs), 0);
    if ((sizeof(size_t) < 8) || (fs.f_blocks == 0)) {
        print_message("the pool would use all free memory\n");
        skip();
    }
    assert_int_equal(mrail_relay_shm_pool_create(&shape, name, &pool), -ENOSPC);
}

/* A process was killed before it unlinked its pool. The next process that
 * creates a pool must unlink it. Pools of live processes must stay. */
static void test_killed(void **state)
{
    mrail_relay_shm_pool_t kept;
    char kept_name[MRAIL_RELAY_NAME_SIZE], dead_path[sizeof(path)];
    int pipes[2], status;
    pid_t child;

    assert_int_equal(mrail_relay_shm_pool_create(&small, kept_name, &kept), 0);
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        create();
        status = write(pipes[1], name, sizeof(name)) != sizeof(name);
        _exit(status);
    }
    assert_int_equal(read(pipes[0], name, sizeof(name)), sizeof(name));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    snprintf(path, sizeof(path), "%s/%s", MRAIL_RELAY_DIR, name);
    assert_true(is_there());
    memcpy(dead_path, path, sizeof(path));
    create();
    assert_int_equal(access(dead_path, F_OK), -1);
    destroy();
    snprintf(path, sizeof(path), "%s/%s", MRAIL_RELAY_DIR, kept_name);
    assert_true(is_there());
    mrail_relay_shm_pool_unlink(kept_name);
    mrail_relay_shm_pool_detach(&kept);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_out_of_range),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_external_layout),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_unlinked),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_two_have_two_names),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_other_user),
        cmocka_unit_test(test_other_length),
        cmocka_unit_test(test_other_shape),
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
