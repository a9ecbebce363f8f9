/*
 * A small JSON reader (RFC 8259) that knows the line of each value. The JSON
 * library of the tools does not, and findings name lines.
 *
 * Pure; no memory: names and values are copied into the caller's buffers, cut to
 * their size.
 */
#ifndef MRAIL_FABRIC_ACL_JSON_H
#define MRAIL_FABRIC_ACL_JSON_H

#define ACL_JSON_DEPTH 4 /* names on the way to a value that is reported */
#define ACL_JSON_NAME 128

typedef struct acl_json_value {
    unsigned depth; /* of names; elements of arrays have none */
    char names[ACL_JSON_DEPTH][ACL_JSON_NAME];
    unsigned lines[ACL_JSON_DEPTH]; /* where the names are */
    char text[ACL_JSON_NAME];       /* of a string, number or word */
} acl_json_value_t;

/* Returns 0, or an error that ends the reading. */
typedef int (*acl_json_func_t)(const acl_json_value_t *value, void *arg);

/* Calls `func` for each string, number and word with at most ACL_JSON_DEPTH
 * names. 0; -EINVAL: no JSON, with the line and a sentence; or what `func`
 * returned. The text ends with a zero byte. */
int acl_json_read(const char *text, acl_json_func_t func, void *arg,
                  unsigned *line_p, const char **why_p);

#endif
