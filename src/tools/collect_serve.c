/* Serves a mrail collect on another machine, as the remote end of its
 * connection to this host. */
#include "config.h"
#include "tools/collect_hosts.h"
#include "tools/collect_tar.h"

#include "telemetry/page.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int serve_error(const char *error)
{
    printf("error %s\n", error);
    fflush(stdout);
    return MRAIL_TOOL_FAILED;
}

static int serve_lines(const collect_manifest_t *manifest)
{
    char line[64], error[COLLECT_ERROR];

    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (strcmp(line, "time\n") == 0) {
            printf("time %llu\n", (unsigned long long)mrail_page_now());
            fflush(stdout);
        } else if (strcmp(line, "send\n") == 0) {
            return (collect_tar_write(STDOUT_FILENO, 0, manifest, error) == 0)
                       ? 0
                       : MRAIL_TOOL_FAILED;
        } else {
            break;
        }
    }
    return MRAIL_TOOL_FAILED;
}

int collect_serve(const char *command, const collect_local_t *local)
{
    collect_manifest_t manifest = {.time_ns = mrail_page_now()};
    collect_host_t *host = collect_manifest_add(&manifest);
    char error[COLLECT_ERROR];
    int ret;

    printf(COLLECT_HELLO "%u\n", COLLECT_PROTOCOL);
    fflush(stdout);
    if (!collect_tar_is_built()) {
        return serve_error("its mrail has no libarchive");
    }
    if (host == NULL) {
        return serve_error("out of memory");
    }
    snprintf(host->name, sizeof(host->name), "host");
    if (collect_local(local, host, error) != 0) {
        ret = serve_error(error);
    } else {
        puts("ready");
        fflush(stdout);
        ret = serve_lines(&manifest);
    }
    collect_manifest_cleanup(&manifest);
    return ret;
}
