/* Tests the findings of mrail diagnose about rails and uplinks. */
#include "config.h"
#include "diagnose_snapshot.h"

#include <string.h>

/* ---- rails ---- */

static void test_slow_rail(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].rails[1].traffic.bytes = 10 << 20;
    }
    assert_one(DIAGNOSE_RAIL_SLOW, "rail nic1:1");
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].rails[1].nominal /= 10; /* its port is slower */
    }
    assert_none();
}

static void test_rail_with_little_traffic(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].rails[1].traffic.bytes = 1000;
    }
    assert_none();
}

/* A rail carries more than the other one, and seems slower because ranks that
 * use no other rail share it. */
static void test_shared_rail(void **state)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        diagnose_traffic_t *shared = &ranks[i].rails[0].traffic;
        diagnose_traffic_t *other = &ranks[i].rails[1].traffic;

        ranks[i].num_rails = 2;
        *shared = (diagnose_traffic_t){
            .bytes = 38 << 20, .busy_ns = 890 * MS, .chunks = 1150};
        *other = (diagnose_traffic_t){0};
        if (i % 2 == 1) {
            *other = (diagnose_traffic_t){
                .bytes = 19 << 20, .busy_ns = 184 * MS, .chunks = 576};
        }
    }
    assert_none();
}

/* One rank of four sees it. */
static void test_slow_peer(void **state)
{
    ranks[0].rails[1].traffic.bytes = 10 << 20;
    assert_none();
}

/* ---- hosts of an archive ---- */

/* The rails of all hosts have the same names. Half of the ranks are on a. */
static void set_hosts(void)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].host = (i < RANKS / 2) ? "a" : "b";
    }
}

static void slow_rail(unsigned rank, unsigned rail)
{
    ranks[rank].rails[rail].traffic.bytes = 10 << 20;
}

/* Hosts that do not use the slow rail do not outvote its host. */
static void test_slow_rail_of_host(void **state)
{
    set_hosts();
    for (unsigned i = RANKS; i < MAX_RANKS; ++i) {
        add_copy(RANKS - 1);
    }
    slow_rail(0, 1);
    slow_rail(1, 1);
    assert_one(DIAGNOSE_RAIL_SLOW, "rail nic1:1 of a");
    assert_int_equal(report.findings[0].rank, 0);
    assert_non_null(strstr(report.findings[0].evidence,
                           "at rank 0 on a it carried 52.4 MB/s"));
    assert_non_null(strstr(report.findings[0].evidence, "2 of 2 ranks agree"));
}

/* A host whose ranks do not agree has no slow rail, as without an archive. */
static void test_slow_peer_of_host(void **state)
{
    set_hosts();
    ranks[2].host = "a";
    slow_rail(0, 1);
    assert_none();
}

/* One finding for all hosts. The slowest host is probably the cause. */
static void test_slow_rail_of_hosts(void **state)
{
    set_hosts();
    for (unsigned i = 0; i < RANKS; ++i) {
        slow_rail(i, 1);
    }
    ranks[2].rails[1].traffic.bytes = 5 << 20;
    assert_one(DIAGNOSE_RAIL_SLOW, "rail nic1:1 of 2 hosts");
    assert_int_equal(report.findings[0].rank, 2);
    assert_non_null(strstr(report.findings[0].evidence, "hosts: a, b"));
}

static void test_down_of_host(void **state)
{
    set_hosts();
    ranks[3].rails[1].is_down = 1;
    assert_one(DIAGNOSE_RAIL_DOWN, "rail nic1:1 of b");
    ranks[0].rails[1].is_down = 1;
    assert_one(DIAGNOSE_RAIL_DOWN, "rail nic1:1 of 2 hosts");
    assert_non_null(strstr(report.findings[0].evidence, "at 2 ranks"));
    /* Another host has a slow rail of the same name. */
    ranks[0].rails[1].is_down = 0;
    slow_rail(0, 1);
    slow_rail(1, 1);
    check();
    assert_int_equal(report.num_findings, 2);
    assert_string_equal(report.findings[0].subject, "rail nic1:1 of b");
    assert_string_equal(report.findings[1].subject, "rail nic1:1 of a");
}

/* ---- uplinks ---- */

#define LANES 4u

/* All ranks have LANES lanes to each other on the first rail, one per uplink. */
static void add_lanes(void)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        for (unsigned k = 0; k < RANKS * LANES; ++k) {
            if (k / LANES != i) {
                ranks[i].lanes[ranks[i].num_lanes++] = (diagnose_lane_t){
                    .peer = 500 + k / LANES,
                    .slot = (uint16_t)(k % LANES),
                    .uplink = (int)(k % LANES),
                    .traffic = {
                        .bytes = 4 << 20, .busy_ns = 200 * MS, .chunks = 64}};
            }
        }
    }
}

/* Slows down the lanes with this number, of all ranks. */
static void slow_lanes(unsigned slot)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        for (unsigned k = 0; k < ranks[i].num_lanes; ++k) {
            if (ranks[i].lanes[k].slot == slot) {
                ranks[i].lanes[k].traffic.busy_ns = 900 * MS;
            }
        }
    }
}

static void test_slow_uplink(void **state)
{
    add_lanes();
    assert_none();
    slow_lanes(2);
    assert_one(DIAGNOSE_UPLINK_SLOW, "uplink 2 of rail nic0:1");
    assert_non_null(strstr(report.findings[0].evidence,
                           "lane 2 from rank 0 to rank 1 carried 4.7 MB/s"));
    assert_non_null(strstr(report.findings[0].evidence,
                           "at 4 ranks, 12 of 12 lanes of this uplink"));
    /* The uplink delays its rail. */
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].rails[0].traffic.bytes = 10 << 20;
    }
    assert_one(DIAGNOSE_UPLINK_SLOW, "uplink 2 of rail nic0:1");
}

/* Ranks 0 and 1 are at one leaf, ranks 2 and 3 at another one. Lanes below a leaf
 * take no uplink. */
static void test_slow_uplink_between_leaves(void **state)
{
    add_lanes();
    slow_lanes(3);
    for (unsigned i = 0; i < RANKS; ++i) {
        for (unsigned k = 0; k < ranks[i].num_lanes; ++k) {
            if (ranks[i].lanes[k].peer / 2 == (500 + i) / 2) {
                ranks[i].lanes[k].traffic.busy_ns = 200 * MS;
            }
        }
    }
    assert_one(DIAGNOSE_UPLINK_SLOW, "uplink 3 of rail nic0:1");
    assert_non_null(strstr(report.findings[0].evidence, "8 of 12 lanes"));
}

/* The data of GETs comes from the peer, whose lane may take another uplink. If
 * the snapshot lacks the peer, the uplink is unknown. */
static void test_slow_uplink_of_gets(void **state)
{
    add_lanes();
    for (unsigned i = 0; i < RANKS; ++i) {
        for (unsigned k = 0; k < ranks[i].num_lanes; ++k) {
            diagnose_lane_t *lane = &ranks[i].lanes[k];
            unsigned from = (unsigned)(lane->peer - 500);

            lane->uplink = (int)((lane->slot + i) % LANES);
            lane->get_bytes = lane->traffic.bytes;
            if ((lane->slot + from) % LANES == 2) {
                lane->traffic.busy_ns = 900 * MS;
            }
        }
    }
    assert_one(DIAGNOSE_UPLINK_SLOW, "uplink 2 of rail nic0:1");
    set_hosts();
    assert_one(DIAGNOSE_UPLINK_SLOW, "uplink 2 of rail nic0:1");
    assert_non_null(
        strstr(report.findings[0].evidence, "from rank 0 on a to rank 1 on a"));
    snapshot.num_ranks = 1;
    assert_none();
}

/* All ranks see the slow rail, but only one rank the slow uplink. */
static void test_slow_rail_and_uplink(void **state)
{
    add_lanes();
    for (unsigned k = 0; k < ranks[0].num_lanes; ++k) {
        if (ranks[0].lanes[k].slot == 2) {
            ranks[0].lanes[k].traffic.busy_ns = 900 * MS;
        }
    }
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].rails[0].traffic.bytes = 10 << 20;
    }
    check();
    assert_int_equal(report.num_findings, 2);
    assert_int_equal(report.findings[0].cause, DIAGNOSE_UPLINK_SLOW);
    assert_int_equal(report.findings[1].cause, DIAGNOSE_RAIL_SLOW);
}

/* One lane is not enough. Of two ranks, each has only one to the other. */
static void test_slow_uplink_of_two_ranks(void **state)
{
    add_lanes();
    snapshot.num_ranks = 2;
    ranks[0].num_lanes = ranks[1].num_lanes = LANES;
    ranks[0].lanes[1].traffic.busy_ns = 900 * MS;
    assert_none();
    ranks[1].lanes[1].traffic.busy_ns = 900 * MS;
    assert_one(DIAGNOSE_UPLINK_SLOW, "uplink 1 of rail nic0:1");
}

/* The lanes to a slow peer are all slow. */
static void test_slow_peer_on_uplinks(void **state)
{
    add_lanes();
    for (unsigned i = 0; i < RANKS; ++i) {
        for (unsigned k = 0; k < ranks[i].num_lanes; ++k) {
            if (ranks[i].lanes[k].peer == 502) {
                ranks[i].lanes[k].traffic.busy_ns = 900 * MS;
            }
        }
    }
    assert_none();
}

static void test_few_slow_lanes(void **state)
{
    add_lanes();
    for (unsigned i = 0; i < RANKS; ++i) {
        ranks[i].lanes[1].traffic.busy_ns = 900 * MS;
    }
    assert_none();
}

static void test_slow_lanes_with_little_traffic(void **state)
{
    add_lanes();
    for (unsigned i = 0; i < RANKS; ++i) {
        for (unsigned k = 0; k < ranks[i].num_lanes; ++k) {
            ranks[i].lanes[k].traffic.chunks = (k % LANES == 1) ? 2 : 64;
        }
    }
    slow_lanes(1);
    assert_none();
}

/* Without port rules, no two lanes are known to take the same uplink. */
static void test_no_port_rules(void **state)
{
    add_lanes();
    slow_lanes(2);
    for (unsigned i = 0; i < RANKS; ++i) {
        for (unsigned k = 0; k < ranks[i].num_lanes; ++k) {
            ranks[i].lanes[k].uplink = -1;
        }
    }
    assert_none();
}

/* Chunks count at their rail and their lane. Overlapping times count once. */
static void test_records(void **state)
{
    mrail_ring_record_t records[] = {
        {NOW - 20 * MS, NOW - 5 * MS, 501, 1000, 1, 0, MRAIL_RING_PUT, 1},
        {NOW - 30 * MS, NOW - 10 * MS, 501, 1000, 1, 0, MRAIL_RING_GET, 1},
        {NOW - 30 * MS, NOW - 20 * MS, 501, 1000, 0, 0, MRAIL_RING_PUT, 1},
        {NOW - 30 * MS, NOW - 20 * MS, 509, 1000, 0, 1, MRAIL_RING_PUT, 1},
        {NOW - 30 * MS, NOW - 20 * MS, 501, 1000, 0, 0, MRAIL_RING_AM, 1},
        {NOW - 9000 * MS, NOW - 20 * MS, 501, 1000, 0, 0, MRAIL_RING_PUT, 1}};
    diagnose_rank_t *rank = &ranks[0];

    add_lanes();
    for (unsigned i = 0; i < rank->num_rails; ++i) {
        rank->rails[i].traffic = (diagnose_traffic_t){0};
    }
    rank->lanes[0].traffic = rank->lanes[1].traffic = (diagnose_traffic_t){0};
    diagnose_add_records(rank, records, MRAIL_ARRAY_SIZE(records));
    assert_int_equal(rank->rails[0].traffic.chunks, 3);
    assert_int_equal(rank->rails[0].traffic.bytes, 3000);
    assert_int_equal(rank->rails[0].traffic.busy_ns, 25 * MS);
    assert_int_equal(rank->rails[1].traffic.chunks, 1);
    assert_int_equal(rank->lanes[0].traffic.busy_ns, 10 * MS);
    assert_int_equal(rank->lanes[1].traffic.chunks, 2);
    assert_int_equal(rank->lanes[1].traffic.busy_ns, 25 * MS);
    assert_int_equal(rank->num_exchanges, 2);
    for (unsigned i = 0; i < 2; ++i) {
        int is_first = rank->exchanges[i].peer == 501;

        assert_true(is_first || (rank->exchanges[i].peer == 509));
        assert_int_equal(rank->exchanges[i].last_ns,
                         NOW - (is_first ? 5 : 20) * MS);
    }
}

/* A rank with many peers keeps the latest of them. Old chunks count as well, but
 * not failed ones. */
static void test_many_exchanges(void **state)
{
    mrail_ring_record_t records[DIAGNOSE_EXCHANGES + 2];
    diagnose_rank_t *rank = &ranks[0];
    uint64_t oldest_ns = UINT64_MAX;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(records); ++i) {
        records[i] = (mrail_ring_record_t){.post_ns = NOW - 60000 * MS - i * MS,
                                           .done_ns = NOW - 59000 * MS - i * MS,
                                           .peer = 1000 + i,
                                           .length = 1000,
                                           .kind = MRAIL_RING_PUT,
                                           .count = 1};
    }
    records[0].kind |= MRAIL_RING_FAILED;
    diagnose_add_records(rank, records, MRAIL_ARRAY_SIZE(records));
    assert_int_equal(rank->num_exchanges, DIAGNOSE_EXCHANGES);
    for (unsigned i = 0; i < rank->num_exchanges; ++i) {
        assert_int_not_equal(rank->exchanges[i].peer, 1000);
        oldest_ns = MRAIL_MIN(oldest_ns, rank->exchanges[i].last_ns);
    }
    assert_int_equal(oldest_ns, NOW - 59000 * MS - DIAGNOSE_EXCHANGES * MS);
}

#define TEST(_func) cmocka_unit_test_setup(_func, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_slow_rail),
        TEST(test_rail_with_little_traffic),
        TEST(test_shared_rail),
        TEST(test_slow_peer),
        TEST(test_slow_rail_of_host),
        TEST(test_slow_peer_of_host),
        TEST(test_slow_rail_of_hosts),
        TEST(test_down_of_host),
        TEST(test_slow_uplink),
        TEST(test_slow_uplink_between_leaves),
        TEST(test_slow_uplink_of_gets),
        TEST(test_slow_rail_and_uplink),
        TEST(test_slow_uplink_of_two_ranks),
        TEST(test_slow_peer_on_uplinks),
        TEST(test_few_slow_lanes),
        TEST(test_slow_lanes_with_little_traffic),
        TEST(test_no_port_rules),
        TEST(test_records),
        TEST(test_many_exchanges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
