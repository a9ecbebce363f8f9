/*
 * Implements mrail acl, which writes switch rules for source-port segments, and
 * checks rule sets. This file handles options and output; src/fabric/acl.h
 * defines the rules.
 */
#include "config.h"
#include "tools/acl_command.h"

#include "base/number.h"
#include "tools/acl_lists.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define UPLINKS_VARIABLE "UCX_MRAIL_UPLINKS"
#define DEFAULT_UPLINKS 8 /* same as MRAIL_UPLINKS_AUTO in src/rail/params.h */
#define DEFAULT_NAME "udf"
#define REASON_MAX 256

typedef struct options {
    unsigned dialect;      /* MRAIL_ACL_NUM_DIALECTS if not given */
    unsigned uplinks;      /* 0 if not given */
    unsigned leaf_uplinks; /* 0 if not given */
    unsigned dscp, failure;
    const char *next_hops, *uplink_ports, *ports, *local, *name, *check;
    const char *fabric, *switch_name;
    int spine_vrf, as_printed, undo, list, json;
} options_t;

/* ---- Options ---- */

#define FIELD(_name) offsetof(options_t, _name)

static const mrail_option_t table[] = {
    {"--dialect", "ios|eos|sonic|nvue|linux", "rule language of the switch",
     MRAIL_OPTION_CHOICE, FIELD(dialect), 0, 0, NULL},
    {"--uplinks", "N",
     "uplinks of the switch, 1 to 256 (UCX_MRAIL_UPLINKS, or 8)",
     MRAIL_OPTION_UNSIGNED, FIELD(uplinks), 1, MRAIL_ACL_MAX_UPLINKS, NULL},
    {"--next-hops", "LIST",
     "addresses of the far ends of the uplinks: A,B,..., FIRST+STEP or "
     "FIRST+STEPxN",
     MRAIL_OPTION_TEXT, FIELD(next_hops), 0, 0, NULL},
    {"--uplink-ports", "LIST",
     "ports of the uplinks: swp51,swp52 or swp[51-52]", MRAIL_OPTION_TEXT,
     FIELD(uplink_ports), 0, 0, NULL},
    {"--ports", "LIST",
     "ports on which to apply the rules: the host-facing ports of a leaf, or "
     "the leaf-facing ports of a spine",
     MRAIL_OPTION_TEXT, FIELD(ports), 0, 0, NULL},
    {"--local", "LIST",
     "prefixes below this switch, such as 10.0.0.0/24; packets to them use no "
     "uplink",
     MRAIL_OPTION_TEXT, FIELD(local), 0, 0, NULL},
    {"--dscp", "N",
     "apply the rules only to packets with this DSCP, 0 to 63 (default: all)",
     MRAIL_OPTION_UNSIGNED, FIELD(dscp), 0, 63, NULL},
    {"--on-failure", "fall-through|drop",
     "if an uplink is down, send its packets over the ordinary routes, or "
     "drop them so that lanes fail over (default: fall-through)",
     MRAIL_OPTION_CHOICE, FIELD(failure), 0, 0, NULL},
    {"--leaf-uplinks", "N",
     "on a spine of a three-tier fabric, number of uplinks of each leaf; "
     "--uplinks is then the number of uplinks of the spine (default: 1, "
     "for a leaf)",
     MRAIL_OPTION_UNSIGNED, FIELD(leaf_uplinks), 1, MRAIL_ACL_MAX_UPLINKS,
     NULL},
    {"--fabric", "FILE",
     "read the uplinks and local prefixes from a fabric file "
     "(mrail-fabric(5)); '-' is stdin",
     MRAIL_OPTION_TEXT, FIELD(fabric), 0, 0, NULL},
    {"--switch", "NAME", "name of the leaf or spine in that file",
     MRAIL_OPTION_TEXT, FIELD(switch_name), 0, 0, NULL},
    {"--name", "NAME", "prefix for the names of lists and maps (default: udf)",
     MRAIL_OPTION_TEXT, FIELD(name), 0, 0, NULL},
    {"--undo", NULL, "write the commands that remove the rules",
     MRAIL_OPTION_FLAG, FIELD(undo), 0, 0, NULL},
    {"--spine-vrf", NULL,
     "instead of rules, write a VRF for each of the --uplinks links between a "
     "leaf and this spine; --ports lists the ports leaf by leaf",
     MRAIL_OPTION_FLAG, FIELD(spine_vrf), 0, 0, NULL},
    {"--list", NULL,
     "instead of rules, print a table of segments, uplinks and next hops",
     MRAIL_OPTION_FLAG, FIELD(list), 0, 0, NULL},
    {"--check", "FILE",
     "check that this rule set sends each source port to exactly one uplink; "
     "'-': stdin",
     MRAIL_OPTION_TEXT, FIELD(check), 0, 0, NULL},
    {"--json", NULL, "with --list or --check, print one JSON object",
     MRAIL_OPTION_FLAG, FIELD(json), 0, 0, NULL},
    {"--as-printed", NULL,
     "ios: write the lists and the route map as the CTCCL paper prints them, "
     "which switches parse differently",
     MRAIL_OPTION_FLAG, FIELD(as_printed), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "--dialect NAME [--uplinks N] [--next-hops LIST] [OPTION...]",
    "--dialect NAME --spine-vrf --uplinks N --ports LIST [--undo]",
    "--dialect NAME --fabric FILE --switch NAME [OPTION...]",
    "--list [--uplinks N] [--next-hops LIST] [--json]",
    "--dialect NAME --check FILE [--uplinks N] [--json]",
    NULL};

static const mrail_command_t command = {
    .name = ACL_COMMAND,
    .synopsis = synopsis,
    .about =
        "Writes switch rules that send each segment of RoCEv2 source ports out of\n"
        "one uplink, with the same segments as the lanes. Also checks rule sets.\n",
    .options = table,
    .epilog =
        "Exit status: 0 done, 1 failure, 2 usage, or --check has findings or "
        "cannot read\nthe rule set.\n"};

/* Returns UCX_MRAIL_UPLINKS as a number, or 0 if it is unset or "auto". */
static unsigned uplinks_of_environment(void)
{
    const char *text = getenv("UCX_MRAIL_UPLINKS");
    uint64_t value = 0;

    if (text != NULL && strcasecmp(text, "auto") != 0 &&
        mrail_number_uint(text, 1, MRAIL_ACL_MAX_UPLINKS, &value) != 0) {
        mrail_tool_usage(ACL_COMMAND,
                         UPLINKS_VARIABLE "=%s: expected a number from 1 to %u",
                         text, MRAIL_ACL_MAX_UPLINKS);
    }
    return (unsigned)value;
}

static void parse_options(options_t *options, char **argv)
{
    unsigned modes;

    mrail_options_parse(&command, argv, options);
    modes = (options->check != NULL) + (unsigned)options->list +
            (unsigned)options->spine_vrf;
    if (modes > 1) {
        mrail_tool_usage(
            ACL_COMMAND,
            "only one of --check, --list and --spine-vrf can be given");
    }
    if (options->json && !options->list && options->check == NULL) {
        mrail_tool_usage(ACL_COMMAND, "--json requires --list or --check");
    }
    if (options->undo && (options->list || options->check != NULL)) {
        mrail_tool_usage(ACL_COMMAND,
                         "--undo cannot be combined with --list or --check");
    }
    if (!options->list && options->dialect == MRAIL_ACL_NUM_DIALECTS) {
        mrail_tool_usage(ACL_COMMAND, "--dialect NAME is required");
    }
    if ((options->fabric == NULL) != (options->switch_name == NULL)) {
        mrail_tool_usage(ACL_COMMAND,
                         "--fabric and --switch must be given together");
    }
    if (options->fabric != NULL && options->check != NULL &&
        strcmp(options->fabric, "-") == 0 && strcmp(options->check, "-") == 0) {
        mrail_tool_usage(
            ACL_COMMAND,
            "only one of --fabric and --check can be '-' (standard input)");
    }
    if (options->fabric != NULL &&
        (options->uplinks != 0 || options->leaf_uplinks != 0)) {
        mrail_tool_usage(ACL_COMMAND,
                         "--uplinks and --leaf-uplinks come from the "
                         "fabric");
    }
}

/* Determines the number of uplinks from the fabric, the options or the
 * environment, in this order. */
static void find_uplinks(options_t *options, acl_switch_t *found)
{
    if (options->fabric != NULL) {
        acl_switch_read(options->fabric, options->switch_name, found);
        options->uplinks = found->uplinks;
        options->leaf_uplinks = found->leaf_uplinks;
    }
    if (options->uplinks == 0) {
        options->uplinks = uplinks_of_environment();
    }
    if (options->leaf_uplinks == 0) {
        options->leaf_uplinks = 1;
    }
}

/* ---- Rules ---- */

/* Storage for all arrays that a mrail_acl_t points to. */
typedef struct rules {
    mrail_acl_t acl;
    mrail_acl_uplink_t uplinks[MRAIL_ACL_MAX_UPLINKS];
    acl_list_t next_hops, uplink_ports, ports, local;
    const char *port_words[ACL_LIST_MAX], *local_words[ACL_LIST_MAX];
} rules_t;

/* Parses a comma-separated list into `list`, and sets `words` to its elements
 * for the library. */
static unsigned read_list(const char *option, const char *text,
                          acl_list_t *list, const char **words)
{
    char reason[REASON_MAX];

    if (text == NULL) {
        return 0;
    }
    if (acl_list_names(text, list, reason, sizeof(reason)) != 0) {
        mrail_tool_usage(ACL_COMMAND, "%s: %s", option, reason);
    }
    for (unsigned i = 0; i < list->num; ++i) {
        words[i] = list->words[i];
    }
    return list->num;
}

static void read_uplinks(rules_t *rules, const options_t *options)
{
    unsigned num = rules->acl.num_uplinks;
    char reason[REASON_MAX];

    if (options->next_hops != NULL &&
        acl_list_next_hops(options->next_hops, num, &rules->next_hops, reason,
                           sizeof(reason)) != 0) {
        mrail_tool_usage(ACL_COMMAND, "--next-hops: %s", reason);
    }
    if (options->uplink_ports != NULL) {
        if (acl_list_names(options->uplink_ports, &rules->uplink_ports, reason,
                           sizeof(reason)) != 0) {
            mrail_tool_usage(ACL_COMMAND, "--uplink-ports: %s", reason);
        }
        if (rules->uplink_ports.num != num) {
            mrail_tool_usage(
                ACL_COMMAND,
                "--uplink-ports lists %u ports, but there are %u uplinks",
                rules->uplink_ports.num, num);
        }
    }
    for (unsigned i = 0; i < num; ++i) {
        rules->uplinks[i] = (mrail_acl_uplink_t){
            .next_hop =
                (options->next_hops != NULL) ? rules->next_hops.words[i] : NULL,
            .port = (options->uplink_ports != NULL)
                        ? rules->uplink_ports.words[i]
                        : NULL};
    }
}

static void read_rules(rules_t *rules, const options_t *options,
                       const acl_switch_t *found)
{
    mrail_acl_t *acl = &rules->acl;

    *acl =
        (mrail_acl_t){.num_uplinks = (options->uplinks != 0) ? options->uplinks
                                                             : DEFAULT_UPLINKS,
                      .uplinks = rules->uplinks,
                      .leaf_uplinks = options->leaf_uplinks,
                      .dscp = options->dscp,
                      .failure = (mrail_acl_failure_t)options->failure,
                      .name = options->name,
                      .ingress = rules->port_words,
                      .local = rules->local_words,
                      .as_printed = options->as_printed};
    read_uplinks(rules, options);
    acl->num_ingress =
        read_list("--ports", options->ports, &rules->ports, rules->port_words);
    acl->num_local =
        read_list("--local", options->local, &rules->local, rules->local_words);
    for (unsigned i = 0; options->local == NULL && i < found->num_local; ++i) {
        rules->local_words[acl->num_local++] = found->local[i];
    }
}

static void check_rules(const mrail_acl_t *acl, const options_t *options)
{
    char reason[REASON_MAX];
    int ret;

    if (options->list) {
        ret = mrail_acl_validate(acl, reason, sizeof(reason));
    } else if (options->spine_vrf) {
        ret = mrail_acl_validate_vrfs(acl, reason, sizeof(reason));
    } else {
        ret = mrail_acl_validate_dialect(
            acl, (mrail_acl_dialect_t)options->dialect, reason, sizeof(reason));
    }
    if (ret != 0) {
        mrail_tool_usage(ACL_COMMAND, "%s", reason);
    }
}

/* Warns of facts that the user must know before applying the rules. */
static void warn(const mrail_acl_t *acl, mrail_acl_dialect_t dialect)
{
    const char *note = mrail_acl_failure_note(acl, dialect);

    if (acl->uplinks[0].next_hop == NULL) {
        fprintf(stderr,
                "mrail acl: without --next-hops, replace NEXT_HOP_1 to "
                "NEXT_HOP_%u, which switches reject\n",
                acl->num_uplinks);
    }
    if (note != NULL) {
        fprintf(stderr, "mrail acl: --on-failure: %s\n", note);
    }
}

static void write_rules(const mrail_acl_t *acl, const options_t *options)
{
    mrail_acl_dialect_t dialect = (mrail_acl_dialect_t)options->dialect;

    if (options->list) {
        acl_show_list(acl, options->json);
    } else if (options->spine_vrf) {
        mrail_acl_write_vrfs(acl, dialect, options->undo, stdout);
    } else if (options->undo) {
        mrail_acl_write_undo(acl, dialect, stdout);
    } else {
        warn(acl, dialect);
        mrail_acl_write(acl, dialect, stdout);
    }
}

int main(int argc, char **argv)
{
    options_t options = {.dialect = MRAIL_ACL_NUM_DIALECTS,
                         .dscp = MRAIL_ACL_NO_DSCP,
                         .name = DEFAULT_NAME};
    static acl_switch_t found;
    static rules_t rules;
    int status = 0;

    (void)argc;
    parse_options(&options, argv);
    find_uplinks(&options, &found);
    if (options.check != NULL) {
        status =
            acl_check_file((mrail_acl_dialect_t)options.dialect, options.check,
                           options.uplinks, options.leaf_uplinks, options.json);
    } else {
        read_rules(&rules, &options, &found);
        check_rules(&rules.acl, &options);
        write_rules(&rules.acl, &options);
    }
    if (fflush(stdout) != 0) {
        mrail_tool_fail(ACL_COMMAND, "stdout: %s", strerror(errno));
    }
    return status;
}
