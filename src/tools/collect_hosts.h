/*
 * mrail collect: the telemetry of other hosts. On each of them runs
 *
 *   mrail collect --peer ...
 *
 * whose standard streams carry lines, and then an archive of this host:
 *
 *   host                                  collector
 *   "mrail-collect VERSION"
 *   "ready", after its samples
 *                                         "time"      several times
 *   "time NS", CLOCK_REALTIME
 *                                         "send"
 *   an archive
 *
 * Instead of "ready", "error MESSAGE" ends the conversation. The collector
 * ignores all lines before the first one, which a login shell may print.
 */
#ifndef MRAIL_TOOLS_COLLECT_HOSTS_H
#define MRAIL_TOOLS_COLLECT_HOSTS_H

#include "tools/collect_local.h"
#include "tools/tool.h"

#define COLLECT_PROTOCOL 1u
#define COLLECT_HELLO "mrail-collect " /* before the version */

typedef struct collect_hosts {
    const char *command;
    const char *ssh;          /* words of the command, separated by spaces */
    int srun;                 /* 1: srun instead of ssh */
    mrail_tool_args_t remote; /* the words of the command on the host */
    unsigned parallel;        /* number of hosts at a time */
    uint64_t timeout_ns;
    uint64_t max_size; /* bytes that all hosts together may send */
} collect_hosts_t;

/* Fills in all hosts of the manifest, which have names. A host that fails gets
 * an error instead. Each host may send an equal part of the size. Those that have
 * more are asked again if others leave them room for a further process. Shows the progress on stderr. Ignores SIGPIPE from then on.
 * Returns the number of hosts that failed. */
unsigned collect_hosts(const collect_hosts_t *config,
                       collect_manifest_t *manifest);

/* The other end: talks to the collector over stdin and stdout. Returns the exit
 * status. */
int collect_serve(const char *command, const collect_local_t *local);

/* Returns the words that reach a host, for execvp(3). It may send `max_size`
 * bytes. */
mrail_tool_args_t collect_words(const collect_hosts_t *config, const char *host,
                                uint64_t max_size);

#endif
