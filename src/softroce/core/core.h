/*
 * Declares the internal interface of the core: object layouts, and the calls
 * between the requester (req.c), completer (comp.c), responder (resp.c) and
 * datagram code (ud.c). The owner of a device uses sroce.h instead.
 *
 *   post_send -> sq ring -> req.c -> pull          rx -> resp.c -> rq, memory
 *                 ^                                        |
 *                 +---- comp.c <- rx (ACK, READ data)      +-> pull (ACK, data)
 *
 * Ring indexes are free-running uint32_t, masked on each access.
 */
#ifndef SROCE_CORE_CORE_H
#define SROCE_CORE_CORE_H

#include <string.h>

#include "base/seq.h"
#include "base/util.h"
#include "softroce/core/pkt.h"
#include "softroce/core/sroce.h"

/* ---- Memory ---- */

struct sroce_pd {
    sroce_dev_t *dev;
    unsigned users;
};

struct sroce_mr {
    sroce_pd_t *pd;
    uint8_t *addr;
    uint64_t iova;
    size_t length;
    int access;
    uint32_t key; /* (slot index << 8 | generation) ^ dev->key_mask */
};

typedef struct sroce_mr_slot {
    sroce_mr_t *mr; /* NULL if the slot is free */
    uint32_t next_free;
    uint8_t generation;
} sroce_mr_slot_t;

/* Returns the address of [addr, addr + length) under `key`, or NULL if the key
 * does not allow the access. */
static inline uint8_t *sroce_mr_find(const sroce_dev_t *dev,
                                     const sroce_pd_t *pd, uint32_t key,
                                     uint64_t addr, uint64_t length,
                                     int access);

/* Position in an SGE list. */
typedef struct sroce_sgcur {
    uint32_t idx;
    uint32_t off;
} sroce_sgcur_t;

/* ---- Completion queue ---- */

struct sroce_cq {
    sroce_dev_t *dev;
    void *user;
    struct ibv_wc *ring;
    uint32_t size; /* power of two */
    uint32_t head; /* next entry to write */
    uint32_t tail; /* next entry to poll */
    unsigned users;
    uint8_t armed; /* SROCE_ARM_* */
    uint8_t overrun;
};

enum { SROCE_ARM_NONE, SROCE_ARM_SOLICITED, SROCE_ARM_ANY };

void sroce_cq_push(sroce_cq_t *cq, const struct ibv_wc *wc, int solicited);
void sroce_cq_invalidate_qp(sroce_cq_t *cq, uint32_t qpn);

/* ---- Receive rings (of a QP and of an SRQ) ---- */

typedef struct sroce_rwqe {
    uint64_t wr_id;
    uint32_t num_sge;
    uint32_t length;
    struct ibv_sge sge[]; /* up to the ring's max_sge entries */
} sroce_rwqe_t;

typedef struct sroce_rq {
    uint8_t *ring;
    uint32_t stride;
    uint32_t size; /* power of two */
    uint32_t max_wr;
    uint32_t max_sge;
    uint32_t head;
    uint32_t tail;
} sroce_rq_t;

int sroce_rq_init(sroce_rq_t *rq, uint32_t max_wr, uint32_t max_sge);
void sroce_rq_cleanup(sroce_rq_t *rq);
int sroce_rq_post(sroce_rq_t *rq, struct ibv_recv_wr *wr,
                  struct ibv_recv_wr **bad_wr);

static inline uint32_t sroce_rq_count(const sroce_rq_t *rq)
{
    return rq->head - rq->tail;
}

struct sroce_srq {
    sroce_dev_t *dev;
    sroce_pd_t *pd;
    void *user;
    sroce_rq_t rq;
    uint32_t limit; /* 0 if disarmed */
    unsigned users;
};

/* ---- Queue pair ---- */

/* A queued send work request. */
typedef struct sroce_swqe {
    uint64_t wr_id;
    uint64_t remote_addr;
    uint32_t rkey;
    uint32_t length;
    uint32_t first_psn; /* valid once idx is before req.alloc */
    uint32_t num_pkts;  /* PSNs */
    uint32_t imm;       /* immediate data in network byte order */
    uint8_t opcode;     /* enum ibv_wr_opcode */
    uint8_t flags;      /* enum ibv_send_flags */
    uint8_t num_sge;    /* 0 if the data is inline */
    uint8_t kind;       /* SROCE_WK_* */
    union {
        struct {
            uint64_t compare_add;
            uint64_t swap;
        } atomic;
        struct {
            uint32_t dst_ip;
            uint32_t qpn;
            uint32_t qkey;
            uint16_t sport;
            uint8_t tos;
        } ud;
    };
    struct ibv_sge sge[]; /* or the inline data */
} sroce_swqe_t;

enum { SROCE_WK_SEND, SROCE_WK_WRITE, SROCE_WK_READ, SROCE_WK_ATOMIC };

/*
 * The requester.      tail <= cur <= alloc <= head
 *
 * ring  ..|acked|  sent, not acked  |cur: being sent|  never sent  |..
 *          ^tail                      ^cur            ^alloc         ^head
 * PSN     una                        psn_next        psn_alloc
 *
 * psn_max is the first PSN that was never sent. After a loss, req_seek() moves
 * cur and psn_next back; alloc, psn_alloc and psn_max stay.
 */
typedef struct sroce_req {
    uint8_t *ring;
    uint32_t stride;
    uint32_t size; /* power of two */
    uint32_t max_wr;
    uint32_t max_sge;
    uint32_t max_inline;
    uint32_t head;
    uint32_t alloc;
    uint32_t cur;
    uint32_t tail;
    uint32_t cur_off; /* bytes of *cur sent; READ: bytes skipped */
    sroce_sgcur_t cur_sg;
    uint32_t psn_una;
    uint32_t psn_next;
    uint32_t psn_alloc;
    uint32_t psn_max;
    uint32_t rd_out;       /* READs and atomics in [tail, cur) */
    uint32_t rd_psns;      /* number of PSNs of their missing responses */
    uint32_t window;       /* maximum packets in flight; adapts to loss */
    uint32_t window_acked; /* packets acknowledged towards window growth */
    uint32_t since_ackreq; /* packets since the last AckReq */
    uint32_t read_off;     /* bytes received for the READ at tail */
    sroce_sgcur_t read_sg;
    uint32_t gap_psn;     /* psn_una of the last repeated READ request */
    uint32_t recover_psn; /* psn_una at which the window may shrink again */
    uint8_t gap_seen;
    uint8_t rnr_wait; /* 1 until rnr_ns */
    uint8_t retry_left;
    uint8_t rnr_left;
    uint8_t recovering;
    uint8_t failed;        /* 1 if the WQE at fail_idx cannot be sent */
    uint8_t drained_event; /* 1 if IBV_EVENT_SQ_DRAINED is due */
    uint8_t probes;        /* probes sent since progress */
    uint8_t late_timeouts; /* late timeouts since progress */
    uint8_t probe_due;
    uint8_t rtt_active;
    enum ibv_wc_status fail_status;
    uint32_t fail_idx;
    uint32_t rtt_psn;
    mrail_ns_t rtt_start_ns;
    mrail_ns_t srtt_ns;
    mrail_ns_t rnr_ns;   /* end of the RNR wait */
    mrail_ns_t ack_ns;   /* local ACK timeout; MRAIL_NS_NEVER if off */
    mrail_ns_t probe_ns; /* tail probe; MRAIL_NS_NEVER if off */
} sroce_req_t;

/* A READ or atomic from the peer, with the state needed to respond, and to
 * respond again if the request is repeated. */
typedef struct sroce_rdres {
    uint32_t psn; /* PSN of the first response */
    uint32_t num_pkts;
    uint8_t atomic;
    uint8_t pending; /* 1 if a response is due */
    uint8_t again;   /* 1 if the whole response has already been sent */
    uint32_t rkey;
    uint32_t cur_psn;  /* PSN of the next response packet */
    uint32_t cur_left; /* response packets left */
    uint32_t cur_total;
    uint64_t addr;   /* address of the next byte */
    uint32_t length; /* bytes left */
    uint64_t value;  /* atomic: the original value */
} sroce_rdres_t;

enum { SROCE_MSG_NONE, SROCE_MSG_SEND, SROCE_MSG_WRITE };

typedef struct sroce_resp {
    uint32_t epsn; /* next expected PSN */
    uint32_t msn;
    uint32_t ack_psn; /* PSN of a NAK; an ACK carries epsn - 1 */
    uint8_t ack_due;  /* 1 if an ACK or NAK is due */
    uint8_t ack_late; /* 1 if the last run had no space left; send it first */
    uint8_t syndrome;
    uint8_t nak_sent; /* 1 if a sequence or RNR NAK was sent for epsn */
    uint8_t fatal;    /* 1 if the QP is in error, but its NAK is still due */
    uint8_t msg;      /* SROCE_MSG_*: the message in progress */
    uint8_t have_wqe; /* 1 if a receive WQE is in use (see wqe_sge) */
    uint8_t comm_est; /* 1 if IBV_EVENT_COMM_EST was raised */
    uint32_t ooo_psn; /* highest PSN received ahead of epsn */
    uint32_t rkey;    /* key of the WRITE in progress */
    uint64_t addr;
    uint32_t left;
    uint32_t bytes; /* bytes of the message that have arrived */
    sroce_sgcur_t sg;
    uint32_t rd_head;  /* next free entry of ring rd */
    uint32_t rd_count; /* valid entries before rd_head */
    uint32_t rd_pending;
    sroce_rdres_t rd[SROCE_MAX_RD_ATOMIC];
    uint64_t wr_id; /* wr_id of that receive WQE */
    uint32_t wqe_num_sge;
    uint32_t wqe_length;
    struct ibv_sge wqe_sge[SROCE_MAX_SGE];
} sroce_resp_t;

struct sroce_qp {
    sroce_dev_t *dev;
    sroce_pd_t *pd;
    void *user;
    uint32_t qpn;
    uint32_t dest_qpn;
    enum ibv_qp_type type;
    enum ibv_qp_state state;
    uint8_t mtu_shift;
    uint8_t sq_sig_all;
    uint8_t active; /* ops.qp_active was called */
    /* 1 if the next run starts with requests rather than responses. */
    uint8_t requests_first;
    int access;
    sroce_av_t av;
    uint16_t sport; /* source port of `av` */
    sroce_cq_t *send_cq;
    sroce_cq_t *recv_cq;
    sroce_srq_t *srq;
    struct ibv_qp_cap cap;
    struct ibv_qp_attr attr; /* as set by sroce_qp_modify(), for query */
    uint32_t timer_slot;     /* index in dev->timers + 1, or 0 */
    mrail_ns_t timer_ns;     /* heap key; the deadline may be later */
    sroce_req_t req;
    sroce_resp_t resp;
    sroce_rq_t rq;
};

typedef struct sroce_delayed_write sroce_delayed_write_t;

struct sroce_dev {
    sroce_dev_params_t params;
    sroce_counters_t cnt;
    sroce_qp_t **qps; /* [params.qpn_count] */
    uint32_t num_qps;
    uint32_t next_qp; /* index to try first for a new QP */
    sroce_mr_slot_t *mrs;
    uint32_t num_mrs;
    uint32_t key_mask;
    uint32_t mr_free_head; /* FIFO of free slots, to delay reuse of keys */
    uint32_t mr_free_tail;
    sroce_qp_t **timers; /* binary heap by timer_ns */
    uint32_t num_timers;
    uint32_t max_timers;
    mrail_ns_t write_delay_ns;                 /* 0 if they are immediate */
    sroce_delayed_write_t *delayed_write_head; /* ordered by due_ns */
    sroce_delayed_write_t *delayed_write_tail;
    uint64_t delayed_write_bytes;
};

/* ---- Delayed WRITEs (delayed_write.c) ---- */

/* Returns 1 if the WRITE was queued, or 0 if memory ran out and the caller must
 * place it immediately. */
int sroce_delayed_write_add(sroce_dev_t *dev, const sroce_pd_t *pd,
                            uint32_t rkey, uint64_t addr, const void *data,
                            uint32_t length, mrail_ns_t now_ns);
void sroce_delayed_write_place_all(sroce_dev_t *dev);
void sroce_delayed_write_place_due(sroce_dev_t *dev, mrail_ns_t now_ns);
mrail_ns_t sroce_delayed_write_deadline(const sroce_dev_t *dev);

#define SROCE_MR_NONE UINT32_MAX

static inline uint8_t *sroce_mr_find(const sroce_dev_t *dev,
                                     const sroce_pd_t *pd, uint32_t key,
                                     uint64_t addr, uint64_t length, int access)
{
    uint32_t slot = (key ^ dev->key_mask) >> 8;
    const sroce_mr_t *mr;

    if (MRAIL_UNLIKELY(slot >= dev->num_mrs)) {
        return NULL;
    }
    mr = dev->mrs[slot].mr;
    if (MRAIL_UNLIKELY((mr == NULL) || (mr->key != key) || (mr->pd != pd) ||
                       ((mr->access & access) != access) || (addr < mr->iova) ||
                       (length > mr->length) ||
                       (addr - mr->iova > mr->length - length))) {
        return NULL;
    }
    return mr->addr + (addr - mr->iova);
}

/*
 * Maps the next `length` bytes of an SGE list to iovecs and advances *cur.
 * Returns the number of iovecs, -EACCES if a key does not allow the access,
 * -ENOBUFS if more than `max` iovecs are needed, or -EMSGSIZE if the list is
 * shorter than `length`. On failure, *cur is unchanged.
 */
int sroce_sg_iov(const sroce_qp_t *qp, const struct ibv_sge *sge,
                 uint32_t num_sge, sroce_sgcur_t *cur, uint32_t length,
                 struct iovec *iov, unsigned max);
/* Copies into an SGE list, using keys of `pd`. Returns 0, -EACCES, or -EMSGSIZE
 * if the list is too short. */
int sroce_sg_scatter(const sroce_pd_t *pd, const struct ibv_sge *sge,
                     uint32_t num_sge, sroce_sgcur_t *cur, const void *src,
                     uint32_t length);
/* Sets *cur to byte `off`. */
void sroce_sg_seek(const struct ibv_sge *sge, uint32_t num_sge,
                   sroce_sgcur_t *cur, uint32_t off);

/* ---- Packets in and out ---- */

/* A received packet that passed the checks of dev.c. */
typedef struct sroce_rx {
    const sroce_rxpkt_t *pkt;
    const sroce_op_t *op;
    sroce_bth_t bth;
    const uint8_t *ext; /* extended headers, after the BTH */
    const uint8_t *payload;
    uint32_t payload_bytes;
    mrail_ns_t now_ns;
} sroce_rx_t;

/* A run under construction. */
typedef struct sroce_tx {
    sroce_txrun_t *run;
    mrail_ns_t now_ns;
    uint32_t max_bytes;
    unsigned max_pkts;
    int closed;        /* 1 if complete, because the last packet was shorter */
    uint32_t mark_iov; /* first iovec of the current packet */
    uint32_t mark_scratch;
} sroce_tx_t;

/* The next request packet of a QP. */
typedef struct sroce_txreq {
    sroce_swqe_t *wqe;
    const sroce_op_t *op;
    uint8_t opcode;
    uint32_t payload_bytes;
    uint32_t bytes; /* UDP payload */
} sroce_txreq_t;

static inline unsigned sroce_pad(uint32_t bytes)
{
    return (0u - bytes) & 3;
}

static inline uint32_t sroce_pkt_bytes(const sroce_op_t *op,
                                       uint32_t payload_bytes)
{
    return op->hdr_bytes + payload_bytes + sroce_pad(payload_bytes) +
           SROCE_ICRC_BYTES;
}

/* Returns 1 if a packet of `bytes` to this destination fits into the run. */
int sroce_tx_fits(const sroce_tx_t *tx, uint32_t bytes, uint32_t dst_ip,
                  uint16_t sport, uint8_t tos);
/* Starts a packet, and returns the address of its header in the scratch
 * memory. */
uint8_t *sroce_tx_begin(sroce_tx_t *tx, uint32_t hdr_bytes);
/* Adds payload from memory or from an SGE list. Small payloads are copied. */
void sroce_tx_payload(sroce_tx_t *tx, const void *src, uint32_t bytes);
int sroce_tx_payload_sg(sroce_tx_t *tx, const sroce_qp_t *qp,
                        const struct ibv_sge *sge, uint32_t num_sge,
                        sroce_sgcur_t *cur, uint32_t bytes);
/* Discards the current packet. */
void sroce_tx_abort(sroce_tx_t *tx);
/* Completes the current packet: padding, ICRC, counters. */
void sroce_tx_end(sroce_tx_t *tx, sroce_dev_t *dev, uint32_t bytes,
                  uint32_t payload_bytes, uint32_t dst_ip, uint16_t sport,
                  uint8_t tos);

/* ---- Requester (post.c, req.c) ---- */

static inline sroce_swqe_t *sroce_req_wqe(const sroce_req_t *req, uint32_t idx)
{
    return (sroce_swqe_t *)(req->ring +
                            (size_t)(idx & (req->size - 1)) * req->stride);
}

int sroce_req_init(sroce_req_t *req, struct ibv_qp_cap *cap);
void sroce_req_reset(sroce_qp_t *qp);
/* If a request packet can be sent now, sets *next_p and returns 1. Otherwise
 * returns 0. */
int sroce_req_next(sroce_qp_t *qp, sroce_txreq_t *next_p);
/* Appends the request packet. Returns 0 if it does not fit or the WQE
 * failed. */
int sroce_req_send(sroce_qp_t *qp, sroce_tx_t *tx, const sroce_txreq_t *next);
/* Moves cur and psn_next back or forward to `psn`. */
void sroce_req_seek(sroce_qp_t *qp, uint32_t psn);
/* Schedules a retransmission of the last packet, with AckReq set. The reply
 * shows which packets the responder has. */
void sroce_req_probe(sroce_qp_t *qp);
/* Reports a loss. The window shrinks once per round trip. */
void sroce_req_shrink(sroce_qp_t *qp);
/* The peer acknowledged `pkts` packets: resets retry counters, restarts timers
 * and grows the window. */
void sroce_req_progress(sroce_qp_t *qp, uint32_t pkts, mrail_ns_t now_ns);
void sroce_req_set_ack_timer(sroce_qp_t *qp, mrail_ns_t now_ns);
/* Runs expired timers. Returns the next deadline. */
mrail_ns_t sroce_req_timer(sroce_qp_t *qp, mrail_ns_t now_ns);
mrail_ns_t sroce_req_deadline(const sroce_qp_t *qp);

/* ---- Completer (comp.c) ---- */

int sroce_comp_rx(sroce_qp_t *qp, sroce_rx_t *rx);
/* Completes the WQE at tail and frees it. */
void sroce_comp_wqe(sroce_qp_t *qp, enum ibv_wc_status status);
/* Completes the WQE at tail with an error; the QP enters the error state. */
void sroce_comp_fail(sroce_qp_t *qp, enum ibv_wc_status status);
/* Called after the tail has moved. If it has reached a failed WQE, reports the
 * failure. If the SQ is drained, raises SQ_DRAINED. */
void sroce_comp_tail_moved(sroce_qp_t *qp);

/* ---- Responder (resp.c) ---- */

int sroce_resp_rx(sroce_qp_t *qp, sroce_rx_t *rx);
void sroce_resp_reset(sroce_qp_t *qp);
/* Returns the UDP payload length of the next response packet. A response must
 * be due. */
uint32_t sroce_resp_next_bytes(sroce_qp_t *qp);
/* Returns the approximate number of bytes left in the next response, at most
 * SROCE_RUN_BYTES. */
uint32_t sroce_resp_run_bytes(sroce_qp_t *qp);
int sroce_resp_send(sroce_qp_t *qp, sroce_tx_t *tx);
int sroce_resp_send_ack(sroce_qp_t *qp, sroce_tx_t *tx);
#define SROCE_ACK_BYTES (SROCE_BTH_BYTES + SROCE_AETH_BYTES + SROCE_ICRC_BYTES)
/* Moves a receive WQE into qp->resp. Returns 0 if the receive queue is
 * empty. */
int sroce_resp_take_wqe(sroce_qp_t *qp);
/* Copies into the current receive WQE. Returns the same values as
 * sroce_sg_scatter(). */
int sroce_resp_scatter(sroce_qp_t *qp, const void *src, uint32_t length);
void sroce_resp_recv_done(sroce_qp_t *qp, const sroce_rx_t *rx,
                          enum ibv_wc_opcode opcode, enum ibv_wc_status status,
                          uint32_t byte_len);

/* ---- Datagrams (ud.c) ---- */

int sroce_ud_rx(sroce_qp_t *qp, sroce_rx_t *rx);

/* ---- QP (qp.c), timers (timer.c) ---- */

/* Enters IBV_QPS_ERR. All queued work requests are flushed. */
void sroce_qp_error(sroce_qp_t *qp);
/* Enters IBV_QPS_SQE (UD only). The send queue is flushed. */
void sroce_qp_sq_error(sroce_qp_t *qp);
/* Calls ops.qp_active if the QP has packets to send. */
void sroce_qp_notify(sroce_qp_t *qp);
void sroce_qp_event(sroce_qp_t *qp, enum ibv_event_type type);

int sroce_timer_reserve(sroce_dev_t *dev, uint32_t count);
/* Sets the QP's deadline. A later deadline takes effect when the old one
 * expires. */
void sroce_timer_set(sroce_qp_t *qp, mrail_ns_t ns);
void sroce_timer_del(sroce_qp_t *qp);

/* ---- State transitions (qp_moves.c) ---- */

/* Returns 0 if the transition is legal with these attributes, else EINVAL. */
int sroce_qp_move_check(enum ibv_qp_type type, enum ibv_qp_state from,
                        enum ibv_qp_state to, int attr_mask);

#endif
