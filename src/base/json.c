#include "config.h"
#include "base/json.h"

#include "base/util.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

/* Returns the length in bytes of the UTF-8 character (RFC 3629) at `text`, or 0
 * if there is none. */
static size_t utf8_length(const unsigned char *text)
{
    /* Rows by range of the first byte: the range of the second byte, and the
     * number of bytes. */
    static const struct {
        unsigned char first, last, low, high;
        size_t length;
    } forms[] = {{0x00, 0x7f, 0x00, 0xff, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2},
                 {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
                 {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                 {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
                 {0xf4, 0xf4, 0x80, 0x8f, 4}};
    unsigned f = 0;

    while (text[0] < forms[f].first || text[0] > forms[f].last) {
        if (++f == MRAIL_ARRAY_SIZE(forms)) {
            return 0;
        }
    }
    if (forms[f].length == 1) {
        return 1;
    }
    if (text[1] < forms[f].low || text[1] > forms[f].high) {
        return 0;
    }
    for (size_t i = 2; i < forms[f].length; ++i) {
        if (text[i] < 0x80 || text[i] > 0xbf) {
            return 0;
        }
    }
    return forms[f].length;
}

static void write_string(FILE *stream, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    fputc('"', stream);
    while (*p != '\0') {
        size_t length = utf8_length(p);

        if (length == 0) {
            fputs("\\ufffd", stream);
            length = 1;
        } else if (*p == '"' || *p == '\\') {
            fprintf(stream, "\\%c", *p);
        } else if (*p < 0x20) {
            fprintf(stream, "\\u%04x", *p);
        } else {
            fwrite(p, 1, length, stream);
        }
        p += length;
    }
    fputc('"', stream);
}

/* Writes the separator and the key of the next value. */
static void begin_value(mrail_json_t *json, const char *key)
{
    if (json->comma) {
        fputs(json->newline ? "," : ", ", json->stream);
    }
    if (json->newline) {
        fprintf(json->stream, "\n%*s", (int)json->depth, "");
    }
    json->comma = 1;
    json->newline = 0;
    if (key != NULL) {
        write_string(json->stream, key);
        fputs(": ", json->stream);
    }
}

static void open_value(mrail_json_t *json, const char *key, char bracket)
{
    begin_value(json, key);
    fputc(bracket, json->stream);
    ++json->depth;
    json->comma = 0;
}

static void close_value(mrail_json_t *json, char bracket)
{
    --json->depth;
    if (json->newline) {
        fprintf(json->stream, "\n%*s", (int)json->depth, "");
    }
    fputc(bracket, json->stream);
    json->comma = 1;
    json->newline = 0;
}

void mrail_json_object(mrail_json_t *json, const char *key)
{
    open_value(json, key, '{');
}

void mrail_json_object_end(mrail_json_t *json)
{
    close_value(json, '}');
}

void mrail_json_array(mrail_json_t *json, const char *key)
{
    open_value(json, key, '[');
}

void mrail_json_array_end(mrail_json_t *json)
{
    close_value(json, ']');
}

void mrail_json_uint(mrail_json_t *json, const char *key, uint64_t value)
{
    begin_value(json, key);
    fprintf(json->stream, "%" PRIu64, value);
}

void mrail_json_int(mrail_json_t *json, const char *key, int64_t value)
{
    begin_value(json, key);
    fprintf(json->stream, "%" PRId64, value);
}

void mrail_json_bool(mrail_json_t *json, const char *key, int value)
{
    begin_value(json, key);
    fputs(value ? "true" : "false", json->stream);
}

void mrail_json_null(mrail_json_t *json, const char *key)
{
    begin_value(json, key);
    fputs("null", json->stream);
}

void mrail_json_real(mrail_json_t *json, const char *key, double value,
                     int digits)
{
    if (!isfinite(value)) {
        mrail_json_null(json, key);
        return;
    }
    begin_value(json, key);
    fprintf(json->stream, "%.*g", digits, value);
}

void mrail_json_fixed(mrail_json_t *json, const char *key, double value,
                      int decimals)
{
    if (!isfinite(value)) {
        mrail_json_null(json, key);
        return;
    }
    begin_value(json, key);
    fprintf(json->stream, "%.*f", decimals, value);
}

void mrail_json_string(mrail_json_t *json, const char *key, const char *text)
{
    if (text == NULL) {
        mrail_json_null(json, key);
        return;
    }
    begin_value(json, key);
    write_string(json->stream, text);
}

void mrail_json_newline(mrail_json_t *json)
{
    json->newline = 1;
}

void mrail_json_end(mrail_json_t *json)
{
    fputc('\n', json->stream);
    json->comma = 0;
}
