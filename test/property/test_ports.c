/* Tests source ports (src/orchestrator/ports.c): examples, followed by
 * properties over every number of uplinks. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "base/util.h"
#include "orchestrator/ports.h"

/* The paper's testbed has 8 uplinks. Its access list starts at these ports
 * ([CTCCL] 4.1). */
static void test_paper_example(void **state)
{
    uint16_t first, last;

    assert_int_equal(mrail_ports_step(8), 2048);
    mrail_ports_segment(8, 0, &first, &last);
    assert_int_equal(first, 49152);
    assert_int_equal(last, 51199);
    mrail_ports_segment(8, 7, &first, &last);
    assert_int_equal(first, 63488);
    assert_int_equal(last, 65535);
    assert_int_equal(mrail_ports_lane(8, 0, 4, 1), 51200);
    assert_int_equal(mrail_ports_lane(8, 1, 4, 0), 49152 + 4 * 2048);
    assert_int_equal(mrail_ports_lane(8, 2, 4, 0), 49152);
}

/* Formula (3) of the paper holds literally where the number of uplinks divides
 * 0x4000. */
static void test_equals_the_paper(void **state)
{
    for (unsigned uplinks = 1; uplinks <= 256; uplinks *= 2) {
        unsigned step = 0x4000 / uplinks;

        for (unsigned nic = 0; nic < 64; ++nic) {
            for (unsigned q = 0; q < 8; ++q) {
                unsigned expect = 0xC000 + ((nic * 8 + q) * step) % 0x4000;

                assert_int_equal(mrail_ports_lane(uplinks, nic, 8, q), expect);
            }
        }
    }
}

static void test_segments_tile(void **state)
{
    for (unsigned uplinks = 1; uplinks <= 256; ++uplinks) {
        unsigned next = 0xC000;

        for (unsigned n = 0; n < uplinks; ++n) {
            uint16_t first, last;

            mrail_ports_segment(uplinks, n, &first, &last);
            assert_int_equal(first, next);
            assert_true(last - first + 1u >= mrail_ports_step(uplinks));
            assert_int_equal(mrail_ports_segment_of(uplinks, first), n);
            assert_int_equal(mrail_ports_segment_of(uplinks, last), n);
            next = last + 1u;
        }
        assert_int_equal(next, 0x10000);
    }
}

/* If the number of lanes of a leaf is a multiple of the uplinks, they must fill
 * every segment equally. Otherwise, segments may differ by at most one lane. */
static void test_equal_spread(void **state)
{
    for (unsigned uplinks = 1; uplinks <= 256; ++uplinks) {
        for (unsigned lanes = 1; lanes <= 8; ++lanes) {
            for (unsigned nics = uplinks; nics <= uplinks + 3; ++nics) {
                unsigned count[256] = {0};
                unsigned least = nics * lanes / uplinks;

                for (unsigned i = 0; i < nics * lanes; ++i) {
                    uint16_t sport =
                        mrail_ports_lane(uplinks, i / lanes, lanes, i % lanes);

                    assert_true(sport >= 0xC000);
                    ++count[mrail_ports_segment_of(uplinks, sport)];
                }
                for (unsigned n = 0; n < uplinks; ++n) {
                    assert_true(
                        count[n] == least ||
                        (count[n] == least + 1 && nics * lanes % uplinks != 0));
                }
            }
        }
    }
}

/* [CTCCL] 3.3: jobs use consecutive NICs of a leaf, and all but one are idle.
 * Wherever that job starts, its lanes must be spread evenly, and use all
 * uplinks if formula (4) holds. */
static void check_job(unsigned uplinks, unsigned lanes, unsigned start,
                      unsigned nics)
{
    unsigned count[64] = {0}, least = nics * lanes / uplinks;

    for (unsigned i = 0; i < nics * lanes; ++i) {
        uint16_t sport =
            mrail_ports_lane(uplinks, start + i / lanes, lanes, i % lanes);

        ++count[mrail_ports_segment_of(uplinks, sport)];
    }
    for (unsigned n = 0; n < uplinks; ++n) {
        assert_in_range(count[n], least, least + (nics * lanes % uplinks != 0));
    }
    assert_int_equal(mrail_ports_check(uplinks, 1, nics, lanes, NULL, 0) == 0,
                     least >= 1);
}

/* [CTCCL] Fig. 4: in a single-rail cluster, all NICs of a node are on one leaf,
 * and in a multi-rail cluster, each is on a different leaf. Both number a
 * leaf's NICs consecutively. */
static void test_jobs_of_a_leaf(void **state)
{
    enum { NODES = 6 };

    for (unsigned uplinks = 1; uplinks <= 64; ++uplinks) {
        for (unsigned lanes = 1; lanes <= 8; ++lanes) {
            for (unsigned first = 0; first < NODES; ++first) {
                for (unsigned nodes = 1; nodes <= NODES - first; ++nodes) {
                    for (unsigned nics = 1; nics <= 8; nics *= 2) {
                        check_job(uplinks, lanes, first * nics, nodes * nics);
                    }
                }
            }
        }
    }
}

/* With the default number of lanes, a single NIC must load all uplinks, or as
 * many of them as it has lanes. */
static void test_auto_lanes(void **state)
{
    for (unsigned uplinks = 1; uplinks <= 256; ++uplinks) {
        unsigned lanes = mrail_ports_auto_lanes(uplinks, 1);
        unsigned used[256] = {0}, most = 0;

        assert_int_equal(lanes, MRAIL_MIN(uplinks, 8u));
        for (unsigned q = 0; q < lanes; ++q) {
            uint16_t sport = mrail_ports_lane(uplinks, uplinks / 3, lanes, q);

            ++used[mrail_ports_segment_of(uplinks, sport)];
        }
        for (unsigned n = 0; n < uplinks; ++n) {
            most = MRAIL_MAX(most, used[n]);
        }
        assert_int_equal(most, 1);
    }
    assert_int_equal(mrail_ports_auto_lanes(1, 1), 1);
    assert_int_equal(mrail_ports_auto_lanes(2, 3), 6);
    assert_int_equal(mrail_ports_auto_lanes(3, 16384 / 3), 8);
}

/* Large NIC indices (host parts of addresses) must not overflow. */
static void test_large_nic_index(void **state)
{
    assert_int_equal(mrail_ports_lane(3, UINT32_MAX, 32, 31),
                     0xC000 +
                         ((uint64_t)UINT32_MAX * 32 + 31) % 3 * (0x4000 / 3));
}

static void test_nested(void **state)
{
    static const unsigned spines[] = {1, 2, 3, 8, 16, 64};

    for (unsigned uplinks = 1; uplinks <= 256; ++uplinks) {
        for (unsigned s = 0; s < MRAIL_ARRAY_SIZE(spines); ++s) {
            unsigned total = uplinks * spines[s];
            unsigned sub = mrail_ports_step(uplinks) / spines[s];
            unsigned char seen[256][64];

            memset(seen, 0, sizeof(seen));
            for (unsigned i = 0; i < total; ++i) {
                uint16_t sport =
                    mrail_ports_lane_nested(uplinks, spines[s], i, 1, 0);
                unsigned leaf = mrail_ports_segment_of(uplinks, sport);
                uint16_t first, last;

                mrail_ports_segment(uplinks, leaf, &first, &last);
                assert_int_equal(leaf, i % uplinks);
                assert_int_equal((sport - first) % sub, 0);
                assert_true((unsigned)(sport - first) / sub < spines[s]);
                assert_int_equal(seen[leaf][(sport - first) / sub]++, 0);
            }
        }
    }
}

static unsigned path_of(unsigned paths, unsigned lanes, unsigned nic,
                        unsigned lane)
{
    return (unsigned)(((uint64_t)nic * lanes + lane) % paths);
}

/* Counts the common paths of two NICs. A path on which both have several lanes
 * counts once per lane of the NIC with fewer lanes. */
static unsigned count_common(unsigned paths, unsigned lanes, unsigned a,
                             unsigned b)
{
    unsigned of_a[64] = {0}, of_b[64] = {0}, common = 0;

    for (unsigned q = 0; q < lanes; ++q) {
        ++of_a[path_of(paths, lanes, a, q)];
        ++of_b[path_of(paths, lanes, b, q)];
    }
    for (unsigned path = 0; path < paths; ++path) {
        common += MRAIL_MIN(of_a[path], of_b[path]);
    }
    return common;
}

/* Each end must use each of its lanes once. As many connections as possible
 * must have the same path at both ends. */
static void check_connections(unsigned paths, unsigned lanes, unsigned a,
                              unsigned b)
{
    uint64_t used_a = 0, used_b = 0;
    unsigned same = 0;

    for (unsigned i = 0; i < lanes; ++i) {
        unsigned at_a = mrail_ports_own_lane(paths, lanes, a, b, i);
        unsigned at_b = mrail_ports_own_lane(paths, lanes, b, a, i);

        assert_true(at_a < lanes && at_b < lanes);
        used_a |= 1ull << at_a;
        used_b |= 1ull << at_b;
        same +=
            (path_of(paths, lanes, a, at_a) == path_of(paths, lanes, b, at_b));
    }
    assert_int_equal(used_a, (lanes == 64) ? ~0ull : (1ull << lanes) - 1);
    assert_int_equal(used_b, used_a);
    assert_true(same >= count_common(paths, lanes, a, b));
}

static void test_connections_share_paths(void **state)
{
    for (unsigned paths = 1; paths <= 64; ++paths) {
        for (unsigned lanes = 1; lanes <= 64; lanes += 1 + lanes / 8) {
            for (unsigned a = 0; a < paths; a += 1 + paths / 7) {
                for (unsigned b = 0; b < 2 * paths; b += 1 + paths / 5) {
                    check_connections(paths, lanes, a, b);
                }
            }
        }
    }
    check_connections(7, 5, UINT32_MAX, 3);
}

/* The NICs of a leaf have one lane per peer, and all send to a peer at the same
 * distance. Their lanes must spread equally over all segments as soon as there
 * are enough NICs for that. */
static void check_single_lane_shift(unsigned paths, unsigned lanes,
                                    unsigned distance)
{
    unsigned divisor = paths, rest = lanes, count[64] = {0}, nics;

    while (rest != 0) {
        unsigned next = divisor % rest;

        divisor = rest;
        rest = next;
    }
    nics = paths / divisor * lanes;
    for (unsigned nic = 0; nic < nics; ++nic) {
        unsigned lane = mrail_ports_own_lane(paths, lanes, 100 + nic,
                                             100 + nic + distance, 0);

        ++count[path_of(paths, lanes, 100 + nic, lane)];
    }
    for (unsigned path = 0; path < paths; ++path) {
        assert_int_equal(count[path] * paths, nics);
    }
}

static void test_single_lane_spread(void **state)
{
    for (unsigned paths = 1; paths <= 64; ++paths) {
        for (unsigned lanes = 1; lanes <= 32; ++lanes) {
            for (unsigned distance = 1; distance <= 64; distance += 7) {
                check_single_lane_shift(paths, lanes, distance);
            }
        }
    }
}

/* A NIC that sends to all other NICs must use all of its lanes equally. */
static void test_single_lane_to_all(void **state)
{
    enum { LANES = 8, UPLINKS = 8, NICS = 64 };

    for (unsigned nic = 0; nic < NICS; ++nic) {
        unsigned count[LANES] = {0};

        for (unsigned peer = 0; peer < 2 * NICS; ++peer) {
            ++count[mrail_ports_own_lane(UPLINKS, LANES, nic, peer, 0)];
        }
        for (unsigned q = 0; q < LANES; ++q) {
            assert_in_range(count[q], 2 * NICS / LANES - 1,
                            2 * NICS / LANES + 1);
        }
    }
}

/* `nics` consecutive NICs of each leaf send to the NICs with the same indices,
 * on one lane. The load of a segment may be at most `max_percent` of the mean,
 * and each NIC must use at least `min_segments` segments. */
static void check_single_lane_all_to_all(unsigned uplinks, unsigned lanes,
                                         unsigned nics, unsigned max_percent,
                                         unsigned min_segments)
{
    for (unsigned start = 0; start < 2 * uplinks; ++start) {
        unsigned count[64] = {0};

        for (unsigned nic = start; nic < start + nics; ++nic) {
            uint64_t used = 0;

            for (unsigned peer = start; peer < start + nics; ++peer) {
                unsigned lane =
                    mrail_ports_own_lane(uplinks, lanes, nic, peer, 0);
                unsigned path = path_of(uplinks, lanes, nic, lane);

                ++count[path];
                used |= 1ull << path;
            }
            assert_true(__builtin_popcountll(used) >= (int)min_segments);
        }
        for (unsigned path = 0; path < uplinks; ++path) {
            assert_true(count[path] * uplinks * 100 <=
                        max_percent * nics * nics);
        }
    }
}

static void test_single_lane_all_to_all(void **state)
{
    /* as many NICs as uplinks */
    check_single_lane_all_to_all(8, 8, 8, 115, 7);
    check_single_lane_all_to_all(16, 8, 16, 115, 8);
    check_single_lane_all_to_all(32, 8, 32, 115, 8);
    check_single_lane_all_to_all(64, 8, 64, 115, 8);
    check_single_lane_all_to_all(8, 4, 8, 125, 4);
    check_single_lane_all_to_all(4, 4, 4, 125, 3);
    /* few NICs */
    check_single_lane_all_to_all(8, 8, 4, 200, 4);
    check_single_lane_all_to_all(8, 8, 5, 160, 5);
    check_single_lane_all_to_all(8, 8, 6, 135, 6);
    check_single_lane_all_to_all(16, 8, 8, 175, 4);
    /* more NICs than uplinks */
    check_single_lane_all_to_all(8, 8, 16, 100, 8);
}

static void test_flow_labels(void **state)
{
    mrail_rng_t rng;

    assert_int_equal(mrail_ports_flow_label(0xC000), 0x4001);
    assert_int_equal(mrail_ports_from_flow_label(0), 0);
    assert_int_equal(mrail_ports_from_flow_label(0x4001), 0xC000);
    for (unsigned sport = 0xC000; sport <= 0xFFFF; ++sport) {
        uint32_t label = mrail_ports_flow_label((uint16_t)sport);

        assert_in_range(label, 1, 0xFFFFF);
        assert_int_equal(mrail_ports_from_flow_label(label), sport);
    }
    /* For any label, the port is in range. The upper bits of the word have no
     * effect. */
    mrail_rng_init(&rng, 7);
    for (unsigned i = 0; i < 100000; ++i) {
        uint32_t label = 1 + mrail_rng_below(&rng, 0xFFFFF);
        uint16_t sport = mrail_ports_from_flow_label(label);

        assert_int_equal(sport, 0xC000 | ((label & 0x3FFF) ^ (label >> 14)));
        assert_int_equal(mrail_ports_from_flow_label(label | 0xABC00000),
                         sport);
    }
}

static void test_check(void **state)
{
    char reason[256] = "";

    assert_int_equal(mrail_ports_check(8, 1, 4, 2, reason, sizeof(reason)), 0);
    assert_string_equal(reason, "");
    assert_int_equal(mrail_ports_check(8, 1, 2, 3, reason, sizeof(reason)),
                     -ERANGE);
    assert_string_equal(reason,
                        "2 NICs x 3 lanes = 6 source ports per leaf, "
                        "fewer than its 8 uplinks: 2 uplinks stay idle; "
                        "4 lanes per rail would use all");
    assert_int_equal(mrail_ports_check(0, 1, 2, 2, reason, sizeof(reason)),
                     -EINVAL);
    assert_int_equal(mrail_ports_check(257, 1, 2, 2, reason, sizeof(reason)),
                     -EINVAL);
    assert_string_equal(reason,
                        "257 uplinks: a leaf can have 1 to 256 uplinks");
    assert_int_equal(mrail_ports_check(8, 1, 0, 2, NULL, 0), -EINVAL);
    assert_int_equal(mrail_ports_check(8, 0, 4, 2, NULL, 0), -EINVAL);
    assert_int_equal(mrail_ports_check(8, 2049, 4, 2, NULL, 0), -EINVAL);
    assert_int_equal(mrail_ports_check(8, 4, 16, 2, NULL, 0), 0);
    assert_int_equal(mrail_ports_check(8, 4, 15, 2, reason, sizeof(reason)),
                     -ERANGE);
    assert_string_equal(reason,
                        "15 NICs x 2 lanes = 30 source ports per pod, "
                        "fewer than its 8 x 4 paths: 2 paths stay idle; "
                        "3 lanes per rail would use all");
    assert_int_equal(mrail_ports_check(8, 1, 2, 0, NULL, 0), -EINVAL);
}

/* In three tiers, the segments of a spine tile the leaf's segment, the inverse
 * finds them, and a lane's port is in the segments that its number gives. */
static void test_nested_segments_tile(void **state)
{
    for (unsigned uplinks = 1; uplinks <= 64; ++uplinks) {
        for (unsigned spine_uplinks = 1; spine_uplinks <= 64;
             spine_uplinks += 1 + spine_uplinks / 8) {
            unsigned next = 0xC000;

            for (unsigned leaf = 0; leaf < uplinks; ++leaf) {
                for (unsigned spine = 0; spine < spine_uplinks; ++spine) {
                    uint16_t first, last;
                    unsigned a, b;

                    mrail_ports_segment_nested(uplinks, spine_uplinks, leaf,
                                               spine, &first, &last);
                    assert_int_equal(first, next);
                    next = last + 1u;
                    mrail_ports_segment_of_nested(uplinks, spine_uplinks, first,
                                                  &a, &b);
                    assert_true(a == leaf && b == spine);
                    mrail_ports_segment_of_nested(uplinks, spine_uplinks, last,
                                                  &a, &b);
                    assert_true(a == leaf && b == spine);
                }
            }
            assert_int_equal(next, 0x10000);
        }
    }
}

static void test_nested_lanes(void **state)
{
    for (unsigned uplinks = 1; uplinks <= 64; ++uplinks) {
        for (unsigned spine_uplinks = 1; spine_uplinks <= 32;
             spine_uplinks *= 2) {
            for (unsigned flow = 0; flow < 3 * uplinks * spine_uplinks;
                 flow += 7) {
                uint16_t sport = mrail_ports_lane_nested(uplinks, spine_uplinks,
                                                         flow / 4, 4, flow % 4);
                unsigned leaf, spine;

                mrail_ports_segment_of_nested(uplinks, spine_uplinks, sport,
                                              &leaf, &spine);
                assert_int_equal(leaf, flow % uplinks);
                assert_int_equal(spine, flow / uplinks % spine_uplinks);
                assert_int_equal(mrail_ports_segment_of(uplinks, sport), leaf);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paper_example),
        cmocka_unit_test(test_equals_the_paper),
        cmocka_unit_test(test_segments_tile),
        cmocka_unit_test(test_equal_spread),
        cmocka_unit_test(test_jobs_of_a_leaf),
        cmocka_unit_test(test_nested_segments_tile),
        cmocka_unit_test(test_nested_lanes),
        cmocka_unit_test(test_auto_lanes),
        cmocka_unit_test(test_large_nic_index),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_connections_share_paths),
        cmocka_unit_test(test_single_lane_spread),
        cmocka_unit_test(test_single_lane_to_all),
        cmocka_unit_test(test_single_lane_all_to_all),
        cmocka_unit_test(test_flow_labels),
        cmocka_unit_test(test_check),
    };

    return cmocka_run_group_tests_name("ports", tests, NULL, NULL);
}
