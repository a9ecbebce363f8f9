#include "config.h"
#include "soft_script.h"
#include "soft.h"
#include "soft_gpu.h"
#include "soft_gpu_fault.h"

#include "softroce/fault/timeline.h"
#include "softroce/host/faults.h"
#include "softroce/host/daemon.h"
#include "tools/soft_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Polling interval of a step that waits for counters. */
#define SCRIPT_COUNT_NS MRAIL_NS_PER_MS

/* Messages from the script process to the command about its start. */
#define SCRIPT_READY_YES "y"
#define SCRIPT_READY_NO "n" /* an error message was printed */

typedef struct script_run {
    sroce_session_t *session;
    sgpu_session_t *gpus; /* NULL if the session has none */
    const sroce_fault_script_t *script;
    sroce_fault_timeline_t *tl;
    FILE *out;
    mrail_ns_t start_ns;
    /* connection to the session daemon; closed when the session ends */
    int conn;
    int job_fd;   /* pidfd of the job, or -1 */
    int ready_fd; /* receives a SCRIPT_READY_* byte, or -1 */
    int changed;  /* 1 if the session's processes must be notified */
    struct {
        uint64_t packets;
        uint64_t bytes;
    } before[SROCE_SESSION_MAX_DEVS]; /* sent before the start of the script */
    uint64_t *gpu_before;             /* bytes on links, by target */
} script_run_t;

static volatile sig_atomic_t script_stop;

static void script_on_signal(int sig)
{
    script_stop = sig;
}

/* ---- Reading ---- */

int soft_script_read(const char *path, sroce_fault_script_t **script_p)
{
    char reason[SOFT_FILE_REASON_MAX];
    int ret = soft_file_read(path, script_p, reason, sizeof(reason));

    if (ret != 0) {
        soft_error("%s", reason);
    }
    return ret;
}

int soft_script_fit(const sroce_fault_script_t *script,
                    const sroce_session_t *session)
{
    sgpu_session_t *gpus = soft_gpu_open(session->name, NULL);
    soft_file_session_t shape = {
        .num_nodes = session->num_nodes,
        .num_rails = session->num_rails,
        .has_icrc = (session->flags & SROCE_SESSION_F_ICRC) != 0};
    char reason[SOFT_FILE_REASON_MAX];
    int ret;

    if (gpus != NULL) {
        shape.num_gpus = gpus->num_gpus;
        shape.has_pairs = (gpus->link_kind == SGPU_LINK_MESH);
        sgpu_session_close(gpus);
    }
    ret = soft_file_fit(script, &shape, reason, sizeof(reason));

    if (ret != 0) {
        soft_error("%s", reason);
    }
    return ret;
}

/* ---- Ops of the timeline ---- */

/* Returns 1 if the device is a GPU or a link between GPUs. */
static int script_is_gpu(const script_run_t *run, unsigned dev)
{
    return dev >= sroce_session_num_devs(run->session);
}

static unsigned script_num_targets(const script_run_t *run)
{
    return (run->gpus != NULL) ? run->gpus->num_nodes * run->gpus->num_gpus *
                                     run->gpus->num_gpus
                               : 0;
}

static soft_gpu_target_t script_target(const script_run_t *run, unsigned dev)
{
    unsigned index = dev - sroce_session_num_devs(run->session);
    unsigned num = run->gpus->num_gpus;

    return (soft_gpu_target_t){index / num / num, index / num % num,
                               index % num};
}

static uint64_t script_get(void *arg, unsigned dev,
                           sroce_fault_setting_t setting, int healthy)
{
    const script_run_t *run = arg;

    return script_is_gpu(run, dev)
               ? soft_gpu_fault_get(run->gpus, script_target(run, dev), setting,
                                    healthy)
               : sroce_rail_fault_get(&run->session->devs[dev], setting,
                                      healthy);
}

static void script_apply(void *arg, unsigned dev, sroce_fault_setting_t setting,
                         uint64_t value)
{
    script_run_t *run = arg;

    if (script_is_gpu(run, dev)) {
        soft_gpu_fault_set(run->gpus, script_target(run, dev), setting, value);
        return;
    }
    sroce_rail_fault_set(&run->session->devs[dev], setting, value);
    run->changed = 1;
}

/* Writes the name of the device on which a step acts. */
static void script_where(const script_run_t *run, unsigned dev, char *text,
                         size_t size)
{
    soft_gpu_target_t target;

    if (!script_is_gpu(run, dev)) {
        snprintf(text, size, " (node %u rail %u)",
                 dev / run->session->num_rails, dev % run->session->num_rails);
        return;
    }
    target = script_target(run, dev);
    if (target.gpu == target.peer) {
        snprintf(text, size, " (node %u gpu %u)", target.node, target.gpu);
    } else {
        snprintf(text, size, " (node %u gpu %u peer %u)", target.node,
                 target.gpu, target.peer);
    }
}

static void script_note(void *arg, mrail_ns_t at_ns,
                        const sroce_fault_step_t *step, unsigned dev,
                        sroce_fault_event_t note)
{
    script_run_t *run = arg;
    mrail_ns_t now_ns = mrail_clock_now() - run->start_ns;
    char where[48] = "";

    if (dev != SROCE_FAULT_ALL_DEVS) {
        script_where(run, dev, where, sizeof(where));
    }
    fprintf(run->out, "%12.3f ms  %s:%u: %s%s%s\n", (double)now_ns / 1e6,
            run->script->name, step->line,
            (note == SROCE_FAULT_EVENT_END) ? "over: " : "", step->text, where);
    fflush(run->out);
}

/* ---- Running ---- */

/* Claims the session. Only one script may run at a time, because two would undo
 * each other's steps. */
static int script_claim(sroce_session_t *session)
{
    int32_t other = 0;

    while (!atomic_compare_exchange_strong(&session->script_pid, &other,
                                           (int32_t)getpid())) {
        if ((kill(other, 0) == 0) || (errno != ESRCH)) {
            soft_error("session '%s' is already running a script: process %d",
                       session->name, (int)other);
            return -EBUSY;
        }
    }
    return 0;
}

static void script_release(sroce_session_t *session)
{
    int32_t own = (int32_t)getpid();

    atomic_compare_exchange_strong(&session->script_pid, &own, 0);
}

/* Notifies the session's processes of changes. */
static void script_notify(script_run_t *run)
{
    sroce_daemon_msg_t msg = {.op = SROCE_DAEMON_NOTIFY};

    if (run->changed) {
        run->changed = 0;
        (void)sroce_daemon_send(run->conn, &msg, -1);
    }
}

static void script_count(script_run_t *run, mrail_ns_t now_ns)
{
    for (unsigned i = 0; i < sroce_session_num_devs(run->session); ++i) {
        uint64_t packets, bytes;

        sroce_rail_sent(&run->session->devs[i], &packets, &bytes);
        sroce_fault_timeline_sent(run->tl, i, packets - run->before[i].packets,
                                  bytes - run->before[i].bytes, now_ns);
    }
    for (unsigned i = 0; i < script_num_targets(run); ++i) {
        unsigned dev = sroce_session_num_devs(run->session) + i;
        uint64_t bytes =
            soft_gpu_fault_bytes(run->gpus, script_target(run, dev));

        sroce_fault_timeline_sent(run->tl, dev, 0, bytes - run->gpu_before[i],
                                  now_ns);
    }
}

/* Opens the GPUs, if there are any, and stores the number of bytes that their
 * links have carried so far. */
static int script_open_gpus(script_run_t *run)
{
    unsigned num, first = sroce_session_num_devs(run->session);

    run->gpus = soft_gpu_open(run->session->name, NULL);
    num = script_num_targets(run);
    run->gpu_before = calloc(MRAIL_MAX(num, 1u), sizeof(*run->gpu_before));
    if (run->gpu_before == NULL) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < num; ++i) {
        run->gpu_before[i] =
            soft_gpu_fault_bytes(run->gpus, script_target(run, first + i));
    }
    return 0;
}

static void script_close_gpus(script_run_t *run)
{
    free(run->gpu_before);
    if (run->gpus != NULL) {
        sgpu_session_close(run->gpus);
    }
}

static int script_start(script_run_t *run)
{
    const sroce_fault_ops_t ops = {script_get, script_apply, script_note, run};
    sroce_session_t *session = run->session;

    run->conn = soft_connect(session->name, SROCE_DAEMON_WATCH);
    if (run->conn < 0) {
        soft_error("the session daemon of session '%s' has exited",
                   session->name);
        return -ENOENT;
    }
    if (script_claim(session) != 0) {
        close(run->conn);
        return -EBUSY;
    }
    if (script_open_gpus(run) == 0) {
        run->tl = sroce_fault_timeline_create(
            run->script, session->num_nodes, session->num_rails,
            (run->gpus != NULL) ? run->gpus->num_gpus : 0, &ops);
    }
    if (run->tl == NULL) {
        soft_error("out of memory");
        script_close_gpus(run);
        script_release(session);
        close(run->conn);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < sroce_session_num_devs(session); ++i) {
        sroce_rail_fault_seed(&session->devs[i],
                              mrail_mix64(run->script->seed + 1) | 1);
        sroce_rail_sent(&session->devs[i], &run->before[i].packets,
                        &run->before[i].bytes);
    }
    run->changed = 1;
    prctl(PR_SET_TIMERSLACK, 1000);
    fprintf(run->out, "session %s, %s: %u steps, seed %llu%s\n", session->name,
            run->script->name, run->script->num_steps,
            (unsigned long long)run->script->seed,
            run->script->seed_given ? "" : " (default)");
    fflush(run->out);
    run->start_ns = mrail_clock_now();
    return 0;
}

static void script_finish(script_run_t *run)
{
    sroce_fault_timeline_destroy(run->tl);
    script_close_gpus(run);
    script_release(run->session);
    close(run->conn);
}

/* Returns the time until the next step is due. */
static mrail_ns_t script_pause_ns(const script_run_t *run, mrail_ns_t now_ns)
{
    mrail_ns_t next_ns = sroce_fault_timeline_next(run->tl);
    mrail_ns_t pause_ns = MRAIL_NS_NEVER;

    if (next_ns != MRAIL_NS_NEVER) {
        pause_ns = (next_ns > now_ns) ? next_ns - now_ns : 0;
    }
    if (sroce_fault_timeline_counts(run->tl)) {
        pause_ns = MRAIL_MIN(pause_ns, SCRIPT_COUNT_NS);
    }
    return pause_ns;
}

typedef enum script_end {
    SCRIPT_RUNNING,
    SCRIPT_DONE,
    SCRIPT_JOB_ENDED,
    SCRIPT_SESSION_ENDED,
    SCRIPT_INTERRUPTED
} script_end_t;

static script_end_t script_wait(script_run_t *run, mrail_ns_t pause_ns,
                                const sigset_t *mask)
{
    struct pollfd fds[] = {{.fd = run->conn, .events = POLLIN},
                           {.fd = run->job_fd, .events = POLLIN}};
    struct timespec ts = {.tv_sec = (time_t)(pause_ns / MRAIL_NS_PER_SEC),
                          .tv_nsec = (long)(pause_ns % MRAIL_NS_PER_SEC)};

    if (ppoll(fds, 2, (pause_ns == MRAIL_NS_NEVER) ? NULL : &ts, mask) > 0) {
        return fds[1].revents ? SCRIPT_JOB_ENDED : SCRIPT_SESSION_ENDED;
    }
    return script_stop ? SCRIPT_INTERRUPTED : SCRIPT_RUNNING;
}

static void script_ready(script_run_t *run, const char *byte)
{
    if (run->ready_fd >= 0) {
        (void)!write(run->ready_fd, byte, 1);
        close(run->ready_fd);
        run->ready_fd = -1;
    }
}

/* Executes the steps that are due by time or by counters. */
static script_end_t script_poll(script_run_t *run, const sigset_t *mask)
{
    mrail_ns_t now_ns = mrail_clock_now() - run->start_ns;

    sroce_fault_timeline_run(run->tl, now_ns);
    if (sroce_fault_timeline_counts(run->tl)) {
        script_count(run, now_ns);
    }
    script_notify(run);
    script_ready(run, SCRIPT_READY_YES);
    if ((run->job_fd < 0) && sroce_fault_timeline_done(run->tl)) {
        return SCRIPT_DONE;
    }
    return script_wait(run, script_pause_ns(run, now_ns), mask);
}

static script_end_t script_loop(script_run_t *run)
{
    struct sigaction action = {.sa_handler = script_on_signal};
    sigset_t stops, mask;
    script_end_t end;

    /* Signals are delivered only in ppoll(), so that none is missed. */
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigprocmask(SIG_BLOCK, &stops, &mask);
    sigdelset(&mask, SIGINT);
    sigdelset(&mask, SIGTERM);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    do {
        end = script_poll(run, &mask);
    } while (end == SCRIPT_RUNNING);
    return end;
}

int soft_script_execute(sroce_session_t *session,
                        const sroce_fault_script_t *script)
{
    script_run_t run = {.session = session,
                        .script = script,
                        .out = stdout,
                        .job_fd = -1,
                        .ready_fd = -1};
    script_end_t end;

    if (script_start(&run) != 0) {
        return SOFT_EXIT_FAILED;
    }
    end = script_loop(&run);
    if (end == SCRIPT_INTERRUPTED) {
        soft_error("interrupted; the rails stay as they are: 'mrail soft "
                   "ctl --session %s clear' restores them",
                   session->name);
    } else if (end == SCRIPT_SESSION_ENDED) {
        soft_error("session '%s' ended before the script", session->name);
    }
    script_finish(&run);
    return (end == SCRIPT_DONE) ? 0 : SOFT_EXIT_FAILED;
}

/* ---- Script alongside a job ---- */

static void script_undo(script_run_t *run)
{
    sroce_fault_timeline_restore(run->tl);
    for (unsigned i = 0; i < sroce_session_num_devs(run->session); ++i) {
        sroce_rail_fault_seed(&run->session->devs[i], 0);
    }
    for (unsigned i = 0; i < script_num_targets(run); ++i) {
        soft_gpu_target_t target =
            script_target(run, sroce_session_num_devs(run->session) + i);

        soft_gpu_fault_set(run->gpus, target, SROCE_FAULT_GPU_COPY_ERROR, 0);
    }
    run->changed = 1;
    script_notify(run);
}

/* Runs in the grandchild. Only stderr remains open of the caller's
 * descriptors. */
static _Noreturn void script_child(script_run_t *run)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    script_end_t end;

    setsid();
    prctl(PR_SET_NAME, "mrail-softfault");
    if ((null_fd < 0) || (dup2(null_fd, 0) < 0) || (dup2(null_fd, 1) < 0)) {
        _exit(1);
    }
    /* Duplicate the descriptors to higher numbers first, so that dup2() cannot
     * overwrite them. Then 3 becomes the pipe and 4 the job. */
    run->ready_fd = fcntl(run->ready_fd, F_DUPFD_CLOEXEC, 5);
    run->job_fd = fcntl(run->job_fd, F_DUPFD_CLOEXEC, 5);
    if ((dup2(run->ready_fd, 3) < 0) || (dup2(run->job_fd, 4) < 0)) {
        _exit(1);
    }
    run->ready_fd = 3;
    run->job_fd = 4;
    closefrom(5);
    if (script_start(run) != 0) {
        script_ready(run, SCRIPT_READY_NO);
        _exit(1);
    }
    end = script_loop(run);
    if (end != SCRIPT_SESSION_ENDED) {
        script_undo(run);
    }
    script_finish(run);
    _exit(0);
}

int soft_script_spawn(sroce_session_t *session,
                      const sroce_fault_script_t *script)
{
    script_run_t run = {.session = session, .script = script, .out = stderr};
    int pipe_fds[2], ret = 0;
    pid_t pid;
    char byte;

    run.job_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if ((run.job_fd < 0) || (pipe2(pipe_fds, O_CLOEXEC) != 0)) {
        ret = -errno;
        soft_error("cannot run a script alongside a command: %s",
                   strerror(errno));
        return ret;
    }
    run.ready_fd = pipe_fds[1];
    pid = fork();
    if (pid == 0) {
        /* Fork twice, because the command does not expect to have a child. */
        pid = fork();
        if (pid == 0) {
            script_child(&run);
        }
        _exit(pid < 0);
    }
    close(pipe_fds[1]);
    close(run.job_fd);
    /* With ECHILD, the caller ignores SIGCHLD. The byte reports the result. */
    if ((pid < 0) || (waitpid(pid, NULL, 0) < 0 && errno != ECHILD) ||
        (read(pipe_fds[0], &byte, 1) != 1)) {
        soft_error("the script was not started");
        ret = -EIO;
    } else if (byte != SCRIPT_READY_YES[0]) {
        ret = -EIO;
    }
    close(pipe_fds[0]);
    return ret;
}
