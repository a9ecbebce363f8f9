/* Creates the namespaces of the lab's nodes, and runs programs in them. */
#include "config.h"
#include "tools/lab_command.h"

#include "base/util.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* The namespaces of each node. In addition to the network namespace, a node has
 * a UTS namespace, because Open MPI distinguishes hosts by their names. */
static const struct {
    const char *dir;
    int flag;
} kinds[] = {{"net", CLONE_NEWNET}, {"uts", CLONE_NEWUTS}};

void lab_path(char path[LAB_PATH_MAX], const char *dir, const char *name)
{
    snprintf(path, LAB_PATH_MAX, LAB_DIR "/%s/%s", dir, name);
}

void lab_write_file(const char *path, const void *data, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, data, length) != (ssize_t)length) {
        mrail_tool_fail(LAB_COMMAND, "%s: %s", path, strerror(errno));
    }
    close(fd);
}

/* ---- Namespaces ---- */

static void set(const char *key, const char *value)
{
    char path[LAB_PATH_MAX];

    snprintf(path, sizeof(path), "/proc/sys/net/%s", key);
    if (access(path, F_OK) == 0) {
        lab_write_file(path, value, strlen(value));
        return;
    }
    /* IPv6 settings are missing in kernels without IPv6. The hash seed may also
     * be missing; all switches then use the same hash. */
    if (strncmp(key, "ipv6/", 5) != 0 && strstr(key, "_seed") == NULL) {
        mrail_tool_fail(LAB_COMMAND, "this kernel does not have the setting %s",
                        path);
    }
}

static void set_all(mrail_fabric_tier_t tier, uint64_t seed)
{
    char number[24];

    /* Set these before interfaces exist, because interfaces inherit
     * `default`. */
    set("ipv6/conf/all/disable_ipv6", "1");
    set("ipv6/conf/default/disable_ipv6", "1");
    set("ipv4/conf/all/rp_filter", "0");
    set("ipv4/conf/default/rp_filter", "0");
    if (tier == MRAIL_FABRIC_HOST) {
        /* A host has several NICs in one subnet. Each of them must use ARP only
         * for its own address. */
        set("ipv4/conf/all/arp_ignore", "1");
        set("ipv4/conf/all/arp_announce", "2");
        return;
    }
    snprintf(number, sizeof(number), "%u", (unsigned)seed | 1u);
    set("ipv4/ip_forward", "1");
    set("ipv4/fib_multipath_hash_policy", "1");
    set("ipv4/fib_multipath_hash_seed", number);
}

void lab_ns_hold(const char *name)
{
    char path[LAB_PATH_MAX], own[64];

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(kinds); ++i) {
        lab_path(path, kinds[i].dir, name);
        lab_write_file(path, "", 0);
        snprintf(own, sizeof(own), "/proc/self/ns/%s", kinds[i].dir);
        if (mount(own, path, NULL, MS_BIND, NULL) != 0) {
            mrail_tool_fail(LAB_COMMAND, "cannot hold the namespace of %s: %s",
                            name, strerror(errno));
        }
    }
}

static _Noreturn void create_child(const char *name, mrail_fabric_tier_t tier,
                                   uint64_t seed)
{
    if (unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0 ||
        sethostname(name, strlen(name)) != 0) {
        mrail_tool_fail(LAB_COMMAND, "cannot create the namespace of %s: %s",
                        name, strerror(errno));
    }
    lab_ns_hold(name);
    set_all(tier, seed);
    _exit(0);
}

/* Waits for a child. Exits if the child failed, which has already printed its
 * own error message. */
static void wait_for(pid_t pid, const char *what, const char *node)
{
    int status;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            mrail_tool_fail(LAB_COMMAND, "waitpid: %s", strerror(errno));
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        mrail_tool_fail(LAB_COMMAND, "%s failed in the namespace of %s", what,
                        node);
    }
}

static pid_t fork_or_fail(void)
{
    pid_t pid = fork();

    if (pid < 0) {
        mrail_tool_fail(LAB_COMMAND, "cannot start a process: %s",
                        strerror(errno));
    }
    return pid;
}

void lab_ns_create(const char *name, mrail_fabric_tier_t tier, uint64_t seed)
{
    pid_t pid = fork_or_fail();

    if (pid == 0) {
        create_child(name, tier, seed);
    }
    wait_for(pid, "the setup", name);
}

int lab_ns_enter(const char *name)
{
    char path[LAB_PATH_MAX];

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(kinds); ++i) {
        int fd, ret;

        lab_path(path, kinds[i].dir, name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            return -errno;
        }
        ret = setns(fd, kinds[i].flag);
        ret = (ret == 0) ? 0 : -errno;
        close(fd);
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

/* ---- Programs ---- */

/* Makes the text the standard input. Uses a file in memory, because a pipe
 * could fill up. */
static void feed(const char *text)
{
    int fd = memfd_create("mrail-lab", MFD_CLOEXEC);
    size_t length = strlen(text);

    if (fd < 0 || write(fd, text, length) != (ssize_t)length ||
        lseek(fd, 0, SEEK_SET) != 0 || dup2(fd, STDIN_FILENO) < 0) {
        mrail_tool_fail(LAB_COMMAND, "cannot pass a batch of commands: %s",
                        strerror(errno));
    }
}

void lab_ns_tool(const char *node, const char *const *argv, const char *text)
{
    pid_t pid = fork_or_fail();
    int ret;

    if (pid == 0) {
        ret = lab_ns_enter(node);
        if (ret != 0) {
            mrail_tool_fail(LAB_COMMAND, "cannot enter the namespace of %s: %s",
                            node, strerror(-ret));
        }
        feed(text);
        /* All output of the lab's programs goes to stderr. */
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        mrail_tool_fail(LAB_COMMAND, "%s: %s", argv[0], strerror(errno));
    }
    wait_for(pid, argv[0], node);
}
