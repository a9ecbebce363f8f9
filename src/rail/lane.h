/*
 * A lane: one RC QP between two peer processes on a pair of rails, with its UDP
 * source port. docs/architecture.md shows the owner of each field. The control
 * thread writes "control" fields under the control lock. "Data" fields belong
 * to the data path (under the data-path lock).
 *
 * Invariant: a lane's QP is in the engine's lane table before it can receive.
 */
#ifndef MRAIL_RAIL_LANE_H
#define MRAIL_RAIL_LANE_H

#include "base/list.h"
#include "rail/rail.h"
#include "rail/sched.h"

/* Receive buffers per lane beyond its credits, for messages that take no
 * credit. A credit update follows every half window. A peer that has not read
 * the updates cannot send more than one window: that makes two. Besides, each
 * end has at most one ACK_REQ and one answer in flight, on any lane that
 * carries messages. Their buffers return as soon as they are read. Updates of a
 * grown window and requests of failed lanes may exceed this; the NIC then
 * retries. */
#define MRAIL_CREDIT_UPDATE_RESERVE 2
#define MRAIL_ACK_RESERVE 2
/* A RECALL. Another one follows only if the lane was used meanwhile. A RETURN
 * takes a buffer of the credits that it returns. */
#define MRAIL_RECALL_RESERVE 1

/* Credits of a window that only replayed messages may take. */
#define MRAIL_REPLAY_CREDITS 1

typedef enum mrail_lane_state {
    MRAIL_LANE_IDLE,       /* no QP */
    MRAIL_LANE_CONNECTING, /* LANE_REQ sent, waits for LANE_REP */
    MRAIL_LANE_ACCEPTING,  /* LANE_REP sent, waits for LANE_READY or data */
    MRAIL_LANE_UP,
    MRAIL_LANE_EVICTING, /* released at this end; the peer must follow */
    MRAIL_LANE_CLOSING,  /* the QP is in error; see failover.c */
    MRAIL_LANE_FAILED,   /* ... and the peer is given up */
    MRAIL_LANE_STATES
} mrail_lane_state_t;

typedef struct mrail_peer mrail_peer_t;
typedef struct mrail_lane mrail_lane_t;

/* A receive buffer of a rail's SRQ. It belongs to the device, to a reorder
 * queue or to an iface's inbox. A copy in an inbox has no rail and no lane. */
typedef struct mrail_rx {
    mrail_list_t list;
    mrail_rail_t *rail; /* NULL: a copy on the heap, for one inbox */
    mrail_lane_t *lane; /* on which it arrived */
    mrail_data_hdr_t *hdr;
    uint32_t length;    /* bytes after the data header */
    uint8_t orphan;     /* its lane has gone: no lane counts on it */
    struct ibv_sge sge; /* for the device, made once */
    struct ibv_recv_wr wr;
} mrail_rx_t;

/* Chunks done by a lane, for comparisons of paths. */
typedef struct mrail_lane_work {
    uint64_t bytes;
    uint64_t
        busy_ns; /* time with the chunks under way, as in telemetry/window.h */
} mrail_lane_work_t;

/* Shows whether requests get through before the lane is used. */
typedef enum mrail_path_validation {
    MRAIL_PATH_VALIDATION_NONE,
    MRAIL_PATH_VALIDATION_WANTED,
    MRAIL_PATH_VALIDATION_RUNS /* a READ is in flight */
} mrail_path_validation_t;

struct mrail_lane {
    mrail_sched_lane_t sched; /* data: load and speed for RMA */
    uint64_t am_inflight;     /* data: bytes of unacknowledged AMs */
    mrail_ns_t posted_ns;     /* data: of the last chunk */

    /* data: send queue */
    struct ibv_qp *qp;
    uint32_t qpn;       /* of qp, 0 without one; atomic for readers without the
                         * lock */
    uint32_t sq_posted; /* work requests ever posted */
    uint32_t sq_done;   /* known to be complete */
    uint32_t sq_depth;
    uint32_t unsignalled; /* since the last signalled one */
    uint32_t max_inline;  /* bytes */
    uint32_t tx_tag;      /* of sent headers */
    uint32_t rx_tag;      /* ... and of received headers */

    /* data: credits, in AMs, modulo 2^16 */
    uint16_t am_sent;
    uint16_t am_limit;      /* may be sent in total */
    uint16_t am_granted;    /* the peer may send in total */
    uint16_t am_received;   /* sent by the peer; at most am_granted */
    uint16_t am_advertised; /* known to the peer from our last message */

    uint16_t large[MRAIL_FLOWS]; /* data: chunks in flight, for rail->flows */
    uint16_t reads;              /* data: visibility READs in flight */
    uint8_t credit_blocked;      /* data: a message had to wait for credits */
    uint8_t am_lane;             /* carries active messages */
    uint8_t credit_updates;      /* data: credit-only messages */
    uint32_t am_length;          /* data: bytes of the last received AM */
    uint8_t recall_due;          /* data: the peer must return idle credits */
    uint8_t return_due;          /* data: the peer wants idle credits back */
    uint8_t was_recalled;        /* data: nothing was received since a RECALL */
    uint16_t recall_received; /* data: am_received at the last search for idle
                                  * credits */
    uint8_t out;              /* data: taken out of use */
    uint8_t leaving;          /* data: takes no new work, to be taken out */
    uint8_t drained;          /* data: the last request of a QP in error is
                             * posted */
    mrail_cq_mark_t last_cqe; /* data: behind the last completion of the QP */
    mrail_list_t ack_list; /* data: on engine->acks while it owes a message */
    uint64_t carried;      /* data: bytes of AMs sent, PUTs and GETs done. Not
                             * next to am_inflight: gcc would add both as a
                             * vector, in more instructions */

    mrail_lane_work_t work[2]; /* data: of PUTs and of GETs */

    mrail_peer_t *peer;
    mrail_rail_t *rail;
    uint16_t index;    /* in the engine's lane table */
    uint32_t last_qpn; /* of qp, also after its end; for statistics */
    uint16_t slot;     /* among the peer's lanes */
    uint16_t epoch;    /* agreed; the initiator's choice */
    uint16_t remote_index;
    uint16_t sport;
    uint8_t remote_rail;

    /* control */
    mrail_lane_state_t state;
    uint32_t psn;
    uint32_t request; /* sequence number of the pending request */
    unsigned tries;
    mrail_ns_t deadline_ns; /* of the next retransmission */
    mrail_ns_t move_ns;  /* a move to move_sport ends by then; 0: none is under
                         * way; see move_lane.c */
    mrail_ns_t moved_ns; /* begin of the last move */
    uint16_t move_sport;
    uint16_t undo_sport; /* before the last move; 0: none, or it is undone */
    uint32_t undo_seq;   /* of the MOVE that asked for it; 0: our decision */
    uint8_t greeted;     /* ... its HELLO has been sent already */

    unsigned credits;  /* receive buffers for the peer's AMs; control
                                before the lane is up, then data */
    unsigned buffers;  /* of the SRQ, reserved for the lane; fewer than credits
                       * and reserve if the SRQ is too small for all lanes */
    unsigned unbacked; /* ... the buffers that are missing then */

    /* eviction; see evict.c */
    uint64_t used;           /* data: engine->total_events at the last post;
                              atomic */
    uint64_t used_at_search; /* control: ... at the last search */
    uint8_t idle;            /* control: ... unused since then */
    uint8_t evict_local;     /* control: this end evicts it */
    uint8_t evict_remote;    /* control: the peer evicts it */
    uint8_t evict_forced;    /* control: ... for a first lane: it must go */
    uint8_t reap;            /* control: both ends have released it */
    uint8_t last_read;       /* data: its final request is posted */
    /* data: values at the last check of stall_detect.c */
    uint32_t stall_done;  /* sq_done */
    uint16_t stall_am;    /* am_sent */
    uint16_t pinged_am;   /* ... when a READ followed it */
    unsigned still;       /* checks in a row without a completion ... */
    unsigned still_limit; /* ... that make its path suspect */
    uint64_t stalled_ns;  /* ... time with work outstanding, in total */
    uint64_t idle_ns;     /* time with nothing outstanding, while a lane
                          * worked */

    /* failover; see failover.c */
    mrail_list_t flying; /* data: mrail_chunk_t in flight */
    mrail_list_t lost;   /* data: ... that came back undone */
    mrail_ns_t close_ns; /* control: the QP is in error since then */
    uint64_t qp_serial;  /* control: of qp, never reused in this engine;
                          * identifies the QP of an event */
    uint8_t half;        /* control: the device did not connect it */
    mrail_path_validation_t validation; /* control: on a path that had failed */
    mrail_ns_t validation_ns;           /* ... since then */
    uint8_t last_wqe;  /* atomic: the device has reported that it takes no
                            * more receive buffers */
    uint8_t closed;    /* control: nothing can arrive at this end any
                            * more */
    uint8_t confirmed; /* control: ... nor at the peer ... */
    uint16_t
        peer_has; /* ... and the number of AMs that arrived there, modulo 2^16 */
    uint8_t confirm_wanted; /* control: the peer asks for our number */
    uint32_t peer_request;  /* control: sequence number of the peer's EVICT or
                            * FAIL */
    uint32_t peer_refused;  /* control: its last refused one */
    int has_refused;
};

static inline unsigned mrail_lane_sq_free(const mrail_lane_t *lane)
{
    return lane->sq_depth - (lane->sq_posted - lane->sq_done);
}

static inline unsigned mrail_lane_credits(const mrail_lane_t *lane)
{
    return (uint16_t)(lane->am_limit - lane->am_sent);
}

/* wr_id of a completion: the address of a chunk, a lane's marker, or the
 * address of a receive buffer with MRAIL_WR_RECV. The opcode of a completion
 * cannot distinguish them: it is valid only for successful ones. */
#define MRAIL_WR_MARKER 1ull
#define MRAIL_WR_RECV 2ull

static inline uint64_t mrail_lane_marker(const mrail_lane_t *lane)
{
    return ((uint64_t)lane->sq_posted << 24) | ((uint64_t)lane->index << 8) |
           MRAIL_WR_MARKER;
}

/*
 * Posts one work request. The caller has checked mrail_lane_sq_free(). Some AM
 * sends and acknowledgements are signalled, to show that the queue has drained.
 * 0 or -errno of ibv_post_send(3): a lane event.
 */
int mrail_lane_post(mrail_lane_t *lane, struct ibv_send_wr *wr);

/* For a QP in error: posts a request. When it completes, all requests before it
 * are complete, also unsignalled successful ones. Call it until sq_done equals
 * sq_posted. Under the data-path lock. */
void mrail_lane_drain(mrail_lane_t *lane);

/* Moves the QP to the error state, so that it sends and receives nothing more. If the
 * device refuses, the QP is destroyed; its completions so far stay in the CQ. Under
 * both locks. */
void mrail_lane_stop(mrail_lane_t *lane);

/* Control side: creates, connects and ends the QP. Under the control lock. */
typedef struct mrail_engine mrail_engine_t;

int mrail_lane_create_qp(mrail_engine_t *engine, mrail_lane_t *lane,
                         mrail_rail_t *rail);
void mrail_lane_destroy_qp(mrail_engine_t *engine, mrail_lane_t *lane);
/* Ends the QP for good and frees its place in the lane table. The lane itself
 * stays, for messages and statistics that name it. */
void mrail_lane_end(mrail_engine_t *engine, mrail_lane_t *lane);
/* Ends and frees the lane, which must have nothing in flight. If the lane was
 * ever connected: under the data-path lock. */
void mrail_lane_release(mrail_engine_t *engine, mrail_lane_t *lane);
/* Adds receive buffers for `count` more messages of the peer: 0 or -errno. */
int mrail_lane_add_buffers(mrail_engine_t *engine, mrail_lane_t *lane,
                           unsigned count);
/* The window of the lane becomes smaller by `count` messages. */
void mrail_lane_return_buffers(mrail_lane_t *lane, unsigned count);
int mrail_lane_connect(mrail_engine_t *engine, mrail_lane_t *lane,
                       const mrail_wire_lane_t *remote,
                       const mrail_wire_rail_t *remote_rail);

/* The only writer of the state: checks that the move is legal and logs it. */
void mrail_lane_set_state(mrail_lane_t *lane, mrail_lane_state_t state,
                          const char *cause);
const char *mrail_lane_state_name(mrail_lane_state_t state);

#endif
