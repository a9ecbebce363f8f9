#include "config.h"
#include "base/text.h"

#include "base/number.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int mrail_text_fail(mrail_text_line_t *line, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line->reason, sizeof(line->reason), fmt, ap);
    va_end(ap);
    return -EINVAL;
}

int mrail_text_count(mrail_text_line_t *line, const char *word,
                     const char *what, unsigned min, unsigned max,
                     unsigned *value_p)
{
    uint64_t value;

    if (mrail_number_uint(word, min, max, &value) != 0) {
        return mrail_text_fail(line,
                               "%s: '%.40s' is not a number from %u to "
                               "%u",
                               what, word, min, max);
    }
    *value_p = (unsigned)value;
    return 0;
}

/* ---- Capacities ---- */

/* The unit is bits per second, because all capacities are then whole
 * numbers. */
#define MIN_BITS UINT64_C(8000)
#define MAX_BITS UINT64_C(8000000000000000)

int mrail_text_capacity(mrail_text_line_t *line, const char *word,
                        const char *none, double *capacity_p)
{
    uint64_t bits;
    int ret;

    if (none != NULL && strcmp(word, none) == 0) {
        *capacity_p = 0;
        return 0;
    }
    ret = mrail_number_rate(word, 0, MIN_BITS, MAX_BITS, &bits);
    if (ret == -EINVAL) {
        return mrail_text_fail(
            line,
            "'%.40s' is not a capacity; expected a number with a unit, such as "
            "50GB (bytes per second) or 400Gb (bits per second)%s%s",
            word, (none != NULL) ? ", or " : "", (none != NULL) ? none : "");
    }
    if (ret == -EDOM) {
        return mrail_text_fail(
            line,
            "'%.40s' is too precise; a capacity is a whole number of bits per "
            "second, with at most six digits after the decimal point",
            word);
    }
    if (ret == -ERANGE) {
        return mrail_text_fail(
            line,
            "'%.40s' is out of range; a capacity must be from 1kB to 1000TB "
            "per second%s%s",
            word, (none != NULL) ? ", or " : "", (none != NULL) ? none : "");
    }
    *capacity_p = (double)bits / 8;
    return 0;
}

/* ---- Lists ---- */

unsigned mrail_text_list_count(const mrail_text_list_t *list)
{
    unsigned count = 0;

    for (unsigned i = 0; i < list->num; ++i) {
        count += list->last[i] - list->first[i] + 1;
    }
    return count;
}

unsigned mrail_text_list_at(const mrail_text_list_t *list, unsigned i)
{
    unsigned part = 0;

    while (i > list->last[part] - list->first[part]) {
        i -= list->last[part] - list->first[part] + 1;
        ++part;
    }
    return list->first[part] + i;
}

unsigned mrail_text_list_from(const mrail_text_list_t *list, unsigned least)
{
    unsigned found = MRAIL_TEXT_LIST_END;

    for (unsigned i = 0; i < list->num; ++i) {
        if (list->last[i] >= least) {
            found = MRAIL_MIN(found, MRAIL_MAX(list->first[i], least));
        }
    }
    return found;
}

/* Parses "3" or "0-3". Modifies `part`. */
static int read_part(mrail_text_line_t *line, char *part, const char *what,
                     unsigned count, unsigned *first_p, unsigned *last_p)
{
    char *dash = strchr(part, '-');
    uint64_t ends[2];

    if (dash != NULL) {
        *dash = '\0';
    }
    for (unsigned i = 0; i < 2; ++i) {
        const char *number = (i == 0 || dash == NULL) ? part : dash + 1;
        int ret = mrail_number_uint(number, 0, count - 1, &ends[i]);

        if (ret == -ERANGE) {
            return mrail_text_fail(
                line, "there is no %s %.20s: valid numbers are 0 to %u", what,
                number, count - 1);
        }
        if (ret != 0) {
            return mrail_text_fail(
                line,
                "'%.20s' is not a %s number; expected a list such as 3, 0-3 or "
                "0,2, or * for all",
                number, what);
        }
    }
    if (ends[0] > ends[1]) {
        return mrail_text_fail(line,
                               "%ss %llu to %llu: the smaller number must come "
                               "first",
                               what, (unsigned long long)ends[0],
                               (unsigned long long)ends[1]);
    }
    *first_p = (unsigned)ends[0];
    *last_p = (unsigned)ends[1];
    return 0;
}

static int add_part(mrail_text_line_t *line, mrail_text_list_t *list,
                    const char *what, unsigned first, unsigned last)
{
    if (list->num == MRAIL_TEXT_LIST_MAX) {
        return mrail_text_fail(
            line, "a list of %ss can have at most %u items; use several lines",
            what, MRAIL_TEXT_LIST_MAX);
    }
    list->first[list->num] = first;
    list->last[list->num] = last;
    ++list->num;
    return 0;
}

int mrail_text_sequence(mrail_text_line_t *line, const char *word,
                        const char *what, unsigned count,
                        mrail_text_list_t *list)
{
    char part[48];

    list->num = 0;
    if (strcmp(word, "*") == 0) {
        return add_part(line, list, what, 0, count - 1);
    }
    for (;; ++word) {
        size_t length = strcspn(word, ",");
        unsigned first = 0, last = 0;

        if (length >= sizeof(part)) {
            return mrail_text_fail(line, "'%.20s...' is not a %s number", word,
                                   what);
        }
        mrail_copy(part, word, length);
        part[length] = '\0';
        if (read_part(line, part, what, count, &first, &last) != 0 ||
            add_part(line, list, what, first, last) != 0) {
            return -EINVAL;
        }
        word += length;
        if (*word == '\0') {
            return 0;
        }
    }
}

int mrail_text_list(mrail_text_line_t *line, const char *word, const char *what,
                    unsigned count, mrail_text_list_t *list)
{
    if (mrail_text_sequence(line, word, what, count, list) != 0) {
        return -EINVAL;
    }
    for (unsigned i = 0; i < list->num; ++i) {
        mrail_text_list_t before = *list;
        unsigned twice;

        before.num = i;
        twice = mrail_text_list_from(&before, list->first[i]);
        if (twice <= list->last[i]) {
            return mrail_text_fail(line, "%s %u appears twice in a list", what,
                                   twice);
        }
    }
    return 0;
}

/* ---- Lines ---- */

/* Splits the line at blanks, and discards a comment after '#'. Modifies
 * `text`. */
static int cut_line(mrail_text_line_t *line, char *text)
{
    char *save = NULL;

    for (const char *p = text; *p != '\0'; ++p) {
        unsigned char c = (unsigned char)*p;

        if ((c < ' ' && c != '\t' && c != '\r') || c == 0x7f) {
            return mrail_text_fail(line, "byte %#x is not text", c);
        }
    }
    text[strcspn(text, "#")] = '\0';
    line->num = 0;
    for (char *p = strtok_r(text, " \t\r", &save); p != NULL;
         p = strtok_r(NULL, " \t\r", &save)) {
        if (line->num == MRAIL_TEXT_MAX_WORDS) {
            return mrail_text_fail(line, "a line can have at most %d words",
                                   MRAIL_TEXT_MAX_WORDS);
        }
        line->words[line->num++] = p;
    }
    line->words[line->num] = NULL;
    return 0;
}

/* Calls `func` for each line of the NUL-terminated `text`, and finally once
 * with num == 0. */
static int run_lines(mrail_text_line_t *line, char *text,
                     mrail_text_line_func_t func, void *arg)
{
    char *end;
    int ret;

    for (line->number = 1;; ++line->number, text = end + 1) {
        end = strchr(text, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        ret = cut_line(line, text);
        if (ret == 0 && line->num > 0) {
            ret = func(line, arg);
        }
        if (ret != 0) {
            return ret;
        }
        if (end == NULL) {
            break;
        }
    }
    line->num = 0;
    line->words[0] = NULL;
    return func(line, arg);
}

/* Returns the number of the line that contains the NUL byte at `zero`. */
static unsigned line_of(const char *text, const char *zero)
{
    unsigned number = 1;

    for (; text < zero; ++text) {
        number += (*text == '\n');
    }
    return number;
}

int mrail_text_each(const char *name, const char *text, size_t length,
                    size_t max_bytes, mrail_text_line_func_t func, void *arg,
                    char *reason, size_t size)
{
    const char *zero = (length > 0) ? memchr(text, '\0', length) : NULL;
    mrail_text_line_t line = {.number = 1, .reason = ""};
    size_t name_length = strlen(name);
    char *copy = NULL;
    int ret;

    if (name_length > MRAIL_TEXT_MAX_NAME) {
        name += name_length - MRAIL_TEXT_MAX_NAME;
    }
    if (length > max_bytes) {
        ret = mrail_text_fail(&line, "the text exceeds %zu bytes", max_bytes);
    } else if (zero != NULL) {
        line.number = line_of(text, zero);
        ret = mrail_text_fail(&line, "byte 0 is not text");
    } else if ((copy = malloc(length + 1)) == NULL) {
        ret = -ENOMEM;
    } else {
        mrail_copy(copy, text, length);
        copy[length] = '\0';
        ret = run_lines(&line, copy, func, arg);
    }
    if (ret != 0) {
        snprintf(reason, size, "%s:%u: %s", name, line.number,
                 (ret == -ENOMEM) ? "out of memory" : line.reason);
    }
    free(copy);
    return ret;
}
