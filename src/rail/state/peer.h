/*
 * Declares a peer process with its rails, its lanes, and its streams and
 * operations. Endpoints of all ifaces share it.
 *
 * A progress call frees the peer with its lanes and address handles. Before
 * that, the peer must have shut down or failed, its last endpoint must have
 * been destroyed, and the devices must have returned all requests. The engine
 * remembers its id, because datagrams may arrive late.
 */
#ifndef MRAIL_RAIL_STATE_PEER_H
#define MRAIL_RAIL_STATE_PEER_H

#include "base/hash.h"
#include "base/heap.h"
#include "rail/proto/health.h"
#include "rail/proto/port_return.h"
#include "rail/state/lane.h"
#include "rail/proto/pairing.h"
#include "rail/state/mem.h"

/* Visits the peer's lanes, as `_lane`. `break` acts like `continue`. */
#define mrail_for_each_lane(_lane, _peer)                                      \
    for (unsigned _i = 0; _i < (_peer)->slot_limit; ++_i)                      \
        for (mrail_lane_t *_lane = mrail_peer_lane(_peer, _i); _lane != NULL;  \
             _lane = NULL)

/* Visits the slots of the mask, as `_slot`. `break` acts like `continue`. */
#define mrail_for_each_slot(_slot, _mask)                                      \
    for (uint64_t _left = (_mask); _left != 0; _left &= _left - 1)             \
        for (unsigned _slot = (unsigned)__builtin_ctzll(_left), _go = 1; _go;  \
             _go = 0)

typedef enum mrail_peer_state {
    MRAIL_PEER_NEW,   /* no message was sent yet */
    MRAIL_PEER_HELLO, /* HELLO was sent; HELLO_REP is awaited */
    MRAIL_PEER_KNOWN, /* rails are known; lanes may be requested */
    MRAIL_PEER_GONE   /* the peer sent BYE, or was given up */
} mrail_peer_state_t;

/* The last epoch of a closed lane. It is kept for late messages, and for a peer
 * that does not know yet that the lane is closed. */
typedef struct mrail_prev_epoch {
    uint8_t known;
    uint16_t epoch;
    uint16_t received; /* number of AMs that had arrived */
} mrail_prev_epoch_t;

/* An address handle for datagrams, and the UDP source port that it selects. */
typedef struct mrail_handle {
    struct ibv_ah *ah; /* NULL if none */
    uint16_t sport;
} mrail_handle_t;

/* Number of consecutive unanswered probes that retires a path. An answer to any
 * of them counts. */
#define MRAIL_PATH_PROBES 3

/* Upper bound of patience_ns. A path that does not answer within this time is
 * retired. */
#define MRAIL_PATH_PATIENCE_MAX (400 * MRAIL_NS_PER_MS)

typedef struct mrail_path {
    mrail_health_t health;
    uint32_t probes[MRAIL_PATH_PROBES]; /* sequence numbers of the last
                                         * unanswered probes */
    uint8_t num_probes;                 /* number of entries in `probes` */
    uint8_t blocked;     /* the next probe waits for a send buffer */
    uint16_t sport;      /* UDP source port of the path's last lane; 0 if
                          * there was none */
    unsigned turn;       /* number of times that `sport` was replaced; see
                          * mrail_path_next_port() */
    uint32_t return_seq; /* number of the unanswered probe from the path's own
                          * port; 0 if there is none */
    mrail_port_return_t port_return; /* when the path returns to its own port */
    uint32_t move_seq;      /* newest MOVE or MOVE_BACK of the peer, or 0 */
    mrail_handle_t handle;  /* handle for probes */
    unsigned handle_pair;   /* rail pair of `handle` */
    unsigned stalls;        /* recent stalls; each one allows more ticks before
                             * the next suspicion */
    mrail_ns_t stall_ns;    /* time of the last stall */
    mrail_ns_t patience_ns; /* time allowed for an answer on a path that is
                             * slow but works; see recovery/stall_detect.c */
    mrail_ns_t suspect_ns;  /* start of the last suspicion */
    mrail_ns_t probe_ns;    /* time of the last probe */
    unsigned compared;      /* probes of this suspicion that were lost while
                             * another path worked */
    uint16_t moves;         /* moves of its lanes to other source ports, at
                             * most UINT16_MAX */
    uint8_t restore;        /* a lane may be requested although the path is
                             * not up */
    const char *cause;      /* the last event that was not a deadline */
    mrail_peer_t *peer;
    mrail_list_t affected; /* entry in rail->affected while the path waits
                             * for its rail */
    uint8_t prober;        /* the path probes its rail during an outage */
} mrail_path_t;

#define MRAIL_BOOTS (1 + MRAIL_ADDR_MORE_IPV4) /* rails in an address */

/* A peer's rail, as named in its address. */
typedef struct mrail_boot {
    mrail_wire_boot_t to;
    uint64_t subnet;
    mrail_handle_t handles[MRAIL_MAX_RAILS]; /* from each local rail */
} mrail_boot_t;

struct mrail_peer {
    mrail_engine_t *engine;
    uint64_t id;
    uint64_t cookie;   /* proves to the peer that this end knows its address */
    mrail_list_t list; /* entry in engine->peers; control lock */
    mrail_hash_node_t by_id; /* entry in engine->peers_by_id; control lock */

    /* ---- control: under the control lock ---- */
    mrail_peer_state_t state;
    unsigned num_boots;  /* 0 if no address is known */
    mrail_boot_t *boots; /* [num_boots]; NULL once the rails are known */
    uint8_t gid[16];     /* GID of the first rail in the peer's address */
    unsigned num_rails;
    mrail_wire_rail_t *rails; /* [num_rails]; this and the other arrays are
                               * in `tables` */
    unsigned num_pairs;
    mrail_rail_pair_t *pairs;     /* [num_pairs] */
    mrail_handle_t *pair_handles; /* [num_pairs] */
    void *tables;                 /* NULL if the rails are not known yet */
    size_t table_bytes;
    uint64_t bye_mask;   /* pairs over which BYE must still be sent, counted
                         * from the base */
    unsigned base;       /* rail pair of slot 0 */
    int based;           /* both ends agree on `base`, because a lane was up */
    unsigned num_slots;  /* total number of lanes to request; 0 if unknown */
    unsigned slot_limit; /* number of slots; the arrays have one entry for
                          * each */
    unsigned requested_slots; /* lanes of the slots below this are requested */
    unsigned turn;            /* pair whose lane is requested first */
    uint64_t refused_mask;    /* slots that must not be requested again */
    uint64_t no_space_mask;   /* slots that must not be requested before
                               * retry_ns */
    uint64_t handled_mask;    /* slots with an entry in handled_seq */
    uint32_t *handled_seq;    /* [slot_limit]: the peer's last LANE_REQ that
                               * was accepted or refused; earlier ones are
                               * ignored */
    mrail_prev_epoch_t *prev_epochs; /* [slot_limit] */
    mrail_path_t *paths;             /* [slot_limit] */
    mrail_ns_t answer_ns;            /* time of the last answered probe */
    mrail_ns_t compare_ns;           /* time when all paths were last probed */
    uint32_t compare_request;        /* sequence number of an unanswered probe
                                      * that tests no path; 0 if none */
    unsigned compare_turn;           /* selects its source port */
    mrail_ns_t moved_ns;             /* time when a lane last made progress */
    mrail_ns_t unreachable_ns; /* time since which no lane has been usable; 0 if
                                * one is usable, or none was requested yet */
    uint64_t kept_posted;    /* work requests of all lanes at the last keepalive
                           * check */
    mrail_list_t keepalive;  /* entry in engine->keepalives */
    mrail_ns_t keepalive_ns; /* time of the next keepalive check */
    unsigned reply_way;      /* pair that leads to the sender of the message
                              * being handled */
    unsigned reply_turn; /* number of requests that the peer repeated; each one
                          * suggests that the reply was lost */
    /* The highest sequence numbers of the peer's requests [0] and of its
     * LANE_REPs [1], which contain numbers of this end. */
    uint32_t newest_seq[2];
    unsigned hellos;     /* number of HELLOs of the peer that were answered */
    unsigned reconnects; /* lane requests repeated since a lane last came up */
    mrail_ns_t reconnect_ns; /* time of the first of these repeats */
    /* Reason for the last repeat, while no lane is up. */
    const char *reconnect_cause;
    mrail_ns_t retry_ns;
    struct mrail_moves *moves; /* see conn/move_decide.c; NULL until needed */
    mrail_list_t work;         /* entry in engine->work */
    mrail_heap_node_t timer;   /* entry in engine->timers */
    mrail_list_t blocked;      /* entry in engine->blocked */
    mrail_list_t connect;      /* entry in engine->connect_queue */
    int connecting;            /* the peer is counted in
                                * engine->num_connecting */
    uint32_t request;
    unsigned tries;
    mrail_ns_t deadline_ns;
    unsigned probe_tries;   /* 0 if no probe is pending */
    uint32_t probe_request; /* sequence number of the last probe */
    mrail_ns_t probe_ns;

    /* ---- written by the control thread, read by progress threads ---- */
    mrail_lane_t *lanes[MRAIL_MAX_SLOTS]; /* set before the bit in up_mask */
    uint64_t up_mask;                     /* atomic: slots whose lanes are up */
    /* Atomic: slots that left up_mask because their path is suspect or its port
     * is down. They return to it unless the lane fails. */
    uint64_t held_mask;
    int failed;          /* atomic: 0 or -errno */
    uint64_t evict_mask; /* atomic: slots that the progress thread must
                          * evict; it clears the bits */
    uint64_t fail_mask;  /* atomic: slots whose lane failed or must be given
                          * up; the progress thread clears the bits */
    mrail_peer_t *check_next; /* entry in engine->check_first */
    int check_listed;         /* atomic: the peer is in that stack */
    int expand_wanted; /* atomic: a progress thread has requested all lanes */
    mrail_rkey_t flush_rkey; /* keys of the peer's flush pages */

    /* ---- data: under the data-path lock ---- */
    uint64_t seen_mask; /* the value of up_mask that the arrays below reflect */
    unsigned num_up;
    unsigned num_am;
    uint32_t rails_used; /* local rails on which a lane was up, as bits */
    mrail_lane_t **up;   /* [slot_limit]: lanes in use, AM lanes first */
    mrail_sched_lane_t **sched;    /* [slot_limit]: &up[i]->sched */
    struct mrail_uplinks *uplinks; /* capacities; NULL if unknown */
    int connect_wanted;            /* a first lane was requested */
    uint64_t dirty_mask;     /* slots with WRITEs that no READ follows yet */
    uint64_t reading_mask;   /* slots, in use or not, with visibility READs
                                 * in flight */
    uint64_t broken_mask;    /* slots whose lane is failing over */
    int recovering;          /* a lane failed and its replay is incomplete;
                              * this acts as a fence */
    mrail_list_t replay_rma; /* chunks of failed lanes (mrail_chunk_t), by
                              * operation */
    mrail_list_t lost_puts;  /* small PUTs of failed lanes (mrail_tx_t) */
    mrail_list_t arrived;    /* chunks of failed lanes that reached the peer,
                              * or must not be replayed; they complete
                              * without the control lock */
    /* Number of lanes with chunks in flight, for rail->flows. */
    uint16_t large[MRAIL_MAX_RAILS][MRAIL_FLOWS];
    int dead; /* 1 while it fails and the devices hold requests; 2: failed */
    mrail_list_t eps;
    mrail_list_t ended; /* entry in engine->ended while the peer is possibly
                         * unused */

    int stall_checking;       /* the peer is in engine->stalling */
    unsigned quiescent_ticks; /* consecutive checks without work in flight */
    mrail_list_t stalling;    /* entry in engine->stalling */
    mrail_ns_t stall_ns;      /* time of the last check; 0 if there was none */

    mrail_am_stream_t am; /* active messages in both directions */
    uint32_t am_spread;   /* smallest length in bytes of an AM that may use
                           * another lane than the primary lane */

    uint64_t op_next;   /* id of the next RMA operation, starting at 1 */
    mrail_list_t ops;   /* incomplete mrail_op_t, by id */
    mrail_list_t uncut; /* operations with bytes not posted yet */
    size_t uncut_bytes; /* sum of the unposted bytes in `uncut` */
    mrail_ns_t pump_ns; /* no lane can accept a chunk before this time, unless
                         * one completes; see mrail_rma_poll() */
    uint8_t fair_share_class; /* class in fair_share[fair_share_direction] */
    uint8_t fair_share_direction;
    unsigned fair_share_period; /* period for which the class is valid */
    /* Flushes and fences (mrail_flush_t), in order. */
    mrail_list_t flushes_pending;
    unsigned num_fences;        /* pending fences, which block new posts */
    mrail_lane_t *ordered_lane; /* lane on which messages may pass a fence, or
                                 * NULL */
    int ordered_lane_closed;    /* messages must not pass on the ordered lane
                                 * either */
    mrail_list_t active; /* entry in engine->active while progress must visit
                          * the peer */
};

/* Returns 1 if the peer has failed. Any thread may call it. */
static inline int mrail_peer_has_failed(const mrail_peer_t *peer)
{
    return __atomic_load_n(&peer->failed, __ATOMIC_RELAXED) != 0;
}

/* Returns the rail pair of a slot, as an index in peer->pairs. */
static inline unsigned mrail_peer_pair(const mrail_peer_t *peer, unsigned slot)
{
    return (peer->base + slot) % peer->num_pairs;
}

/* Removes a slot from up_mask until a new lane is up. */
static inline void mrail_peer_clear_up(mrail_peer_t *peer, uint64_t bit)
{
    __atomic_fetch_and(&peer->up_mask, ~bit, __ATOMIC_RELEASE);
    __atomic_fetch_and(&peer->held_mask, ~bit, __ATOMIC_RELAXED);
}

/* Returns 1 if the slot has a lane whose state has the property. */
static inline int mrail_peer_lane_is(const mrail_peer_t *peer, unsigned slot,
                                     unsigned property)
{
    return (peer->lanes[slot] != NULL) &&
           mrail_lane_is(peer->lanes[slot], property);
}

/* Returns the lane, or NULL if the slot has none. The control thread may create
 * a lane at any time; the state of the lane shows whether it is in use. */
static inline mrail_lane_t *mrail_peer_lane(const mrail_peer_t *peer,
                                            unsigned slot)
{
    return __atomic_load_n(&peer->lanes[slot], __ATOMIC_ACQUIRE);
}

#endif
