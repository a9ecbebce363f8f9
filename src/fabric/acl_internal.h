/*
 * Declares the internals of the switch rules: the table of dialects, helpers
 * for the writers, and the reader that all dialects share.
 *
 * A reader converts text to matches (a rule's ports) and edges between names. A
 * match starts at a name, such as the name of an access list or a mark. Edges
 * lead from name to name, and the last one leads to a next hop.
 */
#ifndef MRAIL_FABRIC_ACL_INTERNAL_H
#define MRAIL_FABRIC_ACL_INTERNAL_H

#include "base/util.h"
#include "fabric/acl.h"
#include "orchestrator/ports.h"

#define ACL_ROCE_PORT 4791 /* Source: [RoCEv2] A17.4 */
/* maximum length of mrail_acl_t.name, because VRF device names have at most 15
 * bytes */
#define ACL_MAX_NAME 9
#define ACL_TARGET_MAX 64
#define ACL_KEY_MAX 160
#define ACL_NEXT_HOP "NEXT_HOP_" /* prefix of the placeholders for next hops */

/* ---- Writers ---- */

/* Returns the next hop of an uplink, or its placeholder in `buffer`. */
const char *acl_next_hop(const mrail_acl_t *acl, unsigned uplink,
                         char buffer[ACL_TARGET_MAX]);

/* Writes two or three comment lines that describe the rules. `mark` starts each
 * line. */
void acl_write_head(const mrail_acl_t *acl, mrail_acl_dialect_t dialect,
                    const char *mark, FILE *stream);

typedef struct acl_prefix {
    uint32_t addr, mask; /* host byte order */
} acl_prefix_t;

/* Parses "10.0.0.0/24", which must not have host bits. Returns 0 or -EINVAL. */
int acl_prefix_parse(const char *text, acl_prefix_t *prefix_p);

/* ---- Reader ---- */

#define ACL_MAX_EDGES 4096u
#define ACL_MAX_WORDS 1024 /* maximum words per statement */
#define ACL_NAME_BYTES 63  /* maximum bytes of a name in a text */
#define ACL_RULE_MAX 96    /* quoted text of a rule */
#define ACL_TEXT_MAX (ACL_RULE_MAX + ACL_KEY_MAX)

/* The rules from which an entry without a target takes packets; unless stated
 * otherwise, rules of its own list. */
typedef enum acl_place {
    ACL_TAKES_LATER, /* rules after the entry */
    ACL_TAKES_EARLIER,
    ACL_TAKES_ALL,
    ACL_TAKES_ALL_CHAINS, /* rules of any list */
    ACL_TAKES_BY_ORDER,   /* rules of the same or a higher `order` */
    ACL_TAKES_NONE
} acl_place_t;

typedef struct acl_match {
    unsigned line;
    /* line that determines the entry's position in `list`; 0 means `line` */
    unsigned at;
    unsigned first, last; /* source ports, 0 to 65535 */
    unsigned dscp;        /* MRAIL_ACL_NO_DSCP if any */
    /* the rule does not mention source ports, or it matters only if it takes
     * packets from other rules */
    int is_any;
    int denies; /* the rule exempts its ports */
    /* the rule has a condition that the reader does not know, so it exempts
     * some packets of its ports; `text` describes it */
    int is_partial;
    acl_place_t place; /* if is_any: rules in `list` that it affects */
    /* LINUX only. returns: the entry ends only its own chain. is_below: the
     * entry is a copy, for a chain to which its chain jumps. loses: the entry
     * drops packets. is_certain: its only conditions are ports. */
    int returns, is_below, loses, is_certain;
    /* LINUX, ACL_TAKES_BY_ORDER: the entry takes only packets whose mark equals
     * `mark` in the bits of `mask`; with `spares_mark`, not those marked with
     * `mark` itself */
    uint32_t mark, mask;
    int spares_mark;
    char key[ACL_KEY_MAX];
    char source[ACL_TARGET_MAX]; /* source prefix; "" if any */
    char target[ACL_TARGET_MAX]; /* set by acl_resolve(); "" if none */
    /* name of the route map, policy or table, and position in it; set by
     * acl_resolve() or by the dialect; "" if none */
    char map[ACL_KEY_MAX];
    unsigned order;
    /* key of the list that must itself be applied to ports; "" if none */
    char list[ACL_KEY_MAX];
    char text[ACL_TEXT_MAX]; /* describes the rule in a finding, or "" */
} acl_match_t;

typedef enum acl_edge_kind {
    ACL_REFERENCE,   /* leads to another name */
    ACL_TARGET,      /* leads to a next hop or port */
    ACL_DECLARATION, /* declares that `from` exists; `to` may give its type */
    ACL_BINDING,     /* `from` applies to the port `to` */
    ACL_PASSAGE      /* packets traverse `from`, but it cannot choose uplinks */
} acl_edge_kind_t;

typedef struct acl_edge {
    acl_edge_kind_t kind;
    unsigned line;
    unsigned order; /* the edge of a name with the lowest order wins */
    char from[ACL_KEY_MAX], to[ACL_KEY_MAX];
} acl_edge_t;

typedef struct acl_line {
    char *words[ACL_MAX_WORDS + 1]; /* ends with NULL */
    unsigned num;
} acl_line_t;

typedef struct acl_reader {
    acl_match_t *matches;
    acl_edge_t *edges;
    unsigned num_matches, num_edges, matches_allocated, edges_allocated;
    unsigned number;  /* number of the current line */
    const char *kind; /* kind of the declared names, such as "access list" */
    char reason[192];
    /* The statement that contains the current line. */
    int block;
    char name[ACL_KEY_MAX];
    char map[ACL_KEY_MAX]; /* EOS: name of the policy */
    unsigned order;
    int denies;
    int has_ports; /* 1 if the text applies rules to ports */
    void *state;   /* private to the dialect */
} acl_reader_t;

typedef int (*acl_line_func_t)(acl_reader_t *reader, acl_line_t *line);

/* Calls `func` for each statement that has words. A statement ends with the
 * line or, outside of comment lines, with the character `end` ('\n': only with
 * the line). Any character of `separators` separates words. The text must end
 * with a NUL byte, and is modified. Returns 0, the first nonzero result of
 * `func`, or acl_fail(). */
int acl_each_line(acl_reader_t *reader, char *text, const char *separators,
                  char end, acl_line_func_t func);

/* Writes "line N: MESSAGE" to reader->reason. Returns -EINVAL. */
int acl_fail(acl_reader_t *reader, const char *fmt, ...) MRAIL_PRINTF(2, 3);

/* Reads a decimal number (hexadecimal after 0x) up to `max`. Returns 0 or
 * acl_fail(). */
int acl_number(acl_reader_t *reader, const char *word, const char *what,
               unsigned long max, unsigned long *value_p);

/* Reads "N", "A-B" or "A:B". Returns 0 or acl_fail(). */
int acl_ports(acl_reader_t *reader, const char *word, unsigned *first_p,
              unsigned *last_p);

/* Returns the DSCP of a name such as af31, cs3 or default, or -1. */
int acl_dscp_of(const char *name);

/* Reads a DSCP, as a number up to 63 or as a name. Returns 1; 0 with *dscp_p
 * unchanged if the word is neither; or acl_fail(). */
int acl_dscp(acl_reader_t *reader, const char *word, unsigned *dscp_p);

/* Adds a copy of the match. Uses the number of the current line if the match
 * has no line number. Returns 0, -ENOMEM or acl_fail(). */
int acl_add_match(acl_reader_t *reader, const acl_match_t *match);
int acl_add_edge(acl_reader_t *reader, acl_edge_kind_t kind, unsigned order,
                 const char *from, const char *to);

/* Adds an ACL_BINDING of the key "KIND:NAME". Returns 0, -ENOMEM or
 * acl_fail(). */
int acl_bind(acl_reader_t *reader, const char *kind, const char *name,
             const char *port);

/* Key prefix for entries of route maps and policies: "map:NAME:ENTRY".
 */
#define ACL_MAP "map"
/* Declares that an entry of a map matches something other than lists and
 * marks. */
#define ACL_OTHER_MATCH "match"
/* Key prefix for chains of nft: "chain:NAME". */
#define ACL_CHAIN "chain"

/* Writes "PREFIX:A" or "PREFIX:A:B" to `key`. Returns 0 or acl_fail(). */
int acl_key(acl_reader_t *reader, char key[ACL_KEY_MAX], const char *prefix,
            const char *a, const char *b);

/* Returns 1 if the line has these words from index `at` on. */
int acl_has_words(const acl_line_t *line, unsigned at, const char *const *words,
                  unsigned num);
#define ACL_HAS(_line, _at, ...)                                               \
    acl_has_words((_line), (_at), (const char *const[]){__VA_ARGS__},          \
                  MRAIL_ARRAY_SIZE(((const char *const[]){__VA_ARGS__})))

/* Returns the index of a word, or line->num if it is missing. */
unsigned acl_find_word(const acl_line_t *line, const char *word);

int acl_is_ipv4(const char *text);

/* Marks the matches as partial whose map entries have ACL_OTHER_MATCH. */
void acl_find_conditions(acl_reader_t *reader);

/* Follows the edges from each match to its target. */
void acl_resolve(acl_reader_t *reader);

/* Finds rules that shadow each other by their sources, and maps and lists that
 * are applied to no port. Returns the number of findings. */
unsigned acl_check_sources(const acl_reader_t *reader, FILE *stream);
unsigned acl_check_ports(const acl_reader_t *reader, FILE *stream);

/* Finds rules in different maps, and references in route maps and class maps to
 * lists that do not exist. Returns the number of findings. */
unsigned acl_check_names(const acl_reader_t *reader, FILE *stream);

/* Returns 1 if the match takes packets from a rule in `line` of its list. */
int acl_takes_from(const acl_match_t *match, unsigned line);

/* For a match that is not one of the rules, returns 1 if it shadows rules after
 * it, or takes packets according to its `place`. */
int acl_is_before_rules(const acl_reader_t *reader, const acl_match_t *match);

/* Reads the current line as an entry of the access list reader->name (IOS and
 * EOS) and adds its matches. Returns 1 if the line is an entry, 0 if not,
 * -ENOMEM or acl_fail(). */
int acl_list_entry(acl_reader_t *reader, acl_line_t *line);

/* ---- Dialects ---- */

typedef struct acl_dialect {
    const char *name;
    void (*write)(const mrail_acl_t *acl, FILE *stream);
    void (*undo)(const mrail_acl_t *acl, FILE *stream);
    void (*vrfs)(const mrail_acl_t *acl, int undo, FILE *stream);
    int (*read)(acl_reader_t *reader, char *text);
    /* For each failure mode, a description of how switches deviate from it. */
    const char *notes[2];
} acl_dialect_t;

extern const acl_dialect_t acl_ios, acl_eos, acl_sonic, acl_nvue, acl_linux;
int acl_linux_read(acl_reader_t *reader, char *text);

/* Reads a text in this dialect. Returns 0, -ENOMEM, or -EINVAL with a message
 * in reader->reason. */
int acl_read(acl_reader_t *reader, mrail_acl_dialect_t dialect, char *text);

/* maximum local prefixes, because a policy has at most 255 rules */
#define ACL_NVUE_MAX_LOCAL 100

/* NVUE: returns the DSCP that marks uplink `uplink`, or MRAIL_ACL_NO_DSCP if
 * the values are exhausted. */
unsigned acl_nvue_mark(const mrail_acl_t *acl, unsigned uplink);

#endif
