/*
 * Work in flight: active messages until they are acknowledged (mrail_tx_t), RMA
 * operations (mrail_op_t) and their chunks (mrail_chunk_t), flushes and fences
 * (mrail_flush_t). Data path only.
 */
#ifndef MRAIL_RAIL_OP_H
#define MRAIL_RAIL_OP_H

#include "rail/peer.h"

/* A completion that waits for its iface's own progress call. */
typedef enum mrail_done_kind {
    MRAIL_DONE_OP,
    MRAIL_DONE_FLUSH
} mrail_done_kind_t;

typedef struct mrail_done {
    mrail_list_t list; /* iface->done */
    mrail_iface_t *iface;
    void *comp;     /* NULL: the caller wants no callback */
    uint64_t ep_id; /* of the endpoint that waits for it; 0: none */
    int status;
    mrail_done_kind_t kind;
} mrail_done_t;

/* An active message, kept until the peer has acknowledged it, so that it can be
 * replayed over another rail. */
typedef struct mrail_tx {
    mrail_list_t list; /* peer->unacked */
    mrail_list_t
        replay; /* peer->replay_am, if its lane failed before it arrived */
    mrail_mem_t *mem; /* registration of this element */
    mrail_pool_t *pool;
    mrail_lane_t *lane;
    uint32_t seq;
    uint16_t number;       /* lane->am_sent before it */
    uint32_t length;       /* bytes on the wire */
    mrail_data_hdr_t *hdr; /* wire image; the payload follows it */
} mrail_tx_t;

typedef enum mrail_op_kind {
    MRAIL_OP_PUT, /* the first two are indices of lane->work */
    MRAIL_OP_GET,
    MRAIL_OP_VISIBLE
} mrail_op_kind_t;

/* A position in an operation's memory. */
typedef struct mrail_cursor {
    unsigned index; /* of the iov */
    size_t offset;  /* in it, bytes */
} mrail_cursor_t;

typedef struct mrail_op {
    mrail_done_t done;
    mrail_list_t list;  /* peer->ops */
    mrail_list_t uncut; /* peer->uncut */
    mrail_peer_t *peer;
    uint64_t id;
    mrail_op_kind_t kind;
    int status;       /* 0, or -EIO: a device refused some of it for good */
    int whole;        /* one lane carries all of it */
    int cancelled;    /* ends when the devices have returned its chunks */
    unsigned pending; /* chunks posted and not complete */
    size_t left;      /* bytes not posted */
    unsigned iov_count;
    mrail_cursor_t cursor; /* first byte not posted */
    mrail_iov_t iov[MRAIL_MAX_IOV];
    uint64_t remote_address;   /* of its first byte */
    struct mrail_flush *flush; /* the flush that waits for it, or NULL */
    const mrail_rkey_t *rkey;
    mrail_rkey_t own_rkey; /* key of a buffered form that has to wait */
    mrail_tx_t *bounce;    /* buffer of the bcopy forms */
    mrail_unpack_func_t unpack;
    void *unpack_arg;
    size_t length;
} mrail_op_t;

/* The part of an operation that one work request carries. */
typedef struct mrail_chunk {
    mrail_list_t
        list; /* lane->flying; on failure lane->lost, then peer->replay_rma
                        * or peer->arrived */
    mrail_op_t *op;
    mrail_lane_t *lane;
    uint32_t sq_index; /* lane->sq_posted after it */
    uint32_t length;
    uint16_t am_number; /* lane->am_sent before it */
    uint64_t offset;    /* in the operation, bytes */
    mrail_ns_t post_ns;
} mrail_chunk_t;

typedef enum mrail_flush_kind {
    MRAIL_FLUSH_KIND_FLUSH,
    MRAIL_FLUSH_KIND_FENCE,
    MRAIL_FLUSH_KIND_CANCEL /* waits for the operations of an endpoint */
} mrail_flush_kind_t;

typedef struct mrail_flush_group {
    mrail_done_t done;
    unsigned count; /* members not finished */
} mrail_flush_group_t;

/* Complete when AMs before am_seq are acknowledged, operations up to op_id are
 * complete, and their writes are visible on every rail. */
typedef struct mrail_flush {
    mrail_list_t list; /* peer->flushes_pending */
    mrail_flush_kind_t kind;
    int last_stage;  /* all bytes arrived; visibility is still open */
    uint64_t unseen; /* slots that still need a READ for visibility */
    unsigned reads;  /* ... READs in flight */
    uint32_t am_seq;
    uint64_t op_id;
    mrail_ns_t poll_ns; /* next POLL to the peer; 0: not waiting yet */
    unsigned num_polls; /* POLLs sent; selects the rail pair of the next */
    mrail_flush_group_t *group; /* NULL for a fence */
} mrail_flush_t;

/* ---- am.c ---- */
void mrail_am_recv(mrail_engine_t *engine, mrail_rx_t *rx,
                   const struct ibv_wc *wc);
void mrail_am_request_ack(mrail_peer_t *peer);
/* Requests the credits that the peer does not need. Not again before something
 * was received on the lane. */
void mrail_am_recall_lane(mrail_engine_t *engine, mrail_lane_t *lane);
/* The lane is in use again: reports what became free meanwhile. */
void mrail_am_restored(mrail_lane_t *lane);
/* A pending answer moves to the lane that is the first one now. */
void mrail_am_add_pending_reply(mrail_peer_t *peer);
void mrail_am_send_acks(mrail_engine_t *engine);
void mrail_am_fail(mrail_peer_t *peer);
/* Moves undelivered messages of the lane to the peer, for the replay. */
void mrail_am_take_lost(mrail_lane_t *lane);
/* Resends messages as far as there are credits. */
void mrail_am_replay(mrail_peer_t *peer);

/* ---- rma.c ---- */
/* Posts what the lanes have room for. */
void mrail_rma_pump(mrail_peer_t *peer, mrail_ns_t now_ns);
/* The same on each poll, if there may be room. */
void mrail_rma_poll(mrail_peer_t *peer, mrail_ns_t now_ns);
void mrail_rma_chunk_done(mrail_chunk_t *chunk, int status, mrail_ns_t now_ns);
/* A READ that makes the lane's writes visible, for `flush` (NULL: for none): 0 or
 * -EAGAIN. */
int mrail_rma_post_read(mrail_lane_t *lane, mrail_flush_t *flush,
                        mrail_ns_t now_ns);
/* Posts a READ on every lane with writes of unknown visibility: 1 if all are
 * posted. */
int mrail_rma_post_visible(mrail_peer_t *peer, mrail_flush_t *flush,
                           mrail_ns_t now_ns);
/* The lane's device returns nothing any more: all requests count as undone. */
void mrail_rma_abandon(mrail_lane_t *lane, mrail_ns_t now_ns);
/* Moves undelivered chunks of the lane to the peer, for the replay. */
void mrail_rma_take_lost(mrail_lane_t *lane);
/* Completes operations that mrail_rma_take_lost() found at the peer. Callbacks
 * run: the data-path lock is the only one that may be held. */
void mrail_rma_finish_arrived(mrail_peer_t *peer);
/* The device of an end refuses the operation, and would do so on any lane. The
 * operation and the endpoints of its iface to the peer fail; other operations go
 * on. */
void mrail_rma_reject(mrail_op_t *op, const char *cause);
/* Replays chunks as far as there is room. */
void mrail_rma_replay(mrail_peer_t *peer, mrail_ns_t now_ns);
void mrail_rma_fail(mrail_peer_t *peer, int status);
/* The operations of the endpoint end with -ECANCELED: now, or when the devices
 * have returned their chunks. Calls no callback. */
void mrail_rma_cancel(mrail_ep_t *ep);
/* 1 if an operation of the endpoint has not ended. */
int mrail_rma_has_ep(const mrail_peer_t *peer, uint64_t ep_id);
/* The operation's peer may be freed already. */
void mrail_op_release(mrail_engine_t *engine, mrail_op_t *op);

/* ---- flush.c ---- */
void mrail_flush_check(mrail_peer_t *peer, mrail_ns_t now_ns);
void mrail_flush_fail(mrail_peer_t *peer, int status);
/* The flushes of the endpoint end with -ECANCELED, after its operations. */
void mrail_flush_cancel(mrail_ep_t *ep);
/* One reason less to hold posts back. */
void mrail_flush_open(mrail_peer_t *peer);
/* A lane failed: rewritten data needs a new visibility READ. */
void mrail_flush_again(mrail_peer_t *peer);
/* The first fence that nothing may pass; NULL: none, or its ordered lane keeps
 * the order. */
const mrail_flush_t *mrail_flush_barrier(const mrail_peer_t *peer);

/* ---- tx buffers (am.c) ---- */
mrail_tx_t *mrail_tx_get(mrail_pool_t *pool);
void mrail_tx_put(mrail_tx_t *tx);

/* ---- iface.c ---- */
/* Completes now if the iface of `done` is in progress, else in its next
 * progress call. The control lock must not be held. */
void mrail_done_finish(mrail_engine_t *engine, mrail_done_t *done, int status);
/* Completes in the next progress call of its iface. Calls no callback. */
void mrail_done_defer(mrail_engine_t *engine, mrail_done_t *done, int status);

#endif
