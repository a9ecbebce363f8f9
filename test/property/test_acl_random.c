/*
 * Tests rule sets with random edits. The check in src/fabric/acl.h must find
 * exactly the faults that appear in a map of all ports. The test builds this
 * map by marking every port of every rule.
 *
 * MRAIL_SEED=N in the environment runs one seed.
 */
#include "config.h"
#include "fabric/acl.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/util.h"
#include "orchestrator/ports.h"

#define SEEDS 400
#define MAX_RULES 200
#define NONE UINT32_MAX

typedef struct rule {
    unsigned first, last;
    uint32_t target; /* target of the rule, or NONE */
} rule_t;

typedef struct rule_set {
    unsigned uplinks, leaf_uplinks, num;
    rule_t rules[MAX_RULES];
} rule_set_t;

static uint32_t below(mrail_rng_t *rng, uint32_t bound)
{
    return mrail_rng_below(rng, bound);
}

/* ---- Random rule sets ---- */

static void make_valid(rule_set_t *set, mrail_rng_t *rng)
{
    mrail_acl_t acl;

    set->uplinks = 1 + below(rng, 12);
    set->leaf_uplinks = (below(rng, 3) == 0) ? 1 + below(rng, 8) : 1;
    set->num = 0;
    acl = (mrail_acl_t){.num_uplinks = set->uplinks,
                        .leaf_uplinks = set->leaf_uplinks};
    for (unsigned u = 0; u < set->uplinks; ++u) {
        for (unsigned s = 0; s < set->leaf_uplinks; ++s) {
            uint16_t first, last;

            mrail_acl_range(&acl, u, s, &first, &last);
            set->rules[set->num++] =
                (rule_t){.first = first, .last = last, .target = u};
        }
    }
}

static void edit(rule_set_t *set, mrail_rng_t *rng)
{
    rule_t *rule = &set->rules[below(rng, set->num)], old;
    rule_t *other = &set->rules[below(rng, set->num)];
    unsigned by = 1 + below(rng, 300);

    switch (below(rng, 8)) {
    case 0: /* move it elsewhere in the text */
        old = *rule;
        *rule = *other;
        *other = old;
        break;
    case 1:
        rule->first = MRAIL_MAX(rule->first - by, 1u);
        break;
    case 2:
        rule->first = MRAIL_MIN(rule->first + by, rule->last);
        break;
    case 3:
        rule->last = MRAIL_MIN(rule->last + by, 65535u);
        break;
    case 4:
        rule->last = MRAIL_MAX(rule->last - by, rule->first);
        break;
    case 5:
        rule->target = other->target;
        break;
    case 6:
        rule->target = NONE;
        break;
    default: /* split the rule into two */
        if (set->num < MAX_RULES && rule->first < rule->last) {
            unsigned cut = rule->first + below(rng, rule->last - rule->first);

            set->rules[set->num] = *rule;
            set->rules[set->num++].first = cut + 1;
            rule->last = cut;
        }
        break;
    }
}

/* ---- The map of all ports ---- */

static uint32_t owner[65536]; /* index of a rule, or NONE */

static uint32_t target_at(const rule_set_t *set, unsigned port)
{
    return (owner[port] == NONE) ? NONE : set->rules[owner[port]].target;
}

static int is_painted_twice(const rule_set_t *set, unsigned index)
{
    int twice = 0;

    for (unsigned port = set->rules[index].first;
         port <= set->rules[index].last; ++port) {
        if (port >= 49152) {
            twice |= owner[port] != NONE;
            owner[port] = (owner[port] == NONE) ? index : owner[port];
        }
    }
    return twice;
}

/* Checks a segment as the lanes use it. All of its ports that have an uplink
 * must have the same uplink. The other segments of `uplink` must also have that
 * uplink, and the segments of other uplinks must not. */
static int is_misplaced(const rule_set_t *set, const mrail_acl_t *acl,
                        unsigned uplink, unsigned segment, uint32_t *home)
{
    uint32_t target = NONE;
    uint16_t first, last;

    mrail_acl_range(acl, uplink, segment, &first, &last);
    for (unsigned port = first; port <= last; ++port) {
        uint32_t here = target_at(set, port);

        if (here == NONE) {
            continue;
        }
        if (target == NONE) {
            target = here;
            home[uplink] = (home[uplink] == NONE) ? here : home[uplink];
        } else if (here != target) {
            return 1;
        }
    }
    if (target == NONE) {
        return 0;
    }
    for (unsigned u = 0; u < uplink; ++u) {
        if (home[u] == target) {
            return 1;
        }
    }
    return home[uplink] != target;
}

static mrail_acl_report_t expected(const rule_set_t *set)
{
    mrail_acl_t acl = {.num_uplinks = set->uplinks,
                       .leaf_uplinks = set->leaf_uplinks};
    mrail_acl_report_t report = {.num_rules = set->num};
    uint32_t home[16];
    int is_target[16] = {0};

    memset(owner, 0xff, sizeof(owner));
    memset(home, 0xff, sizeof(home));
    for (unsigned i = 0; i < set->num; ++i) {
        report.num_overlaps += (unsigned)is_painted_twice(set, i);
        report.num_unmapped += set->rules[i].target == NONE;
        report.num_outside += set->rules[i].first < 49152;
        if (set->rules[i].target != NONE) {
            report.num_targets += !is_target[set->rules[i].target];
            is_target[set->rules[i].target] = 1;
        }
    }
    for (unsigned port = 49152; port < 65536; ++port) {
        report.num_holes +=
            owner[port] == NONE && (port == 49152 || owner[port - 1] != NONE);
    }
    for (unsigned u = 0; u < set->uplinks; ++u) {
        for (unsigned s = 0; s < set->leaf_uplinks; ++s) {
            report.num_misplaced +=
                (unsigned)is_misplaced(set, &acl, u, s, home);
        }
    }
    return report;
}

/* ---- The same as text ---- */

static void write_ios(const rule_set_t *set, FILE *stream)
{
    for (unsigned i = 0; i < set->num; ++i) {
        fprintf(stream,
                "ip access-list extended r%u\n"
                " permit udp any range %u %u any eq 4791\n",
                i, set->rules[i].first, set->rules[i].last);
    }
    for (unsigned i = 0; i < set->num; ++i) {
        fprintf(stream, "route-map m permit %u\n match ip address r%u\n", i + 1,
                i);
        if (set->rules[i].target != NONE) {
            fprintf(stream, " set ip next-hop 10.9.%u.1\n",
                    set->rules[i].target);
        }
    }
}

static void write_sonic(const rule_set_t *set, FILE *stream)
{
    fputs("{\"ACL_RULE\": {\n", stream);
    for (unsigned i = 0; i < set->num; ++i) {
        fprintf(stream,
                "%s\"T|R%u\": {\"L4_SRC_PORT_RANGE\": \"%u-%u\", "
                "\"L4_DST_PORT\": \"4791\"",
                (i == 0) ? "" : ",\n", i, set->rules[i].first,
                set->rules[i].last);
        if (set->rules[i].target != NONE) {
            fprintf(stream, ", \"PACKET_ACTION\": \"REDIRECT:10.9.%u.1\"",
                    set->rules[i].target);
        }
        fputc('}', stream);
    }
    fputs("}}\n", stream);
}

/* Routes and rules must be written before the marks. */
static void write_linux(const rule_set_t *set, FILE *stream)
{
    for (unsigned i = 0; i < set->num; ++i) {
        if (set->rules[i].target != NONE) {
            fprintf(stream,
                    "ip route add default via 10.9.%u.1 table %u\n"
                    "ip rule add fwmark %u lookup %u\n",
                    set->rules[i].target, 1000 + i, i + 1, 1000 + i);
        }
    }
    for (unsigned i = 0; i < set->num; ++i) {
        fprintf(stream, "udp sport %u-%u udp dport 4791 meta mark set %u\n",
                set->rules[i].first, set->rules[i].last, i + 1);
    }
}

static void check(const rule_set_t *set, mrail_acl_dialect_t dialect,
                  void (*write)(const rule_set_t *set, FILE *stream),
                  uint64_t seed)
{
    mrail_acl_report_t want = expected(set), got;
    char *text = NULL, *found = NULL, reason[256] = "";
    size_t length, size;
    FILE *stream = open_memstream(&text, &length);
    int ret;

    assert_non_null(stream);
    write(set, stream);
    fclose(stream);
    stream = open_memstream(&found, &size);
    assert_non_null(stream);
    ret =
        mrail_acl_check(dialect, text, length, set->uplinks, set->leaf_uplinks,
                        stream, &got, reason, sizeof(reason));
    fclose(stream);
    if (ret == -EINVAL || memcmp(&want, &got, sizeof(want)) != 0) {
        fail_msg("MRAIL_SEED=%llu: %s: %d %s\nrules, targets, holes, overlaps, "
                 "unmapped, outside, misplaced\nwant %u %u %u %u %u %u %u\n"
                 "got  %u %u %u %u %u %u %u\n%s\n%s",
                 (unsigned long long)seed, mrail_acl_dialect_name(dialect), ret,
                 reason, want.num_rules, want.num_targets, want.num_holes,
                 want.num_overlaps, want.num_unmapped, want.num_outside,
                 want.num_misplaced, got.num_rules, got.num_targets,
                 got.num_holes, got.num_overlaps, got.num_unmapped,
                 got.num_outside, got.num_misplaced, found, text);
    }
    assert_int_equal(ret,
                     (want.num_holes + want.num_overlaps + want.num_unmapped +
                          want.num_outside + want.num_misplaced >
                      0)
                         ? -ERANGE
                         : 0);
    free(found);
    free(text);
}

static void run_seed(uint64_t seed)
{
    static rule_set_t set;
    mrail_rng_t rng;
    unsigned edits;

    mrail_rng_init(&rng, seed);
    make_valid(&set, &rng);
    /* A rule set that was not edited has no findings. */
    for (edits = below(&rng, 8); edits > 0; --edits) {
        edit(&set, &rng);
    }
    check(&set, MRAIL_ACL_IOS, write_ios, seed);
    check(&set, MRAIL_ACL_SONIC, write_sonic, seed);
    check(&set, MRAIL_ACL_LINUX, write_linux, seed);
}

static void test_random_edits(void **state)
{
    const char *seed = getenv("MRAIL_SEED");

    (void)state;
    if (seed != NULL) {
        run_seed(strtoull(seed, NULL, 0));
        return;
    }
    for (uint64_t i = 1; i <= SEEDS; ++i) {
        run_seed(i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_edits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
