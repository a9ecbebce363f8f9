/*
 * Lines of words, lists and counts: the common part of the project's text
 * formats (topology, demand, fabric). '#' begins a comment, blanks separate
 * words, and empty lines are counted.
 *
 * Pure: text in, words out. If the text is refused, line->why has the message.
 * The caller puts "NAME:LINE: " in front of it.
 */
#ifndef MRAIL_BASE_TEXT_H
#define MRAIL_BASE_TEXT_H

#include "base/util.h"

#include <stddef.h>
#include <stdint.h>

#define MRAIL_TEXT_MAX_WORDS 12 /* in a line */
#define MRAIL_TEXT_LIST_MAX 32  /* parts between commas */
#define MRAIL_TEXT_MAX_NAME 100 /* of a name in a sentence */
#define MRAIL_TEXT_LIST_END UINT32_MAX

typedef struct mrail_text_line {
    char *words[MRAIL_TEXT_MAX_WORDS + 1]; /* ends with NULL */
    unsigned num;                          /* 0: no more lines */
    unsigned number;                       /* from 1 */
    char why[256];
} mrail_text_line_t;

/* Called for each line that has words, and after the last one once with
 * line->num == 0. Returns 0 to continue, or -EINVAL (with line->why written) or
 * -ENOMEM to stop. */
typedef int (*mrail_text_line_func_t)(mrail_text_line_t *line, void *arg);

/* Splits a text into lines for `func`. Returns 0, or -EINVAL or -ENOMEM with
 * "NAME:LINE: sentence" in `why`. Of a long name, only the end is kept. */
int mrail_text_each(const char *name, const char *text, size_t length,
                    size_t max_bytes, mrail_text_line_func_t func, void *arg,
                    char *why, size_t size);

/* Writes line->why. Returns -EINVAL. */
int mrail_text_fail(mrail_text_line_t *line, const char *fmt, ...)
    MRAIL_PRINTF(2, 3);

/* Reads decimal digits only, from min to max. Returns 0 or -EINVAL: "nodes: '0'
 * ...". */
int mrail_text_count(mrail_text_line_t *line, const char *word,
                     const char *what, unsigned min, unsigned max,
                     unsigned *value_p);

/* Reads "50GB" (bytes per second) or "400Gb" (bits), exactly, with k, M, G or T
 * as powers of 1000, from 1kB to 1000TB. The word `none` means 0, unless `none`
 * is NULL. Returns 0 or -EINVAL. */
int mrail_text_capacity(mrail_text_line_t *line, const char *word,
                        const char *none, double *capacity_p);

/* ---- lists: *, 3, 0-3, 0,2, 0-3,8 ---- */

typedef struct mrail_text_list {
    unsigned num; /* parts */
    unsigned first[MRAIL_TEXT_LIST_MAX], last[MRAIL_TEXT_LIST_MAX];
} mrail_text_list_t;

/* Reads numbers below `count` (> 0), in the order of the text, each at most
 * once. `what` names the things that are numbered. Returns 0 or -EINVAL. */
int mrail_text_list(mrail_text_line_t *line, const char *word, const char *what,
                    unsigned count, mrail_text_list_t *list);

/* The same, but numbers may be repeated. */
int mrail_text_sequence(mrail_text_line_t *line, const char *word,
                        const char *what, unsigned count,
                        mrail_text_list_t *list);

unsigned mrail_text_list_count(const mrail_text_list_t *list);

/* Returns the i-th number in the order of the text; i <
 * mrail_text_list_count(). */
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
