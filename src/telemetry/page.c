#include "config.h"
#include "telemetry/page.h"

#include "base/clock.h"
#include "base/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READ_TRIES 64

struct mrail_page_file {
    int fd;            /* -1 in a child of fork(), which has no file */
    mrail_list_t list; /* open_files */
    char path[MRAIL_PAGE_PATH];
    union {
        mrail_page_t page;
        char image[sizeof(mrail_page_t)]; /* as in the file */
    };
};

uint64_t mrail_page_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * MRAIL_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* ---- files ---- */

static int ring_prefix(char *to, size_t size)
{
    return snprintf(to, size, "mrail-telemetry.%u.", (unsigned)geteuid());
}

/* Neither a link nor a pipe that somebody has put there. */
static int ring_open(const char *path, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if ((fd >= 0) && (fstat(fd, st) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Who lives has it locked; who only looks may look together with others. */
static int ring_is_held(int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0) {
        return 1;
    }
    flock(fd, LOCK_UN);
    return 0;
}

typedef struct ring_cleaning {
    long min_age_s;
    int count;
} ring_cleaning_t;

static void ring_clean_one(const char *path, void *arg)
{
    ring_cleaning_t *cleaning = arg;
    struct stat st;
    int fd = ring_open(path, &st);

    if (fd < 0) {
        return;
    }
    if (S_ISREG(st.st_mode) && (st.st_uid == geteuid()) &&
        (st.st_mtime + cleaning->min_age_s <= time(NULL)) &&
        !ring_is_held(fd) && (unlink(path) == 0)) {
        ++cleaning->count;
    }
    close(fd);
}

int mrail_page_clean(const char *dir, long min_age_s)
{
    ring_cleaning_t cleaning = {.min_age_s = min_age_s};
    int ret = mrail_page_each(dir, ring_clean_one, &cleaning);

    return (ret < 0) ? ret : cleaning.count;
}

/* ---- writing ---- */

/* Inlined, gcc 12 would take the first member of a structure for all of it, and
 * warn. */
__attribute__((noinline)) static void ring_write(const mrail_page_file_t *file,
                                                 const void *from, size_t size,
                                                 size_t offset)
{
    /* A file that somebody has cut or that has no room is incomplete for its
     * readers; nobody else minds. */
    (void)!pwrite(file->fd, from, size, (off_t)offset);
}

#define RING_WRITE(_file, _field)                                              \
    ring_write((_file), &(_file)->page._field, sizeof((_file)->page._field),   \
               offsetof(mrail_page_t, _field))

/* A reader takes what it has copied only if all changes were complete before,
 * and none had begun after. */
static void ring_begin(mrail_page_file_t *file)
{
    ++file->page.head.begun;
    RING_WRITE(file, head.begun);
}

static void ring_end(mrail_page_file_t *file)
{
    file->page.head.done = file->page.head.begun;
    RING_WRITE(file, head.done);
}

static void ring_init(mrail_page_t *page)
{
    page->head.magic = MRAIL_PAGE_MAGIC;
    page->head.version = MRAIL_PAGE_VERSION;
    page->head.size = sizeof(*page);
    page->head.pid = (uint32_t)getpid();
    page->rank = -1;
    page->start_ns = page->update_ns = mrail_page_now();
}

/* ---- fork ---- */

/* A child of fork() would share the lock of the file, and keep it when this
 * process has ended: the file is closed there. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t open_once = PTHREAD_ONCE_INIT;
static mrail_list_t open_files = {&open_files, &open_files};

static void ring_before_fork(void)
{
    pthread_mutex_lock(&open_lock);
}

static void ring_in_parent(void)
{
    pthread_mutex_unlock(&open_lock);
}

static void ring_in_child(void)
{
    while (!mrail_list_empty(&open_files)) {
        mrail_page_file_t *file =
            mrail_list_head(&open_files, mrail_page_file_t, list);

        mrail_list_del(&file->list);
        close(file->fd);
        file->fd = -1;
    }
    pthread_mutex_unlock(&open_lock);
}

static void ring_watch_forks(void)
{
    (void)pthread_atfork(ring_before_fork, ring_in_parent, ring_in_child);
}

static void ring_list(mrail_page_file_t *file)
{
    pthread_once(&open_once, ring_watch_forks);
    pthread_mutex_lock(&open_lock);
    mrail_list_add_tail(&open_files, &file->list);
    pthread_mutex_unlock(&open_lock);
}

static void ring_unlist(mrail_page_file_t *file)
{
    pthread_mutex_lock(&open_lock);
    mrail_list_del(&file->list);
    pthread_mutex_unlock(&open_lock);
}

/* ---- life ---- */

/* It has no name before it is locked and complete, so that nobody takes it for
 * one whose process has ended. */
static int ring_make(mrail_page_file_t *file, const char *dir)
{
    char own[64];
    int ret;

    file->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file->fd < 0) {
        return -errno;
    }
    snprintf(own, sizeof(own), "/proc/self/fd/%d", file->fd);
    ret = -posix_fallocate(file->fd, 0, sizeof(file->page));
    if (ret == 0) {
        ring_init(&file->page);
        ring_write(file, file->image, sizeof(file->image), 0);
        if ((flock(file->fd, LOCK_EX | LOCK_NB) != 0) ||
            (linkat(AT_FDCWD, own, AT_FDCWD, file->path, AT_SYMLINK_FOLLOW) !=
             0)) {
            ret = -errno;
        }
    }
    if (ret != 0) {
        close(file->fd);
    }
    return ret;
}

static void ring_make_room(const char *dir)
{
    if (mrail_page_each(dir, NULL, NULL) > MRAIL_PAGE_KEEP) {
        mrail_page_clean(dir, 0);
    } else {
        mrail_page_clean(dir, MRAIL_PAGE_KEEP_S);
    }
}

int mrail_page_create(const char *dir, uint64_t suffix,
                      mrail_page_file_t **file_p)
{
    mrail_page_file_t *file;
    char prefix[64];
    int ret;

    ring_make_room(dir);
    file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return -ENOMEM;
    }
    ring_prefix(prefix, sizeof(prefix));
    ret = snprintf(file->path, sizeof(file->path), "%s/%s%ld.%016llx", dir,
                   prefix, (long)getpid(), (unsigned long long)suffix);
    ret = ((ret < 0) || ((size_t)ret >= sizeof(file->path)))
              ? -ENAMETOOLONG
              : ring_make(file, dir);
    if (ret != 0) {
        free(file);
        return ret;
    }
    ring_list(file);
    *file_p = file;
    return 0;
}

void mrail_page_remove(mrail_page_file_t *file)
{
    if (file == NULL) {
        return;
    }
    ring_unlist(file);
    if (file->fd >= 0) {
        unlink(file->path);
        close(file->fd);
    }
    free(file);
}

mrail_page_t *mrail_page_own(mrail_page_file_t *file)
{
    return &file->page;
}

void mrail_page_update(mrail_page_file_t *file)
{
    size_t from = offsetof(mrail_page_t, start_ns);

    file->page.update_ns = mrail_page_now();
    ring_begin(file);
    ring_write(file, file->image + from, offsetof(mrail_page_t, events) - from,
               from);
    ring_end(file);
}

void mrail_page_event(mrail_page_file_t *file, const char *format, ...)
{
    mrail_page_event_t *event;
    va_list args;

    if (file == NULL) {
        return;
    }
    event = &file->page.events[file->page.num_events % MRAIL_PAGE_EVENTS];
    event->time_ns = mrail_page_now();
    va_start(args, format);
    vsnprintf(event->text, sizeof(event->text), format, args);
    va_end(args);
    ++file->page.num_events;
    ring_begin(file);
    ring_write(file, event, sizeof(*event),
               (size_t)((char *)event - file->image));
    RING_WRITE(file, num_events);
    ring_end(file);
}

/* ---- reading ---- */

static const char *const verdicts[] = {
    [MRAIL_PAGE_ALIVE] = "its process runs",
    [MRAIL_PAGE_ENDED] = "its process ended without taking leave",
    [MRAIL_PAGE_FOREIGN] = "it belongs to another user",
    [MRAIL_PAGE_OTHER] = "it was written by another version of mrail",
    [MRAIL_PAGE_BROKEN] = "it is not a telemetry ring, or not all of one",
    [MRAIL_PAGE_GONE] = "it cannot be opened",
};

const char *mrail_page_status_text(mrail_page_status_t verdict)
{
    return verdicts[verdict];
}

/* Up to the first NUL or the end, with nothing that a terminal would obey. */
static void ring_clean_text(char *text, size_t size)
{
    size_t i;

    for (i = 0; (i + 1 < size) && (text[i] != '\0'); ++i) {
        if ((text[i] < ' ') || (text[i] > '~')) {
            text[i] = '?';
        }
    }
    memset(text + i, 0, size - i);
}

#define CLEAN_TEXT(_field) ring_clean_text((_field), sizeof(_field))

static void ring_clean(mrail_page_t *page)
{
    page->num_rails = MRAIL_MIN(page->num_rails, MRAIL_PAGE_RAILS);
    page->num_counters = MRAIL_MIN(page->num_counters, MRAIL_PAGE_COUNTERS);
    page->num_lanes = MRAIL_MIN(page->num_lanes, MRAIL_PAGE_LANES);
    CLEAN_TEXT(page->job);
    CLEAN_TEXT(page->program);
    for (unsigned i = 0; i < MRAIL_PAGE_RAILS; ++i) {
        CLEAN_TEXT(page->rails[i].device);
    }
    for (unsigned i = 0; i < MRAIL_PAGE_COUNTERS; ++i) {
        CLEAN_TEXT(page->counters[i].name);
    }
    for (unsigned i = 0; i < MRAIL_PAGE_LANES; ++i) {
        CLEAN_TEXT(page->lanes[i].state);
        page->lanes[i].rail =
            MRAIL_MIN(page->lanes[i].rail, MRAIL_PAGE_RAILS - 1);
    }
    for (unsigned i = 0; i < MRAIL_PAGE_EVENTS; ++i) {
        CLEAN_TEXT(page->events[i].text);
    }
}

static int ring_get(int fd, void *to, size_t size)
{
    return pread(fd, to, size, 0) == (ssize_t)size;
}

/* 1: *ring holds together; 0: it was being changed; -1: it is not all there. */
static int ring_copy(int fd, mrail_page_t *page)
{
    mrail_page_head_t before, after;

    if (!ring_get(fd, &before, sizeof(before)) ||
        !ring_get(fd, page, sizeof(*page)) ||
        !ring_get(fd, &after, sizeof(after))) {
        return -1;
    }
    return (before.begun == before.done) && (after.begun == before.done);
}

static mrail_page_status_t ring_read_open(int fd, const struct stat *st,
                                          mrail_page_t *page)
{
    mrail_page_head_t head;
    int held, whole = 0;

    if ((st->st_uid != geteuid()) && (geteuid() != 0)) {
        return MRAIL_PAGE_FOREIGN;
    }
    /* Of another version's file only the head is looked at. */
    if (!S_ISREG(st->st_mode) || !ring_get(fd, &head, sizeof(head)) ||
        (head.magic != MRAIL_PAGE_MAGIC)) {
        return MRAIL_PAGE_BROKEN;
    }
    if (head.version != MRAIL_PAGE_VERSION) {
        return MRAIL_PAGE_OTHER;
    }
    if ((head.size != sizeof(*page)) || (st->st_size != (off_t)sizeof(*page))) {
        return MRAIL_PAGE_BROKEN;
    }
    /* Who was killed amid a change has left it so. */
    for (unsigned i = 0; (whole == 0) && (i < READ_TRIES); ++i) {
        if (i != 0) {
            usleep(100);
        }
        whole = ring_copy(fd, page);
    }
    if (whole < 0) {
        return MRAIL_PAGE_BROKEN;
    }
    held = ring_is_held(fd);
    ring_clean(page);
    return held ? MRAIL_PAGE_ALIVE : MRAIL_PAGE_ENDED;
}

mrail_page_status_t mrail_page_read(const char *path, mrail_page_t *page)
{
    struct stat st;
    int fd = ring_open(path, &st);
    mrail_page_status_t verdict;

    if (fd < 0) {
        return (errno == EACCES) ? MRAIL_PAGE_FOREIGN : MRAIL_PAGE_GONE;
    }
    verdict = ring_read_open(fd, &st, page);
    close(fd);
    return verdict;
}

static int ring_filter(const struct dirent *entry)
{
    char prefix[64];
    int length = ring_prefix(prefix, sizeof(prefix));

    return strncmp(entry->d_name, prefix, (size_t)length) == 0;
}

int mrail_page_each(const char *dir, void (*visit)(const char *path, void *arg),
                    void *arg)
{
    struct dirent **entries;
    char path[MRAIL_PAGE_PATH];
    int count = scandir(dir, &entries, ring_filter, versionsort);

    if (count < 0) {
        return -errno;
    }
    for (int i = 0; i < count; ++i) {
        int length =
            snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name);

        if ((visit != NULL) && (length > 0) &&
            ((size_t)length < sizeof(path))) {
            visit(path, arg);
        }
        free(entries[i]);
    }
    free(entries);
    return count;
}
