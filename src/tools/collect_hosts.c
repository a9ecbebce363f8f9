#include "config.h"
#include "tools/collect_hosts.h"

#include "base/clock.h"
#include "base/number.h"
#include "telemetry/page.h"
#include "tools/collect_channel.h"
#include "tools/collect_clock.h"
#include "tools/collect_share.h"
#include "tools/collect_tar.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

mrail_tool_args_t collect_words(const collect_hosts_t *config, const char *host,
                                uint64_t max_size)
{
    mrail_tool_args_t args = {0}, remote = {0};

    for (unsigned i = 0; i < config->remote.count; ++i) {
        mrail_tool_args_add(&remote, config->remote.items[i]);
    }
    mrail_tool_args_addf(&remote, "--max-size=%llu",
                         (unsigned long long)max_size);
    if (config->srun) {
        add_words(&args, "srun --nodes=1 --ntasks=1 --overlap --mpi=none");
        mrail_tool_args_addf(&args, "--nodelist=%s", host);
        for (unsigned i = 0; i < remote.count; ++i) {
            mrail_tool_args_add(&args, remote.items[i]);
        }
    } else {
        add_words(&args, config->ssh);
        mrail_tool_args_add(&args, host);
        add_quoted(&args, &remote);
    }
    mrail_tool_args_cleanup(&remote);
    return args;
}

/* ---- the conversation ---- */

/* Why a connection ended early: -errno, 0 for the end of the stream, or -EPROTO
 * with a message in the host. */
MRAIL_PRINTF(2, 3)
static int fail(collect_host_t *host, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(host->error, sizeof(host->error), format, args);
    va_end(args);
    return -EPROTO;
}

/* Reads lines until the greeting. */
static int await_hello(collect_channel_t *channel, collect_host_t *host)
{
    const size_t length = sizeof(COLLECT_HELLO) - 1;
    char line[LINE];
    uint64_t version;
    int ret;

    for (unsigned i = 0; i < MAX_LINES; ++i) {
        ret = collect_channel_line(channel, line, sizeof(line));
        if (ret <= 0) {
            return ret;
        }
        if (strncmp(line, COLLECT_HELLO, length) != 0) {
            continue;
        }
        if ((mrail_number_uint(line + length, COLLECT_PROTOCOL,
                               COLLECT_PROTOCOL, &version) != 0)) {
            return fail(host, "it runs a different version of mrail: %.200s",
                        line);
        }
        return 1;
    }
    return fail(host, "too many lines of output before those of mrail");
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
               : fail(host, "invalid response: %.200s", line);
}

/* Local times are CLOCK_MONOTONIC, shifted to CLOCK_REALTIME, so that setting
 * the clock does not invalidate an exchange. */
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
        return fail(host, "invalid response: %.200s", line);
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
               : fail(host, "invalid times");
}

static ssize_t read_channel(void *arg, void *data, size_t size)
{
    return collect_channel_read(arg, data, size);
}

/* Moves the fields that the remote end has filled in. */
static void take_host(collect_host_t *host, collect_host_t *from)
{
    host->time_ns = from->time_ns;
    host->sample_ns = from->sample_ns;
    host->needed = from->needed;
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

static int receive(collect_channel_t *channel, uint64_t max_size,
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
    ret = collect_reader_open(read_channel, channel, max_size, &reader, error);
    if (ret != 0) {
        return fail(host, "response: %.200s", error);
    }
    manifest = collect_reader_manifest(reader);
    if (manifest->num_hosts != 1) {
        collect_reader_close(reader);
        return fail(host, "the response does not contain exactly one host");
    }
    while ((ret = collect_reader_next(reader, &item, error)) == 1) {
        manifest->hosts[0].files[item.file].data = item.data;
    }
    if (ret == 0) {
        take_host(host, &manifest->hosts[0]);
    }
    collect_reader_close(reader);
    return (ret == 0) ? 1 : fail(host, "response: %.200s", error);
}

/* Returns 1, or the reason as in fail(). */
static int talk(collect_channel_t *channel, uint64_t max_size,
                collect_host_t *host)
{
    int ret = await_hello(channel, host);

    if (ret == 1) {
        ret = await_ready(channel, host);
    }
    if (ret == 1) {
        ret = align(channel, host);
    }
    return (ret == 1) ? receive(channel, max_size, host) : ret;
}

/* ---- one host ---- */

static void explain(const collect_hosts_t *config, collect_host_t *host,
                    const collect_channel_t *channel, int ret, int status)
{
    const char *program = config->srun ? "srun" : "ssh";

    if (ret == -ETIMEDOUT) {
        snprintf(host->error, sizeof(host->error), "no response for %g s",
                 (double)config->timeout_ns / 1e9);
    } else if (channel->said[0] != '\0') {
        snprintf(host->error, sizeof(host->error), "cannot be reached: %.200s",
                 channel->said);
    } else {
        snprintf(host->error, sizeof(host->error),
                 "cannot be reached: %s exited with status %d", program,
                 status);
    }
}

static void collect_one(const collect_hosts_t *config, collect_host_t *host,
                        uint64_t max_size)
{
    mrail_tool_args_t args = collect_words(config, host->name, max_size);
    collect_channel_t channel;
    int ret = collect_channel_open(&channel, args.items, config->timeout_ns);
    int status;

    if (ret != 0) {
        snprintf(host->error, sizeof(host->error), "cannot run %.100s: %s",
                 args.items[0], strerror(-ret));
    } else {
        ret = talk(&channel, max_size, host);
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

/* A visit of a host. */
typedef struct visit {
    collect_host_t *host; /* has a name */
    uint64_t max_size;    /* bytes that it may send */
} visit_t;

typedef struct work {
    const collect_hosts_t *config;
    const visit_t *visits;
    unsigned count;
    unsigned next; /* the next visit */
    unsigned done;
} work_t;

static void *run_thread(void *arg)
{
    work_t *work = arg;
    unsigned index;

    while ((index = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) <
           work->count) {
        collect_one(work->config, work->visits[index].host,
                    work->visits[index].max_size);
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
        mrail_tool_progress(work->config->command, done, work->count, "hosts");
    } while (done < work->count);
}

static void visit_all(const collect_hosts_t *config, const visit_t *visits,
                      unsigned count)
{
    unsigned num = MRAIL_MIN(config->parallel, count);
    unsigned started = 0;
    pthread_t *threads = calloc(num, sizeof(*threads));
    work_t work = {.config = config, .visits = visits, .count = count};

    if (threads == NULL) {
        mrail_tool_fail(config->command, "out of memory");
    }
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
}

/* ---- the rest of the size ---- */

static void *allocate(const collect_hosts_t *config, unsigned count,
                      size_t size)
{
    void *memory = calloc(count + 1, size);

    if (memory == NULL) {
        mrail_tool_fail(config->command, "out of memory");
    }
    return memory;
}

static int has_more(const collect_host_t *host)
{
    return (host->error[0] == '\0') && (host->left_out > 0) &&
           (host->needed > collect_tar_files(host));
}

/* Returns 1 if the share allows one more process of mean size than before. */
static int gets_more(const collect_host_t *host, uint64_t share)
{
    uint64_t used = collect_tar_files(host);

    return (share > used) &&
           (share - used >= (host->needed - used) / host->left_out);
}

/* Visits a host again. A host that fails this time keeps what it sent before. */
static void visit_again(const collect_hosts_t *config, const visit_t *visits,
                        unsigned count)
{
    collect_host_t *again = allocate(config, count, sizeof(*again));
    visit_t *later = allocate(config, count, sizeof(*later));

    for (unsigned i = 0; i < count; ++i) {
        memcpy(again[i].name, visits[i].host->name, sizeof(again[i].name));
        later[i] = (visit_t){&again[i], visits[i].max_size};
    }
    visit_all(config, later, count);
    for (unsigned i = 0; i < count; ++i) {
        collect_host_t *host = visits[i].host;

        if ((again[i].error[0] == '\0') &&
            (again[i].left_out < host->left_out)) {
            collect_host_cleanup(host);
            *host = again[i];
        } else {
            collect_host_cleanup(&again[i]);
        }
    }
    free(later);
    free(again);
}

/* Divides space that other hosts leave unused among those with more data. */
static void share_rest(const collect_hosts_t *config,
                       collect_manifest_t *manifest)
{
    unsigned num = manifest->num_hosts, count = 0, num_again = 0;
    visit_t *visits = allocate(config, num, sizeof(*visits));
    uint64_t *needs = allocate(config, num, sizeof(*needs));
    uint64_t *shares = allocate(config, num, sizeof(*shares));
    uint64_t left = config->max_size;

    for (unsigned i = 0; i < num; ++i) {
        collect_host_t *host = &manifest->hosts[i];

        if (has_more(host)) {
            needs[count] = host->needed;
            visits[count++].host = host;
        } else {
            left -= MRAIL_MIN(left, collect_tar_files(host));
        }
    }
    collect_share(needs, shares, count, left);
    for (unsigned i = 0; i < count; ++i) {
        if (gets_more(visits[i].host, shares[i])) {
            visits[num_again++] = (visit_t){visits[i].host, shares[i]};
        }
    }
    if (num_again > 0) {
        visit_again(config, visits, num_again);
    }
    free(shares);
    free(needs);
    free(visits);
}

unsigned collect_hosts(const collect_hosts_t *config,
                       collect_manifest_t *manifest)
{
    visit_t *visits = allocate(config, manifest->num_hosts, sizeof(*visits));
    unsigned failed = 0;

    signal(SIGPIPE, SIG_IGN);
    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        visits[i] = (visit_t){&manifest->hosts[i],
                              config->max_size / manifest->num_hosts};
    }
    visit_all(config, visits, manifest->num_hosts);
    free(visits);
    share_rest(config, manifest);
    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        failed += manifest->hosts[i].error[0] != '\0';
    }
    return failed;
}
