/*
 * Declares work in flight: active messages and small PUTs (mrail_tx_t), other
 * RMA operations (mrail_op_t) and their chunks (mrail_chunk_t), flushes and
 * fences (mrail_flush_t). The data-path lock protects all of them.
 */
#ifndef MRAIL_RAIL_STATE_OP_H
#define MRAIL_RAIL_STATE_OP_H

#include "rail/state/peer.h"

#include <stddef.h>
#include <string.h>

/* A completion that waits for a progress call of its iface. */
typedef enum mrail_done_kind {
    MRAIL_DONE_OP,
    MRAIL_DONE_FLUSH
} mrail_done_kind_t;

typedef struct mrail_done {
    mrail_list_t list; /* iface->done */
    mrail_iface_t *iface;
    void *comp;     /* NULL if the caller needs no callback */
    uint64_t ep_id; /* endpoint that waits for the completion; 0 if none */
    int status;
    mrail_done_kind_t kind;
} mrail_done_t;

/* The target of a small PUT, for its replay; see data/put.h. */
typedef struct mrail_put {
    uint64_t id; /* same number as mrail_op_t.id */
    uint64_t remote_address;
    uint64_t ep_id;    /* 0 if the PUT must not be replayed, because it was
                     * rejected or its endpoint was cancelled */
    uint32_t sq_end;   /* lane->sq_posted after this PUT */
    uint16_t iface;    /* id of its iface, which may have been destroyed */
    mrail_rkey_t rkey; /* copy: the caller may release its key */
} mrail_put_t;

/* A send buffer with an active message or a small PUT. A message is kept until
 * the peer has acknowledged it, and a PUT until it is complete, so that another
 * lane can replay (retransmit) it. */
typedef struct mrail_tx {
    mrail_am_msg_t am; /* in a PUT, `list` is an entry in lane->puts or
                        * peer->lost_puts, and `number` is lane->am.sent */
    mrail_mem_t *mem;  /* registration of this element */
    mrail_pool_t *pool;
    mrail_data_hdr_t *hdr; /* wire image of a message, followed by its
                            * payload; in a PUT: its data */
    mrail_put_t put;
} mrail_tx_t;

typedef enum mrail_op_kind {
    MRAIL_OP_PUT, /* PUT and GET are indices of lane->work */
    MRAIL_OP_GET,
    MRAIL_OP_VISIBLE
} mrail_op_kind_t;

/* A position in an operation's memory. */
typedef struct mrail_cursor {
    unsigned index; /* index in the iov */
    size_t offset;  /* bytes from the start of that entry */
} mrail_cursor_t;

typedef struct mrail_op {
    mrail_done_t done;
    mrail_list_t list;  /* peer->ops */
    mrail_list_t uncut; /* peer->uncut */
    mrail_peer_t *peer;
    uint64_t id;
    mrail_op_kind_t kind;
    int status;       /* 0, or -EIO if a device permanently rejected a part */
    int whole;        /* one lane carries the whole operation */
    int cancelled;    /* the operation ends once the devices have returned its
                       * chunks */
    unsigned pending; /* chunks that are posted and not complete */
    size_t left;      /* bytes not posted */
    unsigned iov_count;
    mrail_cursor_t cursor;     /* position of the first byte not posted */
    uint64_t remote_address;   /* address of the first byte */
    struct mrail_flush *flush; /* the flush that waits for this READ, or
                                * NULL */
    const mrail_rkey_t *rkey;
    mrail_quota_t *quota; /* NULL if there is none */
    int ignores_quota;    /* the lanes pull bytes as their windows allow */
    mrail_tx_t *bounce;   /* buffer of the bcopy forms */
    mrail_unpack_func_t unpack;
    void *unpack_arg;
    size_t length;
    mrail_iov_t iov[MRAIL_MAX_IOV];
    mrail_rkey_t own_rkey; /* copy of the key, for a buffered form that must
                            * wait */
} mrail_op_t;

/* Clears the operation, except for the arrays at its end. */
static inline void mrail_op_init(mrail_op_t *op, mrail_peer_t *peer,
                                 mrail_op_kind_t kind)
{
    memset(op, 0, offsetof(mrail_op_t, iov));
    op->done.kind = MRAIL_DONE_OP;
    mrail_list_init(&op->done.list);
    mrail_list_init(&op->uncut);
    op->peer = peer;
    op->kind = kind;
}

/* The part of an operation that one work request carries. */
typedef struct mrail_chunk {
    mrail_list_t list; /* lane->flying; after a failure lane->lost, then
                        * peer->replay_rma or peer->arrived */
    mrail_op_t *op;
    mrail_lane_t *lane;
    uint32_t sq_index; /* lane->sq_posted after this chunk */
    uint32_t length;
    uint16_t am_number; /* lane->am.sent before this chunk */
    uint64_t offset;    /* position in the operation, bytes */
    mrail_ns_t post_ns;
} mrail_chunk_t;

typedef enum mrail_flush_kind {
    MRAIL_FLUSH_KIND_FLUSH,
    MRAIL_FLUSH_KIND_FENCE,
    MRAIL_FLUSH_KIND_CANCEL /* waits for the operations of a cancelled
                             * endpoint */
} mrail_flush_kind_t;

typedef struct mrail_flush_group {
    mrail_done_t done;
    unsigned count; /* number of unfinished members, plus one while the caller
                     * adds members */
} mrail_flush_group_t;

/* Completes when AMs before am_seq are acknowledged, operations up to op_id are
 * complete, and their writes are visible on every rail. */
typedef struct mrail_flush {
    mrail_list_t list; /* peer->flushes_pending */
    mrail_flush_kind_t kind;
    int last_stage;  /* all bytes have arrived; their visibility is not known
                      * yet */
    uint64_t unseen; /* slots that still need a READ for visibility */
    unsigned reads;  /* visibility READs in flight */
    uint32_t am_seq;
    uint64_t op_id;
    mrail_ns_t poll_ns; /* time of the next POLL to the peer; 0 if it does not
                         * wait yet */
    unsigned num_polls; /* POLLs sent; selects the rail pair of the next one */
    mrail_flush_group_t *group; /* NULL for a fence */
} mrail_flush_t;

static inline mrail_tx_t *mrail_tx_get(mrail_pool_t *pool)
{
    return mrail_pool_get(pool);
}

static inline void mrail_tx_put(mrail_tx_t *tx)
{
    mrail_pool_put(tx->pool, tx);
}

#endif
