/* Tests the codecs of src/rail/proto/wire.h: round trips, bounds, and invalid
 * input. */
#include "config.h"
#include "rail/mrail.h"
#include "rail/proto/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/rng.h"

static void fill_hello(mrail_ctl_msg_t *msg, unsigned num_rails)
{
    memset(msg, 0, sizeof(*msg));
    msg->type = MRAIL_CTL_HELLO;
    msg->src_rail = (uint8_t)(num_rails - 1);
    msg->seq = 77;
    msg->dst_cookie = 0x0123456789abcdefull;
    msg->src_cookie = 0xfedcba9876543210ull;
    msg->src_id = 42;
    msg->hello.num_rails = num_rails;
    msg->hello.seg_size = 0x12345678;
    for (unsigned i = 0; i < num_rails; ++i) {
        memset(msg->hello.rails[i].gid, (int)(0x20 + i), 16);
        msg->hello.rails[i].subnet = 0x1000ull + i;
        msg->hello.rails[i].flush_addr = 0x7f0000001000ull + i;
        msg->hello.rails[i].flush_rkey = 0x100 + i;
        msg->hello.rails[i].ud_qpn = 0xfffff0 + i;
        msg->hello.rails[i].rate_mbps = 400000;
        msg->hello.rails[i].mtu = 5;
    }
}

static void test_hello_of_16_rails_fits(void **state)
{
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    mrail_ctl_msg_t in, out;
    int length;

    fill_hello(&in, MRAIL_MAX_RAILS);
    length = mrail_ctl_encode(&in, buf, sizeof(buf));
    assert_true(length > 0);
    assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)length), 0);
    assert_int_equal(out.hello.num_rails, MRAIL_MAX_RAILS);
    assert_int_equal(out.hello.seg_size, 0x12345678);
    assert_memory_equal(out.hello.rails[15].gid, in.hello.rails[15].gid, 16);
    assert_true(out.hello.rails[15].flush_addr == 0x7f000000100full);
    assert_int_equal(out.hello.rails[15].ud_qpn, 0xffffff);
    assert_true(out.dst_cookie == in.dst_cookie);
    assert_true(out.src_cookie == in.src_cookie);
    assert_int_equal(out.seq, 77);
}

static void test_every_truncation_is_refused(void **state)
{
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    mrail_ctl_msg_t in, out;
    int length;

    fill_hello(&in, 4);
    length = mrail_ctl_encode(&in, buf, sizeof(buf));
    for (int n = 0; n < length; ++n) {
        assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)n), -EPROTO);
    }
    assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)length + 1), -EPROTO);
    for (int n = 0; n < length; ++n) {
        uint8_t small[MRAIL_CTL_MAX_SIZE];

        assert_int_equal(mrail_ctl_encode(&in, small, (size_t)n), -ENOSPC);
    }
}

static void test_all_types(void **state)
{
    for (unsigned type = 0; type < 256; ++type) {
        mrail_ctl_msg_t in = {.type = type, .seq = 5}, out;
        int known = (type >= MRAIL_CTL_HELLO) && (type < MRAIL_CTL_LAST);
        uint8_t buf[MRAIL_CTL_MAX_SIZE];
        int length;

        if ((type == MRAIL_CTL_HELLO) || (type == MRAIL_CTL_HELLO_REP)) {
            fill_hello(&in, 1);
            in.type = type;
        }
        length = mrail_ctl_encode(&in, buf, sizeof(buf));
        assert_true(length > 0);
        assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)length),
                         known ? 0 : -EPROTO);
        assert_int_equal(strcmp(mrail_ctl_type_name(type), "unknown") != 0,
                         known);
    }
}

static void test_lane_round_trip(void **state)
{
    mrail_ctl_msg_t in = {.type = MRAIL_CTL_LANE_REQ,
                          .lane = {.slot = 3,
                                   .index = 65535,
                                   .epoch = 0x8001,
                                   .credits = 16,
                                   .src_rail = 15,
                                   .dst_rail = 1,
                                   .qpn = 0xabcdef,
                                   .psn = 0x123456,
                                   .am_seq = 0xfffffffe,
                                   .max_dest_rd_atomic = 255}};
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    mrail_ctl_msg_t out = {0};
    int length = mrail_ctl_encode(&in, buf, sizeof(buf));

    assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)length), 0);
    assert_memory_equal(&in.lane, &out.lane, sizeof(in.lane));
}

static void test_move_round_trip(void **state)
{
    mrail_ctl_msg_t in = {.type = MRAIL_CTL_MOVE,
                          .move = {.slot = 0x1234, .like = 0xfedc}};
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    mrail_ctl_msg_t out = {0};
    int length = mrail_ctl_encode(&in, buf, sizeof(buf));

    assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)length), 0);
    assert_memory_equal(&in.move, &out.move, sizeof(in.move));
}

static void test_fields_out_of_range(void **state)
{
    mrail_ctl_msg_t in, out;
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    int length;

    fill_hello(&in, 2);
    in.hello.rails[1].mtu = 6;
    length = mrail_ctl_encode(&in, buf, sizeof(buf));
    assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)length), -EPROTO);

    fill_hello(&in, 2);
    in.src_rail = 2; /* a rail that is not in the table */
    length = mrail_ctl_encode(&in, buf, sizeof(buf));
    assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)length), -EPROTO);

    memset(&in, 0, sizeof(in));
    in.type = MRAIL_CTL_LANE_REQ;
    in.lane.qpn = 0x1000000;
    length = mrail_ctl_encode(&in, buf, sizeof(buf));
    assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)length), -EPROTO);
}

static void test_other_version(void **state)
{
    mrail_ctl_msg_t in = {.type = MRAIL_CTL_PROBE}, out;
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    int length = mrail_ctl_encode(&in, buf, sizeof(buf));

    buf[2] = MRAIL_WIRE_VERSION + 1;
    assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)length),
                     -EPROTONOSUPPORT);
    buf[0] ^= 1;
    assert_int_equal(mrail_ctl_decode(&out, buf, (size_t)length), -EPROTO);
}

static void test_random_bytes(void **state)
{
    mrail_rng_t rng;

    mrail_rng_init(&rng, 1);
    for (int round = 0; round < 200000; ++round) {
        uint8_t buf[128];
        size_t length = mrail_rng_below(&rng, sizeof(buf) + 1);
        mrail_ctl_msg_t msg;

        for (size_t i = 0; i < length; ++i) {
            buf[i] = (uint8_t)mrail_rng_next(&rng);
        }
        if (length > 3) { /* most messages pass the check of the magic number */
            buf[0] = 0x6d;
            buf[1] = 0x52;
            buf[2] = MRAIL_WIRE_VERSION;
            buf[3] %= MRAIL_CTL_LAST + 1;
        }
        if (mrail_ctl_decode(&msg, buf, length) == 0) {
            assert_true(msg.src_rail < MRAIL_MAX_RAILS);
        }
    }
}

static void test_addresses_fit_ucx(void **state)
{
    mrail_wire_device_addr_t device = {.num_rails = 16,
                                       .rail = 15,
                                       .subnet = ~0ull},
                             device2;
    mrail_wire_iface_addr_t iface = {.iface = 63,
                                     .ud_qpn = 0xffffff,
                                     .id = ~0ull,
                                     .cookie = 1},
                            iface2;
    uint8_t buf[64];
    unsigned version;

    /* Sizes are constant, regardless of the number of rails and the kind of
     * GID. */
    assert_true(MRAIL_DEVICE_ADDR_SIZE <= MRAIL_DEVICE_ADDR_MAX);
    assert_true(MRAIL_IFACE_ADDR_SIZE <= MRAIL_IFACE_ADDR_MAX);

    memset(device.gid, 0xfd, sizeof(device.gid));
    mrail_device_addr_encode(&device, buf);
    assert_int_equal(mrail_device_addr_decode(&device2, buf, &version), 0);
    assert_memory_equal(device.gid, device2.gid, 16);
    assert_true(device2.subnet == ~0ull);
    buf[0] = 9;
    assert_int_equal(mrail_device_addr_decode(&device2, buf, &version),
                     -EPROTONOSUPPORT);
    assert_int_equal(version, 9);

    mrail_iface_addr_encode(&iface, buf);
    assert_int_equal(mrail_iface_addr_decode(&iface2, buf, &version), 0);
    assert_int_equal(iface2.ud_qpn, 0xffffff);
    assert_true(iface2.cookie == 1);
}

static void fill_more(mrail_wire_iface_addr_t *addr, unsigned count, int ipv4)
{
    addr->num_more = count;
    for (unsigned i = 0; i < count; ++i) {
        memset(addr->more[i].gid, 0, 16);
        memset(addr->more[i].gid + (ipv4 ? 10 : 0), ipv4 ? 0xff : 0x20, 2);
        addr->more[i].gid[15] = (uint8_t)(7 + i);
        addr->more[i].ud_qpn = 0xfffff0 + i;
    }
}

/* Five more rails fit with mapped IPv4 addresses, and two with other
 * addresses. */
static void test_address_names_further_rails(void **state)
{
    uint8_t buf[MRAIL_IFACE_ADDR_SIZE];
    mrail_wire_iface_addr_t in = {.ud_qpn = 1, .id = 2, .cookie = 3}, out;
    unsigned version;

    for (unsigned count = 0; count <= MRAIL_ADDR_MORE_IPV4; ++count) {
        for (int ipv4 = 0; ipv4 < 2; ++ipv4) {
            unsigned fit = ipv4 ? count : MRAIL_MIN(count, MRAIL_ADDR_MORE);

            fill_more(&in, count, ipv4);
            memset(&out, 0xa5, sizeof(out));
            mrail_iface_addr_encode(&in, buf);
            assert_int_equal(mrail_iface_addr_decode(&out, buf, &version), 0);
            assert_int_equal(out.num_more, fit);
            for (unsigned i = 0; i < fit; ++i) {
                assert_memory_equal(out.more[i].gid, in.more[i].gid, 16);
                assert_int_equal(out.more[i].ud_qpn, 0xfffff0 + i);
            }
            assert_true(out.cookie == 3);
        }
    }
    fill_more(&in, 2, 1);
    in.more[1].gid[0] = 0xfd; /* an address that is not mapped */
    mrail_iface_addr_encode(&in, buf);
    assert_int_equal(mrail_iface_addr_decode(&out, buf, &version), 0);
    assert_memory_equal(out.more[0].gid, in.more[0].gid, 16);
    assert_memory_equal(out.more[1].gid, in.more[1].gid, 16);
}

static void test_address_with_too_many_rails(void **state)
{
    uint8_t buf[MRAIL_IFACE_ADDR_SIZE];
    mrail_wire_iface_addr_t in = {.ud_qpn = 1}, out;
    unsigned version;

    mrail_iface_addr_encode(&in, buf);
    for (unsigned byte = 0; byte < 256; ++byte) {
        buf[1] = (uint8_t)byte;
        assert_int_equal(mrail_iface_addr_decode(&out, buf, &version), 0);
        assert_true(out.num_more <=
                    ((byte & 0x80) ? MRAIL_ADDR_MORE_IPV4 : MRAIL_ADDR_MORE));
        assert_true(out.num_more <= (byte & 0x7f));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hello_of_16_rails_fits),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_all_types),
        cmocka_unit_test(test_lane_round_trip),
        cmocka_unit_test(test_move_round_trip),
        cmocka_unit_test(test_fields_out_of_range),
        cmocka_unit_test(test_other_version),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_addresses_fit_ucx),
        cmocka_unit_test(test_address_names_further_rails),
        cmocka_unit_test(test_address_with_too_many_rails),
    };

    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
