/*
 * Follows the trace ring of a process through its telemetry file. Readers copy
 * with read(2), so they do not change the file, and neither truncation nor
 * invalid content can harm them. An open file stays readable after the process
 * has removed it, so a reader also obtains the last records.
 *
 * Not thread-safe: one thread per mrail_follow_t.
 */
#ifndef MRAIL_TELEMETRY_FOLLOW_H
#define MRAIL_TELEMETRY_FOLLOW_H

#include "telemetry/page.h"

typedef struct mrail_follow {
    int fd;
    mrail_ring_reader_t reader; /* reads the ring, and counts missed records */
} mrail_follow_t;

/* Opens the ring of the page at `path`. On success, fills in *follow and
 * returns MRAIL_PAGE_ALIVE, whether or not the process is still running.
 * Otherwise returns the reason, with *follow unchanged. MRAIL_PAGE_NO_RING
 * means that the process does not keep records. */
mrail_page_status_t mrail_follow_open(mrail_follow_t *follow, const char *path);

/* Like mrail_follow_open(), for the page in an open file. After success,
 * mrail_follow_close() closes the file. */
mrail_page_status_t mrail_follow_open_fd(mrail_follow_t *follow, int fd);

/* Requests records from the process until mrail_follow_close(). A process with
 * UCX_MRAIL_TELEMETRY_RECORDING=n writes records only during this time, and
 * needs up to a second to detect the request. */
void mrail_follow_request(const mrail_follow_t *follow);

/* Skips the records that are already in the ring. Returns 0 or -EINVAL. */
int mrail_follow_skip(mrail_follow_t *follow);

/* Copies up to `max` records to `records`, starting with the oldest one on the
 * first call. Returns their number, which is 0 if there is no new record yet,
 * or -EINVAL if the file is no longer valid. */
int mrail_follow_read(mrail_follow_t *follow, mrail_ring_record_t *records,
                      uint32_t max);

/* Returns 1 while the process holds the file. After this function has returned
 * 0, the ring does not change. */
int mrail_follow_is_alive(const mrail_follow_t *follow);

void mrail_follow_close(mrail_follow_t *follow);

#endif
