/*
 * Packets for the protocol core of the software device. The first bytes choose
 * the states of the queue pairs and the settings of the device. Commands
 * follow: a packet, work requests, a pull, time, state transitions, or
 * registrations. A packet consists of raw bytes, or of fields whose queue pair,
 * PSN, key and ICRC are often correct.
 *
 * Also checked:
 * - No byte changes outside the registered regions, or in a region without
 *   write permission. Sent bytes come from registered memory.
 * - A work request completes at most once. Every signaled work request
 *   completes when the queue pair enters the error state.
 * - A completion queue never has more entries than were posted.
 */
#include "config.h"
#include "fuzz.h"
#include "softroce/core/core.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(_p, _n) ((void)(_p))
#define ASAN_UNPOISON_MEMORY_REGION(_p, _n) ((void)(_p))
#endif

#define REGION 2048
#define GUARD 64
#define GUARD_BYTE 0xc5
#define NUM_QPS 4
#define MAX_WR 8
#define MAX_IDS 1024
#define QKEY 0x11223344
#define MAX_PKT 1200

enum { ALL, READ_ONLY, LOCAL, NEVER, ATOMIC, NUM_REGIONS };

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
static const int accesses[NUM_REGIONS] = {
    [ALL] = RW | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
    [READ_ONLY] = IBV_ACCESS_REMOTE_READ,
    [LOCAL] = IBV_ACCESS_LOCAL_WRITE, /* for receives and READs */
    [NEVER] = IBV_ACCESS_LOCAL_WRITE, /* no work request may use it */
    [ATOMIC] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
};

static uint8_t memory[NUM_REGIONS * (REGION + GUARD) + GUARD]
    __attribute__((aligned(64)));

static uint8_t *region(unsigned i)
{
    return memory + GUARD + i * (REGION + GUARD);
}

enum { ID_FREE, ID_POSTED, ID_UNSIGNALLED, ID_DONE };

typedef struct network {
    fuzz_in_t in;
    sroce_dev_t *dev;
    sroce_pd_t *pd, *other_pd;
    sroce_cq_t *scq, *rcq;
    sroce_srq_t *srq;
    sroce_qp_t *qp[NUM_QPS];
    sroce_mr_t *mr[NUM_REGIONS];
    sroce_ah_t ah;
    mrail_ns_t now_ns;
    int icrc;
    uint32_t peer_ip;
    uint32_t num_ids;
    uint8_t id_state[MAX_IDS];
    uint8_t id_qp[MAX_IDS]; /* NUM_QPS stands for the SRQ */
    sroce_txrun_t run;
} net_t;

static net_t w;

static void on_cq(void *arg, void *user)
{
}

static void on_async(void *arg, enum ibv_event_type type, void *user)
{
}

static void on_active(void *arg, sroce_qp_t *qp, void *user)
{
}

/* ---- memory ---- */

FUZZ_UNTRACED
static void memory_init(void)
{
    ASAN_UNPOISON_MEMORY_REGION(memory, sizeof(memory));
    memset(memory, GUARD_BYTE, sizeof(memory));
    for (unsigned i = 0; i < NUM_REGIONS; ++i) {
        memset(region(i), (int)i + 1, REGION);
        ASAN_POISON_MEMORY_REGION(region(i) - GUARD, GUARD);
    }
    ASAN_POISON_MEMORY_REGION(memory + sizeof(memory) - GUARD, GUARD);
}

FUZZ_UNTRACED
static void check_bytes(const uint8_t *p, uint8_t value, size_t length,
                        const char *what)
{
    FUZZ_CHECK((p[0] == value) && (memcmp(p, p + 1, length - 1) == 0),
               "%s was written to", what);
}

FUZZ_UNTRACED
static void memory_check(void)
{
    ASAN_UNPOISON_MEMORY_REGION(memory, sizeof(memory));
    for (unsigned i = 0; i <= NUM_REGIONS; ++i) {
        check_bytes(memory + i * (REGION + GUARD), GUARD_BYTE, GUARD,
                    "a guard");
    }
    check_bytes(region(READ_ONLY), READ_ONLY + 1, REGION,
                "a region without local write");
    check_bytes(region(NEVER), NEVER + 1, REGION,
                "a region without remote write");
}

/* ---- set-up ---- */

#define RC_INIT                                                                \
    (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define UD_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define RC_RTR                                                                 \
    (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |            \
     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RC_RTS                                                                 \
    (IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |                  \
     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT)

static struct ibv_qp_attr qp_attr(enum ibv_qp_state state, uint8_t kind)
{
    struct ibv_qp_attr attr = {
        .qp_state = state,
        .port_num = 1,
        .qkey = QKEY,
        .path_mtu = (kind & 1) ? IBV_MTU_256 : IBV_MTU_512,
        .dest_qp_num = 77,
        .rq_psn = (kind & 2) ? 0xfffffe : 100,
        .sq_psn = (kind & 4) ? 0xfffffd : 200,
        .max_dest_rd_atomic = (kind & 8) ? 16 : 2,
        .max_rd_atomic = (kind & 8) ? 16 : 1,
        .min_rnr_timer = 1,
        .timeout = (kind & 16) ? 0 : 8,
        .retry_cnt = (kind >> 5) & 3,
        .rnr_retry = (kind & 128) ? 7 : 1,
        .qp_access_flags =
            (kind & 64) ? IBV_ACCESS_REMOTE_READ : (unsigned)accesses[ALL],
        .ah_attr = {.is_global = 1, .port_num = 1},
    };

    attr.ah_attr.grh.dgid.raw[10] = attr.ah_attr.grh.dgid.raw[11] = 0xff;
    memcpy(attr.ah_attr.grh.dgid.raw + 12, &w.peer_ip, 4);
    return attr;
}

static int qp_mask(const sroce_qp_t *qp, enum ibv_qp_state to)
{
    int ud = (qp->type == IBV_QPT_UD);

    switch (to) {
    case IBV_QPS_INIT:
        return ud ? UD_INIT : RC_INIT;
    case IBV_QPS_RTR:
        return ud ? IBV_QP_STATE : RC_RTR;
    case IBV_QPS_RTS:
        if (qp->state != IBV_QPS_RTR) {
            return IBV_QP_STATE;
        }
        return ud ? (IBV_QP_STATE | IBV_QP_SQ_PSN) : RC_RTS;
    default:
        return IBV_QP_STATE;
    }
}

FUZZ_UNTRACED
static void qp_to(sroce_qp_t *qp, enum ibv_qp_state to, uint8_t kind)
{
    struct ibv_qp_attr attr = qp_attr(to, kind);
    int ret = sroce_qp_modify(qp, &attr, qp_mask(qp, to));

    if ((ret == 0) && (to == IBV_QPS_RESET)) {
        /* A reset flushes the queue. */
        for (uint32_t i = 0; i < w.num_ids; ++i) {
            if ((w.qp[w.id_qp[i] % NUM_QPS] == qp) && (w.id_qp[i] < NUM_QPS) &&
                (w.id_state[i] != ID_DONE)) {
                w.id_state[i] = ID_DONE;
            }
        }
    }
}

/* Moves a QP from RESET to one of the states by legal transitions. */
static void qp_start(sroce_qp_t *qp, uint8_t state, uint8_t kind)
{
    static const enum ibv_qp_state way[] = {IBV_QPS_INIT, IBV_QPS_RTR,
                                            IBV_QPS_RTS};

    for (unsigned i = 0; i < MRAIL_MIN(state, 3u); ++i) {
        qp_to(qp, way[i], kind);
    }
    if (state == 4) {
        qp_to(qp, IBV_QPS_SQD, kind);
    } else if (state == 5) {
        sroce_qp_sq_error(qp);
    } else if (state == 6) {
        qp_to(qp, IBV_QPS_ERR, kind);
    }
}

static void region_register(unsigned i)
{
    FUZZ_CHECK(sroce_mr_create(w.pd, region(i), REGION, (uintptr_t)region(i),
                               accesses[i], &w.mr[i]) == 0,
               "mr");
}

FUZZ_UNTRACED
static void net_init(const uint8_t *data, size_t size)
{
    sroce_dev_params_t params = {.ip = htobe32(0x0a000001),
                                 .qpn_base = 2,
                                 .qpn_count = NUM_QPS,
                                 .max_mtu = IBV_MTU_1024,
                                 .window_pkts = 4,
                                 .key_secret = 0x1234567890abcdef,
                                 .ops = {on_cq, on_async, on_active, NULL}};
    struct ibv_srq_attr srq = {.max_wr = MAX_WR, .max_sge = 2};
    uint8_t settings;

    memset(&w, 0, offsetof(net_t, run));
    w.in = (fuzz_in_t){data, data + size};
    settings = fuzz_u8(&w.in);
    w.icrc = settings & 1;
    params.icrc_tx = params.icrc_rx = w.icrc;
    w.peer_ip = htobe32(0x0a000002);
    w.now_ns = MRAIL_NS_PER_SEC;
    w.ah.av.ip = w.peer_ip;
    memory_init();
    FUZZ_CHECK((sroce_dev_create(&params, &w.dev) == 0) &&
                   (sroce_pd_create(w.dev, &w.pd) == 0) &&
                   (sroce_pd_create(w.dev, &w.other_pd) == 0) &&
                   (sroce_cq_create(w.dev, MAX_IDS, NULL, &w.scq) == 0) &&
                   (sroce_cq_create(w.dev, MAX_IDS, NULL, &w.rcq) == 0) &&
                   (sroce_srq_create(w.pd, &srq, NULL, &w.srq) == 0),
               "set-up");
    for (unsigned i = 0; i < NUM_REGIONS; ++i) {
        region_register(i);
    }
    for (unsigned i = 0; i < NUM_QPS; ++i) {
        sroce_qp_params_t qpp = {
            .type = (i < 3) ? IBV_QPT_RC : IBV_QPT_UD,
            .send_cq = w.scq,
            .recv_cq = w.rcq,
            .srq = (i & 1) ? w.srq : NULL,
            .cap = {MAX_WR, MAX_WR, 2, 2, 64},
        };

        FUZZ_CHECK(sroce_qp_create(w.pd, &qpp, &w.qp[i]) == 0, "qp");
        /* Usually selects RTS. The settings byte can select other states. */
        qp_start(w.qp[i], (settings & (2 << i)) ? fuzz_u8(&w.in) % 7 : 3,
                 (settings & 0x20) ? fuzz_u8(&w.in) : 0);
    }
    sroce_dev_set_write_delay(w.dev, (settings & 0x40) ? 1000 : 0);
}

/* ---- work requests ---- */

static uint32_t new_id(unsigned qp, int signalled)
{
    uint32_t id = w.num_ids;

    FUZZ_CHECK(id < MAX_IDS, "ids");
    w.id_qp[id] = (uint8_t)qp;
    w.id_state[id] = signalled ? ID_POSTED : ID_UNSIGNALLED;
    return id;
}

static void poll_cq(sroce_cq_t *cq)
{
    struct ibv_wc wc[8];
    int n;

    FUZZ_CHECK(sroce_cq_pending(cq) <= w.num_ids, "too many completions");
    while ((n = sroce_cq_poll(cq, 8, wc)) > 0) {
        for (int i = 0; i < n; ++i) {
            uint64_t id = wc[i].wr_id;

            FUZZ_CHECK(id < w.num_ids, "a completion of no request");
            FUZZ_CHECK(w.id_state[id] != ID_DONE, "wr %u completed twice",
                       (unsigned)id);
            FUZZ_CHECK((w.id_state[id] != ID_UNSIGNALLED) ||
                           (wc[i].status != IBV_WC_SUCCESS),
                       "an unsignalled request completed");
            FUZZ_CHECK(wc[i].byte_len <= 2 * REGION + SROCE_GRH_BYTES ||
                           wc[i].status != IBV_WC_SUCCESS,
                       "byte_len");
            w.id_state[id] = ID_DONE;
        }
    }
}

static uint32_t any_length(fuzz_in_t *in)
{
    static const uint16_t lengths[] = {0,   1,   8,   255,  256,  257,   511,
                                       512, 513, 768, 1024, 1025, REGION};
    uint8_t choice = fuzz_u8(in);

    return (choice < MRAIL_ARRAY_SIZE(lengths)) ? lengths[choice] : choice * 4u;
}

/* Returns an SGE in local memory, sometimes with a wrong key, but never in the
 * region NEVER. */
static struct ibv_sge any_sge(fuzz_in_t *in, uint32_t length)
{
    uint8_t choice = fuzz_u8(in);
    static const uint8_t own[] = {ALL, READ_ONLY, LOCAL, ATOMIC};
    unsigned i = own[choice & 3];
    struct ibv_sge sge = {
        .addr = (uintptr_t)region(i) + (choice >> 4) * 8u,
        .length = MRAIL_MIN(length, REGION - (choice >> 4) * 8u),
        .lkey = (w.mr[i] != NULL) ? sroce_mr_key(w.mr[i]) : 0,
    };

    if ((choice & 0x0c) == 0x0c) {
        sge.lkey ^= fuzz_u8(in);
        sge.length = length; /* may reach beyond the end of the region */
    }
    return sge;
}

static void post_send(fuzz_in_t *in)
{
    uint8_t choice = fuzz_u8(in), flags = fuzz_u8(in);
    unsigned qp = choice % NUM_QPS;
    struct ibv_sge sge[2];
    struct ibv_send_wr wr =
                           {
                               .opcode =
                                   (enum ibv_wr_opcode)((choice >> 2) % 8),
                               .send_flags = flags & 0xf,
                               .sg_list = sge,
                               .num_sge = (flags >> 4) & 1 ? 2 : 1,
                               .imm_data = flags,
                           },
                       *bad;

    sge[0] = any_sge(in, any_length(in));
    sge[1] = sge[0];
    if (wr.send_flags & IBV_SEND_INLINE) {
        sge[0].addr = (uintptr_t)region(ALL);
        wr.num_sge = 1;
        sge[0].length %= 65;
    }
    if ((wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) ||
        (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)) {
        sge[0].length = 8;
        wr.num_sge = 1;
        wr.wr.atomic.remote_addr = fuzz_u8(in);
    } else if (w.qp[qp]->type == IBV_QPT_UD) {
        wr.wr.ud.ah = &w.ah.ibv;
        wr.wr.ud.remote_qpn = fuzz_u8(in);
        wr.wr.ud.remote_qkey = QKEY;
    } else {
        wr.wr.rdma.remote_addr = fuzz_u8(in);
    }
    wr.wr_id = new_id(qp, (wr.send_flags & IBV_SEND_SIGNALED) != 0);
    /* In ERR, the request completes as flushed during the call. */
    ++w.num_ids;
    if (sroce_qp_post_send(w.qp[qp], &wr, &bad) != 0) {
        w.id_state[wr.wr_id] = ID_DONE;
    }
}

static void post_recv(fuzz_in_t *in)
{
    uint8_t choice = fuzz_u8(in);
    unsigned qp = choice % NUM_QPS;
    struct ibv_sge sge[2];
    struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = (choice >> 2) % 3},
                       *bad;
    int ret;

    sge[0] = any_sge(in, any_length(in));
    sge[1] = any_sge(in, any_length(in));
    wr.wr_id = new_id((qp & 1) ? NUM_QPS : qp, 1);
    ++w.num_ids;
    ret = (qp & 1) ? sroce_srq_post_recv(w.srq, &wr, &bad)
                   : sroce_qp_post_recv(w.qp[qp], &wr, &bad);
    if (ret != 0) {
        w.id_state[wr.wr_id] = ID_DONE;
    }
}

/* ---- received packets ---- */

static const uint8_t opcodes[] = {
    SROCE_OP_SEND_FIRST,     SROCE_OP_SEND_MIDDLE,  SROCE_OP_SEND_LAST,
    SROCE_OP_SEND_LAST_IMM,  SROCE_OP_SEND_ONLY,    SROCE_OP_SEND_ONLY_IMM,
    SROCE_OP_WRITE_FIRST,    SROCE_OP_WRITE_MIDDLE, SROCE_OP_WRITE_LAST,
    SROCE_OP_WRITE_LAST_IMM, SROCE_OP_WRITE_ONLY,   SROCE_OP_WRITE_ONLY_IMM,
    SROCE_OP_READ_REQ,       SROCE_OP_READ_FIRST,   SROCE_OP_READ_MIDDLE,
    SROCE_OP_READ_LAST,      SROCE_OP_READ_ONLY,    SROCE_OP_ACK,
    SROCE_OP_ATOMIC_ACK,     SROCE_OP_CMP_SWAP,     SROCE_OP_FETCH_ADD,
    SROCE_OP_UD_SEND,        SROCE_OP_UD_SEND_IMM,
};

static uint32_t any_psn(fuzz_in_t *in, const sroce_qp_t *qp, int response)
{
    uint8_t choice = fuzz_u8(in);
    uint32_t delta = (uint32_t)((int)(choice >> 2) - 16);

    switch (choice & 3) {
    case 0:
        return (response ? qp->req.psn_una : qp->resp.epsn) & MRAIL_PSN_MASK;
    case 1:
        return mrail_psn_add(response ? qp->req.psn_una : qp->resp.epsn, delta);
    case 2:
        return mrail_psn_add(qp->req.psn_max, delta);
    default:
        return fuzz_u32(in) & MRAIL_PSN_MASK;
    }
}

/* Writes the address and key of a region. Either of them may be wrong in one of
 * many ways. */
static void any_remote(fuzz_in_t *in, uint8_t *to, uint32_t length)
{
    uint8_t choice = fuzz_u8(in);
    unsigned i = (choice & 7) % NUM_REGIONS;
    uint64_t addr = (uintptr_t)region(i);
    uint32_t key = (w.mr[i] != NULL) ? sroce_mr_key(w.mr[i]) : 0;

    switch ((choice >> 3) & 7) {
    case 0:
        addr = fuzz_u64(in);
        break;
    case 1:
        key ^= fuzz_u32(in);
        break;
    case 2:
        addr += (uint64_t)(int64_t)(int16_t)fuzz_u16(in);
        break;
    case 3:
        /* The range ends close to the end of the region. */
        addr += REGION - length + fuzz_u8(in) % 8 - 4;
        break;
    default:
        addr += (choice >> 6) * 8u;
    }
    sroce_put64(to, addr);
    sroce_put32(to + 8, key);
}

static void put_ext(fuzz_in_t *in, uint8_t *ext, const sroce_op_t *op,
                    uint32_t payload)
{
    static const uint8_t syndromes[] = {SROCE_SYN_ACK,        SROCE_SYN_RNR | 1,
                                        SROCE_SYN_NAK_SEQ,    SROCE_SYN_NAK_INV,
                                        SROCE_SYN_NAK_ACCESS, SROCE_SYN_NAK_OP};
    uint8_t choice;

    if (op->flags & SROCE_OPF_UD) {
        choice = fuzz_u8(in);
        sroce_put32(ext, (choice & 7) ? QKEY : fuzz_u32(in));
        sroce_put32(ext + 4, choice);
    } else if ((op->flags & SROCE_OPF_RESPONSE) ||
               (op->flags == SROCE_OPF_VALID)) {
        choice = fuzz_u8(in);
        if (op->hdr_bytes > SROCE_BTH_BYTES) {
            ext[0] = (choice < MRAIL_ARRAY_SIZE(syndromes)) ? syndromes[choice]
                                                            : choice;
        }
    } else if ((op->flags & (SROCE_OPF_WRITE | SROCE_OPF_READ)) &&
               (op->flags & SROCE_OPF_FIRST)) {
        any_remote(in, ext, payload);
        choice = fuzz_u8(in);
        sroce_put32(ext + 12, (choice & 1)   ? any_length(in)
                              : (choice & 2) ? fuzz_u32(in)
                              : (op->flags & SROCE_OPF_LAST)
                                  ? payload
                                  : payload + choice * 8u);
    } else if (op->flags & SROCE_OPF_ATOMIC) {
        any_remote(in, ext, sizeof(uint64_t));
        sroce_put64(ext + 12, fuzz_u8(in));
        sroce_put64(ext + 20, fuzz_u8(in));
    }
}

static void rx(uint8_t *pkt, uint32_t length, uint8_t choice)
{
    sroce_rxpkt_t rxpkt = {.data = pkt,
                           .length = length,
                           .src_ip = (choice & 0x40) ? htobe32(0x0a000009)
                                                     : w.peer_ip,
                           .sport = 0xc000,
                           .flags = (choice & 0x20) ? SROCE_RX_ANY_ID : 0};
    struct iovec iov = {pkt, length - SROCE_ICRC_BYTES};
    uint8_t *alone;
    uint32_t crc;

    if (w.icrc && !(choice & 0x10) && (length >= 16)) {
        crc = sroce_icrc(rxpkt.src_ip, htobe32(0x0a000001), rxpkt.sport, length,
                         &iov, 1);
        for (int i = 0; i < SROCE_ICRC_BYTES; ++i) {
            pkt[length - SROCE_ICRC_BYTES + (unsigned)i] =
                (uint8_t)(crc >> (8 * i));
        }
    }
    alone = malloc(MRAIL_MAX(length, 1u));
    FUZZ_CHECK(alone != NULL, "out of memory");
    memcpy(alone, pkt, length);
    rxpkt.data = alone;
    sroce_dev_rx(w.dev, &rxpkt, w.now_ns);
    free(alone);
}

static void packet(fuzz_in_t *in)
{
    uint8_t choice = fuzz_u8(in), op_choice = fuzz_u8(in);
    unsigned qp_idx = choice % NUM_QPS;
    sroce_qp_t *qp = w.qp[qp_idx];
    uint8_t pkt[MAX_PKT + 64] = {0};
    uint8_t opcode = opcodes[op_choice % MRAIL_ARRAY_SIZE(opcodes)];
    const sroce_op_t *op = &sroce_ops[opcode];
    uint32_t payload = 0, length, pad;

    if ((choice & 8) && (op_choice & 0x80)) {
        opcode = fuzz_u8(in); /* any opcode, even an undefined one */
        op = &sroce_ops[opcode];
    }
    if (op->flags & SROCE_OPF_PAYLOAD) {
        payload = (op_choice & 0x20) ? any_length(in) % (MAX_PKT - 64)
                                     : 1u << qp->mtu_shift;
    }
    pad = sroce_pad(payload);
    sroce_bth_put(pkt, opcode, op_choice & 1, pad, sroce_qp_num(qp), choice & 4,
                  any_psn(in, qp, op->flags & SROCE_OPF_RESPONSE));
    put_ext(in, pkt + SROCE_BTH_BYTES, op, payload);
    length = MRAIL_MAX(op->hdr_bytes, (uint8_t)SROCE_BTH_BYTES) + payload +
             pad + SROCE_ICRC_BYTES;
    memset(pkt + MRAIL_MAX(op->hdr_bytes, (uint8_t)SROCE_BTH_BYTES), 0xee,
           payload);
    if (choice & 0x80) { /* truncated, or with other header bits */
        uint8_t how = fuzz_u8(in);

        if (how & 0x80) {
            pkt[1 + how % 3] ^= fuzz_u8(in);
        } else {
            length -= MRAIL_MIN(length, (uint32_t)how);
        }
    }
    rx(pkt, length, choice);
}

static void raw_packet(fuzz_in_t *in)
{
    uint8_t choice = fuzz_u8(in), pkt[256];
    uint32_t length = fuzz_u8(in);

    length = (uint32_t)fuzz_bytes(in, pkt, length);
    if ((choice & 4) && (length >= 8)) {
        sroce_put32(pkt + 4, sroce_qp_num(w.qp[choice % NUM_QPS]));
    }
    rx(pkt, length, choice);
}

/* ---- sent packets ---- */

FUZZ_UNTRACED
static int in_region(const uint8_t *p, size_t n)
{
    for (unsigned i = 0; i < NUM_REGIONS; ++i) {
        if ((p >= region(i)) && (p + n <= region(i) + REGION)) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if `p` points to inline data in the ring of the queue pair. */
static int in_ring(const sroce_qp_t *qp, const uint8_t *p, size_t n)
{
    return (p >= qp->req.ring) &&
           (p + n <= qp->req.ring + (size_t)qp->req.size * qp->req.stride);
}

static void pull(fuzz_in_t *in)
{
    uint8_t choice = fuzz_u8(in);
    sroce_qp_t *qp = w.qp[choice % NUM_QPS];
    uint32_t max = (choice & 4) ? fuzz_u16(in) : SROCE_RUN_BYTES;
    unsigned pkts = (choice & 8) ? fuzz_u8(in) : SROCE_RUN_PKTS;
    sroce_txinfo_t info;
    uint64_t sum = 0;
    unsigned n;

    (void)sroce_qp_peek(qp, w.now_ns, &info);
    (void)sroce_qp_urgent(qp);
    n = sroce_qp_pull(qp, w.now_ns, max, pkts, &w.run);
    FUZZ_CHECK((n == w.run.num_pkts) && (n <= pkts) && (w.run.length <= max) &&
                   (w.run.iov_count <= SROCE_RUN_IOV) &&
                   (w.run.scratch_used <= SROCE_RUN_SCRATCH),
               "a run exceeds its limits");
    for (unsigned i = 0; (n != 0) && (i < w.run.iov_count); ++i) {
        const struct iovec *iov = &w.run.iov[i];
        const uint8_t *p = iov->iov_base;

        sum += iov->iov_len;
        FUZZ_CHECK(((p >= w.run.scratch) &&
                    (p + iov->iov_len <= w.run.scratch + SROCE_RUN_SCRATCH)) ||
                       in_region(p, iov->iov_len) ||
                       in_ring(qp, p, iov->iov_len),
                   "unregistered memory is sent");
    }
    FUZZ_CHECK((n == 0) || (sum == w.run.length),
               "the length of a run is wrong");
}

/* ---- the rest ---- */

static void reregister(fuzz_in_t *in)
{
    uint8_t choice = fuzz_u8(in);
    unsigned i = choice % NUM_REGIONS;

    if (w.mr[i] != NULL) {
        sroce_mr_destroy(w.mr[i]);
        w.mr[i] = NULL;
    } else {
        region_register(i);
    }
}

static void set_things(fuzz_in_t *in)
{
    uint8_t choice = fuzz_u8(in);
    struct ibv_srq_attr attr = {.max_wr = 1u + choice % 16,
                                .srq_limit = choice % 4};

    switch (choice >> 6) {
    case 0:
        sroce_dev_set_write_delay(w.dev, (choice & 1) ? 500 : 0);
        break;
    case 1:
        sroce_srq_modify(w.srq, &attr, IBV_SRQ_LIMIT);
        break;
    case 2:
        sroce_srq_modify(w.srq, &attr, IBV_SRQ_MAX_WR);
        break;
    default:
        sroce_cq_arm((choice & 1) ? w.scq : w.rcq, choice & 2);
    }
}

/* Checks the invariants of the send queue from core.h, and that only sent
 * packets are acknowledged. */
FUZZ_UNTRACED
static void check_queues(void)
{
    for (unsigned i = 0; i < NUM_QPS; ++i) {
        const sroce_req_t *req = &w.qp[i]->req;

        FUZZ_CHECK((req->head - req->tail <= req->max_wr) &&
                       (req->cur - req->tail <= req->alloc - req->tail) &&
                       (req->alloc - req->tail <= req->head - req->tail),
                   "qp %u: tail %u cur %u alloc %u head %u", i, req->tail,
                   req->cur, req->alloc, req->head);
        FUZZ_CHECK((mrail_psn_diff(req->psn_max, req->psn_una) >= 0) ||
                       (w.qp[i]->type == IBV_QPT_UD),
                   "qp %u: una 0x%x max 0x%x", i, req->psn_una, req->psn_max);
    }
}

static void command(fuzz_in_t *in)
{
    static const enum ibv_qp_state states[] = {
        IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
        IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR, IBV_QPS_RTS};
    uint8_t what = fuzz_u8(in), choice;

    switch (what & 0xf) {
    case 0:
        raw_packet(in);
        break;
    case 1:
    case 2:
        post_send(in);
        break;
    case 3:
        post_recv(in);
        break;
    case 4:
    case 5:
        pull(in);
        break;
    case 6:
        w.now_ns += (mrail_ns_t)fuzz_u8(in) << (what >> 3);
        sroce_dev_timers(w.dev, w.now_ns);
        break;
    case 7:
        choice = fuzz_u8(in);
        qp_to(w.qp[choice % NUM_QPS], states[(choice >> 2) & 7],
              (uint8_t)(what & 0xf0));
        break;
    case 8:
        poll_cq((what & 0x10) ? w.scq : w.rcq);
        break;
    case 9:
        reregister(in);
        break;
    case 10:
        set_things(in);
        break;
    default:
        packet(in);
    }
}

/* Checks that all signaled work is complete once the QPs are in error. Receives
 * of an SRQ remain. */
FUZZ_UNTRACED
static void finish(void)
{
    for (unsigned i = 0; i < NUM_QPS; ++i) {
        qp_to(w.qp[i], IBV_QPS_ERR, 0);
    }
    poll_cq(w.scq);
    poll_cq(w.rcq);
    for (uint32_t i = 0; i < w.num_ids; ++i) {
        FUZZ_CHECK((w.id_state[i] != ID_POSTED) || (w.id_qp[i] == NUM_QPS),
                   "wr %u never completed", i);
    }
    for (unsigned i = 0; i < NUM_QPS; ++i) {
        sroce_qp_destroy(w.qp[i]);
    }
    for (unsigned i = 0; i < NUM_REGIONS; ++i) {
        if (w.mr[i] != NULL) {
            sroce_mr_destroy(w.mr[i]);
        }
    }
    FUZZ_CHECK((sroce_srq_destroy(w.srq) == 0) &&
                   (sroce_cq_destroy(w.scq) == 0) &&
                   (sroce_cq_destroy(w.rcq) == 0) &&
                   (sroce_pd_destroy(w.other_pd) == 0) &&
                   (sroce_pd_destroy(w.pd) == 0),
               "an object is still in use");
    sroce_dev_destroy(w.dev);
    memory_check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    net_init(data, size);
    while ((fuzz_left(&w.in) != 0) && (w.num_ids < MAX_IDS)) {
        command(&w.in);
        check_queues();
    }
    finish();
    return 0;
}
