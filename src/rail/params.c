#include "config.h"
#include "rail/params.h"

#include "base/log.h"
#include "base/number.h"
#include "base/util.h"
#include "orchestrator/ports.h"
#include "rail/mrail.h"
#include "telemetry/ring.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MRAIL_PARAM_PREFIX "UCX_MRAIL_"

typedef enum mrail_param_type {
    MRAIL_PARAM_STRING,
    MRAIL_PARAM_UINT,
    MRAIL_PARAM_INT,
    MRAIL_PARAM_SIZE,
    MRAIL_PARAM_COUNT,
    MRAIL_PARAM_BOOL,
    MRAIL_PARAM_TIME
} mrail_param_type_t;

static const struct {
    const char *name;
    const char *value;
    mrail_param_type_t type;
    size_t offset;
    const char *help;
} params[] = {
#define MRAIL_PARAM_ENTRY(_name, _default, _type, _field, _help)               \
    {#_name, _default, MRAIL_PARAM_##_type, offsetof(mrail_config_t, _field),  \
     _help},
    MRAIL_PARAMS(MRAIL_PARAM_ENTRY)
#undef MRAIL_PARAM_ENTRY
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
                              const char **backoff_p)
{
    char *end;

    errno = 0;
    *value_p = strtoll(text, &end, 0);
    *backoff_p = end;
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

/* Parses a number that may be "auto", as UCX does. */
static int mrail_parse_count(const char *text, void *field)
{
    unsigned value;

    if (strcasecmp(text, "auto") == 0) {
        *(size_t *)field = MRAIL_SIZE_AUTO;
        return 0;
    }
    if (mrail_parse_uint(text, &value) != 0) {
        return -EINVAL;
    }
    *(size_t *)field = value;
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
        if ((unit == NULL) ||
            ((rest[1] != '\0') && (strcasecmp(rest + 1, "b") != 0))) {
            return -EINVAL;
        }
        value <<= 10 * (unit - units);
    }
    *(size_t *)field = (size_t)value;
    return 0;
}

static int mrail_parse_bool(const char *text, void *field)
{
    static const char *const words[] = {"n", "no",  "off", "0",
                                        "y", "yes", "on",  "1"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(words); ++i) {
        if (strcasecmp(text, words[i]) == 0) {
            *(int *)field = (i >= MRAIL_ARRAY_SIZE(words) / 2);
            return 0;
        }
    }
    return -EINVAL;
}

/* Parses a time as UCX does: a decimal number and a unit, seconds by
 * default. */
static int mrail_parse_time(const char *text, void *field)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1},      {"s", 1},     {"ms", 1e-3},
                 {"us", 1e-6}, {"ns", 1e-9}, {"m", 60}};
    size_t digits = strspn(text, "0123456789.");
    char *end;
    double value;

    if (strcasecmp(text, "inf") == 0) {
        *(double *)field = INFINITY;
        return 0;
    }
    value = strtod(text, &end);
    if ((digits == 0) || (end != text + digits)) {
        return -EINVAL;
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(units); ++i) {
        if (strcmp(end, units[i].name) == 0) {
            *(double *)field = value * units[i].seconds;
            return 0;
        }
    }
    return -EINVAL;
}

static const struct {
    int (*parse)(const char *text, void *field);
    const char *expected;
} param_types[] = {
    [MRAIL_PARAM_STRING] = {mrail_parse_string, "a string"},
    [MRAIL_PARAM_UINT] = {mrail_parse_uint, "a whole number from 0"},
    [MRAIL_PARAM_INT] = {mrail_parse_int, "a whole number"},
    [MRAIL_PARAM_SIZE] = {mrail_parse_size, "a size like 8k, or auto"},
    [MRAIL_PARAM_COUNT] = {mrail_parse_count, "a whole number, or auto"},
    [MRAIL_PARAM_BOOL] = {mrail_parse_bool, "y or n"},
    [MRAIL_PARAM_TIME] = {mrail_parse_time, "a time such as 10s, 500ms or inf"},
};

static int mrail_config_set_at(mrail_config_t *config, unsigned index,
                               const char *text)
{
    if (param_types[params[index].type].parse(
            text, (char *)config + params[index].offset) != 0) {
        mrail_error("%s%s=%s: expected %s", MRAIL_PARAM_PREFIX,
                    params[index].name, text,
                    param_types[params[index].type].expected);
        return -EINVAL;
    }
    return 0;
}

int mrail_config_set(mrail_config_t *config, const char *name, const char *text)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(params); ++i) {
        if (strcmp(params[i].name, name) == 0) {
            return mrail_config_set_at(config, i, text);
        }
    }
    return -ENOENT;
}

int mrail_config_from_env(mrail_config_t *config)
{
    memset(config, 0, sizeof(*config));
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(params); ++i) {
        char name[64];
        const char *text;

        snprintf(name, sizeof(name), "%s%s", MRAIL_PARAM_PREFIX,
                 params[i].name);
        text = getenv(name);
        if (mrail_config_set_at(config, i,
                                (text != NULL) ? text : params[i].value) != 0) {
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

void mrail_config_each(void (*func)(void *arg, const mrail_param_info_t *info),
                       void *arg)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(params); ++i) {
        mrail_param_info_t info = {.default_value = params[i].value,
                                   .type = param_types[params[i].type].expected,
                                   .help = params[i].help};
        char name[64];

        snprintf(name, sizeof(name), "%s%s", MRAIL_PARAM_PREFIX,
                 params[i].name);
        info.name = name;
        info.value = getenv(name);
        info.is_set = (info.value != NULL);
        if (!info.is_set) {
            info.value = info.default_value;
        }
        func(arg, &info);
    }
}

void mrail_config_cleanup(mrail_config_t *config)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(params); ++i) {
        if (params[i].type == MRAIL_PARAM_STRING) {
            char **field = (char **)((char *)config + params[i].offset);

            free(*field);
            *field = NULL;
        }
    }
}

int mrail_config_copy(mrail_config_t *dst, const mrail_config_t *src)
{
    int ret = 0;

    *dst = *src;
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(params); ++i) {
        if (params[i].type == MRAIL_PARAM_STRING) {
            const char *text =
                *(char *const *)((const char *)src + params[i].offset);
            char *copy = strdup((text != NULL) ? text : params[i].value);

            *(char **)((char *)dst + params[i].offset) = copy;
            ret = (copy == NULL) ? -ENOMEM : ret;
        }
    }
    return ret;
}

unsigned mrail_config_qp_timeout(const mrail_config_t *config)
{
    unsigned n = 1;

    while ((n < 31) && (4.096e-6 * (double)(1u << n) < config->timeout_s)) {
        ++n;
    }
    return n;
}

unsigned mrail_config_uplinks(const mrail_config_t *config)
{
    return (config->uplinks == MRAIL_SIZE_AUTO)
               ? MRAIL_UPLINKS_AUTO
               : (unsigned)MRAIL_MIN(config->uplinks, (size_t)UINT_MAX);
}

/* Returns LANES_PER_RAIL, or the automatic number. Without port rules, more
 * than one lane is opt-in, because lanes use QPs, and help only where a single
 * flow is slower than its rail. */
static unsigned mrail_config_lanes_wanted(const mrail_config_t *config)
{
    if (config->lanes_per_rail != MRAIL_SIZE_AUTO) {
        return (unsigned)MRAIL_MIN(config->lanes_per_rail, (size_t)UINT_MAX);
    }
    return (config->uplinks == MRAIL_SIZE_AUTO)
               ? 1
               : mrail_ports_auto_lanes(
                     MRAIL_MAX(mrail_config_uplinks(config), 1u),
                     MRAIL_MAX(config->spine_uplinks, 1u));
}

unsigned mrail_config_lanes(const mrail_config_t *config, unsigned num_pairs)
{
    unsigned lanes = mrail_config_lanes_wanted(config);

    return MRAIL_MIN(lanes, MRAIL_MAX_SLOTS / MRAIL_MAX(num_pairs, 1u));
}

/* Reads an item of NIC_INDEX: a number, or DEVICE[:PORT]=NUMBER. Returns 1 if
 * the item applies to the port, and 0 if not. Returns -EINVAL if it is
 * malformed or differs in kind from *is_named_p, where -1 allows both kinds. */
static int mrail_nic_index_item(char *item, const char *device, unsigned port,
                                int is_rail, int *is_named_p, uint64_t *value_p)
{
    char *sign = strchr(item, '='), full[96];
    const char *number = (sign != NULL) ? sign + 1 : item;

    if (((*is_named_p >= 0) && (*is_named_p != (sign != NULL))) ||
        (sign == item) ||
        (mrail_number_uint(number, 0, MRAIL_NIC_INDEX_MAX, value_p) != 0)) {
        return -EINVAL;
    }
    *is_named_p = (sign != NULL);
    if (sign == NULL) {
        return is_rail;
    }
    *sign = '\0';
    snprintf(full, sizeof(full), "%s:%u", device, port);
    return (strcmp(item, device) == 0) || (strcmp(item, full) == 0);
}

int mrail_config_nic_index(const mrail_config_t *config, unsigned rail,
                           const char *device, unsigned port, unsigned *num_p)
{
    const char *text = config->nic_index;
    int found = -ENOENT, is_named = -1, ret;
    uint64_t value = 0;
    char item[112];

    *num_p = 0;
    if ((text == NULL) || (strcmp(text, "-1") == 0)) {
        return -1;
    }
    for (unsigned i = 0;; ++i) {
        size_t length = strcspn(text, ",");

        snprintf(item, sizeof(item), "%.*s", (int)length, text);
        ret = (length < sizeof(item))
                  ? mrail_nic_index_item(item, device, port, i == rail,
                                         &is_named, &value)
                  : -EINVAL;
        if (ret < 0) {
            return ret;
        }
        found = (ret != 0) ? (int)value : found;
        *num_p = is_named ? 0 : i + 1;
        if (text[length] == '\0') {
            /* A single number applies to all rails. */
            return (*num_p == 1) ? (int)value : found;
        }
        text += length + 1;
    }
}

static int mrail_config_check_nic_index(const mrail_config_t *config)
{
    unsigned num;

    if (mrail_config_nic_index(config, 0, "", 0, &num) == -EINVAL) {
        mrail_error("UCX_MRAIL_NIC_INDEX=%s: expected -1, a number from 0 to "
                    "%d, or one of these numbers for each rail, as in 4,5 or "
                    "mlx5_0=4,mlx5_1=5",
                    config->nic_index, MRAIL_NIC_INDEX_MAX);
        return -EINVAL;
    }
    return 0;
}

int mrail_config_check(const mrail_config_t *config)
{
    const struct {
        const char *name;
        long long value, min, max;
    } ranges[] = {
        {"LANES_PER_RAIL", mrail_config_lanes_wanted(config), 1, 32},
        {"SUBNET_BITS", config->subnet_bits, -1, 128},
        {"MAX_QPS", config->max_qps, 1, 65535},
        {"UPLINKS", mrail_config_uplinks(config), 1, 256},
        {"SPINE_UPLINKS", config->spine_uplinks, 1,
         0x4000 / MRAIL_MAX(mrail_config_uplinks(config), 1u)},
        {"TRAFFIC_CLASS", config->traffic_class, 0, 255},
        {"SL", config->sl, 0, 15},
        {"SEG_SIZE", (long long)config->seg_size, 512, 1 << 20},
        {"RX_QUEUE_LEN", config->rx_queue_len, 64, 65536},
        {"AM_CREDITS", config->am_credits, 4, 1024},
        {"TX_QUEUE_LEN", config->tx_queue_len, 16, 4096},
        {"RETRY_COUNT", config->retry_count, 0, 6},
        {"RNR_RETRY_COUNT", config->rnr_retry_count, 0, 7},
        {"TELEMETRY_RECORDS", config->telemetry_records, 0, MRAIL_RING_MAX},
    };

    const struct {
        const char *name;
        double value, min, max;
        int inf_allowed;
    } times[] = {
        {"TIMEOUT", config->timeout_s, 8e-6, 8796, 0},
        {"PEER_TIMEOUT", config->peer_timeout_s, 1, 86400, 0},
        {"KEEPALIVE_INTERVAL", config->keepalive_interval_s, 1, 86400, 1},
    };

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(times); ++i) {
        if ((times[i].value >= times[i].min) &&
            (times[i].value <= times[i].max)) {
            continue;
        }
        if (!times[i].inf_allowed || !isinf(times[i].value)) {
            mrail_error("UCX_MRAIL_%s=%gs: expected %gs to %gs%s",
                        times[i].name, times[i].value, times[i].min,
                        times[i].max, times[i].inf_allowed ? ", or inf" : "");
            return -EINVAL;
        }
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(ranges); ++i) {
        if ((ranges[i].value < ranges[i].min) ||
            (ranges[i].value > ranges[i].max)) {
            mrail_error("UCX_MRAIL_%s=%lld: expected %lld to %lld",
                        ranges[i].name, ranges[i].value, ranges[i].min,
                        ranges[i].max);
            return -EINVAL;
        }
    }
    if ((config->rma_chunk_size != MRAIL_SIZE_AUTO) &&
        ((config->rma_chunk_size < 4096) ||
         (config->rma_chunk_size > MRAIL_RMA_CHUNK_MAX))) {
        mrail_error("UCX_MRAIL_RMA_CHUNK_SIZE=%zu: expected 4k to 1g, or auto",
                    config->rma_chunk_size);
        return -EINVAL;
    }
    return mrail_config_check_nic_index(config);
}
