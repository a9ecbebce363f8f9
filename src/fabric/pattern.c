#include "config.h"
#include "fabric/pattern.h"

#include "base/grow.h"
#include "base/number.h"
#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int has_argument;
} kinds[MRAIL_PATTERN_NUM_KINDS] = {
    [MRAIL_PATTERN_ALLTOALL] = {"alltoall", 0},
    [MRAIL_PATTERN_RING] = {"ring", 0},
    [MRAIL_PATTERN_SHIFT] = {"shift", 1},
    [MRAIL_PATTERN_DOUBLING] = {"doubling", 0},
    [MRAIL_PATTERN_HOTSPOT] = {"hotspot", 1},
};

#define FAIL(...) (snprintf(reason, reason_size, __VA_ARGS__), -EINVAL)

/* ---- Text ---- */

static int parse_hosts(const char *text, mrail_pattern_t *pattern, char *reason,
                       size_t reason_size)
{
    char first[12];
    size_t length = strcspn(text, "-");
    uint64_t from, to;

    if (strcmp(text, "even") == 0 || strcmp(text, "odd") == 0) {
        pattern->first = (text[0] == 'o');
        pattern->step = 2;
        return 0;
    }
    snprintf(first, sizeof(first), "%.*s", (int)MRAIL_MIN(length, 11u), text);
    if (text[length] != '-' ||
        mrail_number_uint(first, 0, pattern->last, &from) != 0 ||
        mrail_number_uint(text + length + 1, 0, pattern->last, &to) != 0 ||
        from > to) {
        return FAIL(
            "'@%.40s' selects no hosts; expected @even, @odd or @FIRST-LAST, "
            "from 0 to %u",
            text, pattern->last);
    }
    pattern->first = (uint32_t)from;
    pattern->last = (uint32_t)to;
    return 0;
}

static int parse_argument(const char *text, mrail_pattern_t *pattern,
                          char *reason, size_t reason_size)
{
    uint64_t shift;
    uint32_t ppm;

    if (pattern->kind == MRAIL_PATTERN_SHIFT) {
        if (mrail_number_uint(text, 1, MRAIL_FABRIC_MAX_NODES, &shift) != 0) {
            return FAIL("shift:%.40s: expected a number of hosts, at least 1",
                        text);
        }
        pattern->shift = (uint32_t)shift;
    } else {
        if (mrail_number_ppm(text, &ppm) != 0) {
            return FAIL("hotspot:%.40s: expected a fraction from 0 to 1", text);
        }
        pattern->hot = ppm / 1e6;
    }
    return 0;
}

static int find_kind(const char *name, mrail_pattern_kind_t *kind_p)
{
    for (unsigned k = 0; k < MRAIL_PATTERN_NUM_KINDS; ++k) {
        if (strcmp(kinds[k].name, name) == 0) {
            *kind_p = (mrail_pattern_kind_t)k;
            return 1;
        }
    }
    return 0;
}

static int check_hosts(const mrail_pattern_t *pattern, const char *name,
                       char *reason, size_t reason_size)
{
    uint32_t hosts = mrail_pattern_num_hosts(pattern);

    if (hosts < 2) {
        return FAIL("%s with %u hosts: an exchange needs at least two", name,
                    hosts);
    }
    if (pattern->kind == MRAIL_PATTERN_DOUBLING && (hosts & (hosts - 1)) != 0) {
        return FAIL("doubling with %u hosts: the number must be a power of two",
                    hosts);
    }
    if (pattern->kind == MRAIL_PATTERN_SHIFT && pattern->shift % hosts == 0) {
        return FAIL("shift:%u with %u hosts: each host would send to itself",
                    pattern->shift, hosts);
    }
    return 0;
}

int mrail_pattern_parse(const char *text, const mrail_fabric_t *fabric,
                        mrail_pattern_t *pattern_p, char *reason,
                        size_t reason_size)
{
    mrail_pattern_t pattern = {.last = fabric->num_of[MRAIL_FABRIC_HOST] - 1,
                               .step = 1};
    char copy[128], *hosts, *argument;
    int ret = 0;

    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy)) {
        return FAIL("'%.40s...' is too long for a pattern", text);
    }
    hosts = strchr(copy, '@');
    if (hosts != NULL) {
        *hosts++ = '\0';
    }
    argument = strchr(copy, ':');
    if (argument != NULL) {
        *argument++ = '\0';
    }
    if (!find_kind(copy, &pattern.kind)) {
        return FAIL(
            "'%.40s' is not a pattern; expected alltoall, ring, shift:K, "
            "doubling or hotspot:F",
            copy);
    }
    if ((argument != NULL) != kinds[pattern.kind].has_argument) {
        return FAIL((argument != NULL) ? "%s takes no argument"
                                       : "%s needs an argument: shift:K, "
                                         "hotspot:F",
                    copy);
    }
    if (argument != NULL) {
        ret = parse_argument(argument, &pattern, reason, reason_size);
    }
    if (ret == 0 && hosts != NULL) {
        ret = parse_hosts(hosts, &pattern, reason, reason_size);
    }
    if (ret == 0) {
        ret = check_hosts(&pattern, copy, reason, reason_size);
    }
    if (ret == 0) {
        *pattern_p = pattern;
    }
    return ret;
}

/* ---- Messages ---- */

uint32_t mrail_pattern_num_hosts(const mrail_pattern_t *pattern)
{
    return (pattern->last < pattern->first)
               ? 0
               : (pattern->last - pattern->first) / pattern->step + 1;
}

uint32_t mrail_pattern_num_phases(const mrail_pattern_t *pattern)
{
    uint32_t hosts = mrail_pattern_num_hosts(pattern), phases = 0;

    if (pattern->kind != MRAIL_PATTERN_DOUBLING) {
        return 1;
    }
    while (hosts > 1u << phases) {
        ++phases;
    }
    return phases;
}

typedef struct list {
    const mrail_pattern_t *pattern;
    const mrail_fabric_t *fabric;
    mrail_sim_message_t *messages;
    uint32_t num, allocated;
} list_t;

static const mrail_fabric_node_t *host_of(const list_t *list, uint32_t i)
{
    uint32_t place = list->pattern->first + i * list->pattern->step;

    return &list->fabric->nodes[list->fabric->of[MRAIL_FABRIC_HOST][place]];
}

/* Adds the bytes from host `from` to host `to`, split across all rails that
 * both hosts have. */
static int add(list_t *list, uint32_t from, uint32_t to, double bytes)
{
    const mrail_fabric_node_t *source = host_of(list, from);
    const mrail_fabric_node_t *target = host_of(list, to);
    uint32_t rails = MRAIL_MIN(source->num_up, target->num_up);

    if (rails == 0) {
        return -ENODEV;
    }
    if (bytes <= 0) {
        return 0;
    }
    if (list->num + rails > list->allocated) {
        uint32_t allocated =
            MRAIL_MAX(2 * list->allocated, list->num + rails + 256);

        if (!mrail_grow(&list->messages, allocated, sizeof(*list->messages))) {
            return -ENOMEM;
        }
        list->allocated = allocated;
    }
    for (uint32_t r = 0; r < rails; ++r) {
        list->messages[list->num++] = (mrail_sim_message_t){
            .from = source->up[r], .to = target->up[r], .bytes = bytes / rails};
    }
    return 0;
}

/* Adds the bytes that host i sends to all other hosts. Host 0 receives the
 * fraction `hot` of them. */
static int add_all(list_t *list, uint32_t i, uint32_t hosts, double bytes,
                   double hot)
{
    uint32_t others = hosts - 1 - (hot > 0 && i != 0);
    int ret = 0;

    hot = (others == 0) ? 1 : hot; /* with two hosts, all bytes go to host 0 */

    for (uint32_t j = 0; j < hosts && ret == 0; ++j) {
        int is_hot = (hot > 0 && j == 0);

        if (j != i) {
            double part = (hot > 0 && i != 0) ? 1 - hot : 1;

            ret = add(list, i, j, is_hot ? hot * bytes : part * bytes / others);
        }
    }
    return ret;
}

static int add_host(list_t *list, uint32_t i, uint32_t hosts, uint32_t phase,
                    double bytes)
{
    const mrail_pattern_t *pattern = list->pattern;

    switch (pattern->kind) {
    case MRAIL_PATTERN_RING:
        return add(list, i, (i + 1) % hosts, bytes);
    case MRAIL_PATTERN_SHIFT:
        return add(list, i, (i + pattern->shift) % hosts, bytes);
    case MRAIL_PATTERN_DOUBLING:
        return add(list, i, i ^ (1u << phase), bytes);
    case MRAIL_PATTERN_HOTSPOT:
        return add_all(list, i, hosts, bytes, pattern->hot);
    default:
        return add_all(list, i, hosts, bytes, 0);
    }
}

int mrail_pattern_messages(const mrail_pattern_t *pattern,
                           const mrail_fabric_t *fabric, uint32_t phase,
                           double bytes, mrail_sim_message_t **messages_p,
                           uint32_t *num_p)
{
    list_t list = {.pattern = pattern,
                   .fabric = fabric,
                   .messages = *messages_p,
                   .num = *num_p,
                   .allocated = *num_p};
    uint32_t hosts = mrail_pattern_num_hosts(pattern);
    int ret = 0;

    if (phase >= mrail_pattern_num_phases(pattern)) {
        return 0;
    }
    for (uint32_t i = 0; i < hosts && ret == 0; ++i) {
        ret = add_host(&list, i, hosts, phase, bytes);
    }
    *messages_p = list.messages;
    *num_p = list.num;
    return ret;
}
