/*
 * Fuzzes the decoding of a peer's bytes: control messages, addresses and remote
 * keys, and their first uses (rail pairing, subnets).
 *
 * Also checked: every decoded number is in range. Encoding an accepted message
 * gives the same bytes, so no part of it was ignored.
 */
#include "config.h"
#include "rail/mrail.h"
#include "rail/proto/pairing.h"
#include "rail/proto/wire.h"
#include "rail/state/mem.h"
#include "rail/verbs/rail.h"
#include "fuzz.h"

/* Returns a copy in an allocation of exactly this size, so that reads past the
 * end are detected. */
static uint8_t *alone(const fuzz_in_t *in, size_t size)
{
    uint8_t *copy = calloc(1, MRAIL_MAX(size, (size_t)1));

    FUZZ_CHECK(copy != NULL, "out of memory");
    mrail_copy(copy, in->p, MRAIL_MIN(size, fuzz_left(in)));
    return copy;
}

static void match(const mrail_ctl_msg_t *msg)
{
    uint64_t local[4] = {0xffff0a000000, 0xffff0a000100, 0xffff0a000100, 7};
    uint64_t remote[MRAIL_MAX_RAILS];
    mrail_rail_pair_t pairs[MRAIL_MAX_PAIRS];
    unsigned num;

    for (unsigned i = 0; i < msg->hello.num_rails; ++i) {
        const mrail_wire_rail_t *rail = &msg->hello.rails[i];

        FUZZ_CHECK((rail->ud_qpn <= 0xffffff) && (rail->mtu >= 1) &&
                       (rail->mtu <= 5),
                   "rail %u", i);
        remote[i] = rail->subnet;
    }
    num = mrail_rails_pair(local, MRAIL_ARRAY_SIZE(local), remote,
                           msg->hello.num_rails, pairs);
    FUZZ_CHECK((num >= 1) && (num <= MRAIL_MAX_PAIRS), "%u pairs", num);
    for (unsigned i = 0; i < num; ++i) {
        FUZZ_CHECK((pairs[i].local < MRAIL_ARRAY_SIZE(local)) &&
                       (pairs[i].remote < msg->hello.num_rails),
                   "pair %u", i);
    }
}

static void take_ctl(const fuzz_in_t *in)
{
    size_t size = fuzz_left(in);
    uint8_t *bytes = alone(in, size), again[MRAIL_CTL_MAX_SIZE];
    mrail_ctl_msg_t msg;

    if (mrail_ctl_decode(&msg, bytes, size) == 0) {
        FUZZ_CHECK(msg.src_rail < MRAIL_MAX_RAILS, "rail");
        FUZZ_CHECK(mrail_ctl_type_name(msg.type) != NULL, "type");
        if ((msg.type == MRAIL_CTL_HELLO) ||
            (msg.type == MRAIL_CTL_HELLO_REP)) {
            FUZZ_CHECK(msg.hello.num_rails <= MRAIL_MAX_RAILS, "rails");
            match(&msg);
        }
        FUZZ_CHECK(mrail_ctl_encode(&msg, again, sizeof(again)) == (int)size,
                   "length %zu", size);
        FUZZ_CHECK(memcmp(again, bytes, size) == 0,
                   "the encoding differs from the input");
    }
    free(bytes);
}

static void take_addresses(const fuzz_in_t *in)
{
    uint8_t *device = alone(in, MRAIL_DEVICE_ADDR_SIZE);
    uint8_t *iface = alone(in, MRAIL_IFACE_ADDR_SIZE);
    mrail_wire_device_addr_t d;
    mrail_wire_iface_addr_t i;
    unsigned version, host;
    uint64_t subnet;

    if (mrail_device_addr_decode(&d, device, &version) == 0) {
        unsigned bits = mrail_discovery_subnet(d.gid, (int)d.rail - 1,
                                               d.num_rails, &subnet, &host);

        FUZZ_CHECK(bits <= MRAIL_MAX(64u, (unsigned)d.num_rails), "bits");
    }
    if (mrail_iface_addr_decode(&i, iface, &version) == 0) {
        FUZZ_CHECK(i.ud_qpn <= 0xffffff, "qpn");
        FUZZ_CHECK(i.num_more <= MRAIL_ARRAY_SIZE(i.more), "rails");
        for (unsigned k = 0; k < i.num_more; ++k) {
            FUZZ_CHECK(i.more[k].ud_qpn <= 0xffffff, "qpn");
        }
    }
    free(device);
    free(iface);
}

static void take_key(const fuzz_in_t *in)
{
    uint8_t *bytes = alone(in, 4 + 4 * MRAIL_MAX_RAILS);
    mrail_rkey_t *rkey;

    if (mrail_rkey_unpack(bytes, &rkey) == 0) {
        FUZZ_CHECK((rkey->count >= 1) && (rkey->count <= MRAIL_MAX_RAILS),
                   "%u keys", rkey->count);
        mrail_rkey_release(rkey);
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_in_t in = {data, data + size};

    switch (fuzz_u8(&in) % 8) {
    case 0:
        take_addresses(&in);
        break;
    case 1:
        take_key(&in);
        break;
    default:
        take_ctl(&in);
    }
    return 0;
}
