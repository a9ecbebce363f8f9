/*
 * Writes rules for a Linux router, with or without FRR: nftables marks each
 * segment, and a routing rule sends packets with the mark to a table with one
 * next hop. Sources: [nft], [ip-rule].
 *
 * Marks are needed because `ip rule` rejects a port range that ends at 65535.
 * All rules and routes use a dedicated routing protocol number, so one command
 * can remove them all, including those of an earlier run with more uplinks.
 */
#include "config.h"
#include "fabric/acl_internal.h"

#define PROTOCOL 147 /* our rules and routes; unused by routing daemons */
/* priority of the first rule; the rule of uplink n, from 1, has 4790 + n */
#define PRIORITY 4790
#define MARK MRAIL_ACL_LINUX_MARK /* uplink n, from 1, has MARK + n */
#define TABLE 479100u             /* uplink n, from 1, has TABLE + n */
#define NFT_TABLE "mrail_acl"
#define VRF_TABLE 479500u /* VRF n has VRF_TABLE + n */

/* ---- Writer ---- */

/* Writes the commands that remove all rules. They succeed even if there is
 * nothing to remove. */
static void write_remove(const char *indent, FILE *stream)
{
    fprintf(stream,
            "%snft 'add table ip " NFT_TABLE "; delete table ip " NFT_TABLE
            "'\n"
            "%sip -4 rule flush protocol %d\n"
            "%sip -4 route flush table all protocol %d\n",
            indent, indent, PROTOCOL, indent, PROTOCOL);
}

static void write_routes(const mrail_acl_t *acl, FILE *stream)
{
    char buffer[ACL_TARGET_MAX];

    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream, "route add default via %s",
                acl_next_hop(acl, u, buffer));
        if (acl->uplinks[u].port != NULL) {
            fprintf(stream, " dev %s", acl->uplinks[u].port);
        }
        fprintf(stream, " table %u protocol %d\n", TABLE + u + 1, PROTOCOL);
        if (acl->failure == MRAIL_ACL_DROP) {
            fprintf(stream,
                    "route add blackhole default metric 4294967295 table %u "
                    "protocol %d\n",
                    TABLE + u + 1, PROTOCOL);
        }
    }
}

/* Writes the rules. Rules for local hosts precede rules for uplinks. */
static void write_rules(const mrail_acl_t *acl, FILE *stream)
{
    for (unsigned i = 0; i < acl->num_local; ++i) {
        fprintf(stream, "rule add priority %d to %s lookup main protocol %d\n",
                PRIORITY, acl->local[i], PROTOCOL);
    }
    if (acl->num_local == 0) {
        fprintf(stream,
                "rule add priority %d fwmark 0x%x/0xffff0000 lookup main "
                "suppress_prefixlength 0 protocol %d\n",
                PRIORITY, MARK, PROTOCOL);
    }
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream,
                "rule add priority %u fwmark 0x%x lookup %u protocol %d\n",
                PRIORITY + u + 1, MARK + u + 1, TABLE + u + 1, PROTOCOL);
    }
}

static void write_marks(const mrail_acl_t *acl, FILE *stream)
{
    fprintf(stream,
            "table ip " NFT_TABLE " {\n"
            "    chain prerouting {\n"
            "        type filter hook prerouting priority mangle; policy "
            "accept;\n");
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream, "%s\"%s\"%s", (i == 0) ? "        iifname != { " : ", ",
                acl->ingress[i],
                (i + 1 == acl->num_ingress) ? " } return\n" : "");
    }
    fprintf(stream, "        udp dport != %u return\n", ACL_ROCE_PORT);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        for (unsigned s = 0; s < acl->leaf_uplinks; ++s) {
            uint16_t first, last;

            mrail_acl_range(acl, u, s, &first, &last);
            fprintf(stream, "        udp dport %u udp sport %u-%u ",
                    ACL_ROCE_PORT, first, last);
            if (acl->dscp != MRAIL_ACL_NO_DSCP) {
                fprintf(stream, "ip dscp %u ", acl->dscp);
            }
            fprintf(stream, "counter meta mark set 0x%x\n", MARK + u + 1);
        }
    }
    fputs("    }\n}\n", stream);
}

static void linux_write(const mrail_acl_t *acl, FILE *stream)
{
    fputs("#!/bin/sh\n", stream);
    acl_write_head(acl, MRAIL_ACL_LINUX, "#", stream);
    fputs("# The kernel removes routes of a link that is set down: run this "
          "again when\n"
          "# it is up. A lost carrier counts as down only with "
          "net.ipv4.conf.PORT.\n"
          "# ignore_routes_with_linkdown=1.\n"
          "set -e\n"
          "remove()\n"
          "{\n",
          stream);
    write_remove("    ", stream);
    fputs("}\n"
          "remove\n"
          "# If a step fails, remove everything.\n"
          "trap remove EXIT\n"
          "trap 'exit 1' HUP INT TERM\n"
          "ip -4 -batch - <<'END'\n",
          stream);
    write_routes(acl, stream);
    write_rules(acl, stream);
    fputs("END\n"
          "nft -f - <<'END'\n",
          stream);
    write_marks(acl, stream);
    fputs("END\n"
          "trap - EXIT HUP INT TERM\n",
          stream);
}

static void linux_undo(const mrail_acl_t *acl, FILE *stream)
{
    (void)acl; /* the commands that remove rules need no options */
    fputs("#!/bin/sh\nset -e\n", stream);
    write_remove("", stream);
}

static void linux_vrfs(const mrail_acl_t *acl, int undo, FILE *stream)
{
    fputs("#!/bin/sh\n", stream);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream, "ip link delete %s%u 2>/dev/null || :\n", acl->name,
                u + 1);
    }
    if (undo) {
        return;
    }
    fputs("set -e\n", stream);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        fprintf(stream,
                "ip link add %s%u type vrf table %u\n"
                "ip link set %s%u up\n",
                acl->name, u + 1, VRF_TABLE + u + 1, acl->name, u + 1);
    }
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        fprintf(stream, "ip link set %s master %s%u\n", acl->ingress[i],
                acl->name, i % acl->num_uplinks + 1);
    }
}

const acl_dialect_t acl_linux = {
    .name = "linux",
    .write = linux_write,
    .undo = linux_undo,
    .vrfs = linux_vrfs,
    .read = acl_linux_read,
};
