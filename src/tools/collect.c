#include "config.h"
#include "tools/collect.h"

#include "base/clock.h"
#include "tools/collect_hosts.h"
#include "tools/collect_tar.h"
#include "tools/collect_write.h"
#include "tools/options.h"
#include "tools/pages.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "collect"
#define DEFAULT_SSH "ssh -oBatchMode=yes -oConnectTimeout=10"

typedef struct command_line {
    const char *output;
    const char *dir; /* NULL for the default of each host */
    const char *remote;
    double sample_s, timeout_s;
    uint64_t max_size;
    int force, json, peer;
    collect_hosts_t hosts;
    const char *job;
} command_line_t;

/* ---- this machine, other hosts ---- */

static collect_local_t local_of(const command_line_t *line)
{
    return (collect_local_t){.dir = pages_dir(line->dir),
                             .job = line->job,
                             .max_size = line->max_size,
                             .sample_ns = (uint64_t)(line->sample_s * 1e9)};
}

static collect_host_t *add_host(collect_manifest_t *manifest, const char *name)
{
    collect_host_t *host = collect_manifest_add(manifest);

    if (host == NULL) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    snprintf(host->name, sizeof(host->name), "%s", name);
    return host;
}

static void collect_here(const command_line_t *line,
                         collect_manifest_t *manifest)
{
    const collect_local_t local = local_of(line);
    char name[COLLECT_NAME], error[COLLECT_ERROR];

    if ((gethostname(name, sizeof(name)) != 0) ||
        (memchr(name, '\0', sizeof(name)) == NULL) ||
        !collect_is_host_name(name)) {
        snprintf(name, sizeof(name), "localhost");
    }
    if (collect_local(&local, add_host(manifest, name), error) != 0) {
        mrail_tool_fail(COMMAND, "%s", error);
    }
}

static void add_hosts(char *const *names, collect_manifest_t *manifest)
{
    for (unsigned i = 0; names[i] != NULL; ++i) {
        if (!collect_is_host_name(names[i])) {
            mrail_tool_usage(COMMAND,
                             "'%s' is not a host name; expected letters, "
                             "digits and .-_:@[]",
                             names[i]);
        }
        if (i >= COLLECT_MAX_HOSTS) {
            mrail_tool_usage(COMMAND, "more than %u hosts", COLLECT_MAX_HOSTS);
        }
        for (unsigned k = 0; k < i; ++k) {
            if (strcmp(names[k], names[i]) == 0) {
                mrail_tool_usage(COMMAND, "host %s is named twice", names[i]);
            }
        }
        add_host(manifest, names[i]);
    }
}

/* The command line that runs on each host. */
static void set_remote(command_line_t *line)
{
    mrail_tool_args_t *words = &line->hosts.remote;
    char path[MRAIL_TOOL_PATH_MAX];

    mrail_tool_installed(MRAIL_BINDIR "/mrail", path, sizeof(path));
    mrail_tool_args_add(words, (line->remote != NULL) ? line->remote : path);
    mrail_tool_args_add(words, COMMAND);
    mrail_tool_args_add(words, "--peer");
    mrail_tool_args_addf(words, "--sample=%g", line->sample_s);
    if (line->job != NULL) {
        mrail_tool_args_addf(words, "--job=%s", line->job);
    }
    if (line->dir != NULL) {
        mrail_tool_args_addf(words, "--dir=%s", line->dir);
    }
}

static unsigned collect_there(command_line_t *line, char *const *names,
                              collect_manifest_t *manifest)
{
    unsigned failed;

    add_hosts(names, manifest);
    line->hosts.command = COMMAND;
    line->hosts.timeout_ns = (uint64_t)(line->timeout_s * 1e9);
    line->hosts.max_size = line->max_size;
    set_remote(line);
    failed = collect_hosts(&line->hosts, manifest);
    mrail_tool_args_cleanup(&line->hosts.remote);
    return failed;
}

/* ---- the archive ---- */

static void default_output(char *path, size_t size)
{
    time_t now = time(NULL);
    struct tm broken;

    if ((localtime_r(&now, &broken) == NULL) ||
        (strftime(path, size, "mrail-%Y%m%d-%H%M%S.tar.gz", &broken) == 0)) {
        snprintf(path, size, "mrail.tar.gz");
    }
}

static unsigned count_processes(const collect_manifest_t *manifest)
{
    unsigned count = 0;

    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        count += collect_host_count(&manifest->hosts[i]);
    }
    return count;
}

_Noreturn static void fail_none(const command_line_t *line, unsigned failed,
                                unsigned num_hosts)
{
    if (failed == num_hosts) {
        mrail_tool_fail(COMMAND, "no host responded");
    }
    mrail_tool_fail(COMMAND,
                    "no process %s%s left telemetry on %s; it must run with "
                    "UCX_TLS=mrail and UCX_MRAIL_TELEMETRY=y",
                    (line->job != NULL) ? "of job " : "of this user",
                    (line->job != NULL) ? line->job : "",
                    (num_hosts == 1) ? "this host" : "these hosts");
}

static void show(const command_line_t *line, const collect_manifest_t *manifest,
                 unsigned failed, uint64_t size)
{
    FILE *stream = (strcmp(line->output, "-") == 0) ? stderr : stdout;
    unsigned processes = count_processes(manifest);

    if (line->json) {
        collect_manifest_write(stream, manifest);
        return;
    }
    collect_show(stream, manifest);
    fprintf(stream,
            "%s: %u of %u hosts, %u process%s, %.1f MiB; times are aligned to "
            "within %.3f ms\n",
            line->output, manifest->num_hosts - failed, manifest->num_hosts,
            processes, (processes == 1) ? "" : "es", (double)size / (1 << 20),
            (double)collect_bound_ns(manifest) / 1e6);
}

static int collect(command_line_t *line, char *const *names)
{
    collect_manifest_t manifest = {.time_ns = mrail_page_now()};
    unsigned failed = 0;
    uint64_t size;

    snprintf(manifest.job, sizeof(manifest.job), "%s",
             (line->job != NULL) ? line->job : "");
    if (names[0] == NULL) {
        collect_here(line, &manifest);
    } else {
        failed = collect_there(line, names, &manifest);
    }
    collect_show_missing(stderr, COMMAND, &manifest);
    if (count_processes(&manifest) == 0) {
        fail_none(line, failed, manifest.num_hosts);
    }
    size = collect_write_file(COMMAND, line->output, &manifest);
    show(line, &manifest, failed, size);
    collect_manifest_cleanup(&manifest);
    return (failed == 0) ? 0 : MRAIL_TOOL_FAILED;
}

/* ---- options ---- */

static void take_job(void *target, const char *text)
{
    size_t length = strlen(text);

    /* Readers replace other characters in the names of jobs. */
    for (const char *p = text; *p != '\0'; ++p) {
        length = ((*p < ' ') || (*p > '~')) ? 0 : length;
    }
    if ((length == 0) || (length >= COLLECT_JOB)) {
        mrail_tool_usage(COMMAND,
                         "--job '%s': expected 1 to %u printable characters",
                         text, COLLECT_JOB - 1);
    }
    ((command_line_t *)target)->job = text;
}

#define FIELD(_name) offsetof(command_line_t, _name)

static const mrail_option_t options[] = {
    {.help = "Archive:", .type = MRAIL_OPTION_HEADING},
    {"-o|--output", "FILE",
     "the archive (mrail-DATE-TIME.tar.gz); '-' is stdout; names that end in "
     ".gz are compressed",
     MRAIL_OPTION_TEXT, FIELD(output), 0, 0, NULL},
    {"--force", NULL, "replace FILE if it exists", MRAIL_OPTION_FLAG,
     FIELD(force), 0, 0, NULL},
    {"--job", "NAME", "only the processes of this job", MRAIL_OPTION_CALL, 0, 0,
     0, take_job},
    {"--max-size", "SIZE",
     "size of the archive before compression, up to 4G (default: 256M); hosts "
     "with a lot of telemetry can use space that other hosts leave unused",
     MRAIL_OPTION_SIZE, FIELD(max_size), 1, COLLECT_MAX_SIZE, NULL},
    {"--sample", "TIME",
     "time between the two samples of running processes, 0.1 to 60 seconds "
     "(default: 0.7)",
     MRAIL_OPTION_SECONDS, FIELD(sample_s), 100, 60000, NULL},
    {"--dir", "DIR",
     "telemetry directory, instead of UCX_MRAIL_TELEMETRY_DIR on "
     "each host (default: " MRAIL_TELE_DIR ")",
     MRAIL_OPTION_TEXT, FIELD(dir), 0, 0, NULL},
    {"--json", NULL, "print the manifest of the archive instead of a summary",
     MRAIL_OPTION_FLAG, FIELD(json), 0, 0, NULL},
    {.help = "Hosts:", .type = MRAIL_OPTION_HEADING},
    {"--ssh", "COMMAND",
     "run COMMAND HOST to reach a host (default: " DEFAULT_SSH ")",
     MRAIL_OPTION_TEXT, FIELD(hosts.ssh), 0, 0, NULL},
    {"--srun", NULL, "use srun in the current Slurm job instead of ssh",
     MRAIL_OPTION_FLAG, FIELD(hosts.srun), 0, 0, NULL},
    {"--remote", "PATH",
     "path of mrail on the hosts (default: path of this mrail)",
     MRAIL_OPTION_TEXT, FIELD(remote), 0, 0, NULL},
    {"--parallel", "N", "number of hosts at a time, 1 to 256 (default: 16)",
     MRAIL_OPTION_UNSIGNED, FIELD(hosts.parallel), 1, 256, NULL},
    {"--timeout", "TIME",
     "how long to wait for each reply from a host, 1 to 3600 seconds (default: "
     "60)",
     MRAIL_OPTION_SECONDS, FIELD(timeout_s), 1000, 3600000, NULL},
    /* The remote end of a connection; see collect_hosts.h. */
    {"--peer", NULL, NULL, MRAIL_OPTION_FLAG, FIELD(peer), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {"[-o FILE] [--job NAME] [OPTION...]",
                                       "[-o FILE] [--job NAME] [--ssh COMMAND] "
                                       "HOST...",
                                       "[-o FILE] [--job NAME] --srun HOST...",
                                       NULL};

static const mrail_command_t command = {
    .name = COMMAND,
    .synopsis = synopsis,
    .about =
        "Gathers the telemetry of this user's processes on some hosts, or on this\n"
        "machine, in one archive: rails, lanes, counters, events, records of chunks,\n"
        "and MPI calls. Killed processes are included.\n"
        "\n"
        "mrail diagnose, top, trace, report and info read the archive with --archive\n"
        "FILE, on any machine. The times of the hosts are aligned by exchanged\n"
        "timestamps, and the column ERROR is a bound on the remaining error.\n"
        "\n"
        "If a host cannot be reached, the archive contains the other hosts.\n",
    .options = options,
    .epilog =
        "Exit status: 0 done, 1 a host is missing, no process, or failure, "
        "2 usage.\n",
    .operands = 1};

static void check_output(command_line_t *line, char *path, size_t size)
{
    if (line->output == NULL) {
        default_output(path, size);
        line->output = path;
    }
    if (!line->force && (strcmp(line->output, "-") != 0) &&
        (access(line->output, F_OK) == 0)) {
        mrail_tool_fail(COMMAND, "%s exists; --force replaces it",
                        line->output);
    }
}

int main(int argc, char **argv)
{
    command_line_t line = {.sample_s = 0.7,
                           .timeout_s = 60,
                           .max_size = 256u << 20,
                           .hosts = {.ssh = DEFAULT_SSH, .parallel = 16}};
    int at = mrail_options_parse(&command, argv, &line);
    char path[64];

    if (line.peer) {
        const collect_local_t local = local_of(&line);

        return collect_serve(COMMAND, &local);
    }
    if (!collect_tar_is_built()) {
        mrail_tool_fail(COMMAND, "this build has no libarchive; install "
                                 "libarchive-dev and rebuild mrail");
    }
    if (line.hosts.ssh[strspn(line.hosts.ssh, " ")] == '\0') {
        mrail_tool_usage(COMMAND, "--ssh '': expected a command");
    }
    check_output(&line, path, sizeof(path));
    return collect(&line, argv + at);
}
