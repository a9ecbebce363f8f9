/*
 * Writes the JSON (RFC 8259) that all `mrail` commands print, as a stream.
 *
 * JSON libraries build a tree in memory. A tree takes several hundred bytes for
 * each value, which is too much for the pieces of a large plan. The libraries
 * store numbers as doubles, but the byte counters of long jobs exceed 2^53.
 * Members are separated by ", ", and a key from its value by ": ", so that
 * lines are easy to search. Source: docs/decisions/0019.
 *
 * Not thread-safe: one thread per writer. Errors remain recorded in the stream.
 */
#ifndef MRAIL_BASE_JSON_H
#define MRAIL_BASE_JSON_H

#include <stdint.h>
#include <stdio.h>

typedef struct mrail_json {
    FILE *stream;
    unsigned depth;
    int comma;   /* the next value follows another value */
    int newline; /* the next value starts a line */
} mrail_json_t;

/* Returns a writer for one text. */
static inline mrail_json_t mrail_json_to(FILE *stream)
{
    return (mrail_json_t){.stream = stream};
}

/* `key` is the member's name in an object. It is NULL for an array element and
 * for the outermost value. */
void mrail_json_object(mrail_json_t *json, const char *key);
void mrail_json_object_end(mrail_json_t *json);
void mrail_json_array(mrail_json_t *json, const char *key);
void mrail_json_array_end(mrail_json_t *json);

void mrail_json_uint(mrail_json_t *json, const char *key, uint64_t value);
void mrail_json_int(mrail_json_t *json, const char *key, int64_t value);
void mrail_json_bool(mrail_json_t *json, const char *key, int value);
void mrail_json_null(mrail_json_t *json, const char *key);

/* Writes `digits` significant digits (1 to 17), or null if JSON cannot
 * represent the value (infinite or not a number). */
void mrail_json_real(mrail_json_t *json, const char *key, double value,
                     int digits);

/* Writes `decimals` digits after the point (0 to 9), or null where
 * mrail_json_real() does. */
void mrail_json_fixed(mrail_json_t *json, const char *key, double value,
                      int decimals);

/* Writes U+FFFD for each byte that is not UTF-8, and null for NULL. */
void mrail_json_string(mrail_json_t *json, const char *key, const char *text);

/* Starts a line before the next value, indented according to its depth. */
void mrail_json_newline(mrail_json_t *json);

/* Ends the output with a newline after the outermost value. */
void mrail_json_end(mrail_json_t *json);

#endif
