/*
 * Rules in the language of [CTCCL] 4.1: extended access lists and a route map
 * for policy routing, as in IOS and its relatives.
 *
 * The paper's route map matches "udf 1", with a blank, but its lists are named
 * "udf1". Because the statement takes several names, a switch would look for
 * lists named "udf" and "1". On IOS, a missing list matches every packet, so
 * the first entry would capture all traffic. The rules therefore use the
 * correct name, and keep the blank only with acl->as_printed.
 *
 * A packet whose next hop is unreachable takes the ordinary routes, unless a
 * later set statement applies. Source: [IOS PBR]. For drop mode, the rules add
 * Null0.
 */
#include "config.h"
#include "fabric/acl_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writer ---- */

static void write_lists(const mrail_acl_t *acl, FILE *stream)
{
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream, "ip access-list extended %s%u\n", acl->name, u + 1);
        for (unsigned s = 0; s < acl->leaf_uplinks; ++s) {
            uint16_t first, last;

            mrail_acl_range(acl, u, s, &first, &last);
            fprintf(stream, "  %u permit udp any range %u %u any eq %u",
                    10 * (s + 1), first, last, ACL_ROCE_PORT);
            if (acl->dscp != MRAIL_ACL_NO_DSCP) {
                fprintf(stream, " dscp %u", acl->dscp);
            }
            fputc('\n', stream);
        }
    }
}

static void write_dotted(uint32_t addr, FILE *stream)
{
    fprintf(stream, " %u.%u.%u.%u", addr >> 24, (addr >> 16) & 0xff,
            (addr >> 8) & 0xff, addr & 0xff);
}

/* Packets that match a deny entry take the ordinary routes. */
static void write_local(const mrail_acl_t *acl, FILE *stream)
{
    if (acl->num_local == 0) {
        return;
    }
    fprintf(stream, "ip access-list extended %s_local\n", acl->name);
    for (unsigned i = 0; i < acl->num_local; ++i) {
        acl_prefix_t prefix;

        (void)acl_prefix_parse(acl->local[i], &prefix);
        fprintf(stream, "  %u permit ip any", 10 * (i + 1));
        write_dotted(prefix.addr, stream);
        write_dotted(~prefix.mask, stream);
        fputc('\n', stream);
    }
    fprintf(stream,
            "route-map %s deny 5\n"
            "  match ip address %s_local\n"
            "!\n",
            acl->name, acl->name);
}

static void write_map(const mrail_acl_t *acl, FILE *stream)
{
    char buffer[ACL_TARGET_MAX];

    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream,
                "route-map %s permit %u\n"
                "  match ip address %s%s%u\n"
                "  set ip next-hop %s\n",
                acl->name, 10 * (u + 1), acl->name, acl->as_printed ? " " : "",
                u + 1, acl_next_hop(acl, u, buffer));
        if (acl->failure == MRAIL_ACL_DROP) {
            fputs("  set interface Null0\n", stream);
        }
        fputs("!\n", stream);
    }
}

static void write_ingress(const mrail_acl_t *acl, FILE *stream)
{
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream, "interface %s\n  ip policy route-map %s\n!\n",
                acl->ingress[i], acl->name);
    }
    if (acl->num_ingress == 0) {
        fprintf(stream,
                "! On each port to a host:\n"
                "! interface PORT\n"
                "!   ip policy route-map %s\n",
                acl->name);
    }
}

static void ios_write(const mrail_acl_t *acl, FILE *stream)
{
    if (acl->as_printed) {
        write_lists(acl, stream);
        write_map(acl, stream);
        return;
    }
    acl_write_head(acl, MRAIL_ACL_IOS, "!", stream);
    write_lists(acl, stream);
    write_local(acl, stream);
    write_map(acl, stream);
    write_ingress(acl, stream);
}

static void ios_undo(const mrail_acl_t *acl, FILE *stream)
{
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream, "interface %s\n  no ip policy route-map %s\n!\n",
                acl->ingress[i], acl->name);
    }
    if (acl->num_ingress == 0) {
        fprintf(stream,
                "! First on each port to a host:\n"
                "! interface PORT\n"
                "!   no ip policy route-map %s\n",
                acl->name);
    }
    fprintf(stream, "no route-map %s\n", acl->name);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream, "no ip access-list extended %s%u\n", acl->name, u + 1);
    }
    if (acl->num_local > 0) {
        fprintf(stream, "no ip access-list extended %s_local\n", acl->name);
    }
}

static void ios_vrfs(const mrail_acl_t *acl, int undo, FILE *stream)
{
    fputs("! A change of the VRF removes the port's IP address: set it again "
          "afterwards.\n",
          stream);
    for (unsigned u = 0; u < acl->num_uplinks && !undo; ++u) {
        fprintf(stream,
                "vrf definition %s%u\n"
                "  address-family ipv4\n"
                "  exit-address-family\n"
                "!\n",
                acl->name, u + 1);
    }
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream, "interface %s\n  %svrf forwarding %s%u\n!\n",
                acl->ingress[i], undo ? "no " : "", acl->name,
                i % acl->num_uplinks + 1);
    }
    for (unsigned u = 0; u < acl->num_uplinks && undo; ++u) {
        fprintf(stream, "no vrf definition %s%u\n", acl->name, u + 1);
    }
}

/* ---- Reader ---- */

enum { NO_BLOCK, LIST, MAP, PORT };

#define ENTRY "entry" /* declares that a map entry exists */

static int begin_list(acl_reader_t *reader, const acl_line_t *line)
{
    unsigned at = 2;

    at += (at < line->num && strcmp(line->words[at], "extended") == 0);
    if (at >= line->num || ACL_HAS(line, 2, "standard")) {
        reader->block = NO_BLOCK;
        return 0;
    }
    reader->block = LIST;
    if (acl_key(reader, reader->name, "list", line->words[at], NULL) != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_DECLARATION, 0, reader->name, "");
}

/* Reads "route-map NAME permit|deny SEQUENCE". */
static int begin_map(acl_reader_t *reader, const acl_line_t *line)
{
    unsigned long order = 10;

    reader->block = MAP;
    reader->denies = line->num > 2 && strcmp(line->words[2], "deny") == 0;
    if (line->num < 2) {
        return acl_fail(reader, "route-map: the name is missing");
    }
    if (line->num > 3 &&
        acl_number(reader, line->words[3], "sequence", 65535, &order) != 0) {
        return -EINVAL;
    }
    reader->order = (unsigned)order;
    if (acl_key(reader, reader->name, ACL_MAP, line->words[1],
                (line->num > 3) ? line->words[3] : "10") != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_DECLARATION, reader->order, reader->name,
                        ENTRY);
}

static int read_match(acl_reader_t *reader, const acl_line_t *line)
{
    char key[ACL_KEY_MAX];
    int ret = 0;

    for (unsigned i = 3; i < line->num && ret == 0; ++i) {
        ret = acl_key(reader, key, "list", line->words[i], NULL);
        if (ret == 0) {
            ret = acl_add_edge(reader, ACL_REFERENCE, reader->order, key,
                               reader->name);
        }
    }
    return ret;
}

/* Reads "set ip [vrf NAME] next-hop [recursive|verify-availability] ADDRESS
 * ...". */
static int read_set(acl_reader_t *reader, const acl_line_t *line)
{
    unsigned at = acl_find_word(line, "next-hop") + 1;

    for (; at < line->num; ++at) {
        if (acl_is_ipv4(line->words[at]) ||
            strncmp(line->words[at], ACL_NEXT_HOP, strlen(ACL_NEXT_HOP)) == 0) {
            return reader->denies
                       ? 0
                       : acl_add_edge(reader, ACL_TARGET, reader->order,
                                      reader->name, line->words[at]);
        }
    }
    return acl_fail(reader, "set ip next-hop: there is no IPv4 address");
}

static int ios_line(acl_reader_t *reader, acl_line_t *line)
{
    if (line->words[0][0] == '!') {
        return 0;
    }
    if (ACL_HAS(line, 0, "ip", "access-list")) {
        return begin_list(reader, line);
    }
    if (ACL_HAS(line, 0, "route-map")) {
        return begin_map(reader, line);
    }
    if (reader->block == LIST) {
        int ret = acl_list_entry(reader, line);

        if (ret != 0) {
            return (ret > 0) ? 0 : ret;
        }
    }
    if (reader->block == MAP) {
        if (ACL_HAS(line, 0, "match", "ip", "address")) {
            return read_match(reader, line);
        }
        if (ACL_HAS(line, 0, "match")) {
            return acl_add_edge(reader, ACL_DECLARATION, 0, reader->name,
                                ACL_OTHER_MATCH);
        }
        /* A default next hop does not count, because it applies only to packets
         * without a route. */
        if (ACL_HAS(line, 0, "set", "ip") &&
            acl_find_word(line, "default") == line->num &&
            acl_find_word(line, "next-hop") < line->num) {
            return read_set(reader, line);
        }
        if (ACL_HAS(line, 0, "set") || ACL_HAS(line, 0, "description") ||
            ACL_HAS(line, 0, "continue")) {
            return 0;
        }
    }
    if (ACL_HAS(line, 0, "interface") && line->num > 1) {
        reader->block = PORT;
        reader->has_ports = 1;
        snprintf(reader->name, sizeof(reader->name), "%s", line->words[1]);
    }
    if (reader->block == PORT) {
        return (ACL_HAS(line, 0, "ip", "policy", "route-map") && line->num > 3)
                   ? acl_bind(reader, ACL_MAP, line->words[3], reader->name)
                   : 0;
    }
    reader->block = NO_BLOCK;
    return 0;
}

/* ---- Entries without a match ---- */

/* Returns 1 if an edge of this kind connects the two names. NULL matches any
 * name. */
static int has_edge(const acl_reader_t *reader, acl_edge_kind_t kind,
                    const char *from, const char *to)
{
    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *edge = &reader->edges[i];

        if (edge->kind == kind &&
            (from == NULL || strcmp(edge->from, from) == 0) &&
            (to == NULL || strcmp(edge->to, to) == 0)) {
            return 1;
        }
    }
    return 0;
}

static int is_entry(const acl_edge_t *edge)
{
    return edge->kind == ACL_DECLARATION && strcmp(edge->to, ENTRY) == 0;
}

/* Returns 1 if a later entry of the same map has a next hop. */
static int is_before_rules(const acl_reader_t *reader, const acl_edge_t *entry)
{
    size_t length = (size_t)(strrchr(entry->from, ':') - entry->from) + 1;

    for (unsigned i = 0; i < reader->num_edges; ++i) {
        const acl_edge_t *other = &reader->edges[i];

        if (other->kind == ACL_TARGET && other->order > entry->order &&
            strncmp(other->from, entry->from, length) == 0) {
            return 1;
        }
    }
    return 0;
}

/* An entry without a match takes all packets that reach it. Adds a match for
 * such an entry if it has a next hop, or if it precedes entries that have
 * one. */
static int add_unmatched(acl_reader_t *reader)
{
    int ret = 0;

    for (unsigned i = 0; i < reader->num_edges && ret == 0; ++i) {
        const acl_edge_t *entry = &reader->edges[i];
        acl_match_t match = {.line = entry->line,
                             .last = UINT16_MAX,
                             .is_any = 1,
                             .dscp = MRAIL_ACL_NO_DSCP};

        if (!is_entry(entry) ||
            has_edge(reader, ACL_REFERENCE, NULL, entry->from) ||
            has_edge(reader, ACL_DECLARATION, entry->from, ACL_OTHER_MATCH)) {
            continue;
        }
        if (!has_edge(reader, ACL_TARGET, entry->from, NULL)) {
            if (!is_before_rules(reader, entry)) {
                continue;
            }
            match.is_any = 0;
            match.denies = 1;
            match.first = MRAIL_PORTS_FIRST;
        }
        snprintf(match.key, sizeof(match.key), "%s", entry->from);
        ret = acl_add_match(reader, &match);
    }
    return ret;
}

static int ios_read(acl_reader_t *reader, char *text)
{
    int ret;

    reader->kind = "access list";
    ret = acl_each_line(reader, text, " \t\r", '\n', ios_line);
    acl_find_conditions(reader);
    return (ret == 0) ? add_unmatched(reader) : ret;
}

const acl_dialect_t acl_ios = {
    .name = "ios",
    .write = ios_write,
    .undo = ios_undo,
    .vrfs = ios_vrfs,
    .read = ios_read,
};
