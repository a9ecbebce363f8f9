/*
 * mrail info --memory runs a job whose ranks write their memory use to files
 * (UCX_MRAIL_STATS_FILE), and aggregates the files.
 */
#include "config.h"
#include "tools/info.h"

#include "base/json.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1024.0 * 1024.0)
#define MAX_FILE ((size_t)64 << 20)

typedef struct mem_usage {
    double pools, queues, tables, qps; /* number of QPs in `qps`; bytes in the
                                        * other fields */
} mem_usage_t;

typedef struct mem_usages {
    /* The ranks with the smallest and the largest total. */
    mem_usage_t least, most;
    mem_usage_t sum;
    unsigned ranks;
} mem_usages_t;

static double total_of(const mem_usage_t *usage)
{
    return usage->pools + usage->queues + usage->tables;
}

static double number_in(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

/* Reads a whole file, which the caller frees. Returns NULL if the file cannot
 * be read or is larger than MAX_FILE. A lane takes about 115 bytes of text. */
static char *read_text(const char *path, size_t *length_p)
{
    FILE *file = fopen(path, "r");
    size_t size = 65536, length = 0;
    char *text = NULL;

    if (file == NULL) {
        return NULL;
    }
    do {
        size *= 2;
        text = realloc(text, size);
        if (text == NULL) {
            mrail_tool_fail(MRAIL_INFO_COMMAND, "out of memory");
        }
        length += fread(text + length, 1, size - length, file);
    } while (length == size && size <= MAX_FILE);
    fclose(file);
    if (length > MAX_FILE) {
        free(text);
        return NULL;
    }
    *length_p = length;
    return text;
}

/* Returns 0, or -EINVAL if the file is not a statistics file. */
static int read_usage(const char *path, mem_usage_t *usage_p)
{
    size_t length = 0;
    char *text = read_text(path, &length);
    const cJSON *memory;
    mem_usage_t usage;
    cJSON *json;

    if (text == NULL) {
        return -EINVAL;
    }
    json = cJSON_ParseWithLength(text, length);
    free(text);
    memory = cJSON_GetObjectItemCaseSensitive(json, "memory");
    usage.pools = number_in(memory, "pools");
    usage.queues = number_in(memory, "queues");
    usage.tables = number_in(memory, "tables");
    usage.qps = number_in(json, "qps");
    cJSON_Delete(json);
    if (usage.pools < 0 || usage.queues < 0 || usage.tables < 0) {
        return -EINVAL;
    }
    *usage_p = usage;
    return 0;
}

static void add_usage(mem_usages_t *usages, const mem_usage_t *usage)
{
    if (usages->ranks == 0 || total_of(usage) < total_of(&usages->least)) {
        usages->least = *usage;
    }
    if (usages->ranks == 0 || total_of(usage) > total_of(&usages->most)) {
        usages->most = *usage;
    }
    usages->sum.pools += usage->pools;
    usages->sum.queues += usage->queues;
    usages->sum.tables += usage->tables;
    usages->sum.qps += usage->qps;
    ++usages->ranks;
}

/* Reads and removes the files and their directory. */
static void collect(const char *dir, mem_usages_t *usages)
{
    DIR *stream = opendir(dir);
    const struct dirent *entry;

    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        char path[MRAIL_TOOL_PATH_MAX];
        mem_usage_t usage;

        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (read_usage(path, &usage) == 0) {
            add_usage(usages, &usage);
        } else {
            fprintf(stderr, "mrail info: %s is not a statistics file\n", path);
        }
        unlink(path);
    }
    if (stream != NULL) {
        closedir(stream);
    }
    rmdir(dir);
}

/* Builds "mrail run RUN -x UCX_MRAIL_STATS_FILE=... -- mrail-bench
 * alltoallv". */
static void plan_job(const mrail_tool_args_t *run, const char *dir,
                     mrail_tool_args_t *args)
{
    char bench[MRAIL_TOOL_PATH_MAX];

    mrail_tool_installed(MRAIL_PKGLIBEXECDIR "/mrail-bench", bench,
                         sizeof(bench));
    mrail_tool_args_add(args, "run");
    for (unsigned i = 0; i < run->count; ++i) {
        mrail_tool_args_add(args, run->items[i]);
    }
    mrail_tool_args_add(args, "-x");
    mrail_tool_args_addf(args, "UCX_MRAIL_STATS_FILE=%s/%%p", dir);
    mrail_tool_args_add(args, "--");
    mrail_tool_args_add(args, bench);
    mrail_tool_args_add(args, "alltoallv");
    /* Every rank exchanges small and striped messages with every other rank. */
    mrail_tool_args_add(args, "--sizes");
    mrail_tool_args_add(args, "4k,4m");
    mrail_tool_args_add(args, "--iterations");
    mrail_tool_args_add(args, "1");
    mrail_tool_args_add(args, "--warmup");
    mrail_tool_args_add(args, "0");
}

/* Runs the job. Its own output goes to stderr, because stdout is for the
 * report. */
static int run_job(const mrail_tool_args_t *args)
{
    char run[MRAIL_TOOL_PATH_MAX];
    int status;
    pid_t pid;

    mrail_tool_installed(MRAIL_PKGLIBEXECDIR "/mrail-run", run, sizeof(run));
    /* If SIGCHLD is inherited as ignored, waitpid() returns no status. */
    signal(SIGCHLD, SIG_DFL);
    pid = fork();
    if (pid == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execv(run, args->items);
        mrail_tool_fail(MRAIL_INFO_COMMAND, "%s: %s", run, strerror(errno));
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0) {
        mrail_tool_fail(MRAIL_INFO_COMMAND, "fork: %s", strerror(errno));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void print_usage(const char *name, const mem_usage_t *usage,
                        double ranks)
{
    printf("%-12s %9.2f %9.2f %9.2f %9.2f %6.0f\n", name,
           usage->pools / ranks / MIB, usage->queues / ranks / MIB,
           usage->tables / ranks / MIB, total_of(usage) / ranks / MIB,
           usage->qps / ranks);
}

static void print_json_usage(mrail_json_t *json, const char *name,
                             const mem_usage_t *usage, double ranks)
{
    const struct {
        const char *key;
        double value;
    } members[] = {{"pools", usage->pools},
                   {"queues", usage->queues},
                   {"tables", usage->tables},
                   {"total", total_of(usage)},
                   {"qps", usage->qps}};

    mrail_json_object(json, name);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(members); ++i) {
        mrail_json_fixed(json, members[i].key, members[i].value / ranks, 0);
    }
    mrail_json_object_end(json);
}

static void print_json(const mem_usages_t *usages)
{
    mrail_json_t json = mrail_json_to(stdout);

    mrail_json_object(&json, NULL);
    mrail_json_uint(&json, "ranks", usages->ranks);
    print_json_usage(&json, "least", &usages->least, 1);
    print_json_usage(&json, "mean", &usages->sum, usages->ranks);
    print_json_usage(&json, "most", &usages->most, 1);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

static void print_usages(const mem_usages_t *usages, int json)
{
    if (json) {
        print_json(usages);
        return;
    }
    printf("memory of the transport in each of %u ranks, MiB\n", usages->ranks);
    printf("%-12s %9s %9s %9s %9s %6s\n", "", "buffers", "queues", "tables",
           "total", "QPs");
    print_usage("least", &usages->least, 1);
    print_usage("mean", &usages->sum, usages->ranks);
    print_usage("most", &usages->most, 1);
}

int mrail_info_memory(const mrail_tool_args_t *run, int json)
{
    const char *tmp = getenv("TMPDIR");
    char dir[MRAIL_TOOL_PATH_MAX / 2];
    mrail_tool_args_t args = {0};
    mem_usages_t usages = {0};
    int status;

    snprintf(dir, sizeof(dir), "%s/mrail-info-XXXXXX",
             (tmp != NULL && *tmp == '/') ? tmp : P_tmpdir);
    if (mkdtemp(dir) == NULL) {
        mrail_tool_fail(MRAIL_INFO_COMMAND, "%s: %s", dir, strerror(errno));
    }
    plan_job(run, dir, &args);
    status = run_job(&args);
    collect(dir, &usages);
    mrail_tool_args_cleanup(&args);
    if (status != 0) {
        mrail_tool_fail(MRAIL_INFO_COMMAND,
                        "the job failed with exit status %d", status);
    }
    if (usages.ranks == 0) {
        mrail_tool_fail(MRAIL_INFO_COMMAND, "no rank wrote statistics: did the "
                                            "job use mrail?");
    }
    print_usages(&usages, json);
    return 0;
}
