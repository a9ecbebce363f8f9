/* Lists that `mrail acl` takes: next hops, ports, prefixes. */
#ifndef MRAIL_TOOLS_ACL_LISTS_H
#define MRAIL_TOOLS_ACL_LISTS_H

#include <stddef.h>

#define ACL_LIST_MAX 1024 /* words */
#define ACL_WORD_MAX 64   /* bytes of a word, with the zero byte */

typedef struct acl_list {
    unsigned num;
    char words[ACL_LIST_MAX][ACL_WORD_MAX];
} acl_list_t;

/*
 * Comma-separated words; "swp[1-4]" stands for swp1, swp2, swp3, swp4. 0, or
 * -EINVAL with a sentence in `why`.
 */
int acl_list_names(const char *text, acl_list_t *list, char *why, size_t size);

/*
 * Comma-separated IPv4 addresses, also "A+STEP" (A, A + STEP, ... for all uplinks
 * that are left) and "A+STEPxN" (N addresses). There must be one for each of
 * `uplinks`. 0, or -EINVAL with a sentence in `why`.
 */
int acl_list_next_hops(const char *text, unsigned uplinks, acl_list_t *list,
                       char *why, size_t size);

#endif
