/*
 * A rail: an open port of a verbs device, with the resources that its lanes
 * share (PD, CQ, SRQ) and the UD QP of the control channel.
 *
 * The data-path lock protects the CQ and the SRQ. The control lock protects
 * the UD QP, its CQ and the address handles.
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

#define MRAIL_UD_QKEY 0x6d724c21
#define MRAIL_UD_GRH 40 /* bytes before every received datagram */
#define MRAIL_UD_RX 256 /* receive buffers of the control channel */
#define MRAIL_UD_TX 64  /* send buffers of the control channel */
/* Number of completions polled at once from the control channel. */
#define MRAIL_UD_BATCH 16
#define MRAIL_CQ_PER_RX                                                        \
    2 /* entries of the CQ for each entry of the SRQ; half of them are for
       * signalled sends */
#define MRAIL_POLL_BATCH 16
#define MRAIL_CHUNKS_MIN 64 /* minimum limit of posted chunks on a rail */

/* Directions of operations. */
typedef enum mrail_flow {
    MRAIL_FLOW_IN,
    MRAIL_FLOW_OUT,
    MRAIL_FLOWS
} mrail_flow_t;

/* A group of receive buffers that are allocated and registered together. */
typedef struct mrail_rx_chunk {
    struct mrail_rx_chunk *next;
    struct ibv_mr *mr;
    void *base;
} mrail_rx_chunk_t;

/* A received datagram that waits for its handler. */
typedef struct mrail_ud_recv {
    uint32_t slot;   /* slot of its receive buffer */
    uint32_t length; /* bytes, with the GRH */
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
    unsigned srq_depth;    /* capacity in buffers */
    unsigned srq_used;     /* buffers created for the SRQ; control lock */
    unsigned srq_spare;    /* buffers not reserved for a lane; control lock */
    unsigned num_am_lanes; /* lanes whose credits use the SRQ; control lock */
    unsigned srq_short;    /* credits without a buffer, because the sum of
                            * the windows exceeds the SRQ; control lock,
                            * atomic for readers without it */
    unsigned srq_back;     /* atomic: returned buffers to be added to
                            * srq_spare */
    mrail_rx_chunk_t *chunks; /* all chunks; a device cannot return buffers
                               * from an SRQ */
    /* The port reports that it is down; control lock, atomic for readers
     * without it. */
    int port_down;
    /* The device is lost for good; control lock, atomic for readers without
     * it. */
    int fatal;
    /* Outages; see conn/rail_error.c. Control lock. */
    int outage;              /* the rail carries nothing */
    mrail_ns_t outage_ns;    /* time at which an outage begins if the port stays
                              * down; 0: the port is up, or there is an
                              * outage */
    unsigned num_retired;    /* paths to different peers retired since anything
                              * last got through */
    mrail_ns_t alive_ns;     /* time when something last got through */
    mrail_ns_t sample_ns;    /* time when a sample of paths was probed; 0: no
                              * sample since anything last got through */
    unsigned num_visited;    /* lanes visited in search of a sample */
    unsigned num_unnotified; /* lanes not yet notified of the outage */
    unsigned num_probers;    /* paths that probe for the end of the outage */
    mrail_list_t lanes;      /* lanes with a QP on the rail */
    unsigned num_lanes;      /* number of entries in `lanes` */
    mrail_list_t affected;   /* paths that wait for the rail */
    /* Capacity of the port; engine_lock; `attr` holds the first value. */
    uint64_t speed_bps;
    mrail_ns_t speed_ns; /* time of the last query of speed_bps; engine_lock */
    int no_qp_warned;    /* control: the user was warned that a lane got no
                          * QP or receive buffer */
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
    uint64_t carried;       /* control: bytes of ended lanes */
    uint64_t work[2];       /* data: bytes of completed chunks of all lanes:
                             * PUTs, GETs */
    uint8_t ports_fixed;    /* control: connected QPs keep their source ports */
    unsigned max_chunks;    /* data: limit of num_chunks that keeps the CQ
                             * from overflowing */
    uint8_t is_software;    /* the processor moves the bytes */
    unsigned max_rd_atomic; /* READs that a QP may have in flight */
    unsigned max_dest_rd_atomic; /* READs from the peer that a QP serves at
                                  * once */
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
                            * time; 0: some are free */
    int ud_failed;         /* the QP is in the error state */
    int ud_pause;          /* the last message took long, and other threads
                            * want the lock */
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

/* Returns the number of buffers in the SRQ that are not reserved for a lane.
 * Control lock held. */
static inline unsigned mrail_rail_spare(mrail_rail_t *rail)
{
    rail->srq_spare +=
        __atomic_exchange_n(&rail->srq_back, 0, __ATOMIC_RELAXED);
    return rail->srq_spare;
}

/* Polls a batch into rail->wc, whose completions must all have been handled.
 * Returns the result of ibv_poll_cq(). Data-path lock held. */
static inline MRAIL_DATA int mrail_rail_poll(mrail_rail_t *rail)
{
    int n = ibv_poll_cq(rail->cq, MRAIL_POLL_BATCH, rail->wc);

    rail->next_wc = 0;
    rail->num_wc = (n > 0) ? (unsigned)n : 0;
    rail->num_polled += rail->num_wc;
    rail->num_emptied += (n < MRAIL_POLL_BATCH);
    return n;
}

/* Opens the port of `attr`, which discovery has selected. */
int mrail_rail_open(mrail_rail_t *rail, unsigned index,
                    const mrail_rail_attr_t *attr,
                    const mrail_config_t *config);

void mrail_rail_close(mrail_rail_t *rail);

/* Allocates and registers a group of receive buffers, `size` bytes in total.
 * Because the device may hold some of them, only mrail_rail_free_buffers()
 * frees them. Returns NULL with errno set on failure. */
const mrail_rx_chunk_t *mrail_rail_add_chunk(mrail_rail_t *rail, size_t size);

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

/* Returns 1 if rail->wc has completions to handle. Data-path lock held. */
int mrail_rail_fetch(mrail_rail_t *rail) MRAIL_DATA;

/* Returns 1 if all completions that were in the CQ at the first call with this
 * mark have been handled. The CQ need not be empty, because further completions
 * may keep arriving. It is enough if a poll has since emptied it, or if as many
 * completions as it can hold have been polled. Data-path lock held. */
int mrail_rail_is_drained(mrail_rail_t *rail, mrail_cq_mark_t *mark) MRAIL_DATA;

/* Fills in the rail's part of a HELLO. */
void mrail_rail_describe(const mrail_rail_t *rail, mrail_wire_rail_t *wire);

/* Reads speed_bps from the device. Leaves it unchanged if the device does not
 * report it. */
void mrail_rail_query_speed(mrail_rail_t *rail);

/* Returns 1 if the device reports that the port is up. */
int mrail_rail_is_up(const mrail_rail_t *rail);

/* Looks up the GID again, because it may have another index after the port
 * comes back. Returns 1 if the index has changed, in which case address handles
 * and QPs must be created again. Control lock held. */
int mrail_rail_find_gid(mrail_rail_t *rail) MRAIL_CTL;

#endif
