#include "config.h"
#include "tools/collect.h"

#include "base/util.h"

static const char *plural(unsigned count, const char *one, const char *many)
{
    return (count == 1) ? one : many;
}

uint64_t collect_bound_ns(const collect_manifest_t *manifest)
{
    uint64_t bound_ns = 0;

    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        if (manifest->hosts[i].error[0] == '\0') {
            bound_ns = MRAIL_MAX(bound_ns, manifest->hosts[i].bound_ns);
        }
    }
    return bound_ns;
}

void collect_show(FILE *stream, const collect_manifest_t *manifest)
{
    fprintf(stream, "%-24s %9s %9s %16s %12s\n", "HOST", "PROCESSES", "RUNNING",
            "CLOCK AHEAD S", "ERROR MS");
    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        const collect_host_t *host = &manifest->hosts[i];

        if (host->error[0] != '\0') {
            fprintf(stream, "%-24s %9s\n", host->name, "missing");
        } else {
            fprintf(stream, "%-24s %9u %9u %16.6f %12.3f\n", host->name,
                    collect_host_count(host), host->num_processes,
                    (double)host->offset_ns / 1e9,
                    (double)host->bound_ns / 1e6);
        }
    }
}

static void show_host(FILE *stream, const char *source,
                      const collect_host_t *host)
{
    if (host->error[0] != '\0') {
        fprintf(stream, "mrail %s: host %s is missing: %s\n", source,
                host->name, host->error);
        return;
    }
    if (host->left_out > 0) {
        fprintf(stream,
                "mrail %s: %s: %u process%s left out, because the archive has "
                "reached --max-size\n",
                source, host->name, host->left_out,
                plural(host->left_out, " was", "es were"));
    }
    if (host->refused > 0) {
        fprintf(stream,
                "mrail %s: %s: skipped %u file%s, invalid or written by "
                "another version of mrail\n",
                source, host->name, host->refused,
                plural(host->refused, "", "s"));
    }
    if ((host->foreign > 0) && (host->num_files == 0)) {
        fprintf(stream,
                "mrail %s: %s: %u telemetry file%s to other users, and only "
                "their owners can collect them\n",
                source, host->name, host->foreign,
                plural(host->foreign, " belongs", "s belong"));
    }
}

void collect_show_missing(FILE *stream, const char *source,
                          const collect_manifest_t *manifest)
{
    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        show_host(stream, source, &manifest->hosts[i]);
    }
}
