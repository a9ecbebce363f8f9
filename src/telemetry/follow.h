/*
 * Follows the trace ring of a process, through the file of its telemetry page.
 * The reader copies with read(2): it changes nothing, and a file that shrinks,
 * or whose content is invalid, cannot harm it. The file stays readable after
 * the process has removed it, so a reader gets the last records as well.
 *
 * Not thread-safe: one thread per mrail_follow_t.
 */
#ifndef MRAIL_TELEMETRY_FOLLOW_H
#define MRAIL_TELEMETRY_FOLLOW_H

#include "telemetry/page.h"

typedef struct mrail_follow {
    int fd;
    mrail_ring_reader_t reader; /* counts what was missed */
} mrail_follow_t;

/* Opens the ring of the page at `path`. On success, fills in *follow and
 * returns MRAIL_PAGE_ALIVE, whether or not the process still runs. Otherwise
 * returns the reason, with *follow unchanged. MRAIL_PAGE_NO_RING: the process
 * keeps no records. */
mrail_page_status_t mrail_follow_open(mrail_follow_t *follow, const char *path);

/* Skips the records that are already in the ring. Returns 0 or -EINVAL. */
int mrail_follow_skip(mrail_follow_t *follow);

/* Copies the next records, at most `max`, to `records`. Returns their number. A
 * result of 0 means that there is no new record now. Returns -EINVAL if the
 * file is no longer valid. The first call begins with the oldest record. */
int mrail_follow_read(mrail_follow_t *follow, mrail_ring_record_t *records,
                      uint32_t max);

/* Returns 1 if the process still has the file. Once it returns 0, no more
 * records are written. */
int mrail_follow_is_alive(const mrail_follow_t *follow);

void mrail_follow_close(mrail_follow_t *follow);

#endif
