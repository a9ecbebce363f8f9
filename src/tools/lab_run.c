/*
 * Creates the namespaces of a lab, builds the fabric, and runs the command.
 *
 * There are two processes: the outer process, which the user starts, and the
 * inner process, which is the init process of the lab's PID namespace. When the
 * outer process dies, the inner process is killed (PR_SET_PDEATHSIG), together
 * with every process of the lab.
 */
#include "config.h"
#include "tools/lab_command.h"
#include "base/number.h"
#include "orchestrator/ports.h"

#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPACES                                                                 \
    (CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128

static volatile pid_t child; /* receives forwarded signals */

static void forward(int sig)
{
    kill(child, sig);
}

static void stop(int sig)
{
    _exit(EXIT_SIGNAL + sig);
}

/* Sets a handler, unless the parent has chosen to ignore the signal, as
 * nohup(1) does. */
static void set_handler(int sig, void (*handler)(int))
{
    struct sigaction before;

    if (sigaction(sig, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        signal(sig, handler);
    }
}

/* Makes signals end this process, and therefore the lab, until forward_to() or
 * execve(2). Without a handler, the kernel would discard the signals of the
 * inner process, as of every init process. */
static void stop_on_signals(void)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(signals); ++i) {
        set_handler(signals[i], stop);
    }
}

/* Forwards signals to a process from now on. The terminal itself sends SIGINT
 * and SIGQUIT to the command. */
static void forward_to(pid_t pid)
{
    child = pid;
    set_handler(SIGTERM, forward);
    set_handler(SIGHUP, forward);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
}

/* Returns the status of `pid` as a shell would report it. Reaps all other
 * children. */
static int await(pid_t pid)
{
    int status;

    for (;;) {
        pid_t got = waitpid(-1, &status, 0);

        if (got == pid && WIFEXITED(status)) {
            return WEXITSTATUS(status);
        }
        if (got == pid && WIFSIGNALED(status)) {
            return EXIT_SIGNAL + WTERMSIG(status);
        }
        if (got < 0 && errno != EINTR) {
            return MRAIL_TOOL_FAILED;
        }
    }
}

/* ---- Before the namespaces ---- */

static int is_program(const char *name)
{
    const char *path = getenv("PATH");
    char file[MRAIL_TOOL_PATH_MAX];

    while (path != NULL && *path != '\0') {
        int length = (int)strcspn(path, ":");

        snprintf(file, sizeof(file), "%.*s/%s", length, path, name);
        if (access(file, X_OK) == 0) {
            return 1;
        }
        path += length + (path[length] == ':');
    }
    return 0;
}

static void check_programs(const lab_t *lab)
{
    static const struct {
        const char *name, *package;
    } programs[] = {
        {"ip", "iproute2"}, {"tc", "iproute2"}, {"nft", "nftables"}};
    const char *path = getenv("PATH");
    char *more;

    /* The PATH of ordinary users often lacks these directories. */
    if (asprintf(&more, "%s:/usr/sbin:/sbin",
                 (path != NULL) ? path : "/usr/bin:/bin") < 0) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
    setenv("PATH", more, 1);
    free(more);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(programs); ++i) {
        if (strcmp(programs[i].name, "nft") == 0 &&
            lab->routing == MRAIL_ROUTE_ECMP) {
            continue;
        }
        if (!is_program(programs[i].name)) {
            mrail_tool_fail(LAB_COMMAND,
                            "%s not found in PATH; install the %s package",
                            programs[i].name, programs[i].package);
        }
    }
}

static void map_id(const char *path, unsigned id)
{
    char text[64];
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int length = snprintf(text, sizeof(text), "0 %u 1\n", id);

    if (fd < 0 || write(fd, text, (size_t)length) != length) {
        mrail_tool_fail(LAB_COMMAND, "%s: %s", path, strerror(errno));
    }
    close(fd);
}

/* Root usually does not require a user namespace, except inside a container. */
static void make_spaces(void)
{
    unsigned uid = geteuid(), gid = getegid();
    int fd;

    if (uid == 0 && unshare(SPACES) == 0) {
        return;
    }
    if (unshare(CLONE_NEWUSER | SPACES) != 0) {
        mrail_tool_fail(LAB_COMMAND,
                        "cannot create namespaces: %s. Either the kernel must "
                        "allow this user to create user namespaces (sysctl "
                        "user.max_user_namespaces, "
                        "kernel.unprivileged_userns_clone, "
                        "kernel.apparmor_restrict_unprivileged_userns), or "
                        "the command must run as root",
                        strerror(errno));
    }
    fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, "deny", 4) != 4) {
            mrail_tool_fail(LAB_COMMAND, "/proc/self/setgroups: %s",
                            strerror(errno));
        }
        close(fd);
    }
    map_id("/proc/self/uid_map", uid);
    map_id("/proc/self/gid_map", gid);
}

/* Makes this process die with the outer process. If the outer process died
 * before prctl(), the descriptor shows this. */
static void die_with(int alive_fd)
{
    struct pollfd alive = {.fd = alive_fd, .events = POLLIN};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (poll(&alive, 1, 0) != 0) {
        _exit(MRAIL_TOOL_FAILED);
    }
}

static void make_dirs(void)
{
    static const char *const dirs[] = {LAB_DIR, LAB_DIR "/net", LAB_DIR "/uts",
                                       LAB_DIR "/tmp"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(dirs); ++i) {
        if (mkdir(dirs[i], 0700) != 0) {
            mrail_tool_fail(LAB_COMMAND, "%s: %s", dirs[i], strerror(errno));
        }
    }
}

/* Mounts the lab's file systems. The lab mounts an empty LAB_SHM, so that
 * software-rail sessions and all shared memory disappear with the lab. */
static void make_mounts(void)
{
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("mrail-lab", LAB_SHM, "tmpfs", MS_NOSUID | MS_NODEV,
              "mode=1777") != 0) {
        mrail_tool_fail(LAB_COMMAND,
                        "cannot mount a file system on " LAB_SHM ": %s",
                        strerror(errno));
    }
    /* Some containers do not permit this mount. ps(1) then shows outside
     * processes. */
    (void)mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                NULL);
    make_dirs();
}

/* Defines host names for getaddrinfo() and namespace names for `ip netns exec`,
 * if the machine has the files to mount over. */
static void make_names(const lab_t *lab)
{
    const mrail_fabric_t *fabric = lab->fabric;
    FILE *hosts = fopen(LAB_DIR "/hosts", "we");
    FILE *slots = fopen(LAB_DIR "/hostfile", "we");
    char addr[16];

    if (hosts == NULL || slots == NULL) {
        mrail_tool_fail(LAB_COMMAND, LAB_DIR ": %s", strerror(errno));
    }
    fprintf(hosts, "127.0.0.1 localhost " LAB_CONTROL "\n");
    for (uint32_t i = 0; i < fabric->num_of[MRAIL_FABRIC_HOST]; ++i) {
        const mrail_fabric_node_t *host =
            &fabric->nodes[fabric->of[MRAIL_FABRIC_HOST][i]];

        for (uint32_t r = 0; r < host->num_up; ++r) {
            lab_addr(fabric->links[host->up[r]].addr, addr);
            fprintf(hosts, "%s %s%s-rail%u\n", addr, (r == 0) ? host->name : "",
                    (r == 0) ? "\t" : "", r);
        }
        fprintf(slots, "%s slots=1\n", host->name);
    }
    if (fclose(hosts) != 0 || fclose(slots) != 0) {
        mrail_tool_fail(LAB_COMMAND, LAB_DIR ": %s", strerror(errno));
    }
    (void)mount(LAB_DIR "/hosts", "/etc/hosts", NULL, MS_BIND, NULL);
    (void)mount(LAB_DIR "/net", "/run/netns", NULL, MS_BIND | MS_REC, NULL);
}

/* Sets the environment of the command. mpirun starts its daemons on the hosts
 * with `mrail lab rsh` and communicates over the network mgmt. Variables that
 * the user has set take precedence. */
static void set_environment(const lab_t *lab)
{
    const mrail_fabric_t *fabric = lab->fabric;
    uint32_t hosts = fabric->num_of[MRAIL_FABRIC_HOST], rails = 0;
    char text[MRAIL_TOOL_PATH_MAX + 32], self[MRAIL_TOOL_PATH_MAX];
    int is_equal = 1;

    for (uint32_t i = 0; i < hosts; ++i) {
        uint32_t num = fabric->nodes[fabric->of[MRAIL_FABRIC_HOST][i]].num_up;

        is_equal &= (i == 0 || num == rails);
        rails = num;
    }
    setenv("MRAIL_LAB", LAB_DIR, 1);
    unsetenv("MRAIL_LAB_SIZE");
    if (is_equal) {
        snprintf(text, sizeof(text), "%ux%u", hosts, rails);
        setenv("MRAIL_LAB_SIZE", text, 1);
    }
    mrail_tool_own_dir(self, sizeof(self));
    snprintf(text, sizeof(text), "%s/mrail-lab rsh", self);
    setenv("OMPI_MCA_plm_rsh_agent", text, 0);
    setenv("OMPI_MCA_plm_rsh_no_tree_spawn", "1", 0);
    setenv("OMPI_MCA_oob_tcp_if_include", "mgmt", 0);
    setenv("OMPI_MCA_orte_tmpdir_base", LAB_DIR "/tmp", 0);
    setenv("OMPI_MCA_orte_default_hostfile", LAB_DIR "/hostfile", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

/* Warns about jobs with too few lanes, which leave uplinks unused. */
static void check_lanes(const lab_t *lab)
{
    const char *text = getenv(LAB_LANES);
    uint64_t lanes = 0;
    char reason[320];

    if (lab->routing != MRAIL_ROUTE_ECMP &&
        (text == NULL || strcmp(text, "auto") == 0 ||
         mrail_number_uint(text, 1, MRAIL_PORTS_MAX_LANES, &lanes) == 0) &&
        mrail_fabric_check_lanes(lab->fabric, (unsigned)lanes, reason,
                                 sizeof(reason)) != 0) {
        fprintf(stderr, "mrail lab: %s (" LAB_LANES ")\n", reason);
    }
}

static _Noreturn void run_command(const lab_run_t *run)
{
    int error;

    set_environment(&run->lab);
    execvp(run->command[0], run->command);
    error = errno;
    fprintf(stderr, "mrail lab: cannot run '%s': %s\n", run->command[0],
            strerror(error));
    _exit((error == ENOENT) ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

static void print_counters(const lab_run_t *run)
{
    double seconds = lab_state_age();
    lab_count_t *counts = lab_counters_read(LAB_COMMAND, &run->lab);

    lab_status_table(&run->lab, counts, seconds, stderr);
    free(counts);
}

static int inner(lab_run_t *run, int alive_fd)
{
    pid_t pid;
    int status;

    die_with(alive_fd);
    make_mounts();
    if (sethostname(LAB_CONTROL, strlen(LAB_CONTROL)) != 0) {
        mrail_tool_fail(LAB_COMMAND, "host name: %s", strerror(errno));
    }
    lab_ns_hold(LAB_CONTROL);
    lab_build(&run->lab);
    make_names(&run->lab);
    lab_state_save(run);
    if (!run->is_quiet) {
        check_lanes(&run->lab);
    }
    pid = fork();
    if (pid < 0) {
        mrail_tool_fail(LAB_COMMAND, "cannot start a process: %s",
                        strerror(errno));
    }
    if (pid == 0) {
        run_command(run);
    }
    forward_to(pid);
    status = await(pid);
    if (!run->is_quiet) {
        print_counters(run);
    }
    return status;
}

int lab_run(lab_run_t *run)
{
    int fds[2];
    pid_t pid;

    check_programs(&run->lab);
    make_spaces();
    fflush(NULL);
    stop_on_signals(); /* before the inner process exists, which inherits it */
    if (pipe2(fds, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
        mrail_tool_fail(LAB_COMMAND, "cannot start a process: %s",
                        strerror(errno));
    }
    if (pid == 0) {
        close(fds[1]);
        exit(inner(run, fds[0]));
    }
    close(fds[0]);
    forward_to(pid);
    return await(pid);
}
