/*
 * The JSON that `mrail` prints (RFC 8259): a writer that streams, for all verbs.
 *
 * A tree in memory, as a JSON library builds it, costs some hundred bytes a
 * value: too much for the pieces of a large plan. Its numbers are doubles, and
 * byte counters of long jobs pass 2^53. Members are separated by ", ", a key and
 * its value by ": ", so that a line is easy to search. docs/decisions/0019.
 *
 * Not thread-safe: one writer, one thread. Errors of the stream stay in it.
 */
#ifndef MRAIL_BASE_JSON_H
#define MRAIL_BASE_JSON_H

#include <stdint.h>
#include <stdio.h>

typedef struct mrail_json {
    FILE *stream;
    unsigned depth;
    int comma;   /* the next value comes after another one */
    int newline; /* the next value begins a line */
} mrail_json_t;

/* The writer of one text. */
static inline mrail_json_t mrail_json_to(FILE *stream)
{
    return (mrail_json_t){.stream = stream};
}

/* `key`: the member's name in an object; NULL: an element of an array, or the
 * outermost value. */
void mrail_json_object(mrail_json_t *json, const char *key);
void mrail_json_object_end(mrail_json_t *json);
void mrail_json_array(mrail_json_t *json, const char *key);
void mrail_json_array_end(mrail_json_t *json);

void mrail_json_uint(mrail_json_t *json, const char *key, uint64_t value);
void mrail_json_int(mrail_json_t *json, const char *key, int64_t value);
void mrail_json_bool(mrail_json_t *json, const char *key, int value);
void mrail_json_null(mrail_json_t *json, const char *key);

/* `digits` significant digits (1 to 17); null for what JSON cannot say: an
 * infinity or no number. */
void mrail_json_real(mrail_json_t *json, const char *key, double value,
                     int digits);

/* `decimals` digits after the point (0 to 9); null as above. */
void mrail_json_fixed(mrail_json_t *json, const char *key, double value,
                      int decimals);

/* U+FFFD for each byte that is not UTF-8. NULL: null. */
void mrail_json_string(mrail_json_t *json, const char *key, const char *text);

/* The next value begins a line, indented by its depth. */
void mrail_json_newline(mrail_json_t *json);

/* The end of the outermost value: a newline. */
void mrail_json_end(mrail_json_t *json);

#endif
