/*
 * A rail: one port of one verbs device, opened, with what all its lanes share
 * (PD, CQ, SRQ) and the UD QP of the control channel.
 *
 * The CQ and the SRQ belong to the data path; the UD QP, its CQ and the
 * address handles to the control thread.
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
#define MRAIL_UD_TX 64    /* send buffers of it */
#define MRAIL_UD_BATCH 16 /* completions of it that are polled at once */
#define MRAIL_SRQ_DEPTH                                                        \
    4096                    /* receive buffers of all lanes of a rail that
                                 are asked for */
#define MRAIL_CQ_DEPTH 8192 /* receives + signalled sends */
#define MRAIL_POLL_BATCH 16
#define MRAIL_CHUNKS_MIN 64 /* of PUTs and GETs, posted on a rail */

/* Directions of what we ask for. */
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

/* A datagram that has arrived, and that nobody has looked at. */
typedef struct mrail_ud_recv {
    uint32_t slot;   /* of its receive buffer */
    uint32_t length; /* with the GRH */
} mrail_ud_recv_t;

typedef struct mrail_rail {
    unsigned index;
    mrail_rail_attr_t attr;
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* of cq, for who sleeps */
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    unsigned srq_depth;       /* buffers that the device takes */
    unsigned srq_used;        /* buffers made for it; control lock */
    unsigned srq_spare;       /* ... of them that no lane counts on */
    unsigned srq_back;        /* atomic: more of those, given back meanwhile */
    mrail_rx_chunk_t *chunks; /* all of them: a device offers no way to take
                                 buffers back from a SRQ */
    int port_down; /* the port says so; control lock, atomic for who only
                             asks */
    int fatal;     /* the device is gone, for good; the same */
    uint64_t
        speed_bps; /* that the port can do; engine_lock, attr has the first */
    mrail_ns_t speed_ns; /* it was asked for; the same */
    int has_lanes;       /* atomic: there may be completions */
    int cq_bad;          /* atomic: a completion queue cannot be polled */
    int failing;         /* atomic: the user was told of a lane that failed, and
                             none has come up since */
    unsigned idle;       /* data: polls in a row that found nothing */
    struct ibv_wc wc[MRAIL_POLL_BATCH]; /* data: polled, not all looked at */
    unsigned num_wc;                    /* ... of them */
    unsigned next_wc;                   /* ... first one to look at */
    unsigned num_chunks; /* data: chunks that the CQ has not returned */
    /* data, but for what mrail_tele_flow_live() reads: PUTs out, GETs in */
    mrail_tele_flow_t flows[MRAIL_FLOWS];
    uint64_t carried;    /* control: bytes, by lanes that have ended */
    unsigned max_chunks; /* ... at most, so that it cannot overflow */
    unsigned max_rd_atomic;
    enum ibv_mtu mtu;

    /* 8 bytes that peers READ to flush, 8 that our own such READs write */
    uint64_t *flush_page;
    struct ibv_mr *flush_mr;

    struct ibv_comp_channel *ud_channel;
    struct ibv_cq *ud_cq;
    struct ibv_qp *ud_qp;
    uint8_t *ud_buffers; /* MRAIL_UD_RX receive, then MRAIL_UD_TX send */
    struct ibv_mr *ud_mr;
    /* Control lock, all of these. */
    unsigned ud_tx_next;
    unsigned ud_tx_pending;
    mrail_ns_t ud_full_ns; /* all send buffers are with the device since then;
                              0: some are not */
    int ud_failed;         /* the QP is in error */
    /* Polled while a send buffer was looked for. */
    mrail_ud_recv_t ud_held[MRAIL_UD_RX + MRAIL_UD_BATCH];
    unsigned ud_held_first;
    unsigned ud_num_held;
} mrail_rail_t;

/* Opens what `attr` (selected by the scan) names. */
int mrail_rail_open(mrail_rail_t *rail, unsigned index,
                    const mrail_rail_attr_t *attr,
                    const mrail_config_t *config);
void mrail_rail_close(mrail_rail_t *rail);

/* Frees all receive buffers.  The SRQ is gone. */
void mrail_rail_free_buffers(mrail_rail_t *rail);

/* Buffers in the SRQ that no lane counts on.  Control lock. */
static inline unsigned mrail_rail_spare(mrail_rail_t *rail)
{
    rail->srq_spare +=
        __atomic_exchange_n(&rail->srq_back, 0, __ATOMIC_RELAXED);
    return rail->srq_spare;
}

/* One error line about a failed registration, if the locked-memory limit can
 * be the reason. */
void mrail_rail_explain(const char *device, size_t length, int error);

/* Data path: 1 if there are completions to look at, in rail->wc. */
int mrail_rail_fetch(mrail_rail_t *rail);

/* Fills in the rail's part of a HELLO. */
void mrail_rail_describe(const mrail_rail_t *rail, mrail_wire_rail_t *wire);

/* An address handle for the control channel, with the UDP source port of a lane
 * or, if `sport` is 0, one of its own; NULL with errno. */
struct ibv_ah *mrail_rail_create_ah(mrail_rail_t *rail,
                                    const mrail_config_t *config,
                                    const uint8_t gid[16], uint16_t sport);

/* Asks the device for speed_bps; it stays as it is if there is no answer. */
void mrail_rail_query_speed(mrail_rail_t *rail);

/* The present state of the port, as the device reports it. */
int mrail_rail_is_up(const mrail_rail_t *rail);

/* A port that comes back may have its GID at another index: 1 if it has, and new
 * address handles and QPs are wanted.  Control lock. */
int mrail_rail_find_gid(mrail_rail_t *rail);

/* Fills what both AHs and connected QPs need to reach `gid`. */
void mrail_rail_fill_ah(const mrail_rail_t *rail, const mrail_config_t *config,
                        const uint8_t gid[16], uint32_t flow_label,
                        struct ibv_ah_attr *ah);

/* Control channel.  Control lock held.  -EAGAIN: no send buffer is free, and
 * nothing was sent; the channel has an event when one comes back.  -EIO: none
 * has come back for a second, and the datagram counts as lost. */
int mrail_rail_ud_send(mrail_rail_t *rail, struct ibv_ah *ah, uint32_t qpn,
                       const void *data, size_t length);

/* Calls `func` for each datagram that is there, but not for many more than
 * MRAIL_UD_ROUND, and for none while there is no send buffer for its answer;
 * returns their number. */
#define MRAIL_UD_ROUND 64
typedef void (*mrail_ud_func_t)(void *arg, mrail_rail_t *rail, const void *data,
                                size_t length);
unsigned mrail_rail_ud_poll(mrail_rail_t *rail, mrail_ud_func_t func,
                            void *arg);

/* As above, at the end: what arrives is thrown away. */
void mrail_rail_ud_reap(mrail_rail_t *rail);

#endif
