#include "config.h"
#include "rail/knobs.h"

#include "base/log.h"
#include "base/util.h"
#include "rail/mrail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MRAIL_KNOB_PREFIX "UCX_MRAIL_"

typedef enum mrail_knob_type {
    MRAIL_KNOB_STRING,
    MRAIL_KNOB_UINT,
    MRAIL_KNOB_INT,
    MRAIL_KNOB_SIZE,
    MRAIL_KNOB_BOOL
} mrail_knob_type_t;

static const struct {
    const char *name;
    const char *value;
    mrail_knob_type_t type;
    size_t offset;
} knobs[] = {
#define MRAIL_KNOB_ENTRY(_name, _default, _type, _field, _help)               \
    {#_name, _default, MRAIL_KNOB_##_type, offsetof(mrail_config_t, _field)},
    MRAIL_KNOBS(MRAIL_KNOB_ENTRY)
#undef MRAIL_KNOB_ENTRY
};

static int mrail_parse_string(const char *text, void *field)
{
    char *copy = strdup(text);

    if (copy == NULL) {
        return -ENOMEM;
    }
    free(*(char **)field);
    *(char **)field = copy;
    return 0;
}

static int mrail_parse_number(const char *text, long long *value_p,
                              const char **rest_p)
{
    char *end;

    errno = 0;
    *value_p = strtoll(text, &end, 0);
    *rest_p = end;
    return ((errno != 0) || (end == text)) ? -EINVAL : 0;
}

static int mrail_parse_int(const char *text, void *field)
{
    const char *rest;
    long long value;

    if ((mrail_parse_number(text, &value, &rest) != 0) || (*rest != '\0') ||
        (value < INT32_MIN) || (value > INT32_MAX)) {
        return -EINVAL;
    }
    *(int *)field = (int)value;
    return 0;
}

static int mrail_parse_uint(const char *text, void *field)
{
    int value;

    if ((mrail_parse_int(text, &value) != 0) || (value < 0)) {
        return -EINVAL;
    }
    *(unsigned *)field = (unsigned)value;
    return 0;
}

static int mrail_parse_size(const char *text, void *field)
{
    static const char units[] = "bkmg";
    const char *rest, *unit;
    long long value;

    if (strcasecmp(text, "auto") == 0) {
        *(size_t *)field = MRAIL_SIZE_AUTO;
        return 0;
    }
    if ((mrail_parse_number(text, &value, &rest) != 0) || (value < 0) ||
        (value > (1ll << 32))) {
        return -EINVAL;
    }
    if (*rest != '\0') {
        unit = strchr(units, *rest | 0x20);
        if ((unit == NULL) || ((rest[1] != '\0') && (strcasecmp(rest + 1, "b")
                                                     != 0))) {
            return -EINVAL;
        }
        value <<= 10 * (unit - units);
    }
    *(size_t *)field = (size_t)value;
    return 0;
}

static int mrail_parse_bool(const char *text, void *field)
{
    static const char *const words[] = {"n", "no", "off", "0",
                                        "y", "yes", "on", "1"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(words); ++i) {
        if (strcasecmp(text, words[i]) == 0) {
            *(int *)field = (i >= MRAIL_ARRAY_SIZE(words) / 2);
            return 0;
        }
    }
    return -EINVAL;
}

static const struct {
    int (*parse)(const char *text, void *field);
    const char *expected;
} knob_types[] = {
    [MRAIL_KNOB_STRING] = {mrail_parse_string, "a string"},
    [MRAIL_KNOB_UINT] = {mrail_parse_uint, "a whole number from 0"},
    [MRAIL_KNOB_INT] = {mrail_parse_int, "a whole number"},
    [MRAIL_KNOB_SIZE] = {mrail_parse_size, "a size like 8k, or auto"},
    [MRAIL_KNOB_BOOL] = {mrail_parse_bool, "y or n"},
};

static int mrail_config_set_at(mrail_config_t *config, unsigned index,
                               const char *text)
{
    if (knob_types[knobs[index].type].parse(
            text, (char *)config + knobs[index].offset) != 0) {
        mrail_error("%s%s=%s: expected %s", MRAIL_KNOB_PREFIX,
                    knobs[index].name, text,
                    knob_types[knobs[index].type].expected);
        return -EINVAL;
    }
    return 0;
}

int mrail_config_set(mrail_config_t *config, const char *name,
                     const char *text)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(knobs); ++i) {
        if (strcmp(knobs[i].name, name) == 0) {
            return mrail_config_set_at(config, i, text);
        }
    }
    return -ENOENT;
}

int mrail_config_from_env(mrail_config_t *config)
{
    memset(config, 0, sizeof(*config));
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(knobs); ++i) {
        char name[64];
        const char *text;

        snprintf(name, sizeof(name), "%s%s", MRAIL_KNOB_PREFIX, knobs[i].name);
        text = getenv(name);
        if (mrail_config_set_at(config, i,
                                (text != NULL) ? text : knobs[i].value) != 0) {
            mrail_config_cleanup(config);
            return -EINVAL;
        }
    }
    if (mrail_config_check(config) != 0) {
        mrail_config_cleanup(config);
        return -EINVAL;
    }
    return 0;
}

void mrail_config_cleanup(mrail_config_t *config)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(knobs); ++i) {
        if (knobs[i].type == MRAIL_KNOB_STRING) {
            char **field = (char **)((char *)config + knobs[i].offset);

            free(*field);
            *field = NULL;
        }
    }
}

/* ---- names that do not exist -------------------------------------------- */

#define MRAIL_KNOB_NAME_MAX 32
#define MRAIL_KNOB_FAR 3u /* edits from here on make another word */

/* The transport's other variables: src/uct/mrail_config.c, and what UCX adds to
 * every transport.  test/ucx/info.sh compares. */
static const char *const transport_knobs[] = {
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

/* Letters to insert, leave out or change (Levenshtein), one row at a time. */
static unsigned mrail_edits(const char *a, const char *b)
{
    size_t length = strlen(b);
    unsigned row[MRAIL_KNOB_NAME_MAX + 1];
    unsigned diagonal, above;

    if ((length > MRAIL_KNOB_NAME_MAX) || (strlen(a) > MRAIL_KNOB_NAME_MAX)) {
        return MRAIL_KNOB_FAR;
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

/* The known name with the fewest edits to `name`, their number in *edits_p. */
static const char *mrail_knob_nearest(const char *name, unsigned *edits_p)
{
    const char *nearest = NULL;
    unsigned edits;

    *edits_p = MRAIL_MIN(MRAIL_KNOB_FAR, (unsigned)strlen(name) / 2 + 1);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(knobs) +
                                 MRAIL_ARRAY_SIZE(transport_knobs); ++i) {
        const char *known =
            (i < MRAIL_ARRAY_SIZE(knobs))
                ? knobs[i].name
                : transport_knobs[i - MRAIL_ARRAY_SIZE(knobs)];

        edits = mrail_edits(name, known);
        if (edits < *edits_p) {
            *edits_p = edits;
            nearest = known;
        }
    }
    return nearest;
}

void mrail_config_unknown(char *const *env, mrail_config_unknown_func_t func,
                          void *arg)
{
    const size_t prefix = strlen(MRAIL_KNOB_PREFIX);
    const char *nearest;
    unsigned edits;
    char *name;

    for (; *env != NULL; ++env) {
        if (strncmp(*env, MRAIL_KNOB_PREFIX, prefix) != 0) {
            continue;
        }
        name = strndup(*env, strcspn(*env, "="));
        if (name == NULL) {
            return;
        }
        nearest = mrail_knob_nearest(name + prefix, &edits);
        if (edits != 0) {
            func(arg, name, nearest);
        }
        free(name);
    }
}

int mrail_config_check(const mrail_config_t *config)
{
    const struct {
        const char *name;
        long long value, min, max;
    } ranges[] = {
        {"LANES_PER_RAIL", config->lanes_per_rail, 1, 32},
        {"SUBNET_BITS", config->subnet_bits, -1, 128},
        {"MAX_QPS", config->max_qps, 1, 65535},
        {"UPLINKS", config->uplinks, 1, 256},
        {"NIC_INDEX", config->nic_index, -1, 65535},
        {"TRAFFIC_CLASS", config->traffic_class, 0, 255},
        {"SL", config->sl, 0, 15},
        {"SEG_SIZE", (long long)config->seg_size, 512, 1 << 20},
        {"AM_CREDITS", config->am_credits, 4, 1024},
        {"TX_DEPTH", config->tx_depth, 16, 4096},
        {"TIMEOUT", config->timeout, 1, 31},
        {"DEAD_TIMEOUT", config->dead_timeout, 1, 86400},
        {"KEEPALIVE", config->keepalive, 0, 86400},
        {"RETRY_CNT", config->retry_cnt, 0, 6},
        {"RNR_RETRY", config->rnr_retry, 0, 7},
    };

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(ranges); ++i) {
        if ((ranges[i].value < ranges[i].min) ||
            (ranges[i].value > ranges[i].max)) {
            mrail_error("UCX_MRAIL_%s=%lld: expected %lld to %lld",
                        ranges[i].name, ranges[i].value, ranges[i].min,
                        ranges[i].max);
            return -EINVAL;
        }
    }
    if ((config->segment != MRAIL_SIZE_AUTO) &&
        ((config->segment < 4096) || (config->segment > MRAIL_SEGMENT_MAX))) {
        mrail_error("UCX_MRAIL_SEGMENT=%zu: expected 4k to 1g, or auto",
                    config->segment);
        return -EINVAL;
    }
    return 0;
}
