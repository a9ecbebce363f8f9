/*
 * Lines of words, lists and counts: the common part of the text formats of
 * `mrail plan`. '#' begins a comment, blanks separate words, and empty lines
 * count.
 *
 * Pure: text in, words out. A refusal is a message in line->why; the caller
 * puts "NAME:LINE: " before it.
 */
#ifndef MRAIL_TOOLS_PLAN_WORDS_H
#define MRAIL_TOOLS_PLAN_WORDS_H

#include "base/util.h"

#include <stddef.h>
#include <stdint.h>

#define PLAN_WORDS_MAX 12 /* of a line */
#define PLAN_LIST_MAX 32  /* parts between commas */
#define PLAN_NAME_MAX 100 /* of a name in a sentence */
#define PLAN_LIST_END UINT32_MAX

typedef struct plan_line {
    char *words[PLAN_WORDS_MAX + 1]; /* ends with NULL */
    unsigned num;                    /* 0: there are no more lines */
    unsigned number;                 /* from 1 */
    char why[256];
} plan_line_t;

/* Called for each line that has words, then once with line->num == 0 after the
 * last one. Returns 0; -EINVAL with line->why written, or -ENOMEM, ends the
 * calls. */
typedef int (*plan_line_func_t)(plan_line_t *line, void *arg);

/* Splits a text into lines for `func`. 0; -EINVAL or -ENOMEM with "NAME:LINE:
 * sentence" in `why`. A long name is shortened to its end. */
int plan_words_each(const char *name, const char *text, size_t length,
                    size_t max_bytes, plan_line_func_t func, void *arg,
                    char *why, size_t size);

/* Writes line->why. Returns -EINVAL. */
int plan_words_fail(plan_line_t *line, const char *fmt, ...) MRAIL_PRINTF(2, 3);

/* Decimal digits only, min to max.  0 or -EINVAL: "nodes: '0' ...". */
int plan_words_count(plan_line_t *line, const char *word, const char *what,
                     unsigned min, unsigned max, unsigned *value_p);

/* "50GB" (bytes per second) or "400Gb" (bits), k, M, G or T, powers of 1000,
 * 1kB to 1000TB, exactly. The word `none` is 0, unless `none` is NULL. 0 or
 * -EINVAL. */
int plan_words_capacity(plan_line_t *line, const char *word, const char *none,
                        double *capacity_p);

/* ---- lists: *, 3, 0-3, 0,2, 0-3,8 ---- */

typedef struct plan_list {
    unsigned num; /* parts */
    unsigned first[PLAN_LIST_MAX], last[PLAN_LIST_MAX];
} plan_list_t;

/* Reads numbers below `count` (> 0) of things called `what`, in the order of
 * the text, each at most once. 0 or -EINVAL. */
int plan_words_list(plan_line_t *line, const char *word, const char *what,
                    unsigned count, plan_list_t *list);

/* The same, but a number may come more than once. */
int plan_words_sequence(plan_line_t *line, const char *word, const char *what,
                        unsigned count, plan_list_t *list);

unsigned plan_list_count(const plan_list_t *list);

/* The i-th number in the order of the text; i < plan_list_count(). */
unsigned plan_list_at(const plan_list_t *list, unsigned i);

/* The smallest number that is not less, or PLAN_LIST_END. */
unsigned plan_list_from(const plan_list_t *list, unsigned least);

#define PLAN_LIST_EACH(_list, _n)                                              \
    for (unsigned _n = plan_list_from((_list), 0); _n != PLAN_LIST_END;        \
         _n = plan_list_from((_list), _n + 1))

static inline int plan_list_has(const plan_list_t *list, unsigned n)
{
    return plan_list_from(list, n) == n;
}

#endif
