/* Functions shared by the readers of a page and of its ring. */
#ifndef MRAIL_TELEMETRY_PAGE_INTERNAL_H
#define MRAIL_TELEMETRY_PAGE_INTERNAL_H

#include "telemetry/page.h"

#include <sys/stat.h>

/* Opens a file of any kind for reading. Returns a descriptor and *st, or -1
 * with errno. */
int mrail_page_open(const char *path, struct stat *st);

/* Returns 1 if the process of the page still runs. */
int mrail_page_is_held(int fd);

/* Checks the owner, the size and the header of an open file. Returns
 * MRAIL_PAGE_ALIVE and *head if the rest can be read, whether or not the
 * process still runs. Otherwise returns the reason. */
mrail_page_status_t mrail_page_check(int fd, const struct stat *st,
                                     mrail_page_head_t *head);

#endif
