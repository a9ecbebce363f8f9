#include "config.h"
#include "rail/proto/wire.h"

#include "base/codec.h"

#include <errno.h>
#include <string.h>

#define MRAIL_CTL_MAGIC 0x6d52 /* "mR" */

typedef enum mrail_ctl_body {
    MRAIL_BODY_INVALID,
    MRAIL_BODY_NONE,
    MRAIL_BODY_HELLO,
    MRAIL_BODY_LANE,
    MRAIL_BODY_REFUSE,
    MRAIL_BODY_PATH,
    MRAIL_BODY_MOVE
} mrail_ctl_body_t;

static const struct {
    const char *name;
    mrail_ctl_body_t body;
} ctl_types[MRAIL_CTL_LAST] = {
    [MRAIL_CTL_HELLO] = {"hello", MRAIL_BODY_HELLO},
    [MRAIL_CTL_HELLO_REP] = {"hello-rep", MRAIL_BODY_HELLO},
    [MRAIL_CTL_LANE_REQ] = {"lane-req", MRAIL_BODY_LANE},
    [MRAIL_CTL_LANE_REP] = {"lane-rep", MRAIL_BODY_LANE},
    [MRAIL_CTL_LANE_READY] = {"lane-ready", MRAIL_BODY_LANE},
    [MRAIL_CTL_PROBE] = {"probe", MRAIL_BODY_PATH},
    [MRAIL_CTL_PROBE_REP] = {"probe-rep", MRAIL_BODY_PATH},
    [MRAIL_CTL_EVICT] = {"evict", MRAIL_BODY_LANE},
    [MRAIL_CTL_CONFIRM] = {"confirm", MRAIL_BODY_LANE},
    [MRAIL_CTL_FAIL] = {"fail", MRAIL_BODY_LANE},
    [MRAIL_CTL_REFUSE] = {"refuse", MRAIL_BODY_REFUSE},
    [MRAIL_CTL_BYE] = {"bye", MRAIL_BODY_NONE},
    [MRAIL_CTL_POLL] = {"poll", MRAIL_BODY_NONE},
    [MRAIL_CTL_MOVE] = {"move", MRAIL_BODY_MOVE},
    [MRAIL_CTL_MOVE_BACK] = {"move-back", MRAIL_BODY_PATH},
};

const char *mrail_ctl_type_name(unsigned type)
{
    return ((type < MRAIL_CTL_LAST) && (ctl_types[type].name != NULL))
               ? ctl_types[type].name
               : "unknown";
}

static mrail_ctl_body_t mrail_ctl_type_body(unsigned type)
{
    return (type < MRAIL_CTL_LAST) ? ctl_types[type].body : MRAIL_BODY_INVALID;
}

static void mrail_put_rail(mrail_writer_t *w, const mrail_wire_rail_t *rail)
{
    mrail_put_bytes(w, rail->gid, sizeof(rail->gid));
    mrail_put_u64(w, rail->subnet);
    mrail_put_u64(w, rail->flush_addr);
    mrail_put_u32(w, rail->flush_rkey);
    mrail_put_u32(w, rail->ud_qpn);
    mrail_put_u32(w, rail->rate_mbps);
    mrail_put_u32(w, rail->nic_index);
    mrail_put_u8(w, rail->mtu);
}

static void mrail_get_rail(mrail_reader_t *r, mrail_wire_rail_t *rail)
{
    mrail_get_bytes(r, rail->gid, sizeof(rail->gid));
    rail->subnet = mrail_get_u64(r);
    rail->flush_addr = mrail_get_u64(r);
    rail->flush_rkey = mrail_get_u32(r);
    rail->ud_qpn = mrail_get_u32(r);
    rail->rate_mbps = mrail_get_u32(r);
    rail->nic_index = mrail_get_u32(r);
    rail->mtu = mrail_get_u8(r);
    /* Values of enum ibv_mtu: IBV_MTU_256 = 1 ... IBV_MTU_4096 = 5 */
    if ((rail->ud_qpn > 0xffffff) || (rail->mtu < 1) || (rail->mtu > 5)) {
        r->bad = 1;
    }
}

static void mrail_put_lane(mrail_writer_t *w, const mrail_wire_lane_t *lane)
{
    mrail_put_u16(w, lane->slot);
    mrail_put_u16(w, lane->index);
    mrail_put_u16(w, lane->epoch);
    mrail_put_u16(w, lane->credits);
    mrail_put_u8(w, lane->src_rail);
    mrail_put_u8(w, lane->dst_rail);
    mrail_put_u32(w, lane->qpn);
    mrail_put_u32(w, lane->psn);
    mrail_put_u32(w, lane->am_seq);
    mrail_put_u8(w, lane->max_dest_rd_atomic);
    mrail_put_be(w, 0, 7);
}

static void mrail_get_lane(mrail_reader_t *r, mrail_wire_lane_t *lane)
{
    uint64_t reserved;

    lane->slot = mrail_get_u16(r);
    lane->index = mrail_get_u16(r);
    lane->epoch = mrail_get_u16(r);
    lane->credits = mrail_get_u16(r);
    lane->src_rail = mrail_get_u8(r);
    lane->dst_rail = mrail_get_u8(r);
    lane->qpn = mrail_get_u32(r);
    lane->psn = mrail_get_u32(r);
    lane->am_seq = mrail_get_u32(r);
    lane->max_dest_rd_atomic = mrail_get_u8(r);
    reserved = mrail_get_be(r, 7);
    if ((reserved != 0) || (lane->qpn > 0xffffff) || (lane->psn > 0xffffff) ||
        (lane->src_rail >= MRAIL_MAX_RAILS) ||
        (lane->dst_rail >= MRAIL_MAX_RAILS)) {
        r->bad = 1;
    }
}

int mrail_ctl_encode(const mrail_ctl_msg_t *msg, void *buf, size_t size)
{
    mrail_writer_t w;

    mrail_writer_init(&w, buf, size);
    mrail_put_u16(&w, MRAIL_CTL_MAGIC);
    mrail_put_u8(&w, MRAIL_WIRE_VERSION);
    mrail_put_u8(&w, (uint8_t)msg->type);
    mrail_put_u32(&w, msg->seq);
    mrail_put_u64(&w, msg->dst_cookie);
    mrail_put_u64(&w, msg->src_cookie);
    mrail_put_u64(&w, msg->src_id);
    mrail_put_u8(&w, msg->src_rail);

    switch (mrail_ctl_type_body(msg->type)) {
    case MRAIL_BODY_HELLO:
        mrail_put_u8(&w, (uint8_t)msg->hello.num_rails);
        mrail_put_u32(&w, msg->hello.seg_size);
        for (unsigned i = 0; i < msg->hello.num_rails; ++i) {
            mrail_put_rail(&w, &msg->hello.rails[i]);
        }
        break;
    case MRAIL_BODY_LANE:
        mrail_put_lane(&w, &msg->lane);
        break;
    case MRAIL_BODY_REFUSE:
        mrail_put_u16(&w, msg->refuse.slot);
        mrail_put_u16(&w, msg->refuse.reason);
        break;
    case MRAIL_BODY_PATH:
        mrail_put_u16(&w, msg->path.slot);
        break;
    case MRAIL_BODY_MOVE:
        mrail_put_u16(&w, msg->move.slot);
        mrail_put_u16(&w, msg->move.like);
        break;
    default:
        break;
    }
    return w.bad ? -ENOSPC : (int)mrail_writer_length(&w);
}

static void mrail_get_hello(mrail_reader_t *r, mrail_ctl_msg_t *msg)
{
    msg->hello.num_rails = mrail_get_u8(r);
    msg->hello.seg_size = mrail_get_u32(r);
    if ((msg->hello.num_rails == 0) ||
        (msg->hello.num_rails > MRAIL_MAX_RAILS) ||
        (msg->src_rail >= msg->hello.num_rails)) {
        r->bad = 1;
        return;
    }
    for (unsigned i = 0; i < msg->hello.num_rails; ++i) {
        mrail_get_rail(r, &msg->hello.rails[i]);
    }
}

int mrail_ctl_decode(mrail_ctl_msg_t *msg, const void *buf, size_t length)
{
    mrail_reader_t r;

    mrail_reader_init(&r, buf, length);
    if (mrail_get_u16(&r) != MRAIL_CTL_MAGIC) {
        return -EPROTO;
    }
    if (mrail_get_u8(&r) != MRAIL_WIRE_VERSION) {
        return r.bad ? -EPROTO : -EPROTONOSUPPORT;
    }
    msg->type = mrail_get_u8(&r);
    msg->seq = mrail_get_u32(&r);
    msg->dst_cookie = mrail_get_u64(&r);
    msg->src_cookie = mrail_get_u64(&r);
    msg->src_id = mrail_get_u64(&r);
    msg->src_rail = mrail_get_u8(&r);
    if (msg->src_rail >= MRAIL_MAX_RAILS) {
        return -EPROTO;
    }

    switch (mrail_ctl_type_body(msg->type)) {
    case MRAIL_BODY_HELLO:
        mrail_get_hello(&r, msg);
        break;
    case MRAIL_BODY_LANE:
        mrail_get_lane(&r, &msg->lane);
        break;
    case MRAIL_BODY_REFUSE:
        msg->refuse.slot = mrail_get_u16(&r);
        msg->refuse.reason = mrail_get_u16(&r);
        break;
    case MRAIL_BODY_PATH:
        msg->path.slot = mrail_get_u16(&r);
        break;
    case MRAIL_BODY_MOVE:
        msg->move.slot = mrail_get_u16(&r);
        msg->move.like = mrail_get_u16(&r);
        break;
    case MRAIL_BODY_NONE:
        break;
    case MRAIL_BODY_INVALID:
        r.bad = 1;
        break;
    }
    return (r.bad || (mrail_reader_left(&r) != 0)) ? -EPROTO : 0;
}

void mrail_device_addr_encode(const mrail_wire_device_addr_t *addr, void *buf)
{
    mrail_writer_t w;

    mrail_writer_init(&w, buf, MRAIL_DEVICE_ADDR_SIZE);
    mrail_put_u8(&w, MRAIL_ADDR_VERSION);
    mrail_put_u8(&w, addr->num_rails);
    mrail_put_u8(&w, addr->rail);
    mrail_put_u8(&w, 0);
    mrail_put_bytes(&w, addr->gid, sizeof(addr->gid));
    mrail_put_u64(&w, addr->subnet);
}

int mrail_device_addr_decode(mrail_wire_device_addr_t *addr, const void *buf,
                             unsigned *version_p)
{
    mrail_reader_t r;

    mrail_reader_init(&r, buf, MRAIL_DEVICE_ADDR_SIZE);
    *version_p = mrail_get_u8(&r);
    if (*version_p != MRAIL_ADDR_VERSION) {
        return -EPROTONOSUPPORT;
    }
    addr->num_rails = mrail_get_u8(&r);
    addr->rail = mrail_get_u8(&r);
    mrail_get_u8(&r);
    mrail_get_bytes(&r, addr->gid, sizeof(addr->gid));
    addr->subnet = mrail_get_u64(&r);
    return 0;
}

/* Flag: GIDs are mapped IPv4 addresses, encoded as their last four bytes. */
#define MRAIL_ADDR_IPV4 0x80u
static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static int mrail_addr_is_mapped(const mrail_wire_iface_addr_t *addr)
{
    for (unsigned i = 0; i < addr->num_more; ++i) {
        if (memcmp(addr->more[i].gid, mapped, sizeof(mapped)) != 0) {
            return 0;
        }
    }
    return 1;
}

static void mrail_put_boot(mrail_writer_t *w, const mrail_wire_boot_t *boot,
                           size_t skip)
{
    mrail_put_bytes(w, boot->gid + skip, sizeof(boot->gid) - skip);
    mrail_put_u8(w, (uint8_t)(boot->ud_qpn >> 16));
    mrail_put_u16(w, (uint16_t)boot->ud_qpn);
}

static void mrail_get_boot(mrail_reader_t *r, mrail_wire_boot_t *boot,
                           size_t skip)
{
    memcpy(boot->gid, mapped, sizeof(mapped));
    mrail_get_bytes(r, boot->gid + skip, sizeof(boot->gid) - skip);
    boot->ud_qpn = (uint32_t)mrail_get_u8(r) << 16;
    boot->ud_qpn |= mrail_get_u16(r);
}

void mrail_iface_addr_encode(const mrail_wire_iface_addr_t *addr, void *buf)
{
    int ipv4 = mrail_addr_is_mapped(addr);
    unsigned count =
        ipv4 ? addr->num_more : MRAIL_MIN(addr->num_more, MRAIL_ADDR_MORE);
    mrail_writer_t w;

    memset(buf, 0, MRAIL_IFACE_ADDR_SIZE);
    mrail_writer_init(&w, buf, MRAIL_IFACE_ADDR_SIZE);
    mrail_put_u8(&w, MRAIL_ADDR_VERSION);
    mrail_put_u8(&w, (uint8_t)(count | (ipv4 ? MRAIL_ADDR_IPV4 : 0)));
    mrail_put_u16(&w, addr->iface);
    mrail_put_u32(&w, addr->ud_qpn);
    mrail_put_u64(&w, addr->id);
    mrail_put_u64(&w, addr->cookie);
    for (unsigned i = 0; i < count; ++i) {
        mrail_put_boot(&w, &addr->more[i], ipv4 ? sizeof(mapped) : 0);
    }
}

int mrail_iface_addr_decode(mrail_wire_iface_addr_t *addr, const void *buf,
                            unsigned *version_p)
{
    unsigned kind, most;
    mrail_reader_t r;

    mrail_reader_init(&r, buf, MRAIL_IFACE_ADDR_SIZE);
    *version_p = mrail_get_u8(&r);
    if (*version_p != MRAIL_ADDR_VERSION) {
        return -EPROTONOSUPPORT;
    }
    kind = mrail_get_u8(&r);
    addr->iface = mrail_get_u16(&r);
    addr->ud_qpn = mrail_get_u32(&r) & 0xffffff;
    addr->id = mrail_get_u64(&r);
    addr->cookie = mrail_get_u64(&r);
    most = (kind & MRAIL_ADDR_IPV4) ? MRAIL_ADDR_MORE_IPV4 : MRAIL_ADDR_MORE;
    addr->num_more = MRAIL_MIN(kind & ~MRAIL_ADDR_IPV4, most);
    for (unsigned i = 0; i < addr->num_more; ++i) {
        mrail_get_boot(&r, &addr->more[i],
                       (kind & MRAIL_ADDR_IPV4) ? sizeof(mapped) : 0);
    }
    return 0;
}
