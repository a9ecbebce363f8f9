/* Parts of `mrail acl`. */
#ifndef MRAIL_TOOLS_ACL_VERB_H
#define MRAIL_TOOLS_ACL_VERB_H

#include "fabric/acl.h"

#define ACL_VERB "acl"

/* Prints a table, or JSON, of the port segments. */
void acl_show_list(const mrail_acl_t *acl, int json);

/* Reads a rule set back, prints the findings, and returns the exit status.
 * `uplinks` 0: as many as there are next hops. A text that cannot be read ends
 * the process. */
int acl_check_file(mrail_acl_dialect_t dialect, const char *path,
                   unsigned uplinks, unsigned leaf_uplinks, int json);

#endif
