/* Parses the text form of a demand pattern: plan_demand_parse(). */
#include "config.h"
#include "tools/plan_demand.h"

#include "base/util.h"
#include "base/number.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>

typedef enum value_kind {
    VALUE_COUNT,
    VALUE_SIZE, /* bytes, with k, m or g */
    VALUE_PPM,  /* a decimal fraction, stored in millionths */
    VALUE_TO    /* shift or single */
} value_kind_t;

typedef struct setting {
    const char *name;
    value_kind_t kind;
    size_t offset; /* offset in plan_demand_pattern_t */
    uint64_t otherwise, min, max;
} setting_t;

#define FIELD(_name) offsetof(plan_demand_pattern_t, _name)
#define SIZE                                                                   \
    {                                                                          \
        "size", VALUE_SIZE, FIELD(size), 16u << 20, 1, (UINT64_C(1) << 44) - 1 \
    }
#define MAX_SETTINGS 6

static const struct {
    const char *name, *what;
    setting_t settings[MAX_SETTINGS]; /* the last name is NULL */
} kinds[PLAN_DEMAND_NUM_KINDS] = {
    [PLAN_DEMAND_UNIFORM] = {"uniform", "evenly to all other ranks", {SIZE}},
    [PLAN_DEMAND_HOTSPOT] =
        {"hotspot",
         "a fraction to rank + P/2 (to=shift) or 0 (to=single)",
         {{"fraction", VALUE_PPM, FIELD(fraction_ppm), 700000, 0, PLAN_PPM},
          {"to", VALUE_TO, FIELD(one), 0, 0, 1},
          SIZE}},
    [PLAN_DEMAND_ZIPF] = {"zipf",
                          "to the i-th most popular receiver as 1/i^exponent",
                          {{"exponent", VALUE_PPM, FIELD(exponent_ppm), 1200000,
                            0, 4 * PLAN_PPM},
                           SIZE}},
    [PLAN_DEMAND_MOE] =
        {"moe",
         "tokens of hidden bytes, each to k experts, popular as 1/i^skew",
         {{"k", VALUE_COUNT, FIELD(k), 8, 1, 64},
          {"skew", VALUE_PPM, FIELD(exponent_ppm), PLAN_PPM, 0, 4 * PLAN_PPM},
          {"tokens", VALUE_COUNT, FIELD(tokens), 4096, 1, 1u << 20},
          {"hidden", VALUE_SIZE, FIELD(hidden), 7168, 1, 1u << 20},
          {"experts", VALUE_COUNT, FIELD(experts), 0, 1, 65536}}},
    [PLAN_DEMAND_STENCIL] =
        {"stencil",
         "to neighbours in a line or a grid, more at its boundary",
         {{"dims", VALUE_COUNT, FIELD(dims), 2, 1, 2},
          {"boundary", VALUE_COUNT, FIELD(boundary), 4, 1, 1000},
          {"size", VALUE_SIZE, FIELD(size), 16u << 20, 1, UINT64_C(1) << 34}}},
    [PLAN_DEMAND_INCAST] =
        {"incast",
         "evenly to a few ranks that the seed chooses",
         {{"receivers", VALUE_COUNT, FIELD(receivers), 4, 1, 16383},
          {"senders", VALUE_COUNT, FIELD(senders), 0, 1, 16383},
          SIZE}},
};

static uint64_t *field_of(plan_demand_pattern_t *pattern,
                          const setting_t *setting)
{
    return (uint64_t *)((char *)pattern + setting->offset);
}

/* Parses "0.7", "1" or ".5" as millionths. Rejects more than six decimal
 * places. */
static int read_ppm(const char *text, uint64_t max, uint64_t *value_p)
{
    const char *point = strchr(text, '.');
    uint64_t whole = 0;
    uint32_t part = 0;
    char digits[24];
    size_t length = (point != NULL) ? (size_t)(point - text) : strlen(text);
    int ret;

    if (length >= sizeof(digits) || (length == 0 && point == NULL)) {
        return -EINVAL;
    }
    mrail_copy(digits, text, length);
    digits[length] = '\0';
    ret = (length == 0) ? 0
                        : mrail_number_uint(digits, 0, max / PLAN_PPM, &whole);
    if (ret == 0 && point != NULL) {
        ret = mrail_number_ppm(point, &part);
    }
    if (ret != 0 || whole * PLAN_PPM + part > max) {
        return -EINVAL;
    }
    *value_p = whole * PLAN_PPM + part;
    return 0;
}

/* Returns 0, or -EINVAL with the expected form. */
static int read_value(const setting_t *setting, const char *text,
                      uint64_t *value_p, char *wanted, size_t size)
{
    unsigned long long min = setting->min, max = setting->max;
    uint64_t value = 0;
    int ret = 0;

    switch (setting->kind) {
    case VALUE_COUNT:
        snprintf(wanted, size, "a number from %llu to %llu", min, max);
        ret = mrail_number_uint(text, min, max, &value);
        break;
    case VALUE_SIZE:
        snprintf(wanted, size,
                 "bytes from %llu to %llu: digits, then k, m or "
                 "g",
                 min, max);
        ret = mrail_number_size(text, max, &value);
        ret = (ret == 0 && value < min) ? -ERANGE : ret;
        break;
    case VALUE_PPM:
        snprintf(wanted, size,
                 "a number from 0 to %llu with at most six "
                 "decimals",
                 max / PLAN_PPM);
        ret = read_ppm(text, max, &value);
        break;
    case VALUE_TO:
        snprintf(wanted, size, "shift or single");
        value = (strcmp(text, "single") == 0);
        ret = (value || strcmp(text, "shift") == 0) ? 0 : -EINVAL;
        break;
    }
    if (ret != 0) {
        return -EINVAL;
    }
    *value_p = value;
    return 0;
}

/* Parses "NAME=VALUE". Modifies `word`. */
static int read_setting(plan_demand_pattern_t *pattern, char *word,
                        unsigned *seen, char *reason, size_t size)
{
    const setting_t *settings = kinds[pattern->kind].settings;
    char *equals = strchr(word, '=');
    char wanted[96];
    unsigned i = 0;

    if (equals != NULL) {
        *equals = '\0';
    }
    while (settings[i].name != NULL && strcmp(settings[i].name, word) != 0) {
        ++i;
    }
    if (equals == NULL || settings[i].name == NULL) {
        int used = snprintf(
            reason, size, "'%.40s' is not a setting of %s; the %s", word,
            kinds[pattern->kind].name,
            (settings[1].name != NULL) ? "settings are" : "setting is");

        for (i = 0; settings[i].name != NULL && (size_t)used < size; ++i) {
            used += snprintf(reason + used, size - (size_t)used, "%s %s=VALUE",
                             (i > 0) ? "," : "", settings[i].name);
        }
        return -EINVAL;
    }
    if (*seen & (1u << i)) {
        snprintf(reason, size, "'%s' may appear only once", word);
        return -EINVAL;
    }
    *seen |= 1u << i;
    if (read_value(&settings[i], equals + 1, field_of(pattern, &settings[i]),
                   wanted, sizeof(wanted)) != 0) {
        snprintf(reason, size, "%s=%.40s: expected %s", word, equals + 1,
                 wanted);
        return -EINVAL;
    }
    return 0;
}

static int find_kind(const char *name, plan_demand_pattern_t *pattern,
                     char *reason, size_t size)
{
    int used;

    for (unsigned i = 0; i < PLAN_DEMAND_NUM_KINDS; ++i) {
        if (strcmp(kinds[i].name, name) == 0) {
            *pattern = (plan_demand_pattern_t){.kind = i};
            for (const setting_t *s = kinds[i].settings; s->name != NULL; ++s) {
                *field_of(pattern, s) = s->otherwise;
            }
            return 0;
        }
    }
    used = snprintf(reason, size, "'%.40s' is not a pattern; the patterns are",
                    name);
    for (unsigned i = 0; i < PLAN_DEMAND_NUM_KINDS && (size_t)used < size;
         ++i) {
        used += snprintf(reason + used, size - (size_t)used, "%s %s",
                         (i > 0) ? "," : "", kinds[i].name);
    }
    return -EINVAL;
}

int plan_demand_parse(const char *text, plan_demand_pattern_t *pattern_p,
                      char *reason, size_t size)
{
    plan_demand_pattern_t pattern;
    char copy[256], *settings;
    unsigned seen = 0;

    if (strlen(text) >= sizeof(copy)) {
        snprintf(reason, size, "'%.40s...' is longer than %zu bytes", text,
                 sizeof(copy) - 1);
        return -EINVAL;
    }
    strcpy(copy, text);
    settings = strchr(copy, ':');
    if (settings != NULL) {
        *settings++ = '\0';
    }
    if (find_kind(copy, &pattern, reason, size) != 0) {
        return -EINVAL;
    }
    while (settings != NULL) {
        char *next = strchr(settings, ',');

        if (next != NULL) {
            *next++ = '\0';
        }
        if (read_setting(&pattern, settings, &seen, reason, size) != 0) {
            return -EINVAL;
        }
        settings = next;
    }
    *pattern_p = pattern;
    return 0;
}

static int default_text(const setting_t *setting, char *text, size_t size)
{
    unsigned long long value = setting->otherwise;

    switch (setting->kind) {
    case VALUE_PPM:
        return snprintf(text, size, "%s=%llu.%llu", setting->name,
                        value / PLAN_PPM, value % PLAN_PPM / 100000);
    case VALUE_TO:
        return snprintf(text, size, "%s=shift", setting->name);
    default:
        return (value == 0) ? snprintf(text, size, "%s=N", setting->name)
               : (value % (1u << 20) == 0)
                   ? snprintf(text, size, "%s=%llum", setting->name,
                              value >> 20)
                   : snprintf(text, size, "%s=%llu", setting->name, value);
    }
}

void plan_demand_help(void (*print)(void *arg, const char *line), void *arg)
{
    for (unsigned i = 0; i < PLAN_DEMAND_NUM_KINDS; ++i) {
        char line[256];
        size_t used =
            (size_t)snprintf(line, sizeof(line), "    %s", kinds[i].name);

        for (unsigned s = 0; kinds[i].settings[s].name != NULL; ++s) {
            line[used++] = (s == 0) ? ':' : ',';
            used += (size_t)default_text(&kinds[i].settings[s], line + used,
                                         sizeof(line) - used);
        }
        print(arg, line);
        snprintf(line, sizeof(line), "        %s", kinds[i].what);
        print(arg, line);
    }
}
