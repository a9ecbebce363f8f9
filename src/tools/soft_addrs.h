/*
 * Address files for `mrail soft`, which `mrail lab` writes. Each line describes
 * a node as "NAME ADDRESS,... RATE,...", with an address and a rate for each
 * rail.
 */
#ifndef MRAIL_TOOLS_SOFT_ADDRS_H
#define MRAIL_TOOLS_SOFT_ADDRS_H

#include "softroce/host/session.h"

#include <stddef.h>

typedef struct soft_addrs {
    unsigned num_nodes, num_rails;
    /* indexed by node and rail */
    sroce_session_addr_t devs[SROCE_SESSION_MAX_DEVS];
} soft_addrs_t;

/* Reads an address file. Returns 0, or -errno with a message in `reason`. */
int soft_addrs_read(const char *path, soft_addrs_t *addrs, char *reason,
                    size_t size);

/* Returns the node whose first address belongs to this network namespace, or
 * -1. */
int soft_addrs_own_node(const soft_addrs_t *addrs);

/* Returns 1 if the session has exactly these addresses. */
int soft_addrs_fit(const soft_addrs_t *addrs, const sroce_session_t *session);

#endif
