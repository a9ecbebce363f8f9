/*
 * Defines the RoCEv2 transport headers: opcode table, codec, AETH syndromes. No
 * state.
 *
 * Source: IBA 9.2 (BTH, table 38 of opcodes), 9.3 (extended headers), 9.7.5.2
 * (AETH), table 45 (RNR NAK timer).
 */
#ifndef SROCE_CORE_PKT_H
#define SROCE_CORE_PKT_H

#include <endian.h>
#include <string.h>

#include "base/seq.h"
#include "base/util.h"
#include "softroce/core/sroce.h"

#define SROCE_BTH_BYTES 12
#define SROCE_RETH_BYTES 16
#define SROCE_ATOMIC_BYTES 28
#define SROCE_AETH_BYTES 4
#define SROCE_ATOMIC_ACK_BYTES 8
#define SROCE_DETH_BYTES 8
#define SROCE_IMM_BYTES 4
#define SROCE_ICRC_BYTES 4
#define SROCE_HDR_MAX (SROCE_BTH_BYTES + SROCE_ATOMIC_BYTES)
#define SROCE_TRAILER_MAX (3 + SROCE_ICRC_BYTES)
#define SROCE_PKEY 0xffff

enum {
    SROCE_OP_SEND_FIRST = 0x00,
    SROCE_OP_SEND_MIDDLE = 0x01,
    SROCE_OP_SEND_LAST = 0x02,
    SROCE_OP_SEND_LAST_IMM = 0x03,
    SROCE_OP_SEND_ONLY = 0x04,
    SROCE_OP_SEND_ONLY_IMM = 0x05,
    SROCE_OP_WRITE_FIRST = 0x06,
    SROCE_OP_WRITE_MIDDLE = 0x07,
    SROCE_OP_WRITE_LAST = 0x08,
    SROCE_OP_WRITE_LAST_IMM = 0x09,
    SROCE_OP_WRITE_ONLY = 0x0a,
    SROCE_OP_WRITE_ONLY_IMM = 0x0b,
    SROCE_OP_READ_REQ = 0x0c,
    SROCE_OP_READ_FIRST = 0x0d,
    SROCE_OP_READ_MIDDLE = 0x0e,
    SROCE_OP_READ_LAST = 0x0f,
    SROCE_OP_READ_ONLY = 0x10,
    SROCE_OP_ACK = 0x11,
    SROCE_OP_ATOMIC_ACK = 0x12,
    SROCE_OP_CMP_SWAP = 0x13,
    SROCE_OP_FETCH_ADD = 0x14,
    SROCE_OP_UD_SEND = 0x64,
    SROCE_OP_UD_SEND_IMM = 0x65
};

/* sroce_op_t.flags: properties of an opcode's packets. */
enum {
    SROCE_OPF_VALID = 0x0001,
    SROCE_OPF_UD = 0x0002,
    SROCE_OPF_RESPONSE = 0x0004,
    SROCE_OPF_SEND = 0x0008,
    SROCE_OPF_WRITE = 0x0010,
    SROCE_OPF_FIRST = 0x0020, /* first packet of a message */
    SROCE_OPF_LAST = 0x0040,  /* last packet of a message (ONLY: both) */
    SROCE_OPF_IMM = 0x0080,
    SROCE_OPF_READ = 0x0100,
    SROCE_OPF_ATOMIC = 0x0200,
    SROCE_OPF_PAYLOAD = 0x0400
};

typedef struct sroce_op {
    uint16_t flags;    /* SROCE_OPF_* */
    uint8_t hdr_bytes; /* BTH plus extended headers */
} sroce_op_t;

extern const sroce_op_t sroce_ops[256];

/* AETH syndromes. */
#define SROCE_SYN_ACK 0x1f /* ACK, no credit information */
#define SROCE_SYN_RNR 0x20 /* | timer code */
#define SROCE_SYN_NAK_SEQ 0x60
#define SROCE_SYN_NAK_INV 0x61
#define SROCE_SYN_NAK_ACCESS 0x62
#define SROCE_SYN_NAK_OP 0x63
#define SROCE_SYN_KIND(_syn) ((_syn) >> 5)
#define SROCE_SYN_KIND_ACK 0
#define SROCE_SYN_KIND_RNR 1
#define SROCE_SYN_KIND_NAK 3

/* Wait of a requester after an RNR NAK, indexed by timer code (0..31). */
extern const uint32_t sroce_rnr_timer_us[32];

typedef struct sroce_bth {
    uint8_t opcode;
    uint8_t solicited;
    uint8_t pad;
    uint8_t ack_req;
    uint8_t tver;
    uint16_t pkey;
    uint32_t qpn;
    uint32_t psn;
} sroce_bth_t;

static inline uint32_t sroce_get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return be32toh(v);
}

static inline uint64_t sroce_get64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return be64toh(v);
}

static inline void sroce_put32(uint8_t *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof(v));
}

static inline void sroce_put64(uint8_t *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, sizeof(v));
}

/* Decodes a BTH. `p` must have at least SROCE_BTH_BYTES. */
static inline void sroce_bth_get(const uint8_t *p, sroce_bth_t *bth)
{
    uint32_t w1 = sroce_get32(p + 4), w2 = sroce_get32(p + 8);

    bth->opcode = p[0];
    bth->solicited = p[1] >> 7;
    bth->pad = (p[1] >> 4) & 3;
    bth->tver = p[1] & 0xf;
    bth->pkey = (uint16_t)((p[2] << 8) | p[3]);
    bth->qpn = w1 & 0xffffff;
    bth->ack_req = w2 >> 31;
    bth->psn = w2 & MRAIL_PSN_MASK;
}

/* Encodes a BTH. The migration bit is set ("migrated"), as in kernel
 * drivers. */
static inline void sroce_bth_put(uint8_t *p, uint8_t opcode, int solicited,
                                 unsigned pad, uint32_t qpn, int ack_req,
                                 uint32_t psn)
{
    p[0] = opcode;
    p[1] = (uint8_t)(((solicited != 0) << 7) | 0x40 | (pad << 4));
    p[2] = SROCE_PKEY >> 8;
    p[3] = SROCE_PKEY & 0xff;
    sroce_put32(p + 4, qpn);
    sroce_put32(p + 8, ((uint32_t)(ack_req != 0) << 31) | psn);
}

static inline void sroce_aeth_put(uint8_t *p, uint8_t syndrome, uint32_t msn)
{
    sroce_put32(p, ((uint32_t)syndrome << 24) | (msn & 0xffffff));
}

static inline void sroce_reth_put(uint8_t *p, uint64_t addr, uint32_t rkey,
                                  uint32_t length)
{
    sroce_put64(p, addr);
    sroce_put32(p + 8, rkey);
    sroce_put32(p + 12, length);
}

static inline uint32_t sroce_mtu_bytes(enum ibv_mtu mtu)
{
    return 128u << mtu;
}

/* Returns the number of packets in a message of `length` bytes, at least
 * one. */
static inline uint32_t sroce_num_pkts(uint32_t length, unsigned mtu_shift)
{
    return (length == 0)
               ? 1
               : (uint32_t)(((uint64_t)length + (1u << mtu_shift) - 1) >>
                            mtu_shift);
}

#endif
