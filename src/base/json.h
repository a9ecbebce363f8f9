/*
 * Writes the JSON (RFC 8259) that all `mrail` commands print, as a stream.
 *
 * JSON libraries first build a tree in memory, which takes several hundred
 * bytes per value: too much for the pieces of a large plan. They also store
 * numbers as doubles, but the byte counters of long jobs exceed 2^53. The
 * separators are ", " and ": ", so that grep finds members easily. Source:
 * docs/decisions/0019.
 *
 * Not thread-safe: one thread per writer. The caller checks the stream for
 * write errors.
 */
#ifndef MRAIL_BASE_JSON_H
#define MRAIL_BASE_JSON_H

#include <stdint.h>
#include <stdio.h>

typedef struct mrail_json {
    FILE *stream;
    unsigned depth;
    int comma;   /* 1 if the next value needs a comma before it */
    int newline; /* 1 if the next value starts a new line */
} mrail_json_t;

/* Returns a writer for one JSON text. */
static inline mrail_json_t mrail_json_to(FILE *stream)
{
    return (mrail_json_t){.stream = stream};
}

/* In these functions, `key` is the name of an object member. It is NULL for an
 * array element and for the outermost value. */
void mrail_json_object(mrail_json_t *json, const char *key);
void mrail_json_object_end(mrail_json_t *json);
void mrail_json_array(mrail_json_t *json, const char *key);
void mrail_json_array_end(mrail_json_t *json);

void mrail_json_uint(mrail_json_t *json, const char *key, uint64_t value);
void mrail_json_int(mrail_json_t *json, const char *key, int64_t value);
void mrail_json_bool(mrail_json_t *json, const char *key, int value);
void mrail_json_null(mrail_json_t *json, const char *key);

/* Writes a number with `digits` significant digits (1 to 17). Infinity and NaN,
 * which JSON cannot represent, become null. */
void mrail_json_real(mrail_json_t *json, const char *key, double value,
                     int digits);

/* Writes a number with `decimals` digits after the point (0 to 9). Infinity and
 * NaN become null. */
void mrail_json_fixed(mrail_json_t *json, const char *key, double value,
                      int decimals);

/* Writes U+FFFD for each byte that is not valid UTF-8, and null for NULL. */
void mrail_json_string(mrail_json_t *json, const char *key, const char *text);

/* Starts a line before the next value, indented according to its depth. */
void mrail_json_newline(mrail_json_t *json);

/* Ends the output with a newline after the outermost value. */
void mrail_json_end(mrail_json_t *json);

#endif
