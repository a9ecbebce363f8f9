/* Tests rail pairing, subnets and parameters, which are the parts of src/rail
 * without I/O. */
#include "config.h"
#include "rail/mrail.h"
#include "rail/params.h"
#include "rail/proto/pairing.h"
#include "rail/verbs/rail.h"
#include "tools/unknown_params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"

static void test_by_subnet_not_by_ordinal(void **state)
{
    const uint64_t local[] = {30, 10, 20}, remote[] = {10, 20, 30, 40};
    mrail_rail_pair_t pairs[MRAIL_MAX_PAIRS];

    assert_int_equal(mrail_rails_pair(local, 3, remote, 4, pairs), 3);
    for (int i = 0; i < 3; ++i) {
        assert_true(local[pairs[i].local] == remote[pairs[i].remote]);
    }
}

static void test_flat_subnet_uses_all(void **state)
{
    const uint64_t local[] = {1, 1}, remote[] = {1, 1, 1, 1};
    mrail_rail_pair_t pairs[MRAIL_MAX_PAIRS];
    unsigned seen = 0;

    assert_int_equal(mrail_rails_pair(local, 2, remote, 4, pairs), 4);
    for (int i = 0; i < 4; ++i) {
        seen |= 1u << pairs[i].remote;
    }
    assert_int_equal(seen, 0xf);
}

static void test_no_common_subnet_is_routed(void **state)
{
    const uint64_t local[] = {1}, remote[] = {2};
    mrail_rail_pair_t pairs[MRAIL_MAX_PAIRS];

    assert_int_equal(mrail_rails_pair(local, 1, remote, 1, pairs), 1);
    assert_int_equal(mrail_rails_pair(local, 1, remote, 0, pairs), 0);
}

/* The order of attempts begins with rail 0 of the address. Every other rail
 * follows once before any rail is repeated. */
static void test_first_tries(void **state)
{
    const uint64_t local[] = {10, 20, 30, 40}, remote[] = {30, 40, 10};
    unsigned seen = 0;

    for (unsigned n = 0; n < 4; ++n) {
        mrail_rail_pair_t pair = mrail_rails_try(local, 4, remote, 3, n);

        assert_true(local[pair.local] == remote[pair.remote]);
        assert_true((n != 0) || (pair.remote == 0));
        if (n < 3) {
            assert_false(seen & (1u << pair.remote));
        }
        seen |= 1u << pair.remote;
    }
    assert_int_equal(seen, 7);
}

/* Rails without a common subnet may be reachable by routing, so all pairs are
 * tried in the end. */
static void test_tries_reach_every_pair(void **state)
{
    mrail_rng_t rng;

    for (uint64_t seed = 1; seed <= 200; ++seed) {
        uint64_t a[MRAIL_MAX_RAILS], b[MRAIL_MAX_RAILS];
        uint8_t seen[MRAIL_MAX_RAILS][MRAIL_MAX_RAILS] = {{0}};
        unsigned n, m;

        mrail_rng_init(&rng, seed);
        n = 1 + (unsigned)(mrail_rng_next(&rng) % MRAIL_MAX_RAILS);
        m = 1 + (unsigned)(mrail_rng_next(&rng) % 6);
        for (unsigned i = 0; i < n; ++i) {
            a[i] = mrail_rng_next(&rng) % 4;
        }
        for (unsigned i = 0; i < m; ++i) {
            b[i] = mrail_rng_next(&rng) % 4;
        }
        for (unsigned try = 0; try < 40 + 2 * n * m; ++try) {
            mrail_rail_pair_t pair = mrail_rails_try(a, n, b, m, try);

            assert_true((pair.local < n) && (pair.remote < m));
            seen[pair.local][pair.remote] = 1;
        }
        for (unsigned i = 0; i < n * m; ++i) {
            assert_true(seen[i / m][i % m]);
        }
    }
}

/* For any input, both ends compute the same list, with the sides swapped. */
static void test_symmetric(void **state)
{
    mrail_rng_t rng;

    for (uint64_t seed = 1; seed <= 2000; ++seed) {
        uint64_t a[MRAIL_MAX_RAILS], b[MRAIL_MAX_RAILS];
        mrail_rail_pair_t ab[MRAIL_MAX_PAIRS], ba[MRAIL_MAX_PAIRS];
        unsigned n, m, count;

        mrail_rng_init(&rng, seed);
        n = 1 + mrail_rng_below(&rng, MRAIL_MAX_RAILS);
        m = 1 + mrail_rng_below(&rng, MRAIL_MAX_RAILS);
        for (unsigned i = 0; i < n; ++i) {
            a[i] = mrail_rng_below(&rng, 6);
        }
        for (unsigned i = 0; i < m; ++i) {
            b[i] = mrail_rng_below(&rng, 6);
        }
        count = mrail_rails_pair(a, n, b, m, ab);
        assert_true((count >= 1) && (count <= MRAIL_MAX_PAIRS));
        assert_int_equal(mrail_rails_pair(b, m, a, n, ba), count);
        for (unsigned i = 0; i < count; ++i) {
            if ((ab[i].local != ba[i].remote) ||
                (ab[i].remote != ba[i].local)) {
                fail_msg("seed %llu: pair %u differs", (unsigned long long)seed,
                         i);
            }
        }
    }
}

static void ipv4_gid(uint8_t gid[16], uint8_t a, uint8_t b, uint8_t c,
                     uint8_t d)
{
    const uint8_t bytes[16] = {
        [10] = 0xff, [11] = 0xff, [12] = a, [13] = b, [14] = c, [15] = d};

    memcpy(gid, bytes, 16);
}

static void test_subnets(void **state)
{
    uint8_t gid[16], other[16];
    uint64_t subnet, subnet2;
    unsigned host;

    /* A loopback address has a prefix of 8, which would put all rails on one
     * leaf. */
    ipv4_gid(gid, 127, 9, 3, 2);
    assert_int_equal(mrail_discovery_subnet(gid, -1, 8, &subnet, &host), 24);
    assert_int_equal(host, 2);
    ipv4_gid(other, 127, 9, 4, 2);
    mrail_discovery_subnet(other, -1, 8, &subnet2, &host);
    assert_true(subnet != subnet2);
    /* A prefix that the system reports is used. */
    mrail_discovery_subnet(gid, -1, 16, &subnet, &host);
    mrail_discovery_subnet(other, -1, 16, &subnet2, &host);
    assert_true(subnet == subnet2);
    assert_int_equal(host, 4 * 256 + 2);
    /* The configuration takes precedence. */
    assert_int_equal(mrail_discovery_subnet(gid, 32, 16, &subnet, &host), 32);
    assert_int_equal(host, 0);
    mrail_discovery_subnet(gid, 0, 16, &subnet, &host);
    mrail_discovery_subnet(other, 0, 16, &subnet2, &host);
    assert_true(subnet == subnet2);
    /* For IPv6, the upper half is the subnet. */
    memset(gid, 0xfd, sizeof(gid));
    memcpy(other, gid, sizeof(gid));
    other[15] = 7;
    mrail_discovery_subnet(gid, -1, 0, &subnet, &host);
    mrail_discovery_subnet(other, -1, 0, &subnet2, &host);
    assert_true(subnet == subnet2);
    other[7] = 0;
    mrail_discovery_subnet(other, -1, 0, &subnet2, &host);
    assert_true(subnet != subnet2);
}

/* A NIC index comes from the configuration, or from the host part of an address
 * that has one. */
static void test_nic_index(void **state)
{
    mrail_rail_attr_t attr = {.device = "d0", .port = 1, .subnet_bits = 24};
    mrail_config_t config;

    assert_int_equal(mrail_config_from_env(&config), 0);
    ipv4_gid(attr.gid, 10, 0, 1, 17);
    assert_null(mrail_discovery_nic_index(&config, 3, 17, &attr));
    assert_int_equal(attr.nic_index, 17);
    /* without port rules, any index is valid */
    attr.subnet_bits = 31;
    assert_null(mrail_discovery_nic_index(&config, 0, 1, &attr));
    assert_int_equal(attr.nic_index, 1);

    /* In point-to-point subnets, every NIC has the same host part. */
    config.uplinks = 8;
    attr.subnet_bits = 29;
    assert_null(mrail_discovery_nic_index(&config, 3, 1, &attr));
    for (attr.subnet_bits = 30; attr.subnet_bits <= 32; ++attr.subnet_bits) {
        assert_non_null(mrail_discovery_nic_index(&config, 0, 1, &attr));
    }
    memset(attr.gid, 0xfd, sizeof(attr.gid));
    attr.subnet_bits = 64;
    assert_string_equal(
        mrail_discovery_nic_index(&config, 0, 0xfdfd, &attr),
        "port rules need a NIC index, which its address does not provide: set "
        "UCX_MRAIL_NIC_INDEX");
    mrail_config_cleanup(&config);
}

/* The list of rejected ports contains whole reasons only, never a part of
 * one. */
static void test_rejected_ports(void **state)
{
    mrail_rejected_ports_t rejected = {.length = 0};
    mrail_rail_attr_t attr = {.device = "d0", .port = 1, .selected = 1};
    size_t length;

    mrail_rejected_ports_add(&rejected, &attr);
    assert_string_equal(mrail_rejected_ports_text(&rejected),
                        "there is no RDMA device");
    attr.selected = 0;
    strcpy(attr.reason, "down");
    mrail_rejected_ports_add(&rejected, &attr);
    attr.port = 2;
    mrail_rejected_ports_add(&rejected, &attr);
    assert_string_equal(mrail_rejected_ports_text(&rejected),
                        "d0:1 (down), d0:2 (down)");
    for (unsigned i = 0; i < 1000; ++i) {
        mrail_rejected_ports_add(&rejected, &attr);
        length = strlen(mrail_rejected_ports_text(&rejected));
        assert_true(length < sizeof(rejected.text));
        assert_int_equal(rejected.text[length - 1], ')');
    }
}

/* Returns the index of a rail with this number, device and port, or a negative
 * number. */
static int index_of(const char *text, unsigned rail, const char *device,
                    unsigned port)
{
    mrail_rail_attr_t attr = {.port = port};
    mrail_config_t config;
    const char *reason;
    int ret;

    assert_int_equal(mrail_config_from_env(&config), 0);
    assert_int_equal(mrail_config_set(&config, "NIC_INDEX", text), 0);
    snprintf(attr.device, sizeof(attr.device), "%s", device);
    if (mrail_config_check(&config) != 0) {
        ret = -2;
    } else {
        reason = mrail_discovery_nic_index(&config, rail, 0, &attr);
        ret = (reason == NULL) ? (int)attr.nic_index : -1;
    }
    mrail_config_cleanup(&config);
    return ret;
}

/* One number for all rails, a number for each, or a number for each port. */
static void test_nic_index_lists(void **state)
{
    static const char *const bad[] = {
        "",   "-2",   "65536",  "1,",     ",1",         "1,b",   "d0=",
        "=4", "d0=x", "4,d1=5", "d0=4,5", "d0=4,,d1=5", "d0==4", "d0=-1",
    };

    assert_int_equal(index_of("5", 7, "d0", 1), 5);
    assert_int_equal(index_of("4,0,65535", 0, "d0", 1), 4);
    assert_int_equal(index_of("4,0,65535", 2, "d0", 1), 65535);
    assert_int_equal(index_of("4,0,65535", 3, "d0", 1), -1);

    /* If d0 is down, d1 is the first rail. */
    assert_int_equal(index_of("d0=4,d1=5", 0, "d1", 1), 5);
    assert_int_equal(index_of("d0=4,d1=5", 1, "d1", 1), 5);
    assert_int_equal(index_of("d0=4,d1=5", 0, "d10", 1), -1);
    assert_int_equal(index_of("d0=4", 1, "d1", 1), -1);
    assert_int_equal(index_of("d0:1=4,d0:2=5", 0, "d0", 2), 5);
    assert_int_equal(index_of("d0:1=4,d0:2=5", 0, "d0", 3), -1);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        assert_int_equal(index_of(bad[i], 0, "d0", 1), -2);
    }
}

static char last_line[1024];

static void keep_line(mrail_log_level_t level, const char *file, unsigned line,
                      const char *text)
{
    strncpy(last_line, text, sizeof(last_line) - 1);
}

/* Times have UCX's format. The exponent of the verbs timeout is rounded up. */
static void check_times(void)
{
    static const struct {
        const char *text;
        unsigned exponent;
    } cases[] = {
        {"1s", 18},    {"1", 18},        {"500ms", 17},  {"8us", 1},
        {"9us", 2},    {"4.1us", 0},     {"134.2s", 25}, {"2m", 25},
        {"8796s", 31}, {"1000000ns", 8},
    };
    mrail_config_t config;

    assert_int_equal(mrail_config_from_env(&config), 0);
    assert_true(config.peer_timeout_s == 10);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        assert_int_equal(mrail_config_set(&config, "TIMEOUT", cases[i].text),
                         0);
        if (cases[i].exponent == 0) {
            assert_int_equal(mrail_config_check(&config), -EINVAL);
        } else {
            assert_int_equal(mrail_config_check(&config), 0);
            assert_int_equal(mrail_config_qp_timeout(&config),
                             cases[i].exponent);
        }
    }
    assert_int_equal(mrail_config_set(&config, "TIMEOUT", "1s"), 0);
    assert_int_equal(mrail_config_set(&config, "KEEPALIVE_INTERVAL", "inf"), 0);
    assert_int_equal(mrail_config_check(&config), 0);
    assert_true(mrail_config_ns(config.keepalive_interval_s) == MRAIL_NS_NEVER);
    mrail_config_cleanup(&config);
}

static unsigned lanes_with(const char *uplinks, const char *spine_uplinks,
                           const char *lanes, unsigned num_pairs)
{
    mrail_config_t config;
    unsigned result;

    setenv("UCX_MRAIL_UPLINKS", uplinks, 1);
    setenv("UCX_MRAIL_SPINE_UPLINKS", spine_uplinks, 1);
    setenv("UCX_MRAIL_LANES_PER_RAIL", lanes, 1);
    assert_int_equal(mrail_config_from_env(&config), 0);
    result = mrail_config_lanes(&config, num_pairs);
    mrail_config_cleanup(&config);
    unsetenv("UCX_MRAIL_UPLINKS");
    unsetenv("UCX_MRAIL_SPINE_UPLINKS");
    unsetenv("UCX_MRAIL_LANES_PER_RAIL");
    return result;
}

/* Without port rules, there is one lane. With rules, there are as many lanes as
 * uplinks, but at most 8, and no more than a peer has slots. */
static void check_lanes(void)
{
    assert_int_equal(lanes_with("auto", "1", "auto", 4), 1);
    assert_int_equal(lanes_with("8", "1", "auto", 4), 8);
    assert_int_equal(lanes_with("6", "1", "auto", 1), 6);
    assert_int_equal(lanes_with("64", "1", "auto", 8), 8);
    assert_int_equal(lanes_with("64", "1", "auto", 16), 4);
    assert_int_equal(lanes_with("2", "2", "auto", 4), 4);
    assert_int_equal(lanes_with("8", "1", "2", 4), 2);
    assert_int_equal(lanes_with("auto", "1", "3", 4), 3);
}

static void test_params(void **state)
{
    static const struct {
        const char *name, *value;
    } bad[] = {
        {"UCX_MRAIL_UPLINKS", "0"},
        {"UCX_MRAIL_UPLINKS", "many"},
        {"UCX_MRAIL_NIC_INDEX", "-2"},
        {"UCX_MRAIL_NIC_INDEX", "65536"},
        {"UCX_MRAIL_NIC_INDEX", "1,,2"},
        {"UCX_MRAIL_NIC_INDEX", "1,"},
        {"UCX_MRAIL_NIC_INDEX", ""},
        {"UCX_MRAIL_NIC_INDEX", "1,-1"},
        {"UCX_MRAIL_SEG_SIZE", "8q"},
        {"UCX_MRAIL_RETRY_COUNT", "7"},
        {"UCX_MRAIL_MAX_QPS", "-1"},
        {"UCX_MRAIL_AM_CREDITS", ""},
        {"UCX_MRAIL_RMA_CHUNK_SIZE", "100"},
        {"UCX_MRAIL_SEG_SIZE", "99g"},
        {"UCX_MRAIL_SEG_SIZE", "8kk"},
        {"UCX_MRAIL_LANES_PER_RAIL", "33"},
        {"UCX_MRAIL_TIMEOUT", "7us"},
        {"UCX_MRAIL_TIMEOUT", "inf"},
        {"UCX_MRAIL_TIMEOUT", "1h"},
        {"UCX_MRAIL_TIMEOUT", "0x10s"},
        {"UCX_MRAIL_TIMEOUT", " 1s"},
        {"UCX_MRAIL_TIMEOUT", "-1s"},
        {"UCX_MRAIL_TIMEOUT", "nan"},
        {"UCX_MRAIL_PEER_TIMEOUT", "0"},
        {"UCX_MRAIL_PEER_TIMEOUT", "2d"},
        {"UCX_MRAIL_KEEPALIVE_INTERVAL", "0"},
    };
    mrail_config_t config;

    mrail_log_set(keep_line, MRAIL_LOG_WARN);
    assert_int_equal(mrail_config_from_env(&config), 0);
    assert_string_equal(config.devices, "all");
    assert_int_equal(config.seg_size, 12288);
    assert_true(config.rma_chunk_size == MRAIL_SIZE_AUTO);
    mrail_config_cleanup(&config);

    setenv("UCX_MRAIL_RMA_CHUNK_SIZE", "1M", 1);
    assert_int_equal(mrail_config_from_env(&config), 0);
    assert_int_equal(config.rma_chunk_size, 1 << 20);
    mrail_config_cleanup(&config);
    unsetenv("UCX_MRAIL_RMA_CHUNK_SIZE");
    check_times();
    check_lanes();

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        last_line[0] = '\0';
        setenv(bad[i].name, bad[i].value, 1);
        assert_int_equal(mrail_config_from_env(&config), -EINVAL);
        unsetenv(bad[i].name);
        /* The message must name the variable and a valid value. */
        assert_non_null(strstr(last_line, bad[i].name));
        assert_non_null(strstr(last_line, "expected"));
    }
    mrail_log_set(NULL, MRAIL_LOG_WARN);
}

typedef struct {
    unsigned count;
    char name[64], nearest[64];
} unknown_t;

static void keep_unknown(void *arg, const char *name, const char *nearest)
{
    unknown_t *unknown = arg;

    ++unknown->count;
    snprintf(unknown->name, sizeof(unknown->name), "%s", name);
    snprintf(unknown->nearest, sizeof(unknown->nearest), "%s",
             (nearest != NULL) ? nearest : "");
}

static void test_unknown_params(void **state)
{
    static const struct {
        char text[96];
        const char *name, *nearest; /* NULL if the name is known */
    } cases[] = {
        {"UCX_MRAIL_LANES_PER_RAIL=2", NULL, NULL},
        {"UCX_MRAIL_RCACHE_MAX_SIZE=1", NULL, NULL},
        {"UCX_MRAIL_SL=", NULL, NULL},
        {"UCX_MRAILS=1", NULL, NULL},
        {"UCX_TLS=UCX_MRAIL_X=1", NULL, NULL},
        {"UCX_MRAIL_LANES_PER_RIAL=2", "UCX_MRAIL_LANES_PER_RIAL",
         "LANES_PER_RAIL"},
        {"UCX_MRAIL_DEVICE=soft0", "UCX_MRAIL_DEVICE", "DEVICES"},
        {"UCX_MRAIL_devices=soft0", "UCX_MRAIL_devices", ""},
        {"UCX_MRAIL_COLOUR=red", "UCX_MRAIL_COLOUR", ""},
        {"UCX_MRAIL_", "UCX_MRAIL_", ""},
        {"UCX_MRAIL_SI=1", "UCX_MRAIL_SI", "SL"},
        {"UCX_MRAIL_A_NAME_LONGER_THAN_ANY_THAT_WE_HAVE_OR_WILL=1",
         "UCX_MRAIL_A_NAME_LONGER_THAN_ANY_THAT_WE_HAVE_OR_WILL", ""},
    };

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        char text[96];
        char *env[] = {text, NULL};
        unknown_t unknown = {0};

        memcpy(text, cases[i].text, sizeof(text));
        mrail_unknown_params(env, keep_unknown, &unknown);
        if (cases[i].name == NULL) {
            assert_int_equal(unknown.count, 0);
            continue;
        }
        assert_int_equal(unknown.count, 1);
        assert_string_equal(unknown.name, cases[i].name);
        assert_string_equal(unknown.nearest, cases[i].nearest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_subnet_not_by_ordinal),
        cmocka_unit_test(test_flat_subnet_uses_all),
        cmocka_unit_test(test_no_common_subnet_is_routed),
        cmocka_unit_test(test_first_tries),
        cmocka_unit_test(test_tries_reach_every_pair),
        cmocka_unit_test(test_symmetric),
        cmocka_unit_test(test_subnets),
        cmocka_unit_test(test_nic_index),
        cmocka_unit_test(test_nic_index_lists),
        cmocka_unit_test(test_rejected_ports),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_unknown_params),
    };

    return cmocka_run_group_tests_name("match", tests, NULL, NULL);
}
