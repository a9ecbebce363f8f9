/*
 * mrail lab: a fabric in network namespaces. Shared by the files of the verb.
 *
 * Every node is a network namespace of its own, every link a pair of veth ends. A
 * namespace has no name outside of the lab. It is held by a bind mount in the
 * lab's mount namespace, which only the lab's processes hold. These are in
 * one PID namespace, whose first process dies with `mrail lab`. So the kernel
 * removes all of it (processes, namespaces, links, files of LAB_SHM), however
 * the lab ends; nothing has to run for that. Named namespaces of ip-netns(8)
 * would outlive a killed lab.
 *
 * Interfaces of a host: railR is rail R, and mgmt leads to a network for mpirun,
 * which is not shaped or counted. Interfaces of a switch: upN is uplink N, downN is
 * its N-th link downwards. A leaf has the bridge `hosts`, whose ports are its
 * downN.
 */
#ifndef MRAIL_TOOLS_LAB_VERB_H
#define MRAIL_TOOLS_LAB_VERB_H

#include "fabric/fabric.h"
#include "fabric/route.h"

#include <stdint.h>
#include <stdio.h>

#define LAB_VERB "lab"
#define LAB_SHM "/dev/shm" /* an empty file system of the lab's own */
#define LAB_DIR LAB_SHM "/mrail-lab"
#define LAB_MAX_NODES 512u
#define LAB_PATH_MAX 128
#define LAB_LANES "UCX_MRAIL_LANES_PER_RAIL"
#define LAB_CONTROL "lab" /* the namespace of CMD: no node */

typedef struct lab {
    mrail_fabric_t *fabric;
    unsigned routing; /* mrail_route_mode_t */
    uint64_t seed;    /* of the hashes of the switches */
    uint64_t queue;   /* bytes of the queue at each end of a link */
    uint8_t *is_down; /* by link: set down by `mrail lab ctl` */
    /* By node * leaves + leaf: there is a path of live links down, or at all.
     * lab_routes_find() writes them. */
    uint8_t *goes_down, *reaches;
} lab_t;

static inline const char *lab_name(const lab_t *lab, uint32_t node)
{
    return lab->fabric->nodes[node].name;
}

/* ---- lab_ns.c ---- */

/* Path of a file of the lab: LAB_DIR/<dir>/<name>. */
void lab_path(char path[LAB_PATH_MAX], const char *dir, const char *name);

/* Writes a whole file; ends the process with a message if that fails. */
void lab_write_file(const char *path, const void *data, size_t length);

/* Holds the namespaces of this process under `name`, for lab_ns_enter(). */
void lab_ns_hold(const char *name);

/* Makes the namespaces of a node. */
void lab_ns_create(const char *name, mrail_fabric_tier_t tier, uint64_t seed);

/* The calling process goes to the namespaces of `name`. 0 or -errno. */
int lab_ns_enter(const char *name);

/* Runs a program in a node with `text` as its standard input. A status other than
 * 0 ends the process with a message. */
void lab_ns_tool(const char *node, const char *const *argv, const char *text);

/* ---- lab_build.c, lab_route.c ---- */

/* Namespaces, links, addresses, rates; then routes and rules. */
void lab_build(const lab_t *lab);

/* The routes of a host by this link, after it was down. */
void lab_host_routes_apply(const lab_t *lab, uint32_t link);

const char *lab_interface(const lab_t *lab, uint32_t link, int is_upper,
                          char name[16]);
/* "l1-s1.0": lower and upper node, and the place among parallel links. */
#define LAB_LINK_NAME_MAX (2 * MRAIL_FABRIC_MAX_NAME + 16)
const char *lab_link_name(const lab_t *lab, uint32_t link,
                          char name[LAB_LINK_NAME_MAX]);
unsigned lab_parallel_place(const lab_t *lab, uint32_t link);
/* Of an end of a link between switches. */
uint32_t lab_switch_addr(uint32_t link, int is_upper);
/* The /24 of a leaf, by its place. 0: it has no host. */
uint32_t lab_subnet(const lab_t *lab, uint32_t leaf);
/* Dotted form of an address in host byte order. */
const char *lab_addr(uint32_t addr, char text[16]);

/* Finds reaches[] and goes_down[] from is_down[]. */
void lab_routes_find(lab_t *lab);
/* The routes of each switch, for the links that are up. */
void lab_routes_apply(const lab_t *lab);
/* The port rules of a switch. */
void lab_rules_apply(const lab_t *lab, uint32_t node);

/* ---- lab_run.c ---- */

typedef struct lab_run {
    lab_t lab;
    const char *text; /* of the fabric file */
    size_t length;
    char **command;
    int is_quiet;
} lab_run_t;

/* Builds the lab, runs the command in it. Returns its exit status. */
int lab_run(lab_run_t *run);

/* ---- lab_state.c: files of the lab, for the verbs that run inside ---- */

void lab_state_save(const lab_run_t *run);
/* The lab that this process is in; ends the process with a message if it is in
 * none. */
void lab_state_load(const char *verb, lab_t *lab);
void lab_state_save_links(const lab_t *lab);
/* Seconds since the lab was built. */
double lab_state_age(void);
void lab_destroy(lab_t *lab);
/* Allocates the arrays of a lab with this fabric. */
void lab_init(lab_t *lab, mrail_fabric_t *fabric);

/* ---- lab_counters.c ---- */

/* One direction of a link: what its shaper has sent. */
typedef struct lab_count {
    uint64_t bytes, packets, drops, backlog;
    int is_up; /* the sending end is up and has a carrier */
} lab_count_t;

/* By directed link: MRAIL_ROUTE_UP(), MRAIL_ROUTE_DOWN(). The caller frees it. */
lab_count_t *lab_counters_read(const char *verb, const lab_t *lab);

/* Waits until the kernel forwards on all links that are not down. */
void lab_counters_await(const char *verb, const lab_t *lab);

/* ---- lab_status.c, lab_svg.c ---- */

void lab_status_table(const lab_t *lab, const lab_count_t *counts,
                      double seconds, FILE *stream);
int lab_main_status(char **argv);
/* Writes the drawing; ends the process with a message if that fails. */
void lab_svg_write(const char *path, const lab_t *lab,
                   const lab_count_t *counts, double seconds);

/* ---- lab_ctl.c ---- */

int lab_main_ctl(char **argv);
int lab_main_exec(char **argv);
int lab_main_rsh(char **argv);

#endif
