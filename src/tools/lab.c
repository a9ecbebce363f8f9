/*
 * Parses the options of mrail lab. lab_command.h describes the lab, and
 * lab_run.c creates it.
 */
#include "config.h"
#include "tools/lab_command.h"
#include "tools/fabric_file.h"

#include "tools/options.h"
#include "tools/tool.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_QUEUE (64u << 20)
#define MAX_QUEUE (1u << 30)

typedef struct options {
    unsigned routing;
    uint64_t seed, queue;
    int quiet;
} options_t;

#define FIELD(_name) offsetof(options_t, _name)

static const mrail_option_t table[] = {
    {"--routing", "ecmp|rules|rules-drop",
     "choose uplinks by a hash of the packet headers (ecmp), or by the segment "
     "of the source port, as with mrail acl (rules); rules-drop also drops "
     "packets whose uplink is down (default: ecmp)",
     MRAIL_OPTION_CHOICE, FIELD(routing), 0, 0, NULL},
    {"--queue", "SIZE",
     "size of the queue at each end of a link (default: 64m)",
     MRAIL_OPTION_SIZE, FIELD(queue), 1, MAX_QUEUE, NULL},
    {"--seed", "N",
     "seed of the hashes, which differ between switches (default: 1)",
     MRAIL_OPTION_UINT64, FIELD(seed), 0, UINT64_MAX, NULL},
    {"--quiet", NULL, "do not print advice or counters to standard error",
     MRAIL_OPTION_FLAG, FIELD(quiet), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "FABRIC [OPTION...] -- CMD [ARG...]",
    "exec NODE -- CMD [ARG...]   in a lab: run a process on a host",
    "ctl LINK down|up            in a lab: take a link down or up",
    "status [OPTION...]          in a lab: show counters of links", NULL};

static const mrail_command_t command = {
    .name = LAB_COMMAND,
    .synopsis = synopsis,
    .about =
        "Builds an emulated fabric from a file (mrail-fabric(5)) in network\n"
        "namespaces, runs CMD in it, and removes it.  Does not require root\n"
        "if the kernel allows user namespaces.  FABRIC is a file, '-' for\n"
        "stdin, or the name of an installed fabric, such as lab-8.\n",
    .options = table,
    .epilog =
        "Software rails on the hosts: mrail run --soft lab ...  With port\n"
        "rules, CMD inherits UCX_MRAIL_UPLINKS of its leaf, unless you set\n"
        "it.\n"
        "Exit status: that of CMD; 126 or 127 if it cannot run, 1 no lab, 2\n"
        "usage or an invalid fabric.\n",
    .operands = 1};

/* Returns 1 if the /24 subnet of an address overlaps a network of the lab. */
static int is_own_network(const mrail_fabric_t *fabric, uint32_t addr)
{
    uint32_t subnet = addr & ~0xffu;

    return (addr ^ LAB_MGMT_NET) >> (32 - LAB_MGMT_BITS) == 0 ||
           (subnet >= LAB_SWITCH_NET &&
            subnet < LAB_SWITCH_NET + 2 * fabric->num_links);
}

static void check_addresses(const char *name, const mrail_fabric_t *fabric)
{
    char text[16];

    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[i];

        if (is_own_network(fabric, link->addr)) {
            mrail_tool_usage(LAB_COMMAND,
                             "%s: %s has the address %s, which is in a network "
                             "of the lab itself",
                             name, fabric->nodes[link->lower].name,
                             lab_addr(link->addr, text));
        }
    }
}

static void check_fabric(const char *name, const mrail_fabric_t *fabric)
{
    if (fabric->num_nodes > LAB_MAX_NODES) {
        mrail_tool_usage(
            LAB_COMMAND,
            "%s: %u nodes are too many; a lab has at most %u (mrail simulate "
            "allows more)",
            name, fabric->num_nodes, LAB_MAX_NODES);
    }
    if (mrail_fabric_node_find(fabric, LAB_CONTROL) != MRAIL_FABRIC_NONE) {
        mrail_tool_usage(LAB_COMMAND,
                         "%s: a node must not be named '" LAB_CONTROL
                         "', which is the namespace of CMD",
                         name);
    }
    check_addresses(name, fabric);
}

/* Builds a lab and runs the command in it. The fabric is the first operand, and
 * options may precede or follow it. */
static int main_run(char **argv)
{
    options_t options = {.queue = DEFAULT_QUEUE, .seed = 1};
    lab_run_t run = {0};
    const char *name;
    mrail_fabric_t *fabric;
    char *text;
    int first = mrail_options_parse(&command, argv, &options);

    name = argv[first];
    if (name == NULL) {
        mrail_tool_usage(LAB_COMMAND, "missing fabric file");
    }
    /* Parse the options after the fabric, which becomes argv[0]. */
    argv += first;
    first = mrail_options_parse(&command, argv, &options);
    run.command = argv + first;
    if (run.command[0] == NULL) {
        mrail_tool_usage(LAB_COMMAND, "missing command after '--'");
    }
    fabric = mrail_tool_fabric(LAB_COMMAND, name, &text, &run.length);
    check_fabric(name, fabric);
    run.text = text;
    run.is_quiet = options.quiet;
    run.lab.routing = options.routing;
    run.lab.seed = options.seed;
    run.lab.queue = options.queue;
    lab_init(&run.lab, fabric);
    return lab_run(&run);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*func)(char **argv);
    } commands[] = {{"status", lab_main_status},
                    {"ctl", lab_main_ctl},
                    {"exec", lab_main_exec},
                    {"rsh", lab_main_rsh}};

    for (unsigned i = 0; argc > 1 && i < MRAIL_ARRAY_SIZE(commands); ++i) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].func(argv + 1);
        }
    }
    return main_run(argv);
}
