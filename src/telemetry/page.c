#include "config.h"
#include "telemetry/page.h"

#include "base/clock.h"
#include "telemetry/page_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define READ_TRIES 64

struct mrail_page_file {
    mrail_tele_file_t file; /* the file; its mapping is the ring */
    mrail_ring_t ring;      /* its initial state, for mrail_page_ring() */
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

/* ---- writing ---- */

/* Not inlined, because gcc 12 would assume that only the first member of the
 * structure is written, and warn. */
__attribute__((noinline)) static void page_write(const mrail_page_file_t *file,
                                                 const void *from, size_t size,
                                                 size_t offset)
{
    /* If another process truncates the file, or the file system is full, the
     * page is incomplete for readers. The writer continues. */
    (void)!pwrite(file->file.fd, from, size, (off_t)offset);
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

/* ---- open and close ---- */

/* Reserves the memory of the file, without the gap before the ring. */
static int page_reserve(const mrail_page_file_t *file, size_t ring_size)
{
    int ret = mrail_tele_file_reserve(&file->file, 0, sizeof(file->page));

    if ((ret == 0) && (ring_size != 0)) {
        ret =
            mrail_tele_file_reserve(&file->file, MRAIL_PAGE_RING_AT, ring_size);
    }
    return ret;
}

/* Writes the page and, if there are records, the header of the ring. */
static int page_make(mrail_page_file_t *file, uint32_t num_records)
{
    size_t ring_size = (num_records == 0) ? 0 : mrail_ring_size(num_records);
    int ret = page_reserve(file, ring_size);

    if (ret != 0) {
        return ret;
    }
    page_init(&file->page, ring_size);
    page_write(file, file->image, sizeof(file->image), 0);
    if (num_records != 0) {
        ret = mrail_tele_file_map(&file->file, MRAIL_PAGE_RING_AT, ring_size);
        if (ret != 0) {
            return ret;
        }
        mrail_ring_init(&file->ring, file->file.memory, num_records);
    }
    return mrail_tele_file_export(&file->file);
}

int mrail_page_create(const char *dir, uint64_t suffix, uint32_t num_records,
                      mrail_page_file_t **file_p)
{
    mrail_page_file_t *file = calloc(1, sizeof(*file));
    int ret;

    if (file == NULL) {
        return -ENOMEM;
    }
    ret = mrail_tele_file_create(&file->file, dir, MRAIL_TELE_PAGE, suffix);
    if (ret != 0) {
        goto err_free;
    }
    ret = page_make(file, num_records);
    if (ret != 0) {
        goto err_discard;
    }
    *file_p = file;
    return 0;

err_discard:
    mrail_tele_file_discard(&file->file);
err_free:
    free(file);
    return ret;
}

void mrail_page_remove(mrail_page_file_t *file)
{
    if (file != NULL) {
        mrail_tele_file_remove(&file->file);
        free(file);
    }
}

mrail_ring_t mrail_page_ring(const mrail_page_file_t *file)
{
    return file->ring;
}

int mrail_page_is_followed(const mrail_page_file_t *file)
{
    return mrail_tele_file_is_followed(&file->file);
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
    [MRAIL_PAGE_ALIVE] = "the process is running",
    [MRAIL_PAGE_ENDED] = "the process was killed",
    [MRAIL_PAGE_FOREIGN] = "the file belongs to another user",
    [MRAIL_PAGE_OTHER] = "the file was written by another version of mrail",
    [MRAIL_PAGE_BROKEN] = "not a telemetry page, or truncated",
    [MRAIL_PAGE_GONE] = "the file cannot be opened",
    [MRAIL_PAGE_NO_RING] =
        "the process runs with UCX_MRAIL_TELEMETRY_RECORDS=0",
};

const char *mrail_page_status_text(mrail_page_status_t status)
{
    return status_texts[status];
}

void mrail_page_clean_text(char *text, size_t size)
{
    size_t i;

    for (i = 0; (i + 1 < size) && (text[i] != '\0'); ++i) {
        if ((text[i] < ' ') || (text[i] > '~')) {
            text[i] = '?';
        }
    }
    memset(text + i, 0, size - i);
}

#define CLEAN_TEXT(_field) mrail_page_clean_text((_field), sizeof(_field))

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

/* Returns 1 if *page is consistent, 0 if it changed during the copy, -1 if it
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

mrail_page_status_t mrail_page_read_fd(int fd, mrail_page_t *page)
{
    mrail_page_head_t head;
    mrail_page_status_t status;
    struct stat st;
    int held, whole = 0;

    if (fstat(fd, &st) != 0) {
        return MRAIL_PAGE_GONE;
    }
    status = mrail_page_check(fd, &st, &head);
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
    held = mrail_tele_file_is_held(fd);
    page_clean(page);
    return held ? MRAIL_PAGE_ALIVE : MRAIL_PAGE_ENDED;
}

static mrail_page_status_t page_open_error(void)
{
    return (errno == EACCES) ? MRAIL_PAGE_FOREIGN : MRAIL_PAGE_GONE;
}

mrail_page_status_t mrail_page_read(const char *path, mrail_page_t *page)
{
    struct stat st;
    int fd = mrail_tele_file_open(path, &st);
    mrail_page_status_t status;

    if (fd < 0) {
        return page_open_error();
    }
    status = mrail_page_read_fd(fd, page);
    close(fd);
    return status;
}

mrail_page_status_t mrail_page_peek(const char *path, int64_t *changed_s_p)
{
    struct stat st;
    mrail_page_head_t head;
    int fd = mrail_tele_file_open(path, &st);
    mrail_page_status_t status;

    if (fd < 0) {
        return page_open_error();
    }
    status = mrail_page_check(fd, &st, &head);
    if ((status == MRAIL_PAGE_ALIVE) && !mrail_tele_file_is_held(fd)) {
        status = MRAIL_PAGE_ENDED;
    }
    *changed_s_p = st.st_mtime;
    close(fd);
    return status;
}
