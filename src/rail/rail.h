/*
 * A rail: one port of one verbs device, opened, with the resources that its
 * lanes share (PD, CQ, SRQ) and the UD QP of the control channel.
 *
 * The CQ and the SRQ belong to the data path; the UD QP, its CQ and the address
 * handles to the control thread.
 */
#ifndef MRAIL_RAIL_RAIL_H
#define MRAIL_RAIL_RAIL_H

#include "base/clock.h"
#include "rail/mrail.h"
#include "rail/wire.h"
#include "telemetry/capacity.h"

#include <infiniband/verbs.h>

#define MRAIL_UD_QKEY 0x6d724c21
#define MRAIL_UD_GRH 40   /* bytes before every received datagram */
#define MRAIL_UD_RX 256   /* receive buffers of the control channel */
#define MRAIL_UD_TX 64    /* send buffers of the control channel */
#define MRAIL_UD_BATCH 16 /* its completions polled at once */
#define MRAIL_CQ_PER_RX                                                        \
    2 /* entries of the CQ for each one of the SRQ: half of
                           * them are for signalled sends */
#define MRAIL_POLL_BATCH 16
#define MRAIL_CHUNKS_MIN 64 /* of PUTs and GETs, posted on a rail */

/* Directions of operations. */
typedef enum mrail_flow {
    MRAIL_FLOW_IN,
    MRAIL_FLOW_OUT,
    MRAIL_FLOWS
} mrail_flow_t;

/* Receive buffers, allocated and registered together. */
typedef struct mrail_rx_chunk {
    struct mrail_rx_chunk *next;
    struct ibv_mr *mr;
    void *base;
} mrail_rx_chunk_t;

/* A received datagram that was not handled yet. */
typedef struct mrail_ud_recv {
    uint32_t slot;   /* of its receive buffer */
    uint32_t length; /* with the GRH */
} mrail_ud_recv_t;

/* A position in the stream of completions of a CQ: see
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
    struct ibv_comp_channel *channel; /* of cq, for sleepers */
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    unsigned srq_depth;    /* buffers that the device takes */
    unsigned srq_used;     /* buffers made for it; control lock */
    unsigned srq_spare;    /* ... that no lane counts on */
    unsigned num_am_lanes; /* lanes with credits for it; control lock */
    unsigned srq_short;    /* credits without a buffer: the sum of the windows
                               * is larger than the queue; control lock, atomic
                               * for readers without it */
    unsigned srq_back;     /* atomic: more of those, returned meanwhile */
    mrail_rx_chunk_t *chunks; /* all chunks: a device cannot take buffers back
                               * from an SRQ */
    int port_down; /* reported by the port; control lock, atomic for readers
                    * without it */
    int fatal;     /* the device is lost for good; likewise */
    uint64_t speed_bps; /* capacity of the port; engine_lock, attr has the first
                    * value */
    mrail_ns_t speed_ns; /* time of that query; likewise */
    int no_qp_told;      /* control: the user knows that there is no QP or
                          * receive buffer for a lane */
    int has_lanes;       /* atomic: there may be completions */
    int cq_failed;       /* atomic: a completion queue cannot be polled */
    int failing;         /* atomic: the user knows of a failed lane, and none
                          * has come up since */
    unsigned idle;       /* data: polls in a row without completions */
    struct ibv_wc wc[MRAIL_POLL_BATCH]; /* data: polled, not all handled */
    unsigned num_wc;                    /* ... their number */
    unsigned next_wc;                   /* ... the first one to handle */
    uint64_t num_polled;                /* data: completions ever polled */
    unsigned num_emptied;               /* data: polls that emptied the CQ */
    unsigned num_chunks;                /* data: chunks in flight */
    uint64_t inflight;                  /* data: ... and their bytes */
    /* data, except for mrail_tele_flow_live(): PUTs out, GETs in */
    mrail_tele_flow_t flows[MRAIL_FLOWS];
    uint64_t carried;    /* control: bytes of ended lanes */
    uint64_t work[2];    /* data: bytes of all lanes' chunks, PUTs and GETs */
    uint8_t ports_fixed; /* control: connected QPs keep their source ports */
    unsigned max_chunks; /* ... limit that keeps the CQ from overflowing */
    unsigned max_rd_atomic;      /* READs that a QP may have in flight */
    unsigned max_dest_rd_atomic; /* ... and those of the peer that it answers at
                                  * a time */
    enum ibv_mtu mtu;

    /* 8 bytes that peers READ for a flush, 8 that our own READs write */
    uint64_t *flush_page;
    struct ibv_mr *flush_mr;

    struct ibv_comp_channel *ud_channel;
    struct ibv_cq *ud_cq;
    struct ibv_qp *ud_qp;
    uint8_t *ud_buffers; /* MRAIL_UD_RX receive, then MRAIL_UD_TX send */
    struct ibv_mr *ud_mr;
    /* All under the control lock. */
    unsigned ud_tx_next;
    unsigned ud_tx_pending;
    mrail_ns_t ud_full_ns; /* the device has all send buffers since then; 0: it
                            * has not */
    int ud_failed;         /* the QP is in error */
    int ud_pause;        /* the last message took long: others want the lock */
    uint32_t ud_tx_sent; /* datagrams posted, in total */
    /* Handles without an owner, whose datagrams may be in the device; in order. */
    struct mrail_dead_ah *first_dead_ah;
    struct mrail_dead_ah *last_dead_ah;
    /* Datagrams polled during a search for a send buffer. */
    mrail_ud_recv_t ud_held[MRAIL_UD_RX + MRAIL_UD_BATCH];
    unsigned ud_held_first;
    unsigned ud_num_held;
} mrail_rail_t;

/* Opens the port of `attr` (selected by discovery). */
int mrail_rail_open(mrail_rail_t *rail, unsigned index,
                    const mrail_rail_attr_t *attr,
                    const mrail_config_t *config);
void mrail_rail_close(mrail_rail_t *rail);

/* Frees all receive buffers. The SRQ must be gone. */
void mrail_rail_free_buffers(mrail_rail_t *rail);

/* Buffers in the SRQ that no lane counts on. Control lock. */
static inline unsigned mrail_rail_spare(mrail_rail_t *rail)
{
    rail->srq_spare +=
        __atomic_exchange_n(&rail->srq_back, 0, __ATOMIC_RELAXED);
    return rail->srq_spare;
}

/* Logs one error line about a failed registration if the locked-memory limit
 * may be the reason. */
void mrail_rail_explain(const char *device, size_t length, int error);

/* Data path: polls a batch into rail->wc, whose completions have all been
 * handled. Returns the result of ibv_poll_cq(). */
static inline int mrail_rail_poll(mrail_rail_t *rail)
{
    int n = ibv_poll_cq(rail->cq, MRAIL_POLL_BATCH, rail->wc);

    rail->next_wc = 0;
    rail->num_wc = (n > 0) ? (unsigned)n : 0;
    rail->num_polled += rail->num_wc;
    rail->num_emptied += (n < MRAIL_POLL_BATCH);
    return n;
}

/* Data path: 1 if rail->wc has completions to handle. */
int mrail_rail_fetch(mrail_rail_t *rail);

/* Data path: 1 if all completions that were in the CQ at the first call with
 * this mark have been handled. Other completions may follow without end, so the
 * CQ need not become empty: either a poll has emptied it since, or as many
 * completions as it holds were polled. */
int mrail_rail_is_drained(mrail_rail_t *rail, mrail_cq_mark_t *mark);

/* Fills in the rail's part of a HELLO. */
void mrail_rail_describe(const mrail_rail_t *rail, mrail_wire_rail_t *wire);

/* An address handle for the control channel, with the UDP source port of a lane
 * or, if `sport` is 0, a port of its own. NULL with errno. */
struct ibv_ah *mrail_rail_create_ah(mrail_rail_t *rail,
                                    const mrail_config_t *config,
                                    const uint8_t gid[16], uint16_t sport);

/* Destroys the handle, after the datagrams posted so far have left. Control lock. */
void mrail_rail_destroy_ah(mrail_rail_t *rail, struct ibv_ah *ah);

/* Queries speed_bps from the device; without an answer it stays. */
void mrail_rail_query_speed(mrail_rail_t *rail);

/* The present state of the port, as the device reports it. */
int mrail_rail_is_up(const mrail_rail_t *rail);

/* A port that comes back may have its GID at another index. 1 if so: address
 * handles and QPs must be made anew. Control lock. */
int mrail_rail_find_gid(mrail_rail_t *rail);

/* Fills in the part that AHs and connected QPs need to reach `gid`. */
void mrail_rail_fill_ah(const mrail_rail_t *rail, const mrail_config_t *config,
                        const uint8_t gid[16], uint32_t flow_label,
                        struct ibv_ah_attr *ah);

/* Control channel. Control lock held. -EAGAIN: no send buffer is free, and
 * nothing was sent; the channel has an event when one returns. -EIO: none has
 * returned for a second, and the datagram counts as lost. */
int mrail_rail_ud_send(mrail_rail_t *rail, struct ibv_ah *ah, uint32_t qpn,
                       const void *data, size_t length);

/* Calls `func` for each received datagram, up to about MRAIL_UD_RECV_MAX, and
 * for none while there is no send buffer for an answer. Ends early, with
 * rail->ud_pause, if `func` sets that. Returns their number. */
#define MRAIL_UD_RECV_MAX 64
typedef void (*mrail_ud_func_t)(void *arg, mrail_rail_t *rail, const void *data,
                                size_t length);
unsigned mrail_rail_ud_poll(mrail_rail_t *rail, mrail_ud_func_t func,
                            void *arg);

/* The same while closing: datagrams are discarded. */
void mrail_rail_ud_reap(mrail_rail_t *rail);

#endif
