/*
 * A lane is an RC connection between two processes over a pair of rails, with
 * its UDP source port. docs/architecture.md shows the owner of each field. The
 * control thread writes "control" fields under the control lock. "Data" fields
 * are accessed under the data-path lock.
 *
 * Invariant: a lane's QP is in the engine's lane table before it can receive.
 */
#ifndef MRAIL_RAIL_STATE_LANE_H
#define MRAIL_RAIL_STATE_LANE_H

#include "rail/proto/am_stream.h"
#include "rail/proto/lane_state.h"
#include "rail/proto/port_move.h"
#include "rail/proto/sched.h"
#include "rail/verbs/rail.h"

typedef struct mrail_peer mrail_peer_t;
typedef struct mrail_lane mrail_lane_t;

/* A receive buffer of a rail's SRQ. It belongs to the device, to a reorder
 * queue or to an iface's inbox. A copy in an inbox has no rail and no lane. */
typedef struct mrail_rx {
    mrail_am_arrival_t am; /* entry of peer->am.hold or iface->inbox */
    mrail_rail_t *rail;    /* NULL for a copy on the heap, in one inbox */
    mrail_lane_t *lane;    /* lane on which the message arrived */
    mrail_data_hdr_t *hdr;
    uint32_t length;    /* bytes after the data header */
    uint8_t orphan;     /* the lane is gone, and no lane counts the buffer */
    struct ibv_sge sge; /* used by the device; filled in once */
    struct ibv_recv_wr wr;
} mrail_rx_t;

/* Chunks that a lane has completed, for comparisons of paths. */
typedef struct mrail_lane_work {
    uint64_t bytes;
    uint64_t busy_ns; /* time with chunks in flight, as in telemetry/window.h */
} mrail_lane_work_t;

/* The AMs since the last record of the trace ring; see state/record.h. */
typedef struct mrail_lane_batch {
    mrail_ns_t post_ns;  /* when the last AM of the batch was posted; 0 if its
                          * completion has not been requested yet */
    uint32_t sq_end;     /* lane->sq_posted after that AM */
    uint16_t am_begin;   /* lane->am.sent before the batch */
    uint16_t am_end;     /* lane->am.sent after it */
    uint64_t byte_begin; /* lane->am_carried before the batch */
    uint64_t byte_end;   /* lane->am_carried after it */
} mrail_lane_batch_t;

struct mrail_lane {
    mrail_sched_lane_t sched; /* data: load and speed, for RMA */
    mrail_am_lane_t am;       /* data: credits; control before the lane is up */

    /* data: send queue */
    struct ibv_qp *qp;
    uint32_t qpn;       /* number of `qp`, or 0; atomic for readers without
                         * the lock */
    uint32_t sq_posted; /* work requests posted since creation */
    uint32_t sq_done;   /* work requests known to be complete */
    uint32_t sq_depth;
    uint32_t unsignalled; /* work requests since the last signalled one */
    uint32_t max_inline;  /* bytes */
    uint32_t tx_tag;      /* tag of sent headers */
    uint32_t rx_tag;      /* tag of received headers */

    uint16_t large[MRAIL_FLOWS]; /* data: chunks in flight, for rail->flows */
    uint16_t reads;              /* data: visibility READs in flight */
    uint8_t properties;          /* atomic: properties of `state`, for
                                  * threads without the control lock */
    uint8_t held;                /* data: takes no chunks while the peer moves
                                  * it; see conn/move_lane.c. It may be evicted
                                  * in this time, so this is not a state. */
    uint8_t uplink_down;         /* data: takes no chunks, because the uplink of
                                  * its data is down; see
                                  * mrail_ep_set_uplinks() */
    mrail_cq_mark_t last_cqe;    /* data: position after the last completion
                                  * of the QP */
    mrail_list_t ack_list;    /* data: entry in engine->acks while the lane owes
                               * a message */
    uint64_t am_carried;      /* data: bytes of AMs sent. Kept apart from
                               * am.inflight: gcc would otherwise add both as a
                               * vector, with more instructions */
    uint64_t rma_carried;     /* data: bytes of PUTs and GETs completed */
    mrail_lane_batch_t batch; /* data: AMs of the next record */
    uint64_t record_tail;     /* data: the last word of a record, without length
                               * and kind; see state/record.h */

    mrail_lane_work_t work[2]; /* data: completed PUTs, completed GETs */

    mrail_peer_t *peer;
    mrail_rail_t *rail;
    mrail_list_t rail_list; /* control: entry in rail->lanes while there is a
                             * QP */
    uint16_t index;         /* index in the engine's lane table */
    uint32_t last_qpn; /* number of the last QP, for statistics; remains after
                        * the QP is destroyed */
    uint16_t slot;     /* number among the peer's lanes */
    uint16_t epoch;    /* agreed by both ends; the initiator chooses it */
    uint16_t sport;
    unsigned uplink;  /* with port rules: uplink of the peer's leaf that its
                       * source port selects */
    uint64_t nominal; /* bytes/s of the port, divided among its lanes */
    uint8_t remote_rail;

    /* control */
    mrail_lane_state_t state;
    uint32_t psn;
    uint32_t request; /* sequence number of the pending request */
    unsigned tries;
    mrail_ns_t deadline_ns; /* time of the next retransmission */
    mrail_port_move_t move; /* a moving lane stays in use, and may be
                             * evicted; see conn/move_lane.c */

    unsigned buffers;  /* buffers of the SRQ reserved for the lane; fewer
                        * than its window and reserve if the SRQ is too small
                        * for all lanes */
    unsigned unbacked; /* buffers missing from that reserve */

    /* eviction; see recovery/evict.c */
    uint64_t used;           /* data: engine->total_events at the last post;
                              * atomic */
    uint64_t used_at_search; /* control: value of `used` at the last search */
    /* data: values at the last check of recovery/stall_detect.c */
    uint32_t stall_done;  /* sq_done */
    uint16_t stall_am;    /* am_sent */
    uint16_t pinged_am;   /* am_sent when a READ last followed the messages */
    unsigned still;       /* consecutive checks without a completion */
    unsigned still_limit; /* value of `still` that makes the path suspect */
    uint64_t stalled_ns;  /* total time with work outstanding and no
                           * completion */
    uint64_t idle_ns;     /* total time without outstanding work while another
                           * lane worked */

    /* Flags besides the state. Each may change in several states, or outlives a
     * state. Owner: control, unless noted otherwise. */
    uint8_t evict_forced; /* a peer's only lane needs the QP, so this lane must
                           * be evicted */
    uint8_t last_read;    /* data: the last request of an eviction is posted */
    uint8_t drained;      /* data: the last request of a QP in the error state
                           * is posted */
    uint8_t last_wqe;     /* atomic: the QP uses no more receive buffers */
    uint8_t confirm_wanted; /* the peer's FAIL awaits an answer */
    uint8_t greeted;        /* HELLO was sent, and LANE_REQ must follow it */

    /* failover; see recovery/failover.c */
    mrail_list_t flying; /* data: mrail_chunk_t in flight */
    mrail_list_t puts; /* data: small PUTs (mrail_tx_t) in flight, in the order
                          * of their posts; see data/put.h */
    mrail_list_t lost; /* data: chunks that the lane returned without
                          * completing them */
    mrail_ns_t close_ns; /* control: time when the QP entered the error state */
    uint64_t qp_serial;  /* control: serial number of `qp`, whose lower 16
                          * bits are `index`; never reused in
                          * this engine; identifies the QP of an event */
    mrail_ns_t validation_ns; /* control: start of the validation */
    /* Control: number of AMs that arrived at the peer, modulo 2^16. */
    uint16_t peer_has;
    uint32_t peer_request; /* control: sequence number of the peer's EVICT
                            * or FAIL */
    uint32_t peer_refused; /* control: sequence number of the last EVICT
                            * that was refused; 0 if none was */
};

/* Returns 1 if the state of the lane has a property (proto/lane_state.h). */
static inline int mrail_lane_is(const mrail_lane_t *lane, unsigned property)
{
    return (__atomic_load_n(&lane->properties, __ATOMIC_RELAXED) & property) !=
           0;
}

static inline unsigned mrail_lane_sq_free(const mrail_lane_t *lane)
{
    return lane->sq_depth - (lane->sq_posted - lane->sq_done);
}

/* The wr_id of a completion is the address of a chunk, a lane's marker, or the
 * address of a receive buffer with MRAIL_WR_RECV. The opcode cannot distinguish
 * them, because it is valid only in successful completions. */
#define MRAIL_WR_MARKER 1ull
#define MRAIL_WR_RECV 2ull

static inline uint64_t mrail_lane_marker(const mrail_lane_t *lane)
{
    return ((uint64_t)lane->sq_posted << 24) | ((uint64_t)lane->index << 8) |
           MRAIL_WR_MARKER;
}

typedef struct mrail_engine mrail_engine_t;

#endif
