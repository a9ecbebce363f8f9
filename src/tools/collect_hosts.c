#include "config.h"
#include "tools/collect_hosts.h"

#include "base/clock.h"
#include "base/number.h"
#include "telemetry/page.h"
#include "tools/collect_channel.h"
#include "tools/collect_clock.h"
#include "tools/collect_tar.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HELLO "mrail-collect "
#define ROUNDS 8u       /* exchanges of timestamps */
#define MAX_LINES 1000u /* that a login shell may print */
#define LINE COLLECT_ERROR

/* ---- words ---- */

static void add_words(mrail_tool_args_t *args, const char *text)
{
    size_t length;

    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        length = strcspn(text, " ");
        mrail_tool_args_addf(args, "%.*s", (int)length, text);
        text += length;
    }
}

/* ssh passes its words to a shell, so they are quoted. */
static void add_quoted(mrail_tool_args_t *args, const mrail_tool_args_t *words)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (stream == NULL) {
        mrail_tool_fail("collect", "out of memory");
    }
    mrail_tool_args_print(words, stream);
    if (fclose(stream) != 0) {
        mrail_tool_fail("collect", "out of memory");
    }
    text[strcspn(text, "\n")] = '\0';
    mrail_tool_args_add(args, text);
    free(text);
}

mrail_tool_args_t collect_words(const collect_hosts_t *config, const char *host)
{
    mrail_tool_args_t args = {0};

    if (config->srun) {
        add_words(&args, "srun --nodes=1 --ntasks=1 --overlap --mpi=none");
        mrail_tool_args_addf(&args, "--nodelist=%s", host);
        for (unsigned i = 0; i < config->remote.count; ++i) {
            mrail_tool_args_add(&args, config->remote.items[i]);
        }
    } else {
        add_words(&args, config->ssh);
        mrail_tool_args_add(&args, host);
        add_quoted(&args, &config->remote);
    }
    return args;
}

/* ---- the conversation ---- */

/* Why a conversation ended early: -errno, 0 for the end of the stream, or
 * -EPROTO with a message in the host. */
MRAIL_PRINTF(2, 3)
static int fail(collect_host_t *host, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(host->error, sizeof(host->error), format, args);
    va_end(args);
    return -EPROTO;
}

/* Reads lines until the one that starts the conversation. */
static int await_hello(collect_channel_t *channel, collect_host_t *host)
{
    const size_t length = sizeof(HELLO) - 1;
    char line[LINE];
    uint64_t version;
    int ret;

    for (unsigned i = 0; i < MAX_LINES; ++i) {
        ret = collect_channel_line(channel, line, sizeof(line));
        if (ret <= 0) {
            return ret;
        }
        if (strncmp(line, HELLO, length) != 0) {
            continue;
        }
        if ((mrail_number_uint(line + length, COLLECT_PROTOCOL,
                               COLLECT_PROTOCOL, &version) != 0)) {
            return fail(host, "it runs another version of mrail: %.200s", line);
        }
        return 1;
    }
    return fail(host, "it prints too many lines before those of mrail");
}

static int await_ready(collect_channel_t *channel, collect_host_t *host)
{
    char line[LINE];
    int ret = collect_channel_line(channel, line, sizeof(line));

    if (ret <= 0) {
        return ret;
    }
    if (strncmp(line, "error ", 6) == 0) {
        return fail(host, "%.200s", line + 6);
    }
    return (strcmp(line, "ready") == 0)
               ? 1
               : fail(host, "its answer is not valid: %.200s", line);
}

/* The own times are those of CLOCK_MONOTONIC, moved to CLOCK_REALTIME, so that
 * no exchange is spoilt if somebody sets the clock. */
static int exchange(collect_channel_t *channel, collect_host_t *host,
                    uint64_t clock_ns, collect_stamp_t *stamp)
{
    char line[LINE];
    int ret;

    stamp->sent = mrail_clock_now() + clock_ns;
    ret = collect_channel_write(channel, "time\n");
    if (ret == 0) {
        ret = collect_channel_line(channel, line, sizeof(line));
    }
    stamp->received = mrail_clock_now() + clock_ns;
    if (ret <= 0) {
        return ret;
    }
    if ((strncmp(line, "time ", 5) != 0) ||
        (mrail_number_uint(line + 5, 0, COLLECT_CLOCK_MAX, &stamp->remote) !=
         0)) {
        return fail(host, "its answer is not valid: %.200s", line);
    }
    return 1;
}

static int align(collect_channel_t *channel, collect_host_t *host)
{
    uint64_t clock_ns = mrail_page_now() - mrail_clock_now();
    collect_stamp_t stamps[ROUNDS];

    for (unsigned i = 0; i < ROUNDS; ++i) {
        int ret = exchange(channel, host, clock_ns, &stamps[i]);

        if (ret <= 0) {
            return ret;
        }
    }
    return (collect_clock_estimate(stamps, ROUNDS, &host->offset_ns,
                                   &host->bound_ns) == 0)
               ? 1
               : fail(host, "its times are not valid");
}

static ssize_t read_channel(void *arg, void *data, size_t size)
{
    return collect_channel_read(arg, data, size);
}

/* Moves the part of the host that the other end knows. */
static void take_host(collect_host_t *host, collect_host_t *from)
{
    host->time_ns = from->time_ns;
    host->sample_ns = from->sample_ns;
    host->left_out = from->left_out;
    host->refused = from->refused;
    host->foreign = from->foreign;
    host->files = from->files;
    host->num_files = from->num_files;
    host->processes = from->processes;
    host->num_processes = from->num_processes;
    from->files = NULL;
    from->processes = NULL;
    from->num_files = from->num_processes = 0;
}

static int receive(collect_channel_t *channel, const collect_hosts_t *config,
                   collect_host_t *host)
{
    char error[COLLECT_ERROR];
    collect_reader_t *reader;
    collect_manifest_t *manifest;
    collect_item_t item;
    int ret = collect_channel_write(channel, "send\n");

    if (ret != 0) {
        return ret;
    }
    ret = collect_reader_open(read_channel, channel, config->max_size, &reader,
                              error);
    if (ret != 0) {
        return fail(host, "its answer: %.200s", error);
    }
    manifest = collect_reader_manifest(reader);
    if (manifest->num_hosts != 1) {
        collect_reader_close(reader);
        return fail(host, "its answer does not have one host");
    }
    while ((ret = collect_reader_next(reader, &item, error)) == 1) {
        manifest->hosts[0].files[item.file].data = item.data;
    }
    if (ret == 0) {
        take_host(host, &manifest->hosts[0]);
    }
    collect_reader_close(reader);
    return (ret == 0) ? 1 : fail(host, "its answer: %.200s", error);
}

/* Returns 1, or the reason as in fail(). */
static int talk(collect_channel_t *channel, const collect_hosts_t *config,
                collect_host_t *host)
{
    int ret = await_hello(channel, host);

    if (ret == 1) {
        ret = await_ready(channel, host);
    }
    if (ret == 1) {
        ret = align(channel, host);
    }
    return (ret == 1) ? receive(channel, config, host) : ret;
}

/* ---- one host ---- */

static void explain(const collect_hosts_t *config, collect_host_t *host,
                    const collect_channel_t *channel, int ret, int status)
{
    const char *program = config->srun ? "srun" : "ssh";

    if (ret == -ETIMEDOUT) {
        snprintf(host->error, sizeof(host->error), "it gave no answer for %g s",
                 (double)config->timeout_ns / 1e9);
    } else if (channel->said[0] != '\0') {
        snprintf(host->error, sizeof(host->error),
                 "it cannot be reached: %.200s", channel->said);
    } else {
        snprintf(host->error, sizeof(host->error),
                 "it cannot be reached: %s ended with status %d", program,
                 status);
    }
}

static void collect_one(const collect_hosts_t *config, collect_host_t *host)
{
    mrail_tool_args_t args = collect_words(config, host->name);
    collect_channel_t channel;
    int ret = collect_channel_open(&channel, args.items, config->timeout_ns);
    int status;

    if (ret != 0) {
        snprintf(host->error, sizeof(host->error), "cannot run %.100s: %s",
                 args.items[0], strerror(-ret));
    } else {
        ret = talk(&channel, config, host);
        if (ret < 0) { /* it does not end by itself */
            kill(channel.pid, SIGTERM);
        }
        status = collect_channel_close(&channel);
        if ((ret != 1) && (ret != -EPROTO)) {
            explain(config, host, &channel, ret, status);
        }
    }
    mrail_tool_args_cleanup(&args);
}

/* ---- all hosts ---- */

typedef struct work {
    const collect_hosts_t *config;
    collect_manifest_t *manifest;
    unsigned next; /* the next host */
    unsigned done;
} work_t;

static void *run_thread(void *arg)
{
    work_t *work = arg;
    unsigned index;

    while ((index = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) <
           work->manifest->num_hosts) {
        collect_one(work->config, &work->manifest->hosts[index]);
        __atomic_add_fetch(&work->done, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void await_all(const work_t *work)
{
    const struct timespec pause = {.tv_nsec = 20 * MRAIL_NS_PER_MS};
    unsigned done;

    do {
        (void)nanosleep(&pause, NULL);
        done = __atomic_load_n(&work->done, __ATOMIC_ACQUIRE);
        mrail_tool_progress(work->config->command, done,
                            work->manifest->num_hosts, "hosts");
    } while (done < work->manifest->num_hosts);
}

unsigned collect_hosts(const collect_hosts_t *config,
                       collect_manifest_t *manifest)
{
    unsigned num = MRAIL_MIN(config->parallel, manifest->num_hosts);
    unsigned started = 0, failed = 0;
    pthread_t *threads = calloc(num, sizeof(*threads));
    work_t work = {.config = config, .manifest = manifest};

    if (threads == NULL) {
        mrail_tool_fail(config->command, "out of memory");
    }
    signal(SIGPIPE, SIG_IGN);
    while ((started < num) &&
           (pthread_create(&threads[started], NULL, run_thread, &work) == 0)) {
        ++started;
    }
    if (started == 0) {
        mrail_tool_fail(config->command, "cannot start a thread");
    }
    await_all(&work);
    for (unsigned i = 0; i < started; ++i) {
        pthread_join(threads[i], NULL);
    }
    free(threads);
    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        failed += manifest->hosts[i].error[0] != '\0';
    }
    return failed;
}

/* ---- the other end ---- */

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

    printf(HELLO "%u\n", COLLECT_PROTOCOL);
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
