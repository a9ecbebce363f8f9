/* Shared by the source files of `mrail acl`. */
#ifndef MRAIL_TOOLS_ACL_COMMAND_H
#define MRAIL_TOOLS_ACL_COMMAND_H

#include "fabric/acl.h"

#define ACL_COMMAND "acl"

#define ACL_SWITCH_MAX_LOCAL 1024

/* A switch from a fabric file. */
typedef struct acl_switch {
    unsigned uplinks, leaf_uplinks;
    unsigned num_local;
    /* subnets of the leaves below the switch */
    char local[ACL_SWITCH_MAX_LOCAL][20];
} acl_switch_t;

/* Reads a switch from a mrail-fabric(5) file. Exits with a message if the file
 * has an error or the switch does not need rules. */
void acl_switch_read(const char *path, const char *name, acl_switch_t *found);

/* Prints the port segments as a table or as JSON. */
void acl_show_list(const mrail_acl_t *acl, int json);

/* Checks a rule set, prints the findings, and returns the exit status. If
 * `uplinks` is 0, uses the number of next hops in the rule set. Exits with a
 * message if the text cannot be parsed. */
int acl_check_file(mrail_acl_dialect_t dialect, const char *path,
                   unsigned uplinks, unsigned leaf_uplinks, int json);

#endif
