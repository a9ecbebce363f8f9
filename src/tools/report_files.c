#include "config.h"
#include "tools/report_files.h"

#include "base/grow.h"
#include "base/util.h"
#include "tools/pages.h"
#include "tools/tool.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "report"
/* Replaces a descriptor: the file was read and closed. */
#define TAKEN (-2)

_Noreturn static void fail_memory(void)
{
    mrail_tool_fail(COMMAND, "out of memory");
}

/* Returns the time at which the file at `path` was sampled. */
static uint64_t now_of(const report_files_t *files, const char *path)
{
    return (files->view != NULL)
               ? collect_view_time(files->view, mrail_tele_file_host(path))
               : mrail_page_now();
}

/* ---- the job ---- */

/* Returns the number of jobs, or of running jobs, and the last of them. */
static unsigned count_jobs(const pages_t *pages, int running,
                           const char **job_p)
{
    unsigned count = 0;
    const char *last = NULL;

    /* The pages are sorted by job. */
    for (unsigned i = 0; i < pages->count; ++i) {
        const char *job = pages->items[i].page->job;

        if ((!running || pages->items[i].alive) &&
            ((last == NULL) || (strcmp(last, job) != 0))) {
            last = job;
            ++count;
        }
    }
    *job_p = last;
    return count;
}

static int has_job(const pages_t *pages, const char *job, int *is_live_p)
{
    int found = 0;

    for (unsigned i = 0; i < pages->count; ++i) {
        if (strcmp(pages->items[i].page->job, job) == 0) {
            *is_live_p |= pages->items[i].alive;
            found = 1;
        }
    }
    return found;
}

_Noreturn static void fail_none(const report_files_t *files, const char *job)
{
    int others = (files->view != NULL) ? 0 : mrail_tele_file_others(files->dir);
    char more[96] = "";

    if (others > 0) {
        snprintf(more, sizeof(more), "; %d page%s of other users %s not read",
                 others, (others == 1) ? "" : "s",
                 (others == 1) ? "is" : "are");
    }
    mrail_tool_fail(COMMAND,
                    "no process %s%s has telemetry in %s; it must run with "
                    "UCX_TLS=mrail and UCX_MRAIL_TELEMETRY=y%s",
                    (job != NULL) ? "of job " : "of this user",
                    (job != NULL) ? job : "", files->source, more);
}

_Noreturn static void fail_choice(const pages_t *pages)
{
    const char *last = NULL;

    fputs("mrail report: there are several jobs; name one of:\n", stderr);
    for (unsigned i = 0; i < pages->count; ++i) {
        const char *job = pages->items[i].page->job;

        if ((last == NULL) || (strcmp(last, job) != 0)) {
            fprintf(stderr, "  %s\n", (*job != '\0') ? job : "''");
            last = job;
        }
    }
    exit(MRAIL_TOOL_FAILED);
}

void report_select(report_files_t *files, const char *job, int *is_live_p,
                   unsigned *refused_p)
{
    pages_t pages;
    unsigned count;

    *is_live_p = 0;
    *refused_p = 0;
    pages_read(&pages, COMMAND, files->dir, NULL, 1);
    for (unsigned i = 0; i < MRAIL_PAGE_STATUSES; ++i) {
        *refused_p += pages.refused[i];
    }
    if (job == NULL) {
        count = count_jobs(&pages, 1, &job);
        if (count == 0) {
            count = count_jobs(&pages, 0, &job);
        }
        if (count > 1) {
            fail_choice(&pages);
        }
    }
    if ((job == NULL) || !has_job(&pages, job, is_live_p)) {
        fail_none(files, job);
    }
    snprintf(files->job, sizeof(files->job), "%s", job);
    pages_cleanup(&pages);
}

/* ---- open ---- */

static void close_fd(int *fd_p)
{
    if (*fd_p >= 0) {
        close(*fd_p);
        *fd_p = -1;
    }
}

/* Returns the id at the end of a file name, or 0. */
static uint64_t id_of(const char *path)
{
    const char *dot = strrchr(path, '.');

    return (dot != NULL) ? strtoull(dot + 1, NULL, 16) : 0;
}

static report_state_t state_of(const char *path, int alive)
{
    return alive                       ? REPORT_RUNNING
           : (access(path, F_OK) == 0) ? REPORT_KILLED
                                       : REPORT_ENDED;
}

static int is_known(const report_files_t *files, const char *path)
{
    for (unsigned i = 0; i < files->count; ++i) {
        if (strcmp(files->items[i].path, path) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Adds the process of a page to the model and to the list. */
static void add_file(report_files_t *files, const char *path, int fd,
                     const mrail_page_t *page, int alive)
{
    report_model_t *model = files->model;
    report_file_t *file;

    if (!mrail_grow(&files->items, files->count + 1, sizeof(*files->items))) {
        fail_memory();
    }
    file = &files->items[files->count++];
    snprintf(file->path, sizeof(file->path), "%s", path);
    file->fd = fd;
    file->calls_fd = file->plans_fd = -1;
    file->process = report_add(model, id_of(path), page, state_of(path, alive),
                               now_of(files, path));
    if ((file->process == NULL) ||
        (report_events(model, file->process, page) != 0)) {
        fail_memory();
    }
    file->process->host = mrail_tele_file_host(path);
    if (alive && (files->view == NULL) &&
        ((model->params_rank < 0) || (page->rank < model->params_rank))) {
        report_env(model, file->process);
    }
    if (files->is_still) {
        close_fd(&file->fd);
    }
}

static void visit_page(const char *path, void *arg)
{
    static mrail_page_t page;
    report_files_t *files = arg;
    mrail_page_status_t status;
    struct stat st;
    int fd;

    if (is_known(files, path)) {
        return;
    }
    fd = mrail_tele_file_open(path, &st);
    if (fd < 0) {
        return;
    }
    status = mrail_page_read_fd(fd, &page);
    if (((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED)) &&
        (strcmp(page.job, files->job) == 0)) {
        add_file(files, path, fd, &page, status == MRAIL_PAGE_ALIVE);
    } else {
        close(fd);
    }
}

static void take_calls(report_files_t *files, report_file_t *file)
{
    static mrail_calls_t calls;
    mrail_page_status_t status;

    if (file->calls_fd < 0) {
        return;
    }
    status = mrail_calls_read_fd(file->calls_fd, &calls);
    if (((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED)) &&
        (calls.pid == file->process->pid) &&
        (strcmp(calls.job, files->job) == 0) &&
        (report_calls(file->process, &calls) != 0)) {
        fail_memory();
    }
}

static void take_plans(report_files_t *files, report_file_t *file)
{
    static mrail_plans_t plans;
    mrail_page_status_t status;

    if (file->plans_fd < 0) {
        return;
    }
    status = mrail_plans_read_fd(file->plans_fd, &plans);
    if (((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED)) &&
        (plans.pid == file->process->pid) &&
        (strcmp(plans.job, files->job) == 0) &&
        (report_plans(files->model, &plans) != 0)) {
        fail_memory();
    }
}

/* Opens another file of a process, whose descriptor is at `offset`. If the
 * files no longer change, reads it immediately and closes it, because an
 * archive may have more processes than this process may have open files. */
static void open_other(report_files_t *files, const char *path, size_t offset,
                       void (*take)(report_files_t *, report_file_t *))
{
    struct stat st;

    for (unsigned i = 0; i < files->count; ++i) {
        report_file_t *file = &files->items[i];
        int *fd_p = (int *)((char *)file + offset);
        const char *id = strrchr(file->path, '.');

        /* The names are the same up to the id. */
        if ((*fd_p != -1) || ((file->fd < 0) && !files->is_still) ||
            (id == NULL) ||
            (strncmp(path, file->path, (size_t)(id - file->path) + 1) != 0)) {
            continue;
        }
        *fd_p = mrail_tele_file_open(path, &st);
        if (files->is_still) {
            take(files, file);
            close_fd(fd_p);
            *fd_p = TAKEN;
        }
    }
}

static void visit_calls(const char *path, void *arg)
{
    open_other(arg, path, offsetof(report_file_t, calls_fd), take_calls);
}

static void visit_plans(const char *path, void *arg)
{
    open_other(arg, path, offsetof(report_file_t, plans_fd), take_plans);
}

void report_find(report_files_t *files)
{
    int ret = mrail_page_each(files->dir, visit_page, files);

    if (ret >= 0) {
        ret = mrail_tele_file_each(files->dir, MRAIL_TELE_CALLS, visit_calls,
                                   files);
    }
    if (ret >= 0) {
        ret = mrail_tele_file_each(files->dir, MRAIL_TELE_PLANS, visit_plans,
                                   files);
    }
    if (ret < 0) {
        mrail_tool_fail(COMMAND, "cannot read %s: %s", files->dir,
                        strerror(-ret));
    }
}

void report_close(report_files_t *files)
{
    for (unsigned i = 0; i < files->count; ++i) {
        close_fd(&files->items[i].fd);
        close_fd(&files->items[i].calls_fd);
        close_fd(&files->items[i].plans_fd);
    }
    free(files->items);
    files->items = NULL;
    files->count = 0;
}

/* ---- read ---- */

static void end_file(report_file_t *file, report_state_t state)
{
    file->process->state = state;
    close_fd(&file->fd);
}

/* Returns 1 if the process is still running. */
static int look_at_file(report_files_t *files, report_file_t *file)
{
    static mrail_page_t page;
    /* The process may exit at any time, so its last page is read after the
     * check. */
    int alive = mrail_tele_file_is_held(file->fd);
    mrail_page_status_t status = mrail_page_read_fd(file->fd, &page);

    if ((status != MRAIL_PAGE_ALIVE) && (status != MRAIL_PAGE_ENDED)) {
        fprintf(stderr, "mrail report: %s: %s\n", file->path,
                mrail_page_status_text(status));
        end_file(file, REPORT_LOST);
        return 0;
    }
    if (report_sample(files->model, file->process, &page, mrail_page_now()) !=
        0) {
        fail_memory();
    }
    take_calls(files, file);
    if (!alive) {
        end_file(file, state_of(file->path, 0));
    }
    return alive;
}

unsigned report_look(report_files_t *files)
{
    unsigned alive = 0;

    for (unsigned i = 0; i < files->count; ++i) {
        if (files->items[i].fd >= 0) {
            alive += (unsigned)look_at_file(files, &files->items[i]);
        }
    }
    ++files->model->samples;
    return alive;
}

void report_read_plans(report_files_t *files)
{
    for (unsigned i = 0; i < files->count; ++i) {
        take_plans(files, &files->items[i]);
    }
}
