/*
 * A peer process: its rails, its lanes, and its streams and operations.
 * Endpoints of all ifaces share it.
 *
 * A peer lives as long as its process. When it has left or was given up, its
 * last endpoint is gone and the devices have returned everything, the next
 * progress call frees it with its lanes and address handles. The engine
 * remembers its id, because datagrams may arrive late.
 */
#ifndef MRAIL_RAIL_PEER_H
#define MRAIL_RAIL_PEER_H

#include "rail/health.h"
#include "rail/lane.h"
#include "rail/pairing.h"
#include "rail/mem.h"

typedef enum mrail_peer_state {
    MRAIL_PEER_NEW,   /* nothing sent yet */
    MRAIL_PEER_HELLO, /* HELLO sent, waits for HELLO_REP */
    MRAIL_PEER_KNOWN, /* rails known, lanes may be requested */
    MRAIL_PEER_GONE   /* said BYE, or given up */
} mrail_peer_state_t;

/* The last epoch of a lane that has ended, for late messages and for a peer
 * that has not heard of it. */
typedef struct mrail_prev_epoch {
    uint8_t known;
    uint16_t epoch;
    uint16_t received; /* AMs that had arrived */
} mrail_prev_epoch_t;

/* Probes in a row that retire a path. An answer to any of them counts. */
#define MRAIL_PATH_PROBES 3

/* Limit of patience_ns: a path without an answer for that long is given up. */
#define MRAIL_PATH_PATIENCE_MAX (400 * MRAIL_NS_PER_MS)

typedef struct mrail_path {
    mrail_health_t health;
    uint32_t probes[MRAIL_PATH_PROBES]; /* sequence numbers of the last ones
                                         * without an answer ... */
    uint8_t num_probes;                 /* ... and their number */
    uint8_t blocked;   /* the next probe waits for a send buffer */
    uint16_t sport;    /* UDP source port of its last lane; 0: there was none */
    struct ibv_ah *ah; /* of probes, or NULL; for this ... */
    uint16_t ah_sport; /* ... port ... */
    unsigned ah_pair;  /* ... and pair of rails */
    unsigned stalls;   /* stalls that an answer disproved ... */
    mrail_ns_t stall_ns;    /* ... time of the last one */
    mrail_ns_t patience_ns; /* time for an answer on a path that is slow, but
                             * works; see stall_detect.c */
    mrail_ns_t suspect_ns;  /* begin of the last suspicion */
    mrail_ns_t probe_ns;    /* time of its last probe */
    unsigned compared;      /* probes of this suspicion that were lost while
                             * another path worked */
    uint8_t restore;        /* a lane may be requested, though the path is not
                          * up */
    const char *cause;      /* the last event that was no deadline */
} mrail_path_t;

/* A rail of the peer that its address names. */
typedef struct mrail_boot {
    mrail_wire_boot_t to;
    uint64_t subnet;
    struct ibv_ah *ah[MRAIL_MAX_RAILS]; /* from each of our rails; or NULL */
} mrail_boot_t;

struct mrail_peer {
    mrail_engine_t *engine;
    uint64_t id;
    uint64_t cookie;   /* proves to the peer that this end knows its address */
    mrail_list_t list; /* a bucket of engine->buckets; control lock */

    /* ---- control: under the control lock ---- */
    mrail_peer_state_t state;
    unsigned num_boots; /* 0: no address is known */
    mrail_boot_t boots[1 + MRAIL_ADDR_MORE_IPV4];
    unsigned num_rails;
    mrail_wire_rail_t rails[MRAIL_MAX_RAILS];
    unsigned num_pairs;
    mrail_rail_pair_t pairs[MRAIL_MAX_PAIRS];
    struct ibv_ah *pair_ah[MRAIL_MAX_PAIRS];
    uint64_t bye_mask;  /* pairs over which BYE has to leave, from the base */
    unsigned base;      /* pair of slot 0 */
    int based;          /* ... both ends agree on it: it was up */
    unsigned num_slots; /* lanes wanted in total; 0: none yet */
    unsigned requested_slots; /* 0, 1 or num_slots */
    unsigned turn;            /* pair whose lane is requested first */
    uint64_t refused_mask;    /* slots that must not be requested again */
    uint64_t no_room_mask;    /* ... nor these, before retry_ns */
    uint64_t handled_mask;    /* slots with an entry in handled_seq */
    uint32_t handled_seq[MRAIL_MAX_SLOTS]; /* the peer's last LANE_REQ that was
                                        * accepted or refused; earlier ones are
                                        * ignored */
    mrail_prev_epoch_t prev_epochs[MRAIL_MAX_SLOTS];
    mrail_path_t paths[MRAIL_MAX_SLOTS];
    mrail_ns_t answer_ns;      /* of the last probe that was answered */
    mrail_ns_t compare_ns;     /* time when all paths were last probed */
    mrail_ns_t moved_ns;       /* time when some lane last moved */
    mrail_ns_t unreachable_ns; /* no lane is usable since then; 0: one is, or
                                * none was wanted yet */
    uint64_t kept_posted; /* work requests of all lanes at the last KEEPALIVE
                           * check */
    unsigned reply_way;   /* pair that leads back to the sender of the
                           * message */
    unsigned hellos;      /* HELLOs of the peer, answered */
    unsigned reconnects;  /* lane requests repeated since a lane came up ... */
    mrail_ns_t reconnect_ns; /* ... time of the first ... */
    const char
        *reconnect_cause; /* ... and reason of the last, before any was up */
    mrail_ns_t retry_ns;
    struct mrail_moves *moves; /* see move_lane.c; NULL: not needed yet */
    mrail_list_t work;         /* engine->work while a message is due */
    uint32_t request;
    unsigned tries;
    mrail_ns_t deadline_ns;
    unsigned probe_tries;   /* 0: no probe under way */
    uint32_t probe_request; /* sequence number of the last probe */
    mrail_ns_t probe_ns;

    /* ---- handed from control to data ---- */
    mrail_lane_t *lanes[MRAIL_MAX_SLOTS]; /* set before the bit in up_mask */
    uint64_t up_mask;                     /* atomic: slots that are UP */
    int failed;                           /* atomic: 0 or -errno */
    uint64_t evict_mask; /* atomic: slots that the data path must evict; it
                          * clears them */
    uint64_t fail_mask;  /* atomic: slots whose lane failed or must be given up;
                          * the progress thread clears them */
    int expand_wanted;   /* atomic: the data path has asked for all lanes */
    mrail_rkey_t flush_rkey; /* of the peer's flush pages */

    /* ---- data: under the data-path lock ---- */
    uint64_t seen_mask; /* up_mask as the arrays below reflect it */
    unsigned num_up;
    unsigned num_am;
    mrail_lane_t *up[MRAIL_MAX_SLOTS]; /* lanes in use, AM lanes first */
    mrail_sched_lane_t *sched[MRAIL_MAX_SLOTS]; /* &up[i]->sched */
    int connect_wanted;                         /* the request has been made */
    uint64_t dirty_mask;     /* slots with WRITEs without a READ behind them, */
    uint64_t reading_mask;   /* ... with READs in flight, in use or not */
    uint64_t closing_mask;   /* slots released, but not drained */
    uint64_t broken_mask;    /* slots whose lane is being given up */
    int recovering;          /* a lane failed and its replay is incomplete: acts
                            * as a fence */
    mrail_list_t replay_am;  /* mrail_tx_t.again of such lanes, by seq */
    mrail_list_t replay_rma; /* mrail_chunk_t likewise, by operation */
    mrail_list_t arrived;    /* ... those known to be at the peer, or not to be
                            * repeated; completed without the control lock */
    mrail_lane_t detached;   /* the lane of AMs that arrived on such lanes */
    /* Lanes with such chunks, for rail->flows. */
    uint16_t large[MRAIL_MAX_RAILS][MRAIL_FLOWS];
    int dead; /* 1: failing, waits for the devices; 2: failed */
    mrail_list_t eps;
    mrail_list_t ended; /* engine->ended while it may be unused */

    uint32_t tx_next;     /* sequence number of the next AM */
    uint32_t tx_acked;    /* all earlier ones are at the peer */
    mrail_list_t unacked; /* mrail_tx_t in order */
    uint64_t am_inflight; /* bytes of them */
    uint32_t am_spread;   /* bytes from which an AM may leave the first lane */
    uint32_t ack_wanted;  /* a flush waits until tx_acked reaches it */
    int ack_requested;    /* an ACK_REQ has no answer yet */
    int ack_due;          /* an ACK_REQ waits for its answer ... */
    uint32_t ack_due_seq; /* ... until all before this have arrived */
    uint32_t rx_next;     /* expected */
    mrail_list_t hold;    /* mrail_rx_t ahead of rx_next, in order */

    uint64_t op_next;   /* id of the next RMA operation, from 1 */
    mrail_list_t ops;   /* mrail_op_t not complete, by id */
    mrail_list_t uncut; /* ... with bytes not posted yet */
    size_t uncut_bytes; /* sum over these */
    mrail_ns_t pump_ns; /* no lane has room for them before, unless a chunk
                         * completes; see mrail_rma_poll() */
    uint8_t
        fair_share_class; /* its class in engine->fair_share[fair_share_direction] ... */
    uint8_t fair_share_direction;
    unsigned fair_share_period; /* ... in this period */
    mrail_list_t
        flushes_pending; /* mrail_flush_t: flushes and fences, in order */
    unsigned num_fences; /* fences among them: nothing may be posted */
    mrail_lane_t *ordered_lane; /* ... except on this lane, if not NULL */
    int ordered_lane_closed;    /* ... and then not even messages */
    mrail_list_t active; /* engine->active while progress must look here */
};

/* Takes over lanes that came up since the last call. Data path. */
void mrail_peer_refresh(mrail_peer_t *peer);

/* Lanes in use now; requests the first one if there is none. */
static inline unsigned mrail_peer_num_up(mrail_peer_t *peer)
{
    if (MRAIL_UNLIKELY(__atomic_load_n(&peer->up_mask, __ATOMIC_ACQUIRE) !=
                       peer->seen_mask)) {
        mrail_peer_refresh(peer);
    }
    return peer->num_up;
}

/* Finds a peer by id, or creates it. Control lock held. */
mrail_peer_t *mrail_peer_find(mrail_engine_t *engine, uint64_t id);
mrail_peer_t *mrail_peer_create(mrail_engine_t *engine, uint64_t id);
/* Frees the peer without its lanes. Data-path lock and control lock held, or
 * the engine closes. */
void mrail_peer_free(mrail_peer_t *peer);

/* The reason why the peer of that id was freed; 0: it was not, or long ago.
 * Control lock held. */
int mrail_peer_departed(const mrail_engine_t *engine, uint64_t id);
/* The new peer stands for one that was freed: it has failed already. Data-path
 * lock and control lock held. */
void mrail_peer_set_departed(mrail_peer_t *peer, int status);
/* The peer's last endpoint may be gone: the next progress call frees the peer
 * if it has failed. Data-path lock held. */
void mrail_peer_release(mrail_peer_t *peer);
/* Frees failed peers that are unused. Data-path lock held, outside of all
 * callbacks and visits: nothing up the stack may refer to them. */
void mrail_peer_reap(mrail_engine_t *engine);

/* Data path: requests the first lane, or all lanes, from the control thread. */
void mrail_peer_request_lanes(mrail_peer_t *peer, int all);

/* Progress visits the peer until it has nothing to wait for. */
void mrail_peer_activate(mrail_peer_t *peer);

/* Data path: nothing more is sent to the peer. Calls no callback, so the
 * control lock may be held. */
void mrail_peer_start_fail(mrail_peer_t *peer, int status);
/* Call it until peer->dead is 2. Returns 1 once, when the devices have returned
 * everything. */
int mrail_peer_try_end(mrail_peer_t *peer);
/* Then everything pending fails with `status`. Callbacks run: no lock may be
 * held. */
void mrail_peer_fail(mrail_peer_t *peer, int status);

#endif
