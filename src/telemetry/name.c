/* Parses and writes the names of telemetry files. */
#include "config.h"
#include "telemetry/file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads digits up to `max`. Returns the first character after them, or NULL if
 * there are no digits or too many. */
static const char *name_number(const char *text, int base, uint64_t max,
                               uint64_t *value_p)
{
    uint64_t value = 0;
    const char *p = text;

    for (; isxdigit((unsigned char)*p); ++p) {
        unsigned digit =
            isdigit((unsigned char)*p)
                ? (unsigned)(*p - '0')
                : (unsigned)(tolower((unsigned char)*p) - 'a') + 10;

        if ((digit >= (unsigned)base) ||
            (value > (max - digit) / (unsigned)base)) {
            return NULL;
        }
        value = value * (unsigned)base + digit;
    }
    *value_p = value;
    return (p == text) ? NULL : p;
}

/* Reads the numbers between dots. Returns the text after the id, or NULL. */
static const char *name_numbers(const char *text, mrail_tele_name_t *name)
{
    uint64_t uid, pid, host = 0;
    const char *p = name_number(text, 10, UINT32_MAX, &uid);

    p = ((p != NULL) && (*p == '.')) ? name_number(p + 1, 10, UINT32_MAX, &pid)
                                     : NULL;
    name->host = -1;
    if ((p != NULL) && (*p == '@')) {
        p = name_number(p + 1, 10, INT32_MAX, &host);
        name->host = (int)host;
    }
    p = ((p != NULL) && (*p == '.'))
            ? name_number(p + 1, 16, UINT64_MAX, &name->id)
            : NULL;
    if (p != NULL) {
        name->uid = (unsigned)uid;
        name->pid = (unsigned)pid;
    }
    return p;
}

const char *mrail_tele_suffix(mrail_tele_kind_t kind)
{
    static const char *const suffixes[] = {[MRAIL_TELE_PAGE] = "",
                                           [MRAIL_TELE_CALLS] = ".calls",
                                           [MRAIL_TELE_PLANS] = ".plans"};

    return suffixes[kind];
}

int mrail_tele_name_parse(const char *text, mrail_tele_name_t *name)
{
    static const size_t length = sizeof(MRAIL_TELE_PREFIX) - 1;
    mrail_tele_name_t parsed;
    const char *end;

    if (strncmp(text, MRAIL_TELE_PREFIX, length) != 0) {
        return -EINVAL;
    }
    end = name_numbers(text + length, &parsed);
    if (end == NULL) {
        return -EINVAL;
    }
    for (unsigned kind = 0; kind < MRAIL_TELE_ALL; ++kind) {
        if (strcmp(end, mrail_tele_suffix((mrail_tele_kind_t)kind)) == 0) {
            parsed.kind = (mrail_tele_kind_t)kind;
            *name = parsed;
            return 0;
        }
    }
    return -EINVAL;
}

int mrail_tele_name_write(char *text, size_t size,
                          const mrail_tele_name_t *name)
{
    char host[16] = "";
    int length;

    if (name->host >= 0) {
        snprintf(host, sizeof(host), "@%d", name->host);
    }
    length =
        snprintf(text, size, MRAIL_TELE_PREFIX "%u.%u%s.%016llx%s",
                 (unsigned)geteuid(), name->pid, host,
                 (unsigned long long)name->id, mrail_tele_suffix(name->kind));
    return ((length > 0) && ((size_t)length < size)) ? 0 : -ENAMETOOLONG;
}

int mrail_tele_file_host(const char *path)
{
    const char *slash = strrchr(path, '/');
    mrail_tele_name_t name;

    return (mrail_tele_name_parse((slash != NULL) ? slash + 1 : path, &name) ==
            0)
               ? name.host
               : -1;
}
