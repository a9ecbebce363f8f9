/*
 * Internals of the reader for Linux routers. acl_linux_read.c recognises lines,
 * and contains the helpers below. acl_linux_nft.c reads nft rules,
 * acl_linux_rule.c reads routing rules, and acl_linux_chains.c follows packets
 * through chains.
 */
#ifndef MRAIL_FABRIC_ACL_LINUX_INTERNAL_H
#define MRAIL_FABRIC_ACL_LINUX_INTERNAL_H

#include "fabric/acl_internal.h"

/* State of the reader, in acl_reader_t.state. */
typedef struct acl_linux_state {
    char table[ACL_KEY_MAX]; /* nft's "FAMILY NAME", or "" */
    int is_other_family;     /* 1 if no IPv4 packet passes through the table */
} acl_linux_state_t;

/* ---- Words ---- */

/* Returns the word after `name`, or NULL. */
const char *acl_linux_value(const acl_line_t *line, const char *name);

/* Returns 1 if the word starts with a digit. `word` may be NULL. */
int acl_linux_is_number(const char *word);

int acl_linux_is_udp_word(const char *word);

/* Returns 1 if the line contains one of the words. */
int acl_linux_has_any(const acl_line_t *line, const char *const *words,
                      unsigned num);
#define ACL_HAS_ANY(_line, ...)                                                \
    acl_linux_has_any((_line), (const char *const[]){__VA_ARGS__},             \
                      MRAIL_ARRAY_SIZE(((const char *const[]){__VA_ARGS__})))

/* Writes the words of the line from index `at` on to `text`, on one line of
 * printable characters. A truncated text ends with "...". */
void acl_linux_join(const acl_line_t *line, unsigned at, char *text,
                    size_t size);

/* ---- Conditions ---- */

/* Returns 1 if the line's destination port may be RoCEv2's. *ret_p receives 0
 * or acl_fail(). */
int acl_linux_is_roce_port(acl_reader_t *reader, const acl_line_t *line,
                           int *ret_p);

/* Reads "saddr A" of nft, or "from A" of `ip rule`. */
void acl_linux_source(const acl_line_t *line, acl_match_t *match);

/* Adds a match for each port range after the word "sport". Returns 0, -ENOMEM
 * or acl_fail(). */
int acl_linux_ranges(acl_reader_t *reader, const acl_line_t *line,
                     acl_match_t *match);

/* Reads "MARK[/MASK]". Without a mask, *mask_p is UINT32_MAX. Returns 0 or
 * acl_fail(). */
int acl_linux_mark(acl_reader_t *reader, const char *word, uint32_t *mark_p,
                   uint32_t *mask_p);

/* Writes the key of packets with this mark. */
void acl_linux_mark_key(uint32_t mark, char key[ACL_KEY_MAX]);

/* ---- Lines ---- */

/* Reads an nft statement; `line` may be any line. *is_rule_p receives 1 if it
 * is a rule or policy that concerns the marks or the packets. Returns 0,
 * -ENOMEM or acl_fail(). */
int acl_linux_nft(acl_reader_t *reader, const acl_line_t *line, int *is_rule_p);

/* Reads a routing rule, whose selectors start at index `at` of the line.
 * `priority` is the text of the priority, or NULL. Without a priority, the
 * kernel puts a rule before all other rules. Returns 0, -ENOMEM or
 * acl_fail(). */
int acl_linux_rule(acl_reader_t *reader, const acl_line_t *line, unsigned at,
                   const char *priority);

/* Determines which routing rules take packets from other rules, once all marks
 * are known. Returns 0, -ENOMEM or acl_fail(). */
int acl_linux_resolve_rules(acl_reader_t *reader);

/*
 * Finds the entries that drop packets on their way through the switch. Copies
 * all other entries to the chains to which their chains jump, and to the chains
 * that jump to theirs, as far as they concern packets there. Returns 0, -ENOMEM
 * or acl_fail().
 */
int acl_linux_chains(acl_reader_t *reader);

#endif
