#include "config.h"
#include "telemetry/page.h"

#include "base/clock.h"
#include "base/list.h"
#include "telemetry/page_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define READ_TRIES 64

struct mrail_page_file {
    int fd;            /* -1 in a child after fork(), which closes the file */
    mrail_list_t list; /* node of open_files */
    mrail_ring_t ring; /* as it was initialised */
    void *ring_memory; /* mapping of the ring; NULL: there is none */
    size_t ring_size;
    char path[MRAIL_PAGE_PATH];
    union {
        mrail_page_t page;
        char image[sizeof(mrail_page_t)]; /* the page as it is in the file */
    };
};

uint64_t mrail_page_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * MRAIL_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* ---- files ---- */

static int page_prefix(char *to, size_t size)
{
    return snprintf(to, size, "mrail-telemetry.%u.", (unsigned)geteuid());
}

int mrail_page_open(const char *path, struct stat *st)
{
    /* Do not follow symbolic links or block on a pipe, because another process
     * may have planted one. */
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if ((fd >= 0) && (fstat(fd, st) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

int mrail_page_is_held(int fd)
{
    /* The writer holds an exclusive lock. Readers test it with a shared lock,
     * so they do not exclude one another. */
    if (flock(fd, LOCK_SH | LOCK_NB) != 0) {
        return 1;
    }
    flock(fd, LOCK_UN);
    return 0;
}

typedef struct page_cleaning {
    long min_age_s;
    int count;
} page_cleaning_t;

static void page_clean_one(const char *path, void *arg)
{
    page_cleaning_t *cleaning = arg;
    struct stat st;
    int fd = mrail_page_open(path, &st);

    if (fd < 0) {
        return;
    }
    if (S_ISREG(st.st_mode) && (st.st_uid == geteuid()) &&
        (st.st_mtime + cleaning->min_age_s <= time(NULL)) &&
        !mrail_page_is_held(fd) && (unlink(path) == 0)) {
        ++cleaning->count;
    }
    close(fd);
}

int mrail_page_clean(const char *dir, long min_age_s)
{
    page_cleaning_t cleaning = {.min_age_s = min_age_s};
    int ret = mrail_page_each(dir, page_clean_one, &cleaning);

    return (ret < 0) ? ret : cleaning.count;
}

/* ---- writing ---- */

/* Not inlined, because gcc 12 would assume that only the first member of the
 * structure is written, and warn. */
__attribute__((noinline)) static void page_write(const mrail_page_file_t *file,
                                                 const void *from, size_t size,
                                                 size_t offset)
{
    /* If another process truncates the file, or the file system is full,
     * readers see an incomplete page, but the writer continues. */
    (void)!pwrite(file->fd, from, size, (off_t)offset);
}

#define PAGE_WRITE(_file, _field)                                              \
    page_write((_file), &(_file)->page._field, sizeof((_file)->page._field),   \
               offsetof(mrail_page_t, _field))

/* Begins a change. A reader accepts its copy only if all changes were complete
 * before it started copying, and none has begun since. */
static void page_begin(mrail_page_file_t *file)
{
    ++file->page.head.begun;
    PAGE_WRITE(file, head.begun);
}

static void page_end(mrail_page_file_t *file)
{
    file->page.head.done = file->page.head.begun;
    PAGE_WRITE(file, head.done);
}

static void page_init(mrail_page_t *page, size_t ring_size)
{
    page->head.magic = MRAIL_PAGE_MAGIC;
    page->head.version = MRAIL_PAGE_VERSION;
    page->head.size = sizeof(*page);
    page->head.pid = (uint32_t)getpid();
    page->head.ring_size = ring_size;
    page->rank = -1;
    page->start_ns = page->update_ns = mrail_page_now();
}

/* ---- fork ---- */

/* A forked child would share the lock of the file, and would keep it after this
 * process has ended. The child therefore closes the file. A mapping also keeps
 * the file open, so the child replaces the ring with private memory. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t open_once = PTHREAD_ONCE_INIT;
static mrail_list_t open_files = {&open_files, &open_files};

static void page_before_fork(void)
{
    pthread_mutex_lock(&open_lock);
}

static void page_in_parent(void)
{
    pthread_mutex_unlock(&open_lock);
}

static void page_in_child(void)
{
    while (!mrail_list_empty(&open_files)) {
        mrail_page_file_t *file =
            mrail_list_head(&open_files, mrail_page_file_t, list);

        mrail_list_del(&file->list);
        close(file->fd);
        file->fd = -1;
        if (file->ring_memory != NULL) {
            (void)mmap(file->ring_memory, file->ring_size,
                       PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        }
    }
    pthread_mutex_unlock(&open_lock);
}

static void page_register_atfork(void)
{
    (void)pthread_atfork(page_before_fork, page_in_parent, page_in_child);
}

static void page_list(mrail_page_file_t *file)
{
    pthread_once(&open_once, page_register_atfork);
    pthread_mutex_lock(&open_lock);
    mrail_list_add_tail(&open_files, &file->list);
    pthread_mutex_unlock(&open_lock);
}

static void page_unlist(mrail_page_file_t *file)
{
    pthread_mutex_lock(&open_lock);
    mrail_list_del(&file->list);
    pthread_mutex_unlock(&open_lock);
}

/* ---- open and close ---- */

/* Reserves the memory of the file, except for the gap before the ring.
 * Otherwise a store to the ring would kill the process when the file system is
 * full. */
static int page_allocate(const mrail_page_file_t *file)
{
    int ret = -posix_fallocate(file->fd, 0, sizeof(file->page));

    if ((ret == 0) && (file->ring_size != 0)) {
        ret = -posix_fallocate(file->fd, MRAIL_PAGE_RING_AT,
                               (off_t)file->ring_size);
    }
    return ret;
}

/* Maps the ring, if there is one. The mapping is pre-faulted, so that the first
 * records cause no page faults. */
static int page_map_ring(mrail_page_file_t *file, uint32_t num_records)
{
    void *memory;

    if (num_records == 0) {
        return 0;
    }
    memory = mmap(NULL, file->ring_size, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_POPULATE, file->fd, MRAIL_PAGE_RING_AT);
    if (memory == MAP_FAILED) {
        return -errno;
    }
    file->ring_memory = memory;
    mrail_ring_init(&file->ring, memory, num_records);
    return 0;
}

static void page_unmap_ring(mrail_page_file_t *file)
{
    if (file->ring_memory != NULL) {
        munmap(file->ring_memory, file->ring_size);
    }
}

/* Locks the file and gives it its name. */
static int page_name(const mrail_page_file_t *file)
{
    char own[64];

    snprintf(own, sizeof(own), "/proc/self/fd/%d", file->fd);
    if ((flock(file->fd, LOCK_EX | LOCK_NB) != 0) ||
        (linkat(AT_FDCWD, own, AT_FDCWD, file->path, AT_SYMLINK_FOLLOW) != 0)) {
        return -errno;
    }
    return 0;
}

/* Creates the file. It gets its name only when it is locked and complete, so
 * that no reader mistakes it for the page of an ended process. */
static int page_make(mrail_page_file_t *file, const char *dir,
                     uint32_t num_records)
{
    int ret;

    file->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0400);
    if (file->fd < 0) {
        return -errno;
    }
    ret = page_allocate(file);
    if (ret != 0) {
        goto err_close;
    }
    page_init(&file->page, file->ring_size);
    page_write(file, file->image, sizeof(file->image), 0);
    ret = page_map_ring(file, num_records);
    if (ret != 0) {
        goto err_close;
    }
    ret = page_name(file);
    if (ret != 0) {
        goto err_unmap;
    }
    return 0;

err_unmap:
    page_unmap_ring(file);
err_close:
    close(file->fd);
    return ret;
}

static void page_make_room(const char *dir)
{
    if (mrail_page_each(dir, NULL, NULL) > MRAIL_PAGE_KEEP) {
        mrail_page_clean(dir, 0);
    } else {
        mrail_page_clean(dir, MRAIL_PAGE_KEEP_S);
    }
}

int mrail_page_create(const char *dir, uint64_t suffix, uint32_t num_records,
                      mrail_page_file_t **file_p)
{
    mrail_page_file_t *file;
    char prefix[64];
    int ret;

    page_make_room(dir);
    file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return -ENOMEM;
    }
    file->ring_size = (num_records == 0) ? 0 : mrail_ring_size(num_records);
    page_prefix(prefix, sizeof(prefix));
    ret = snprintf(file->path, sizeof(file->path), "%s/%s%ld.%016llx", dir,
                   prefix, (long)getpid(), (unsigned long long)suffix);
    ret = ((ret < 0) || ((size_t)ret >= sizeof(file->path)))
              ? -ENAMETOOLONG
              : page_make(file, dir, num_records);
    if (ret != 0) {
        free(file);
        return ret;
    }
    page_list(file);
    *file_p = file;
    return 0;
}

void mrail_page_remove(mrail_page_file_t *file)
{
    if (file == NULL) {
        return;
    }
    page_unlist(file);
    if (file->fd >= 0) {
        unlink(file->path);
        close(file->fd);
    }
    page_unmap_ring(file);
    free(file);
}

mrail_ring_t mrail_page_ring(const mrail_page_file_t *file)
{
    return file->ring;
}

mrail_page_t *mrail_page_own(mrail_page_file_t *file)
{
    return &file->page;
}

void mrail_page_update(mrail_page_file_t *file)
{
    size_t from = offsetof(mrail_page_t, start_ns);
    size_t end = offsetof(mrail_page_t, lanes) +
                 file->page.num_lanes * sizeof(mrail_page_lane_t);

    file->page.update_ns = mrail_page_now();
    page_begin(file);
    page_write(file, file->image + from, end - from, from);
    page_end(file);
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
    page_begin(file);
    page_write(file, event, sizeof(*event),
               (size_t)((char *)event - file->image));
    PAGE_WRITE(file, num_events);
    page_end(file);
}

/* ---- reading ---- */

static const char *const status_texts[] = {
    [MRAIL_PAGE_ALIVE] = "its process runs",
    [MRAIL_PAGE_ENDED] = "its process was killed",
    [MRAIL_PAGE_FOREIGN] = "it belongs to another user",
    [MRAIL_PAGE_OTHER] = "it was written by another version of mrail",
    [MRAIL_PAGE_BROKEN] = "it is not a telemetry page, or only part of one",
    [MRAIL_PAGE_GONE] = "it cannot be opened",
    [MRAIL_PAGE_NO_RING] =
        "its process runs with UCX_MRAIL_TELEMETRY_RECORDS=0",
};

const char *mrail_page_status_text(mrail_page_status_t status)
{
    return status_texts[status];
}

/* Ends the text at the first NUL and replaces control characters, for
 * terminals. */
static void page_clean_text(char *text, size_t size)
{
    size_t i;

    for (i = 0; (i + 1 < size) && (text[i] != '\0'); ++i) {
        if ((text[i] < ' ') || (text[i] > '~')) {
            text[i] = '?';
        }
    }
    memset(text + i, 0, size - i);
}

#define CLEAN_TEXT(_field) page_clean_text((_field), sizeof(_field))

static void page_clean(mrail_page_t *page)
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

static int page_get(int fd, void *to, size_t size)
{
    return pread(fd, to, size, 0) == (ssize_t)size;
}

/* Returns 1 if *page is consistent, 0 if it changed in the meantime, -1 if it
 * is incomplete. */
static int page_copy(int fd, mrail_page_t *page)
{
    mrail_page_head_t before, after;

    if (!page_get(fd, &before, sizeof(before)) ||
        !page_get(fd, page, sizeof(*page)) ||
        !page_get(fd, &after, sizeof(after))) {
        return -1;
    }
    return (before.begun == before.done) && (after.begun == before.done);
}

mrail_page_status_t mrail_page_check(int fd, const struct stat *st,
                                     mrail_page_head_t *head)
{
    uint64_t size;

    if ((st->st_uid != geteuid()) && (geteuid() != 0)) {
        return MRAIL_PAGE_FOREIGN;
    }
    /* If the version differs, only the first fields are readable. */
    if (!S_ISREG(st->st_mode) || !page_get(fd, head, sizeof(*head)) ||
        (head->magic != MRAIL_PAGE_MAGIC)) {
        return MRAIL_PAGE_BROKEN;
    }
    if (head->version != MRAIL_PAGE_VERSION) {
        return MRAIL_PAGE_OTHER;
    }
    if ((head->size != sizeof(mrail_page_t)) ||
        (head->ring_size > mrail_ring_size(MRAIL_RING_MAX))) {
        return MRAIL_PAGE_BROKEN;
    }
    size = (head->ring_size == 0) ? head->size
                                  : MRAIL_PAGE_RING_AT + head->ring_size;
    return (st->st_size == (off_t)size) ? MRAIL_PAGE_ALIVE : MRAIL_PAGE_BROKEN;
}

static mrail_page_status_t page_read_open(int fd, const struct stat *st,
                                          mrail_page_t *page)
{
    mrail_page_head_t head;
    mrail_page_status_t status = mrail_page_check(fd, st, &head);
    int held, whole = 0;

    if (status != MRAIL_PAGE_ALIVE) {
        return status;
    }
    /* A process killed during a change leaves the page inconsistent. */
    for (unsigned i = 0; (whole == 0) && (i < READ_TRIES); ++i) {
        if (i != 0) {
            usleep(100);
        }
        whole = page_copy(fd, page);
    }
    if (whole < 0) {
        return MRAIL_PAGE_BROKEN;
    }
    held = mrail_page_is_held(fd);
    page_clean(page);
    return held ? MRAIL_PAGE_ALIVE : MRAIL_PAGE_ENDED;
}

mrail_page_status_t mrail_page_read(const char *path, mrail_page_t *page)
{
    struct stat st;
    int fd = mrail_page_open(path, &st);
    mrail_page_status_t status;

    if (fd < 0) {
        return (errno == EACCES) ? MRAIL_PAGE_FOREIGN : MRAIL_PAGE_GONE;
    }
    status = page_read_open(fd, &st, page);
    close(fd);
    return status;
}

static int page_filter(const struct dirent *entry)
{
    char prefix[64];
    int length = page_prefix(prefix, sizeof(prefix));

    return strncmp(entry->d_name, prefix, (size_t)length) == 0;
}

int mrail_page_each(const char *dir, void (*visit)(const char *path, void *arg),
                    void *arg)
{
    struct dirent **entries;
    char path[MRAIL_PAGE_PATH];
    int count = scandir(dir, &entries, page_filter, versionsort);

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
