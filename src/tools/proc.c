#include "config.h"
#include "tools/proc.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int proc_is_owner(unsigned pid, const char *path)
{
    const struct dirent *entry;
    struct stat wanted, st;
    char name[64];
    int ret = 0;
    DIR *dir;

    snprintf(name, sizeof(name), "/proc/%u/fd", pid);
    dir = opendir(name);
    if (dir == NULL) {
        return 0;
    }
    if (stat(path, &wanted) == 0) {
        while (!ret && ((entry = readdir(dir)) != NULL)) {
            ret = (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0) &&
                  (st.st_dev == wanted.st_dev) && (st.st_ino == wanted.st_ino);
        }
    }
    closedir(dir);
    return ret;
}

/* Adds the times of a thread. Source: Documentation/scheduler/sched-stats.rst
 * of Linux. */
static void threads_add(proc_threads_t *threads, const char *path)
{
    unsigned long long run, delay;
    FILE *stream = fopen(path, "re");

    if (stream == NULL) {
        return; /* the thread has exited */
    }
    if (fscanf(stream, "%llu %llu", &run, &delay) == 2) {
        threads->run += run;
        threads->delay += delay;
        threads->is_known = 1;
    }
    fclose(stream);
}

proc_threads_t proc_threads(unsigned pid)
{
    proc_threads_t threads = {0};
    const struct dirent *entry;
    char path[320];
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    dir = opendir(path);
    if (dir == NULL) {
        return threads;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "/proc/%u/task/%.32s/schedstat", pid,
                     entry->d_name);
            threads_add(&threads, path);
        }
    }
    closedir(dir);
    return threads;
}

/* Reads the state of a process. It follows the program name, which may contain
 * any characters. */
char proc_state(unsigned pid)
{
    char path[64], text[512], state = '?';
    const char *end;
    FILE *stream;
    size_t length;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    stream = fopen(path, "re");
    if (stream == NULL) {
        return state;
    }
    length = fread(text, 1, sizeof(text) - 1, stream);
    text[length] = '\0';
    end = strrchr(text, ')');
    if ((end != NULL) && (end[1] == ' ') && (end[2] != '\0')) {
        state = end[2];
    }
    fclose(stream);
    return state;
}

proc_shares_t proc_shares(const proc_threads_t *before,
                          const proc_threads_t *now, uint64_t elapsed_ns)
{
    proc_shares_t shares = {.run = -1, .delay = -1};

    if (now->is_known && before->is_known && (now->run >= before->run) &&
        (now->delay >= before->delay) && (elapsed_ns > 0)) {
        shares.run = (double)(now->run - before->run) / (double)elapsed_ns;
        shares.delay =
            (double)(now->delay - before->delay) / (double)elapsed_ns;
    }
    return shares;
}
