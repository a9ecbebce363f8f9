#include "config.h"
#include "job.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <sched.h>
#include <unistd.h>

static void job_on_am(void *arg, uint8_t am_id, void *data, size_t length)
{
    job_t *job = arg;

    if (job->am != NULL) {
        job->am(job, am_id, data, length);
    }
}

static void job_on_complete(void *arg, void *comp, int status)
{
    job_t *job = arg;

    ++*(unsigned *)comp;
    job->failed += (status != 0);
}

int job_open(job_t *job)
{
    const mrail_iface_params_t params = {
        .arg = job, .am = job_on_am, .complete = job_on_complete};
    mrail_config_t config;
    int ret;

    ret = mrail_config_from_env(&config);
    if (ret == 0) {
        ret = mrail_engine_open(&config, &job->engine);
        mrail_config_cleanup(&config);
    }
    if (ret == 0) {
        ret = mrail_iface_create(job->engine, &params, &job->iface);
    }
    if (ret != 0) {
        fprintf(stderr, "rank %u: cannot open the engine: %s\n", job->rank,
                strerror(-ret));
        return ret;
    }
    mrail_device_addr_pack(job->engine, job->shared->device_addr[job->rank]);
    mrail_iface_addr_pack(job->iface, job->shared->iface_addr[job->rank]);
    job_barrier(job, 0);
    return 0;
}

mrail_ep_t *job_ep(job_t *job, unsigned rank)
{
    if ((job->eps[rank] == NULL) &&
        (mrail_ep_create(job->iface, job->shared->device_addr[rank],
                         job->shared->iface_addr[rank], NULL,
                         &job->eps[rank]) != 0)) {
        fprintf(stderr, "rank %u: no endpoint to rank %u\n", job->rank, rank);
        exit(1);
    }
    return job->eps[rank];
}

void job_close(job_t *job)
{
    for (unsigned i = 0; i < job->size; ++i) {
        if (job->eps[i] != NULL) {
            job_flush(job, job->eps[i]);
        }
    }
    job_barrier(job, 1);
    for (unsigned i = 0; i < job->size; ++i) {
        if (job->eps[i] != NULL) {
            mrail_ep_destroy(job->eps[i]);
        }
    }
    mrail_iface_destroy(job->iface);
    mrail_engine_close(job->engine);
}

void job_barrier(job_t *job, int progress)
{
    unsigned *arrived = &job->shared->arrived[job->barriers++];

    __atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < job->size) {
        if (!progress || (mrail_iface_progress(job->iface) == 0)) {
            sched_yield();
        }
    }
}

int job_wait(job_t *job, const unsigned *counter, unsigned wanted,
             unsigned limit_s)
{
    mrail_ns_t end = mrail_clock_now() + limit_s * MRAIL_NS_PER_SEC;

    while (*(const volatile unsigned *)counter < wanted) {
        if (mrail_iface_progress(job->iface) == 0) {
            sched_yield();
        }
        if (mrail_clock_now() > end) {
            return -1;
        }
    }
    return 0;
}

int job_flush(job_t *job, mrail_ep_t *ep)
{
    unsigned done = 0;
    int ret;

    while ((ret = mrail_ep_flush(ep, &done)) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    while ((ret == -EINPROGRESS) && (*(volatile unsigned *)&done == 0)) {
        if (mrail_iface_progress(job->iface) == 0) {
            sched_yield();
        }
    }
    return (ret == -EINPROGRESS) ? 0 : ret;
}

int job_result(int ok, const char *name, const char *reason, ...)
{
    va_list ap;

    printf(ok ? "ok - %s" : "not ok - %s: ", name);
    if (!ok) {
        va_start(ap, reason);
        vprintf(reason, ap);
        va_end(ap);
    }
    printf("\n");
    fflush(stdout);
    return ok ? 0 : 1;
}

/* Writes the command line of `mrail soft NAME` for this session into
 * `command`. */
static void job_soft_command(char *command, size_t size, const char *name,
                             const char *words)
{
    const char *soft = getenv("MRAIL_TEST_SOFT");

    snprintf(command, size, "env -u LD_PRELOAD %s %s --session %s %s",
             (soft != NULL) ? soft : "mrail soft", name, getenv("MRAIL_SOFT"),
             words);
}

long job_soft_count(const char *name)
{
    char command[512], text[65536], key[64];
    const char *at = text;
    long sum = -1;
    size_t length;
    FILE *pipe;

    job_soft_command(command, sizeof(command), "status", "--json");
    pipe = popen(command, "r");
    if (pipe == NULL) {
        return -1;
    }
    length = fread(text, 1, sizeof(text) - 1, pipe);
    text[length] = '\0';
    if (pclose(pipe) != 0) {
        return -1;
    }
    snprintf(key, sizeof(key), "\"%s\": ", name);
    while ((at = strstr(at, key)) != NULL) {
        at += strlen(key);
        sum = MRAIL_MAX(sum, 0) + strtol(at, NULL, 10);
    }
    return sum;
}

int job_soft_ctl(const char *words)
{
    char command[512];
    int status;

    job_soft_command(command, sizeof(command), "ctl", words);
    status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void job_child(unsigned rank, unsigned size,
                      unsigned (*node)(unsigned rank), job_shared_t *shared,
                      job_func_t func)
{
    job_t job = {.rank = rank, .size = size, .shared = shared};
    char text[16];

    snprintf(text, sizeof(text), "%u", (node != NULL) ? node(rank) : 0);
    setenv("MRAIL_SOFT_NODE", text, 1);
    exit(func(&job) == 0 ? 0 : 1);
}

int job_run(unsigned size, unsigned (*node)(unsigned rank), unsigned limit_s,
            job_func_t func)
{
    job_shared_t *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mrail_ns_t end = mrail_clock_now() + limit_s * MRAIL_NS_PER_SEC;
    unsigned left = size;
    int failed = 0, status;
    pid_t pids[JOB_MAX], pid;

    fflush(NULL);
    for (unsigned rank = 0; rank < size; ++rank) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            job_child(rank, size, node, shared, func);
        }
    }
    while (left != 0) {
        pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) {
            --left;
            failed += !(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
        } else if (mrail_clock_now() > end) {
            printf("# %u processes did not exit within %u s\n", left, limit_s);
            for (unsigned rank = 0; rank < size; ++rank) {
                kill(pids[rank], SIGKILL);
            }
            end = MRAIL_NS_NEVER;
        } else {
            usleep(2000);
        }
    }
    munmap(shared, sizeof(*shared));
    return failed;
}
