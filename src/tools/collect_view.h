/*
 * Unpacks a mrail collect archive for the viewers as a directory of telemetry
 * files, which the same functions read as those of this machine. For tools
 * only: prints to stderr, and may exit.
 *
 * The directory is private, and a child process removes it however this process
 * terminates. The differences from a local directory are:
 *
 * - The host of a file is part of its name; see mrail_tele_file_host().
 * - All times are CLOCK_REALTIME of the collecting machine. The viewer is given
 *   a bound on the error for each host.
 * - The files of processes that were running are locked, so that they count as
 *   running.
 */
#ifndef MRAIL_TOOLS_COLLECT_VIEW_H
#define MRAIL_TOOLS_COLLECT_VIEW_H

#include "tools/collect_manifest.h"
#include "tools/pages.h"

typedef struct collect_view {
    char dir[MRAIL_TELE_PATH / 2];
    char earlier[MRAIL_TELE_PATH / 2]; /* the first samples */
    collect_manifest_t manifest;       /* files are without data */
    pages_host_t *hosts;               /* manifest.num_hosts of them */
    unsigned lost_files;               /* files that are truncated or invalid */
} collect_view_t;

/* Opens the archive at `path`; "-" is stdin. Prints to stderr when and where it
 * was collected, how well its times are aligned, and what is missing. Exits
 * with a message if there is nothing to show. Call it once, before threads and
 * other children are started. */
collect_view_t *collect_view_open(const char *command, const char *path);

/* Removes the directory immediately. `view` may be NULL. */
void collect_view_close(collect_view_t *view);

/* Returns a process on a host, or NULL if it was not running. */
const collect_process_t *collect_view_process(const collect_view_t *view,
                                              int host, unsigned pid, int rank);

/* Returns the time of a host's last samples, on the clock of the view. */
uint64_t collect_view_time(const collect_view_t *view, int host);

#endif
