/*
 * Reads the entries of extended access lists, as in IOS and EOS:
 *
 *   [SEQUENCE] permit|deny PROTOCOL SOURCE [PORTS] DESTINATION [PORTS] [dscp N]
 *
 * Only entries that can match RoCEv2 packets to any destination count. An entry
 * with a destination exempts local hosts. An entry with further conditions
 * exempts the packets that do not meet them.
 */
#include "config.h"
#include "fabric/acl_internal.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

typedef struct port_set {
    int is_given; /* the entry has an operator */
    /* 1 if the port has a name instead of a number, so it is not one of ours */
    int is_named;
    unsigned num;
    unsigned first[2], last[2];
} port_set_t;

static int is_number(const char *word)
{
    return isdigit((unsigned char)word[0]);
}

static int read_port(acl_reader_t *reader, const acl_line_t *line, unsigned at,
                     port_set_t *ports, unsigned long *value_p)
{
    *value_p = 0;
    if (at >= line->num) {
        return acl_fail(reader, "a port is missing at the end");
    }
    if (!is_number(line->words[at])) {
        ports->is_named = 1;
        return 0;
    }
    return acl_number(reader, line->words[at], "port", UINT16_MAX, value_p);
}

static void add_ports(port_set_t *ports, long first, long last)
{
    if (first <= last) {
        ports->first[ports->num] = (unsigned)first;
        ports->last[ports->num] = (unsigned)last;
        ++ports->num;
    }
}

static int read_range(acl_reader_t *reader, const acl_line_t *line,
                      unsigned *at_p, port_set_t *ports)
{
    unsigned long first, last;

    if (read_port(reader, line, *at_p, ports, &first) != 0 ||
        read_port(reader, line, *at_p + 1, ports, &last) != 0) {
        return -EINVAL;
    }
    if (first > last && !ports->is_named) {
        return acl_fail(reader, "range %lu %lu: the lower port must come first",
                        first, last);
    }
    add_ports(ports, (long)first, (long)last);
    *at_p += 2;
    return 0;
}

/* Reads "range A B", "eq N", "gt N", "lt N", "neq N", or nothing, which means
 * all ports, at *at_p. */
static int read_ports(acl_reader_t *reader, const acl_line_t *line,
                      unsigned *at_p, port_set_t *ports)
{
    static const char *const operators[] = {"range", "eq", "gt", "lt", "neq"};
    unsigned kind = 0;
    unsigned long value;

    *ports = (port_set_t){.is_given = 1};
    while (kind < MRAIL_ARRAY_SIZE(operators) &&
           !ACL_HAS(line, *at_p, operators[kind])) {
        ++kind;
    }
    if (kind == MRAIL_ARRAY_SIZE(operators)) {
        ports->is_given = 0;
        add_ports(ports, 0, UINT16_MAX);
        return 0;
    }
    ++*at_p;
    if (kind == 0) {
        return read_range(reader, line, at_p, ports);
    }
    if (read_port(reader, line, *at_p, ports, &value) != 0) {
        return -EINVAL;
    }
    ++*at_p;
    if (kind == 1) {
        add_ports(ports, (long)value, (long)value);
    }
    if (kind == 3 || kind == 4) {
        add_ports(ports, 0, (long)value - 1);
    }
    if (kind == 2 || kind == 4) {
        add_ports(ports, (long)value + 1, UINT16_MAX);
    }
    return 0;
}

/* Reads "any", "host A", "A/LENGTH" or "A WILDCARD" at *at_p. */
static int read_address(acl_reader_t *reader, const acl_line_t *line,
                        unsigned *at_p, int *is_any_p)
{
    unsigned at = *at_p;

    *is_any_p = 0;
    if (at >= line->num) {
        return acl_fail(reader, "an address is missing at the end");
    }
    if (strcmp(line->words[at], "any") == 0) {
        *is_any_p = 1;
        *at_p += 1;
    } else if (strchr(line->words[at], '/') != NULL) {
        *at_p += 1;
    } else if (at + 1 < line->num && (strcmp(line->words[at], "host") == 0 ||
                                      acl_is_ipv4(line->words[at]))) {
        *at_p += 2;
    } else {
        return acl_fail(
            reader,
            "'%.40s' is not an address; expected any, host ADDRESS, ADDRESS "
            "WILDCARD or PREFIX",
            line->words[at]);
    }
    return 0;
}

static int has_roce(const port_set_t *ports)
{
    for (unsigned i = 0; i < ports->num; ++i) {
        if (ports->first[i] <= ACL_ROCE_PORT &&
            ports->last[i] >= ACL_ROCE_PORT) {
            return !ports->is_named;
        }
    }
    return 0;
}

/* Reads the words after the ports. An unknown word may be a condition. */
static int read_conditions(acl_reader_t *reader, const acl_line_t *line,
                           unsigned at, acl_match_t *match)
{
    for (; at < line->num; ++at) {
        const char *word = line->words[at];
        int ret = 0;

        if (word[0] == '(' || word[0] == '[') {
            break; /* the packet count of `show access-lists` */
        }
        if (strcmp(word, "log") == 0 || strcmp(word, "log-input") == 0) {
            continue;
        }
        if (strcmp(word, "dscp") == 0 && at + 1 < line->num) {
            ret = acl_dscp(reader, line->words[++at], &match->dscp);
        }
        if (ret < 0) {
            return ret;
        }
        if (ret == 0 && !match->denies && !match->is_partial) {
            match->is_partial = 1;
            snprintf(match->text, sizeof(match->text),
                     "the entry has the condition '%.40s'", word);
        }
    }
    return 0;
}

/* Reads an entry, starting at its protocol. Returns 0, -ENOMEM or
 * acl_fail(). */
static int read_entry(acl_reader_t *reader, const acl_line_t *line, unsigned at,
                      int denies)
{
    acl_match_t match = {.dscp = MRAIL_ACL_NO_DSCP, .denies = denies};
    unsigned source = at;
    int from_any, to_any, ret;
    port_set_t from, to;

    if (read_address(reader, line, &at, &from_any) != 0) {
        return -EINVAL;
    }
    if (!from_any) {
        snprintf(match.source, sizeof(match.source), "%s%s%s",
                 line->words[source], (at > source + 1) ? " " : "",
                 (at > source + 1) ? line->words[source + 1] : "");
    }
    if (read_ports(reader, line, &at, &from) != 0 ||
        read_address(reader, line, &at, &to_any) != 0 ||
        read_ports(reader, line, &at, &to) != 0 ||
        read_conditions(reader, line, at, &match) != 0) {
        return -EINVAL;
    }
    if (!to_any || !has_roce(&to) || from.is_named) {
        return 0;
    }
    match.is_any = !from.is_given;
    mrail_copy(match.key, reader->name, sizeof(match.key));
    for (unsigned i = 0; i < from.num; ++i) {
        match.first = from.first[i];
        match.last = from.last[i];
        ret = acl_add_match(reader, &match);
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}

static int is_roce_protocol(const char *word)
{
    return strcmp(word, "udp") == 0 || strcmp(word, "17") == 0 ||
           strcmp(word, "ip") == 0 || strcmp(word, "ipv4") == 0;
}

/* Returns 1 for lines in a list that are not entries. */
static int is_setting(const char *verb)
{
    static const char *const settings[] = {"remark", "counters", "statistics",
                                           "fragments", "dynamic"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(settings); ++i) {
        if (verb != NULL && strcmp(verb, settings[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

int acl_list_entry(acl_reader_t *reader, acl_line_t *line)
{
    int has_number = is_number(line->words[0]);
    const char *verb = line->words[has_number ? 1 : 0];
    unsigned at = has_number ? 2 : 1;
    int denies, ret;

    if (is_setting(verb)) {
        return 1;
    }
    denies = verb != NULL && strcmp(verb, "deny") == 0;
    if (verb == NULL || (!denies && strcmp(verb, "permit") != 0)) {
        return has_number
                   ? acl_fail(reader, "'%.40s' is neither permit nor deny",
                              (verb != NULL) ? verb : "")
                   : 0;
    }
    if (at >= line->num) {
        return acl_fail(reader, "a protocol is missing at the end");
    }
    if (!is_roce_protocol(line->words[at])) {
        return 1;
    }
    ret = read_entry(reader, line, at + 1, denies);
    return (ret == 0) ? 1 : ret;
}
