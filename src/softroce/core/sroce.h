/*
 * sroce is a RoCEv2 device as a library. A device implements the protocol for
 * one verbs context: queue pairs, completion queues, shared receive queues,
 * memory keys.
 *
 * The library does no I/O, has no clock, lock, thread or log, and does not read
 * the environment. Its owner (host/ or sim/) passes in the time and received
 * packets (sroce_dev_rx), and pulls packets to send (sroce_qp_peek,
 * sroce_qp_pull). Callbacks report events (sroce_dev_ops_t). The owner
 * serialises all calls on a device and its objects; different devices are
 * independent. A callback runs inside the call that triggered it, and must not
 * call the core, except for sroce_qp_num().
 *
 * Functions that return int return 0 or a positive errno value, as verbs do.
 * IPv4 addresses are in network byte order, everything else in host byte order.
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
#define SROCE_MAX_MSG (1u << 30) /* a message has < 2^23 PSNs */
#define SROCE_GRH_BYTES 40
#define SROCE_WC_SL_IPV4 2 /* wc.sl of UD receives; user libraries read it */

typedef struct sroce_dev sroce_dev_t;
typedef struct sroce_pd sroce_pd_t;
typedef struct sroce_mr sroce_mr_t;
typedef struct sroce_cq sroce_cq_t;
typedef struct sroce_srq sroce_srq_t;
typedef struct sroce_qp sroce_qp_t;

/* ---- Counters ---- */

/* X(name, meaning). `mrail soft status` prints the counters by name. */
#define SROCE_COUNTERS(X)                                                      \
    X(tx_pkts, "packets sent")                                                 \
    X(tx_bytes, "UDP payload bytes sent")                                      \
    X(tx_retrans, "request packets retransmitted")                             \
    X(rx_pkts, "packets accepted")                                             \
    X(rx_bytes, "UDP payload bytes accepted")                                  \
    X(rx_dup, "duplicate requests, answered again")                            \
    X(rx_stale, "responses without an outstanding request")                    \
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
    X(drop_length, "dropped: truncated, oversized or of the wrong length")     \
    X(drop_header, "dropped: transport version, P_Key or pad count")           \
    X(drop_opcode, "dropped: opcode unknown, or invalid for the QP's type")    \
    X(drop_qpn, "dropped: no such QP")                                         \
    X(drop_state, "dropped: QP is in a state that cannot receive")             \
    X(drop_source, "dropped: source address is not the QP's peer")             \
    X(drop_icrc, "dropped: ICRC wrong")                                        \
    X(drop_qkey, "dropped: Q_Key wrong")                                       \
    X(drop_no_wqe, "dropped: UD datagram without a receive")                   \
    X(drop_too_long, "dropped: UD datagram longer than the receive")           \
    X(drop_psn, "dropped: PSN outside the range sent or expected")

typedef struct sroce_counters {
#define SROCE_COUNTER_FIELD(_name, _what) uint64_t _name;
    SROCE_COUNTERS(SROCE_COUNTER_FIELD)
#undef SROCE_COUNTER_FIELD
} sroce_counters_t;

/* ---- Device ---- */

typedef struct sroce_dev_ops {
    /* An armed CQ received a completion. The CQ is disarmed before the call. */
    void (*cq_event)(void *arg, void *cq_user);
    /* `user` identifies the QP, CQ or SRQ to which the event refers. */
    void (*async_event)(void *arg, enum ibv_event_type type, void *user);
    /* The QP has packets to send. Not called again for this QP until
     * sroce_qp_peek() has returned 0 for it. An owner that destroys a QP must
     * remove it from its run list. */
    void (*qp_active)(void *arg, sroce_qp_t *qp, void *qp_user);
    void *arg;
} sroce_dev_ops_t;

typedef struct sroce_dev_params {
    uint32_t ip;          /* the device's IPv4 address (for the ICRC) */
    uint32_t qpn_base;    /* first QPN, at least 2; the last one is */
    uint32_t qpn_count;   /* qpn_base + qpn_count - 1, below 2^24 */
    int icrc_tx;          /* 1 to compute the ICRC, 0 to send a zero trailer */
    int icrc_rx;          /* 1 to check the ICRC (see SROCE_RX_ANY_ID) */
    enum ibv_mtu max_mtu; /* MTU of the port, which limits path MTU and UD
                           * payload */
    uint32_t window_pkts; /* maximum unacknowledged packets of a QP; 0 for the
                           * default of 256 */
    mrail_ns_t probe_ns;  /* minimum time before a tail probe; 0 for the default
                           * of 2 ms, MRAIL_NS_NEVER for no probes */
    uint64_t key_secret;  /* random number that keeps other processes from
                           * guessing keys; with 0, keys count up from 0 */
    sroce_dev_ops_t ops;
} sroce_dev_params_t;

/* Returns 0, EINVAL (an illegal parameter) or ENOMEM. */
int sroce_dev_create(const sroce_dev_params_t *params, sroce_dev_t **dev_p);
/* Destroys the device and its QPs. The owner must destroy all other objects
 * first; any that remain are leaked and must not be used. */
void sroce_dev_destroy(sroce_dev_t *dev);
/* Later WRITEs become visible `write_delay_ns` after they are acknowledged, or
 * before the device's next completion, READ or atomic if that is earlier. A
 * NIC's posted writes may behave in the same way. A value of 0 means no
 * delay. */
void sroce_dev_set_write_delay(sroce_dev_t *dev, mrail_ns_t write_delay_ns);
const sroce_counters_t *sroce_dev_counters(const sroce_dev_t *dev);

/*
 * Runs the timers that have expired by `now_ns`. Returns the time of the next
 * call, or MRAIL_NS_NEVER. Takes O(1) time if none has expired, otherwise O(log
 * timers) for each.
 */
mrail_ns_t sroce_dev_timers(sroce_dev_t *dev, mrail_ns_t now_ns);
/* Returns the deadline that sroce_dev_timers() would return, without running
 * timers. */
mrail_ns_t sroce_dev_deadline(const sroce_dev_t *dev);

/* ---- Receive ---- */

/* The IP identification and DF flag are unknown: accept an ICRC that fits
 * any. */
#define SROCE_RX_ANY_ID 0x1

typedef struct sroce_rxpkt {
    const uint8_t *data; /* from the BTH to the ICRC, inclusive */
    uint32_t length;
    uint32_t src_ip;
    uint32_t dst_ip; /* 0 for the device's own address */
    uint16_t sport;
    uint8_t tos;
    uint8_t flags; /* SROCE_RX_* */
} sroce_rxpkt_t;

/*
 * Processes a received packet. The core validates all of its fields, and does
 * not keep a pointer to `data`. Returns 1 if the packet was accepted, or 0 if
 * it was dropped. A counter then shows the reason. The owner should pass in a
 * whole receive batch before it pulls, so that acknowledgements coalesce.
 */
int sroce_dev_rx(sroce_dev_t *dev, const sroce_rxpkt_t *pkt, mrail_ns_t now_ns);
/* Returns the destination QPN of a packet, for demultiplexing, or UINT32_MAX if
 * the packet is too short. */
uint32_t sroce_rx_dest_qpn(const uint8_t *data, size_t length);

/* ---- Transmit ---- */

#define SROCE_RUN_PKTS 64     /* UDP_MAX_SEGMENTS of the kernel */
#define SROCE_RUN_BYTES 65000 /* maximum UDP payload of a run */
#define SROCE_RUN_IOV 256
#define SROCE_RUN_SCRATCH 8192

/*
 * A run: packets from one QP and source port to one destination. Each has
 * `seg_bytes`, except that the last may be shorter. One sendmsg() sends the
 * run, with UDP_SEGMENT unless num_pkts is 1. `iov` points into the core's
 * scratch memory and into user memory, and is valid until the next call on the
 * device.
 */
typedef struct sroce_txrun {
    uint32_t dst_ip;
    uint16_t sport;
    uint8_t tos;
    uint16_t num_pkts;
    uint16_t seg_bytes; /* UDP payload of each packet (BTH .. ICRC) */
    uint32_t length;    /* UDP payload of the run */
    uint32_t iov_count;
    uint32_t scratch_used;
    struct iovec iov[SROCE_RUN_IOV];
    uint8_t scratch[SROCE_RUN_SCRATCH]; /* headers, trailers, small payloads */
} sroce_txrun_t;

typedef struct sroce_txinfo {
    uint32_t dst_ip;
    uint32_t next_bytes; /* UDP payload of the next packet */
    uint32_t run_bytes;  /* estimate for the next run, >= next_bytes; the run
                          * may be shorter */
    int only_ack;        /* 1 if only an acknowledgement is due, which may share
                          * a run with the next request if it is delayed by a
                          * few microseconds */
} sroce_txinfo_t;

/* If the QP can send now, sets *info_p and returns 1. Otherwise returns 0, and
 * qp_active will announce the next packet. */
int sroce_qp_peek(sroce_qp_t *qp, mrail_ns_t now_ns, sroce_txinfo_t *info_p);

/*
 * Returns 1 if the owner should send the posted requests immediately, or 0 if
 * too little is queued for a good run. In that case, pending acknowledgements
 * trigger another progress call, which sends everything as one run.
 */
int sroce_qp_urgent(const sroce_qp_t *qp);

/*
 * Moves the QP's next packets to *run, up to `max_bytes` of UDP payload and
 * `max_pkts` packets, including acknowledgements and READ responses. If the
 * limit is below one packet, moves none. Returns run->num_pkts, which is 0 if
 * nothing can be sent.
 */
unsigned sroce_qp_pull(sroce_qp_t *qp, mrail_ns_t now_ns, uint32_t max_bytes,
                       unsigned max_pkts, sroce_txrun_t *run);

/* ---- Addresses ---- */

typedef struct sroce_av {
    uint32_t ip;
    uint32_t flow_label; /* 20 bits; if 0, the port is a hash of both QPNs */
    uint8_t tos;         /* grh.traffic_class */
    uint8_t hop_limit;
} sroce_av_t;

/*
 * The object to which wr.ud.ah must point. The owner embeds it as `ah` in its
 * own object. Posting reads only `av`.
 */
typedef struct sroce_ah {
    struct ibv_ah ibv;
    sroce_av_t av;
} sroce_ah_t;

/* Returns 0, or EINVAL if there is no GRH, the port or source GID is unknown,
 * or the dgid is not an IPv4-mapped unicast address. */
int sroce_av_init(sroce_av_t *av, const struct ibv_ah_attr *attr);
/* Returns the source port of the path, 0xC000..0xFFFF:
 *   0xC000 | ((fl & 0x3FFF) ^ (fl >> 14))
 * Source: RoCEv2 annex A17.9.1; kernel drivers do the same. */
uint16_t sroce_av_sport(const sroce_av_t *av, uint32_t qpn, uint32_t dest_qpn);

/* ---- Protection domains, memory ---- */

int sroce_pd_create(sroce_dev_t *dev, sroce_pd_t **pd_p);
/* Returns EBUSY while an MR, QP or SRQ uses the PD. */
int sroce_pd_destroy(sroce_pd_t *pd);

/*
 * Registers memory. `access` is IBV_ACCESS_*. Work requests with the keys
 * address `addr` as `iova`. A key contains an index and a generation, so that
 * the key of a destroyed MR is not reused soon. Returns EINVAL for remote write
 * or atomic access without local write access.
 */
int sroce_mr_create(sroce_pd_t *pd, void *addr, size_t length, uint64_t iova,
                    int access, sroce_mr_t **mr_p);
int sroce_mr_destroy(sroce_mr_t *mr);
/* Returns the lkey, which equals the rkey. */
uint32_t sroce_mr_key(const sroce_mr_t *mr);

/* ---- Completion queues ---- */

/* The CQ holds at least `cqe` entries, 1 <= cqe <= SROCE_MAX_CQE. */
int sroce_cq_create(sroce_dev_t *dev, unsigned cqe, void *user,
                    sroce_cq_t **cq_p);
/* Returns EBUSY while a QP uses the CQ. */
int sroce_cq_destroy(sroce_cq_t *cq);
/* Returns EINVAL if the pending completions do not fit. */
int sroce_cq_resize(sroce_cq_t *cq, unsigned cqe);
/* Removes up to n completions, oldest first, and returns their number, as
 * ibv_poll_cq does. */
int sroce_cq_poll(sroce_cq_t *cq, int n, struct ibv_wc *wc);
/* Requests one cq_event for the next completion. With solicited_only, requests
 * it for the next completion that is solicited or failed. */
void sroce_cq_arm(sroce_cq_t *cq, int solicited_only);
unsigned sroce_cq_depth(const sroce_cq_t *cq);   /* capacity in entries */
unsigned sroce_cq_pending(const sroce_cq_t *cq); /* unpolled entries */

/* ---- Shared receive queues ---- */

/* Raises attr->max_wr and max_sge to the allocated sizes. */
int sroce_srq_create(sroce_pd_t *pd, struct ibv_srq_attr *attr, void *user,
                     sroce_srq_t **srq_p);
/* Sets IBV_SRQ_LIMIT and IBV_SRQ_MAX_WR. Returns EINVAL if more than max_wr
 * requests are posted. */
int sroce_srq_modify(sroce_srq_t *srq, const struct ibv_srq_attr *attr,
                     int attr_mask);
void sroce_srq_query(const sroce_srq_t *srq, struct ibv_srq_attr *attr);
int sroce_srq_destroy(sroce_srq_t *srq); /* EBUSY while a QP uses it */
/* Like ibv_post_srq_recv(). Returns ENOMEM (full) or EINVAL; *bad_wr is the
 * first WR that was not posted. */
int sroce_srq_post_recv(sroce_srq_t *srq, struct ibv_recv_wr *wr,
                        struct ibv_recv_wr **bad_wr);

/* ---- Queue pairs ---- */

typedef struct sroce_qp_params {
    enum ibv_qp_type type; /* IBV_QPT_RC, IBV_QPT_UD */
    sroce_cq_t *send_cq;
    sroce_cq_t *recv_cq;
    sroce_srq_t *srq;      /* may be NULL */
    struct ibv_qp_cap cap; /* input: requested; output: allocated */
    int sq_sig_all;
    void *user;
} sroce_qp_params_t;

/* Returns 0, EINVAL (type, caps), EOPNOTSUPP or ENOMEM (memory or QPNs). */
int sroce_qp_create(sroce_pd_t *pd, sroce_qp_params_t *params,
                    sroce_qp_t **qp_p);
/* Destroys the QP, and removes its completions from its CQs, as kernel drivers
 * do. */
void sroce_qp_destroy(sroce_qp_t *qp);

/* Returns EINVAL for an illegal transition or attribute (qp_moves.c), or for a
 * value out of range. */
int sroce_qp_modify(sroce_qp_t *qp, const struct ibv_qp_attr *attr,
                    int attr_mask);
/* Returns all attributes; there is no attribute mask. */
void sroce_qp_query(const sroce_qp_t *qp, struct ibv_qp_attr *attr);

/* Like ibv_post_send(). Returns EINVAL or ENOMEM (queue full); *bad_wr is the
 * first WR that was not posted. RC opcodes: SEND, SEND_WITH_IMM, RDMA_WRITE,
 * RDMA_WRITE_WITH_IMM, RDMA_READ, ATOMIC_CMP_AND_SWP, ATOMIC_FETCH_AND_ADD.
 * UD opcodes: SEND and SEND_WITH_IMM. */
int sroce_qp_post_send(sroce_qp_t *qp, struct ibv_send_wr *wr,
                       struct ibv_send_wr **bad_wr);
int sroce_qp_post_recv(sroce_qp_t *qp, struct ibv_recv_wr *wr,
                       struct ibv_recv_wr **bad_wr);

/* Simulates a fatal device error: every n-th QP in use (n >= 1) enters the
 * error state with IBV_EVENT_QP_FATAL. QPs in reset or error are not in use.
 * Returns the number of QPs that failed. */
unsigned sroce_dev_fail_qps(sroce_dev_t *dev, uint32_t nth);

uint32_t sroce_qp_num(const sroce_qp_t *qp);
enum ibv_qp_state sroce_qp_state(const sroce_qp_t *qp);
/* Looks up a QP by number. Returns NULL if there is none. */
sroce_qp_t *sroce_dev_qp(const sroce_dev_t *dev, uint32_t qpn);

/* ---- ICRC ---- */

/*
 * Returns the ICRC of a RoCEv2 packet over IPv4 with DF set and identification
 * 0. `iov` holds the `udp_bytes` - 4 bytes from the BTH to the pad, where
 * udp_bytes is the UDP payload with the ICRC. The sender transmits the ICRC
 * with the least significant byte first. Source: IBA annex A17.3.3 (RoCEv2
 * ICRC), 7.8.1.
 */
uint32_t sroce_icrc(uint32_t src_ip, uint32_t dst_ip, uint16_t sport,
                    uint32_t udp_bytes, const struct iovec *iov,
                    unsigned iov_count);

#endif
