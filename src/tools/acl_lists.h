/* Parses the list arguments of `mrail acl`: next hops, ports and prefixes. */
#ifndef MRAIL_TOOLS_ACL_LISTS_H
#define MRAIL_TOOLS_ACL_LISTS_H

#include <stddef.h>

#define ACL_LIST_MAX 1024 /* maximum words per list */
#define ACL_WORD_MAX 64   /* maximum bytes of a word with its NUL */

typedef struct acl_list {
    unsigned num;
    char words[ACL_LIST_MAX][ACL_WORD_MAX];
} acl_list_t;

/* Parses comma-separated words. "swp[1-4]" stands for swp1, swp2, swp3 and
 * swp4. Returns 0, or -EINVAL with a message in `reason`. */
int acl_list_names(const char *text, acl_list_t *list, char *reason,
                   size_t size);

/*
 * Parses comma-separated IPv4 addresses. "A+STEP" stands for A, A + STEP and so
 * on, one for each remaining uplink; "A+STEPxN" stands for N addresses. The
 * result must have one address per uplink. Returns 0, or -EINVAL with a message
 * in `reason`.
 */
int acl_list_next_hops(const char *text, unsigned uplinks, acl_list_t *list,
                       char *reason, size_t size);

#endif
