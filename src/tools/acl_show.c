/* mrail acl prints the list of segments, and the result of a check. */
#include "config.h"
#include "tools/acl_command.h"

#include "base/json.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REASON_MAX 256

/* ---- The list ---- */

static void show_row(const mrail_acl_t *acl, unsigned uplink, unsigned segment)
{
    const mrail_acl_uplink_t *way = &acl->uplinks[uplink];
    uint16_t first, last;

    mrail_acl_range(acl, uplink, segment, &first, &last);
    printf("%7u %6u %6u %6u  %-15s %s\n",
           segment * acl->num_uplinks + uplink + 1, first, last, uplink + 1,
           (way->next_hop != NULL) ? way->next_hop : "-",
           (way->port != NULL) ? way->port : "-");
}

static void write_row(mrail_json_t *json, const mrail_acl_t *acl,
                      unsigned uplink, unsigned segment)
{
    uint16_t first, last;

    mrail_acl_range(acl, uplink, segment, &first, &last);
    mrail_json_newline(json);
    mrail_json_object(json, NULL);
    mrail_json_uint(json, "segment", segment * acl->num_uplinks + uplink + 1);
    mrail_json_uint(json, "first", first);
    mrail_json_uint(json, "last", last);
    mrail_json_uint(json, "uplink", uplink + 1);
    mrail_json_string(json, "next_hop", acl->uplinks[uplink].next_hop);
    mrail_json_string(json, "port", acl->uplinks[uplink].port);
    mrail_json_object_end(json);
}

/* Lists the segments in ascending order of their ports. */
void acl_show_list(const mrail_acl_t *acl, int is_json)
{
    mrail_json_t json = mrail_json_to(stdout);

    if (is_json) {
        mrail_json_object(&json, NULL);
        mrail_json_uint(&json, "uplinks", acl->num_uplinks);
        mrail_json_uint(&json, "leaf_uplinks", acl->leaf_uplinks);
        mrail_json_array(&json, "segments");
    } else {
        printf("%7s %6s %6s %6s  %-15s %s\n", "segment", "first", "last",
               "uplink", "next hop", "port");
    }
    for (unsigned s = 0; s < acl->leaf_uplinks; ++s) {
        for (unsigned u = 0; u < acl->num_uplinks; ++u) {
            if (is_json) {
                write_row(&json, acl, u, s);
            } else {
                show_row(acl, u, s);
            }
        }
    }
    if (is_json) {
        mrail_json_array_end(&json);
        mrail_json_object_end(&json);
        mrail_json_end(&json);
    }
}

/* ---- Checks ---- */

/* Kinds of findings, in the order of the report's columns. */
static const struct {
    const char *member, *one, *many;
    size_t offset;
} kinds[] = {
#define KIND(_member, _one, _many)                                             \
    {                                                                          \
#_member, _one, _many, offsetof(mrail_acl_report_t, num_##_member)     \
    }
    KIND(holes, "hole", "holes"),
    KIND(overlaps, "overlap", "overlaps"),
    KIND(unmapped, "rule without an uplink", "rules without an uplink"),
    KIND(outside, "rule for other ports", "rules for other ports"),
    KIND(misplaced, "segment that differs from the lanes'",
         "segments that differ from the lanes'"),
    KIND(conflicts, "contradiction", "contradictions"),
    KIND(unapplied, "rule set that no port uses",
         "rule sets that no port uses"),
#undef KIND
};

static unsigned count_of(const mrail_acl_report_t *report, unsigned kind)
{
    return *(const unsigned *)((const char *)report + kinds[kind].offset);
}

static void show_summary(const char *name, const mrail_acl_report_t *report,
                         int is_valid)
{
    const char *before = ": ";

    printf("%s: %u rule%s, %u uplink%s", name, report->num_rules,
           (report->num_rules == 1) ? "" : "s", report->num_targets,
           (report->num_targets == 1) ? "" : "s");
    if (is_valid) {
        puts(": each port from 49152 to 65535 goes to exactly one uplink");
        return;
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(kinds); ++i) {
        unsigned count = count_of(report, i);

        if (count > 0) {
            printf("%s%u %s", before, count,
                   (count == 1) ? kinds[i].one : kinds[i].many);
            before = ", ";
        }
    }
    putchar('\n');
}

/* Writes the report. `findings` has one line per finding; the function modifies
 * it. */
static void write_report(const char *name, mrail_acl_dialect_t dialect,
                         const mrail_acl_report_t *report, int is_valid,
                         char *findings)
{
    mrail_json_t json = mrail_json_to(stdout);
    char *save = NULL;

    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "file", name);
    mrail_json_string(&json, "dialect", mrail_acl_dialect_name(dialect));
    mrail_json_bool(&json, "exactly_once", is_valid);
    mrail_json_uint(&json, "rules", report->num_rules);
    mrail_json_uint(&json, "uplinks", report->num_targets);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(kinds); ++i) {
        mrail_json_uint(&json, kinds[i].member, count_of(report, i));
    }
    mrail_json_array(&json, "findings");
    for (char *line = strtok_r(findings, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        mrail_json_newline(&json);
        mrail_json_string(&json, NULL, line);
    }
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

int acl_check_file(mrail_acl_dialect_t dialect, const char *path,
                   unsigned uplinks, unsigned leaf_uplinks, int json)
{
    const char *name = mrail_tool_file_name(path);
    size_t length, size;
    char *text =
             mrail_tool_read(ACL_COMMAND, path, MRAIL_ACL_MAX_TEXT, &length),
         *findings = NULL, reason[REASON_MAX] = "";
    FILE *stream = open_memstream(&findings, &size);
    mrail_acl_report_t report;
    int ret = -ENOMEM;

    if (stream != NULL) {
        ret = mrail_acl_check(dialect, text, length, uplinks, leaf_uplinks,
                              stream, &report, reason, sizeof(reason));
        ret = (fclose(stream) != 0) ? -ENOMEM : ret;
    }
    free(text);
    if (ret == -EINVAL) {
        free(findings);
        mrail_tool_usage(ACL_COMMAND, "%s: %s", name, reason);
    }
    if (ret != 0 && ret != -ERANGE) {
        free(findings);
        mrail_tool_fail(ACL_COMMAND, "%s: out of memory", name);
    }
    if (json) {
        write_report(name, dialect, &report, ret == 0, findings);
    } else {
        fputs(findings, stdout);
        show_summary(name, &report, ret == 0);
    }
    free(findings);
    return (ret == 0) ? 0 : MRAIL_TOOL_USAGE;
}
