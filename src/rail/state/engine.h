/*
 * Internal structures of the engine.
 *
 * A progress thread accesses "data" fields under the data-path lock. The
 * control thread accesses "control" fields under ctl_lock, which progress
 * threads take only briefly. The control thread hands over lanes and failures
 * through atomics in mrail_peer_t and through `error_pending`. It accesses data
 * fields only while it borrows the data-path lock. Lock order: data-path lock,
 * then ctl_lock.
 */
#ifndef MRAIL_RAIL_STATE_ENGINE_H
#define MRAIL_RAIL_STATE_ENGINE_H

#include "base/hash.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/seq.h"
#include "rail/state/data_lock.h"
#include "rail/locks.h"
#include "rail/state/op.h"
#include "rail/proto/fair_share.h"
#include "telemetry/ring.h"

#include <errno.h>
#include <pthread.h>

#define MRAIL_MAX_IFACES 64
/* Bytes reserved for mrail_rx_t in front of the data header. */
#define MRAIL_RX_HEADROOM 128
/* Bytes of the payload area in a small send buffer. */
#define MRAIL_TX_SMALL_AREA 448
#define MRAIL_AM_SHORT_MAX 256 /* bytes of header + payload */
/* Fixed time to process an active message, to which the time of a copy is
 * added. A message stays on the primary lane if its time on the wire is shorter
 * than its processing time. A single process cannot fill the rail with messages
 * of that size, and messages on one lane need no reordering. */
#define MRAIL_AM_COST_NS 300
#define MRAIL_AM_COPY_RATE 10000000000ull /* bytes/s */
#define MRAIL_AM_SPREAD_MIN 512           /* bytes */
/* With this many bytes in flight, messages may use the other rails as well. */
#define MRAIL_AM_EXPAND (16u << 10)
#define MRAIL_REPOST_BATCH 8
#define MRAIL_AM_RECALL_VISITS                                                 \
    64                      /* lanes visited by one search for idle
                                   * credits */
#define MRAIL_DEPARTED 1024 /* remembered ids of freed peers */

/* Events that may occur for every packet. They are counted rather than logged;
 * mrail info shows the counters. */
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

/* Upper bound on the messages that an idle iface keeps on the heap. Further
 * messages keep their receive buffers, which applies backpressure to their
 * senders. */
#define MRAIL_INBOX_BYTES (64ul << 20)

/* The events that wake a sleeping iface; see engine/wakeup.c. */
typedef enum mrail_armed {
    MRAIL_ARMED_NOT, /* the iface does not sleep */
    MRAIL_ARMED_OWN, /* the iface's own events wake it */
    MRAIL_ARMED_ANY  /* its own events wake it, and events after which it may
                      * resume sending */
} mrail_armed_t;

struct mrail_iface {
    mrail_engine_t *engine;
    mrail_iface_params_t params;
    uint16_t id; /* number by which peers address the iface; ifaces[] holds it
                  * at id modulo MRAIL_MAX_IFACES */
    int depth;   /* nested entries, through callbacks */
    int token;   /* token of the data-path lock */
    mrail_list_t eps;
    mrail_list_t failed_eps; /* data: endpoints whose failure must be
                              * reported */
    mrail_list_t inbox;      /* mrail_rx_t for this iface */
    size_t inbox_bytes;      /* size of the copies in the inbox */
    mrail_list_t done;       /* mrail_done_t for this iface */
    unsigned num_called;     /* number of callbacks made */

    int epoll_fd;          /* -1 if no descriptor was requested */
    int wake_fd;           /* eventfd in the epoll set */
    mrail_armed_t armed;   /* atomic; the thread that causes an event writes
                            * wake_fd */
    unsigned seen_changes; /* engine->num_changes at the last progress */
    uint64_t seen_events;  /* engine->total_events at the last progress */
};

struct mrail_ep {
    mrail_list_t list;        /* iface->eps */
    mrail_list_t peer_list;   /* peer->eps */
    mrail_list_t failed_list; /* iface->failed_eps */
    mrail_iface_t *iface;
    mrail_peer_t *peer;
    void *user;
    uint64_t id; /* never reused in this process */
    uint16_t remote_iface;
    int failed;           /* 0 or -errno */
    int failure_reported; /* ep_failed() was called */
    int reports_exit;     /* ep_failed() also reports that the peer has exited
                           * regularly; see mrail_ep_check() */
    int cancelled;        /* by mrail_ep_cancel() */
};

/* Schedules the call of ep_failed() for the endpoint, unless it has already
 * been called. Data-path lock held. */
static inline void mrail_ep_report_failed(mrail_ep_t *ep)
{
    if (!ep->failure_reported && mrail_list_empty(&ep->failed_list)) {
        mrail_list_add_tail(&ep->iface->failed_eps, &ep->failed_list);
    }
}

/* Returns the result of operations on a failed endpoint. It is -EAGAIN until
 * the error callback has run. The callback reports the reason, and an MPI
 * library aborts the job at the first error. */
static inline int mrail_ep_error(const mrail_ep_t *ep)
{
    return ep->failure_reported ? ep->failed : -EAGAIN;
}

/* A peer that was freed. */
typedef struct mrail_departed {
    uint64_t id;
    int status; /* -errno with which it failed */
} mrail_departed_t;

struct mrail_engine {
    unsigned references;
    mrail_config_t config;
    uint64_t id;
    uint64_t cookie;
    mrail_rng_t rng; /* under the control lock */
    unsigned num_rails;
    mrail_rail_t rails[MRAIL_MAX_RAILS];
    size_t rx_stride;
    mrail_mem_t flush_mem; /* the flush pages of all rails, as one
                            * registration */
    uint16_t generation;   /* number of the last registration; atomic */

    /* ---- data ---- */
    mrail_data_lock_t data_lock;
    mrail_iface_t *ifaces[MRAIL_MAX_IFACES];
    uint16_t next_iface[MRAIL_MAX_IFACES]; /* next id for each entry of
                                            * ifaces[] */
    unsigned num_ifaces;
    mrail_iface_t *current; /* the iface whose callbacks may run now */
    uint64_t last_ep;       /* id of the last endpoint */
    int poll_requested;     /* atomic: a peer's flush is waiting, so the
                             * control thread must poll */
    int ctl_held;           /* the holder of the data-path lock holds
                             * ctl_lock; see mrail_data_ctl_lock() */
    mrail_pool_t tx_small;
    mrail_pool_t tx_big;
    mrail_pool_t ops;
    mrail_pool_t chunks;
    mrail_pool_t flush_pool;
    mrail_pool_t groups;
    mrail_list_t active; /* peers that progress must visit */
    unsigned nesting;    /* nested progress calls that visit them */
    /* Fair shares of the rails, in use while busy peers reach different rails;
     * see data/throttle.c. */
    mrail_fair_share_t fair_share[MRAIL_FLOWS];
    mrail_ns_t fair_share_ns; /* time at which the fair shares are computed
                               * next */
    mrail_list_t acks;        /* lanes that owe a reply */
    mrail_rx_t *repost[MRAIL_MAX_RAILS][MRAIL_REPOST_BATCH];
    unsigned num_repost[MRAIL_MAX_RAILS];
    mrail_ring_t ring;         /* the trace ring; see state/record.h */
    mrail_ring_t idle_ring;    /* the trace ring while recording is off */
    mrail_counters_t counters; /* ctl_* counters: under the control lock;
                                * others: under the data-path lock */
    unsigned num_events;       /* events of this progress call */
    uint64_t total_events;     /* events since the engine opened */
    unsigned num_dead;         /* failed peers; written under both locks */
    mrail_list_t ended;        /* failed peers that are possibly unused */
    int reap_pending;          /* the list `ended` has entries */
    unsigned num_recovering;   /* number of recovering peers; atomic */
    mrail_list_t stalling;     /* peers whose lanes are checked for stalls */
    int stall_checking;        /* atomic: that list has entries */
    int version_warned;        /* atomic */

    /* ---- both ---- */
    mrail_lane_t **lanes; /* [max_qps]; entries are set with release and
                           * cleared under both locks */
    int error_pending;    /* atomic: a peer has failed, or a lane must be
                           * evicted */
    /* Atomic: stack, linked by check_next, of the peers that error_pending
     * concerns. Holders of either lock push entries; the holder of both locks
     * removes all of them. */
    mrail_peer_t *check_first;
    unsigned num_changes; /* atomic: count of lanes that came up and peers
                           * that failed */

    /* ---- control ---- */
    pthread_mutex_t ctl_lock;
    int ctl_wanted; /* atomic: number of threads that wait for ctl_lock */
    mrail_hash_t peers_by_id;
    mrail_list_t peers;  /* all peers; traversed when the engine starts or
                          * closes, and for events of a whole rail */
    mrail_list_t work;   /* peers that the control thread visits in its next
                          * iteration */
    mrail_heap_t timers; /* peers by the time of their next visit */
    /* Known peers, ordered by the time of their next keepalive. All have the
     * same interval, so a peer is always appended. */
    mrail_list_t keepalives;
    mrail_list_t blocked; /* peers that wait for a send buffer */
    /* Peers that wait until fewer peers connect. */
    mrail_list_t connect_queue;
    unsigned num_connecting; /* peers that connect now */
    unsigned num_peers;
    size_t table_bytes;                        /* bytes of the tables of all
                                                * peers */
    mrail_departed_t departed[MRAIL_DEPARTED]; /* the last freed peers, as a
                                                * ring buffer */
    uint64_t num_departed;                     /* number of peers freed since
                                                * the engine opened */
    struct mrail_stats_lane *ended_lanes;      /* lanes of freed peers; see
                                                * conn/lane.c */
    uint64_t num_ended_lanes;
    /* Lanes that are no longer in use, freed under both locks; see
     * mrail_lane_drop(). */
    mrail_list_t dropped;
    unsigned num_lanes;  /* entries of `lanes` ever used */
    uint16_t *lane_free; /* stack of unused entries among these */
    unsigned num_lane_free;
    mrail_ns_t evict_search_ns; /* time of the last search for lanes to evict */
    unsigned evict_next;        /* index of the lane at which the next search
                                 * begins */
    /* qp_serial of the last lane that must be evicted; 0 if none */
    uint64_t evict_serial;
    unsigned num_further; /* lanes with a QP, excluding the primary lane of each
                           * peer */
    unsigned num_qps;
    uint64_t qp_serial; /* number of QPs created */
    /* Index of the next lane to search for idle credits. */
    unsigned recall_next;
    uint32_t ctl_seq;
    uint16_t epoch;     /* last requested lane epoch, divided by two */
    unsigned next_base; /* rotates the rail of primary lanes */
    int budget_warned;
    struct mrail_page_file *page; /* telemetry page, or NULL */
    pthread_t thread;
    int event_fd;
    int epoll_fd;
    int stop; /* atomic */
};

/* Begins every public data call of an iface. Calls may nest. */
static inline MRAIL_TAKES_DATA MRAIL_UNCHECKED void
mrail_iface_enter(mrail_iface_t *iface)
{
    if (iface->depth++ == 0) {
        iface->token = mrail_data_lock_enter(&iface->engine->data_lock);
    }
}

static inline MRAIL_GIVES_DATA MRAIL_UNCHECKED void
mrail_iface_leave(mrail_iface_t *iface)
{
    if (--iface->depth == 0) {
        mrail_data_lock_leave(&iface->engine->data_lock, iface->token);
    }
}

/* Take and release the control lock. User threads must use
 * mrail_ctl_lock() instead. */
static inline MRAIL_TAKES_CTL MRAIL_UNCHECKED void
mrail_ctl_take(mrail_engine_t *engine)
{
    pthread_mutex_lock(&engine->ctl_lock);
}

static inline MRAIL_GIVES_CTL MRAIL_UNCHECKED void
mrail_ctl_unlock(mrail_engine_t *engine)
{
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* Takes the control lock on a user thread. The control thread yields the
 * lock between two messages (mrail_control_let_in()). */
static inline MRAIL_TAKES_CTL void mrail_ctl_lock(mrail_engine_t *engine)
{
    __atomic_fetch_add(&engine->ctl_wanted, 1, __ATOMIC_RELAXED);
    mrail_ctl_take(engine);
    __atomic_fetch_sub(&engine->ctl_wanted, 1, __ATOMIC_RELAXED);
}

/* Takes ctl_lock under the data-path lock. Completion callbacks must not run
 * until the unlock, because the user's callback may need the lock.
 * mrail_done_run() asserts that it is not held. */
static inline MRAIL_DATA MRAIL_TAKES_CTL void
mrail_data_ctl_lock(mrail_engine_t *engine)
{
    mrail_ctl_lock(engine);
    engine->ctl_held = 1;
}

static inline MRAIL_DATA MRAIL_GIVES_CTL void
mrail_data_ctl_unlock(mrail_engine_t *engine)
{
    engine->ctl_held = 0;
    mrail_ctl_unlock(engine);
}

/* Returns the iface, or NULL if it has been destroyed. A later iface in the
 * same entry has a different id. */
static inline mrail_iface_t *mrail_iface_find(const mrail_engine_t *engine,
                                              uint16_t id)
{
    mrail_iface_t *iface = engine->ifaces[id % MRAIL_MAX_IFACES];

    return ((iface != NULL) && (iface->id == id)) ? iface : NULL;
}

#endif
