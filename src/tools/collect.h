/*
 * mrail collect gathers the telemetry of a job on several hosts into one
 * archive.
 *
 *   collect.c            options, the archive file
 *   collect_local.c      the telemetry of this machine
 *   collect_hosts.c      the telemetry of other hosts, over collect_channel.c
 *   collect_serve.c      the remote end of collect_hosts.c
 *   collect_clock.c      how far their clocks are ahead
 *   collect_share.c      how they share the size of the archive
 *   collect_manifest.c   the manifest of an archive
 *   collect_tar.c        an archive as a stream
 *   collect_show.c       the summary
 *   collect_view.c       for the viewers: opens an archive
 */
#ifndef MRAIL_TOOLS_COLLECT_H
#define MRAIL_TOOLS_COLLECT_H

#include "tools/collect_manifest.h"

/* Prints one line for each host, with its clock offset and the error bound. */
void collect_show(FILE *stream, const collect_manifest_t *manifest);

/* Prints why hosts, processes or files are missing. `source` is the command, or
 * the command and the archive. */
void collect_show_missing(FILE *stream, const char *source,
                          const collect_manifest_t *manifest);

/* The largest bound of the hosts that are not missing. */
uint64_t collect_bound_ns(const collect_manifest_t *manifest);

#endif
