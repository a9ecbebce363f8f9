/*
 * sroce: a RoCEv2 device as a library.  The protocol of one verbs context:
 * queue pairs, completion queues, shared receive queues, memory keys.
 *
 * No I/O, clock, lock, thread, log or environment inside.  The owner (host/ or
 * sim/) hands in packets (sroce_dev_rx) and time, pulls packets out
 * (sroce_qp_peek, sroce_qp_pull), and is told of events (sroce_dev_ops_t).
 * The owner serialises all calls on one device and its objects; different
 * devices are independent.  Callbacks run inside the call that caused them and
 * must not call back into the core, except for sroce_*_user() and
 * sroce_qp_num().
 *
 * Functions that return int return 0 or a positive errno value, as verbs do.
 * IPv4 addresses are in network byte order, everything else in host order.
 *
 * Source: InfiniBand Architecture Specification volume 1 (IBA), release 1.4,
 * chapters 9 to 11, and its annexes A16 and A17 (RoCE, RoCEv2).
 */
#ifndef SROCE_CORE_SROCE_H
#define SROCE_CORE_SROCE_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/clock.h"

#define SROCE_UDP_PORT 4791
#define SROCE_MAX_SGE 16
#define SROCE_MAX_INLINE 512
#define SROCE_MAX_WR 16384
#define SROCE_MAX_CQE (1u << 20)
#define SROCE_MAX_RD_ATOMIC 16
#define SROCE_MAX_MSG (1u << 30) /* so that a message has < 2^23 PSNs */
#define SROCE_GRH_BYTES 40
#define SROCE_WC_SL_IPV4 2 /* wc.sl of UD receives; user libraries read it */

typedef struct sroce_dev sroce_dev_t;
typedef struct sroce_pd sroce_pd_t;
typedef struct sroce_mr sroce_mr_t;
typedef struct sroce_cq sroce_cq_t;
typedef struct sroce_srq sroce_srq_t;
typedef struct sroce_qp sroce_qp_t;

/* ---- Counters ---- */

/* X(name, what it counts).  `mrail soft status` prints them by name. */
#define SROCE_COUNTERS(X)                                                      \
    X(tx_pkts, "packets pulled")                                               \
    X(tx_bytes, "UDP payload bytes pulled")                                    \
    X(tx_retrans, "request packets pulled again")                              \
    X(rx_pkts, "packets taken in")                                             \
    X(rx_bytes, "UDP payload bytes taken in")                                  \
    X(rx_dup, "duplicate requests, answered again")                            \
    X(rx_stale, "responses that answer nothing outstanding")                   \
    X(nak_seq_tx, "NAK: PSN sequence error sent")                              \
    X(nak_seq_rx, "NAK: PSN sequence error received")                          \
    X(nak_rnr_tx, "RNR NAK sent")                                              \
    X(nak_rnr_rx, "RNR NAK received")                                          \
    X(nak_err_tx, "NAK: invalid request, access or operation sent")            \
    X(nak_err_rx, "NAK: invalid request, access or operation received")        \
    X(timeouts, "local ACK timeouts")                                          \
    X(probes, "tail probes sent before the local ACK timeout")                 \
    X(ooo, "requests dropped: out of order")                                   \
    X(read_gaps, "implied NAKs: response missing")                             \
    X(drop_length, "dropped: truncated, oversized or of a wrong length")       \
    X(drop_header, "dropped: transport version, P_Key or pad count")           \
    X(drop_opcode, "dropped: opcode unknown or not for the QP's type")         \
    X(drop_qpn, "dropped: no such QP")                                         \
    X(drop_state, "dropped: QP's state does not receive")                      \
    X(drop_source, "dropped: source address is not the QP's peer")             \
    X(drop_icrc, "dropped: ICRC wrong")                                        \
    X(drop_qkey, "dropped: Q_Key wrong")                                       \
    X(drop_no_wqe, "dropped: UD datagram without a receive")                   \
    X(drop_too_long, "dropped: UD datagram longer than the receive")           \
    X(drop_psn, "dropped: PSN outside of what was sent or expected")

typedef struct sroce_counters {
#define SROCE_COUNTER_FIELD(_name, _what) uint64_t _name;
    SROCE_COUNTERS(SROCE_COUNTER_FIELD)
#undef SROCE_COUNTER_FIELD
} sroce_counters_t;

/* ---- Device ---- */

typedef struct sroce_dev_ops {
    /* An armed CQ got a completion; it is disarmed now. */
    void (*cq_event)(void *arg, void *cq_user);
    /* `user` is that of the QP, CQ or SRQ which `type` is about. */
    void (*async_event)(void *arg, enum ibv_event_type type, void *user);
    /* The QP has something to send.  Called once; not again before
     * sroce_qp_peek() returned 0 for it.  A QP that is destroyed may have been
     * announced: the owner takes it off its run list itself. */
    void (*qp_active)(void *arg, sroce_qp_t *qp, void *qp_user);
    void *arg;
} sroce_dev_ops_t;

typedef struct sroce_dev_params {
    uint32_t ip;          /* our IPv4 address (for the ICRC) */
    uint32_t qpn_base;    /* QPNs are qpn_base .. qpn_base + qpn_count - 1, */
    uint32_t qpn_count;   /* 2 <= qpn_base, all below 2^24 */
    int icrc_tx;          /* compute the ICRC; else the trailer is zero */
    int icrc_rx;          /* check it (see SROCE_RX_ANY_ID) */
    enum ibv_mtu max_mtu; /* of the port: path MTU and UD datagrams */
    uint32_t window_pkts; /* most unacknowledged packets of a QP; 0: 256 */
    mrail_ns_t probe_ns;  /* least time before a tail probe; 0: 2 ms;
                            * MRAIL_NS_NEVER: no probes */
    uint64_t key_secret;  /* an unpredictable number, so that memory keys
                            * cannot be guessed by who has seen none; 0: keys
                            * count from 0 */
    sroce_dev_ops_t ops;
} sroce_dev_params_t;

/* EINVAL (a bad parameter), ENOMEM. */
int sroce_dev_create(const sroce_dev_params_t *params, sroce_dev_t **dev_p);
/* Its QPs end with it.  Other objects that were not destroyed before are lost
 * memory, and must not be touched any more. */
void sroce_dev_destroy(sroce_dev_t *dev);
/* WRITEs received from now on become visible `write_delay_ns` after they have been
 * acknowledged, or before the device's next completion, READ or atomic: what a
 * NIC's posted writes may do.  0: at once. */
void sroce_dev_set_write_delay(sroce_dev_t *dev, mrail_ns_t write_delay_ns);
const sroce_counters_t *sroce_dev_counters(const sroce_dev_t *dev);
/* The owner may add to them (single-threaded rule as above). */
sroce_counters_t *sroce_dev_counters_rw(sroce_dev_t *dev);

/*
 * Runs timers that have expired by `now_ns`.  Returns when to call again, or
 * MRAIL_NS_NEVER.  O(1) when none has expired, O(log timers) for each that has.
 */
mrail_ns_t sroce_dev_timers(sroce_dev_t *dev, mrail_ns_t now_ns);
/* The same deadline, runs nothing. */
mrail_ns_t sroce_dev_deadline(const sroce_dev_t *dev);

/* ---- Receive ---- */

/* The IP identification and DF flag are unknown: the ICRC must fit some. */
#define SROCE_RX_ANY_ID 0x1

typedef struct sroce_rxpkt {
    const uint8_t *data; /* from the BTH up to and with the ICRC */
    uint32_t length;
    uint32_t src_ip;
    uint32_t dst_ip; /* 0: the device's own */
    uint16_t sport;
    uint8_t tos;
    uint8_t flags; /* SROCE_RX_* */
} sroce_rxpkt_t;

/*
 * Takes one packet in; `data` need not outlive the call.  Nothing in it is
 * trusted.  1 if it was used, 0 if it was dropped (a counter says why).
 * A receive batch should be taken in whole before pulling: acknowledgements
 * coalesce.
 */
int sroce_dev_rx(sroce_dev_t *dev, const sroce_rxpkt_t *pkt, mrail_ns_t now_ns);
/* Destination QPN of a packet (for demultiplexing), UINT32_MAX: too short. */
uint32_t sroce_rx_dest_qpn(const uint8_t *data, size_t length);

/* ---- Transmit ---- */

#define SROCE_RUN_PKTS 64     /* the kernel's UDP_MAX_SEGMENTS */
#define SROCE_RUN_BYTES 65000 /* UDP payload of a run at most */
#define SROCE_RUN_IOV 256
#define SROCE_RUN_SCRATCH 8192

/*
 * A run: packets of one QP to one destination from one source port. Each has
 * `seg_bytes`; only the last may be shorter. One sendmsg() with UDP_SEGMENT
 * sends a run (without UDP_SEGMENT if num_pkts is 1). `iov` points into the
 * scratch memory of the core and into user memory; it is valid until the next
 * call on the device.
 */
typedef struct sroce_txrun {
    uint32_t dst_ip;
    uint16_t sport;
    uint8_t tos;
    uint16_t num_pkts;
    uint16_t seg_bytes; /* UDP payload of each packet (BTH .. ICRC) */
    uint32_t length;    /* UDP payload of all */
    uint32_t iov_count;
    uint32_t scratch_used;
    struct iovec iov[SROCE_RUN_IOV];
    uint8_t scratch[SROCE_RUN_SCRATCH]; /* headers, trailers, small payloads */
} sroce_txrun_t;

typedef struct sroce_txinfo {
    uint32_t dst_ip;
    uint32_t next_bytes; /* UDP payload of the next packet */
    uint32_t run_bytes;  /* about what the next run could have, >= next_bytes;
                          * may be more than the run then has */
    int only_ack;        /* only an acknowledgement waits: pulling it may be
                          * put off for some microseconds, it then shares a
                          * run with the next request */
} sroce_txinfo_t;

/* 1 and *info_p if the QP could send now, else 0: qp_active will be called. */
int sroce_qp_peek(sroce_qp_t *qp, mrail_ns_t now_ns, sroce_txinfo_t *info_p);

/*
 * Should what was just posted be sent at once?  0: acknowledgements are under
 * way that bring the owner back, and too little is queued for a good run; it
 * may wait for the next progress call, which then sends it as one run.
 */
int sroce_qp_urgent(const sroce_qp_t *qp);

/*
 * Commits the next packets of the QP to *run, at most `max_bytes` of UDP
 * payload and `max_pkts` packets (a limit below one packet gives none).
 * Returns run->num_pkts, 0 if there is nothing to send.  Acknowledgements and
 * READ responses come out of here too, before requests.
 */
unsigned sroce_qp_pull(sroce_qp_t *qp, mrail_ns_t now_ns, uint32_t max_bytes,
                       unsigned max_pkts, sroce_txrun_t *run);

/* ---- Addresses ---- */

typedef struct sroce_av {
    uint32_t ip;
    uint32_t flow_label; /* 20 bits; 0: the port is a hash of both QPNs */
    uint8_t tos;         /* grh.traffic_class */
    uint8_t hop_limit;
} sroce_av_t;

/*
 * What wr.ud.ah must point at: the owner embeds it as its ibv_ah.
 * Only `av` is read, at the time of posting.
 */
typedef struct sroce_ah {
    struct ibv_ah ibv;
    sroce_av_t av;
} sroce_ah_t;

/* EINVAL: no GRH, a port or source GID that is not there, or dgid is not an
 * IPv4-mapped unicast address. */
int sroce_av_init(sroce_av_t *av, const struct ibv_ah_attr *attr);
/* Source port of the path, 0xC000..0xFFFF.  Source: RoCEv2 annex A17.9.1 and
 * what kernel drivers do: 0xC000 | ((fl & 0x3FFF) ^ (fl >> 14)). */
uint16_t sroce_av_sport(const sroce_av_t *av, uint32_t qpn, uint32_t dest_qpn);

/* ---- Protection domains, memory ---- */

int sroce_pd_create(sroce_dev_t *dev, sroce_pd_t **pd_p);
/* EBUSY while an MR, QP or SRQ uses it. */
int sroce_pd_destroy(sroce_pd_t *pd);

/*
 * access: IBV_ACCESS_*; remote write or atomic without local write is EINVAL.
 * `iova` is the address by which keys refer to `addr`.  The key has an index
 * and a generation: a key of a destroyed MR does not come back soon.
 */
int sroce_mr_create(sroce_pd_t *pd, void *addr, size_t length, uint64_t iova,
                    int access, sroce_mr_t **mr_p);
int sroce_mr_destroy(sroce_mr_t *mr);
/* lkey and rkey are the same. */
uint32_t sroce_mr_key(const sroce_mr_t *mr);

/* ---- Completion queues ---- */

/* At least `cqe` entries, 1 <= cqe <= SROCE_MAX_CQE. */
int sroce_cq_create(sroce_dev_t *dev, unsigned cqe, void *user,
                    sroce_cq_t **cq_p);
/* EBUSY while a QP uses it. */
int sroce_cq_destroy(sroce_cq_t *cq);
/* EINVAL: more completions are waiting than would fit. */
int sroce_cq_resize(sroce_cq_t *cq, unsigned cqe);
/* Takes up to n completions, oldest first; how many.  As ibv_poll_cq. */
int sroce_cq_poll(sroce_cq_t *cq, int n, struct ibv_wc *wc);
/* cq_event at the next completion (or the next solicited or failed one). */
void sroce_cq_arm(sroce_cq_t *cq, int solicited_only);
unsigned sroce_cq_depth(const sroce_cq_t *cq);   /* entries it can hold */
unsigned sroce_cq_pending(const sroce_cq_t *cq); /* waiting to be polled */

/* ---- Shared receive queues ---- */

/* attr->max_wr and max_sge may be raised to what was made. */
int sroce_srq_create(sroce_pd_t *pd, struct ibv_srq_attr *attr, void *user,
                     sroce_srq_t **srq_p);
/* IBV_SRQ_LIMIT; IBV_SRQ_MAX_WR: EINVAL below what is posted. */
int sroce_srq_modify(sroce_srq_t *srq, const struct ibv_srq_attr *attr,
                     int attr_mask);
void sroce_srq_query(const sroce_srq_t *srq, struct ibv_srq_attr *attr);
int sroce_srq_destroy(sroce_srq_t *srq); /* EBUSY while a QP uses it */
/* As ibv_post_srq_recv: ENOMEM (full), EINVAL; *bad_wr the first not taken. */
int sroce_srq_post_recv(sroce_srq_t *srq, struct ibv_recv_wr *wr,
                        struct ibv_recv_wr **bad_wr);

/* ---- Queue pairs ---- */

typedef struct sroce_qp_params {
    enum ibv_qp_type type; /* IBV_QPT_RC, IBV_QPT_UD */
    sroce_cq_t *send_cq;
    sroce_cq_t *recv_cq;
    sroce_srq_t *srq;      /* or NULL */
    struct ibv_qp_cap cap; /* in: wanted; out: what was made */
    int sq_sig_all;
    void *user;
} sroce_qp_params_t;

/* EINVAL (type, caps), EOPNOTSUPP, ENOMEM (memory or QPNs). */
int sroce_qp_create(sroce_pd_t *pd, sroce_qp_params_t *params,
                    sroce_qp_t **qp_p);
/* Its completions leave the CQs, as with the usual drivers. */
void sroce_qp_destroy(sroce_qp_t *qp);

/* EINVAL: move or attributes illegal (qp_moves.c), value out of range. */
int sroce_qp_modify(sroce_qp_t *qp, const struct ibv_qp_attr *attr,
                    int attr_mask);
/* All attributes, whatever the mask would be. */
void sroce_qp_query(const sroce_qp_t *qp, struct ibv_qp_attr *attr);

/* As ibv_post_send: EINVAL, ENOMEM (queue full); *bad_wr the first not taken.
 * Opcodes: RC: SEND, SEND_WITH_IMM, RDMA_WRITE, RDMA_WRITE_WITH_IMM,
 * RDMA_READ, ATOMIC_CMP_AND_SWP, ATOMIC_FETCH_AND_ADD; UD: the two SENDs. */
int sroce_qp_post_send(sroce_qp_t *qp, struct ibv_send_wr *wr,
                       struct ibv_send_wr **bad_wr);
int sroce_qp_post_recv(sroce_qp_t *qp, struct ibv_recv_wr *wr,
                       struct ibv_recv_wr **bad_wr);

/* As by a fatal error of the device: every n-th queue pair (n >= 1) that is in
 * use, neither reset nor in error, goes to error with IBV_EVENT_QP_FATAL.  How
 * many did. */
unsigned sroce_dev_fail_qps(sroce_dev_t *dev, uint32_t nth);

uint32_t sroce_qp_num(const sroce_qp_t *qp);
enum ibv_qp_state sroce_qp_state(const sroce_qp_t *qp);
void *sroce_qp_user(const sroce_qp_t *qp);
void *sroce_cq_user(const sroce_cq_t *cq);
void *sroce_srq_user(const sroce_srq_t *srq);
/* Finds a QP by number, NULL if there is none. */
sroce_qp_t *sroce_dev_qp(const sroce_dev_t *dev, uint32_t qpn);

/* ---- ICRC ---- */

/*
 * ICRC of a RoCEv2 packet over IPv4 with DF set and identification 0: `iov`
 * holds BTH .. pad (`udp_bytes` - 4 in all), udp_bytes is the UDP payload with
 * the ICRC.  To be put on the wire least significant byte first.
 * Source: IBA annex A17.3.3 (RoCEv2 ICRC), 7.8.1.
 */
uint32_t sroce_icrc(uint32_t src_ip, uint32_t dst_ip, uint16_t sport,
                    uint32_t udp_bytes, const struct iovec *iov,
                    unsigned iov_count);

#endif
