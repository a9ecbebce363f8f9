/*
 * Defines the wire format between two engines: data headers on RC lanes,
 * control messages on the UD QPs, and addresses, all big-endian. The codecs
 * convert between bytes and structs. They reject lengths and indices that are
 * out of range. docs/wire.md describes the layouts.
 */
#ifndef MRAIL_RAIL_WIRE_H
#define MRAIL_RAIL_WIRE_H

#include "rail/mrail.h"

#include <endian.h>

#define MRAIL_WIRE_VERSION 3

/* ---- data ---- */

typedef enum mrail_data_type {
    MRAIL_DATA_AM = 1,  /* an active message; consumes one credit */
    MRAIL_DATA_ACK = 2, /* ack and credit only; consumes no credit */
} mrail_data_type_t;

enum {
    MRAIL_DATA_ACK_REQ = 1 << 0,        /* answer when all AMs before seq
                                         * have arrived */
    MRAIL_DATA_ACK_REP = 1 << 1,        /* answers an ACK_REQ */
    MRAIL_DATA_CREDIT_BLOCKED = 1 << 2, /* the sender had to wait for credits */
    MRAIL_DATA_RECALL = 1 << 3, /* return the credits that you do not need */
    MRAIL_DATA_RETURN = 1 << 4, /* ACK: `returned` credits will not be used */
};

/* First bytes of every SEND on a lane. The size of 24 bytes keeps the payload
 * 8-byte aligned. */
typedef struct mrail_data_hdr {
    uint8_t version;
    uint8_t type;
    uint8_t flags;
    uint8_t am_id;
    union {
        struct {
            uint16_t lane;  /* the receiver's index of the lane */
            uint16_t epoch; /* epoch of the lane; identifies late messages of
                             * an earlier epoch */
        };
        uint32_t tag; /* lane and epoch as one value, in memory order */
    };
    uint32_t seq;      /* AM: number in the sender's stream; ACK: number of
                        * the next AM */
    uint32_t ack;      /* number of the next AM that the sender expects; all
                        * earlier ones have arrived */
    uint16_t credit;   /* total of AMs that the receiver may send on this
                        * lane, modulo 2^16 */
    uint16_t iface;    /* AM: the receiver's index of the iface */
    uint16_t returned; /* RETURN: credits of this lane that count as used */
    uint16_t reserved;
} __attribute__((packed)) mrail_data_hdr_t;

/* Returns the tag that all headers on a lane carry. */
static inline uint32_t mrail_data_tag(uint16_t lane, uint16_t epoch)
{
    mrail_data_hdr_t hdr;

    hdr.lane = htobe16(lane);
    hdr.epoch = htobe16(epoch);
    return hdr.tag;
}

/* ---- control ---- */

#define MRAIL_CTL_MAX_SIZE 1024 /* bytes; fits any RoCE MTU above 512 */

typedef enum mrail_ctl_type {
    MRAIL_CTL_HELLO = 1, /* the sender's rails; the receiver answers with its
                          * own */
    MRAIL_CTL_HELLO_REP = 2,
    MRAIL_CTL_LANE_REQ = 3,   /* connect to this QP */
    MRAIL_CTL_LANE_REP = 4,   /* connected; connect to that QP */
    MRAIL_CTL_LANE_READY = 5, /* the lane may be used */
    MRAIL_CTL_PROBE = 6,      /* liveness check over this path */
    MRAIL_CTL_PROBE_REP = 7,
    MRAIL_CTL_EVICT = 8,      /* release the lane */
    MRAIL_CTL_CONFIRM = 9,    /* answers EVICT or FAIL: this many AMs arrived
                               * on the lane */
    MRAIL_CTL_FAIL = 10,      /* the lane has failed; close it as well */
    MRAIL_CTL_REFUSE = 11,    /* the request is refused for `reason` */
    MRAIL_CTL_BYE = 12,       /* this engine is closing */
    MRAIL_CTL_POLL = 13,      /* poll your lanes: a flush is waiting for them */
    MRAIL_CTL_MOVE = 14,      /* send from another source port on this path */
    MRAIL_CTL_MOVE_BACK = 15, /* undo the MOVE of this seq */
    MRAIL_CTL_LAST
} mrail_ctl_type_t;

typedef enum mrail_ctl_reason {
    MRAIL_REASON_NONE = 0,
    MRAIL_REASON_QP_BUDGET = 1, /* MAX_QPS is reached at the sender */
    MRAIL_REASON_RESOURCES = 2, /* the device has no QP or buffer left, or the
                                 * requested lane has ended: request again */
    MRAIL_REASON_NO_RAIL = 3,   /* the sender has no rail with that number, or
                                 * no lane with that slot */
    MRAIL_REASON_IN_USE = 4,    /* EVICT: the sender uses the lane */
    MRAIL_REASON_WAIT = 5       /* LANE_REQ: a QP is being freed; request
                                 * again */
} mrail_ctl_reason_t;

typedef struct mrail_wire_rail {
    uint8_t gid[16];
    uint64_t subnet;
    uint64_t flush_addr; /* 8 bytes that the peer may READ at any time */
    uint32_t flush_rkey;
    uint32_t ud_qpn; /* 24 bits */
    uint32_t rate_mbps;
    uint32_t nic_index; /* used to choose source ports */
    uint8_t mtu;        /* enum ibv_mtu */
} mrail_wire_rail_t;

#define MRAIL_MOVE_RANDOM 0xffff /* instead of a slot: a random port */

/* Body of LANE_REQ, LANE_REP, LANE_READY, EVICT, CONFIRM, FAIL. */
typedef struct mrail_wire_lane {
    uint16_t slot;  /* number of the lane between the two peers */
    uint16_t index; /* the sender's index, for data headers */
    uint16_t epoch;
    uint16_t credits; /* number of AMs that the receiver of this message may
                       * send at first; EVICT: 1 if it must not be refused */
    uint8_t src_rail; /* the sender's rail */
    uint8_t dst_rail; /* the receiver's rail */
    uint8_t max_dest_rd_atomic; /* concurrent READs that the sender's QP can
                                 * serve */
    uint32_t qpn;               /* 24 bits */
    uint32_t psn;               /* 24 bits */
    uint32_t am_seq; /* CONFIRM of a failed lane: number of AMs that arrived
                      * on it, modulo 2^16 */
} mrail_wire_lane_t;

typedef struct mrail_ctl_msg {
    mrail_ctl_type_t type;
    uint8_t src_rail;    /* rail that sends this message */
    uint32_t seq;        /* number of the request; a reply repeats it */
    uint64_t dst_cookie; /* cookie from the receiver's address */
    uint64_t src_cookie;
    uint64_t src_id;
    union {
        struct {
            unsigned num_rails;
            uint32_t seg_size; /* bytes of the sender's receive buffers */
            mrail_wire_rail_t rails[MRAIL_MAX_RAILS];
        } hello;                /* HELLO, HELLO_REP */
        mrail_wire_lane_t lane; /* LANE_*, EVICT, CONFIRM, FAIL */
        struct {
            uint16_t slot;
            uint16_t reason;
        } refuse;
        struct {
            uint16_t slot;
        } path; /* PROBE, PROBE_REP, MOVE_BACK */
        struct {
            uint16_t slot;
            uint16_t like; /* slot whose source port to use, or
                            * MRAIL_MOVE_RANDOM */
        } move;            /* MOVE */
    };
} mrail_ctl_msg_t;

/* Returns the number of bytes written, or -ENOSPC. */
int mrail_ctl_encode(const mrail_ctl_msg_t *msg, void *buf, size_t size);

/* Returns 0. Returns -EPROTONOSUPPORT for another version, and -EPROTO if the
 * bytes are not a control message, are truncated, or have a field out of range.
 * *msg is valid only if the result is 0. */
int mrail_ctl_decode(mrail_ctl_msg_t *msg, const void *buf, size_t length);

const char *mrail_ctl_type_name(unsigned type);

/* ---- addresses ---- */

#define MRAIL_ADDR_VERSION 3
#define MRAIL_DEVICE_ADDR_SIZE 28
#define MRAIL_IFACE_ADDR_SIZE 62
/* Maximum number of further rails in an address: if all of their GIDs are
 * mapped IPv4 addresses, and otherwise. */
#define MRAIL_ADDR_MORE_IPV4 5
#define MRAIL_ADDR_MORE 2

/* Bootstrap rail of an engine: where the first control message reaches it. */
typedef struct mrail_wire_device_addr {
    uint8_t num_rails;
    uint8_t rail; /* the bootstrap rail's index */
    uint8_t gid[16];
    uint64_t subnet;
} mrail_wire_device_addr_t;

/* Another rail of an engine, because the bootstrap rail may have failed. */
typedef struct mrail_wire_boot {
    uint8_t gid[16];
    uint32_t ud_qpn;
} mrail_wire_boot_t;

typedef struct mrail_wire_iface_addr {
    uint16_t iface;
    uint32_t ud_qpn; /* number of the bootstrap rail's UD QP */
    uint64_t id;
    uint64_t cookie;
    unsigned num_more;
    mrail_wire_boot_t more[MRAIL_ADDR_MORE_IPV4];
} mrail_wire_iface_addr_t;

void mrail_device_addr_encode(const mrail_wire_device_addr_t *addr, void *buf);
/* Encodes an address. Omits entries that do not fit: all but MRAIL_ADDR_MORE of
 * `more`, unless all are mapped IPv4 addresses. */
void mrail_iface_addr_encode(const mrail_wire_iface_addr_t *addr, void *buf);

/* Decode an address. Return 0, or -EPROTONOSUPPORT with the sender's version in
 * *version_p. */
int mrail_device_addr_decode(mrail_wire_device_addr_t *addr, const void *buf,
                             unsigned *version_p);
int mrail_iface_addr_decode(mrail_wire_iface_addr_t *addr, const void *buf,
                            unsigned *version_p);

#endif
