/*
 * Checks a rule set. It finds ports without a rule, with several rules, or with
 * a rule that has no uplink. It also checks whether the rules divide the range
 * in the same way as the lanes. acl_applied.c checks to which packets the rules
 * apply.
 *
 * The check assigns each port to the first rule in the text that matches it.
 * Apart from this, the order of the rules does not matter, because a port with
 * two rules is a finding.
 */
#include "config.h"
#include "fabric/acl_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_RULE UINT32_MAX
#define NO_TARGET UINT32_MAX

typedef struct checker {
    acl_reader_t reader;
    FILE *stream;
    mrail_acl_report_t report;
    mrail_acl_t acl;     /* the segments to compare with */
    uint32_t *owner;     /* by port, from 0xC000: its match, or NO_RULE */
    uint32_t *target_of; /* by match: the number of its target */
} checker_t;

/* ---- Which rules count ---- */

/* Returns 1 if the rule does not count. A rule with neither source ports nor a
 * target serves another purpose, for example a QoS class, unless it shadows our
 * rules. */
static int is_foreign(const acl_reader_t *reader, acl_match_t *match)
{
    if (!match->is_any || (match->target[0] != '\0' && !match->denies)) {
        return 0;
    }
    if (!acl_is_before_rules(reader, match)) {
        return 1;
    }
    match->denies = 1;
    return 0;
}

/* Clips the match to the port range. Returns 0 if no port remains. */
static int clip(const acl_match_t *match, unsigned *first_p, unsigned *last_p)
{
    *first_p = MRAIL_MAX(match->first, MRAIL_PORTS_FIRST);
    *last_p = match->last;
    return *first_p <= *last_p;
}

static int line_order(const void *a, const void *b)
{
    const acl_match_t *x = a, *y = b;

    if (x->line != y->line) {
        return (x->line > y->line) - (x->line < y->line);
    }
    return (x->first > y->first) - (x->first < y->first);
}

static void drop_foreign(checker_t *checker)
{
    acl_reader_t *reader = &checker->reader;
    unsigned kept = 0;

    /* Swap matches instead of overwriting them, because is_foreign() looks at
     * all of them. */
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        acl_match_t match = reader->matches[i];

        if (!is_foreign(reader, &match)) {
            reader->matches[i] = reader->matches[kept];
            reader->matches[kept++] = match;
        }
    }
    reader->num_matches = kept;
    if (kept > 0) {
        qsort(reader->matches, kept, sizeof(*reader->matches), line_order);
    }
}

/* ---- Single rules ---- */

static void check_rule(checker_t *checker, const acl_match_t *match)
{
    mrail_acl_report_t *report = &checker->report;
    int is_source = match->denies && match->source[0] != '\0';

    ++report->num_rules;
    if (!match->is_any && match->first < MRAIL_PORTS_FIRST) {
        ++report->num_outside;
        fprintf(checker->stream,
                "line %u: ports %u to %u: RoCEv2 lanes use %u to %u only\n",
                match->line, match->first, match->last, MRAIL_PORTS_FIRST,
                MRAIL_PORTS_LAST);
    }
    if (match->denies || match->is_partial) {
        ++report->num_unmapped;
        fprintf(checker->stream, "line %u: ports %u to %u are exempt%s%s%s%s\n",
                match->line, match->first, match->last,
                is_source ? ", from " : "", is_source ? match->source : "",
                (match->text[0] != '\0') ? ": " : "", match->text);
    } else if (match->target[0] == '\0') {
        ++report->num_unmapped;
        fprintf(checker->stream,
                "line %u: ports %u to %u have no uplink: no next hop belongs "
                "to this %s\n",
                match->line, match->first, match->last, checker->reader.kind);
    }
}

static void check_rules(checker_t *checker)
{
    const acl_reader_t *reader = &checker->reader;
    const acl_match_t *first = NULL;

    for (unsigned i = 0; i < reader->num_matches; ++i) {
        const acl_match_t *match = &reader->matches[i];

        check_rule(checker, match);
        if (match->denies) {
            continue;
        }
        first = (first == NULL) ? match : first;
        if (match->dscp != first->dscp) {
            ++checker->report.num_conflicts;
            fprintf(checker->stream,
                    "line %u: the DSCP differs from the rule in line %u\n",
                    match->line, first->line);
        }
    }
}

/* ---- Ports ---- */

/* Assigns the ports of a match to it. Reports the first port that already has a
 * match. */
static void assign_ports(checker_t *checker, uint32_t index)
{
    const acl_match_t *match = &checker->reader.matches[index], *other;
    uint32_t before = NO_RULE;
    unsigned first, last;

    if (match->denies || !clip(match, &first, &last)) {
        return;
    }
    for (unsigned port = first; port <= last; ++port) {
        uint32_t *owner = &checker->owner[port - MRAIL_PORTS_FIRST];

        if (*owner == NO_RULE) {
            *owner = index;
        } else if (before == NO_RULE) {
            before = *owner;
        }
    }
    if (before == NO_RULE) {
        return;
    }
    other = &checker->reader.matches[before];
    ++checker->report.num_overlaps;
    fprintf(checker->stream, "line %u: ports %u to %u also match line %u\n",
            match->line, MRAIL_MAX(first, other->first),
            MRAIL_MIN(last, other->last), other->line);
}

/* Names the rule next to a hole, if any. `port` and `end` delimit the hole,
 * from 0 to MRAIL_PORTS_COUNT. */
static void print_neighbour(const checker_t *checker, unsigned port,
                            unsigned end)
{
    const acl_match_t *matches = checker->reader.matches;

    if (port > 0) {
        fprintf(checker->stream, "; line %u ends at port %u",
                matches[checker->owner[port - 1]].line,
                MRAIL_PORTS_FIRST + port - 1);
    } else if (end < MRAIL_PORTS_COUNT) {
        fprintf(checker->stream, "; line %u begins at port %u",
                matches[checker->owner[end]].line, MRAIL_PORTS_FIRST + end);
    }
}

static void check_holes(checker_t *checker)
{
    unsigned port = 0;

    while (port < MRAIL_PORTS_COUNT) {
        unsigned end = port;

        while (end < MRAIL_PORTS_COUNT && checker->owner[end] == NO_RULE) {
            ++end;
        }
        if (end > port) {
            ++checker->report.num_holes;
            fprintf(checker->stream, "ports %u to %u: no rule",
                    MRAIL_PORTS_FIRST + port, MRAIL_PORTS_FIRST + end - 1);
            print_neighbour(checker, port, end);
            fputc('\n', checker->stream);
        }
        port = MRAIL_MAX(end, port + 1);
    }
}

/* ---- Segments ---- */

/* Numbers the targets in text order. */
static void number_targets(checker_t *checker)
{
    const acl_reader_t *reader = &checker->reader;
    unsigned num = 0;

    for (unsigned i = 0; i < reader->num_matches; ++i) {
        const acl_match_t *match = &reader->matches[i];
        unsigned j = 0;

        checker->target_of[i] = NO_TARGET;
        if (match->denies || match->target[0] == '\0') {
            continue;
        }
        while (strcmp(reader->matches[j].target, match->target) != 0 ||
               reader->matches[j].denies) {
            ++j;
        }
        checker->target_of[i] = (j < i) ? checker->target_of[j] : num++;
    }
    checker->report.num_targets = num;
}

static uint32_t target_at(const checker_t *checker, unsigned port)
{
    uint32_t owner = checker->owner[port - MRAIL_PORTS_FIRST];

    return (owner == NO_RULE) ? NO_TARGET : checker->target_of[owner];
}

static const acl_match_t *match_at(const checker_t *checker, unsigned port)
{
    return &checker->reader.matches[checker->owner[port - MRAIL_PORTS_FIRST]];
}

/* Returns the first port of the segment that has a target, or 0. *other_p
 * receives the first port that has a different target, or 0. */
static unsigned scan_segment(const checker_t *checker, unsigned first,
                             unsigned last, unsigned *other_p)
{
    unsigned begin = 0;

    *other_p = 0;
    for (unsigned port = first; port <= last; ++port) {
        uint32_t target = target_at(checker, port);

        if (target == NO_TARGET) {
            continue;
        }
        if (begin == 0) {
            begin = port;
        } else if (target != target_at(checker, begin)) {
            *other_p = port;
            return begin;
        }
    }
    return begin;
}

/* Compares the segment's uplink with the uplinks of earlier segments.
 * begin_of[uplink] is the first port of that uplink that has a target. Returns
 * a port that conflicts, or 0. */
static unsigned find_conflict(const checker_t *checker, unsigned uplink,
                              unsigned begin, const unsigned *begin_of)
{
    if (begin_of[uplink] != begin &&
        target_at(checker, begin_of[uplink]) != target_at(checker, begin)) {
        return begin_of[uplink];
    }
    for (unsigned u = 0; u < uplink; ++u) {
        if (begin_of[u] != 0 &&
            target_at(checker, begin_of[u]) == target_at(checker, begin)) {
            return begin_of[u];
        }
    }
    return 0;
}

static void check_segment(checker_t *checker, unsigned uplink, unsigned segment,
                          unsigned *begin_of)
{
    const acl_match_t *match, *than;
    uint16_t first, last;
    unsigned begin, other;

    mrail_acl_range(&checker->acl, uplink, segment, &first, &last);
    begin = scan_segment(checker, first, last, &other);
    if (begin == 0) {
        return; /* reported as a hole or as unmapped */
    }
    if (begin_of[uplink] == 0) {
        begin_of[uplink] = begin;
    }
    if (other != 0) {
        match = match_at(checker, other);
        than = match_at(checker, begin);
        ++checker->report.num_misplaced;
        fprintf(checker->stream,
                "line %u: port %u goes to %s, but the lanes' segment %u to %u "
                "begins with %s (line %u)\n",
                match->line, other, match->target, first, last, than->target,
                than->line);
        return;
    }
    other = find_conflict(checker, uplink, begin, begin_of);
    if (other != 0) {
        match = match_at(checker, begin);
        than = match_at(checker, other);
        ++checker->report.num_misplaced;
        fprintf(checker->stream,
                "line %u: the lanes' segment %u to %u goes to %s, and port %u "
                "to %s (line %u)\n",
                match->line, first, last, match->target, other, than->target,
                than->line);
    }
}

static void check_segments(checker_t *checker)
{
    unsigned begin_of[MRAIL_ACL_MAX_UPLINKS] = {0};
    mrail_acl_t *acl = &checker->acl;

    if (acl->num_uplinks == 0) {
        acl->num_uplinks = checker->report.num_targets;
    }
    if (acl->num_uplinks == 0) {
        return;
    }
    if (acl->num_uplinks > mrail_ports_step(acl->leaf_uplinks) ||
        acl->num_uplinks > MRAIL_ACL_MAX_UPLINKS) {
        ++checker->report.num_misplaced;
        fprintf(checker->stream,
                "%u next hops: a switch can have at most %u uplinks here\n",
                acl->num_uplinks,
                MRAIL_MIN(mrail_ports_step(acl->leaf_uplinks),
                          MRAIL_ACL_MAX_UPLINKS));
        return;
    }
    for (unsigned u = 0; u < acl->num_uplinks; ++u) {
        for (unsigned s = 0; s < acl->leaf_uplinks; ++s) {
            check_segment(checker, u, s, begin_of);
        }
    }
}

/* ---- Whole rule sets ---- */

static int check_text(checker_t *checker, mrail_acl_dialect_t dialect,
                      char *text)
{
    acl_reader_t *reader = &checker->reader;
    int ret = acl_read(reader, dialect, text);

    if (ret != 0) {
        return ret;
    }
    acl_resolve(reader);
    drop_foreign(checker);
    if (reader->num_matches == 0) {
        snprintf(reader->reason, sizeof(reader->reason),
                 "no rule for source ports to UDP port %u: is this a rule set "
                 "of the %s dialect?",
                 ACL_ROCE_PORT, mrail_acl_dialect_name(dialect));
        return -EINVAL;
    }
    checker->owner = malloc(MRAIL_PORTS_COUNT * sizeof(*checker->owner));
    checker->target_of =
        malloc(reader->num_matches * sizeof(*checker->target_of));
    if (checker->owner == NULL || checker->target_of == NULL) {
        return -ENOMEM;
    }
    memset(checker->owner, 0xff, MRAIL_PORTS_COUNT * sizeof(*checker->owner));
    check_rules(checker);
    checker->report.num_conflicts += acl_check_sources(reader, checker->stream);
    checker->report.num_unapplied = acl_check_ports(reader, checker->stream);
    checker->report.num_conflicts += acl_check_names(reader, checker->stream);
    for (unsigned i = 0; i < reader->num_matches; ++i) {
        assign_ports(checker, i);
    }
    check_holes(checker);
    number_targets(checker);
    check_segments(checker);
    return 0;
}

static int check_arguments(const char *text, size_t length,
                           unsigned num_uplinks, unsigned leaf_uplinks,
                           char *reason, size_t size)
{
    if (num_uplinks > MRAIL_ACL_MAX_UPLINKS || leaf_uplinks < 1 ||
        leaf_uplinks > MRAIL_ACL_MAX_UPLINKS) {
        snprintf(
            reason, size,
            "%u uplinks and %u leaf uplinks: the maximum is %u, and at least "
            "one leaf uplink is required",
            num_uplinks, leaf_uplinks, MRAIL_ACL_MAX_UPLINKS);
        return -EINVAL;
    }
    if (length > MRAIL_ACL_MAX_TEXT) {
        snprintf(reason, size, "the text exceeds %u bytes", MRAIL_ACL_MAX_TEXT);
        return -EINVAL;
    }
    if (length > 0 && memchr(text, '\0', length) != NULL) {
        unsigned line = 1;

        for (; *text != '\0'; ++text) {
            line += (*text == '\n');
        }
        snprintf(reason, size, "line %u: byte 0 is not text", line);
        return -EINVAL;
    }
    return 0;
}

static int has_findings(const mrail_acl_report_t *report)
{
    return report->num_holes + report->num_overlaps + report->num_unmapped +
               report->num_outside + report->num_misplaced +
               report->num_conflicts + report->num_unapplied >
           0;
}

int mrail_acl_check(mrail_acl_dialect_t dialect, const char *text,
                    size_t length, unsigned num_uplinks, unsigned leaf_uplinks,
                    FILE *stream, mrail_acl_report_t *report, char *reason,
                    size_t reason_size)
{
    checker_t checker = {
        .stream = stream,
        .acl = {.num_uplinks = num_uplinks, .leaf_uplinks = leaf_uplinks}};
    char *copy;
    int ret = check_arguments(text, length, num_uplinks, leaf_uplinks, reason,
                              reason_size);

    if (ret != 0) {
        return ret;
    }
    copy = malloc(length + 1);
    if (copy == NULL) {
        ret = -ENOMEM;
    } else {
        mrail_copy(copy, text, length);
        copy[length] = '\0';
        ret = check_text(&checker, dialect, copy);
    }
    if (ret == 0) {
        *report = checker.report;
        ret = has_findings(report) ? -ERANGE : 0;
    } else {
        snprintf(reason, reason_size, "%s",
                 (ret == -ENOMEM) ? "out of memory" : checker.reader.reason);
    }
    free(copy);
    free(checker.owner);
    free(checker.target_of);
    free(checker.reader.matches);
    free(checker.reader.edges);
    return ret;
}
