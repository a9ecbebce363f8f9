/*
 * A parser for lines of words, lists and counts. All text formats of the
 * project (topology, demand, fabric) use it. '#' starts a comment, and blanks
 * separate words. Line numbers include empty lines.
 *
 * The text is an argument; the parser reads no files. If the text is invalid,
 * line->reason contains the message. The caller prefixes it with "NAME:LINE: ".
 */
#ifndef MRAIL_BASE_TEXT_H
#define MRAIL_BASE_TEXT_H

#include "base/util.h"

#include <stddef.h>
#include <stdint.h>

#define MRAIL_TEXT_MAX_WORDS 12 /* maximum words per line */
#define MRAIL_TEXT_LIST_MAX 32  /* maximum items of a list */
#define MRAIL_TEXT_MAX_NAME 100 /* maximum length of a name in messages */
#define MRAIL_TEXT_LIST_END UINT32_MAX

typedef struct mrail_text_line {
    char *words[MRAIL_TEXT_MAX_WORDS + 1]; /* ends with NULL */
    unsigned num;                          /* number of words; 0 after the last
                                            * line */
    unsigned number;                       /* line number, from 1 */
    char reason[256];
} mrail_text_line_t;

/* Called for each line that contains words, and finally once with line->num ==
 * 0. Returns 0 to continue, or -EINVAL (with a message in line->reason) or
 * -ENOMEM to stop. */
typedef int (*mrail_text_line_func_t)(mrail_text_line_t *line, void *arg);

/* Splits a text into lines and calls `func` for each. Returns 0, or -EINVAL or
 * -ENOMEM with "NAME:LINE: MESSAGE" in `reason`. A long NAME is shortened to
 * its last MRAIL_TEXT_MAX_NAME characters. */
int mrail_text_each(const char *name, const char *text, size_t length,
                    size_t max_bytes, mrail_text_line_func_t func, void *arg,
                    char *reason, size_t size);

/* Writes a message to line->reason and returns -EINVAL. */
int mrail_text_fail(mrail_text_line_t *line, const char *fmt, ...)
    MRAIL_PRINTF(2, 3);

/* Reads a number of decimal digits, from min to max. Returns 0, or -EINVAL with
 * a message that starts with `what`. */
int mrail_text_count(mrail_text_line_t *line, const char *word,
                     const char *what, unsigned min, unsigned max,
                     unsigned *value_p);

/* Reads "50GB" (bytes per second) or "400Gb" (bits per second), exactly. k, M,
 * G and T are powers of 1000, and the range is 1kB to 1000TB. If `none` is not
 * NULL, that word means 0. Returns 0 or -EINVAL. */
int mrail_text_capacity(mrail_text_line_t *line, const char *word,
                        const char *none, double *capacity_p);

/* ---- Lists: *, 3, 0-3, 0,2, 0-3,8 ---- */

typedef struct mrail_text_list {
    unsigned num; /* parts */
    unsigned first[MRAIL_TEXT_LIST_MAX], last[MRAIL_TEXT_LIST_MAX];
} mrail_text_list_t;

/* Reads a list of numbers below `count` (> 0). Each number may occur only once.
 * In messages, `what` names the numbered objects. Returns 0 or -EINVAL. */
int mrail_text_list(mrail_text_line_t *line, const char *word, const char *what,
                    unsigned count, mrail_text_list_t *list);

/* Like mrail_text_list(), but numbers may be repeated. */
int mrail_text_sequence(mrail_text_line_t *line, const char *word,
                        const char *what, unsigned count,
                        mrail_text_list_t *list);

unsigned mrail_text_list_count(const mrail_text_list_t *list);

/* Returns the i-th number in text order, for i < mrail_text_list_count(). */
unsigned mrail_text_list_at(const mrail_text_list_t *list, unsigned i);

/* Returns the smallest number >= least, or MRAIL_TEXT_LIST_END. */
unsigned mrail_text_list_from(const mrail_text_list_t *list, unsigned least);

#define MRAIL_TEXT_LIST_EACH(_list, _n)                                        \
    for (unsigned _n = mrail_text_list_from((_list), 0);                       \
         _n != MRAIL_TEXT_LIST_END;                                            \
         _n = mrail_text_list_from((_list), _n + 1))

static inline int mrail_text_list_has(const mrail_text_list_t *list, unsigned n)
{
    return mrail_text_list_from(list, n) == n;
}

#endif
