/* Validates the options of switch rules, computes port ranges, and holds the
 * table of dialects. */
#include "config.h"
#include "fabric/acl.h"

#include "base/number.h"
#include "fabric/acl_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static const acl_dialect_t *const dialects[MRAIL_ACL_NUM_DIALECTS] = {
    [MRAIL_ACL_IOS] = &acl_ios,     [MRAIL_ACL_EOS] = &acl_eos,
    [MRAIL_ACL_SONIC] = &acl_sonic, [MRAIL_ACL_NVUE] = &acl_nvue,
    [MRAIL_ACL_LINUX] = &acl_linux,
};

const char *mrail_acl_dialect_name(mrail_acl_dialect_t dialect)
{
    return dialects[dialect]->name;
}

/* ---- Options ---- */

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

int acl_is_ipv4(const char *text)
{
    struct in_addr addr;

    return inet_pton(AF_INET, text, &addr) == 1;
}

int acl_prefix_parse(const char *text, acl_prefix_t *prefix_p)
{
    const char *slash = strchr(text, '/');
    char addr[INET_ADDRSTRLEN];
    struct in_addr parsed;
    uint64_t length;

    if (slash == NULL || (size_t)(slash - text) >= sizeof(addr) ||
        mrail_number_uint(slash + 1, 1, 32, &length) != 0) {
        return -EINVAL;
    }
    mrail_copy(addr, text, (size_t)(slash - text));
    addr[slash - text] = '\0';
    if (inet_pton(AF_INET, addr, &parsed) != 1) {
        return -EINVAL;
    }
    prefix_p->addr = ntohl(parsed.s_addr);
    prefix_p->mask = UINT32_MAX << (32 - length);
    return ((prefix_p->addr & ~prefix_p->mask) == 0) ? 0 : -EINVAL;
}

/* Allows only safe characters, because port names end up in switch
 * configurations and shell scripts. */
static int is_port(const char *name)
{
    size_t length = strspn(name, LETTERS DIGITS "/._:-");

    return length > 0 && name[length] == '\0' && length < ACL_TARGET_MAX &&
           name[0] != '-';
}

static int check_numbers(const mrail_acl_t *acl, char *reason, size_t size)
{
    if (acl->num_uplinks < 1 || acl->num_uplinks > MRAIL_ACL_MAX_UPLINKS) {
        snprintf(reason, size, "%u uplinks: a switch can have 1 to %u uplinks",
                 acl->num_uplinks, MRAIL_ACL_MAX_UPLINKS);
        return -EINVAL;
    }
    if (acl->leaf_uplinks < 1 || acl->leaf_uplinks > MRAIL_ACL_MAX_UPLINKS) {
        snprintf(reason, size,
                 "%u leaf uplinks: a leaf can have 1 to %u uplinks",
                 acl->leaf_uplinks, MRAIL_ACL_MAX_UPLINKS);
        return -EINVAL;
    }
    if (acl->num_uplinks > mrail_ports_step(acl->leaf_uplinks)) {
        snprintf(reason, size,
                 "%u uplinks, but a leaf segment has only %u ports: use at "
                 "most that many uplinks, or fewer than %u leaf uplinks",
                 acl->num_uplinks, mrail_ports_step(acl->leaf_uplinks),
                 acl->leaf_uplinks);
        return -EINVAL;
    }
    if (acl->dscp > 63 && acl->dscp != MRAIL_ACL_NO_DSCP) {
        snprintf(reason, size, "DSCP %u is not a number from 0 to 63",
                 acl->dscp);
        return -EINVAL;
    }
    return 0;
}

static int check_name(const mrail_acl_t *acl, char *reason, size_t size)
{
    size_t length = strlen(acl->name);

    if (length < 1 || length > ACL_MAX_NAME ||
        strspn(acl->name, LETTERS) == 0 ||
        strspn(acl->name, LETTERS DIGITS "_") != length) {
        snprintf(reason, size,
                 "name '%.20s' must have 1 to %d letters, digits and '_', "
                 "starting with a letter",
                 acl->name, ACL_MAX_NAME);
        return -EINVAL;
    }
    return 0;
}

static int check_uplinks(const mrail_acl_t *acl, char *reason, size_t size)
{
    for (unsigned i = 0; i < acl->num_uplinks; ++i) {
        const mrail_acl_uplink_t *uplink = &acl->uplinks[i];

        if (uplink->next_hop != NULL && !acl_is_ipv4(uplink->next_hop)) {
            snprintf(reason, size,
                     "next hop '%.40s' of uplink %u is not an IPv4 address",
                     uplink->next_hop, i + 1);
            return -EINVAL;
        }
        if (uplink->port != NULL && !is_port(uplink->port)) {
            snprintf(reason, size, "'%.40s' of uplink %u is not a port name",
                     uplink->port, i + 1);
            return -EINVAL;
        }
        for (unsigned j = 0; j < i; ++j) {
            if (uplink->next_hop != NULL && acl->uplinks[j].next_hop != NULL &&
                strcmp(uplink->next_hop, acl->uplinks[j].next_hop) == 0) {
                snprintf(reason, size,
                         "uplinks %u and %u have the same next hop, %s", j + 1,
                         i + 1, uplink->next_hop);
                return -EINVAL;
            }
        }
    }
    return 0;
}

static int check_lists(const mrail_acl_t *acl, char *reason, size_t size)
{
    acl_prefix_t prefix;

    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        if (!is_port(acl->ingress[i])) {
            snprintf(reason, size, "'%.40s' is not a port name",
                     acl->ingress[i]);
            return -EINVAL;
        }
        for (unsigned j = 0; j < i; ++j) {
            if (strcmp(acl->ingress[i], acl->ingress[j]) == 0) {
                snprintf(reason, size, "port %.40s appears twice",
                         acl->ingress[i]);
                return -EINVAL;
            }
        }
    }
    for (unsigned i = 0; i < acl->num_local; ++i) {
        if (acl_prefix_parse(acl->local[i], &prefix) != 0) {
            snprintf(reason, size,
                     "'%.40s' is not an IPv4 prefix such as 10.0.0.0/24, "
                     "without host bits",
                     acl->local[i]);
            return -EINVAL;
        }
    }
    return 0;
}

int mrail_acl_validate(const mrail_acl_t *acl, char *reason, size_t reason_size)
{
    if (check_numbers(acl, reason, reason_size) != 0 ||
        check_name(acl, reason, reason_size) != 0 ||
        check_uplinks(acl, reason, reason_size) != 0) {
        return -EINVAL;
    }
    return check_lists(acl, reason, reason_size);
}

int mrail_acl_validate_dialect(const mrail_acl_t *acl,
                               mrail_acl_dialect_t dialect, char *reason,
                               size_t reason_size)
{
    unsigned marks = 0;

    if (mrail_acl_validate(acl, reason, reason_size) != 0) {
        return -EINVAL;
    }
    if (acl->as_printed &&
        (dialect != MRAIL_ACL_IOS || acl->dscp != MRAIL_ACL_NO_DSCP ||
         acl->num_ingress > 0 || acl->num_local > 0 ||
         acl->failure != MRAIL_ACL_FALL_THROUGH)) {
        snprintf(
            reason, reason_size,
            "the printed form contains only the lists and the route map of the "
            "ios dialect; it supports neither DSCP nor ports, local prefixes "
            "or drop mode");
        return -EINVAL;
    }
    if (dialect == MRAIL_ACL_NVUE && acl->num_local > ACL_NVUE_MAX_LOCAL) {
        snprintf(reason, reason_size,
                 "%u local prefixes: NVUE rules support at most %d",
                 acl->num_local, ACL_NVUE_MAX_LOCAL);
        return -EINVAL;
    }
    while (dialect == MRAIL_ACL_NVUE && marks < acl->num_uplinks) {
        if (acl_nvue_mark(acl, marks) == MRAIL_ACL_NO_DSCP) {
            snprintf(
                reason, reason_size,
                "%u uplinks: NVUE marks each uplink with its own DSCP, and "
                "only %u are free",
                acl->num_uplinks, marks);
            return -EINVAL;
        }
        ++marks;
    }
    return 0;
}

int mrail_acl_validate_vrfs(const mrail_acl_t *acl, char *reason,
                            size_t reason_size)
{
    if (mrail_acl_validate(acl, reason, reason_size) != 0) {
        return -EINVAL;
    }
    if (acl->num_ingress == 0 || acl->num_ingress % acl->num_uplinks != 0) {
        snprintf(reason, reason_size,
                 "the number of ports (%u) must be a nonzero multiple of the "
                 "links to each leaf (%u): list all links of the first leaf, "
                 "then all links of the next leaf",
                 acl->num_ingress, acl->num_uplinks);
        return -EINVAL;
    }
    return 0;
}

/* ---- Ports ---- */

void mrail_acl_range(const mrail_acl_t *acl, unsigned uplink, unsigned segment,
                     uint16_t *first_p, uint16_t *last_p)
{
    if (acl->leaf_uplinks == 1) {
        mrail_ports_segment(acl->num_uplinks, uplink, first_p, last_p);
        return;
    }
    mrail_ports_segment_nested(acl->leaf_uplinks, acl->num_uplinks, segment,
                               uplink, first_p, last_p);
}

/* ---- Writers ---- */

const char *acl_next_hop(const mrail_acl_t *acl, unsigned uplink,
                         char buffer[ACL_TARGET_MAX])
{
    if (acl->uplinks[uplink].next_hop != NULL) {
        return acl->uplinks[uplink].next_hop;
    }
    snprintf(buffer, ACL_TARGET_MAX, ACL_NEXT_HOP "%u", uplink + 1);
    return buffer;
}

const char *mrail_acl_failure_note(const mrail_acl_t *acl,
                                   mrail_acl_dialect_t dialect)
{
    return dialects[dialect]->notes[acl->failure];
}

void acl_write_head(const mrail_acl_t *acl, mrail_acl_dialect_t dialect,
                    const char *mark, FILE *stream)
{
    const char *note = mrail_acl_failure_note(acl, dialect);

    fprintf(stream,
            "%s RoCEv2 source ports %u to %u over %u uplink%s, by mrail acl.\n",
            mark, MRAIL_PORTS_FIRST, MRAIL_PORTS_LAST, acl->num_uplinks,
            (acl->num_uplinks == 1) ? "" : "s");
    if (acl->leaf_uplinks > 1) {
        fprintf(stream,
                "%s Spine of three tiers: the uplinks divide each of %u leaf "
                "segments.\n",
                mark, acl->leaf_uplinks);
    }
    fprintf(stream, "%s When an uplink is down, %s.\n", mark,
            (acl->failure == MRAIL_ACL_DROP)
                ? "the switch drops its packets"
                : "its packets take the ordinary routes");
    if (note != NULL) {
        fprintf(stream, "%s However, %s.\n", mark, note);
    }
    if (acl->num_local == 0 && dialect != MRAIL_ACL_LINUX) {
        fprintf(stream,
                "%s Packets for hosts of this switch also go up: --local "
                "exempts their prefix.\n",
                mark);
    }
}

void mrail_acl_write(const mrail_acl_t *acl, mrail_acl_dialect_t dialect,
                     FILE *stream)
{
    dialects[dialect]->write(acl, stream);
}

void mrail_acl_write_undo(const mrail_acl_t *acl, mrail_acl_dialect_t dialect,
                          FILE *stream)
{
    dialects[dialect]->undo(acl, stream);
}

void mrail_acl_write_vrfs(const mrail_acl_t *acl, mrail_acl_dialect_t dialect,
                          int undo, FILE *stream)
{
    dialects[dialect]->vrfs(acl, undo, stream);
}

/* ---- Reading ---- */

int acl_read(acl_reader_t *reader, mrail_acl_dialect_t dialect, char *text)
{
    return dialects[dialect]->read(reader, text);
}
