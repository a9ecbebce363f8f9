#include "config.h"
#include "tools/collect_manifest.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/util.h"
#include "telemetry/calls.h"
#include "telemetry/image.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* cJSON stores a global pointer to the last error. */
static pthread_mutex_t cjson_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- names ---- */

int collect_is_host_name(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_:@[]";
    size_t length = strlen(text);

    return (length > 0) && (length < COLLECT_NAME) && (text[0] != '-') &&
           (text[0] != '.') && (strspn(text, letters) == length) &&
           (strcmp(text, COLLECT_MANIFEST) != 0);
}

int collect_file_parse(const char *text, mrail_tele_name_t *name,
                       int *is_earlier_p)
{
    size_t length = sizeof(COLLECT_EARLIER) - 1;
    int is_earlier = strncmp(text, COLLECT_EARLIER, length) == 0;
    mrail_tele_name_t parsed;

    if ((mrail_tele_name_parse(is_earlier ? text + length : text, &parsed) !=
         0) ||
        (parsed.host >= 0)) {
        return -EINVAL;
    }
    *name = parsed;
    *is_earlier_p = is_earlier;
    return 0;
}

/* ---- memory ---- */

/* Grows an array by one element. Its capacity is a power of two, so that the
 * total time is linear. Returns the new element, or NULL. */
static void *append(void *array_p, unsigned *count_p, size_t size)
{
    unsigned count = *count_p;
    void *array;

    if (((count & (count - 1)) == 0) &&
        !mrail_grow(array_p, (count == 0) ? 1 : 2 * (size_t)count, size)) {
        return NULL;
    }
    memcpy(&array, array_p, sizeof(array));
    ++*count_p;
    return memset((char *)array + count * size, 0, size);
}

collect_host_t *collect_manifest_add(collect_manifest_t *manifest)
{
    return append(&manifest->hosts, &manifest->num_hosts,
                  sizeof(*manifest->hosts));
}

collect_file_t *collect_host_add_file(collect_host_t *host)
{
    return append(&host->files, &host->num_files, sizeof(*host->files));
}

collect_process_t *collect_host_add_process(collect_host_t *host)
{
    return append(&host->processes, &host->num_processes,
                  sizeof(*host->processes));
}

void collect_host_cleanup(collect_host_t *host)
{
    for (unsigned i = 0; i < host->num_files; ++i) {
        free(host->files[i].data);
    }
    free(host->files);
    free(host->processes);
    host->files = NULL;
    host->processes = NULL;
    host->num_files = host->num_processes = 0;
}

void collect_manifest_cleanup(collect_manifest_t *manifest)
{
    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        collect_host_cleanup(&manifest->hosts[i]);
    }
    free(manifest->hosts);
    memset(manifest, 0, sizeof(*manifest));
}

unsigned collect_host_count(const collect_host_t *host)
{
    unsigned count = 0, last = 0, running = 0;

    /* The files of a process are adjacent, and the order of the processes is
     * that of their files. Several running processes may have the same pid. */
    for (unsigned i = 0; i < host->num_files; ++i) {
        mrail_tele_name_t name;
        unsigned more = 0;
        int is_earlier;

        if ((collect_file_parse(host->files[i].name, &name, &is_earlier) ==
             0) &&
            !is_earlier && ((count == 0) || (name.pid != last))) {
            last = name.pid;
            ++count;
            while ((running < host->num_processes) &&
                   (host->processes[running].pid == name.pid)) {
                count += more;
                more = 1;
                ++running;
            }
        }
    }
    return count;
}

/* ---- write ---- */

static void write_share(mrail_json_t *json, const char *key, double share)
{
    if (share < 0) {
        mrail_json_null(json, key);
    } else {
        mrail_json_fixed(json, key, share, 4);
    }
}

static void write_files(mrail_json_t *json, const collect_host_t *host)
{
    mrail_json_array(json, "files");
    for (unsigned i = 0; i < host->num_files; ++i) {
        const collect_file_t *file = &host->files[i];

        mrail_json_newline(json);
        mrail_json_object(json, NULL);
        mrail_json_string(json, "name", file->name);
        mrail_json_uint(json, "size", file->size);
        mrail_json_bool(json, "alive", file->alive);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
}

static void write_processes(mrail_json_t *json, const collect_host_t *host)
{
    mrail_json_array(json, "processes");
    for (unsigned i = 0; i < host->num_processes; ++i) {
        const collect_process_t *process = &host->processes[i];

        mrail_json_newline(json);
        mrail_json_object(json, NULL);
        mrail_json_uint(json, "pid", process->pid);
        if (process->rank != COLLECT_ANY_RANK) {
            mrail_json_int(json, "rank", process->rank);
        }
        mrail_json_string(json, "state", (char[]){process->state, '\0'});
        write_share(json, "runs", process->run);
        write_share(json, "waits", process->delay);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
}

static void write_host(mrail_json_t *json, const collect_host_t *host)
{
    mrail_json_newline(json);
    mrail_json_object(json, NULL);
    mrail_json_string(json, "name", host->name);
    if (host->error[0] != '\0') {
        mrail_json_string(json, "error", host->error);
    } else {
        mrail_json_int(json, "offset_ns", host->offset_ns);
        mrail_json_uint(json, "bound_ns", host->bound_ns);
        mrail_json_uint(json, "time_ns", host->time_ns);
        mrail_json_uint(json, "sample_ns", host->sample_ns);
        mrail_json_uint(json, "needed", host->needed);
        mrail_json_uint(json, "left_out", host->left_out);
        mrail_json_uint(json, "refused", host->refused);
        mrail_json_uint(json, "foreign", host->foreign);
        write_processes(json, host);
        write_files(json, host);
    }
    mrail_json_object_end(json);
}

void collect_manifest_write(FILE *stream, const collect_manifest_t *manifest)
{
    mrail_json_t json = mrail_json_to(stream);

    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "format", COLLECT_FORMAT);
    mrail_json_uint(&json, "version", COLLECT_VERSION);
    mrail_json_string(&json, "written_by", PACKAGE_STRING);
    mrail_json_uint(&json, "time_ns", manifest->time_ns);
    mrail_json_string(&json, "job", manifest->job);
    mrail_json_array(&json, "hosts");
    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        write_host(&json, &manifest->hosts[i]);
    }
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

/* ---- parse ---- */

typedef struct parsing {
    char *error;
    int ret; /* 0, or the reason of the first failure */
} parsing_t;

__attribute__((format(printf, 3, 4))) static void
refuse(parsing_t *parsing, int ret, const char *format, ...)
{
    va_list args;

    if (parsing->ret == 0) {
        va_start(args, format);
        vsnprintf(parsing->error, COLLECT_ERROR, format, args);
        va_end(args);
        parsing->ret = ret;
    }
}

static void refuse_member(parsing_t *parsing, const char *key)
{
    refuse(parsing, -EINVAL, "the manifest has no valid '%s'", key);
}

/* Returns the member, or rejects the manifest. */
static const cJSON *member(parsing_t *parsing, const cJSON *object,
                           const char *key,
                           cJSON_bool (*is_type)(const cJSON *))
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    if ((item == NULL) || !is_type(item)) {
        refuse_member(parsing, key);
        return NULL;
    }
    return item;
}

/* Returns a whole number of at most `max`, or 0. Numbers above 2^53 are
 * inexact, because cJSON stores doubles. Times, for example, are exact to 256
 * ns. */
static uint64_t take_uint(parsing_t *parsing, const cJSON *object,
                          const char *key, uint64_t max)
{
    const cJSON *item = member(parsing, object, key, cJSON_IsNumber);

    if (item == NULL) {
        return 0;
    }
    if (!(item->valuedouble >= 0) || (item->valuedouble > (double)max) ||
        (item->valuedouble != floor(item->valuedouble))) {
        refuse_member(parsing, key);
        return 0;
    }
    return (uint64_t)item->valuedouble;
}

static int64_t take_int(parsing_t *parsing, const cJSON *object,
                        const char *key, int64_t max)
{
    const cJSON *item = member(parsing, object, key, cJSON_IsNumber);

    if (item == NULL) {
        return 0;
    }
    if (!(fabs(item->valuedouble) <= (double)max)) {
        refuse_member(parsing, key);
        return 0;
    }
    return (int64_t)item->valuedouble;
}

/* Returns a fraction, or -1 for null. */
static double take_share(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    return (cJSON_IsNumber(item) && (item->valuedouble >= 0) &&
            (item->valuedouble < 1e6))
               ? item->valuedouble
               : -1;
}

/* Copies printable text. */
static void take_text(parsing_t *parsing, const cJSON *object, const char *key,
                      char *text, size_t size)
{
    const cJSON *item = member(parsing, object, key, cJSON_IsString);
    size_t i = 0;

    if ((item == NULL) || (strlen(item->valuestring) >= size)) {
        refuse_member(parsing, key);
        return;
    }
    for (; item->valuestring[i] != '\0'; ++i) {
        char c = item->valuestring[i];

        text[i] = ((c >= ' ') && (c <= '~')) ? c : '?';
    }
    text[i] = '\0';
}

static void parse_file(parsing_t *parsing, const cJSON *item,
                       collect_host_t *host)
{
    collect_file_t *file = collect_host_add_file(host);
    mrail_tele_name_t name;
    int is_earlier;

    if (file == NULL) {
        refuse(parsing, -ENOMEM, "out of memory");
        return;
    }
    take_text(parsing, item, "name", file->name, sizeof(file->name));
    file->size = take_uint(parsing, item, "size", MRAIL_IMAGE_MAX);
    file->alive = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "alive"));
    if ((parsing->ret == 0) &&
        ((collect_file_parse(file->name, &name, &is_earlier) != 0) ||
         (file->size == 0))) {
        refuse(parsing, -EINVAL,
               "the manifest lists file '%s', which is not a telemetry file",
               file->name);
    }
}

static void parse_process(parsing_t *parsing, const cJSON *item,
                          collect_host_t *host)
{
    collect_process_t *process = collect_host_add_process(host);
    char state[2] = "";

    if (process == NULL) {
        refuse(parsing, -ENOMEM, "out of memory");
        return;
    }
    process->pid = (uint32_t)take_uint(parsing, item, "pid", UINT32_MAX);
    process->rank = cJSON_HasObjectItem(item, "rank")
                        ? (int32_t)take_int(parsing, item, "rank", INT32_MAX)
                        : COLLECT_ANY_RANK;
    take_text(parsing, item, "state", state, sizeof(state));
    process->state = (state[0] == '\0') ? '?' : state[0];
    process->run = take_share(item, "runs");
    process->delay = take_share(item, "waits");
}

/* Calls `parse` with each element of a list of at most `max` elements. */
static void parse_list(parsing_t *parsing, const cJSON *object, const char *key,
                       unsigned max, collect_host_t *host,
                       void (*parse)(parsing_t *parsing, const cJSON *item,
                                     collect_host_t *host))
{
    const cJSON *list = member(parsing, object, key, cJSON_IsArray), *item;
    unsigned count = 0;

    cJSON_ArrayForEach(item, list)
    {
        if (++count > max) {
            refuse(parsing, -EINVAL, "more than %u entries in '%s'", max, key);
        }
        if (parsing->ret != 0) {
            return;
        }
        parse(parsing, item, host);
    }
}

static int has_host(const collect_manifest_t *manifest, const char *name)
{
    /* The last host is the one that is being parsed. */
    for (unsigned i = 0; i + 1 < manifest->num_hosts; ++i) {
        if (strcmp(manifest->hosts[i].name, name) == 0) {
            return 1;
        }
    }
    return 0;
}

static void parse_host_data(parsing_t *parsing, const cJSON *item,
                            collect_host_t *host)
{
    host->offset_ns =
        take_int(parsing, item, "offset_ns", (int64_t)MRAIL_CALLS_MAX_NS);
    host->bound_ns = take_uint(parsing, item, "bound_ns", MRAIL_CALLS_MAX_NS);
    host->time_ns = take_uint(parsing, item, "time_ns", MRAIL_CALLS_MAX_NS);
    host->sample_ns = take_uint(parsing, item, "sample_ns", MRAIL_CALLS_MAX_NS);
    /* Earlier versions did not write it. */
    if (cJSON_HasObjectItem(item, "needed")) {
        host->needed = take_uint(parsing, item, "needed", COLLECT_MAX_NEEDED);
    }
    host->left_out = (unsigned)take_uint(parsing, item, "left_out", INT32_MAX);
    host->refused = (unsigned)take_uint(parsing, item, "refused", INT32_MAX);
    host->foreign = (unsigned)take_uint(parsing, item, "foreign", INT32_MAX);
    parse_list(parsing, item, "processes", COLLECT_MAX_FILES, host,
               parse_process);
    parse_list(parsing, item, "files", COLLECT_MAX_FILES, host, parse_file);
}

static void parse_host(parsing_t *parsing, const cJSON *item,
                       collect_manifest_t *manifest)
{
    collect_host_t *host = collect_manifest_add(manifest);

    if (host == NULL) {
        refuse(parsing, -ENOMEM, "out of memory");
        return;
    }
    take_text(parsing, item, "name", host->name, sizeof(host->name));
    if ((parsing->ret == 0) &&
        (!collect_is_host_name(host->name) || has_host(manifest, host->name))) {
        refuse(parsing, -EINVAL,
               "the manifest has an invalid or duplicate host '%s'",
               host->name);
    }
    if (cJSON_HasObjectItem(item, "error")) {
        take_text(parsing, item, "error", host->error, sizeof(host->error));
    } else {
        parse_host_data(parsing, item, host);
    }
}

static void parse_root(parsing_t *parsing, const cJSON *root,
                       collect_manifest_t *manifest)
{
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "format");
    const cJSON *hosts, *item;
    uint64_t version;

    if (!cJSON_IsString(format) ||
        (strcmp(format->valuestring, COLLECT_FORMAT) != 0)) {
        refuse(parsing, -EINVAL, "not a mrail collect archive");
        return;
    }
    version = take_uint(parsing, root, "version", INT32_MAX);
    if ((parsing->ret == 0) && (version != COLLECT_VERSION)) {
        refuse(parsing, -EPROTO,
               "format version %u, but this mrail reads only version %u",
               (unsigned)version, COLLECT_VERSION);
    }
    manifest->time_ns = take_uint(parsing, root, "time_ns", MRAIL_CALLS_MAX_NS);
    take_text(parsing, root, "job", manifest->job, sizeof(manifest->job));
    hosts = member(parsing, root, "hosts", cJSON_IsArray);
    cJSON_ArrayForEach(item, hosts)
    {
        if (manifest->num_hosts == COLLECT_MAX_HOSTS) {
            refuse(parsing, -EINVAL, "more than %u hosts", COLLECT_MAX_HOSTS);
        }
        if (parsing->ret != 0) {
            return;
        }
        parse_host(parsing, item, manifest);
    }
}

int collect_manifest_parse(const char *text, size_t size,
                           collect_manifest_t *manifest,
                           char error[COLLECT_ERROR])
{
    parsing_t parsing = {.error = error};
    cJSON *root;

    pthread_mutex_lock(&cjson_lock);
    root = cJSON_ParseWithLength(text, size);
    pthread_mutex_unlock(&cjson_lock);
    memset(manifest, 0, sizeof(*manifest));
    if (root == NULL) {
        refuse(&parsing, -EINVAL, "the manifest is not JSON");
        return parsing.ret;
    }
    parse_root(&parsing, root, manifest);
    cJSON_Delete(root);
    if (parsing.ret != 0) {
        collect_manifest_cleanup(manifest);
    }
    return parsing.ret;
}
