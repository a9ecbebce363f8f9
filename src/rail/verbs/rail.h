/*
 * A rail is an open port of a verbs device, with the resources that its lanes
 * share (PD, CQ, SRQ) and the UD QP of the control channel.
 *
 * The data-path lock protects the CQ. The control lock protects the UD QP, its
 * CQ and the address handles. Posts to the SRQ require either lock.
 */
#ifndef MRAIL_RAIL_VERBS_RAIL_H
#define MRAIL_RAIL_VERBS_RAIL_H

#include "base/clock.h"
#include "base/list.h"
#include "rail/locks.h"
#include "rail/mrail.h"
#include "rail/proto/wire.h"
#include "telemetry/capacity.h"

#include <infiniband/verbs.h>

#define MRAIL_UD_GRH 40 /* bytes before every received datagram */
#define MRAIL_UD_RX 256 /* receive buffers of the control channel */
#define MRAIL_UD_TX 64  /* send buffers of the control channel */
/* Number of completions polled in one call from the control channel. */
#define MRAIL_UD_BATCH 16
#define MRAIL_POLL_BATCH 16

/* Directions of operations. */
typedef enum mrail_flow {
    MRAIL_FLOW_IN,
    MRAIL_FLOW_OUT,
    MRAIL_FLOWS
} mrail_flow_t;

/* Memory for receive buffers, allocated and registered as one unit. */
typedef struct mrail_rx_block {
    struct mrail_rx_block *next;
    struct ibv_mr *mr;
    void *base;
    size_t size; /* bytes */
    size_t used; /* bytes already divided into buffers */
} mrail_rx_block_t;

/* A received datagram that waits for its handler. */
typedef struct mrail_ud_recv {
    uint32_t slot;   /* slot of its receive buffer */
    uint32_t length; /* bytes, including the GRH */
} mrail_ud_recv_t;

/* A position in the stream of completions of a CQ; see
 * mrail_rail_is_drained(). */
typedef struct mrail_cq_mark {
    int is_set;
    uint64_t num_polled;
    unsigned num_emptied;
} mrail_cq_mark_t;

typedef struct mrail_rail {
    unsigned index;
    mrail_rail_attr_t attr;
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* channel of `cq`, for sleeping ifaces */
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    unsigned cq_depth;     /* entries of `cq`, at least; control lock, atomic
                            * for readers without it */
    unsigned max_cqe;      /* limit of cq_depth */
    unsigned sq_entries;   /* send queue entries of all QPs; control lock */
    int cq_limited;        /* `cq` cannot grow any more; control lock */
    unsigned srq_depth;    /* capacity in buffers */
    unsigned srq_used;     /* buffers created for the SRQ; control lock */
    unsigned srq_spare;    /* buffers not reserved for a lane; control lock */
    unsigned num_am_lanes; /* lanes whose credits use the SRQ; control lock */
    unsigned srq_short;    /* credits without a buffer, because the sum of
                            * the windows exceeds the SRQ; control lock,
                            * atomic for readers without it */
    unsigned srq_back;     /* atomic: returned buffers that must be added to
                            * srq_spare */
    mrail_rx_block_t *blocks; /* all blocks, newest first; a device cannot
                               * return buffers from an SRQ; control lock */
    size_t rx_bytes;          /* sum of their sizes */
    /* The port reports that it is down; control lock, atomic for readers
     * without it. */
    int port_down;
    /* The device is permanently lost; control lock, atomic for readers without
     * it. */
    int fatal;
    /* Outages; see conn/rail_error.c. Control lock. */
    int outage;              /* the rail no longer carries traffic */
    mrail_ns_t outage_ns;    /* time at which an outage begins if the port stays
                              * down; 0 if the port is up or an outage has
                              * begun */
    unsigned num_retired;    /* paths to different peers retired since the rail
                              * last carried traffic */
    mrail_ns_t alive_ns;     /* time when the rail last carried traffic */
    mrail_ns_t sample_ns;    /* time of the last sample probe; 0 if none since
                              * the rail last carried traffic */
    unsigned num_visited;    /* lanes visited in search of a sample */
    unsigned num_unnotified; /* lanes not yet notified of the outage */
    unsigned num_probers;    /* paths that probe for the end of the outage */
    mrail_list_t lanes;      /* lanes with a QP on the rail */
    unsigned num_lanes;      /* number of entries in `lanes` */
    mrail_list_t affected;   /* paths that wait for the rail */
    /* Capacity of the port; engine_lock; `attr` holds the first value. */
    uint64_t speed_bps;
    mrail_ns_t speed_ns; /* time of the last query of speed_bps; engine_lock */
    int no_qp_warned;    /* control: the user was warned that a QP or its
                          * receive buffers cannot be created */
    int has_lanes;       /* atomic: completions are possible */
    int cq_failed;       /* atomic: a completion queue cannot be polled */
    int failing;         /* atomic: the user was warned of a failed lane, and
                          * none has come up since */
    unsigned idle;       /* data: consecutive polls without completions */
    struct ibv_wc wc[MRAIL_POLL_BATCH]; /* data: polled completions */
    unsigned num_wc;                    /* data: number of entries in `wc` */
    unsigned next_wc;                   /* data: index in `wc` of the first
                                         * completion to handle */
    uint64_t num_polled;                /* data: total number of completions
                                         * polled */
    unsigned num_emptied;               /* data: polls that emptied the CQ */
    unsigned num_chunks;                /* data: chunks in flight */
    uint64_t inflight;                  /* data: bytes of chunks in flight */
    /* data; any thread may call mrail_tele_flow_live() */
    mrail_tele_flow_t flows[MRAIL_FLOWS];
    mrail_tele_busy_t busy[MRAIL_FLOWS]; /* data */
    /* Of ended lanes; control. */
    uint64_t carried; /* bytes */
    uint64_t stalled_ns;
    uint64_t idle_ns;
    uint64_t work[2];       /* data: bytes of completed chunks of all lanes:
                             * PUTs, GETs */
    uint8_t ports_fixed;    /* control: connected QPs keep their source ports */
    unsigned max_chunks;    /* data: limit of num_chunks that keeps a CQ that
                             * cannot grow from overflowing */
    unsigned max_rd_atomic; /* READs that a QP may have in flight */
    unsigned max_dest_rd_atomic; /* concurrent READs of the peer that a QP can
                                  * serve */
    enum ibv_mtu mtu;

    /* 8 bytes that peers READ for a flush, and 8 bytes that local READs
     * write */
    uint64_t *flush_page;
    struct ibv_mr *flush_mr;

    struct ibv_comp_channel *ud_channel;
    struct ibv_cq *ud_cq;
    struct ibv_qp *ud_qp;
    uint8_t *ud_buffers; /* MRAIL_UD_RX receive buffers, then MRAIL_UD_TX
                          * send buffers */
    struct ibv_mr *ud_mr;
    /* The control lock protects all fields below. */
    unsigned ud_tx_next;
    unsigned ud_tx_pending;
    mrail_ns_t ud_full_ns; /* the device has held all send buffers since this
                            * time; 0 if some are free */
    int ud_failed;         /* the QP is in the error state */
    int ud_pause;          /* the last message took long, and other threads may
                            * be waiting for the lock */
    uint32_t ud_tx_sent;   /* total number of datagrams posted */
    /* Released address handles, in order, whose datagrams the device may still
     * hold. */
    struct mrail_dead_ah *first_dead_ah;
    struct mrail_dead_ah *last_dead_ah;
    /* Datagrams polled during a search for a send buffer. */
    mrail_ud_recv_t ud_held[MRAIL_UD_RX + MRAIL_UD_BATCH];
    unsigned ud_held_first;
    unsigned ud_num_held;
} mrail_rail_t;

/* Returns the number of SRQ buffers that are not reserved for a lane. Control
 * lock held. */
static inline unsigned mrail_rail_spare(mrail_rail_t *rail)
{
    rail->srq_spare +=
        __atomic_exchange_n(&rail->srq_back, 0, __ATOMIC_RELAXED);
    return rail->srq_spare;
}

/* Polls a batch into rail->wc, whose completions must all have been handled.
 * Returns the result of ibv_poll_cq(). */
static inline MRAIL_DATA int mrail_rail_poll(mrail_rail_t *rail)
{
    int n = ibv_poll_cq(rail->cq, MRAIL_POLL_BATCH, rail->wc);

    rail->next_wc = 0;
    rail->num_wc = (n > 0) ? (unsigned)n : 0;
    rail->num_polled += rail->num_wc;
    rail->num_emptied += (n < MRAIL_POLL_BATCH);
    return n;
}

/* Opens the device with this name. Returns NULL if there is none, or if it
 * cannot be opened. */
struct ibv_context *mrail_rail_open_device(const char *name);

/* Opens the port of `attr`, which discovery has selected. */
int mrail_rail_open(mrail_rail_t *rail, unsigned index,
                    const mrail_rail_attr_t *attr,
                    const mrail_config_t *config);

void mrail_rail_close(mrail_rail_t *rail);

/* Makes the CQ large enough for all receives of the SRQ, and for all entries of
 * the send queues of the rail's QPs and of a further QP with `depth` entries. A
 * QP in the error state completes every entry, including unsignalled ones, and
 * the QPs of a port may fail at the same time. Logs a debug line if the CQ
 * cannot grow. Control lock held; verbs allows concurrent polls. */
void mrail_rail_grow_cq(mrail_rail_t *rail, unsigned depth) MRAIL_CTL;

/* ---- Receive buffers (rx_blocks.c) ---- */

/* Returns registered memory for 1 to `count` receive buffers of `stride` bytes
 * each, and stores their number and the key. The memory is freed only by
 * mrail_rail_free_buffers(), because the device may hold some of the buffers.
 * Returns NULL with errno set on failure. Control lock held. */
void *mrail_rail_rx_buffers(mrail_rail_t *rail, size_t stride, unsigned count,
                            unsigned *count_p, uint32_t *lkey_p);

/* Posts receive buffers to the SRQ. Returns 0 or -errno. */
static inline int mrail_rail_post_recv(mrail_rail_t *rail,
                                       struct ibv_recv_wr *wr)
{
    struct ibv_recv_wr *bad;

    return -ibv_post_srq_recv(rail->srq, wr, &bad);
}

/* Destroys the SRQ. The QPs that use it must be destroyed. */
void mrail_rail_destroy_srq(mrail_rail_t *rail);

/* Frees all receive buffers. The SRQ must be destroyed. */
void mrail_rail_free_buffers(mrail_rail_t *rail);

/* Prepares the process for fork(), before any registration. */
void mrail_rail_allow_fork(void);

/* Returns the text of a completion's status. */
const char *mrail_rail_status_text(enum ibv_wc_status status);

/* Returns 1 if rail->wc has completions to handle. */
int mrail_rail_fetch(mrail_rail_t *rail) MRAIL_DATA;

/* Returns 1 if all completions that were in the CQ at the first call with this
 * mark have been handled. The CQ may never be empty, because further
 * completions may keep arriving. It is enough that a poll has emptied it since,
 * or that as many completions as it can hold have been polled. */
int mrail_rail_is_drained(mrail_rail_t *rail, mrail_cq_mark_t *mark) MRAIL_DATA;

/* Fills in the rail's part of a HELLO. */
void mrail_rail_describe(const mrail_rail_t *rail, mrail_wire_rail_t *wire);

/* Reads speed_bps from the device. Leaves it unchanged if the device does not
 * report it. */
void mrail_rail_query_speed(mrail_rail_t *rail);

/* Returns 1 if the device reports that the port is up. */
int mrail_rail_is_up(const mrail_rail_t *rail);

/* Looks up the GID again, because its index may have changed when the port
 * comes up again. Returns 1 if the index has changed, in which case address
 * handles and QPs must be created again. */
int mrail_rail_find_gid(mrail_rail_t *rail) MRAIL_CTL;

/* ---- Address handles, which define the paths of datagrams and of connected
 * QPs (ah.c) ---- */

/* Returns a UDP source port for control messages that do not belong to a lane.
 * Each value of `turn` selects the next uplink, because a port rule may drop
 * the packets of a failed uplink. */
uint16_t mrail_rail_control_port(const mrail_rail_t *rail,
                                 const mrail_config_t *config, unsigned turn);

/* Creates an address handle for datagrams with this UDP source port. Returns
 * NULL with errno set on failure. */
struct ibv_ah *mrail_rail_create_ah(mrail_rail_t *rail,
                                    const mrail_config_t *config,
                                    const uint8_t gid[16],
                                    uint16_t sport) MRAIL_CTL;

/* Destroys the handle once all datagrams posted so far have been sent. */
void mrail_rail_destroy_ah(mrail_rail_t *rail, struct ibv_ah *ah) MRAIL_CTL;

/* Fills in the attributes with which AHs and connected QPs reach `gid`. */
void mrail_rail_fill_ah(const mrail_rail_t *rail, const mrail_config_t *config,
                        const uint8_t gid[16], uint32_t flow_label,
                        struct ibv_ah_attr *ah);

/* Destroys released handles whose datagrams have completed. Datagrams complete
 * in order, so comparing counts is enough. */
void mrail_rail_free_ahs(mrail_rail_t *rail);

/* ---- Registered memory (alloc.c) ---- */

/* Logs one error line about a failed registration if the locked-memory limit
 * may be the cause. Returns -error. */
int mrail_rail_explain(const char *device, size_t length, int error);

/* Access of peers to registered memory. */
typedef enum mrail_access {
    MRAIL_ACCESS_OWN,  /* none */
    MRAIL_ACCESS_READ, /* peers may read */
    MRAIL_ACCESS_FULL  /* peers may read and write */
} mrail_access_t;

/* Registers memory with the rail's device. Returns NULL with errno set on
 * failure. */
struct ibv_mr *mrail_rail_reg(mrail_rail_t *rail, void *address, size_t length,
                              mrail_access_t access);
/* Registers a part of a dma-buf, which starts at `offset`, with full access.
 * WRs and peers use `address`. */
struct ibv_mr *mrail_rail_reg_dmabuf(mrail_rail_t *rail, int fd,
                                     uint64_t offset, void *address,
                                     size_t length);
/* Deregisters memory. Returns 0, or -1 with errno set. */
int mrail_rail_dereg(struct ibv_mr *mr);

/* Sizes of pages on x86-64. */
#define MRAIL_PAGE ((size_t)4096)
#define MRAIL_HUGE_PAGE ((size_t)2 << 20)

/* Allocates registered memory, on huge pages if `alignment` is MRAIL_HUGE_PAGE
 * and the kernel has them. Its contents are undefined. The caller frees the
 * registration and the memory. Returns NULL with errno set on failure, without
 * logging an error; see mrail_rail_explain(). */
struct ibv_mr *mrail_rail_alloc(mrail_rail_t *rail, size_t length,
                                size_t alignment, mrail_access_t access,
                                void **buffer_p);

/* ---- Events of the completion channels and of the device. Both are in
 * non-blocking mode (events.c) ---- */

typedef enum mrail_event_kind {
    MRAIL_EVENT_OTHER,
    MRAIL_EVENT_RAIL,    /* the device, its CQ or its SRQ has failed */
    MRAIL_EVENT_PORT,    /* the port went down or came up */
    MRAIL_EVENT_GID,     /* the table of GIDs has changed */
    MRAIL_EVENT_QP,      /* a QP has failed */
    MRAIL_EVENT_LAST_WQE /* a failed QP uses no more receive buffers */
} mrail_event_kind_t;

typedef struct mrail_event {
    mrail_event_kind_t kind;
    uint64_t qp_serial; /* see mrail_qp_create(); 0 if no QP is affected */
    int is_up;          /* MRAIL_EVENT_PORT: the new state */
    const char *text;
} mrail_event_t;

/* Reads the next event of the device. Returns 0 if there is none. Events of
 * other ports of the device are MRAIL_EVENT_OTHER. Must be called without
 * locks, because mrail_qp_destroy() waits until the event has been read, while
 * its caller holds the control lock. */
int mrail_rail_next_event(mrail_rail_t *rail, mrail_event_t *event);

/* Consumes the events of the channel, and requests an event for the next
 * completion of its CQ. Returns 0 or -errno. */
int mrail_rail_arm(mrail_rail_t *rail);
/* Like mrail_rail_arm(), but for the control channel. */
int mrail_rail_arm_ud(mrail_rail_t *rail);

/* ---- RC QPs, which belong to lanes (conn/lane.c): creation and state changes
 * (qp.c) ---- */

/* Functions return 0 or -errno unless stated otherwise. Control lock held,
 * except for mrail_qp_post(). */

/* Creates a QP with `depth` send queue entries on the rail's CQ and SRQ, in
 * state INIT. Events of the QP carry `serial`. Returns NULL with errno set on
 * failure. */
struct ibv_qp *mrail_qp_create(mrail_rail_t *rail, unsigned depth,
                               uint64_t serial);

/* Makes the QP ready to receive from the remote QP over `path`. `mtu` is the
 * enum ibv_mtu of the remote port. */
int mrail_qp_to_rtr(struct ibv_qp *qp, const mrail_rail_t *rail,
                    const struct ibv_ah_attr *path,
                    const mrail_wire_lane_t *remote, unsigned mtu);

/* Makes the QP ready to send. `reads` is the number of concurrent READs that
 * the remote QP can serve. */
int mrail_qp_to_rts(struct ibv_qp *qp, const mrail_rail_t *rail,
                    const mrail_config_t *config, uint32_t psn, unsigned reads);

/* Moves the QP to the error state, in which it neither sends nor receives. */
int mrail_qp_to_error(struct ibv_qp *qp);

/* Returns the state. In state SQD, *is_draining_p is 1 if requests are still in
 * flight. */
enum ibv_qp_state mrail_qp_state(struct ibv_qp *qp, int *is_draining_p);

/* Stops the send queue after the current request (RTS -> SQD). */
int mrail_qp_stop_sending(struct ibv_qp *qp);
/* Changes the path of a stopped QP without requests in flight. */
int mrail_qp_set_path(struct ibv_qp *qp, const struct ibv_ah_attr *path);
/* Restarts the send queue (SQD -> RTS). */
int mrail_qp_continue_sending(struct ibv_qp *qp);

/* Destroys the QP. Completions that are already in the CQ remain. */
void mrail_qp_destroy(struct ibv_qp *qp);

/* Posts a work request. Data-path lock held. */
static inline int mrail_qp_post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    return -ibv_post_send(qp, wr, &bad);
}

/* ---- The control channel: a UD QP with its buffers (ud_channel.c) ---- */

/* Sends a datagram on the control channel. Returns -EAGAIN if no send buffer is
 * free; the channel signals an event when a buffer returns. If no buffer has
 * returned for a second, returns -EIO, and the datagram counts as lost. */
int mrail_rail_ud_send(mrail_rail_t *rail, struct ibv_ah *ah, uint32_t qpn,
                       const void *data, size_t length) MRAIL_CTL;

/* Returns the number of datagrams that mrail_rail_ud_send() can accept now.
 * Control lock held. */
unsigned mrail_rail_ud_space(mrail_rail_t *rail);

/* Calls `func` for each received datagram, up to MRAIL_UD_RECV_MAX, but only
 * while a send buffer is free for an answer. Returns early if `func` sets
 * rail->ud_pause. Returns the number of datagrams. */
#define MRAIL_UD_RECV_MAX 64

typedef void (*mrail_ud_func_t)(void *arg, mrail_rail_t *rail, const void *data,
                                size_t length);

unsigned mrail_rail_ud_poll(mrail_rail_t *rail, mrail_ud_func_t func,
                            void *arg) MRAIL_CTL;

/* Discards received datagrams, while the engine is closing. */
void mrail_rail_ud_reap(mrail_rail_t *rail) MRAIL_CTL;

int mrail_rail_ud_open(mrail_rail_t *rail);

/* ---- Discovery of ports (discovery.c) ---- */

/*
 * Computes the subnet of a GID, which can be compared between nodes, and its
 * host part. configured_bits is UCX_MRAIL_SUBNET_BITS, or -1 for the automatic
 * value. netmask_bits is the prefix length of the network interface, or 0 if
 * unknown. Returns the prefix length that was used.
 */
unsigned mrail_discovery_subnet(const uint8_t gid[16], int configured_bits,
                                unsigned netmask_bits, uint64_t *subnet_p,
                                unsigned *host_p);

/*
 * Sets attr->nic_index, the index of a rail's NIC for the choice of source
 * ports: the configured index, or `host`, the host part of its address. `rail`
 * is the number of the rail, from 0. Uses the device, port, GID and subnet_bits
 * of `attr`. Returns NULL, or the reason if there is no index: with port rules,
 * the index cannot be derived from an IPv6 address, or from an address in a
 * point-to-point subnet.
 */
const char *mrail_discovery_nic_index(const mrail_config_t *config,
                                      unsigned rail, unsigned host,
                                      mrail_rail_attr_t *attr);

/* Returns the current index of the RoCEv2 GID in the port's table, or -1. */
int mrail_discovery_find_gid(struct ibv_context *ctx, unsigned port,
                             int table_length, const uint8_t gid[16]);

/* Returns the rate that the port reports now, in bits per second, or 0 if it is
 * unknown. */
uint64_t mrail_discovery_speed(struct ibv_context *ctx, unsigned port);

#endif
