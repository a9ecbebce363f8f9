/*
 * The rim of the software device: what an opened device is made of, and which
 * file does what.
 *
 *   proc.c    the process: session, device list, control thread's life
 *   ctx.c     opening and closing a device: slot, sockets, core
 *   net.c     sockets: runs out, batches in, source-port cache
 *   tx.c      when a queue pair may send: rates
 *   door.c    what leaves: port state, loss, delay and other faults
 *   credit.c  receive-buffer credit of other processes
 *   progress.c  one round of receive, timers, transmit; the control thread
 *   events.c  completion channels, async events
 *   verbs_*.c the functions of libibverbs that are put in front
 *   fakefs.c  the device files and sysfs files that UCX looks at
 *
 * Locking: one mutex per opened device (ctx->lock) around the core, its
 * objects, the sockets and lists of this context.  Never two of them at once.
 * proc->lock protects the list of contexts and the session daemon's connection; it is
 * taken before a ctx->lock, never after.
 */
#ifndef MRAIL_SROCE_HOST_H
#define MRAIL_SROCE_HOST_H

#include <pthread.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/rng.h"
#include "softroce/core/sroce.h"
#include "softroce/host/session.h"

#define SROCE_HOST_MAX_SPORT_SOCKS 64
#define SROCE_HOST_SPORT_BUCKETS 128
/* Requested receive buffer; the kernel grants up to net.core.rmem_max, 212992
 * by default. External hosts have no credit: their data in flight must fit
 * (rdma_rxe: 512 KB of a queue pair, and all of a READ). */
#define SROCE_HOST_RCVBUF (4 << 20)
/* Kernel memory of a packet in a run beside its bytes (sk_buff, head); measured as
 * 768 for a small one, so this is on the safe side. */
#define SROCE_HOST_PKT_OVERHEAD 832
/* A packet that is sent alone lies in one piece: its bytes, headers and the
 * end of the head, rounded up to a power of two, and the sk_buff.  Measured:
 * 3700 bytes take 4352, 3800 take 8448. */
#define SROCE_HOST_ALONE_HEAD 400
#define SROCE_HOST_ALONE_SKB 256
#define SROCE_HOST_RX_BYTES 65536

typedef struct sroce_host_ctx sroce_host_ctx_t;

/* One device of the list; ibv_device is followed by a NULL pointer, which
 * mlx5dv_is_supported() takes for the driver's operations. */
typedef struct sroce_host_dev {
    struct ibv_device ibv;
    void *no_driver_ops;
    sroce_session_dev_t *sdev;
    unsigned rail;
} sroce_host_dev_t;

typedef struct sroce_host_proc {
    int enabled; /* MRAIL_SOFT was set and the session is open */
    sroce_session_t *session;
    unsigned node;
    unsigned num_devs;
    sroce_host_dev_t devs[SROCE_SESSION_MAX_RAILS];
    pthread_mutex_t lock;
    mrail_list_t ctxs; /* of sroce_host_ctx_t.list */
    int conn;          /* to the session daemon, -1: not yet or lost */
    int daemon_lost;
    pid_t pid; /* of this process, kept right across fork */
    pthread_t thread;
    int thread_runs;
    int epoll_fd;
    int wake_fd; /* eventfd: makes the control thread look */
} sroce_host_proc_t;

extern sroce_host_proc_t sroce_host;

/* A socket bound to (device address, source port). */
typedef struct sroce_host_sport {
    mrail_list_t lru;
    struct sroce_host_sport *next; /* in its bucket */
    uint16_t port;
    int fd;
} sroce_host_sport_t;

/* A copy of a run: in the delay line, or waiting for credit. */
typedef struct sroce_host_batch {
    mrail_list_t list;
    mrail_ns_t due_ns;
    uint32_t dst_ip;
    int dest_dev; /* device index, -1: outside of the session */
    unsigned dest_slot;
    uint16_t sport;
    uint8_t tos;
    uint16_t num_pkts;
    uint16_t seg_bytes;
    uint32_t length;
    uint8_t data[];
} sroce_host_batch_t;

/* Where a queue pair is in the sending order. */
typedef enum sroce_host_qp_place {
    SROCE_QP_IDLE,  /* on no list */
    SROCE_QP_READY, /* ctx->ready */
    SROCE_QP_WAIT   /* ctx->waiting, until wake_ns */
} sroce_host_qp_place_t;

typedef struct sroce_host_qp {
    struct ibv_qp ibv;
    sroce_qp_t *core;
    sroce_host_ctx_t *ctx;
    mrail_list_t list; /* of place */
    sroce_host_qp_place_t place;
    mrail_ns_t wake_ns;
    uint32_t dest_qpn;    /* RC: the peer's; 0: not connected */
    uint32_t grant_bytes; /* reserved at the rates, 0: nothing */
    mrail_ns_t grant_ns;  /* when they may leave */
    uint64_t poll_epoch;  /* of the posts that are counted, see verbs_ops.c */
    unsigned posts;
    mrail_ns_t credit_since_ns; /* waits for credit since then, 0: does not */
    int backlogged;             /* had more to send since its last batch */
    uint32_t dest_ip;           /* that dest_dev was looked up for */
    int dest_dev;               /* device index, -1: outside of the session */
    sroce_host_batch_t *held;   /* UD: a packet that waits for credit */
    unsigned events_reported;   /* async events read by the application */
    int sq_sig_all;             /* as it was created, for ibv_query_qp() */
} sroce_host_qp_t;

typedef struct sroce_host_cq {
    struct ibv_cq ibv;
    sroce_cq_t *core;
    sroce_host_ctx_t *ctx;
    unsigned events_reported; /* completion events read, see events.c */
    unsigned async_reported;
} sroce_host_cq_t;

typedef struct sroce_host_srq {
    struct ibv_srq ibv;
    sroce_srq_t *core;
    sroce_host_ctx_t *ctx;
    unsigned events_reported;
} sroce_host_srq_t;

typedef struct sroce_host_pd {
    struct ibv_pd ibv;
    sroce_pd_t *core;
} sroce_host_pd_t;

typedef struct sroce_host_mr {
    struct ibv_mr ibv;
    sroce_mr_t *core;
} sroce_host_mr_t;

typedef struct sroce_host_channel {
    struct ibv_comp_channel ibv;
    int write_fd;
} sroce_host_channel_t;

struct sroce_host_ctx {
    mrail_list_t list; /* proc->ctxs */
    sroce_host_dev_t *dev;
    sroce_session_dev_t *sdev;
    sroce_slot_t *slot;
    pid_t pid;           /* that opened it: a forked child must not touch it */
    unsigned dev_index;  /* in the session */
    unsigned slot_index; /* on the device */
    sroce_dev_t *core;
    pthread_mutex_t lock;
    pthread_cond_t acked; /* an event was acknowledged */

    /* Receive. */
    int rx_fd;
    uint8_t *rx_buf;
    uint32_t write_delay_us; /* as the core was told */
    uint32_t settings_gen;   /* sdev's, as last looked at; so the next two */
    uint32_t seeds;
    uint64_t error_qp;
    unsigned rx_skipped; /* rounds since the socket was looked at */
    uint32_t kernel_drops;
    int64_t held_seen;        /* rx_held that did not change */
    mrail_ns_t held_since_ns; /* since then, with an empty socket */

    /* Transmit. */
    mrail_list_t ready;
    mrail_list_t waiting;
    mrail_ns_t next_wake_ns; /* least wake_ns of the waiting */
    int worked;     /* packets came or went since this was last cleared */
    int look_again; /* something arrived: the waiting may have small packets */
    mrail_list_t delayed; /* of sroce_host_batch_t, by due_ns */
    size_t delayed_bytes;
    sroce_host_sport_t *sports[SROCE_HOST_SPORT_BUCKETS];
    mrail_list_t sport_lru; /* most recently used first */
    unsigned num_sports;
    mrail_rng_t rng;
    mrail_ns_t published_ns;
    uint64_t core_base[SROCE_CORE_CNT_MAX]; /* of the slot's former owners */
    sroce_txrun_t run;

    uint64_t poll_epoch; /* +1 with each poll */

    /* Read by the helper thread. */
    _Atomic uint64_t app_rounds; /* the application's progress calls */
    uint64_t seen_rounds;
    /* Written with ctx->lock; the control thread peeks without. */
    _Atomic int watched; /* rx_fd is armed in the epoll set */
    _Atomic int armed;   /* polls for which an armed CQ still counts */
    int port_down;       /* as last reported by an async event */
    int async_write_fd;
    unsigned async_reported; /* port events read */
    uint32_t async_acked;

    struct verbs_context verbs; /* the application's ibv_context is inside */
};

static inline sroce_host_ctx_t *sroce_host_ctx(struct ibv_context *context)
{
    return MRAIL_CONTAINER_OF(context, sroce_host_ctx_t, verbs.context);
}

static inline sroce_host_qp_t *sroce_host_qp(struct ibv_qp *qp)
{
    return MRAIL_CONTAINER_OF(qp, sroce_host_qp_t, ibv);
}

static inline sroce_host_cq_t *sroce_host_cq(struct ibv_cq *cq)
{
    return MRAIL_CONTAINER_OF(cq, sroce_host_cq_t, ibv);
}

static inline sroce_host_srq_t *sroce_host_srq(struct ibv_srq *srq)
{
    return MRAIL_CONTAINER_OF(srq, sroce_host_srq_t, ibv);
}

static inline sroce_host_pd_t *sroce_host_pd(struct ibv_pd *pd)
{
    return MRAIL_CONTAINER_OF(pd, sroce_host_pd_t, ibv);
}

/* NULL: outside of the session (-1). */
static inline sroce_session_dev_t *sroce_host_session_dev(int dest_dev)
{
    return (dest_dev < 0) ? NULL : &sroce_host.session->devs[dest_dev];
}

/* In a forked child the contexts of the parent are dead. */
static inline int sroce_host_is_mine(const sroce_host_ctx_t *ctx)
{
    return MRAIL_LIKELY(ctx->pid == sroce_host.pid);
}

/* Nothing is sent or received now; nothing may be lost by it. */
static inline int sroce_host_is_paused(const sroce_host_ctx_t *ctx)
{
    return (atomic_load_explicit(&ctx->sdev->faults, memory_order_relaxed) &
            SROCE_RAIL_PAUSE) != 0;
}

/* Cost of a run of packets (`length` UDP payload bytes in all) in the receive
 * buffer; equal at sender and receiver. */
static inline int64_t sroce_host_credit(uint32_t length, uint32_t num_pkts)
{
    int64_t credit = length + (int64_t)num_pkts * SROCE_HOST_PKT_OVERHEAD;
    int64_t alone = 512;

    if (num_pkts != 1) {
        return credit;
    }
    while (alone < (int64_t)length + SROCE_HOST_ALONE_HEAD) {
        alone *= 2;
    }
    return MRAIL_MAX(credit, alone + SROCE_HOST_ALONE_SKB);
}

static inline void sroce_host_count(sroce_host_ctx_t *ctx,
                                    sroce_counter_t counter, uint64_t n)
{
    /* Only the owner of the slot writes: no locked instruction is needed. */
    _Atomic uint64_t *c = &ctx->slot->counters[counter];

    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* ---- proc.c ---- */

/* Opens the session on the first call.  1: the software devices are what the
 * program sees; 0: the library is inert. */
int sroce_host_enabled(void);
/* A slot on the device: 0 and its number and receive socket (bound), or
 * -errno after a line on stderr. */
int sroce_host_join(unsigned dev_index, unsigned *slot_p, int *fd_p);
void sroce_host_leave(unsigned dev_index, unsigned slot);
/* Reads what the session daemon has to say.  proc->lock is held. */
void sroce_host_read_daemon(void);

/* ---- ctx.c ---- */
struct ibv_context *sroce_host_ctx_open(sroce_host_dev_t *dev);
void sroce_host_ctx_close(sroce_host_ctx_t *ctx);
/* Locks the context of an object; NULL and errno in a forked child. */
sroce_host_ctx_t *sroce_host_lock(struct ibv_context *context);
void sroce_host_unlock(sroce_host_ctx_t *ctx);
/* The core's and the socket's counters to where `mrail soft status` sees them;
 * unless it was done a moment ago. */
void sroce_host_ctx_publish(sroce_host_ctx_t *ctx, mrail_ns_t now_ns);
void sroce_host_ctx_set_ops(sroce_host_ctx_t *ctx); /* verbs_ops.c */
/* verbs_dev.c: the port attributes of any version's length. */
int sroce_dev_op_query_port(struct ibv_context *context, uint8_t port_num,
                            struct ibv_port_attr *port_attr, size_t length);

/* ---- net.c; ctx->lock is held ---- */
int sroce_net_bind_rx(uint32_t addr, int *fd_p); /* joins the port's group */
int sroce_net_attach_selector(int fd);
int64_t sroce_net_rx_limit(int fd);
/* Reads and hands over what has arrived, at most `max` messages; how many. */
unsigned sroce_net_rx(sroce_host_ctx_t *ctx, unsigned max, mrail_ns_t now_ns);
/* 0, or -errno: the kernel did not take the packets, and they are lost as on a
 * wire.  -EAGAIN is no exception (a full send buffer, off the loopback
 * interface only): the caller does not keep what it sends. */
int sroce_net_send(sroce_host_ctx_t *ctx, uint32_t dst_ip, uint16_t sport,
                   uint8_t tos, uint16_t seg_bytes, uint16_t num_pkts,
                   const struct iovec *iov, unsigned iov_count);
/* Number of packets that the kernel dropped at the receive socket, by
 * SO_MEMINFO. */
uint32_t sroce_net_drops(const sroce_host_ctx_t *ctx);
void sroce_net_cleanup(sroce_host_ctx_t *ctx);

/* ---- credit.c; ctx->lock is held ---- */

/* Credit for up to `num` packets of `seg_bytes` at a process of the session;
 * how many it got.  It is what sroce_host_credit() says of a run of so many,
 * and enough for any part of it.  On record as not sent until settled or
 * returned. */
unsigned sroce_credit_take(sroce_host_ctx_t *ctx, int dest_dev,
                           unsigned dest_slot, uint32_t seg_bytes,
                           unsigned num);
/* The same for a queue pair, which waits for its turn if credit is short.
 * Small packets do not. */
unsigned sroce_credit_take_turn(sroce_host_qp_t *qp, unsigned dest_slot,
                                uint32_t seg_bytes, unsigned num,
                                mrail_ns_t now_ns);
/* Credit (see sroce_host_credit) that is not used after all. */
void sroce_credit_return(int dest_dev, unsigned dest_slot, int64_t bytes);
/* The rest is in the socket: its credit is the receiver's to return. */
void sroce_credit_settle(sroce_host_ctx_t *ctx);

/* Restarts the context's random numbers with the seed of the session or of a
 * script. */
void sroce_host_ctx_seed(sroce_host_ctx_t *ctx);

/* ---- tx.c; ctx->lock is held ---- */
void sroce_tx_activate(sroce_host_qp_t *qp);
/* Sends the queue pair's pending acknowledgement of completed work first, if
 * possible within a moment. */
void sroce_tx_finish(sroce_host_qp_t *qp);
void sroce_tx_remove(sroce_host_qp_t *qp); /* before it is destroyed */
void sroce_tx_round(sroce_host_ctx_t *ctx, mrail_ns_t now_ns);
/* When a round could send more, MRAIL_NS_NEVER: not before something comes. */
mrail_ns_t sroce_tx_deadline(const sroce_host_ctx_t *ctx);
void sroce_tx_cleanup(sroce_host_ctx_t *ctx);

/* ---- progress.c ---- */
/* One round in the caller's thread; ctx->lock is held.  Receive batches. */
unsigned sroce_progress(sroce_host_ctx_t *ctx);
int sroce_service_start(void); /* proc->lock is held; once */
void sroce_service_wake(void);
void sroce_service_watch(sroce_host_ctx_t *ctx, int watch);
void sroce_service_arm(sroce_host_ctx_t *ctx);    /* ctx->lock is held */
int sroce_service_add(sroce_host_ctx_t *ctx);     /* when it is complete */
void sroce_service_forget(sroce_host_ctx_t *ctx); /* before it is closed */

/* ---- events.c ---- */
void sroce_event_cq(void *arg, void *cq_user);
void sroce_event_async(void *arg, enum ibv_event_type type, void *user);
/* Port state against what was last reported; ctx->lock is held. */
void sroce_event_check_port(sroce_host_ctx_t *ctx);
void sroce_event_invalidate_cq(sroce_host_cq_t *cq);
void sroce_event_invalidate(sroce_host_ctx_t *ctx, void *object,
                            unsigned *reported, uint32_t *acked);
int sroce_event_pipe(int *read_fd_p, int *write_fd_p);
/* As the verbs of these names: 0, or -1 and errno. */
int sroce_event_get_cq(struct ibv_comp_channel *channel, struct ibv_cq **cq_p,
                       void **cq_context_p);
void sroce_event_ack_cq(sroce_host_cq_t *cq, unsigned num);
int sroce_event_get_async(sroce_host_ctx_t *ctx, struct ibv_async_event *event);
void sroce_event_ack_async(struct ibv_async_event *event);

#endif
