/* mrail collect writes the archive to a file. */
#ifndef MRAIL_TOOLS_COLLECT_WRITE_H
#define MRAIL_TOOLS_COLLECT_WRITE_H

#include "tools/collect_manifest.h"

/* Writes the archive to a temporary file (mode 0600) and renames it, so that a
 * partial file is never visible. SIGINT and SIGTERM leave nothing behind. "-"
 * is stdout. Files whose names end in ".gz" or ".tgz" are compressed. Exits
 * with a message on failure. Returns the size of the file, or 0 for stdout. */
uint64_t collect_write_file(const char *command, const char *path,
                            const collect_manifest_t *manifest);

#endif
