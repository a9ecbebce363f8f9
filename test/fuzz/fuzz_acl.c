/*
 * Fuzzes switch rule sets: the first byte selects the dialect, whether the
 * number of uplinks is known, and the number of leaf uplinks. The rest is the
 * text.
 *
 * Invariants: on error, a reason is reported and nothing is printed. Otherwise
 * each finding is one line, the counters of the report add up to the number of
 * lines, and a correct rule set has no findings.
 */
#include "config.h"
#include "fuzz.h"
#include "fabric/acl.h"

#include <errno.h>

static unsigned lines_of(const char *text)
{
    unsigned lines = 0;

    for (; *text != '\0'; ++text) {
        lines += (*text == '\n');
    }
    return lines;
}

static void check_report(int ret, const mrail_acl_report_t *report,
                         const char *found)
{
    unsigned findings = report->num_holes + report->num_overlaps +
                        report->num_unmapped + report->num_outside +
                        report->num_misplaced + report->num_conflicts +
                        report->num_unapplied;

    FUZZ_CHECK(report->num_rules > 0 &&
                   report->num_rules <= MRAIL_ACL_MAX_RULES,
               "%u rules", report->num_rules);
    FUZZ_CHECK(report->num_targets <= report->num_rules, "%u targets",
               report->num_targets);
    FUZZ_CHECK((ret == 0) == (findings == 0), "%d, %u findings", ret, findings);
    FUZZ_CHECK(lines_of(found) == findings, "%u lines, %u findings",
               lines_of(found), findings);
    FUZZ_CHECK(ret != 0 || report->num_targets > 0, "there is no uplink");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned choice = (size > 0) ? data[0] : 0;
    const char *text = (const char *)data + (size > 0);
    char *found = NULL, reason[128] = "";
    mrail_acl_report_t report;
    size_t length;
    FILE *stream = open_memstream(&found, &length);
    int ret;

    FUZZ_CHECK(stream != NULL, "out of memory");
    /* Any byte selects a dialect, including letters, so that a corpus is easy
     * to write by hand. */
    ret = mrail_acl_check(
        (mrail_acl_dialect_t)(choice % MRAIL_ACL_NUM_DIALECTS), text,
        size - (size > 0), (choice & 0x20) ? 0 : 8, 1 + (choice >> 7), stream,
        &report, reason, sizeof(reason));
    fclose(stream);
    if (ret == 0 || ret == -ERANGE) {
        check_report(ret, &report, found);
    } else {
        FUZZ_CHECK(ret == -EINVAL, "%d", ret);
        FUZZ_CHECK(strchr(reason, ' ') != NULL, "says '%s'", reason);
        FUZZ_CHECK(length == 0, "printed '%s'", found);
    }
    free(found);
    return 0;
}
