/*
 * Writes rules for Arista EOS: access lists, class maps and a policy map of
 * type pbr. Source: [EOS PBR].
 *
 * EOS has a second, newer feature for the same purpose, traffic policies. The
 * rules do not use it, because fewer platforms support redirection with it.
 */
#include "config.h"
#include "fabric/acl_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* ---- Writer ---- */

static void write_class(const mrail_acl_t *acl, const char *suffix,
                        FILE *stream)
{
    fprintf(stream,
            "class-map type pbr match-any %s%s\n"
            "   match ip access-group %s%s\n"
            "!\n",
            acl->name, suffix, acl->name, suffix);
}

static void write_uplink_class(const mrail_acl_t *acl, unsigned uplink,
                               FILE *stream)
{
    char suffix[16];

    fprintf(stream, "ip access-list %s%u\n", acl->name, uplink + 1);
    for (unsigned s = 0; s < acl->leaf_uplinks; ++s) {
        uint16_t first, last;

        mrail_acl_range(acl, uplink, s, &first, &last);
        fprintf(stream, "   %u permit udp any range %u %u any eq %u",
                10 * (s + 1), first, last, ACL_ROCE_PORT);
        if (acl->dscp != MRAIL_ACL_NO_DSCP) {
            fprintf(stream, " dscp %u", acl->dscp);
        }
        fputc('\n', stream);
    }
    fputs("!\n", stream);
    snprintf(suffix, sizeof(suffix), "%u", uplink + 1);
    write_class(acl, suffix, stream);
}

static void write_local_class(const mrail_acl_t *acl, FILE *stream)
{
    if (acl->num_local == 0) {
        return;
    }
    fprintf(stream, "ip access-list %s_local\n", acl->name);
    for (unsigned i = 0; i < acl->num_local; ++i) {
        fprintf(stream, "   %u permit ip any %s\n", 10 * (i + 1),
                acl->local[i]);
    }
    fputs("!\n", stream);
    write_class(acl, "_local", stream);
}

static void write_policy(const mrail_acl_t *acl, FILE *stream)
{
    char buffer[ACL_TARGET_MAX];

    fprintf(stream, "policy-map type pbr %s\n", acl->name);
    if (acl->num_local > 0) {
        /* Packets of a class without an action take the ordinary routes. */
        fprintf(stream, "   5 class %s_local\n   !\n", acl->name);
    }
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream,
                "   %u class %s%u\n"
                "      set nexthop %s\n"
                "   !\n",
                10 * (u + 1), acl->name, u + 1, acl_next_hop(acl, u, buffer));
    }
    fputs("!\n", stream);
}

static void eos_write(const mrail_acl_t *acl, FILE *stream)
{
    acl_write_head(acl, MRAIL_ACL_EOS, "!", stream);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        write_uplink_class(acl, u, stream);
    }
    write_local_class(acl, stream);
    write_policy(acl, stream);
    if (acl->failure == MRAIL_ACL_DROP) {
        fputs("ip policy unresolved-nexthop action drop\n!\n", stream);
    }
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream,
                "interface %s\n   service-policy type pbr input %s\n!\n",
                acl->ingress[i], acl->name);
    }
    if (acl->num_ingress == 0) {
        fprintf(stream,
                "! On each port to a host:\n"
                "! interface PORT\n"
                "!    service-policy type pbr input %s\n",
                acl->name);
    }
}

static void undo_class(const mrail_acl_t *acl, const char *suffix, FILE *stream)
{
    fprintf(stream,
            "no class-map type pbr match-any %s%s\n"
            "no ip access-list %s%s\n",
            acl->name, suffix, acl->name, suffix);
}

static void eos_undo(const mrail_acl_t *acl, FILE *stream)
{
    char suffix[16];

    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream,
                "interface %s\n   no service-policy type pbr input %s\n!\n",
                acl->ingress[i], acl->name);
    }
    if (acl->num_ingress == 0) {
        fprintf(stream,
                "! First on each port to a host:\n"
                "! interface PORT\n"
                "!    no service-policy type pbr input %s\n",
                acl->name);
    }
    fprintf(stream, "no policy-map type pbr %s\n", acl->name);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        snprintf(suffix, sizeof(suffix), "%u", u + 1);
        undo_class(acl, suffix, stream);
    }
    if (acl->num_local > 0) {
        undo_class(acl, "_local", stream);
    }
    if (acl->failure == MRAIL_ACL_DROP) {
        fputs("no ip policy unresolved-nexthop action drop\n", stream);
    }
}

static void eos_vrfs(const mrail_acl_t *acl, int undo, FILE *stream)
{
    fputs("! A change of the VRF removes the port's IP address: set it again "
          "afterwards.\n",
          stream);
    for (unsigned u = 0; u < acl->num_uplinks && !undo; ++u) {
        fprintf(stream,
                "vrf instance %s%u\n"
                "!\n"
                "ip routing vrf %s%u\n"
                "!\n",
                acl->name, u + 1, acl->name, u + 1);
    }
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream, "interface %s\n   %svrf %s%u\n!\n", acl->ingress[i],
                undo ? "no " : "", acl->name, i % acl->num_uplinks + 1);
    }
    for (unsigned u = 0; u < acl->num_uplinks && undo; ++u) {
        fprintf(stream,
                "no ip routing vrf %s%u\n"
                "no vrf instance %s%u\n",
                acl->name, u + 1, acl->name, u + 1);
    }
}

/* ---- Reader ---- */

enum { NO_BLOCK, LIST, CLASS, POLICY, PORT };

/* The name is the last word: "class-map type pbr match-any NAME". */
static int begin(acl_reader_t *reader, const acl_line_t *line, int block,
                 const char *prefix)
{
    reader->block = block;
    return acl_key(reader, reader->name, prefix, line->words[line->num - 1],
                   NULL);
}

static int begin_policy(acl_reader_t *reader, const acl_line_t *line)
{
    int ret = begin(reader, line, POLICY, "policy");

    snprintf(reader->map, sizeof(reader->map), "%s",
             line->words[line->num - 1]);
    reader->order = 0;
    return ret;
}

static int begin_port(acl_reader_t *reader, const acl_line_t *line)
{
    reader->block = PORT;
    reader->has_ports = 1;
    snprintf(reader->name, sizeof(reader->name), "%s", line->words[1]);
    return 0;
}

static int begin_list(acl_reader_t *reader, const acl_line_t *line)
{
    if (line->num < 3 || ACL_HAS(line, 2, "standard")) {
        reader->block = NO_BLOCK;
        return 0;
    }
    reader->block = LIST;
    if (acl_key(reader, reader->name, "list", line->words[2], NULL) != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_DECLARATION, 0, reader->name, "");
}

static int read_access_group(acl_reader_t *reader, const acl_line_t *line)
{
    unsigned at = acl_find_word(line, "access-group") + 1;
    char key[ACL_KEY_MAX];

    if (at >= line->num) {
        return acl_fail(reader, "match ip access-group: a name is missing");
    }
    if (acl_key(reader, key, "list", line->words[at], NULL) != 0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_REFERENCE, 0, key, reader->name);
}

/* Reads "[SEQUENCE] class NAME" in a policy map. The line starts the block with
 * the action of the class. */
static int read_class(acl_reader_t *reader, const acl_line_t *line)
{
    unsigned at = acl_find_word(line, "class") + 1;
    char key[ACL_KEY_MAX];
    unsigned long order = reader->order + 10; /* the number that EOS assigns */

    if (at >= line->num) {
        return acl_fail(reader, "class: the name is missing");
    }
    if (at == 2 &&
        acl_number(reader, line->words[0], "class", INT_MAX, &order) != 0) {
        return -EINVAL;
    }
    reader->order = (unsigned)order;
    if (acl_key(reader, key, "class", line->words[at], NULL) != 0 ||
        acl_key(reader, reader->name, ACL_MAP, reader->map, line->words[at]) !=
            0) {
        return -EINVAL;
    }
    return acl_add_edge(reader, ACL_REFERENCE, reader->order, key,
                        reader->name);
}

/* Reads "set nexthop [recursive] ADDRESS ..." or "set nexthop-group NAME". */
static int read_set(acl_reader_t *reader, const acl_line_t *line)
{
    unsigned at = 2;

    at += (at < line->num && strcmp(line->words[at], "recursive") == 0);
    if (at >= line->num) {
        return acl_fail(reader, "%s %s: there is no address", line->words[0],
                        line->words[1]);
    }
    return acl_add_edge(reader, ACL_TARGET, 0, reader->name, line->words[at]);
}

static int policy_line(acl_reader_t *reader, const acl_line_t *line)
{
    if (ACL_HAS(line, 0, "class") || ACL_HAS(line, 1, "class")) {
        return read_class(reader, line);
    }
    if (ACL_HAS(line, 0, "set", "nexthop") ||
        ACL_HAS(line, 0, "set", "nexthop-group")) {
        return read_set(reader, line);
    }
    return 0;
}

static int eos_line(acl_reader_t *reader, acl_line_t *line)
{
    if (line->words[0][0] == '!') {
        return 0;
    }
    if (ACL_HAS(line, 0, "ip", "access-list")) {
        return begin_list(reader, line);
    }
    if (ACL_HAS(line, 0, "class-map", "type", "pbr")) {
        return begin(reader, line, CLASS, "class");
    }
    if (ACL_HAS(line, 0, "policy-map", "type", "pbr")) {
        return begin_policy(reader, line);
    }
    if (reader->block == LIST) {
        int ret = acl_list_entry(reader, line);

        if (ret != 0) {
            return (ret > 0) ? 0 : ret;
        }
    }
    if (reader->block == CLASS &&
        acl_find_word(line, "access-group") < line->num) {
        return read_access_group(reader, line);
    }
    if (reader->block == POLICY && !ACL_HAS(line, 0, "interface") &&
        !ACL_HAS(line, 0, "policy-map") && !ACL_HAS(line, 0, "class-map")) {
        return policy_line(reader, line);
    }
    if (ACL_HAS(line, 0, "interface") && line->num > 1) {
        return begin_port(reader, line);
    }
    if (reader->block == PORT) {
        return (ACL_HAS(line, 0, "service-policy", "type", "pbr", "input") &&
                line->num > 4)
                   ? acl_bind(reader, ACL_MAP, line->words[4], reader->name)
                   : 0;
    }
    reader->block = NO_BLOCK;
    return 0;
}

static int eos_read(acl_reader_t *reader, char *text)
{
    reader->kind = "access list";
    return acl_each_line(reader, text, " \t\r", '\n', eos_line);
}

const acl_dialect_t acl_eos = {
    .name = "eos",
    .write = eos_write,
    .undo = eos_undo,
    .vrfs = eos_vrfs,
    .read = eos_read,
    .notes = {[MRAIL_ACL_DROP] =
                  "'ip policy unresolved-nexthop' applies to all "
                  "policies of the switch; check that your EOS "
                  "release supports it"},
};
