/*
 * Tests operations with a quota for each rail: every rail carries exactly its
 * quota, and the other rails take over when the quota expires.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"

static uint8_t memory[8 << 20];
static mrail_mem_t *mem;
static mrail_rkey_t *rkey;
static mrail_ep_t *ep;

static void connect_to(unsigned lanes)
{
    uint8_t packed[256];

    connect_lanes(0, lanes);
    ep = ep_to(0);
    assert_int_equal(mrail_mem_reg(engine, memory, sizeof(memory), &mem), 0);
    mrail_rkey_pack(mem, packed);
    assert_int_equal(mrail_rkey_unpack(packed, &rkey), 0);
}

static void connect(unsigned lanes)
{
    start(64);
    connect_to(lanes);
}

static void get(size_t length, mrail_quota_t *quota)
{
    mrail_iov_t iov = {.buffer = memory, .length = length, .mem = mem};

    assert_int_equal(mrail_ep_get_quota(ep, &iov, 1, 0x5000, rkey, quota, NULL),
                     -EINPROGRESS);
}

static void release(void)
{
    mrail_rkey_release(rkey);
    mrail_mem_dereg(mem);
}

/* Completes all requests, in random order of the rails. */
static void finish(mrail_rng_t *rng)
{
    for (unsigned i = 0; !mrail_list_empty(&peer_of(0)->ops); ++i) {
        struct ibv_cq *cq = engine->rails[mrail_rng_below(rng, 2)].cq;

        assert_true(i < 100000);
        fake_complete_send(cq, IBV_WC_SUCCESS);
        fake_now_ns += 50 * MRAIL_NS_PER_US;
        mrail_iface_progress(ifaces[0]);
    }
}

static uint64_t carried(unsigned rail)
{
    return engine->rails[rail].work[MRAIL_OP_GET];
}

/* Each rail carries exactly its quota, even if another rail is faster. */
static void test_exact(void **state)
{
    mrail_rng_t rng;

    connect(2);
    mrail_rng_init(&rng, 1);
    for (unsigned i = 0; i < 50; ++i) {
        size_t length = 1 + mrail_rng_below(&rng, sizeof(memory));
        size_t first = mrail_rng_below(&rng, (uint32_t)length + 1);
        uint64_t before[] = {carried(0), carried(1)};
        mrail_quota_t quota = {.left = {first, length - first},
                               .until_ns = MRAIL_NS_NEVER};

        get(length, &quota);
        finish(&rng);
        assert_int_equal(quota.left[0] + quota.left[1], 0);
        assert_int_equal(quota.carried[0], first);
        assert_int_equal(quota.carried[1], length - first);
        if ((first >= 4096) && (length - first >= 4096)) {
            assert_int_equal(carried(0) - before[0], first);
            assert_int_equal(carried(1) - before[1], length - first);
        }
    }
    release();
}

/* Two operations consume the same quota. */
static void test_shared(void **state)
{
    mrail_quota_t quota = {.left = {3 << 20, 5 << 20},
                           .until_ns = MRAIL_NS_NEVER};
    mrail_rng_t rng;

    connect(2);
    mrail_rng_init(&rng, 2);
    get(2 << 20, &quota);
    get(6 << 20, &quota);
    finish(&rng);
    assert_int_equal(carried(0), 3 << 20);
    assert_int_equal(carried(1), 5 << 20);
    release();
}

/* Completes requests of one rail only, for `for_ns`. */
static void only_rail(unsigned rail, mrail_ns_t for_ns)
{
    mrail_ns_t end_ns = fake_now_ns + for_ns;

    while (fake_now_ns < end_ns) {
        fake_complete_send(engine->rails[rail].cq, IBV_WC_SUCCESS);
        fake_now_ns += 100 * MRAIL_NS_PER_US;
        mrail_iface_progress(ifaces[0]);
    }
}

/* A rail that lags behind keeps its bytes until the time limit of the quota,
 * and loses them afterwards. */
static void test_until(void **state)
{
    const size_t length = sizeof(memory);
    mrail_quota_t quota = {.left = {1 << 20, length - (1 << 20)}};
    mrail_rng_t rng;

    connect(2);
    mrail_rng_init(&rng, 3);
    quota.until_ns = fake_now_ns + 40 * MRAIL_NS_PER_MS;
    get(length, &quota);
    only_rail(0, 30 * MRAIL_NS_PER_MS);
    assert_int_equal(carried(0), 1 << 20);
    only_rail(0, 30 * MRAIL_NS_PER_MS);
    assert_true(carried(0) > 2 << 20);
    finish(&rng);
    assert_int_equal(carried(0) + carried(1), length);
    release();
}

/* The same applies to operations that share a quota. */
static void test_shared_until(void **state)
{
    mrail_quota_t quota = {.left = {1 << 20, 7 << 20}};
    mrail_rng_t rng;

    connect(2);
    mrail_rng_init(&rng, 8);
    quota.until_ns = fake_now_ns + 40 * MRAIL_NS_PER_MS;
    for (unsigned i = 0; i < 64; ++i) {
        get(128 << 10, &quota);
    }
    only_rail(0, 30 * MRAIL_NS_PER_MS);
    assert_int_equal(carried(0), 1 << 20);
    only_rail(0, 30 * MRAIL_NS_PER_MS);
    assert_true(carried(0) > 2 << 20);
    finish(&rng);
    assert_int_equal(carried(0) + carried(1), 8 << 20);
    release();
}

/* An operation whose rail is full does not delay later operations on other
 * rails, with or without a quota. */
static void test_rails_are_independent(void **state)
{
    mrail_quota_t first = {.left = {sizeof(memory), 0},
                           .until_ns = MRAIL_NS_NEVER};
    mrail_quota_t second = {.left = {0, 2 << 20}, .until_ns = MRAIL_NS_NEVER};
    mrail_rng_t rng;

    connect(2);
    mrail_rng_init(&rng, 9);
    engine->config.window = 512 << 10;
    get(sizeof(memory) / 2, &first);
    get(sizeof(memory) / 2, &first);
    get(1 << 20, &second);
    get(1 << 20, &second);
    get(1 << 20, NULL);
    assert_true(first.left[0] > 0); /* the first operations wait */
    only_rail(1, 30 * MRAIL_NS_PER_MS);
    assert_int_equal(second.carried[1], 2 << 20);
    assert_int_equal(peer_of(0)->uncut_bytes, first.left[0]);
    finish(&rng);
    assert_int_equal(first.carried[0], sizeof(memory));
    release();
}

/* A rail whose first lane is still connecting keeps its quota. */
static void test_connecting_rail(void **state)
{
    mrail_quota_t quota = {.left = {1 << 20, 1 << 20},
                           .until_ns = MRAIL_NS_NEVER};
    unsigned up;
    mrail_rng_t rng;

    connect(1);
    mrail_rng_init(&rng, 5);
    up = peer_of(0)->lanes[0]->rail->index;
    get(2 << 20, &quota);
    for (unsigned i = 0; i < 100; ++i) {
        fake_now_ns += MRAIL_NS_PER_MS;
        progress();
    }
    assert_int_equal(quota.carried[up], 1 << 20);
    assert_int_equal(quota.carried[1 - up], 0);
    deliver_lane(0, MRAIL_CTL_LANE_REQ, 1, 11, 5);
    deliver_lane(0, MRAIL_CTL_LANE_READY, 1, 11, 5);
    finish(&rng);
    assert_int_equal(quota.carried[1 - up], 1 << 20);
    release();
}

static void path_event(unsigned slot, mrail_health_event_t event)
{
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_path_event(peer_of(0), slot, event, fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* A rail whose path is suspect keeps its quota. */
static void test_suspected_rail(void **state)
{
    mrail_quota_t quota = {.left = {2 << 20, 2 << 20},
                           .until_ns = MRAIL_NS_NEVER};
    unsigned held;
    mrail_rng_t rng;

    connect(2);
    mrail_rng_init(&rng, 7);
    get(2 << 20, NULL); /* uses both lanes */
    finish(&rng);
    held = peer_of(0)->lanes[0]->rail->index;
    path_event(0, MRAIL_HEALTH_STALLED);
    get(4 << 20, &quota);
    for (unsigned i = 0; i < 100; ++i) {
        fake_now_ns += MRAIL_NS_PER_MS;
        progress();
    }
    assert_int_equal(quota.carried[1 - held], 2 << 20);
    assert_int_equal(quota.carried[held], 0);
    path_event(0, MRAIL_HEALTH_PROGRESS);
    finish(&rng);
    assert_int_equal(quota.carried[held], 2 << 20);
    release();
}

/* A rail that has failed loses its quota. */
static void test_failed_rail(void **state)
{
    mrail_quota_t quota = {.left = {1 << 20, 1 << 20},
                           .until_ns = MRAIL_NS_NEVER};
    unsigned failed;
    mrail_rng_t rng;

    connect(2);
    mrail_rng_init(&rng, 6);
    get(2 << 20, NULL); /* uses both lanes */
    finish(&rng);
    failed = peer_of(0)->lanes[0]->rail->index;
    break_lanes(0, 1);
    confirm_broken(0, 0, 0);
    get(2 << 20, &quota);
    finish(&rng);
    assert_int_equal(quota.carried[1 - failed], 2 << 20);
    assert_int_equal(quota.left[failed], 1 << 20);
    release();
}

/* An iface without its own thread does not change the data-path lock. */
static void test_serialised_iface(void **state)
{
    mrail_iface_params_t params = {.is_serialised = 1};
    mrail_iface_t *first, *second, *third;
    mrail_config_t config;

    fake_engine_quiet();
    assert_int_equal(mrail_config_from_env(&config), 0);
    config.telemetry = 0;
    assert_int_equal(mrail_engine_open(&config, &engine), 0);
    mrail_config_cleanup(&config);
    assert_int_equal(mrail_iface_create(engine, &params, &first), 0);
    assert_int_equal(mrail_iface_create(engine, &params, &second), 0);
    assert_false(mrail_data_lock_is_shared(&engine->data_lock));
    params.is_serialised = 0;
    assert_int_equal(mrail_iface_create(engine, &params, &third), 0);
    assert_true(mrail_data_lock_is_shared(&engine->data_lock));
    mrail_iface_destroy(first);
    mrail_iface_destroy(second);
    mrail_iface_destroy(third);
    mrail_engine_close(engine);
    engine = NULL;
}

/* Completes all requests, at the same rate on both rails. */
static void finish_equally(void)
{
    for (unsigned i = 0; !mrail_list_empty(&peer_of(0)->ops); ++i) {
        assert_true(i < 100000);
        fake_complete_send(engine->rails[0].cq, IBV_WC_SUCCESS);
        fake_complete_send(engine->rails[1].cq, IBV_WC_SUCCESS);
        fake_now_ns += 50 * MRAIL_NS_PER_US;
        mrail_iface_progress(ifaces[0]);
    }
}

/* With port rules, a rail's lanes carry equal parts of its quota, although
 * other operations load the rails unequally. */
static void test_equal_lanes(void **state)
{
    uint64_t carried_by[LANES] = {0};

    connect(LANES);
    engine->config.uplinks = 2;
    get(sizeof(memory), NULL); /* measures all lanes */
    finish_equally();
    for (unsigned i = 0; i < LANES; ++i) {
        carried_by[i] = peer_of(0)->lanes[i]->rma_carried;
    }
    for (unsigned i = 0; i < 20; ++i) {
        mrail_quota_t quota = {.left = {1 << 20, 6 << 20},
                               .until_ns = MRAIL_NS_NEVER};

        get(7 << 20, &quota);
        finish_equally();
    }
    for (unsigned i = 0; i < LANES; ++i) {
        const mrail_lane_t *lane = peer_of(0)->lanes[i];

        carried_by[i] = lane->rma_carried - carried_by[i];
        assert_in_range(carried_by[i],
                        ((lane->rail->index == 0) ? 10u << 20 : 60u << 20) -
                            MRAIL_SCHED_CHUNK_MAX / 2,
                        ((lane->rail->index == 0) ? 10u << 20 : 60u << 20) +
                            MRAIL_SCHED_CHUNK_MAX / 2);
    }
    /* Operations without a quota still use both rails. */
    carried_by[0] = carried(0);
    get(sizeof(memory), NULL);
    finish_equally();
    assert_in_range(carried(0) - carried_by[0], 3 << 20, 5 << 20);
    release();
}

/* Lanes share the quota of a rail in proportion to their uplinks. An uplink
 * that is down carries no bytes. Each rail has a lane on each uplink. */
static void test_unequal_uplinks(void **state)
{
    static const double slow[] = {2e9, 1e9}, dead[] = {0, 1e9};
    mrail_quota_t quota = {.left = {6 << 20, 2 << 20},
                           .until_ns = MRAIL_NS_NEVER};
    uint64_t carried_by[2] = {0};

    start(64);
    engine->config.uplinks = 2;
    connect_to(LANES);
    assert_int_equal(mrail_ep_set_uplinks(ep, 0, slow, 2), 0);
    assert_int_equal(mrail_ep_set_uplinks(ep, 1, dead, 2), 0);
    get(sizeof(memory), NULL); /* measures all lanes */
    finish_equally();
    for (unsigned i = 0; i < LANES; ++i) {
        const mrail_lane_t *lane = peer_of(0)->lanes[i];

        assert_int_equal(lane->uplink_down,
                         lane->rail->index == 1 && lane->uplink == 0);
        carried_by[lane->uplink] -=
            (lane->rail->index == 0) ? lane->rma_carried : 0;
    }
    for (unsigned i = 0; i < 20; ++i) {
        quota.left[0] = 6 << 20;
        quota.left[1] = 2 << 20;
        get(8 << 20, &quota);
        finish_equally();
    }
    for (unsigned i = 0; i < LANES; ++i) {
        const mrail_lane_t *lane = peer_of(0)->lanes[i];

        if (lane->rail->index == 0) {
            carried_by[lane->uplink] += lane->rma_carried;
        } else if (lane->uplink == 0) {
            assert_int_equal(lane->rma_carried, 0);
        }
    }
    assert_int_equal(carried_by[0] + carried_by[1], 120u << 20);
    assert_in_range(carried_by[0], 79u << 20, 81u << 20);
    release();
}

/* If no lane is left for its quota, an operation ignores the quota. */
static void test_lost_rail(void **state)
{
    mrail_quota_t quota = {.left = {0, 0, 1 << 20}, .until_ns = MRAIL_NS_NEVER};
    mrail_rng_t rng;

    connect(2);
    mrail_rng_init(&rng, 4);
    get(1 << 20, &quota);
    finish(&rng);
    assert_int_equal(carried(0) + carried(1), 1 << 20);
    assert_int_equal(quota.left[2], 1 << 20);
    release();
}

#define ON_ENGINE(_test) cmocka_unit_test_teardown(_test, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ENGINE(test_exact),
        ON_ENGINE(test_shared),
        ON_ENGINE(test_until),
        ON_ENGINE(test_shared_until),
        ON_ENGINE(test_rails_are_independent),
        ON_ENGINE(test_connecting_rail),
        ON_ENGINE(test_suspected_rail),
        ON_ENGINE(test_failed_rail),
        ON_ENGINE(test_serialised_iface),
        ON_ENGINE(test_lost_rail),
        ON_ENGINE(test_equal_lanes),
        ON_ENGINE(test_unequal_uplinks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
