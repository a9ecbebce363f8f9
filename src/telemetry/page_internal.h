/* Shared by the readers of a page and of its ring. */
#ifndef MRAIL_TELEMETRY_PAGE_INTERNAL_H
#define MRAIL_TELEMETRY_PAGE_INTERNAL_H

#include "telemetry/page.h"

#include <sys/stat.h>

/* Opens a file of any type for reading and fills in *st. Returns a descriptor,
 * or -1 with errno. */
int mrail_page_open(const char *path, struct stat *st);

/* Returns 1 if the process that owns the page is still running. */
int mrail_page_is_held(int fd);

/* Checks the owner, size and header of an open file. If they are valid, fills
 * in *head and returns MRAIL_PAGE_ALIVE, whether or not the process is still
 * running. Otherwise returns the reason. */
mrail_page_status_t mrail_page_check(int fd, const struct stat *st,
                                     mrail_page_head_t *head);

#endif
