/* Parts of `mrail acl`. */
#ifndef MRAIL_TOOLS_ACL_VERB_H
#define MRAIL_TOOLS_ACL_VERB_H

#include "fabric/acl.h"

#define ACL_VERB "acl"

#define ACL_SWITCH_MAX_LOCAL 1024

/* A switch of a fabric file. */
typedef struct acl_switch {
    unsigned uplinks, leaf_uplinks;
    unsigned num_local;
    char local[ACL_SWITCH_MAX_LOCAL][20]; /* subnets of the leaves below */
} acl_switch_t;

/* Reads the fabric of mrail-fabric(5). A switch that needs no rules, and a file
 * with an error, end the process. */
void acl_switch_read(const char *path, const char *name, acl_switch_t *found);

/* Prints a table, or JSON, of the port segments. */
void acl_show_list(const mrail_acl_t *acl, int json);

/* Reads a rule set back, prints the findings, and returns the exit status.
 * `uplinks` 0: as many as there are next hops. A text that cannot be read ends
 * the process. */
int acl_check_file(mrail_acl_dialect_t dialect, const char *path,
                   unsigned uplinks, unsigned leaf_uplinks, int json);

#endif
