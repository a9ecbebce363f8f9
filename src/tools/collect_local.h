/* mrail collect adds the telemetry of this machine to an archive, as one of its
 * hosts. */
#ifndef MRAIL_TOOLS_COLLECT_LOCAL_H
#define MRAIL_TOOLS_COLLECT_LOCAL_H

#include "tools/collect_manifest.h"

typedef struct collect_local {
    const char *dir;
    const char *job;    /* NULL for all jobs */
    uint64_t max_size;  /* bytes of the archive that this host may take */
    uint64_t sample_ns; /* time between the two samples of running processes */
} collect_local_t;

/* Adds images of this user's telemetry files to *host, whose name the caller
 * has set. Running processes come first, then the most recently exited ones.
 * Processes beyond max_size are only counted, in host->left_out. Files that
 * disappear are skipped. Returns 0, or -errno with a message. */
int collect_local(const collect_local_t *local, collect_host_t *host,
                  char error[COLLECT_ERROR]);

#endif
