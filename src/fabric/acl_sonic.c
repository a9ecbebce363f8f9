/*
 * Writes rules for SONiC: an ACL table and its rules, as JSON for the
 * configuration database. Sources: [SONiC ACL], [SONiC ACL types], [SONiC VRF].
 *
 * SONiC has no policy routing, but a rule of an ACL table can redirect packets.
 * The built-in table type L3 cannot match a DSCP, so rules with a DSCP use a
 * custom table type.
 */
#include "config.h"
#include "fabric/acl_internal.h"

#include "base/json.h"
#include "fabric/acl_json.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PLACEHOLDER "PORT_TO_A_HOST"

/* ---- Writer ---- */

static void upper_name(const mrail_acl_t *acl, char name[ACL_MAX_NAME + 1])
{
    size_t i = 0;

    for (; acl->name[i] != '\0' && i < ACL_MAX_NAME; ++i) {
        name[i] = (char)toupper((unsigned char)acl->name[i]);
    }
    name[i] = '\0';
}

/* Writes the key of a segment's rule, which names the leaf segment if there are
 * several. */
static void rule_key(const mrail_acl_t *acl, unsigned uplink, unsigned segment,
                     char *key, size_t size)
{
    char name[ACL_MAX_NAME + 1];

    upper_name(acl, name);
    if (acl->leaf_uplinks == 1) {
        snprintf(key, size, "%s|UPLINK_%u", name, uplink + 1);
    } else {
        snprintf(key, size, "%s|UPLINK_%u_%u", name, uplink + 1, segment + 1);
    }
}

static void write_words(mrail_json_t *json, const char *key,
                        const char *const *words, unsigned num)
{
    mrail_json_array(json, key);
    for (unsigned i = 0; i < num; ++i) {
        mrail_json_string(json, NULL, words[i]);
    }
    mrail_json_array_end(json);
}

static void write_type(mrail_json_t *json, const char *type)
{
    static const char *const matches[] = {
        "DST_IP", "IP_PROTOCOL", "L4_SRC_PORT_RANGE", "L4_DST_PORT", "DSCP"};
    static const char *const actions[] = {"PACKET_ACTION", "REDIRECT_ACTION",
                                          "COUNTER"};
    static const char *const places[] = {"PORT", "PORTCHANNEL"};

    mrail_json_newline(json);
    mrail_json_object(json, "ACL_TABLE_TYPE");
    mrail_json_newline(json);
    mrail_json_object(json, type);
    write_words(json, "MATCHES", matches, MRAIL_ARRAY_SIZE(matches));
    write_words(json, "ACTIONS", actions, MRAIL_ARRAY_SIZE(actions));
    write_words(json, "BIND_POINTS", places, MRAIL_ARRAY_SIZE(places));
    mrail_json_object_end(json);
    mrail_json_object_end(json);
}

/* JSON has no comments, so the description contains the text. */
static void write_table(mrail_json_t *json, const mrail_acl_t *acl,
                        const char *name, const char *type)
{
    static const char *const placeholder[] = {PLACEHOLDER};
    const char *note = mrail_acl_failure_note(acl, MRAIL_ACL_SONIC);
    char text[160];

    snprintf(text, sizeof(text), "RoCEv2 source ports over %u uplinks%s%s",
             acl->num_uplinks, (note != NULL) ? "; " : "",
             (note != NULL) ? note : "");
    mrail_json_newline(json);
    mrail_json_object(json, "ACL_TABLE");
    mrail_json_newline(json);
    mrail_json_object(json, name);
    mrail_json_string(json, "policy_desc", text);
    mrail_json_string(json, "type", type);
    mrail_json_string(json, "stage", "ingress");
    if (acl->num_ingress > 0) {
        write_words(json, "ports", acl->ingress, acl->num_ingress);
    } else {
        write_words(json, "ports", placeholder, 1);
    }
    mrail_json_object_end(json);
    mrail_json_object_end(json);
}

static void write_local(mrail_json_t *json, const mrail_acl_t *acl,
                        const char *name)
{
    char key[64];

    for (unsigned i = 0; i < acl->num_local; ++i) {
        snprintf(key, sizeof(key), "%s|LOCAL_%u", name, i + 1);
        mrail_json_newline(json);
        mrail_json_object(json, key);
        mrail_json_string(json, "PRIORITY", "200");
        mrail_json_string(json, "DST_IP", acl->local[i]);
        mrail_json_string(json, "PACKET_ACTION", "FORWARD");
        mrail_json_object_end(json);
    }
}

static void write_rule(mrail_json_t *json, const mrail_acl_t *acl,
                       unsigned uplink, unsigned segment)
{
    char text[ACL_TARGET_MAX + 16], buffer[ACL_TARGET_MAX];
    uint16_t first, last;

    mrail_acl_range(acl, uplink, segment, &first, &last);
    rule_key(acl, uplink, segment, text, sizeof(text));
    mrail_json_newline(json);
    mrail_json_object(json, text);
    /* The segments do not overlap, so their order does not matter. */
    mrail_json_string(json, "PRIORITY", "100");
    mrail_json_string(json, "IP_PROTOCOL", "17");
    snprintf(text, sizeof(text), "%u-%u", first, last);
    mrail_json_string(json, "L4_SRC_PORT_RANGE", text);
    snprintf(text, sizeof(text), "%u", ACL_ROCE_PORT);
    mrail_json_string(json, "L4_DST_PORT", text);
    if (acl->dscp != MRAIL_ACL_NO_DSCP) {
        snprintf(text, sizeof(text), "%u", acl->dscp);
        mrail_json_string(json, "DSCP", text);
    }
    snprintf(text, sizeof(text), "REDIRECT:%s",
             acl_next_hop(acl, uplink, buffer));
    mrail_json_string(json, "PACKET_ACTION", text);
    mrail_json_object_end(json);
}

static void sonic_write(const mrail_acl_t *acl, FILE *stream)
{
    mrail_json_t json = mrail_json_to(stream);
    char name[ACL_MAX_NAME + 1], type[ACL_MAX_NAME + 8];

    upper_name(acl, name);
    snprintf(type, sizeof(type), "%s_TYPE", name);
    mrail_json_object(&json, NULL);
    if (acl->dscp != MRAIL_ACL_NO_DSCP) {
        write_type(&json, type);
    }
    write_table(&json, acl, name,
                (acl->dscp != MRAIL_ACL_NO_DSCP) ? type : "L3");
    mrail_json_newline(&json);
    mrail_json_object(&json, "ACL_RULE");
    write_local(&json, acl, name);
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        for (unsigned s = 0; s < acl->leaf_uplinks; ++s) {
            write_rule(&json, acl, u, s);
        }
    }
    mrail_json_object_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

/* Appends a reference token of a JSON pointer, which escapes '~' and '/'.
 * Source: [RFC 6901] 3. */
static void add_token(char *path, size_t size, const char *token)
{
    size_t used = strlen(path);

    snprintf(path + used, size - used, "/");
    for (; *token != '\0'; ++token) {
        used = strlen(path);
        if (*token == '~' || *token == '/') {
            snprintf(path + used, size - used, (*token == '~') ? "~0" : "~1");
        } else {
            snprintf(path + used, size - used, "%c", *token);
        }
    }
}

/* Writes a "remove" operation of a JSON patch ([RFC 6902]), for a member of the
 * object with this key, or for the object itself if `member` is NULL. */
static void write_remove(mrail_json_t *json, const char *table, const char *key,
                         const char *member)
{
    char path[256] = "";

    add_token(path, sizeof(path), table);
    add_token(path, sizeof(path), key);
    if (member != NULL) {
        add_token(path, sizeof(path), member);
    }
    mrail_json_newline(json);
    mrail_json_object(json, NULL);
    mrail_json_string(json, "op", "remove");
    mrail_json_string(json, "path", path);
    mrail_json_object_end(json);
}

static void sonic_undo(const mrail_acl_t *acl, FILE *stream)
{
    mrail_json_t json = mrail_json_to(stream);
    char name[ACL_MAX_NAME + 1], key[64];

    upper_name(acl, name);
    mrail_json_array(&json, NULL);
    for (unsigned i = 0; i < acl->num_local; ++i) {
        snprintf(key, sizeof(key), "%s|LOCAL_%u", name, i + 1);
        write_remove(&json, "ACL_RULE", key, NULL);
    }
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        for (unsigned s = 0; s < acl->leaf_uplinks; ++s) {
            rule_key(acl, u, s, key, sizeof(key));
            write_remove(&json, "ACL_RULE", key, NULL);
        }
    }
    write_remove(&json, "ACL_TABLE", name, NULL);
    if (acl->dscp != MRAIL_ACL_NO_DSCP) {
        snprintf(key, sizeof(key), "%s_TYPE", name);
        write_remove(&json, "ACL_TABLE_TYPE", key, NULL);
    }
    mrail_json_array_end(&json);
    mrail_json_end(&json);
}

/* SONiC requires VRF names to start with "Vrf". */
static void sonic_vrfs_undo(const mrail_acl_t *acl, mrail_json_t *json)
{
    char key[ACL_TARGET_MAX + 16];

    mrail_json_array(json, NULL);
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        write_remove(json, "INTERFACE", acl->ingress[i], "vrf_name");
    }
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        snprintf(key, sizeof(key), "Vrf%s%u", acl->name, u + 1);
        write_remove(json, "VRF", key, NULL);
    }
    mrail_json_array_end(json);
}

static void sonic_vrfs(const mrail_acl_t *acl, int undo, FILE *stream)
{
    mrail_json_t json = mrail_json_to(stream);
    char name[ACL_MAX_NAME + 16];

    if (undo) {
        sonic_vrfs_undo(acl, &json);
        mrail_json_end(&json);
        return;
    }
    mrail_json_object(&json, NULL);
    mrail_json_newline(&json);
    mrail_json_object(&json, "VRF");
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        snprintf(name, sizeof(name), "Vrf%s%u", acl->name, u + 1);
        mrail_json_newline(&json);
        mrail_json_object(&json, name);
        mrail_json_object_end(&json);
    }
    mrail_json_object_end(&json);
    mrail_json_newline(&json);
    mrail_json_object(&json, "INTERFACE");
    for (unsigned i = 0; i < acl->num_ingress; ++i) {
        snprintf(name, sizeof(name), "Vrf%s%u", acl->name,
                 i % acl->num_uplinks + 1);
        mrail_json_newline(&json);
        mrail_json_object(&json, acl->ingress[i]);
        mrail_json_string(&json, "vrf_name", name);
        mrail_json_object_end(&json);
    }
    mrail_json_object_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

/* ---- Reader ---- */

/* The rule whose members are being read. */
typedef struct sonic_rule {
    acl_reader_t *reader;
    acl_match_t match;
    int is_open;  /* a rule is being read */
    int is_other; /* the rule is not for RoCEv2, or only for one destination */
    char key[ACL_JSON_NAME];
    /* The table that applies to outgoing instead of incoming packets. */
    char egress[ACL_JSON_NAME];
    int has_table;      /* 1 if the text has tables, which list their ports */
    int is_placeholder; /* 1 if the table has the placeholder that `mrail acl`
                         * writes, and no ports */
} sonic_rule_t;

static int close_rule(sonic_rule_t *rule)
{
    int is_ours = rule->is_open && !rule->is_other;

    rule->is_open = 0;
    return is_ours ? acl_add_match(rule->reader, &rule->match) : 0;
}

static void open_rule(sonic_rule_t *rule, const acl_json_value_t *value)
{
    mrail_copy(rule->key, value->names[1], sizeof(rule->key));
    rule->is_open = 1;
    rule->is_other = 0;
    rule->match = (acl_match_t){.line = value->lines[1],
                                .last = UINT16_MAX,
                                .is_any = 1,
                                .order = UINT16_MAX,
                                .dscp = MRAIL_ACL_NO_DSCP};
    snprintf(rule->match.map, sizeof(rule->match.map), "%.*s",
             (int)strcspn(rule->key, "|"), rule->key);
}

static int read_target(sonic_rule_t *rule, const char *text)
{
    if (strlen(text) >= ACL_TARGET_MAX) {
        return acl_fail(rule->reader, "'%.40s...' is too long for a next hop",
                        text);
    }
    if (strncmp(text, ACL_NEXT_HOP, strlen(ACL_NEXT_HOP)) != 0) {
        snprintf(rule->match.target, sizeof(rule->match.target), "%s", text);
    }
    return 0;
}

static int read_action(sonic_rule_t *rule, const char *text)
{
    static const char redirect[] = "REDIRECT:";

    if (strncasecmp(text, redirect, strlen(redirect)) == 0) {
        return read_target(rule, text + strlen(redirect));
    }
    rule->match.denies = 1;
    return 0;
}

/* Returns 1 for members that do not restrict the packets of a rule. */
static int is_neutral(const char *name, const char *text)
{
    static const char *const members[][2] = {
        {"ETHER_TYPE", "0x0800"},
        {"ETHER_TYPE", "0x800"},
        {"ETHER_TYPE", "2048"},
        {"IP_TYPE", "ANY"},
        {"IP_TYPE", "IP"},
        {"IP_TYPE", "IPV4ANY"},
        {"MIRROR_ACTION", NULL},
        {"MIRROR_INGRESS_ACTION", NULL},
        {"MIRROR_EGRESS_ACTION", NULL},
    };

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(members); ++i) {
        if (strcasecmp(name, members[i][0]) == 0 &&
            (members[i][1] == NULL || strcasecmp(text, members[i][1]) == 0)) {
            return 1;
        }
    }
    return 0;
}

static int read_number(sonic_rule_t *rule, const char *text, const char *what,
                       unsigned long max, unsigned long *value_p)
{
    return acl_number(rule->reader, text, what, max, value_p);
}

static int read_field(sonic_rule_t *rule, const char *name, const char *text)
{
    unsigned long number;
    unsigned first, last;
    int ret = 0;

    if (strcasecmp(name, "PACKET_ACTION") == 0) {
        ret = read_action(rule, text);
    } else if (strcasecmp(name, "REDIRECT_ACTION") == 0) {
        rule->match.denies = 0;
        ret = read_target(rule, text);
    } else if (strcasecmp(name, "L4_SRC_PORT") == 0 ||
               strcasecmp(name, "L4_SRC_PORT_RANGE") == 0) {
        rule->match.is_any = 0;
        ret = acl_ports(rule->reader, text, &rule->match.first,
                        &rule->match.last);
    } else if (strcasecmp(name, "L4_DST_PORT") == 0 ||
               strcasecmp(name, "L4_DST_PORT_RANGE") == 0) {
        ret = acl_ports(rule->reader, text, &first, &last);
        rule->is_other |=
            ret == 0 && (first > ACL_ROCE_PORT || last < ACL_ROCE_PORT);
    } else if (strcasecmp(name, "IP_PROTOCOL") == 0) {
        ret = read_number(rule, text, "IP_PROTOCOL", 255, &number);
        rule->is_other |= ret == 0 && number != 17;
    } else if (strcasecmp(name, "DSCP") == 0) {
        ret = read_number(rule, text, "DSCP", 63, &number);
        rule->match.dscp = (ret == 0) ? (unsigned)number : MRAIL_ACL_NO_DSCP;
    } else if (strcasecmp(name, "PRIORITY") == 0) {
        ret = read_number(rule, text, "PRIORITY", UINT16_MAX, &number);
        rule->match.order = (ret == 0) ? UINT16_MAX - (unsigned)number : 0;
    } else if (strcasecmp(name, "SRC_IP") == 0) {
        if (strcmp(text, "0.0.0.0/0") != 0) {
            snprintf(rule->match.source, sizeof(rule->match.source), "%.*s",
                     ACL_TARGET_MAX - 1, text);
        }
    } else if (strcasecmp(name, "DST_IP") == 0) {
        rule->is_other |= strcmp(text, "0.0.0.0/0") != 0;
    } else if (!is_neutral(name, text)) {
        rule->match.is_partial = 1;
        snprintf(rule->match.text, sizeof(rule->match.text),
                 "the rule has the condition '%.40s'", name);
    }
    return ret;
}

static int read_table(sonic_rule_t *rule, const acl_json_value_t *value)
{
    const char *field = value->names[2];

    rule->has_table = 1;
    rule->reader->number = value->lines[2];
    if (strcmp(field, "stage") == 0 && strcasecmp(value->text, "egress") == 0) {
        mrail_copy(rule->egress, value->names[1], sizeof(rule->egress));
    }
    if (strcmp(field, "ports") != 0 && strcmp(field, "ports@") != 0) {
        return 0;
    }
    rule->is_placeholder |= strcmp(value->text, PLACEHOLDER) == 0;
    return acl_bind(rule->reader, ACL_MAP, value->names[1], value->text);
}

/* Removes the ports of a table for outgoing packets. */
static void unbind_egress(const sonic_rule_t *rule)
{
    for (unsigned i = 0; i < rule->reader->num_edges; ++i) {
        acl_edge_t *edge = &rule->reader->edges[i];

        if (strcmp(edge->from + strlen(ACL_MAP ":"), rule->egress) == 0) {
            edge->kind = ACL_DECLARATION;
        }
    }
}

static int sonic_value(const acl_json_value_t *value, void *arg)
{
    sonic_rule_t *rule = arg;
    int ret = 0;

    if (value->depth == 3 && strcmp(value->names[0], "ACL_TABLE") == 0) {
        return read_table(rule, value);
    }
    if (value->depth != 3 || strcmp(value->names[0], "ACL_RULE") != 0) {
        return 0;
    }
    rule->reader->number = value->lines[2];
    if (!rule->is_open || strcmp(rule->key, value->names[1]) != 0) {
        ret = close_rule(rule);
        open_rule(rule, value);
    }
    return (ret != 0) ? ret : read_field(rule, value->names[2], value->text);
}

static int sonic_read(acl_reader_t *reader, char *text)
{
    sonic_rule_t rule = {.reader = reader};
    const char *reason;
    unsigned line;
    int ret;

    reader->kind = "rule";
    ret = acl_json_read(text, sonic_value, &rule, &line, &reason);
    if (ret == -EINVAL && reason[0] != '\0') {
        reader->number = line;
        return acl_fail(reader, "%s", reason);
    }
    unbind_egress(&rule);
    reader->has_ports = rule.has_table && !rule.is_placeholder;
    return (ret != 0) ? ret : close_rule(&rule);
}

const acl_dialect_t acl_sonic = {
    .name = "sonic",
    .write = sonic_write,
    .undo = sonic_undo,
    .vrfs = sonic_vrfs,
    .read = sonic_read,
    .notes = {[MRAIL_ACL_FALL_THROUGH] =
                  "SONiC keeps the rule, so packets may be dropped until the "
                  "rule is removed"},
};
