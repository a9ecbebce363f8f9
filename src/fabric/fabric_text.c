/* Parses fabrics: statements, host lists and addresses. See mrail-fabric(5). */
#include "config.h"
#include "fabric/fabric_internal.h"

#include "base/grow.h"
#include "base/number.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#define MIN_RATE UINT64_C(8000)             /* bits per second: 1 kB/s */
#define MAX_RATE UINT64_C(8000000000000000) /* 1000 TB/s */

typedef struct name_list {
    uint32_t *nodes;
    uint32_t num, allocated;
} name_list_t;

typedef int (*name_func_t)(fabric_builder_t *builder, const char *name,
                           void *arg);

/* ---- Host lists: h1, h[1-8], l[01-16], s[1,3-4],t ---- */

static int is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

static int call_name(fabric_builder_t *builder, const char *name,
                     name_func_t func, void *arg)
{
    const char *p = name;

    while (is_name_byte(*p)) {
        ++p;
    }
    if (*p != '\0' || !isalpha((unsigned char)*name)) {
        return mrail_text_fail(
            builder->line,
            "'%.40s' is not a name; expected a letter, followed by letters, "
            "digits, '_', '.' and '-', or a list such as h[1-8]",
            name);
    }
    if (strlen(name) > MRAIL_FABRIC_MAX_NAME) {
        return mrail_text_fail(builder->line,
                               "'%.40s' is too long: a name has at most %d "
                               "bytes",
                               name, MRAIL_FABRIC_MAX_NAME);
    }
    return func(builder, name, arg);
}

/* Reads "3" or "08-11" from a bracket. All numbers are padded to the width of
 * the first one. */
static int each_number(fabric_builder_t *builder, const char *prefix,
                       const char *part, name_func_t func, void *arg)
{
    char first[12], name[MRAIL_FABRIC_MAX_NAME + 16];
    size_t width = strcspn(part, "-");
    const char *last = part + width + (part[width] == '-');
    uint64_t from, to;
    int ret = 0;

    snprintf(first, sizeof(first), "%.*s",
             (int)MRAIL_MIN(width, sizeof(first) - 1), part);
    if (width >= sizeof(first) - 1 ||
        mrail_number_uint(first, 0, UINT32_MAX, &from) != 0 ||
        mrail_number_uint((part[width] == '-') ? last : first, 0, UINT32_MAX,
                          &to) != 0 ||
        from > to || to - from >= MRAIL_FABRIC_MAX_NODES) {
        return mrail_text_fail(
            builder->line,
            "'%.40s' in brackets is not a range; expected 3, 1-8 or 01-16, "
            "with at most %d numbers",
            part, MRAIL_FABRIC_MAX_NODES);
    }
    for (uint64_t i = from; i <= to && ret == 0; ++i) {
        snprintf(name, sizeof(name), "%s%0*llu", prefix, (int)width,
                 (unsigned long long)i);
        ret = call_name(builder, name, func, arg);
    }
    return ret;
}

/* Reads one item of a list. Modifies `item`. */
static int each_item(fabric_builder_t *builder, char *item, name_func_t func,
                     void *arg)
{
    char *open = strchr(item, '['), *save = NULL;
    size_t length = strlen(item);
    int ret = 0;

    if (open == NULL) {
        return call_name(builder, item, func, arg);
    }
    if (item[length - 1] != ']' || open[1] == ']' ||
        open - item > MRAIL_FABRIC_MAX_NAME) {
        return mrail_text_fail(
            builder->line,
            "'%.40s' is not a list; expected h[1-8] or h[1,3-5], with the "
            "brackets at the end",
            item);
    }
    *open = item[length - 1] = '\0';
    for (char *part = strtok_r(open + 1, ",", &save); part != NULL && ret == 0;
         part = strtok_r(NULL, ",", &save)) {
        ret = each_number(builder, item, part, func, arg);
    }
    return ret;
}

/* Calls `func` for each name in the word, in order. */
static int each_name(fabric_builder_t *builder, char *word, name_func_t func,
                     void *arg)
{
    int ret = 0, is_inside = 0;
    char *item = word;

    for (char *p = word; ret == 0; ++p) {
        is_inside += (*p == '[') - (*p == ']');
        if (*p == '\0' || (*p == ',' && !is_inside)) {
            int is_end = (*p == '\0');

            *p = '\0';
            ret = each_item(builder, item, func, arg);
            if (is_end) {
                break;
            }
            item = p + 1;
        }
    }
    return ret;
}

static uint32_t find_node(const fabric_builder_t *builder, const char *name)
{
    for (uint32_t i = 0; i < builder->num_nodes; ++i) {
        if (strcmp(builder->nodes[i].name, name) == 0) {
            return i;
        }
    }
    return MRAIL_FABRIC_NONE;
}

static int collect_name(fabric_builder_t *builder, const char *name, void *arg)
{
    uint32_t node = find_node(builder, name);
    name_list_t *list = arg;

    if (node == MRAIL_FABRIC_NONE) {
        return mrail_text_fail(
            builder->line,
            "there is no node '%s'; declare it above as host, leaf, spine or "
            "core",
            name);
    }
    if (list->num == list->allocated) {
        uint32_t allocated = MRAIL_MAX(64, 2 * list->allocated);

        if (!mrail_grow(&list->nodes, allocated, sizeof(*list->nodes))) {
            return -ENOMEM;
        }
        list->allocated = allocated;
    }
    list->nodes[list->num++] = node;
    return 0;
}

/* ---- host, leaf, spine, core ---- */

static int declare_name(fabric_builder_t *builder, const char *name, void *arg)
{
    const mrail_fabric_tier_t *tier = arg;
    uint32_t found = find_node(builder, name);

    if (found != MRAIL_FABRIC_NONE) {
        return mrail_text_fail(
            builder->line, "'%s' is already a %s, by line %u", name,
            mrail_fabric_tier_name(builder->nodes[found].tier),
            builder->node_lines[found]);
    }
    if (builder->num_nodes == MRAIL_FABRIC_MAX_NODES) {
        return mrail_text_fail(builder->line,
                               "a fabric can have at most %d nodes",
                               MRAIL_FABRIC_MAX_NODES);
    }
    if (builder->num_nodes == builder->nodes_allocated) {
        uint32_t allocated = MRAIL_MAX(64, 2 * builder->nodes_allocated);

        if (!mrail_grow(&builder->nodes, allocated, sizeof(*builder->nodes)) ||
            !mrail_grow(&builder->node_lines, allocated,
                        sizeof(*builder->node_lines))) {
            return -ENOMEM;
        }
        builder->nodes_allocated = allocated;
    }
    builder->node_lines[builder->num_nodes] = builder->line->number;
    builder->nodes[builder->num_nodes] = (mrail_fabric_node_t){.tier = *tier};
    strcpy(builder->nodes[builder->num_nodes].name, name);
    ++builder->num_nodes;
    return 0;
}

static int read_nodes(fabric_builder_t *builder, mrail_fabric_tier_t tier)
{
    int ret = 0;

    for (unsigned i = 1; i < builder->line->num && ret == 0; ++i) {
        ret = each_name(builder, builder->line->words[i], declare_name, &tier);
    }
    return ret;
}

/* ---- link ---- */

static int add_link(fabric_builder_t *builder, uint32_t lower, uint32_t upper,
                    uint64_t bytes_per_s)
{
    const mrail_fabric_node_t *low = &builder->nodes[lower];
    const mrail_fabric_node_t *high = &builder->nodes[upper];

    if (high->tier != low->tier + 1) {
        return mrail_text_fail(
            builder->line,
            "a link cannot lead from %s '%s' to %s '%s'; links go one tier up, "
            "from host to leaf, leaf to spine, or spine to core; other links "
            "would form loops",
            mrail_fabric_tier_name(low->tier), low->name,
            mrail_fabric_tier_name(high->tier), high->name);
    }
    if (builder->num_links == MRAIL_FABRIC_MAX_LINKS) {
        return mrail_text_fail(builder->line,
                               "a fabric can have at most %d links",
                               MRAIL_FABRIC_MAX_LINKS);
    }
    if (builder->num_links == builder->links_allocated) {
        uint32_t allocated = MRAIL_MAX(256, 2 * builder->links_allocated);

        if (!mrail_grow(&builder->links, allocated, sizeof(*builder->links)) ||
            !mrail_grow(&builder->link_lines, allocated,
                        sizeof(*builder->link_lines))) {
            return -ENOMEM;
        }
        builder->links_allocated = allocated;
    }
    builder->link_lines[builder->num_links] = builder->line->number;
    builder->links[builder->num_links++] = (mrail_fabric_link_t){
        .lower = lower, .upper = upper, .bytes_per_s = bytes_per_s};
    return 0;
}

/* With `block`, each upper node is linked to the same number of consecutive
 * lower nodes. */
static int is_linked(const name_list_t *lower, const name_list_t *upper,
                     uint32_t i, uint32_t j, int is_block)
{
    return !is_block || i / (lower->num / upper->num) == j;
}

static int add_links(fabric_builder_t *builder, const name_list_t *lower,
                     const name_list_t *upper, uint64_t bytes_per_s,
                     unsigned parallel, int is_block)
{
    int ret = 0;

    if (is_block && lower->num % upper->num != 0) {
        return mrail_text_fail(
            builder->line,
            "cannot divide %u nodes into blocks over %u nodes; the first "
            "number must be a multiple of the second",
            lower->num, upper->num);
    }
    for (uint32_t i = 0; i < lower->num; ++i) {
        for (uint32_t j = 0; j < upper->num; ++j) {
            for (unsigned k = 0; k < parallel && ret == 0; ++k) {
                ret = is_linked(lower, upper, i, j, is_block)
                          ? add_link(builder, lower->nodes[i], upper->nodes[j],
                                     bytes_per_s)
                          : 0;
            }
        }
    }
    return ret;
}

static int read_rate(mrail_text_line_t *line, const char *word,
                     uint64_t *bytes_per_s_p)
{
    uint64_t bits;

    if (mrail_number_rate(word, 0, MIN_RATE, MAX_RATE, &bits) != 0) {
        return mrail_text_fail(
            line,
            "'%.40s' is not a link rate; expected a rate such as 100MB (bytes "
            "per second) or 400Gb (bits per second), from 1kB to 1000TB",
            word);
    }
    *bytes_per_s_p = bits / 8;
    return 0;
}

/* Reads the words after the rate, "xN" and "block", in any order. */
static int read_link_options(mrail_text_line_t *line, uint64_t *parallel_p,
                             int *is_block_p)
{
    for (unsigned i = 4; i < line->num; ++i) {
        const char *word = line->words[i];

        if (strcmp(word, "block") == 0) {
            *is_block_p = 1;
        } else if (word[0] != 'x' ||
                   mrail_number_uint(word + 1, 1, MRAIL_FABRIC_MAX_UPLINKS,
                                     parallel_p) != 0) {
            return mrail_text_fail(
                line,
                "'%.40s' is not a link option; expected xN for N parallel "
                "links, 1 to %d, or block",
                word, MRAIL_FABRIC_MAX_UPLINKS);
        }
    }
    return 0;
}

static int read_link(fabric_builder_t *builder)
{
    mrail_text_line_t *line = builder->line;
    name_list_t lower = {0}, upper = {0};
    uint64_t bytes_per_s = 0, parallel = 1;
    int is_block = 0;
    int ret = read_rate(line, line->words[3], &bytes_per_s);

    if (ret == 0) {
        ret = read_link_options(line, &parallel, &is_block);
    }
    if (ret == 0) {
        ret = each_name(builder, line->words[1], collect_name, &lower);
    }
    if (ret == 0) {
        ret = each_name(builder, line->words[2], collect_name, &upper);
    }
    if (ret == 0) {
        ret = add_links(builder, &lower, &upper, bytes_per_s,
                        (unsigned)parallel, is_block);
    }
    free(lower.nodes);
    free(upper.nodes);
    return ret;
}

/* ---- address ---- */

/* Returns the first link between the two nodes that has no address, or else any
 * link. */
static uint32_t link_between(const fabric_builder_t *builder, uint32_t host,
                             uint32_t leaf)
{
    uint32_t found = MRAIL_FABRIC_NONE;

    for (uint32_t i = 0; i < builder->num_links; ++i) {
        const mrail_fabric_link_t *link = &builder->links[i];

        if (link->lower == host && link->upper == leaf) {
            if (link->addr == 0) {
                return i;
            }
            found = i;
        }
    }
    return found;
}

static int read_address(fabric_builder_t *builder)
{
    mrail_text_line_t *line = builder->line;
    char *const *words = line->words;
    uint32_t host = find_node(builder, words[1]);
    uint32_t leaf = find_node(builder, words[2]);
    struct in_addr addr;
    uint32_t link = (host == MRAIL_FABRIC_NONE || leaf == MRAIL_FABRIC_NONE)
                        ? MRAIL_FABRIC_NONE
                        : link_between(builder, host, leaf);

    if (link == MRAIL_FABRIC_NONE) {
        return mrail_text_fail(line,
                               "there is no link from '%.31s' to '%.31s': "
                               "the 'link' line must precede the 'address' "
                               "line",
                               words[1], words[2]);
    }
    if (builder->links[link].addr != 0) {
        return mrail_text_fail(line, "'%s' already has an address on '%s'",
                               words[1], words[2]);
    }
    if (inet_pton(AF_INET, words[3], &addr) != 1) {
        return mrail_text_fail(line, "'%.40s' is not an IPv4 address",
                               words[3]);
    }
    builder->links[link].addr = ntohl(addr.s_addr);
    if (builder->links[link].addr >> 24 == 0 ||
        builder->links[link].addr >> 24 == 127 ||
        builder->links[link].addr >> 24 >= 224) {
        return mrail_text_fail(line, "%s is not a host address", words[3]);
    }
    /* Messages about the address refer to this line. */
    builder->link_lines[link] = line->number;
    return 0;
}

/* ---- Statements ---- */

static int read_hosts(fabric_builder_t *builder)
{
    return read_nodes(builder, MRAIL_FABRIC_HOST);
}

static int read_leaves(fabric_builder_t *builder)
{
    return read_nodes(builder, MRAIL_FABRIC_LEAF);
}

static int read_spines(fabric_builder_t *builder)
{
    return read_nodes(builder, MRAIL_FABRIC_SPINE);
}

static int read_cores(fabric_builder_t *builder)
{
    return read_nodes(builder, MRAIL_FABRIC_CORE);
}

static const struct {
    const char *word, *form;
    unsigned min_words, max_words;
    int (*read)(fabric_builder_t *builder);
} statements[] = {
    {"host", "host NAMES", 2, MRAIL_TEXT_MAX_WORDS, read_hosts},
    {"leaf", "leaf NAMES", 2, MRAIL_TEXT_MAX_WORDS, read_leaves},
    {"spine", "spine NAMES", 2, MRAIL_TEXT_MAX_WORDS, read_spines},
    {"core", "core NAMES", 2, MRAIL_TEXT_MAX_WORDS, read_cores},
    {"link", "link LOWER UPPER RATE [xN] [block]", 4, 6, read_link},
    {"address", "address HOST LEAF ADDRESS", 4, 4, read_address},
};

static int read_line(mrail_text_line_t *line, void *arg)
{
    fabric_builder_t *builder = arg;

    builder->line = line;
    if (line->num == 0) {
        return fabric_finish(builder);
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(statements); ++i) {
        if (strcmp(line->words[0], statements[i].word) != 0) {
            continue;
        }
        if (line->num < statements[i].min_words ||
            line->num > statements[i].max_words) {
            return mrail_text_fail(
                line, "too %s words: %s",
                (line->num < statements[i].min_words) ? "few" : "many",
                statements[i].form);
        }
        return statements[i].read(builder);
    }
    return mrail_text_fail(
        line,
        "'%.40s' is not a statement; expected host, leaf, spine, core, link or "
        "address",
        line->words[0]);
}

int mrail_fabric_parse(const char *name, const char *text, size_t length,
                       mrail_fabric_t **fabric_p, char *reason,
                       size_t reason_size)
{
    fabric_builder_t builder = {0};
    int ret = mrail_text_each(name, text, length, MRAIL_FABRIC_MAX_TEXT,
                              read_line, &builder, reason, reason_size);

    free(builder.nodes);
    free(builder.links);
    free(builder.node_lines);
    free(builder.link_lines);
    if (ret == 0) {
        *fabric_p = builder.fabric;
    }
    return ret;
}
