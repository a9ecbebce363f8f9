#include "config.h"
#include "relay/shm_pool.h"

#include "relay/slot.h"

#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHM_POOL_PREFIX "mrail-relay."
#define SHM_POOL_DIGITS 32u
#define SHM_POOL_MAGIC 0x6d7261696c72656cull
#define SHM_POOL_VERSION                                                       \
    4u /* covers the layout in slot.h and ring.h, and the header */

/* The header of the file. */
typedef struct shm_pool_head {
    uint64_t magic;
    uint32_t version;
    uint32_t num_local, out_slots, in_slots, is_external, zero;
    uint64_t chunk, size;
} shm_pool_head_t;

/* The first page of the file. */
typedef struct shm_pool_page {
    shm_pool_head_t head;
    uint32_t num_joined; /* ranks that have joined the pool; atomic */
    uint32_t num_closed; /* ranks that have closed the pool; atomic */
} shm_pool_page_t;

_Static_assert(sizeof(shm_pool_page_t) <= MRAIL_RELAY_PAGE,
               "the header must fit in a page");

size_t mrail_relay_shm_pool_size(const mrail_relay_shape_t *shape)
{
    mrail_relay_layout_t layout;

    return (mrail_relay_layout(shape, &layout) == 0) ? layout.size : 0;
}

static shm_pool_head_t shm_pool_head(const mrail_relay_shape_t *shape)
{
    return (shm_pool_head_t){
        .magic = SHM_POOL_MAGIC,
        .version = SHM_POOL_VERSION,
        .num_local = shape->num_local,
        .out_slots = shape->out_slots,
        .in_slots = shape->in_slots,
        .is_external = shape->is_external != 0,
        .chunk = shape->chunk,
        .size = mrail_relay_shm_pool_size(shape),
    };
}

/* Names come from other processes, so only a well-formed name may become a
 * path. */
static int name_is_valid(const char *name)
{
    size_t prefix = strlen(SHM_POOL_PREFIX);

    return (strncmp(name, SHM_POOL_PREFIX, prefix) == 0) &&
           (strspn(name + prefix, "0123456789abcdef") == SHM_POOL_DIGITS) &&
           (name[prefix + SHM_POOL_DIGITS] == '\0');
}

static void
name_path(const char *name,
          char path[sizeof(MRAIL_RELAY_DIR) + MRAIL_RELAY_NAME_SIZE])
{
    snprintf(path, sizeof(MRAIL_RELAY_DIR) + MRAIL_RELAY_NAME_SIZE, "%s/%s",
             MRAIL_RELAY_DIR, name);
}

static int name_make(char name[MRAIL_RELAY_NAME_SIZE])
{
    uint64_t random[2];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return -EIO;
    }
    snprintf(name, MRAIL_RELAY_NAME_SIZE, SHM_POOL_PREFIX "%016llx%016llx",
             (unsigned long long)random[0], (unsigned long long)random[1]);
    return 0;
}

#define TAKE_STEP (1u << 20)

/* Allocates all memory in one call, so that a failure leaves no memory
 * allocated. On older kernels, a signal reverts the whole call, and a
 * profiler's timer could interrupt every attempt. After an interrupted attempt,
 * the function therefore allocates in steps. */
static int shm_pool_take_memory(int fd, size_t size)
{
    int ret = posix_fallocate(fd, 0, (off_t)size);

    if (ret != EINTR) {
        return -ret;
    }
    ret = 0;
    for (size_t at = 0; (at < size) && (ret == 0); at += TAKE_STEP) {
        do {
            ret = posix_fallocate(fd, (off_t)at,
                                  (off_t)MRAIL_MIN(TAKE_STEP, size - at));
        } while (ret == EINTR);
    }
    return -ret;
}

/* Removes files of this user whose creators have died. A creator keeps its file
 * locked while it is alive. */
static void shm_pool_sweep(void)
{
    DIR *dir = opendir(MRAIL_RELAY_DIR);
    struct dirent *entry;

    while ((dir != NULL) && ((entry = readdir(dir)) != NULL)) {
        struct stat st;
        int fd;

        if (!name_is_valid(entry->d_name)) {
            continue;
        }
        fd = openat(dirfd(dir), entry->d_name,
                    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0) {
            continue;
        }
        if ((fstat(fd, &st) == 0) && (st.st_uid == geteuid()) &&
            (flock(fd, LOCK_EX | LOCK_NB) == 0)) {
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
        close(fd);
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/* Locks a new file. Fails if the sweep of another process has already removed
 * it. */
static int shm_pool_lock(int fd)
{
    struct stat st;

    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return -EAGAIN;
    }
    return ((fstat(fd, &st) == 0) && (st.st_nlink > 0)) ? 0 : -EAGAIN;
}

static int shm_pool_map(int fd, const mrail_relay_shape_t *shape,
                        mrail_relay_shm_pool_t *shm_pool)
{
    shm_pool->shape = *shape;
    shm_pool->size = mrail_relay_shm_pool_size(shape);
    shm_pool->lock_fd = -1;
    shm_pool->base =
        mmap(NULL, shm_pool->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return (shm_pool->base == MAP_FAILED) ? -errno : 0;
}

static int shm_pool_make(int fd, const mrail_relay_shape_t *shape,
                         mrail_relay_shm_pool_t *shm_pool_p)
{
    shm_pool_head_t head = shm_pool_head(shape);
    mrail_relay_shm_pool_t shm_pool;
    int ret = shm_pool_lock(fd);

    if (ret == 0) {
        ret = shm_pool_take_memory(fd, head.size);
    }
    if (ret == 0) {
        ret = shm_pool_map(fd, shape, &shm_pool);
    }
    if (ret == 0) {
        memcpy(shm_pool.base, &head, sizeof(head));
        shm_pool.lock_fd = fd;
        *shm_pool_p = shm_pool;
    }
    return ret;
}

static int shm_pool_create(const mrail_relay_shape_t *shape, const char *name,
                           mrail_relay_shm_pool_t *shm_pool_p)
{
    char path[sizeof(MRAIL_RELAY_DIR) + MRAIL_RELAY_NAME_SIZE];
    int fd, ret;

    name_path(name, path);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    ret = shm_pool_make(fd, shape, shm_pool_p);
    if (ret != 0) {
        unlink(path);
        close(fd);
    }
    return ret;
}

int mrail_relay_shm_pool_create(const mrail_relay_shape_t *shape,
                                char name[MRAIL_RELAY_NAME_SIZE],
                                mrail_relay_shm_pool_t *shm_pool_p)
{
    char made[MRAIL_RELAY_NAME_SIZE];
    int ret;

    if (mrail_relay_shm_pool_size(shape) == 0) {
        return -EINVAL;
    }
    shm_pool_sweep();
    do {
        ret = name_make(made);
        if (ret == 0) {
            ret = shm_pool_create(shape, made, shm_pool_p);
        }
    } while (ret == -EAGAIN);
    if (ret == 0) {
        memcpy(name, made, sizeof(made));
    }
    return ret;
}

static int shm_pool_check_file(int fd, size_t size)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return -errno;
    }
    if ((st.st_uid != geteuid()) || ((st.st_mode & 077) != 0)) {
        return -EPERM;
    }
    /* A shorter file would cause a SIGBUS later. */
    return (S_ISREG(st.st_mode) && (st.st_size == (off_t)size)) ? 0 : -EINVAL;
}

static int shm_pool_open(int fd, const mrail_relay_shape_t *shape,
                         mrail_relay_shm_pool_t *shm_pool_p)
{
    shm_pool_head_t head = shm_pool_head(shape);
    mrail_relay_shm_pool_t shm_pool;
    int ret = shm_pool_check_file(fd, head.size);

    if (ret == 0) {
        ret = shm_pool_map(fd, shape, &shm_pool);
    }
    if (ret != 0) {
        return ret;
    }
    if (memcmp(shm_pool.base, &head, sizeof(head)) != 0) {
        mrail_relay_shm_pool_detach(&shm_pool);
        return -EINVAL;
    }
    *shm_pool_p = shm_pool;
    return 0;
}

int mrail_relay_shm_pool_attach(const mrail_relay_shape_t *shape,
                                const char *name,
                                mrail_relay_shm_pool_t *shm_pool_p)
{
    char path[sizeof(MRAIL_RELAY_DIR) + MRAIL_RELAY_NAME_SIZE];
    int fd, ret;

    if ((mrail_relay_shm_pool_size(shape) == 0) || !name_is_valid(name)) {
        return -EINVAL;
    }
    name_path(name, path);
    /* These flags reject symbolic links, and do not block on pipes. */
    fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return -errno;
    }
    ret = shm_pool_open(fd, shape, shm_pool_p);
    close(fd);
    return ret;
}

void mrail_relay_shm_pool_unlink(const char *name)
{
    char path[sizeof(MRAIL_RELAY_DIR) + MRAIL_RELAY_NAME_SIZE];

    if (name_is_valid(name)) {
        name_path(name, path);
        unlink(path);
    }
}

void mrail_relay_shm_pool_join(const mrail_relay_shm_pool_t *shm_pool)
{
    shm_pool_page_t *page = shm_pool->base;

    __atomic_add_fetch(&page->num_joined, 1, __ATOMIC_RELAXED);
}

void mrail_relay_shm_pool_close(const mrail_relay_shm_pool_t *shm_pool)
{
    shm_pool_page_t *page = shm_pool->base;

    __atomic_add_fetch(&page->num_closed, 1, __ATOMIC_RELEASE);
}

int mrail_relay_shm_pool_is_closed(const mrail_relay_shm_pool_t *shm_pool)
{
    const shm_pool_page_t *page = shm_pool->base;

    return __atomic_load_n(&page->num_closed, __ATOMIC_ACQUIRE) >=
           __atomic_load_n(&page->num_joined, __ATOMIC_RELAXED);
}

void mrail_relay_shm_pool_detach(mrail_relay_shm_pool_t *shm_pool)
{
    munmap(shm_pool->base, shm_pool->size);
    if (shm_pool->lock_fd >= 0) {
        close(shm_pool->lock_fd);
    }
    shm_pool->base = NULL;
    shm_pool->lock_fd = -1;
    shm_pool->size = 0;
}
