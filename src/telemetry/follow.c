#include "config.h"
#include "telemetry/follow.h"

#include "telemetry/page_internal.h"

#include <errno.h>
#include <unistd.h>

/* Maximum attempts if a span was overwritten entirely, because the reader may
 * always be slower than the writer. */
#define FOLLOW_TRIES 4

static int follow_get(int fd, void *to, size_t size, size_t offset)
{
    return pread(fd, to, size, (off_t)(MRAIL_PAGE_RING_AT + offset)) ==
           (ssize_t)size;
}

mrail_page_status_t mrail_follow_open_fd(mrail_follow_t *follow, int fd)
{
    mrail_ring_header_t header;
    mrail_ring_reader_t reader;
    mrail_page_status_t status;
    mrail_page_head_t head;
    struct stat st;
    int ret;

    if (fstat(fd, &st) != 0) {
        return MRAIL_PAGE_GONE;
    }
    status = mrail_page_check(fd, &st, &head);
    if (status != MRAIL_PAGE_ALIVE) {
        return status;
    }
    if (head.ring_size == 0) {
        return MRAIL_PAGE_NO_RING;
    }
    if (!follow_get(fd, &header, sizeof(header), 0)) {
        return MRAIL_PAGE_BROKEN;
    }
    ret = mrail_ring_reader_init(&reader, &header, (size_t)head.ring_size);
    if (ret != 0) {
        return (ret == -EPROTO) ? MRAIL_PAGE_OTHER : MRAIL_PAGE_BROKEN;
    }
    follow->fd = fd;
    follow->reader = reader;
    return MRAIL_PAGE_ALIVE;
}

mrail_page_status_t mrail_follow_open(mrail_follow_t *follow, const char *path)
{
    mrail_page_status_t status;
    struct stat st;
    int fd = mrail_tele_file_open(path, &st);

    if (fd < 0) {
        return (errno == EACCES) ? MRAIL_PAGE_FOREIGN : MRAIL_PAGE_GONE;
    }
    status = mrail_follow_open_fd(follow, fd);
    if (status != MRAIL_PAGE_ALIVE) {
        close(fd);
    }
    return status;
}

void mrail_follow_request(const mrail_follow_t *follow)
{
    mrail_tele_file_follow(follow->fd);
}

/* Reads the head, before the records and again after them. The kernel takes and
 * drops a reference to the page of each copy, with full barriers, so the loads
 * of successive calls stay in order. */
static int follow_head(const mrail_follow_t *follow, uint64_t *head_p)
{
    return follow_get(follow->fd, head_p, sizeof(*head_p),
                      offsetof(mrail_ring_header_t, head));
}

int mrail_follow_skip(mrail_follow_t *follow)
{
    uint64_t head;

    if (!follow_head(follow, &head)) {
        return -EINVAL;
    }
    mrail_ring_skip(&follow->reader, head);
    return 0;
}

/* Copies one span. Returns the number of its records, or -EINVAL. */
static int follow_span(mrail_follow_t *follow, const mrail_ring_span_t *span,
                       mrail_ring_record_t *records)
{
    uint64_t head;

    if (!follow_get(follow->fd, records, span->count * sizeof(*records),
                    sizeof(mrail_ring_header_t) +
                        span->place * sizeof(*records)) ||
        !follow_head(follow, &head)) {
        return -EINVAL;
    }
    return mrail_ring_end(&follow->reader, head, span, records);
}

int mrail_follow_read(mrail_follow_t *follow, mrail_ring_record_t *records,
                      uint32_t max)
{
    mrail_ring_span_t span;
    uint64_t head;
    int ret = 0;

    for (unsigned i = 0; (i < FOLLOW_TRIES) && (ret == 0); ++i) {
        if (!follow_head(follow, &head)) {
            return -EINVAL;
        }
        ret = mrail_ring_begin(&follow->reader, head, max, &span);
        if (ret <= 0) {
            return ret;
        }
        ret = follow_span(follow, &span, records);
    }
    return ret;
}

int mrail_follow_is_alive(const mrail_follow_t *follow)
{
    return mrail_tele_file_is_held(follow->fd);
}

void mrail_follow_close(mrail_follow_t *follow)
{
    close(follow->fd);
    follow->fd = -1;
}
