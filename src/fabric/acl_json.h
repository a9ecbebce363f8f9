/*
 * A small JSON reader (RFC 8259) that reports the line of each value. The
 * tools' JSON library does not report line numbers, which findings need.
 *
 * The reader allocates no memory. It copies names and values into the caller's
 * buffers, and truncates them to the buffer size.
 */
#ifndef MRAIL_FABRIC_ACL_JSON_H
#define MRAIL_FABRIC_ACL_JSON_H

#define ACL_JSON_DEPTH 4 /* maximum number of names above a reported value */
#define ACL_JSON_NAME 128

typedef struct acl_json_value {
    unsigned depth; /* number of names; array elements have none */
    char names[ACL_JSON_DEPTH][ACL_JSON_NAME];
    unsigned lines[ACL_JSON_DEPTH]; /* line of each name */
    char text[ACL_JSON_NAME];       /* the string, number or word */
} acl_json_value_t;

/* Returns 0 to continue, or an error to stop. */
typedef int (*acl_json_func_t)(const acl_json_value_t *value, void *arg);

/* Calls `func` for each string, number and word that is below at most
 * ACL_JSON_DEPTH names. The text ends with a NUL byte. Returns 0; -EINVAL with
 * the line and a message if the text is not JSON; or the error that `func`
 * returned. */
int acl_json_read(const char *text, acl_json_func_t func, void *arg,
                  unsigned *line_p, const char **reason_p);

#endif
