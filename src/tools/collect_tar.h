/*
 * Reads and writes mrail collect archives as streams: a POSIX tar, optionally
 * compressed with gzip. The first entry is the manifest. The files of all hosts
 * follow, in the order of the manifest, as HOST/NAME. libarchive reads and
 * writes them.
 *
 * The reader trusts nothing: it accepts only the entries that the manifest
 * names, with their sizes, and holds one entry in memory.
 *
 * A build without libarchive contains the functions, but they fail with
 * -ENOSYS.
 */
#ifndef MRAIL_TOOLS_COLLECT_TAR_H
#define MRAIL_TOOLS_COLLECT_TAR_H

#include "tools/collect_manifest.h"

#include <sys/types.h>

/* Size of an entry in an archive without compression. */
#define COLLECT_TAR_BLOCK 512u
static inline uint64_t collect_tar_size(uint64_t size)
{
    return COLLECT_TAR_BLOCK + (size + COLLECT_TAR_BLOCK - 1) /
                                   COLLECT_TAR_BLOCK * COLLECT_TAR_BLOCK;
}

/* Size of all files of a host in an archive without compression. */
static inline uint64_t collect_tar_files(const collect_host_t *host)
{
    uint64_t size = 0;

    for (unsigned i = 0; i < host->num_files; ++i) {
        size += collect_tar_size(host->files[i].size);
    }
    return size;
}

/* Returns 1 if this build has libarchive. */
int collect_tar_is_built(void);

/* Writes an archive with the data of all files to `fd`. Returns 0, or -errno
 * with a message. */
int collect_tar_write(int fd, int gzip, const collect_manifest_t *manifest,
                      char error[COLLECT_ERROR]);

/* Like read(2), but returns -errno. */
typedef ssize_t (*collect_read_func_t)(void *arg, void *data, size_t size);

typedef struct collect_reader collect_reader_t;

/* Reads the manifest. `max_size` limits the bytes of all files. Returns 0, or
 * -errno with a message without the name of the archive. */
int collect_reader_open(collect_read_func_t read, void *arg, uint64_t max_size,
                        collect_reader_t **reader_p, char error[COLLECT_ERROR]);

/* The manifest is valid until collect_reader_close(). A caller that takes over
 * an array must set it to NULL in the manifest, and its length to 0. */
collect_manifest_t *collect_reader_manifest(collect_reader_t *reader);

/* A file of the archive. */
typedef struct collect_item {
    unsigned host, file; /* indices in the manifest */
    void *data;          /* the caller frees it */
} collect_item_t;

/* Reads the next file. Returns 1, or 0 if there is none, or -errno with a
 * message: -ENODATA if the archive is truncated or damaged. After an error, the
 * caller must not call again. */
int collect_reader_next(collect_reader_t *reader, collect_item_t *item,
                        char error[COLLECT_ERROR]);

void collect_reader_close(collect_reader_t *reader);

#endif
