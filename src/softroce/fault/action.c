#include "config.h"
#include "softroce/fault/action.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BIT SROCE_FAULT_BIT
#define DEFAULT_SPAN_US 100

const sroce_fault_action_def_t sroce_fault_action_defs[] = {
    {"down", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_DOWN), 1,
     "the port goes down, and the device reports it; packets are discarded"},
    {"up", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_DOWN), 0,
     "the port comes up, and the device reports it"},
    {"drop", "P", SROCE_FAULT_KIND_PPM, BIT(SROCE_FAULT_DROP), 0,
     "packets are lost with probability P: 0 to 1, or a percentage such as 1%"},
    {"blackhole", "tx|rx|both", SROCE_FAULT_KIND_SIDE,
     BIT(SROCE_FAULT_BLACKHOLE_TX) | BIT(SROCE_FAULT_BLACKHOLE_RX), 1,
     "all sent or received packets are lost, without an event"},
    {"pause", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_PAUSE), 1,
     "packets are held back in both directions, without loss"},
    {"delay", "T", SROCE_FAULT_KIND_TIME, BIT(SROCE_FAULT_DELAY), 0,
     "packets take T longer, at most 10s"},
    {"duplicate", "P", SROCE_FAULT_KIND_PPM, BIT(SROCE_FAULT_DUPLICATE), 0,
     "packets arrive twice with probability P"},
    {"reorder", "P [T]", SROCE_FAULT_KIND_REORDER, BIT(SROCE_FAULT_REORDER), 0,
     "packets are delayed by up to T (100us) with probability P; later "
     "ones overtake them"},
    {"corrupt", "P", SROCE_FAULT_KIND_PPM, BIT(SROCE_FAULT_CORRUPT), 0,
     "one to four bits of a packet flip; needs --icrc on"},
    {"rate", "B", SROCE_FAULT_KIND_RATE,
     BIT(SROCE_FAULT_EGRESS) | BIT(SROCE_FAULT_INGRESS), 0,
     "limit of each direction, bytes per second, such as 100M, or max"},
    {"drop_acks", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_DROP_ACKS), 1,
     "requests are executed, but no acknowledgement is sent"},
    {"write_delay", "T", SROCE_FAULT_KIND_TIME, BIT(SROCE_FAULT_WRITE_DELAY), 0,
     "a WRITE is acknowledged immediately and becomes visible T later, at most "
     "10s"},
    {"qp_error", "[N]", SROCE_FAULT_KIND_NTH, BIT(SROCE_FAULT_ERROR_QP), 0,
     "all queue pairs, or every N-th, fail with IBV_EVENT_QP_FATAL"},
    {"clear", "", SROCE_FAULT_KIND_FIXED, 0, 0,
     "restores the state in which the rail was created"},
    {NULL, NULL, SROCE_FAULT_KIND_FIXED, 0, 0, NULL}};

const sroce_fault_action_def_t sroce_fault_gpu_action_defs[] = {
    {"down", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_GPU_LINK_DOWN), 1,
     "the links are down; copies over them fail"},
    {"up", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_GPU_LINK_DOWN), 0,
     "the links work again"},
    {"rate", "B", SROCE_FAULT_KIND_RATE, BIT(SROCE_FAULT_GPU_LINK_RATE), 0,
     "limit of the links, bytes per second, such as 100M, or max"},
    {"copy_error", "N", SROCE_FAULT_KIND_COUNT, BIT(SROCE_FAULT_GPU_COPY_ERROR),
     0, "the next N copies of this GPU's contexts fail"},
    {"ipc_error", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_GPU_IPC_ERROR), 1,
     "contexts of this GPU cannot open IPC handles"},
    {"no_memory", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_GPU_NO_MEMORY), 1,
     "allocations on the GPU fail"},
    {"no_dmabuf", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_GPU_NO_DMABUF), 1,
     "the driver does not support dma-buf descriptors"},
    {"no_peer", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_GPU_NO_PEER), 1,
     "access between this GPU and other GPUs is denied"},
    {"no_device", "", SROCE_FAULT_KIND_FIXED, BIT(SROCE_FAULT_GPU_NO_DEVICE), 1,
     "processes that call cuInit do not find the GPU"},
    {"clear", "", SROCE_FAULT_KIND_FIXED, 0, 0,
     "restores the state in which the GPU was created"},
    {NULL, NULL, SROCE_FAULT_KIND_FIXED, 0, 0, NULL}};

/* ---- Numbers ---- */

typedef struct fault_unit {
    const char *name;
    uint64_t factor;
} fault_unit_t;

static const fault_unit_t units_ns[] = {
    {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL, 0}};
static const fault_unit_t units_us[] = {
    {"us", 1}, {"ms", 1000}, {"s", 1000000}, {NULL, 0}};
static const fault_unit_t units_ppm[] = {
    {"", 1000000}, {"%", 10000}, {NULL, 0}};
static const fault_unit_t units_rate[] = {{"", 1},           {"k", 1000},
                                          {"K", 1000},       {"M", 1000000},
                                          {"G", 1000000000}, {NULL, 0}};
static const fault_unit_t units_bytes[] = {{"", 1},         {"k", 1u << 10},
                                           {"K", 1u << 10}, {"M", 1u << 20},
                                           {"G", 1u << 30}, {NULL, 0}};
static const fault_unit_t units_count[] = {{"", 1}, {NULL, 0}};

static const struct {
    const fault_unit_t *units;
    uint64_t min;
    uint64_t max;
    const char *what;
} quantities[SROCE_FAULT_Q_NUM] = {
    [SROCE_FAULT_Q_NS] = {units_ns, 0, 86400000000000ull,
                          "a time such as 10ms, 250us or 1s, at most 86400s"},
    [SROCE_FAULT_Q_US] =
        {units_us, 0, SROCE_FAULT_MAX_US,
         "a time such as 20us or 1.5ms, whole microseconds, at "
         "most 10s"},
    [SROCE_FAULT_Q_PPM] = {units_ppm, 0, 1000000,
                           "a probability from 0 to 1, such as 0.01 or 1%, in "
                           "millionths"},
    [SROCE_FAULT_Q_RATE] = {units_rate, 1000, 1000000000000ull,
                            "a rate from 1k to 1000G bytes per second, or "
                            "max"},
    [SROCE_FAULT_Q_BYTES] = {units_bytes, 0, UINT64_C(1) << 60,
                             "a number of bytes such as 65536, 64k or 4M"},
    [SROCE_FAULT_Q_COUNT] = {units_count, 1, UINT32_MAX,
                             "a number from 1 to 4294967295"},
    [SROCE_FAULT_Q_SEED] = {units_count, 0, UINT64_MAX,
                            "a number from 0 to 18446744073709551615"}};

static int is_digit(char c)
{
    return (c >= '0') && (c <= '9');
}

/* Reads digits from *p_p. *scale_p is set to 10^digits. Returns -ERANGE if the
 * value overflows. */
static int read_digits(const char **p_p, uint64_t *value_p, uint64_t *scale_p)
{
    const char *p = *p_p;
    uint64_t value = 0, scale = 1;
    int ret = is_digit(*p) ? 0 : -EINVAL;

    for (; is_digit(*p); ++p) {
        unsigned digit = (unsigned)(*p - '0');

        if (value > (UINT64_MAX - digit) / 10) {
            ret = -ERANGE;
            continue;
        }
        value = value * 10 + digit;
        scale = (scale > UINT64_MAX / 10) ? scale : scale * 10;
    }
    *p_p = p;
    *value_p = value;
    *scale_p = scale;
    return ret;
}

/* Returns 0, -EINVAL, -ERANGE (too large) or -EDOM (finer than the unit
 * resolves). */
static int read_number(const fault_unit_t *unit, const char *word,
                       uint64_t *value_p)
{
    uint64_t whole, part = 0, scale = 1;
    int ret = read_digits(&word, &whole, &scale), fine = 0;

    scale = 1;
    if ((ret != -EINVAL) && (*word == '.')) {
        ++word;
        fine = read_digits(&word, &part, &scale);
    }
    if ((ret == -EINVAL) || (fine == -EINVAL)) {
        return -EINVAL;
    }
    while ((unit->name != NULL) && (strcmp(unit->name, word) != 0)) {
        ++unit;
    }
    if (unit->name == NULL) {
        return -EINVAL;
    }
    if ((fine != 0) || (scale > 1000000000)) {
        return -EDOM;
    }
    if ((part * unit->factor) % scale != 0) {
        return -EDOM;
    }
    part = part * unit->factor / scale;
    if ((ret != 0) || (whole > (UINT64_MAX - part) / unit->factor)) {
        return -ERANGE;
    }
    *value_p = whole * unit->factor + part;
    return 0;
}

int sroce_fault_number_read(sroce_fault_quantity_t quantity, const char *word,
                            uint64_t *value_p, char *reason, size_t size)
{
    uint64_t value = 0;
    int ret = read_number(quantities[quantity].units, word, &value);

    if (ret == 0) {
        ret = (value < quantities[quantity].min)   ? -EINVAL
              : (value > quantities[quantity].max) ? -ERANGE
                                                   : 0;
    }
    if (ret == 0) {
        *value_p = value;
        return 0;
    }
    snprintf(reason, size, "'%.40s' is %s %s", word,
             (ret == -ERANGE) ? "too large for"
             : (ret == -EDOM) ? "too fine for"
                              : "not",
             quantities[quantity].what);
    return -EINVAL;
}

/* ---- Values, by kind ---- */

typedef int (*read_func_t)(char *const *words, unsigned num,
                           sroce_fault_action_t *fault, char *reason,
                           size_t size);

static int read_fixed(char *const *words, unsigned num,
                      sroce_fault_action_t *fault, char *reason, size_t size)
{
    fault->value = fault->action->value;
    return 0;
}

static int read_ppm(char *const *words, unsigned num,
                    sroce_fault_action_t *fault, char *reason, size_t size)
{
    return sroce_fault_number_read(SROCE_FAULT_Q_PPM, words[0], &fault->value,
                                   reason, size);
}

static int read_side(char *const *words, unsigned num,
                     sroce_fault_action_t *fault, char *reason, size_t size)
{
    static const struct {
        const char *name;
        uint32_t settings;
    } sides[] = {{"tx", BIT(SROCE_FAULT_BLACKHOLE_TX)},
                 {"rx", BIT(SROCE_FAULT_BLACKHOLE_RX)},
                 {"both", BIT(SROCE_FAULT_BLACKHOLE_TX) |
                              BIT(SROCE_FAULT_BLACKHOLE_RX)}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(sides); ++i) {
        if (strcmp(words[0], sides[i].name) == 0) {
            fault->settings = sides[i].settings;
            fault->value = 1;
            return 0;
        }
    }
    snprintf(reason, size, "'%.40s' is invalid; expected tx, rx or both",
             words[0]);
    return -EINVAL;
}

static int read_time(char *const *words, unsigned num,
                     sroce_fault_action_t *fault, char *reason, size_t size)
{
    return sroce_fault_number_read(SROCE_FAULT_Q_US, words[0], &fault->value,
                                   reason, size);
}

static int read_reorder(char *const *words, unsigned num,
                        sroce_fault_action_t *fault, char *reason, size_t size)
{
    uint64_t ppm, span_us = DEFAULT_SPAN_US;

    if ((sroce_fault_number_read(SROCE_FAULT_Q_PPM, words[0], &ppm, reason,
                                 size) != 0) ||
        ((num > 1) && (sroce_fault_number_read(SROCE_FAULT_Q_US, words[1],
                                               &span_us, reason, size) != 0))) {
        return -EINVAL;
    }
    fault->value = sroce_fault_reorder((uint32_t)ppm, (uint32_t)span_us);
    return 0;
}

static int read_rate(char *const *words, unsigned num,
                     sroce_fault_action_t *fault, char *reason, size_t size)
{
    if (strcmp(words[0], "max") == 0) {
        fault->value = 0;
        return 0;
    }
    return sroce_fault_number_read(SROCE_FAULT_Q_RATE, words[0], &fault->value,
                                   reason, size);
}

static int read_nth(char *const *words, unsigned num,
                    sroce_fault_action_t *fault, char *reason, size_t size)
{
    fault->value = 1;
    return (num == 0) ? 0
                      : sroce_fault_number_read(SROCE_FAULT_Q_COUNT, words[0],
                                                &fault->value, reason, size);
}

static const struct {
    unsigned min_words;
    unsigned max_words;
    read_func_t read;
} kinds[SROCE_FAULT_KIND_NUM] = {
    [SROCE_FAULT_KIND_FIXED] = {0, 0, read_fixed},
    [SROCE_FAULT_KIND_PPM] = {1, 1, read_ppm},
    [SROCE_FAULT_KIND_SIDE] = {1, 1, read_side},
    [SROCE_FAULT_KIND_TIME] = {1, 1, read_time},
    [SROCE_FAULT_KIND_REORDER] = {1, 2, read_reorder},
    [SROCE_FAULT_KIND_RATE] = {1, 1, read_rate},
    [SROCE_FAULT_KIND_NTH] = {0, 1, read_nth},
    [SROCE_FAULT_KIND_COUNT] = {1, 1, read_nth}};

static void report_unknown(const sroce_fault_action_def_t *defs,
                           const char *word, char *reason, size_t size)
{
    int used = snprintf(reason, size, "'%.40s' is not an action:", word);

    for (const sroce_fault_action_def_t *a = defs;
         (a->name != NULL) && ((size_t)used < size); ++a) {
        used += snprintf(reason + used, size - (size_t)used, " %s%s", a->name,
                         (a[1].name != NULL) ? "," : "");
    }
}

int sroce_fault_action_read(const sroce_fault_action_def_t *defs,
                            char *const *words, unsigned num_words,
                            sroce_fault_action_t *fault_p, char *reason,
                            size_t size)
{
    const sroce_fault_action_def_t *action = defs;
    sroce_fault_action_t fault;
    unsigned num = num_words - 1;

    while ((action->name != NULL) && (strcmp(action->name, words[0]) != 0)) {
        ++action;
    }
    if (action->name == NULL) {
        report_unknown(defs, words[0], reason, size);
        return -ENOENT;
    }
    if (num < kinds[action->kind].min_words) {
        snprintf(reason, size, "'%s' requires a value; the syntax is '%s %s'",
                 action->name, action->name, action->syntax);
        return -EINVAL;
    }
    if (num > kinds[action->kind].max_words) {
        snprintf(reason, size,
                 "unexpected word '%.40s'; the syntax is '%s%s%s'",
                 words[1 + kinds[action->kind].max_words], action->name,
                 (action->syntax[0] != '\0') ? " " : "", action->syntax);
        return -EINVAL;
    }
    fault = (sroce_fault_action_t){action, action->settings, 0};
    if (kinds[action->kind].read(words + 1, num, &fault, reason, size) != 0) {
        return -EINVAL;
    }
    *fault_p = fault;
    return 0;
}
