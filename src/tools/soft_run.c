/* mrail soft [options] -- CMD creates or joins a session, then executes CMD. */
#include "config.h"
#include "soft.h"
#include "soft_addrs.h"
#include "soft_gpu.h"
#include "soft_script.h"
#include "softroce/host/daemon.h"
#include "base/launch.h"
#include "base/number.h"
#include "tools/options.h"
#include "tools/rates.h"
#include "tools/tool.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOFT_LIBRARY "libmrail-softroce.so"
#define DEFAULT_RAILS 4
#define NODE_OF_RANK UINT_MAX
#define SOFT_JOIN_TRIES 30
#define SOFT_END_MS 300 /* an unused session daemon exits within this time */

typedef struct soft_run {
    sroce_session_params_t params;
    const char *rates;     /* text given on the command line, or NULL */
    unsigned nodes, rails; /* 0 if not given */
    int given_icrc, given_mtu;
    unsigned node;      /* NODE_OF_RANK if determined by the launcher's
                         * variables */
    const char *script; /* file name, or NULL */
    const char *list;   /* name of an address file, or NULL */
    soft_addrs_t addrs; /* contents of that file */
    mrail_gpus_options_t gpus;
} soft_run_t;

static void soft_run_mtu(void *target, const char *text)
{
    soft_run_t *run = target;
    uint64_t mtu;

    if ((mrail_number_uint(text, 256, 4096, &mtu) != 0) ||
        ((mtu & (mtu - 1)) != 0)) {
        mrail_tool_usage(SOFT_COMMAND,
                         "--mtu %s: expected 256, 512, 1024, 2048 or 4096",
                         text);
    }
    run->params.mtu = (uint32_t)mtu;
    run->given_mtu = 1;
}

/* Parses "127.7", the first two numbers of an IPv4 address. */
static void soft_run_base(void *target, const char *text)
{
    soft_run_t *run = target;
    const char *dot = strchr(text, '.');
    uint64_t a, b;
    char first[8];

    snprintf(first, sizeof(first), "%.*s",
             (dot != NULL) ? (int)MRAIL_MIN(dot - text, 7) : 0, text);
    if ((mrail_number_uint(first, 1, 223, &a) != 0) ||
        (mrail_number_uint(dot + 1, 0, 255, &b) != 0)) {
        mrail_tool_usage(SOFT_COMMAND,
                         "--base %s: expected the first two numbers of an IPv4 "
                         "address, such as 127.7",
                         text);
    }
    run->params.base_addr = (uint32_t)((a << 24) | (b << 16));
}

static void soft_run_icrc(void *target, const char *text)
{
    soft_run_t *run = target;

    if (strcmp(text, "on") == 0) {
        run->params.flags |= SROCE_SESSION_F_ICRC;
    } else if (strcmp(text, "off") != 0) {
        mrail_tool_usage(SOFT_COMMAND, "--icrc %s: expected on or off", text);
    }
    run->given_icrc = 1;
}

static void soft_run_script(void *target, const char *text)
{
    if (strcmp(text, "-") == 0) {
        mrail_tool_usage(
            SOFT_COMMAND,
            "--script cannot be '-', because standard input belongs to the "
            "command");
    }
    ((soft_run_t *)target)->script = text;
}

#define FIELD(_name) offsetof(soft_run_t, _name)

static const mrail_option_t soft_run_options[] = {
    {"--rails", "N", "number of rails (devices) per node, 1 to 16 (default: 4)",
     MRAIL_OPTION_UNSIGNED, FIELD(rails), 1, SROCE_SESSION_MAX_RAILS, NULL},
    {"--nodes", "M",
     "emulated nodes, 1 to 254 (default: 1); nodes x rails <= 256",
     MRAIL_OPTION_UNSIGNED, FIELD(nodes), 1, SROCE_SESSION_MAX_NODES, NULL},
    {"--node", "K",
     "node of CMD, from 0 (for ranks of mpirun or srun, their node in blocks "
     "of ranks; otherwise 0)",
     MRAIL_OPTION_UNSIGNED, FIELD(node), 0, SROCE_SESSION_MAX_NODES - 1, NULL},
    {"--rate", "LIST",
     "rate of each direction: one for all rails or one for each, such as "
     "200MB/s or 1600Mb/s,800Mb/s (200M is 200MB/s); the default, "
     "max, means no limit",
     MRAIL_OPTION_TEXT, FIELD(rates), 0, 0, NULL},
    {"--icrc", "on|off", "compute and check packet checksums (default: off)",
     MRAIL_OPTION_CALL, 0, 0, 0, soft_run_icrc},
    {"--mtu", "BYTES",
     "largest path MTU: 256, 512, 1024, 2048, 4096 (default: 4096)",
     MRAIL_OPTION_CALL, 0, 0, 0, soft_run_mtu},
    {"--base", "A.B",
     "use the addresses A.B.<rail+1>.<node+1> (default: 127.S, "
     "with S from the name)",
     MRAIL_OPTION_CALL, 0, 0, 0, soft_run_base},
    {"--addresses", "FILE",
     "read addresses and rates from lines NAME ADDRESS,... RATE,..., one per "
     "node; CMD belongs to the node whose first address is local",
     MRAIL_OPTION_TEXT, FIELD(list), 0, 0, NULL},
    {"--seed", "N", "seed of the random loss (default: 1)", MRAIL_OPTION_UINT64,
     FIELD(params.seed), 0, UINT64_MAX, NULL},
    MRAIL_GPUS_OPTIONS(soft_run_t, gpus),
    {"--script", "FILE",
     "run this fault script during CMD (mrail-script(5)); with several ranks, "
     "rank 0 runs it",
     MRAIL_OPTION_CALL, 0, 0, 0, soft_run_script},
    {"--session", "NAME",
     "name of the session; commands with the same session share rails and "
     "rates (default: default)",
     MRAIL_OPTION_TEXT, FIELD(params.name), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "[OPTION...] -- CMD [ARG...]",
    "ctl ...      change rates, port state, loss, delay",
    "status ...   rails, GPUs, rates, processes, counters", NULL};

static const mrail_command_t command = {
    .name = SOFT_COMMAND,
    .synopsis = synopsis,
    .about =
        "Runs CMD with software RoCEv2 devices soft0, soft1, ... instead of\n"
        "the machine's devices, and with software GPUs if --gpus is given.\n"
        "Requires neither hardware nor root.\n",
    .options = soft_run_options,
    .epilog =
        "The session is created if it does not exist, and ends 0.2 s after\n"
        "its last process has exited. Until then, commands with matching\n"
        "options join it.\n"
        "Exit status: that of CMD; 126 or 127 if it cannot run, 1 no rails,\n"
        "2 usage.\n",
    .operands = 1};

static void soft_run_rates(soft_run_t *run)
{
    char reason[SOFT_REASON_MAX];

    if ((run->rates != NULL) &&
        (mrail_rates_parse(run->rates, run->params.num_rails,
                           run->params.rate_bytes_per_s, reason,
                           sizeof(reason)) != 0)) {
        mrail_tool_usage(SOFT_COMMAND, "%s", reason);
    }
}

/* Reads the address file, which replaces --nodes, --rails, --rate and
 * --base. */
static void soft_run_list(soft_run_t *run)
{
    char reason[SOFT_REASON_MAX];

    if (run->nodes != 0 || run->rails != 0 || run->rates != NULL ||
        run->params.base_addr != 0) {
        mrail_tool_usage(
            SOFT_COMMAND,
            "--addresses cannot be combined with --nodes, --rails, --rate or "
            "--base");
    }
    if (soft_addrs_read(run->list, &run->addrs, reason, sizeof(reason)) != 0) {
        mrail_tool_usage(SOFT_COMMAND, "--addresses %s", reason);
    }
    run->params.num_nodes = run->addrs.num_nodes;
    run->params.num_rails = run->addrs.num_rails;
    run->params.addrs = run->addrs.devs;
    run->params.addrs_path = run->list;
}

/* Returns the index of the command in argv. */
static int soft_run_parse(char **argv, soft_run_t *run)
{
    int first = mrail_options_parse(&command, argv, run);

    if (argv[first] == NULL) {
        mrail_tool_usage(SOFT_COMMAND, "missing command after the options");
    }
    soft_take_session(SOFT_COMMAND, run->params.name);
    if (run->list != NULL) {
        soft_run_list(run);
        soft_gpu_parse(&run->gpus, run->params.num_nodes);
        return first;
    }
    run->params.num_rails = (run->rails != 0) ? run->rails : DEFAULT_RAILS;
    run->params.num_nodes = (run->nodes != 0) ? run->nodes : 1;
    if (run->params.num_nodes * run->params.num_rails >
        SROCE_SESSION_MAX_DEVS) {
        mrail_tool_usage(SOFT_COMMAND,
                         "%u nodes x %u rails: at most %d rails are supported",
                         run->params.num_nodes, run->params.num_rails,
                         SROCE_SESSION_MAX_DEVS);
    }
    soft_run_rates(run);
    soft_gpu_parse(&run->gpus, run->params.num_nodes);
    return first;
}

/* Runs in the grandchild. Closes all descriptors that were inherited from the
 * caller. */
static void soft_daemon_child(const char *name,
                              const sroce_session_hold_t *hold, int ready_fd)
{
    int null_fd = open("/dev/null", O_RDWR);
    sroce_session_hold_t copy;

    setsid();
    prctl(PR_SET_NAME, "mrail-softd");
    for (int fd = 0; (null_fd >= 0) && (fd <= 2); ++fd) {
        dup2(null_fd, fd);
    }
    if (chdir("/") != 0) {
        _exit(1);
    }
    /* Descriptors 3 and 4 hold the session, and 5 is the pipe. All other
     * descriptors are closed. */
    copy.file_fd = fcntl(hold->file_fd, F_DUPFD_CLOEXEC, 6);
    copy.base_fd = fcntl(hold->base_fd, F_DUPFD_CLOEXEC, 6);
    ready_fd = fcntl(ready_fd, F_DUPFD_CLOEXEC, 6);
    if ((dup2(copy.file_fd, 3) < 0) || (dup2(copy.base_fd, 4) < 0) ||
        (dup2(ready_fd, 5) < 0)) {
        _exit(1);
    }
    closefrom(6);
    copy = (sroce_session_hold_t){.file_fd = 3, .base_fd = 4};
    _exit(sroce_daemon_run(name, &copy, 5));
}

/* Starts the session daemon as an orphan and waits until it listens. */
static int soft_daemon_start(const char *name, const sroce_session_hold_t *hold)
{
    int pipe_fds[2], ret = 0;
    pid_t pid;
    char byte;

    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return -errno;
    }
    pid = fork();
    if (pid < 0) {
        ret = -errno;
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        return ret;
    }
    if (pid == 0) {
        pid = fork();
        if (pid == 0) {
            soft_daemon_child(name, hold, pipe_fds[1]);
        }
        _exit(pid < 0);
    }
    close(pipe_fds[1]);
    waitpid(pid, NULL, 0);
    if (read(pipe_fds[0], &byte, 1) != 1) {
        ret = -EIO;
    }
    close(pipe_fds[0]);
    return ret;
}

static int soft_run_create(soft_run_t *run)
{
    const char *name = run->params.name;
    sroce_session_hold_t hold;
    int ret = sroce_session_create(&run->params, &hold);

    if (ret == 0) {
        /* Other processes join once the daemon listens, and find the GPUs. */
        ret = soft_gpu_create(name, &run->gpus, run->params.num_nodes);
        if (ret == 0) {
            ret = soft_daemon_start(name, &hold);
            if (ret != 0) {
                soft_error("the session daemon of session '%s' did not start",
                           name);
            }
        }
        if (ret != 0) {
            sroce_session_unlink(name);
        }
        sroce_session_hold_close(&hold);
        return ret;
    }
    if (ret == -EEXIST) {
        return 0; /* another process created it first */
    }
    if (ret == -EADDRNOTAVAIL) {
        soft_error("this machine does not have all addresses that %u "
                   "nodes x %u rails need; see --base",
                   run->params.num_nodes, run->params.num_rails);
    } else if (ret == -EADDRINUSE) {
        soft_error(
            "UDP port 4791 or 4792 of the addresses is in use by another "
            "program or session; see --base");
    } else {
        soft_error("cannot create session '%s' in /dev/shm: %s", name,
                   strerror(-ret));
    }
    return ret;
}

/* Returns a connection to the session daemon, which holds the session, or -1
 * after printing a message. */
static int soft_run_join(soft_run_t *run)
{
    const char *name = run->params.name;
    sroce_session_t *session;
    int conn;

    /* A session that another process has just left may end before this process
     * joins it. */
    for (unsigned i = 0; i < SOFT_JOIN_TRIES; ++i) {
        conn = soft_connect(name, SROCE_DAEMON_HOLD);
        if (conn >= 0) {
            return conn;
        }
        if (conn == -ETIMEDOUT) {
            break;
        }
        if (conn != -ENOENT) {
            soft_open(name, &session); /* prints the reason */
            return -1;
        }
        if (soft_run_create(run) != 0) {
            return -1;
        }
    }
    soft_error("session '%s' exists but its session daemon does not answer",
               name);
    return -1;
}

/* Compares the requested session with the existing one. Returns 0, or -EINVAL
 * with a message that names the difference. */
static int soft_run_check(const soft_run_t *run, const sroce_session_t *session,
                          char *reason, size_t size)
{
    const sroce_session_params_t *params = &run->params;
    unsigned rails = MRAIL_MIN(session->num_rails, params->num_rails);

    if ((run->list != NULL) && !soft_addrs_fit(&run->addrs, session)) {
        snprintf(
            reason, size,
            "session '%s' does not have the addresses in %s; end its jobs or "
            "choose another --session",
            session->name, run->list);
        return -EINVAL;
    }
    if (((run->nodes != 0) && (session->num_nodes != params->num_nodes)) ||
        ((run->rails != 0) && (session->num_rails != params->num_rails))) {
        snprintf(reason, size,
                 "session '%s' has %u nodes x %u rails, not %u x %u; end its "
                 "jobs or choose another --session",
                 session->name, session->num_nodes, session->num_rails,
                 params->num_nodes, params->num_rails);
        return -EINVAL;
    }
    if ((params->base_addr != 0) &&
        ((ntohl(session->devs[0].addr) & 0xffff0000u) != params->base_addr)) {
        snprintf(
            reason, size,
            "session '%s' has addresses %u.%u.*, which differ from --base; end "
            "its jobs or choose another --session",
            session->name, ntohl(session->devs[0].addr) >> 24,
            (ntohl(session->devs[0].addr) >> 16) & 0xff);
        return -EINVAL;
    }
    if ((run->given_icrc &&
         ((session->flags ^ params->flags) & SROCE_SESSION_F_ICRC)) ||
        (run->given_mtu && (session->mtu != params->mtu))) {
        snprintf(reason, size,
                 "session '%s' has --icrc %s --mtu %u; end its jobs or choose "
                 "another --session",
                 session->name,
                 (session->flags & SROCE_SESSION_F_ICRC) ? "on" : "off",
                 session->mtu);
        return -EINVAL;
    }
    /* The rates of an existing session may be given again, but different rates
     * are a mistake. */
    for (unsigned rail = 0; (run->rates != NULL) && (rail < rails); ++rail) {
        if (session->devs[rail].first_rate_bytes_per_s !=
            params->rate_bytes_per_s[rail]) {
            snprintf(
                reason, size,
                "session '%s' was created with different rates; change them "
                "with 'mrail soft ctl --session %s rate=...'",
                session->name, session->name);
            return -EINVAL;
        }
    }
    return soft_gpu_check(session->name, &run->gpus, reason, size);
}

/* Joins the session or creates it. *conn_p keeps it alive. A session that does
 * not match may belong to a command that has just exited, so this function
 * retries after a short time. */
static int soft_run_enter(soft_run_t *run, int *conn_p,
                          sroce_session_t **session_p)
{
    const struct timespec pause = {.tv_nsec = SOFT_END_MS * 1000 * 1000};
    char reason[SOFT_REASON_MAX];

    for (unsigned tries = 1;; ++tries) {
        *conn_p = soft_run_join(run);
        if ((*conn_p < 0) || (soft_open(run->params.name, session_p) != 0)) {
            return -ENOENT;
        }
        if (soft_run_check(run, *session_p, reason, sizeof(reason)) == 0) {
            return 0;
        }
        if (tries == 2) {
            soft_error("%s", reason);
            return -EINVAL;
        }
        sroce_session_close(*session_p);
        close(*conn_p);
        nanosleep(&pause, NULL);
    }
}

/* Assigns ranks to nodes in blocks: rank * nodes / size. */
static int soft_run_node(soft_run_t *run, const sroce_session_t *session)
{
    mrail_launch_t launch = mrail_launch_read(getenv);

    if ((run->node == NODE_OF_RANK) && (run->list != NULL)) {
        int node = soft_addrs_own_node(&run->addrs);

        if (node < 0) {
            soft_error("no node of %s has its first address in this network "
                       "namespace",
                       run->list);
            return -EINVAL;
        }
        run->node = (unsigned)node;
    } else if (run->node == NODE_OF_RANK) {
        run->node = 0;
        if ((launch.rank >= 0) && (launch.rank < launch.size)) {
            run->node = (unsigned)(launch.rank * (long)session->num_nodes /
                                   launch.size);
        }
    }
    if (run->node >= session->num_nodes) {
        soft_error("node %u: session '%s' has nodes 0 to %u", run->node,
                   session->name, session->num_nodes - 1);
        return -EINVAL;
    }
    return 0;
}

int soft_library(const char *built, const char *installed, char *path,
                 size_t max)
{
    char dir[MRAIL_TOOL_PATH_MAX], target[MRAIL_TOOL_PATH_MAX];

    mrail_tool_own_dir(dir, sizeof(dir));
    if ((size_t)snprintf(path, max, "%s/%s", dir, built) < max &&
        access(path, R_OK) == 0) {
        return 0;
    }
    snprintf(target, sizeof(target), PKGLIBDIR "/%s", installed);
    mrail_tool_installed(target, path, max);
    return access(path, R_OK) == 0 ? 0 : -ENOENT;
}

static int soft_run_environment(const soft_run_t *run, unsigned num_rails)
{
    const char *before = getenv("LD_PRELOAD");
    char library[MRAIL_TOOL_PATH_MAX], number[24];
    char *preload;

    if (soft_library(".libs/" SOFT_LIBRARY, SOFT_LIBRARY, library,
                     sizeof(library)) != 0) {
        soft_error(SOFT_LIBRARY " is not at %s; the installation is incomplete",
                   library);
        return -ENOENT;
    }
    if (asprintf(&preload, "%s%s%s", library, before ? ":" : "",
                 before ? before : "") < 0) {
        return -ENOMEM;
    }
    snprintf(number, sizeof(number), "%u", run->node);
    setenv("LD_PRELOAD", preload, 1);
    setenv("MRAIL_SOFT", run->params.name, 1);
    setenv("MRAIL_SOFT_NODE", number, 1);
    free(preload);
    return soft_gpu_environment(run->params.name, num_rails);
}

/* Returns 1 if this process must run the script. If there are several ranks,
 * only the first rank runs it. */
static int soft_run_script_is_mine(const soft_run_t *run)
{
    return (run->script != NULL) && (mrail_launch_read(getenv).rank <= 0);
}

int soft_main_run(char **argv)
{
    soft_run_t run = {.params = {.name = SOFT_DEFAULT_SESSION,
                                 .mtu = SROCE_SESSION_DEFAULT_MTU,
                                 .seed = 1},
                      .node = NODE_OF_RANK};
    sroce_fault_script_t *script = NULL;
    sroce_session_t *session;
    int first, conn, ret;

    first = soft_run_parse(argv, &run);
    if (soft_run_script_is_mine(&run) &&
        (soft_script_read(run.script, &script) != 0)) {
        return SOFT_EXIT_USAGE;
    }
    if ((soft_run_enter(&run, &conn, &session) != 0) ||
        soft_run_node(&run, session) ||
        soft_run_environment(&run, session->num_rails)) {
        return SOFT_EXIT_FAILED;
    }
    if ((script != NULL) && (soft_script_fit(script, session) != 0)) {
        return SOFT_EXIT_USAGE;
    }
    if ((script != NULL) && (soft_script_spawn(session, script) != 0)) {
        return SOFT_EXIT_FAILED;
    }
    /* CMD and its children hold the session through this descriptor. */
    fcntl(conn, F_SETFD, 0);
    execvp(argv[first], argv + first);
    ret = errno;
    soft_error("cannot run '%s': %s", argv[first], strerror(ret));
    return (ret == ENOENT) ? 127 : 126;
}
