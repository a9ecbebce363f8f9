/* Declares what the readers of a page and of its ring share. */
#ifndef MRAIL_TELEMETRY_PAGE_INTERNAL_H
#define MRAIL_TELEMETRY_PAGE_INTERNAL_H

#include "telemetry/page.h"

#include <sys/stat.h>

/* Ends the text at the first NUL and replaces control characters, for
 * terminals. */
void mrail_page_clean_text(char *text, size_t size);

/* Checks the owner, size and header of an open file. If they are valid, fills
 * in *head and returns MRAIL_PAGE_ALIVE, whether or not the process is still
 * running. Otherwise returns the reason. */
mrail_page_status_t mrail_page_check(int fd, const struct stat *st,
                                     mrail_page_head_t *head);

#endif
