/* Implements the commands for use in a lab: ctl (links), exec and rsh
 * (processes on nodes). */
#include "config.h"
#include "tools/lab_command.h"

#include "base/number.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define CTL_COMMAND "lab ctl"
#define EXEC_COMMAND "lab exec"
#define RSH_COMMAND "lab rsh"
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127

static const mrail_option_t no_options[] = {{.names = NULL}};

/* ---- Processes ---- */

static void set_number(const char *name, unsigned value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", value);
    setenv(name, text, 0);
}

/* Sets the index of each rail's NIC in its pod. */
static void set_indices(const mrail_fabric_t *fabric,
                        const mrail_fabric_node_t *host)
{
    char *text;
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    if (stream == NULL) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
    for (uint32_t r = 0; r < host->num_up; ++r) {
        fprintf(stream, "%s%u", (r == 0) ? "" : ",",
                fabric->links[host->up[r]].nic_index);
    }
    if (fclose(stream) != 0) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
    setenv("UCX_MRAIL_NIC_INDEX", text, 0);
    free(text);
}

/* With port rules, jobs on a host use the segments of its leaf. Variables that
 * the user has set take precedence. */
static void set_ports(const lab_t *lab, const char *name)
{
    const mrail_fabric_t *fabric = lab->fabric;
    const mrail_fabric_node_t *node =
        &fabric->nodes[mrail_fabric_node_find(fabric, name)];
    unsigned uplinks, spine_uplinks;

    if (lab->routing == MRAIL_ROUTE_ECMP || node->tier != MRAIL_FABRIC_HOST ||
        fabric->nodes[fabric->links[node->up[0]].upper].num_up == 0) {
        return;
    }
    mrail_fabric_segments(fabric, node->up[0], &uplinks, &spine_uplinks);
    set_number("UCX_MRAIL_UPLINKS", uplinks);
    set_number("UCX_MRAIL_SPINE_UPLINKS", spine_uplinks);
    if (spine_uplinks > 1) {
        set_indices(fabric, node);
    }
}

static void enter(const char *command, const char *node)
{
    lab_t lab;
    int ret;

    lab_state_load(command, &lab);
    if (mrail_fabric_node_find(lab.fabric, node) == MRAIL_FABRIC_NONE) {
        mrail_tool_usage(command, "'%s' is not a node of this lab", node);
    }
    set_ports(&lab, node);
    lab_destroy(&lab);
    ret = lab_ns_enter(node);
    if (ret != 0) {
        mrail_tool_fail(command, "cannot enter the namespace of %s: %s", node,
                        strerror(-ret));
    }
    setenv("MRAIL_LAB_NODE", node, 1);
}

static int become(const char *command, char **argv)
{
    int error;

    execvp(argv[0], argv);
    error = errno;
    fprintf(stderr, "mrail %s: cannot run '%s': %s\n", command, argv[0],
            strerror(error));
    return (error == ENOENT) ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

int lab_main_exec(char **argv)
{
    static const char *const synopsis[] = {"NODE -- CMD [ARG...]", NULL};
    static const mrail_command_t command = {
        .name = EXEC_COMMAND,
        .synopsis = synopsis,
        .about = "In a lab, runs CMD on a host or switch.\n",
        .options = no_options,
        .epilog =
            "Exit status: that of CMD; 126 or 127 if it cannot run, 1 no lab, "
            "2 usage.\n",
        .operands = 1};
    const char *node;
    int first = mrail_options_parse(&command, argv, NULL);

    node = argv[first];
    if (node == NULL) {
        mrail_tool_usage(EXEC_COMMAND, "missing node");
    }
    ++first;
    if (argv[first] != NULL && strcmp(argv[first], "--") == 0) {
        ++first;
    }
    if (argv[first] == NULL) {
        mrail_tool_usage(EXEC_COMMAND, "missing command after the node");
    }
    enter(EXEC_COMMAND, node);
    return become(EXEC_COMMAND, argv + first);
}

/* Like rsh(1), joins the words and passes them to a shell. mpirun uses this. */
int lab_main_rsh(char **argv)
{
    static char sh[] = "sh", option[] = "-c";
    char *shell[] = {sh, option, NULL, NULL};
    size_t length = 1;

    if (argv[1] == NULL || argv[2] == NULL) {
        mrail_tool_usage(LAB_COMMAND, "rsh: expected HOST COMMAND");
    }
    for (unsigned i = 2; argv[i] != NULL; ++i) {
        length += strlen(argv[i]) + 1;
    }
    shell[2] = calloc(1, length);
    if (shell[2] == NULL) {
        mrail_tool_fail(RSH_COMMAND, "out of memory");
    }
    for (unsigned i = 2; argv[i] != NULL; ++i) {
        strcat(shell[2], argv[i]);
        strcat(shell[2], (argv[i + 1] != NULL) ? " " : "");
    }
    enter(RSH_COMMAND, argv[1]);
    return become(RSH_COMMAND, shell);
}

/* ---- Links ---- */

/* Finds a link by its lower end: "l1:2" is uplink 2 of l1, or rail 2 of a
 * host. */
static uint32_t find_uplink(const lab_t *lab, const char *text,
                            const char *colon)
{
    char name[MRAIL_FABRIC_MAX_NAME + 1];
    const mrail_fabric_node_t *node;
    uint64_t n;
    uint32_t index;

    if ((size_t)(colon - text) >= sizeof(name)) {
        return MRAIL_FABRIC_NONE;
    }
    snprintf(name, sizeof(name), "%.*s", (int)(colon - text), text);
    index = mrail_fabric_node_find(lab->fabric, name);
    if (index == MRAIL_FABRIC_NONE) {
        return MRAIL_FABRIC_NONE;
    }
    node = &lab->fabric->nodes[index];
    if (node->num_up == 0 ||
        mrail_number_uint(colon + 1, 0, node->num_up - 1, &n) != 0) {
        return MRAIL_FABRIC_NONE;
    }
    return node->up[n];
}

static uint32_t find_link(const lab_t *lab, const char *text)
{
    const char *colon = strchr(text, ':');
    char name[LAB_LINK_NAME_MAX];

    if (colon != NULL) {
        return find_uplink(lab, text, colon);
    }
    for (uint32_t i = 0; i < lab->fabric->num_links; ++i) {
        if (strcmp(lab_link_name(lab, i, name), text) == 0) {
            return i;
        }
    }
    return MRAIL_FABRIC_NONE;
}

static void set_end(const lab_t *lab, uint32_t link, int is_upper)
{
    static const char *const ip[] = {"ip", "-batch", "-", NULL};
    const mrail_fabric_link_t *l = &lab->fabric->links[link];
    char name[16], text[64];

    snprintf(text, sizeof(text), "link set %s %s\n",
             lab_interface(lab, link, is_upper, name),
             mrail_router_is_up(lab->router, link) ? "up" : "down");
    lab_ns_tool(lab_name(lab, is_upper ? l->upper : l->lower), ip, text);
}

/* Takes a link down or up. When an interface goes down, the kernel removes its
 * routes, including the routes of the port rules. Adds them again when the link
 * comes up. */
static void change(lab_t *lab, uint32_t link, int is_up)
{
    const mrail_fabric_link_t *l = &lab->fabric->links[link];

    if (mrail_router_is_up(lab->router, link) == is_up) {
        return;
    }
    mrail_router_link(lab->router, link, is_up);
    set_end(lab, link, 0);
    set_end(lab, link, 1);
    lab_state_save_links(lab);
    lab_routes_apply(lab);
    if (!is_up) {
        return;
    }
    if (l->addr != 0) {
        lab_host_routes_apply(lab, link);
    } else {
        lab_rules_apply(lab, l->lower);
    }
    lab_counters_await(CTL_COMMAND, lab);
}

int lab_main_ctl(char **argv)
{
    static const char *const synopsis[] = {"LINK down|up", NULL};
    static const mrail_command_t command = {
        .name = CTL_COMMAND,
        .synopsis = synopsis,
        .about = "In a lab, takes a link down or up at both ends.\n",
        .options = no_options,
        .epilog = "LINK: l1:2 is uplink 2 of l1, or rail 2 of a host, from 0; "
                  "l1-s1.0 is the\n"
                  "first link between l1 and s1.\n"
                  "Exit status: 0 done, 1 failure, 2 usage.\n",
        .operands = 1};
    int first = mrail_options_parse(&command, argv, NULL);
    uint32_t link;
    int lock, is_up;
    lab_t lab;

    if (argv[first] == NULL || argv[first + 1] == NULL ||
        argv[first + 2] != NULL) {
        mrail_tool_usage(CTL_COMMAND, "expected LINK and down or up");
    }
    is_up = strcmp(argv[first + 1], "up") == 0;
    if (!is_up && strcmp(argv[first + 1], "down") != 0) {
        mrail_tool_usage(CTL_COMMAND, "'%s' is invalid; expected down or up",
                         argv[first + 1]);
    }
    /* Serialises changes. */
    lock = open(LAB_DIR "/settings", O_RDONLY | O_CLOEXEC);
    if (lock >= 0) {
        flock(lock, LOCK_EX);
    }
    lab_state_load(CTL_COMMAND, &lab);
    link = find_link(&lab, argv[first]);
    if (link == MRAIL_FABRIC_NONE) {
        mrail_tool_usage(CTL_COMMAND,
                         "'%s' is not a link of this lab; 'mrail lab status' "
                         "lists them",
                         argv[first]);
    }
    change(&lab, link, is_up);
    lab_destroy(&lab);
    return 0;
}
