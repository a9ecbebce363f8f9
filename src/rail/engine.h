/*
 * Internal structures of the engine.
 *
 * Two roles access them. A progress thread holds the data-path lock. The
 * control thread holds ctl_lock; ep_create and mrail_peer_request_lanes() take
 * it briefly. Control hands over lanes and failures by atomics in mrail_peer_t
 * and by `error_pending`, and never accesses data fields. Lock order: data-path
 * lock, then ctl_lock.
 */
#ifndef MRAIL_RAIL_ENGINE_H
#define MRAIL_RAIL_ENGINE_H

#include "base/log.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/seq.h"
#include "rail/data_lock.h"
#include "rail/op.h"
#include "rail/fair_share.h"

#include <errno.h>
#include <pthread.h>

#define MRAIL_MAX_IFACES 64
#define MRAIL_BUCKETS 256
#define MRAIL_RX_HEADROOM 128   /* mrail_rx_t, before the data header */
#define MRAIL_TX_SMALL_AREA 448 /* bytes of a small send buffer */
#define MRAIL_AM_SHORT_MAX 256  /* bytes of header + payload */
/* The cost of an active message: a fixed time, and a copy. A message that its rail
 * carries in less time than that stays on the first lane, because a single process
 * cannot fill the rail, and messages on one lane need no reordering. */
#define MRAIL_AM_COST_NS 300
#define MRAIL_AM_COPY_RATE 10000000000ull /* bytes/s */
#define MRAIL_AM_SPREAD_MIN 512           /* bytes */
#define MRAIL_AM_EXPAND (16u << 10)       /* under way: open the other rails */
#define MRAIL_REPOST_BATCH 8
#define MRAIL_AM_CREDITS_MAX 512 /* of a lane whose peer uses them up */
/* Bytes of a window that no longer grows. A larger one would keep more messages
 * unacknowledged than a path holds, and the sender would not see which lane is
 * idle. */
#define MRAIL_AM_WINDOW_BYTES (256u << 10)
#define MRAIL_AM_CREDIT_UPDATE_GROW                                            \
    8 /* credit-only messages before the window grows */
#define MRAIL_AM_CREDITS_FLOOR 2 /* a lane keeps this many when it is idle */
#define MRAIL_AM_RECALL_VISITS                                                 \
    64                      /* lanes that one search for idle ones visits */
#define MRAIL_DEPARTED 1024 /* ids of freed peers that are remembered */

/* Events that may repeat per packet: counted, shown by mrail info. */
/* clang-format off */
#define MRAIL_COUNTERS(X)                                                     \
    X(am_sent) X(am_received) X(am_held) X(am_duplicate) X(acks_sent)         \
    X(put_bytes) X(get_bytes) X(chunks) X(fences) X(flushes)                  \
    X(rx_bad_header) X(rx_no_credit) X(rx_no_iface) X(cqe_errors)             \
    X(lanes_evicted) X(lanes_kept) X(lanes_failed) X(lanes_moved)                            \
    X(am_replayed) X(rma_replayed)                                            \
    X(ctl_sent) X(ctl_received) X(ctl_resent) X(ctl_bad_format)               \
    X(ctl_bad_version) X(ctl_bad_cookie) X(ctl_unexpected)
/* clang-format on */

typedef struct mrail_counters {
#define MRAIL_COUNTER_FIELD(_name) uint64_t _name;
    MRAIL_COUNTERS(MRAIL_COUNTER_FIELD)
#undef MRAIL_COUNTER_FIELD
} mrail_counters_t;

/* Bytes of messages that an idle iface keeps on the heap. Further messages keep
 * their receive buffers, and so the credits of their senders. */
#define MRAIL_INBOX_BYTES (64ul << 20)

/* The events that wake a sleeping iface; see wakeup.c. */
typedef enum mrail_armed {
    MRAIL_ARMED_NOT, /* it does not sleep */
    MRAIL_ARMED_OWN, /* for events of its own */
    MRAIL_ARMED_ANY  /* ... and for everything that may make room to send */
} mrail_armed_t;

struct mrail_iface {
    mrail_engine_t *engine;
    mrail_iface_params_t params;
    uint16_t id; /* its number for peers; its place is id modulo
                  * MRAIL_MAX_IFACES */
    int depth;   /* nested entries by callbacks */
    int token;   /* of the data-path lock */
    mrail_list_t eps;
    int has_rejected;    /* data: ... some of which failed alone */
    mrail_list_t inbox;  /* mrail_rx_t for this iface */
    size_t inbox_bytes;  /* of the copies in it */
    mrail_list_t done;   /* mrail_done_t for this iface */
    unsigned num_called; /* callbacks made */

    int epoll_fd;          /* -1: not requested */
    int wake_fd;           /* eventfd in it */
    mrail_armed_t armed;   /* atomic: the thread that causes an event writes
                            * wake_fd */
    unsigned seen_changes; /* engine->num_changes at the last progress */
    uint64_t seen_events;  /* engine->total_events at that time */
};

struct mrail_ep {
    mrail_list_t list;      /* iface->eps */
    mrail_list_t peer_list; /* peer->eps */
    mrail_iface_t *iface;
    mrail_peer_t *peer;
    void *user;
    uint64_t id; /* never used again in this process */
    uint16_t remote_iface;
    int failed;           /* 0 or -errno */
    int failure_reported; /* ep_failed() has been called */
    int cancelled;        /* by mrail_ep_cancel() */
    int rejected;         /* it failed alone, and not its peer */
};

/* The result of operations on a failed endpoint. The callback runs first: an
 * MPI library ends the job at the first error, and the callback has the
 * reason. */
static inline int mrail_ep_error(const mrail_ep_t *ep)
{
    return ep->failure_reported ? ep->failed : -EAGAIN;
}

/* A peer that was freed. */
typedef struct mrail_departed {
    uint64_t id;
    int status; /* -errno: why it failed */
} mrail_departed_t;

struct mrail_engine {
    unsigned references;
    mrail_config_t config;
    uint64_t id;
    uint64_t cookie;
    mrail_rng_t rng; /* control lock */
    unsigned num_rails;
    mrail_rail_t rails[MRAIL_MAX_RAILS];
    size_t rx_stride;
    mrail_mem_t flush_mem; /* the rails' flush pages, as one registration */
    uint16_t generation;   /* of the last registration; atomic */

    /* ---- data ---- */
    mrail_data_lock_t data_lock;
    mrail_iface_t *ifaces[MRAIL_MAX_IFACES];
    uint16_t next_iface[MRAIL_MAX_IFACES]; /* next id at each place */
    unsigned num_ifaces;
    mrail_iface_t *current; /* iface whose callbacks may be called now */
    uint64_t last_ep;       /* id of the last endpoint */
    int poll_requested;     /* atomic: a peer's flush waits, so the control
                             * thread must poll */
    int ctl_held;           /* the data path holds ctl_lock: see
                               mrail_data_ctl_lock() */
    mrail_pool_t tx_small;
    mrail_pool_t tx_big;
    mrail_pool_t ops;
    mrail_pool_t chunks;
    mrail_pool_t flush_pool;
    mrail_pool_t groups;
    mrail_list_t active; /* peers that progress must visit */
    unsigned nesting;    /* nested progress calls that visit them */
    mrail_fair_share_t
        fair_share[MRAIL_FLOWS]; /* of rails, while busy peers reach different
                               * rails; see throttle.c ... */
    mrail_ns_t fair_share_ns;    /* ... time of the next division */
    mrail_list_t acks;           /* lanes that owe a reply */
    mrail_rx_t *repost[MRAIL_MAX_RAILS][MRAIL_REPOST_BATCH];
    unsigned num_repost[MRAIL_MAX_RAILS];
    mrail_counters_t counters; /* ctl_* by the control side, else by data */
    unsigned num_events;       /* of this progress call */
    uint64_t total_events;     /* ever */
    unsigned num_dead;         /* failed peers; set under both locks */
    mrail_list_t ended;        /* failed peers that may be unused */
    int reap_pending;          /* ... there are some */
    unsigned num_recovering;   /* peers; atomic */
    int stall_checking;        /* atomic: the control thread checks lanes */
    unsigned quiescent_ticks;  /* consecutive checks with nothing in flight */
    mrail_ns_t stall_ns;       /* time of the last check */
    int version_warned;        /* atomic */

    /* ---- both ---- */
    mrail_lane_t **lanes; /* [max_qps]; set with release, cleared under both
                           * locks */
    int error_pending;    /* atomic: some peer has failed, or a lane must be
                           * evicted */
    unsigned num_changes; /* atomic: lanes that came up, peers that failed */

    /* ---- control ---- */
    pthread_mutex_t ctl_lock;
    int ctl_wanted;                      /* atomic: threads that wait for it */
    mrail_list_t buckets[MRAIL_BUCKETS]; /* peers by id */
    mrail_list_t work; /* peers with something to send or to wait for */
    unsigned num_peers;
    mrail_departed_t departed[MRAIL_DEPARTED]; /* ring of freed peers ... */
    uint64_t num_departed;                     /* ... and their total number */
    struct mrail_stats_lane *ended_lanes;      /* of freed peers, see stats.c */
    uint64_t num_ended_lanes;
    unsigned num_lanes;  /* entries of `lanes` ever used */
    uint16_t *lane_free; /* ... that are free again */
    unsigned num_lane_free;
    mrail_ns_t evict_search_ns; /* time of the last search for lanes to evict */
    unsigned num_qps;
    uint64_t qp_serial; /* of the last QP made */
    size_t sq_entries;  /* of all QPs */
    unsigned
        recall_next; /* index of the next lane to search for idle credits */
    uint32_t ctl_seq;
    uint16_t epoch;     /* last requested lane epoch, halved */
    unsigned next_base; /* rotates the rail of first lanes */
    int budget_warned;
    struct mrail_page_file *page; /* telemetry; NULL: there is none */
    pthread_t thread;
    int event_fd;
    int epoll_fd;
    int stop; /* atomic */
};

/* Creates an engine that is not shared; mrail_engine_open() shares one. */
int mrail_engine_create(const mrail_config_t *config,
                        mrail_engine_t **engine_p);
void mrail_engine_destroy(mrail_engine_t *engine);

/* mrail_rails_now() of that engine. The caller serialises. */
unsigned mrail_engine_rails(mrail_engine_t *engine, mrail_rail_now_t *rails);

/* Prepares a new receive buffer, whose header follows, and posts it to its
 * rail's SRQ: 0 or -errno. */
int mrail_rx_start(mrail_engine_t *engine, mrail_rail_t *rail, mrail_rx_t *rx,
                   uint32_t lkey);

/* Returns a used receive buffer to its SRQ, in batches. The lane's peer then
 * has one more credit. */
void mrail_rx_release(mrail_engine_t *engine, mrail_rx_t *rx);

/* Takes the first message out of the inbox; mrail_inbox_release() ends it. */
mrail_rx_t *mrail_inbox_take(mrail_iface_t *iface);
void mrail_inbox_release(mrail_iface_t *iface, mrail_rx_t *rx);
void mrail_rx_repost(mrail_engine_t *engine, unsigned rail);

static inline void mrail_rx_flush(mrail_engine_t *engine, unsigned rail)
{
    if (engine->num_repost[rail] != 0) {
        mrail_rx_repost(engine, rail);
    }
}

/* A lane's QP has failed: a lane event, on the data path. */
void mrail_lane_error(mrail_lane_t *lane, const char *cause);
/* The peer, or its user, has broken a rule: no other lane would help. */
void mrail_peer_error(mrail_peer_t *peer, const char *cause);

/* Entry of every public data call of an iface; nests. */
static inline void mrail_iface_enter(mrail_iface_t *iface)
{
    if (iface->depth++ == 0) {
        iface->token = mrail_data_lock_enter(&iface->engine->data_lock);
    }
}

static inline void mrail_iface_leave(mrail_iface_t *iface)
{
    if (--iface->depth == 0) {
        mrail_data_lock_leave(&iface->engine->data_lock, iface->token);
    }
}

/* Takes the control lock in a thread of the user, which the control thread lets in
 * between two messages (mrail_control_let_in()). */
static inline void mrail_ctl_lock(mrail_engine_t *engine)
{
    __atomic_fetch_add(&engine->ctl_wanted, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&engine->ctl_lock);
    __atomic_fetch_sub(&engine->ctl_wanted, 1, __ATOMIC_RELAXED);
}

/* Takes ctl_lock under the data-path lock. No completion may run before the
 * unlock: the user's callback may need the lock, and mrail_done_finish()
 * asserts that it is not held. */
static inline void mrail_data_ctl_lock(mrail_engine_t *engine)
{
    mrail_ctl_lock(engine);
    engine->ctl_held = 1;
}

static inline void mrail_data_ctl_unlock(mrail_engine_t *engine)
{
    engine->ctl_held = 0;
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* NULL: the iface is gone; an iface at its place has another id. */
static inline mrail_iface_t *mrail_iface_find(const mrail_engine_t *engine,
                                              uint16_t id)
{
    mrail_iface_t *iface = engine->ifaces[id % MRAIL_MAX_IFACES];

    return ((iface != NULL) && (iface->id == id)) ? iface : NULL;
}

/* Polls all CQs once. Callbacks run for `current` only. */
unsigned mrail_engine_poll(mrail_engine_t *engine, mrail_iface_t *current);

/* ---- evict.c ---- */
/* A lane is wanted, and the budget is used up: requests the return of lanes
 * that were not used for long. `hard`: the lane is a peer's first one, so
 * recently used lanes count, too. 0: there are none. Control lock. */
int mrail_evict_make_room(mrail_engine_t *engine, int hard);
/* The data path shall release the lane if it is idle. Control lock. */
void mrail_evict_request(mrail_lane_t *lane);
/* Data path: continues with the lanes to be evicted. */
void mrail_evict_check(mrail_peer_t *peer, mrail_ns_t now_ns);
static inline int mrail_evict_is_idle(const mrail_peer_t *peer)
{
    return (__atomic_load_n(&peer->evict_mask, __ATOMIC_ACQUIRE) |
            peer->closing_mask) == 0;
}

/* ---- failover.c ---- */
/* The lane failed, or must be given up. Under the data-path lock or the control
 * lock. */
void mrail_failover_request(mrail_lane_t *lane, const char *cause);
/* The rail's device is gone, and so are all of its lanes. Control lock held. */
void mrail_failover_rail(mrail_engine_t *engine, mrail_rail_t *rail,
                         const char *cause);
/* The same for rails with a failed completion queue. */
void mrail_failover_check_rails(mrail_engine_t *engine);
/* Starts the failover of requested lanes. Under both locks. */
void mrail_failover_start(mrail_peer_t *peer);
/* Data path: continues the failover while the peer is recovering. */
void mrail_failover_run(mrail_peer_t *peer, mrail_ns_t now_ns);
/* Messages of the lane that wait for delivery are the engine's from now on: they
 * return no credit, and no lane counts on their buffers. Both locks held. */
void mrail_failover_disown(mrail_lane_t *lane);
/* Data path, with the control lock: continues the lane's path validation.
 * Returns 1 while it runs. */
int mrail_failover_validate(mrail_lane_t *lane, mrail_ns_t now_ns);
/* Replay is complete, or the peer is gone. */
void mrail_failover_end(mrail_peer_t *peer);

/* ---- stall_detect.c ---- */
/* Starts stall detection: something was sent. */
void mrail_stall_begin(mrail_engine_t *engine);
static inline void mrail_stall_wake(mrail_engine_t *engine)
{
    if (MRAIL_FAILOVER && MRAIL_UNLIKELY(!__atomic_load_n(
                              &engine->stall_checking, __ATOMIC_RELAXED))) {
        mrail_stall_begin(engine);
    }
}
#define MRAIL_STALL_TICK (25 * MRAIL_NS_PER_MS)
void mrail_stall_tick(mrail_engine_t *engine, mrail_ns_t now_ns);
void mrail_stall_keepalive(mrail_engine_t *engine, mrail_ns_t now_ns);

/* ---- throttle.c: data path, large operations ---- */
/* Divides the rails among busy peers anew. */
void mrail_throttle_poll(mrail_engine_t *engine, mrail_ns_t now_ns);
/* Marks lanes unusable whose rails other peers need more. */
void mrail_throttle_mark(mrail_peer_t *peer,
                         const mrail_fair_share_t *fair_share);
/* The fair shares of the peer's direction; NULL: all rails are free. */
static inline mrail_fair_share_t *mrail_throttle_fair_share(mrail_peer_t *peer)
{
    mrail_fair_share_t *fair_share =
        &peer->engine->fair_share[peer->fair_share_direction];

    return (MRAIL_UNLIKELY(fair_share->active) &&
            (peer->fair_share_period == fair_share->period))
               ? fair_share
               : NULL;
}

/* ---- telemetry_export.c ---- */
void mrail_telemetry_export_open(mrail_engine_t *engine);
void mrail_telemetry_export_close(mrail_engine_t *engine);
void mrail_telemetry_export(mrail_engine_t *engine);

/* ---- wakeup.c: under the data-path lock or the control lock ---- */
void mrail_wakeup_signal(mrail_iface_t *iface);
/* Signals all ifaces that sleep for `least` or more. */
void mrail_wakeup_all(mrail_engine_t *engine, mrail_armed_t least);
void mrail_wakeup_close(mrail_iface_t *iface);

/* ---- control_thread.c: the thread, control_poll.c: its work; ctl*.c: its protocol ---- */
int mrail_control_thread_start(mrail_engine_t *engine);
void mrail_control_thread_stop(mrail_engine_t *engine);
void mrail_control_thread_wake(mrail_engine_t *engine);

void mrail_ctl_receive(void *arg, mrail_rail_t *rail, const void *data,
                       size_t length);
/* Sends due messages; returns the next deadline. */
mrail_ns_t mrail_ctl_run(mrail_engine_t *engine, mrail_ns_t now_ns);
/* This process was suspended for so long, until now: deadlines of peers move by
 * that time. Data-path lock and control lock held. */
void mrail_ctl_suspended(mrail_engine_t *engine, mrail_ns_t suspended_ns,
                         mrail_ns_t now_ns);
void mrail_ctl_bye(mrail_engine_t *engine);
/* Logs once that the QP budget is used up. Control lock held. */
void mrail_ctl_budget(mrail_engine_t *engine);
/* The control thread shall visit the peer when it next wakes up. Control lock
 * held. */
void mrail_ctl_work(mrail_peer_t *peer);
/* Starts a liveness check of the peer's control thread; the peer fails without
 * an answer. Control lock held. */
void mrail_ctl_probe(mrail_peer_t *peer);
void mrail_ctl_peer_failed(mrail_peer_t *peer, int status);

void mrail_engine_write_stats(mrail_engine_t *engine);
/* The lane's peer is freed, but the statistics shall name the lane. Control lock
 * held. */
void mrail_stats_keep_lane(const mrail_lane_t *lane);

#endif
