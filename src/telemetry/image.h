/*
 * Images are copies of telemetry files that can be read on another host, and
 * after the processes have exited. An image has the format of the file itself,
 * so the same functions read it. It differs as follows:
 *
 * - All times, including those of records and calls, are CLOCK_REALTIME of the
 *   host, in ns. clock_offset_ns of a page is 0, and start_ticks of calls
 *   equals start_ns.
 * - The image is consistent, because it no longer changes.
 * - The ring contains only valid records, so it may be smaller.
 *
 * An image may come from another host, so mrail_image_check() does not trust
 * its content.
 */
#ifndef MRAIL_TELEMETRY_IMAGE_H
#define MRAIL_TELEMETRY_IMAGE_H

#include "telemetry/page.h"

/* Maximum size of an image, in bytes. */
#define MRAIL_IMAGE_MAX (MRAIL_PAGE_RING_AT + mrail_ring_size(MRAIL_RING_MAX))

typedef struct mrail_image {
    void *data; /* the caller frees it; NULL if none */
    size_t size;
    int alive; /* 1 if the process was running */
    int rank;  /* -1 if there is no job */
    char job[48];
} mrail_image_t;

/* Copies the page in an open file and, if `with_ring`, its records. `clock_ns`
 * is CLOCK_REALTIME minus CLOCK_MONOTONIC. On success, fills in *image and
 * returns ALIVE or ENDED. Otherwise, returns the reason; GONE means that the
 * file cannot be read, or memory ran out. */
mrail_page_status_t mrail_image_page(int fd, uint64_t clock_ns, int with_ring,
                                     mrail_image_t *image);
/* Like mrail_image_page(), for a .calls file. */
mrail_page_status_t mrail_image_calls(int fd, uint64_t clock_ns,
                                      mrail_image_t *image);
/* Like mrail_image_page(), for a .plans file, whose times are already
 * CLOCK_REALTIME. */
mrail_page_status_t mrail_image_plans(int fd, mrail_image_t *image);

/* Checks the format of an image. The contents may still have any value, as in
 * a file. Returns ALIVE, OTHER or BROKEN. */
mrail_page_status_t mrail_image_check(mrail_tele_kind_t kind, const void *data,
                                      size_t size);

/* Adds `shift_ns` to all times of an image that mrail_image_check() accepted,
 * to align the clocks of two hosts. Times of 0 remain 0, and results are
 * clamped to [1, MRAIL_CALLS_MAX_NS]. */
void mrail_image_shift(mrail_tele_kind_t kind, void *data, size_t size,
                       int64_t shift_ns);

#endif
