#include "config.h"
#include "telemetry/file.h"

#include "base/grow.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int file_prefix(char *to, size_t size)
{
    return snprintf(to, size, MRAIL_TELE_PREFIX "%u.", (unsigned)geteuid());
}

static mrail_tele_kind_t file_kind(const char *name)
{
    size_t length = strlen(name);

    for (unsigned kind = MRAIL_TELE_PAGE + 1; kind < MRAIL_TELE_ALL; ++kind) {
        size_t end = strlen(mrail_tele_suffix(kind));

        if ((length > end) &&
            (strcmp(name + length - end, mrail_tele_suffix(kind)) == 0)) {
            return (mrail_tele_kind_t)kind;
        }
    }
    return MRAIL_TELE_PAGE;
}

/* ---- readers ---- */

int mrail_tele_file_open(const char *path, struct stat *st)
{
    /* Do not follow a symbolic link, and do not block on a pipe: another
     * process may have planted either. */
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if ((fd >= 0) && (fstat(fd, st) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

int mrail_tele_file_is_held(int fd)
{
    /* The writer holds an exclusive lock. Readers test it with a shared lock,
     * so they do not exclude one another. */
    if (flock(fd, LOCK_SH | LOCK_NB) != 0) {
        return 1;
    }
    flock(fd, LOCK_UN);
    return 0;
}

/* The lock of readers that ask for records. It is an open file description lock
 * (fcntl(2)), which is independent of the lock by flock(2). */
static struct flock file_follow_lock(short type)
{
    return (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)1 << 40,
                          .l_len = 1};
}

void mrail_tele_file_follow(int fd)
{
    struct flock lock = file_follow_lock(F_RDLCK);

    (void)fcntl(fd, F_OFD_SETLK, &lock);
}

int mrail_tele_file_is_followed(const mrail_tele_file_t *file)
{
    struct flock lock = file_follow_lock(F_WRLCK);

    return (fcntl(file->fd, F_OFD_GETLK, &lock) == 0) &&
           (lock.l_type != F_UNLCK);
}

static int file_filter(const struct dirent *entry)
{
    char prefix[64];
    int length = file_prefix(prefix, sizeof(prefix));

    return strncmp(entry->d_name, prefix, (size_t)length) == 0;
}

int mrail_tele_file_each(const char *dir, mrail_tele_kind_t kind,
                         void (*visit)(const char *path, void *arg), void *arg)
{
    struct dirent **entries;
    char path[MRAIL_TELE_PATH];
    int count = scandir(dir, &entries, file_filter, versionsort), found = 0;

    if (count < 0) {
        return -errno;
    }
    for (int i = 0; i < count; ++i) {
        const char *name = entries[i]->d_name;

        if ((kind == MRAIL_TELE_ALL) || (kind == file_kind(name))) {
            int length = snprintf(path, sizeof(path), "%s/%s", dir, name);

            ++found;
            if ((visit != NULL) && (length > 0) &&
                ((size_t)length < sizeof(path))) {
                visit(path, arg);
            }
        }
        free(entries[i]);
    }
    free(entries);
    return found;
}

int mrail_tele_file_others(const char *dir)
{
    DIR *stream = opendir(dir);
    const struct dirent *entry;
    int count = 0;

    if (stream == NULL) {
        return -errno;
    }
    while ((entry = readdir(stream)) != NULL) {
        count += (strncmp(entry->d_name, MRAIL_TELE_PREFIX,
                          sizeof(MRAIL_TELE_PREFIX) - 1) == 0) &&
                 !file_filter(entry) &&
                 (file_kind(entry->d_name) == MRAIL_TELE_PAGE);
    }
    closedir(stream);
    return count;
}

/* ---- files of terminated processes ---- */

typedef struct file_dead {
    char path[MRAIL_TELE_PATH];
    size_t process;   /* bytes of the path that the process's files share */
    time_t changed_s; /* newest modification of the process's files */
} file_dead_t;

typedef struct file_cleaning {
    file_dead_t *dead;
    unsigned num, allocated;
    int ret;
} file_cleaning_t;

/* Returns the length of "DIR/PREFIX.UID.PID.". */
static size_t file_process(const char *path)
{
    char prefix[64];
    size_t length = (size_t)(strrchr(path, '/') + 1 - path) +
                    (size_t)file_prefix(prefix, sizeof(prefix));

    return length + strcspn(path + length, ".") + 1;
}

static void file_add_dead(file_cleaning_t *cleaning, const char *path,
                          time_t changed_s)
{
    file_dead_t *dead;

    if (cleaning->num == cleaning->allocated) {
        unsigned allocated = 64 + 2 * cleaning->allocated;

        if (!mrail_grow(&cleaning->dead, allocated, sizeof(*dead))) {
            cleaning->ret = -ENOMEM;
            return;
        }
        cleaning->allocated = allocated;
    }
    dead = &cleaning->dead[cleaning->num++];
    snprintf(dead->path, sizeof(dead->path), "%s", path);
    dead->process = file_process(path);
    dead->changed_s = changed_s;
}

static void file_find_dead(const char *path, void *arg)
{
    struct stat st;
    int fd = mrail_tele_file_open(path, &st);

    if (fd < 0) {
        return;
    }
    if (S_ISREG(st.st_mode) && (st.st_uid == geteuid()) &&
        !mrail_tele_file_is_held(fd)) {
        file_add_dead(arg, path, st.st_mtime);
    }
    close(fd);
}

/* Returns the index after the files of the process to which file `first`
 * belongs. */
static unsigned file_process_end(const file_cleaning_t *cleaning,
                                 unsigned first)
{
    const file_dead_t *dead = &cleaning->dead[first];
    unsigned end = first + 1;

    while ((end < cleaning->num) && (strncmp(cleaning->dead[end].path,
                                             dead->path, dead->process) == 0)) {
        ++end;
    }
    return end;
}

/* Makes all files of a process as old as the newest of them. Stores to a
 * mapping do not change the modification time, so the files of MPI calls and
 * forecasts look as old as their process. */
static void file_date_processes(file_cleaning_t *cleaning)
{
    for (unsigned i = 0, end; i < cleaning->num; i = end) {
        time_t newest_s = cleaning->dead[i].changed_s;

        end = file_process_end(cleaning, i);
        for (unsigned j = i; j < end; ++j) {
            newest_s = MRAIL_MAX(newest_s, cleaning->dead[j].changed_s);
        }
        for (unsigned j = i; j < end; ++j) {
            cleaning->dead[j].changed_s = newest_s;
        }
    }
}

/* The newest process comes first. The files of a process stay together. */
static int file_order(const void *a, const void *b)
{
    const file_dead_t *x = a, *y = b;

    if (x->changed_s != y->changed_s) {
        return (x->changed_s < y->changed_s) - (x->changed_s > y->changed_s);
    }
    return strcmp(x->path, y->path);
}

/* Removes the files of processes that terminated at least min_age_s ago, and
 * keeps at most `keep` other files. Returns the number of removed files. */
static int file_remove_dead(file_cleaning_t *cleaning, long min_age_s,
                            unsigned keep)
{
    time_t now_s = time(NULL);
    unsigned kept = 0;
    int count = 0;

    if (cleaning->num > 0) {
        file_date_processes(cleaning);
        qsort(cleaning->dead, cleaning->num, sizeof(*cleaning->dead),
              file_order);
    }
    for (unsigned i = 0, end; i < cleaning->num; i = end) {
        end = file_process_end(cleaning, i);
        if ((cleaning->dead[i].changed_s + min_age_s > now_s) &&
            (end - i <= keep - kept)) {
            kept += end - i;
            continue;
        }
        keep = kept; /* remove all older processes */
        for (unsigned j = i; j < end; ++j) {
            count += (unlink(cleaning->dead[j].path) == 0);
        }
    }
    return count;
}

static int file_clean(const char *dir, long min_age_s, unsigned keep)
{
    file_cleaning_t cleaning = {.ret = 0};
    int ret =
        mrail_tele_file_each(dir, MRAIL_TELE_ALL, file_find_dead, &cleaning);

    /* Without memory, the age of a process may be unknown. */
    ret = (ret < 0) ? ret : cleaning.ret;
    if (ret == 0) {
        ret = file_remove_dead(&cleaning, min_age_s, keep);
    }
    free(cleaning.dead);
    return ret;
}

int mrail_tele_file_clean(const char *dir, long min_age_s)
{
    return file_clean(dir, min_age_s, UINT_MAX);
}

/* ---- fork ---- */

/* A forked child would share the lock of a file, and would keep it after this
 * process has exited. The child therefore closes the file. A mapping keeps the
 * file open as well, so the child maps private memory in its place. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t open_once = PTHREAD_ONCE_INIT;
static mrail_list_t open_files = {&open_files, &open_files};

static void file_before_fork(void)
{
    pthread_mutex_lock(&open_lock);
}

static void file_in_parent(void)
{
    pthread_mutex_unlock(&open_lock);
}

static void file_in_child(void)
{
    while (!mrail_list_empty(&open_files)) {
        mrail_tele_file_t *file =
            mrail_list_head(&open_files, mrail_tele_file_t, list);

        mrail_list_del(&file->list);
        close(file->fd);
        file->fd = -1;
        if (file->memory != NULL) {
            (void)mmap(file->memory, file->size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        }
    }
    pthread_mutex_unlock(&open_lock);
}

static void file_register_atfork(void)
{
    (void)pthread_atfork(file_before_fork, file_in_parent, file_in_child);
}

static void file_list(mrail_tele_file_t *file)
{
    pthread_once(&open_once, file_register_atfork);
    pthread_mutex_lock(&open_lock);
    mrail_list_add_tail(&open_files, &file->list);
    pthread_mutex_unlock(&open_lock);
}

static void file_unlist(mrail_tele_file_t *file)
{
    pthread_mutex_lock(&open_lock);
    mrail_list_del(&file->list);
    pthread_mutex_unlock(&open_lock);
}

/* ---- writer ---- */

int mrail_tele_file_create(mrail_tele_file_t *file, const char *dir,
                           mrail_tele_kind_t kind, uint64_t id)
{
    char prefix[64];
    int ret;

    memset(file, 0, sizeof(*file));
    (void)file_clean(dir, MRAIL_TELE_KEEP_S, MRAIL_TELE_KEEP);
    file_prefix(prefix, sizeof(prefix));
    ret = snprintf(file->path, sizeof(file->path), "%s/%s%ld.%016llx%s", dir,
                   prefix, (long)getpid(), (unsigned long long)id,
                   mrail_tele_suffix(kind));
    if ((ret < 0) || ((size_t)ret >= sizeof(file->path))) {
        return -ENAMETOOLONG;
    }
    file->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0400);
    return (file->fd < 0) ? -errno : 0;
}

int mrail_tele_file_reserve(const mrail_tele_file_t *file, size_t offset,
                            size_t size)
{
    return -posix_fallocate(file->fd, (off_t)offset, (off_t)size);
}

int mrail_tele_file_map(mrail_tele_file_t *file, size_t offset, size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_POPULATE, file->fd, (off_t)offset);

    if (memory == MAP_FAILED) {
        return -errno;
    }
    file->memory = memory;
    file->size = size;
    return 0;
}

int mrail_tele_file_export(mrail_tele_file_t *file)
{
    char own[64];

    snprintf(own, sizeof(own), "/proc/self/fd/%d", file->fd);
    if ((flock(file->fd, LOCK_EX | LOCK_NB) != 0) ||
        (linkat(AT_FDCWD, own, AT_FDCWD, file->path, AT_SYMLINK_FOLLOW) != 0)) {
        return -errno;
    }
    file_list(file);
    return 0;
}

void mrail_tele_file_discard(mrail_tele_file_t *file)
{
    if (file->fd >= 0) {
        close(file->fd);
    }
    if (file->memory != NULL) {
        munmap(file->memory, file->size);
    }
}

void mrail_tele_file_remove(mrail_tele_file_t *file)
{
    if (file->fd >= 0) { /* a forked child does not remove it */
        file_unlist(file);
        unlink(file->path);
    }
    mrail_tele_file_discard(file);
}
