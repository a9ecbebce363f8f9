/*
 * mrail collect gathers the telemetry of other hosts. Each of them runs
 *
 *   mrail collect --peer ...
 *
 * whose standard streams carry lines of text, followed by the host's archive:
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
    int srun;                 /* 1 to use srun instead of ssh */
    mrail_tool_args_t remote; /* the words of the command on the host */
    unsigned parallel;        /* number of hosts at a time */
    uint64_t timeout_ns;
    uint64_t max_size; /* bytes that all hosts together may send */
} collect_hosts_t;

/* Fills in all hosts of the manifest, whose names are set. A host that fails
 * gets an error instead. Each host may send an equal share of max_size. Hosts
 * with more data are asked again if other hosts leave enough of their shares
 * unused for at least one more process. Shows the progress on stderr. Ignores
 * SIGPIPE from then on. Returns the number of hosts that failed. */
unsigned collect_hosts(const collect_hosts_t *config,
                       collect_manifest_t *manifest);

/* The remote end: talks to the collector over stdin and stdout. Returns the
 * exit status. */
int collect_serve(const char *command, const collect_local_t *local);

/* Returns the command that reaches a host, for execvp(3). The host may send
 * `max_size` bytes. */
mrail_tool_args_t collect_words(const collect_hosts_t *config, const char *host,
                                uint64_t max_size);

#endif
