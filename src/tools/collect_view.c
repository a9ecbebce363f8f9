#include "config.h"
#include "tools/collect_view.h"

#include "base/clock.h"
#include "telemetry/image.h"
#include "tools/collect.h"
#include "tools/collect_tar.h"
#include "tools/tool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct opening {
    const char *command;
    const char *path; /* for messages */
    collect_view_t *view;
    unsigned unpacked;
} opening_t;

/* ---- the directory ---- */

/* The child that removes the directory, and the pipe whose end it awaits. */
static pid_t cleaner;
static int cleaner_fd = -1;

static void remove_files(const char *dir)
{
    DIR *stream = opendir(dir);
    const struct dirent *entry;

    if (stream == NULL) {
        return;
    }
    while ((entry = readdir(stream)) != NULL) {
        (void)unlinkat(dirfd(stream), entry->d_name, 0);
    }
    closedir(stream);
    (void)rmdir(dir);
}

/* Removes the directory once the other end of the pipe is closed, which
 * happens however the viewer terminates. Terminal signals must not kill this
 * process. */
_Noreturn static void clean_up(const collect_view_t *view, int fd)
{
    char byte;

    (void)setsid();
    for (int i = 0; i < 3; ++i) {
        close(i); /* a reader of our output must not wait for this process */
    }
    while ((read(fd, &byte, 1) < 0) && (errno == EINTR)) {
    }
    remove_files(view->earlier);
    remove_files(view->dir);
    _exit(0);
}

static void end_cleaner(void)
{
    if (cleaner_fd >= 0) {
        close(cleaner_fd);
        cleaner_fd = -1;
        (void)waitpid(cleaner, NULL, 0);
    }
}

static void start_cleaner(const opening_t *opening)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0) {
        mrail_tool_fail(opening->command, "cannot create a pipe: %s",
                        strerror(errno));
    }
    cleaner = fork();
    if (cleaner < 0) {
        mrail_tool_fail(opening->command, "cannot start a process: %s",
                        strerror(errno));
    }
    if (cleaner == 0) {
        close(fds[1]);
        clean_up(opening->view, fds[0]);
    }
    close(fds[0]);
    cleaner_fd = fds[1];
    (void)atexit(end_cleaner);
}

static void make_dir(const opening_t *opening)
{
    collect_view_t *view = opening->view;
    const char *variable = getenv("TMPDIR");
    const char *parent =
        ((variable != NULL) && (*variable != '\0')) ? variable : "/tmp";
    /* A path must leave space for a file name. */
    size_t size = sizeof(view->dir) - sizeof(COLLECT_EARLIER);
    int length = snprintf(view->dir, size, "%s/mrail-archive.XXXXXX", parent);

    if ((length < 0) || ((size_t)length >= size)) {
        mrail_tool_fail(opening->command,
                        "TMPDIR=%s is too long; set it to a shorter path",
                        parent);
    }
    if (mkdtemp(view->dir) == NULL) {
        mrail_tool_fail(opening->command, "cannot create a directory in %s: %s",
                        parent, strerror(errno));
    }
    snprintf(view->earlier, sizeof(view->earlier), "%.*s/%s", (int)size,
             view->dir, "earlier");
    start_cleaner(opening);
    if (mkdir(view->earlier, 0700) != 0) {
        mrail_tool_fail(opening->command, "cannot create %s: %s", view->earlier,
                        strerror(errno));
    }
}

/* ---- files ---- */

/* Writes the data to a new file. Returns its descriptor. */
static int write_file(const opening_t *opening, const char *path,
                      const void *data, size_t size)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
    size_t done = 0;

    while ((fd >= 0) && (done < size)) {
        ssize_t ret = write(fd, (const char *)data + done, size - done);

        if ((ret < 0) && (errno == EINTR)) {
            continue;
        }
        if (ret <= 0) {
            break;
        }
        done += (size_t)ret;
    }
    if ((fd < 0) || (done < size)) {
        mrail_tool_fail(opening->command, "cannot unpack %s to %s: %s",
                        opening->path, path,
                        (errno == EEXIST) ? "duplicate file in the archive"
                                          : strerror(errno));
    }
    return fd;
}

/* Holds a lock, as a running process would, until this process exits. */
static void hold_file(const opening_t *opening, int fd)
{
    struct rlimit limit;

    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        mrail_tool_fail(opening->command, "cannot lock a file: %s",
                        strerror(errno));
    }
    /* The reader needs further descriptors: up to two for each process. */
    if ((getrlimit(RLIMIT_NOFILE, &limit) == 0) &&
        ((rlim_t)fd * 3 + 64 > limit.rlim_cur)) {
        mrail_tool_fail(opening->command,
                        "%s has too many running processes for the limit of "
                        "%llu open files (ulimit -n)",
                        opening->path, (unsigned long long)limit.rlim_cur);
    }
}

static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void unpack(opening_t *opening, const collect_item_t *item)
{
    collect_view_t *view = opening->view;
    const collect_host_t *host = &view->manifest.hosts[item->host];
    const collect_file_t *file = &host->files[item->file];
    char path[MRAIL_TELE_PATH], base[COLLECT_FILE_NAME];
    mrail_page_status_t status;
    mrail_tele_name_t name;
    int is_earlier, fd;

    /* The parser of the manifest has checked the name. */
    (void)collect_file_parse(file->name, &name, &is_earlier);
    status = mrail_image_check(name.kind, item->data, (size_t)file->size);
    if (status != MRAIL_PAGE_ALIVE) {
        fprintf(stderr, "mrail %s: %s: %s/%s: %s\n", opening->command,
                opening->path, host->name, file->name,
                mrail_page_status_text(status));
        ++view->lost_files;
        return;
    }
    mrail_image_shift(name.kind, item->data, (size_t)file->size,
                      -host->offset_ns);
    name.host = (int)item->host;
    (void)mrail_tele_name_write(base, sizeof(base), &name);
    snprintf(path, sizeof(path), "%s/%s",
             is_earlier ? view->earlier : view->dir, base);
    fd = write_file(opening, path, item->data, (size_t)file->size);
    if (file->alive && !is_earlier) {
        hold_file(opening, fd);
    } else {
        close(fd);
    }
    opening->unpacked += !is_earlier;
}

/* ---- notes ---- */

static unsigned count_files(const collect_manifest_t *manifest)
{
    unsigned count = 0;

    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        count += manifest->hosts[i].num_files;
    }
    return count;
}

static void note_clocks(const opening_t *opening)
{
    const collect_manifest_t *manifest = &opening->view->manifest;

    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        const collect_host_t *host = &manifest->hosts[i];

        if ((host->offset_ns >= (int64_t)MRAIL_NS_PER_SEC) ||
            (host->offset_ns <= -(int64_t)MRAIL_NS_PER_SEC)) {
            fprintf(stderr,
                    "mrail %s: %s: the clock of %s was %.3f s %s, which is "
                    "corrected\n",
                    opening->command, opening->path, host->name,
                    (double)llabs(host->offset_ns) / 1e9,
                    (host->offset_ns > 0) ? "ahead" : "behind");
        }
    }
}

static void note(const opening_t *opening)
{
    const collect_manifest_t *manifest = &opening->view->manifest;
    char when[PAGES_TIME], source[MRAIL_TOOL_PATH_MAX];
    unsigned present = 0;

    for (unsigned i = 0; i < manifest->num_hosts; ++i) {
        present += manifest->hosts[i].error[0] == '\0';
    }
    pages_time(when, sizeof(when), manifest->time_ns);
    fprintf(stderr,
            "mrail %s: %s: %u of %u host%s, collected at %.19s; times are "
            "aligned to within %.3f ms\n",
            opening->command, opening->path, present, manifest->num_hosts,
            (manifest->num_hosts == 1) ? "" : "s", when,
            (double)collect_bound_ns(manifest) / 1e6);
    snprintf(source, sizeof(source), "%s: %s", opening->command, opening->path);
    collect_show_missing(stderr, source, manifest);
    note_clocks(opening);
}

/* ---- open ---- */

static ssize_t read_file(void *arg, void *data, size_t size)
{
    const int *fd = arg;
    ssize_t ret;

    do {
        ret = read(*fd, data, size);
    } while ((ret < 0) && (errno == EINTR));
    return (ret < 0) ? -errno : ret;
}

static void unpack_all(opening_t *opening, collect_reader_t *reader)
{
    collect_view_t *view = opening->view;
    char error[COLLECT_ERROR];
    collect_item_t item;
    unsigned count = 0;
    int ret;

    while ((ret = collect_reader_next(reader, &item, error)) == 1) {
        unpack(opening, &item);
        free(item.data);
        ++count;
    }
    if ((ret == -ENODATA) && (opening->unpacked > 0)) {
        unsigned lost = count_files(&view->manifest) - count;

        view->lost_files += lost;
        fprintf(stderr, "mrail %s: %s: %s; %u of %u files are missing\n",
                opening->command, opening->path, error, lost,
                count_files(&view->manifest));
    } else if (ret != 0) {
        mrail_tool_fail(opening->command, "%s: %s", opening->path, error);
    } else if (opening->unpacked == 0) {
        mrail_tool_fail(opening->command, "%s: no telemetry in this archive",
                        opening->path);
    }
}

static void fill_hosts(opening_t *opening)
{
    collect_view_t *view = opening->view;

    view->hosts = calloc(view->manifest.num_hosts + 1, sizeof(*view->hosts));
    if (view->hosts == NULL) {
        mrail_tool_fail(opening->command, "out of memory");
    }
    for (unsigned i = 0; i < view->manifest.num_hosts; ++i) {
        const collect_host_t *host = &view->manifest.hosts[i];

        view->hosts[i] = (pages_host_t){
            .name = host->name,
            .error = (host->error[0] != '\0') ? host->error : NULL,
            .offset_ns = host->offset_ns,
            .bound_ns = host->bound_ns};
    }
}

static collect_reader_t *open_reader(const opening_t *opening, int *fd)
{
    char error[COLLECT_ERROR];
    collect_reader_t *reader;

    if (!collect_tar_is_built()) {
        mrail_tool_fail(opening->command,
                        "--archive: this build has no libarchive; install "
                        "libarchive-dev and rebuild mrail");
    }
    if (*fd < 0) {
        mrail_tool_fail(opening->command, "%s: %s", opening->path,
                        strerror(errno));
    }
    if (collect_reader_open(read_file, fd, COLLECT_MAX_SIZE, &reader, error) !=
        0) {
        mrail_tool_fail(opening->command, "%s: %s", opening->path, error);
    }
    return reader;
}

collect_view_t *collect_view_open(const char *command, const char *path)
{
    opening_t opening = {.command = command,
                         .path = mrail_tool_file_name(path),
                         .view = calloc(1, sizeof(*opening.view))};
    int fd = (strcmp(path, "-") == 0) ? STDIN_FILENO
                                      : open(path, O_RDONLY | O_CLOEXEC);
    collect_reader_t *reader = open_reader(&opening, &fd);
    collect_manifest_t *manifest = collect_reader_manifest(reader);

    if (opening.view == NULL) {
        mrail_tool_fail(command, "out of memory");
    }
    raise_limit();
    make_dir(&opening);
    opening.view->manifest = *manifest;
    unpack_all(&opening, reader);
    memset(manifest, 0, sizeof(*manifest)); /* the view has it now */
    collect_reader_close(reader);
    if (fd != STDIN_FILENO) {
        close(fd);
    }
    fill_hosts(&opening);
    note(&opening);
    return opening.view;
}

void collect_view_close(collect_view_t *view)
{
    if (view != NULL) {
        end_cleaner();
        collect_manifest_cleanup(&view->manifest);
        free(view->hosts);
        free(view);
    }
}

/* ---- use ---- */

static const collect_host_t *host_of(const collect_view_t *view, int host)
{
    return ((host >= 0) && ((unsigned)host < view->manifest.num_hosts))
               ? &view->manifest.hosts[host]
               : NULL;
}

const collect_process_t *collect_view_process(const collect_view_t *view,
                                              int index, unsigned pid, int rank)
{
    const collect_host_t *host = host_of(view, index);

    for (unsigned i = 0; (host != NULL) && (i < host->num_processes); ++i) {
        const collect_process_t *process = &host->processes[i];

        if ((process->pid == pid) &&
            ((process->rank == rank) || (process->rank == COLLECT_ANY_RANK))) {
            return process;
        }
    }
    return NULL;
}

uint64_t collect_view_time(const collect_view_t *view, int index)
{
    const collect_host_t *host = host_of(view, index);
    int64_t time_ns =
        (host != NULL) ? (int64_t)host->time_ns - host->offset_ns : 0;

    return (time_ns > 0) ? (uint64_t)time_ns : view->manifest.time_ns;
}
