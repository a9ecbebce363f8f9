/* mrail exporter serves metrics of this user's processes to Prometheus. This
 * file handles options and signals. */
#include "config.h"
#include "tools/exporter.h"

#include "tools/exporter_http.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "exporter"
#define DEFAULT_LISTEN "127.0.0.1:9467"

typedef struct command_line {
    exporter_t exporter;
    const char *listen;
    double keep_s;
    int print;
} command_line_t;

static volatile sig_atomic_t is_ending;

static void on_end(int signal)
{
    is_ending = 1;
}

/* A scrape allocates and frees megabytes. Keeps this memory in the process, so
 * that the next scrape does not cause page faults. */
static void keep_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

/* ---- one scrape ---- */

static int scrape(void *arg, const char *accept, char **text_p, size_t *size_p,
                  const char **type_p)
{
    exporter_format_t format = exporter_format(accept);

    *type_p = exporter_content_type(format);
    return exporter_scrape(arg, format, text_p, size_p);
}

static int print(exporter_t *exporter)
{
    char *text;
    size_t size;
    int ret = exporter_scrape(exporter, EXPORTER_PLAIN, &text, &size);

    if (ret != 0) {
        mrail_tool_fail(COMMAND, "cannot read %s: %s", exporter->dir,
                        strerror(-ret));
    }
    if ((fwrite(text, 1, size, stdout) != size) || (fflush(stdout) != 0)) {
        mrail_tool_fail(COMMAND, "cannot write to stdout: %s", strerror(errno));
    }
    free(text);
    return 0;
}

/* ---- the server ---- */

static void catch_signals(void)
{
    struct sigaction end = {.sa_handler = on_end};
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGPIPE, &ignore, NULL); /* a client that has disconnected */
}

static int open_socket(exporter_listen_t *address)
{
    int fd = exporter_listen_open(address);

    if (fd == -EADDRINUSE) {
        mrail_tool_fail(COMMAND,
                        "another program listens on %s; choose another port "
                        "with --listen",
                        address->text);
    }
    if (fd < 0) {
        mrail_tool_fail(COMMAND, "cannot listen on %s: %s", address->text,
                        strerror(-fd));
    }
    return fd;
}

static int serve(exporter_t *exporter, exporter_listen_t *address)
{
    exporter_http_ops_t ops = {scrape, exporter};
    int fd, ret;

    if (!exporter_http_is_built()) {
        mrail_tool_fail(COMMAND,
                        "this build has no HTTP server; install "
                        "libmicrohttpd-dev and rebuild mrail, or use --print");
    }
    /* Report an invalid directory now, not at the first scrape. */
    ret = mrail_page_each(exporter->dir, NULL, NULL);
    if (ret < 0) {
        mrail_tool_fail(COMMAND, "cannot read %s: %s", exporter->dir,
                        strerror(-ret));
    }
    fd = open_socket(address);
    catch_signals();
    keep_memory();
    printf("mrail exporter: http://%s/metrics\n", address->text);
    fflush(stdout);
    ret = exporter_http_serve(fd, &ops, &is_ending);
    if (ret != 0) {
        mrail_tool_fail(COMMAND, "cannot serve %s: %s", address->text,
                        strerror(-ret));
    }
    return 0;
}

/* ---- options ---- */

static void take_listen(void *target, const char *text)
{
    exporter_listen_t address;

    if (exporter_listen_parse(text, &address) != 0) {
        mrail_tool_usage(COMMAND,
                         "--listen %s: expected ADDRESS:PORT with a numeric "
                         "address, such as " DEFAULT_LISTEN " or [::1]:9467",
                         text);
    }
    ((command_line_t *)target)->listen = text;
}

#define FIELD(_name) offsetof(command_line_t, _name)

static const mrail_option_t options[] = {
    {"--listen", "ADDRESS:PORT",
     "address on which to listen (default: " DEFAULT_LISTEN
     "); a port alone means 127.0.0.1",
     MRAIL_OPTION_CALL, 0, 0, 0, take_listen},
    {"--print", NULL,
     "print the metrics once, for the textfile collector of node_exporter",
     MRAIL_OPTION_FLAG, FIELD(print), 0, 0, NULL},
    {"--per-lane", NULL, "also print the metrics of each lane",
     MRAIL_OPTION_FLAG, FIELD(exporter.per_lane), 0, 0, NULL},
    {"--keep", "TIME",
     "time for which killed processes are exported, 0 to 3600 seconds "
     "(default: 300)",
     MRAIL_OPTION_SECONDS, FIELD(keep_s), 0, 3600000, NULL},
    {"--max-jobs", "N", "maximum number of jobs, 1 to 1000 (default: 32)",
     MRAIL_OPTION_UNSIGNED, FIELD(exporter.limits.max_jobs), 1, 1000, NULL},
    {"--max-ranks", "N",
     "maximum number of processes per job, 1 to 10000 (default: 256)",
     MRAIL_OPTION_UNSIGNED, FIELD(exporter.limits.max_ranks), 1, 10000, NULL},
    {"--dir", "DIR",
     "telemetry directory, instead of UCX_MRAIL_TELEMETRY_DIR "
     "(default: " MRAIL_TELE_DIR ")",
     MRAIL_OPTION_TEXT, FIELD(exporter.dir), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {"[--listen ADDRESS:PORT] [OPTION...]",
                                       "--print [OPTION...]", NULL};

static const mrail_command_t command = {
    .name = COMMAND,
    .synopsis = synopsis,
    .about =
        "Serves the telemetry of this user's processes on this machine over HTTP, as\n"
        "metrics for Prometheus: http://" DEFAULT_LISTEN "/metrics. It does\n"
        "not require root, and reads only the files of its user. Processes beyond\n"
        "--max-jobs and --max-ranks are counted, but not exported.\n",
    .options = options,
    .epilog =
        "Exit status: 0 ended by SIGTERM or SIGINT, 1 failure, 2 usage.\n"};

int main(int argc, char **argv)
{
    command_line_t line = {
        .exporter = {.limits = {.max_jobs = 32, .max_ranks = 256}},
        .listen = DEFAULT_LISTEN,
        .keep_s = 300};
    exporter_t *exporter = &line.exporter;
    exporter_listen_t address;

    mrail_options_parse(&command, argv, &line);
    (void)exporter_listen_parse(line.listen, &address);
    exporter->dir = pages_dir(exporter->dir);
    exporter->limits.keep_ns = (uint64_t)(line.keep_s * MRAIL_NS_PER_SEC);
    exporter->self.start_ns = mrail_page_now();
    return line.print ? print(exporter) : serve(exporter, &address);
}
