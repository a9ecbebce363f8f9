#include "config.h"
#include "fabric/acl_json.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MAX_NESTING 32

typedef struct parser {
    const char *at;
    unsigned line;
    unsigned nesting;
    const char *reason;
    acl_json_func_t func;
    void *arg;
    acl_json_value_t value;
} parser_t;

static int fail(parser_t *parser, const char *reason)
{
    parser->reason = reason;
    return -EINVAL;
}

static void skip_space(parser_t *parser)
{
    for (;; ++parser->at) {
        if (*parser->at == '\n') {
            ++parser->line;
        } else if (*parser->at != ' ' && *parser->at != '\t' &&
                   *parser->at != '\r') {
            return;
        }
    }
}

/* Reads a string into `text`, starting at its opening quotation mark, and
 * truncates it to `size`. The character after a backslash is taken
 * literally. */
static int read_string(parser_t *parser, char *text, size_t size)
{
    size_t length = 0;

    for (++parser->at; *parser->at != '"'; ++parser->at) {
        if (*parser->at == '\\') {
            ++parser->at;
        }
        if ((unsigned char)*parser->at < ' ') {
            return fail(parser, "unterminated string");
        }
        if (length + 1 < size) {
            text[length++] = *parser->at;
        }
    }
    text[length] = '\0';
    ++parser->at;
    return 0;
}

static int report(parser_t *parser)
{
    if (parser->value.depth > ACL_JSON_DEPTH) {
        return 0;
    }
    return parser->func(&parser->value, parser->arg);
}

static int read_value(parser_t *parser);

/* Reads "name": value. */
static int read_member(parser_t *parser)
{
    acl_json_value_t *value = &parser->value;
    char name[ACL_JSON_NAME];
    int ret;

    skip_space(parser);
    if (*parser->at != '"') {
        return fail(parser, "a name in quotation marks is missing");
    }
    ret = read_string(parser, name, sizeof(name));
    if (ret != 0) {
        return ret;
    }
    if (value->depth < ACL_JSON_DEPTH) {
        memcpy(value->names[value->depth], name, sizeof(name));
        value->lines[value->depth] = parser->line;
    }
    skip_space(parser);
    if (*parser->at != ':') {
        return fail(parser, "':' is missing after a name");
    }
    ++parser->at;
    ++value->depth;
    ret = read_value(parser);
    --value->depth;
    return ret;
}

/* Reads the contents of {} or [], up to `close`. */
static int read_list(parser_t *parser, char close)
{
    int ret;

    if (++parser->nesting > MAX_NESTING) {
        return fail(parser, "brackets are nested too deeply");
    }
    ++parser->at;
    skip_space(parser);
    while (*parser->at != close) {
        ret = (close == '}') ? read_member(parser) : read_value(parser);
        if (ret != 0) {
            return ret;
        }
        skip_space(parser);
        if (*parser->at == ',') {
            ++parser->at;
            skip_space(parser);
        } else if (*parser->at != close) {
            return fail(parser, (close == '}') ? "',' or '}' is missing"
                                               : "',' or ']' is missing");
        }
    }
    ++parser->at;
    --parser->nesting;
    return 0;
}

static int read_value(parser_t *parser)
{
    size_t length;
    int ret;

    skip_space(parser);
    if (*parser->at == '{' || *parser->at == '[') {
        return read_list(parser, (*parser->at == '{') ? '}' : ']');
    }
    if (*parser->at == '"') {
        ret =
            read_string(parser, parser->value.text, sizeof(parser->value.text));
        return (ret != 0) ? ret : report(parser);
    }
    length = strspn(parser->at, "+-.0123456789"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz");
    if (length == 0) {
        return fail(parser, "a value is missing");
    }
    snprintf(parser->value.text, sizeof(parser->value.text), "%.*s",
             (int)MRAIL_MIN(length, sizeof(parser->value.text) - 1),
             parser->at);
    parser->at += length;
    return report(parser);
}

int acl_json_read(const char *text, acl_json_func_t func, void *arg,
                  unsigned *line_p, const char **reason_p)
{
    parser_t parser = {
        .at = text, .line = 1, .reason = "", .func = func, .arg = arg};
    int ret;

    skip_space(&parser);
    ret = (*parser.at == '{') ? read_value(&parser)
                              : fail(&parser, "'{' is missing");
    if (ret == 0) {
        skip_space(&parser);
        if (*parser.at != '\0') {
            ret = fail(&parser, "text after the last '}'");
        }
    }
    *line_p = parser.line;
    *reason_p = parser.reason;
    return ret;
}
