/*
 * Lists of addresses for `mrail soft`: a line per node, "NAME ADDRESS,... RATE,..."
 * with an address and a rate per rail. `mrail lab` writes one.
 */
#ifndef MRAIL_TOOLS_SOFT_ADDRS_H
#define MRAIL_TOOLS_SOFT_ADDRS_H

#include "softroce/host/session.h"

#include <stddef.h>

typedef struct soft_addrs {
    unsigned num_nodes, num_rails;
    sroce_session_addr_t devs[SROCE_SESSION_MAX_DEVS]; /* by node, rail */
} soft_addrs_t;

/* Reads a file. 0, or -errno and a sentence in `why`. */
int soft_addrs_read(const char *path, soft_addrs_t *addrs, char *why,
                    size_t size);

/* The node that has its first address in this network namespace, or -1. */
int soft_addrs_own_node(const soft_addrs_t *addrs);

/* 1 if the session has exactly these addresses. */
int soft_addrs_fit(const soft_addrs_t *addrs, const sroce_session_t *session);

#endif
