#include "config.h"
#include "tools/collect_local.h"

#include "base/clock.h"
#include "base/grow.h"
#include "telemetry/calls.h"
#include "telemetry/image.h"
#include "tools/collect_tar.h"
#include "tools/proc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A telemetry file of the job. */
typedef struct found {
    char path[MRAIL_TELE_PATH];
    mrail_tele_name_t name;
    int rank;
    int alive;
    int64_t changed_s;
} found_t;

/* The files of one process, which are consecutive. */
typedef struct group {
    unsigned first, count; /* in `found` */
    int alive;
    int64_t changed_s;
    proc_threads_t before;
    collect_host_t earlier; /* the first samples */
} group_t;

typedef struct gathering {
    const collect_local_t *local;
    collect_host_t *host;
    uint64_t clock_ns; /* CLOCK_REALTIME minus CLOCK_MONOTONIC */
    uint64_t left;     /* bytes left for this host */
    found_t *found;
    unsigned num_found, capacity;
    group_t *groups;
    unsigned num_groups;
    int ret; /* 0, or -ENOMEM */
} gathering_t;

static uint64_t clock_difference(void)
{
    return mrail_page_now() - mrail_clock_now();
}

/* ---- find ---- */

/* Makes an image of an open file. Returns its status. */
static mrail_page_status_t make_image(const gathering_t *gathering, int fd,
                                      mrail_tele_kind_t kind, int with_ring,
                                      mrail_image_t *image)
{
    switch (kind) {
    case MRAIL_TELE_CALLS:
        return mrail_image_calls(fd, gathering->clock_ns, image);
    case MRAIL_TELE_PLANS:
        return mrail_image_plans(fd, image);
    default:
        return mrail_image_page(fd, gathering->clock_ns, with_ring, image);
    }
}

/* Opens a file of this user. Returns a descriptor. If the file is not valid,
 * counts it and returns -1. The owner is checked even for root, because another
 * user may give a file any name. */
static int open_own(const gathering_t *gathering, const char *path,
                    struct stat *st)
{
    int fd = mrail_tele_file_open(path, st);

    if (fd < 0) {
        /* ENOENT: the process has exited. */
        gathering->host->foreign += errno == EACCES;
        gathering->host->refused += (errno == ELOOP) || (errno == ENXIO);
        return -1;
    }
    if (st->st_uid != geteuid()) {
        ++gathering->host->foreign;
    } else if (!S_ISREG(st->st_mode)) {
        ++gathering->host->refused;
    } else {
        return fd;
    }
    close(fd);
    return -1;
}

static void add_found(gathering_t *gathering, const char *path,
                      const mrail_tele_name_t *name, const struct stat *st,
                      const mrail_image_t *image)
{
    found_t *found;

    if (gathering->num_found == gathering->capacity) {
        unsigned capacity =
            (gathering->capacity == 0) ? 64 : 2 * gathering->capacity;

        if (!mrail_grow(&gathering->found, capacity,
                        sizeof(*gathering->found))) {
            gathering->ret = -ENOMEM;
            return;
        }
        gathering->capacity = capacity;
    }
    found = &gathering->found[gathering->num_found++];
    *found = (found_t){.name = *name,
                       .rank = image->rank,
                       .alive = image->alive,
                       .changed_s = st->st_mtime};
    snprintf(found->path, sizeof(found->path), "%s", path);
}

/* Takes a file if it is valid and belongs to the job. */
static void visit(const char *path, void *arg)
{
    gathering_t *gathering = arg;
    mrail_page_status_t status;
    mrail_tele_name_t name;
    mrail_image_t image;
    struct stat st;
    int fd;

    if (mrail_tele_name_parse(strrchr(path, '/') + 1, &name) != 0) {
        ++gathering->host->refused;
        return;
    }
    fd = open_own(gathering, path, &st);
    if (fd < 0) {
        return;
    }
    status = make_image(gathering, fd, name.kind, 0, &image);
    close(fd);
    if (image.data == NULL) {
        gathering->host->refused += status != MRAIL_PAGE_GONE;
        return;
    }
    if ((gathering->local->job == NULL) ||
        (strcmp(gathering->local->job, image.job) == 0)) {
        add_found(gathering, path, &name, &st, &image);
    }
    free(image.data);
}

/* ---- processes ---- */

static int group_order(const void *a, const void *b)
{
    const group_t *x = a, *y = b;

    if (x->alive != y->alive) {
        return y->alive - x->alive;
    }
    if (x->changed_s != y->changed_s) {
        return (x->changed_s < y->changed_s) ? 1 : -1;
    }
    return (x->first > y->first) - (x->first < y->first);
}

static int found_order(const void *a, const void *b)
{
    const found_t *x = a, *y = b;

    if (x->name.pid != y->name.pid) {
        return (x->name.pid > y->name.pid) - (x->name.pid < y->name.pid);
    }
    if (x->rank != y->rank) {
        return (x->rank > y->rank) - (x->rank < y->rank);
    }
    return strcmp(x->path, y->path);
}

/* Groups the files by process. Processes in different PID namespaces may have
 * the same pid, but ranks of a job are different. */
static void make_groups(gathering_t *gathering)
{
    group_t *group = NULL;

    gathering->groups =
        calloc(gathering->num_found + 1, sizeof(*gathering->groups));
    if (gathering->groups == NULL) {
        gathering->ret = -ENOMEM;
        return;
    }
    if (gathering->num_found > 0) {
        qsort(gathering->found, gathering->num_found, sizeof(*gathering->found),
              found_order);
    }
    for (unsigned i = 0; i < gathering->num_found; ++i) {
        const found_t *found = &gathering->found[i];
        const found_t *first =
            (group != NULL) ? &gathering->found[group->first] : NULL;

        if ((first == NULL) || (first->name.pid != found->name.pid) ||
            (first->rank != found->rank)) {
            group = &gathering->groups[gathering->num_groups++];
            group->first = i;
        }
        ++group->count;
        group->alive |= found->alive;
        group->changed_s = MRAIL_MAX(group->changed_s, found->changed_s);
    }
    qsort(gathering->groups, gathering->num_groups, sizeof(*gathering->groups),
          group_order);
}

/* ---- samples ---- */

/* Adds an image to the files of *to, unless the file has vanished. */
static void sample_file(gathering_t *gathering, const found_t *found,
                        int is_earlier, collect_host_t *to)
{
    const char *name = strrchr(found->path, '/') + 1;
    mrail_image_t image;
    collect_file_t *file;
    struct stat st;
    int fd = open_own(gathering, found->path, &st);

    if (fd < 0) {
        return;
    }
    (void)make_image(gathering, fd, found->name.kind, !is_earlier, &image);
    close(fd);
    if (image.data == NULL) {
        return;
    }
    file = collect_host_add_file(to);
    if (file == NULL) {
        free(image.data);
        gathering->ret = -ENOMEM;
        return;
    }
    snprintf(file->name, sizeof(file->name), "%s%s",
             is_earlier ? COLLECT_EARLIER : "", name);
    file->size = image.size;
    file->alive = image.alive;
    file->data = image.data;
}

static void sample_group(gathering_t *gathering, const group_t *group,
                         int is_earlier, collect_host_t *to)
{
    for (unsigned i = 0; i < group->count; ++i) {
        sample_file(gathering, &gathering->found[group->first + i], is_earlier,
                    to);
    }
}

/* Takes the first samples of running processes. Returns 1 if there are any. */
static int sample_earlier(gathering_t *gathering)
{
    int is_any = 0;

    for (unsigned i = 0; i < gathering->num_groups; ++i) {
        group_t *group = &gathering->groups[i];

        if (group->alive) {
            group->before =
                proc_threads(gathering->found[group->first].name.pid);
            sample_group(gathering, group, 1, &group->earlier);
            is_any = 1;
        }
    }
    return is_any;
}

static void add_process(gathering_t *gathering, const group_t *group,
                        uint64_t elapsed_ns)
{
    const found_t *first = &gathering->found[group->first];
    unsigned pid = first->name.pid;
    proc_threads_t now = proc_threads(pid);
    proc_shares_t shares = proc_shares(&group->before, &now, elapsed_ns);
    collect_process_t *process = collect_host_add_process(gathering->host);

    if (process == NULL) {
        gathering->ret = -ENOMEM;
        return;
    }
    *process = (collect_process_t){
        .pid = pid, .rank = first->rank, .state = '?', .run = -1, .delay = -1};
    if (proc_is_owner(pid, first->path)) {
        process->state = proc_state(pid);
        process->run = shares.run;
        process->delay = shares.delay;
    }
}

/* Moves the files of *from to the host. */
static void move_files(gathering_t *gathering, collect_host_t *from)
{
    for (unsigned i = 0; i < from->num_files; ++i) {
        collect_file_t *file = collect_host_add_file(gathering->host);

        if (file == NULL) {
            gathering->ret = -ENOMEM;
            return;
        }
        *file = from->files[i];
        from->files[i].data = NULL;
    }
}

/* Takes the second samples of a process, if all of its files fit. */
static void take_group(gathering_t *gathering, group_t *group,
                       uint64_t elapsed_ns)
{
    collect_host_t files = {.num_files = 0};
    uint64_t size;

    sample_group(gathering, group, 0, &files);
    size = collect_tar_files(&files) + collect_tar_files(&group->earlier);
    gathering->host->needed += (files.num_files > 0) ? size : 0;
    if (files.num_files == 0) {
        /* The process has exited normally. */
    } else if ((size > gathering->left) ||
               (gathering->host->num_files + files.num_files +
                    group->earlier.num_files >
                COLLECT_MAX_FILES)) {
        ++gathering->host->left_out;
    } else {
        gathering->left -= size;
        if (group->alive) {
            add_process(gathering, group, elapsed_ns);
        }
        move_files(gathering, &files);
        move_files(gathering, &group->earlier);
    }
    collect_host_cleanup(&files);
}

static void pause_for(uint64_t time_ns)
{
    struct timespec t = {.tv_sec = (time_t)(time_ns / MRAIL_NS_PER_SEC),
                         .tv_nsec = (long)(time_ns % MRAIL_NS_PER_SEC)};

    while ((nanosleep(&t, &t) != 0) && (errno == EINTR)) {
    }
}

static void take_samples(gathering_t *gathering)
{
    uint64_t begin_ns = mrail_clock_now(), elapsed_ns;

    if (sample_earlier(gathering)) {
        pause_for(gathering->local->sample_ns);
    }
    elapsed_ns = mrail_clock_now() - begin_ns;
    gathering->clock_ns = clock_difference();
    for (unsigned i = 0; (i < gathering->num_groups) && (gathering->ret == 0);
         ++i) {
        take_group(gathering, &gathering->groups[i], elapsed_ns);
    }
    gathering->host->time_ns = mrail_page_now();
    gathering->host->sample_ns = elapsed_ns;
}

static void cleanup(gathering_t *gathering)
{
    for (unsigned i = 0; i < gathering->num_groups; ++i) {
        collect_host_cleanup(&gathering->groups[i].earlier);
    }
    free(gathering->groups);
    free(gathering->found);
}

int collect_local(const collect_local_t *local, collect_host_t *host,
                  char error[COLLECT_ERROR])
{
    gathering_t gathering = {.local = local,
                             .host = host,
                             .clock_ns = clock_difference(),
                             .left = local->max_size};
    int ret =
        mrail_tele_file_each(local->dir, MRAIL_TELE_ALL, visit, &gathering);

    if (ret < 0) {
        snprintf(error, COLLECT_ERROR, "cannot read %s: %s", local->dir,
                 strerror(-ret));
        free(gathering.found);
        return ret;
    }
    ret = mrail_tele_file_others(local->dir);
    host->foreign += (ret > 0) ? (unsigned)ret : 0;
    make_groups(&gathering);
    if (gathering.ret == 0) {
        take_samples(&gathering);
    }
    cleanup(&gathering);
    if (gathering.ret != 0) {
        snprintf(error, COLLECT_ERROR, "out of memory");
    }
    return gathering.ret;
}
