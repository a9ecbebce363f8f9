/* Finds UCX_MRAIL_* variables that do not exist. */
#include "config.h"
#include "tools/unknown_params.h"

#include "base/util.h"
#include "rail/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "UCX_MRAIL_"
#define NAME_LONGEST 32
/* with this number of edits, the names are considered different */
#define FAR 3u

/* The transport's other variables: the parameters in src/uct/mrail_config.c,
 * and the parameters that UCX adds to every transport. test/ucx/info.sh
 * compares the list. */
static const char *const transport_params[] = {
    "RCACHE",
    "RCACHE_MEM_PRIO",
    "RCACHE_OVERHEAD",
    "RCACHE_ADDR_ALIGN",
    "RCACHE_MAX_REGIONS",
    "RCACHE_MAX_SIZE",
    "RCACHE_MAX_UNRELEASED",
    "RCACHE_PURGE_ON_FORK",
    "MEM_REG_OVERHEAD",
    "MEM_REG_GROWTH",
    "OVERHEAD",
    "ALLOC",
    "FAILURE",
    "MAX_NUM_EPS",
};

typedef struct search {
    const char *name; /* name without the prefix */
    unsigned edits;   /* edits from the name to `nearest`; only names with
                       * fewer edits count */
    char nearest[NAME_LONGEST + 1];
} search_t;

/* Returns the number of letters to insert, delete or replace (Levenshtein
 * distance), computed one row at a time. */
static unsigned count_edits(const char *a, const char *b)
{
    size_t length = strlen(b);
    unsigned row[NAME_LONGEST + 1];
    unsigned diagonal, above;

    if ((length > NAME_LONGEST) || (strlen(a) > NAME_LONGEST)) {
        return FAR;
    }
    for (unsigned j = 0; j <= length; ++j) {
        row[j] = j;
    }
    for (unsigned i = 1; a[i - 1] != '\0'; ++i) {
        diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= length; ++j) {
            above = row[j];
            row[j] = MRAIL_MIN(MRAIL_MIN(above, row[j - 1]) + 1,
                               diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[length];
}

static void compare(search_t *search, const char *known)
{
    unsigned edits = count_edits(search->name, known);

    if (edits < search->edits) {
        search->edits = edits;
        snprintf(search->nearest, sizeof(search->nearest), "%s", known);
    }
}

static void compare_param(void *arg, const mrail_param_info_t *info)
{
    compare(arg, info->name + strlen(PREFIX));
}

void mrail_unknown_params(char *const *env, mrail_unknown_param_func_t func,
                          void *arg)
{
    for (; *env != NULL; ++env) {
        search_t search = {.nearest = ""};
        char *name;

        if (strncmp(*env, PREFIX, strlen(PREFIX)) != 0) {
            continue;
        }
        name = strndup(*env, strcspn(*env, "="));
        if (name == NULL) {
            return;
        }
        search.name = name + strlen(PREFIX);
        search.edits = MRAIL_MIN(FAR, (unsigned)strlen(search.name) / 2 + 1);
        mrail_config_each(compare_param, &search);
        for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(transport_params); ++i) {
            compare(&search, transport_params[i]);
        }
        if (search.edits != 0) {
            func(arg, name,
                 (search.nearest[0] != '\0') ? search.nearest : NULL);
        }
        free(name);
    }
}
