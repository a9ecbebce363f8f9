/*
 * mrail lab builds a fabric in network namespaces. Shared by the files of the
 * command.
 *
 * Every node is a network namespace, and every link is a veth pair. The
 * namespaces do not have names outside the lab: only bind mounts in the lab's
 * mount namespace keep them alive. All processes of the lab share one PID
 * namespace, whose init exits together with `mrail lab`. The kernel therefore
 * always removes all processes, namespaces, links, and files in LAB_SHM when
 * the lab ends. Named namespaces of ip-netns(8) would outlive a killed lab.
 *
 * On a host, the interface railR is rail R, and mgmt connects to a network for
 * mpirun, which is neither shaped nor counted. On a switch, upN is uplink N,
 * and downN is the N-th downward link. A leaf also has a bridge `hosts`, whose
 * ports are its downN.
 */
#ifndef MRAIL_TOOLS_LAB_COMMAND_H
#define MRAIL_TOOLS_LAB_COMMAND_H

#include "fabric/fabric.h"
#include "fabric/route.h"

#include <stdint.h>
#include <stdio.h>

#define LAB_COMMAND "lab"
#define LAB_SHM "/dev/shm" /* the lab mounts an empty tmpfs here */
#define LAB_DIR LAB_SHM "/mrail-lab"
#define LAB_MAX_NODES 512u
#define LAB_PATH_MAX 128
#define LAB_LANES "UCX_MRAIL_LANES_PER_RAIL"
#define LAB_CONTROL "lab" /* namespace of CMD, which is not a node */
/* Networks of the lab itself, which hosts cannot use. */
#define LAB_SWITCH_NET 0x64400000u /* 100.64.0.0/10: a /31 for each link */
#define LAB_MGMT_NET 0xC6120000u   /* 198.18.0.0/15 [RFC 2544] */
#define LAB_MGMT_BITS 15

typedef struct lab {
    mrail_fabric_t *fabric;
    mrail_route_mode_t routing;
    uint64_t seed;  /* seeds the hashes of the switches */
    uint64_t queue; /* bytes of the queue at each end of a link */
    /* tracks the links that `mrail lab ctl` took down; its hashes are unused,
     * because the kernel has its own */
    mrail_router_t *router;
} lab_t;

static inline const char *lab_name(const lab_t *lab, uint32_t node)
{
    return lab->fabric->nodes[node].name;
}

/* ---- lab_ns.c ---- */

/* Writes the path of a lab file: LAB_DIR/<dir>/<name>. */
void lab_path(char path[LAB_PATH_MAX], const char *dir, const char *name);

/* Writes a whole file. Exits with a message on failure. */
void lab_write_file(const char *path, const void *data, size_t length);

/* Keeps the namespaces of this process alive under `name` for
 * lab_ns_enter(). */
void lab_ns_hold(const char *name);

/* Creates the namespaces of a node. */
void lab_ns_create(const char *name, mrail_fabric_tier_t tier, uint64_t seed);

/* Moves the calling process into the namespaces of `name`. Returns 0 or
 * -errno. */
int lab_ns_enter(const char *name);

/* Runs a program on a node with `text` as its standard input. Exits with a
 * message if the program's status is not 0. */
void lab_ns_tool(const char *node, const char *const *argv, const char *text);

/* Creates namespaces, links, addresses and rates, then routes and rules. */
void lab_build(const lab_t *lab);

/* Restores the routes of a host over this link after it was down. */
void lab_host_routes_apply(const lab_t *lab, uint32_t link);

/* Installs the routes of each switch over the links that are up. */
void lab_routes_apply(const lab_t *lab);
/* Installs the port rules of a switch. */
void lab_rules_apply(const lab_t *lab, uint32_t node);

/* ---- lab_fabric.c, which changes nothing outside the lab_t ---- */

/* Sets the fabric of a lab. Its routing must be set. All links are up. */
void lab_init(lab_t *lab, mrail_fabric_t *fabric);
void lab_destroy(lab_t *lab);

const char *lab_interface(const lab_t *lab, uint32_t link, int is_upper,
                          char name[16]);
/* Names a link by its lower node, its upper node, and its index among parallel
 * links, such as "l1-s1.0". */
#define LAB_LINK_NAME_MAX (2 * MRAIL_FABRIC_MAX_NAME + 16)
const char *lab_link_name(const lab_t *lab, uint32_t link,
                          char name[LAB_LINK_NAME_MAX]);
/* Returns the address at one end of a link between switches. */
uint32_t lab_switch_addr(uint32_t link, int is_upper);
/* Returns the /24 subnet of a leaf by its index, or 0 if the leaf has no
 * host. */
uint32_t lab_subnet(const lab_t *lab, uint32_t leaf);
/* Formats an address in host byte order in dotted notation. */
const char *lab_addr(uint32_t addr, char text[16]);

/* ---- lab_route.c, which only writes commands to a stream ---- */

/* Writes commands for `ip -batch`: the routes of a switch over the links that
 * are up. */
void lab_routes_write(const lab_t *lab, uint32_t node, FILE *stream);
/* Writes a shell script with the port rules of a switch. Writes no output if it
 * has none. */
void lab_rules_write(const lab_t *lab, uint32_t node, FILE *stream);

/* ---- lab_run.c ---- */

typedef struct lab_run {
    lab_t lab;
    const char *text; /* text of the fabric file */
    size_t length;
    char **command;
    int is_quiet;
} lab_run_t;

/* Builds the lab and runs the command in it. Returns the command's exit
 * status. */
int lab_run(lab_run_t *run);

/* ---- lab_state.c: files of the lab, for the commands in it ---- */

void lab_state_save(const lab_run_t *run);
/* Loads the lab that this process is in. Exits with a message if there is
 * none. */
void lab_state_load(const char *command, lab_t *lab);
void lab_state_save_links(const lab_t *lab);
/* Returns the seconds since the lab was built. */
double lab_state_age(void);

/* ---- lab_counters.c ---- */

/* Counters of the shaper at the sending end of a directed link. */
typedef struct lab_count {
    uint64_t bytes, packets, drops, backlog;
    int is_up; /* 1 if the sending end is up and has a carrier */
} lab_count_t;

/* Returns an array indexed by directed link: MRAIL_ROUTE_UP(),
 * MRAIL_ROUTE_DOWN(). The caller frees it. */
lab_count_t *lab_counters_read(const char *command, const lab_t *lab);

/* Waits until all links that are not down carry packets. */
void lab_counters_await(const char *command, const lab_t *lab);

/* ---- lab_status.c, lab_svg.c ---- */

void lab_status_table(const lab_t *lab, const lab_count_t *counts,
                      double seconds, FILE *stream);
int lab_main_status(char **argv);
/* Writes the drawing. Exits with a message on failure. */
void lab_svg_write(const char *path, const lab_t *lab,
                   const lab_count_t *counts, double seconds);

/* ---- lab_ctl.c ---- */

int lab_main_ctl(char **argv);
int lab_main_exec(char **argv);
int lab_main_rsh(char **argv);

#endif
