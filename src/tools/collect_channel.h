/*
 * mrail collect talks to the process that reaches another host, such as ssh.
 * Its standard streams are pipes. No call waits for longer than the time-out.
 *
 * Any thread may use a channel, but only one at a time.
 */
#ifndef MRAIL_TOOLS_COLLECT_CHANNEL_H
#define MRAIL_TOOLS_COLLECT_CHANNEL_H

#include "tools/collect_manifest.h"

#include <sys/types.h>

typedef struct collect_channel {
    pid_t pid;
    int in, out, err;         /* our ends of its standard streams; -1 if
                               * closed */
    uint64_t timeout_ns;      /* for a single call */
    char said[COLLECT_ERROR]; /* its last line on stderr, printable */
    char line[COLLECT_ERROR]; /* the current line on stderr */
    unsigned length;
} collect_channel_t;

/* Starts a process. The caller ignores SIGPIPE. Returns 0 or -errno. */
int collect_channel_open(collect_channel_t *channel, char *const *argv,
                         uint64_t timeout_ns);

/* Reads the available bytes, at least one unless the stream is at its end.
 * Returns the number of bytes, or -errno. */
ssize_t collect_channel_read(collect_channel_t *channel, void *data,
                             size_t size);

/* Reads a line without its newline. Longer lines are truncated. Returns 1, 0 at
 * the end of the stream, or -errno. */
int collect_channel_line(collect_channel_t *channel, char *line, size_t size);

/* Writes a short text. Returns 0 or -errno. */
int collect_channel_write(collect_channel_t *channel, const char *text);

/* Waits up to two seconds for the process to exit, and then kills it. Returns
 * its exit status, or 128 plus the number of the signal. */
int collect_channel_close(collect_channel_t *channel);

#endif
