/*
 * Declares the software device in a process: the state of an opened device, and
 * an index of the files.
 *
 *   proc.c    the process: session, device list, fork
 *   ctx.c     opening and closing a device: slot, sockets, core
 *   net.c     sockets: sends runs, receives batches, caches source ports
 *   tx.c      when a queue pair may send: rates and credit
 *   egress.c  port state, loss, delay and other faults of sent packets
 *   credit.c  receive-buffer credit of other processes
 *   progress.c  a progress call: receive, timers, transmit; the control thread
 *   events.c  completion channels, async events
 *   verbs_*.c the functions of libibverbs that this library replaces
 *   fakefs.c  the device files and sysfs files that UCX reads
 *
 * Locking: each opened device has one mutex (ctx->lock), which protects the
 * core, its objects, and the context's sockets and lists. No thread holds two
 * of these mutexes. proc->lock protects the list of contexts and the connection
 * to the session daemon. Lock order: proc->lock before ctx->lock.
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
/* Receive buffer to request. The kernel grants up to net.core.rmem_max, 212992
 * by default. External hosts do not use credit, so all of their data in flight
 * must fit (rdma_rxe: 512 KB for each queue pair, and all data of a READ). */
#define SROCE_HOST_RCVBUF (4 << 20)
#define SROCE_HOST_SNDBUF (4 << 20)
/* Kernel memory that a packet in a run uses in addition to its bytes (sk_buff,
 * head). A small packet used 768 bytes in a measurement; the rest is a safety
 * margin. */
#define SROCE_HOST_PKT_OVERHEAD 832
/* A single packet uses the sk_buff and one allocation for its bytes, its
 * headers and the end of the head, rounded up to a power of two. In
 * measurements, 3700 bytes used 4352, and 3800 used 8448. */
#define SROCE_HOST_SINGLE_HEAD 400
#define SROCE_HOST_SINGLE_SKB 256
#define SROCE_HOST_RX_BYTES 65536

typedef struct sroce_host_ctx sroce_host_ctx_t;

/* A device in the list. The NULL pointer after ibv_device is for
 * mlx5dv_is_supported(), which looks for the driver's operations there. */
typedef struct sroce_host_dev {
    struct ibv_device ibv;
    void *no_driver_ops;
    sroce_session_dev_t *sdev;
    unsigned rail;
} sroce_host_dev_t;

typedef struct sroce_host_proc {
    int enabled; /* 1 if MRAIL_SOFT is set; hides real devices */
    sroce_session_t *session;
    unsigned node;
    unsigned num_devs;
    sroce_host_dev_t devs[SROCE_SESSION_MAX_RAILS];
    pthread_mutex_t lock;
    mrail_list_t ctxs; /* list of sroce_host_ctx_t */
    int conn;          /* connection to the session daemon, or -1 if none or
                        * lost */
    int daemon_lost;
    pid_t pid; /* id of this process, updated after fork */
    pthread_t thread;
    int thread_runs;
    int epoll_fd;
    int wake_fd; /* eventfd: wakes the control thread */
} sroce_host_proc_t;

extern sroce_host_proc_t sroce_host;

/* A socket bound to (device address, source port). */
typedef struct sroce_host_sport {
    mrail_list_t lru;
    struct sroce_host_sport *next; /* next entry in its bucket */
    uint16_t port;
    int fd;
} sroce_host_sport_t;

/* A copy of a run that is in the delay line or waits for credit. */
typedef struct sroce_host_batch {
    mrail_list_t list;
    mrail_ns_t due_ns;
    uint32_t dst_ip;
    int dest_dev; /* device index, or -1 if outside the session */
    unsigned dest_slot;
    uint16_t sport;
    uint8_t tos;
    uint16_t num_pkts;
    uint16_t seg_bytes;
    uint32_t length;
    uint8_t data[];
} sroce_host_batch_t;

/* The scheduling state of a queue pair, which determines the list that it is
 * on. */
typedef enum sroce_host_qp_sched {
    SROCE_QP_SCHED_IDLE,   /* the QP is on no list */
    SROCE_QP_SCHED_READY,  /* ctx->ready */
    SROCE_QP_SCHED_WAITING /* ctx->waiting, until wake_ns */
} sroce_host_qp_sched_t;

typedef struct sroce_host_qp {
    struct ibv_qp ibv;
    sroce_qp_t *core;
    sroce_host_ctx_t *ctx;
    mrail_list_t list; /* the list of `sched` */
    sroce_host_qp_sched_t sched;
    mrail_ns_t wake_ns;
    uint32_t dest_qpn;       /* RC: the peer's QPN, or 0 if not connected */
    uint32_t reserved_bytes; /* bytes reserved at the rates, or 0 */
    mrail_ns_t departure_ns; /* time at which the reserved bytes may leave */
    uint64_t poll_epoch; /* poll since which `posts` counts, see verbs_ops.c */
    unsigned posts;
    mrail_ns_t credit_since_ns; /* start of the wait for credit, or 0 */
    int backlogged;             /* 1 if the last batch left requests unsent */
    uint32_t dest_ip;           /* address of dest_dev */
    int dest_dev;               /* device index, or -1 if outside the session */
    sroce_host_batch_t *held;   /* UD: a packet waiting for credit */
    unsigned events_reported;   /* async events read by the application */
    int sq_sig_all;             /* creation attribute, for ibv_query_qp() */
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
    void *map; /* mapping of a dma-buf; NULL for the application's memory */
    size_t map_length;
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
    pid_t pid;           /* process that opened it; its children must not use
                          * it */
    unsigned dev_index;  /* index in the session */
    unsigned slot_index; /* index on the device */
    sroce_dev_t *core;
    pthread_mutex_t lock;
    pthread_cond_t acked; /* an event was acknowledged */

    /* Receive. */
    int rx_fd;
    uint8_t *rx_buf;
    uint32_t write_delay_us; /* value in the core */
    uint32_t settings_gen;   /* last value seen in sdev */
    uint32_t seeds;
    uint64_t error_qp;
    unsigned rx_skipped; /* progress calls since the last read of the socket */
    uint32_t kernel_drops;
    int64_t held_seen;        /* last value of rx_held seen */
    mrail_ns_t held_since_ns; /* time since which rx_held is unchanged and
                               * the socket is empty */

    /* Transmit. */
    mrail_list_t ready;
    mrail_list_t waiting;
    mrail_ns_t next_wake_ns; /* minimum wake_ns in `waiting` */
    int worked; /* 1 if packets were sent or received since the last reset */
    int recheck_waiting;  /* 1 if waiting QPs may have replies */
    mrail_list_t delayed; /* list of sroce_host_batch_t, ordered by due_ns */
    size_t delayed_bytes;
    sroce_host_sport_t *sports[SROCE_HOST_SPORT_BUCKETS];
    mrail_list_t sport_lru; /* most recently used first */
    unsigned num_sports;
    mrail_rng_t rng;
    mrail_ns_t exported_ns;
    uint64_t core_base[SROCE_CORE_CNT_MAX]; /* counts left by the slot's
                                             * previous owners */
    sroce_txrun_t run;

    uint64_t poll_epoch; /* number of polls */

    /* Read by the control thread. */
    _Atomic uint64_t app_calls; /* polls and posts by the application */
    uint64_t seen_calls;        /* last value seen */
    /* Written with ctx->lock held; the control thread reads them without it. */
    _Atomic int watched; /* rx_fd is armed in the epoll set */
    _Atomic int armed;   /* polls left until an armed CQ no longer counts */
    int port_down;       /* state that the last async event reported */
    int async_write_fd;
    unsigned async_reported; /* port events read */
    uint32_t async_acked;

    struct verbs_context verbs; /* contains the application's ibv_context */
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

/* Returns NULL if the device is outside the session (-1). */
static inline sroce_session_dev_t *sroce_host_session_dev(int dest_dev)
{
    return (dest_dev < 0) ? NULL : &sroce_host.session->devs[dest_dev];
}

/* Returns 0 in a forked child, which cannot use its parent's contexts. */
static inline int sroce_host_is_mine(const sroce_host_ctx_t *ctx)
{
    return MRAIL_LIKELY(ctx->pid == sroce_host.pid);
}

/* Returns 1 if the rail is paused. A paused rail neither sends nor receives
 * packets, but does not lose any. */
static inline int sroce_host_is_paused(const sroce_host_ctx_t *ctx)
{
    return (atomic_load_explicit(&ctx->sdev->faults, memory_order_relaxed) &
            SROCE_RAIL_PAUSE) != 0;
}

/* Returns the receive-buffer cost of a run of packets with `length` bytes of
 * UDP payload in total. The sender and the receiver compute the same value. */
static inline int64_t sroce_host_credit(uint32_t length, uint32_t num_pkts)
{
    int64_t credit = length + (int64_t)num_pkts * SROCE_HOST_PKT_OVERHEAD;
    int64_t single = 512;

    if (num_pkts != 1) {
        return credit;
    }
    while (single < (int64_t)length + SROCE_HOST_SINGLE_HEAD) {
        single *= 2;
    }
    return MRAIL_MAX(credit, single + SROCE_HOST_SINGLE_SKB);
}

static inline void sroce_host_count(sroce_host_ctx_t *ctx,
                                    sroce_counter_t counter, uint64_t n)
{
    /* Only the slot's owner writes, so no atomic add is needed. */
    _Atomic uint64_t *c = &ctx->slot->counters[counter];

    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* ---- proc.c ---- */

/* On the first call, opens the session. Returns 1 if the program sees only
 * software devices, or 0 if the library is inert. */
int sroce_host_enabled(void);
/* Returns 1 if rails act as if nvidia-peermem were loaded (fakefs.c). */
int sroce_host_has_peermem(void);
/* Acquires a slot on the device. Returns 0 with the slot's number and its bound
 * receive socket, or -errno after a message on stderr. */
int sroce_host_join(unsigned dev_index, unsigned *slot_p, int *fd_p);
void sroce_host_leave(unsigned dev_index, unsigned slot);
/* Processes pending messages from the session daemon. proc->lock is held. */
void sroce_host_read_daemon(void);

/* ---- ctx.c ---- */
struct ibv_context *sroce_host_ctx_open(sroce_host_dev_t *dev);
void sroce_host_ctx_close(sroce_host_ctx_t *ctx);
/* Locks an object's context. Returns NULL and errno in a forked child. */
sroce_host_ctx_t *sroce_host_lock(struct ibv_context *context);
void sroce_host_unlock(sroce_host_ctx_t *ctx);
/* Exports the counters of the core and the socket to shared memory, where
 * `mrail soft status` reads them. Does nothing if the last export is less than
 * 10 ms old. */
void sroce_host_ctx_export(sroce_host_ctx_t *ctx, mrail_ns_t now_ns);
void sroce_host_ctx_set_ops(sroce_host_ctx_t *ctx); /* verbs_ops.c */
/* verbs_dev.c: port attributes, truncated to the caller's version. */
int sroce_dev_op_query_port(struct ibv_context *context, uint8_t port_num,
                            struct ibv_port_attr *port_attr, size_t length);

/* ---- net.c; ctx->lock is held ---- */
int sroce_net_bind_rx(uint32_t addr, int *fd_p); /* joins the SO_REUSEPORT
                                                  * group */
int sroce_net_attach_selector(int fd);
int64_t sroce_net_rx_limit(int fd);
/* Reads up to `max` messages, passes them to the core and returns their
 * number. */
unsigned sroce_net_rx(sroce_host_ctx_t *ctx, unsigned max, mrail_ns_t now_ns);
/* Returns 0, or -errno if the kernel did not accept the packets. This includes
 * -EAGAIN (the send buffer is full, which never happens on the loopback
 * interface). The packets are then lost, as on a wire, because the caller keeps
 * no copy. */
int sroce_net_send(sroce_host_ctx_t *ctx, uint32_t dst_ip, uint16_t sport,
                   uint8_t tos, uint16_t seg_bytes, uint16_t num_pkts,
                   const struct iovec *iov, unsigned iov_count);
/* Returns the number of packets that the kernel has dropped at the receive
 * socket (SO_MEMINFO). */
uint32_t sroce_net_drops(const sroce_host_ctx_t *ctx);
void sroce_net_cleanup(sroce_host_ctx_t *ctx);

/* ---- credit.c; ctx->lock is held ---- */

/* Reserves credit for n <= `num` packets of `seg_bytes` to a process of the
 * session, and returns n. The amount is the sroce_host_credit() of a run of n
 * packets, which is enough for any part of that run. The slot records it as
 * unsent until it is committed or returned. */
unsigned sroce_credit_take(sroce_host_ctx_t *ctx, int dest_dev,
                           unsigned dest_slot, uint32_t seg_bytes,
                           unsigned num);
/* Like sroce_credit_take(), but for a queue pair, which waits in a queue if
 * there is too little credit. Small packets are not queued. */
unsigned sroce_credit_take_queued(sroce_host_qp_t *qp, unsigned dest_slot,
                                  uint32_t seg_bytes, unsigned num,
                                  mrail_ns_t now_ns);
/* Returns unused credit (see sroce_host_credit). */
void sroce_credit_return(int dest_dev, unsigned dest_slot, int64_t bytes);
/* Records that the packets are in the socket. The receiver returns their
 * credit. */
void sroce_credit_commit(sroce_host_ctx_t *ctx);

/* Reseeds the random numbers from the session or a script. */
void sroce_host_ctx_seed(sroce_host_ctx_t *ctx);

/* ---- tx.c; ctx->lock is held ---- */
void sroce_tx_activate(sroce_host_qp_t *qp);
/* Sends the queue pair's pending acknowledgements, or as many as it can in 500
 * us. */
void sroce_tx_finish(sroce_host_qp_t *qp);
void sroce_tx_remove(sroce_host_qp_t *qp); /* called before a QP is destroyed */
void sroce_tx_progress(sroce_host_ctx_t *ctx, mrail_ns_t now_ns);
/* Returns the time of the next packet to send, or MRAIL_NS_NEVER if no packet
 * is waiting. */
mrail_ns_t sroce_tx_deadline(const sroce_host_ctx_t *ctx);
void sroce_tx_cleanup(sroce_host_ctx_t *ctx);

/* ---- progress.c ---- */
/* Receives packets, runs expired timers, and transmits. ctx->lock is held.
 * Returns the number of socket messages received. */
unsigned sroce_progress(sroce_host_ctx_t *ctx);
int sroce_control_start(void); /* proc->lock is held; later calls do nothing */
void sroce_control_wake(void);
void sroce_control_watch(sroce_host_ctx_t *ctx, int watch);
void sroce_control_arm(sroce_host_ctx_t *ctx);    /* ctx->lock is held */
int sroce_control_add(sroce_host_ctx_t *ctx);     /* after initialisation */
void sroce_control_remove(sroce_host_ctx_t *ctx); /* before closing */

/* ---- events.c ---- */
void sroce_event_cq(void *arg, void *cq_user);
void sroce_event_async(void *arg, enum ibv_event_type type, void *user);
/* Raises a port event if the state has changed. ctx->lock is held. */
void sroce_event_check_port(sroce_host_ctx_t *ctx);
void sroce_event_invalidate_cq(sroce_host_cq_t *cq);
void sroce_event_invalidate(sroce_host_ctx_t *ctx, void *object,
                            unsigned *reported, uint32_t *acked);
int sroce_event_pipe(int *read_fd_p, int *write_fd_p);
/* Like the verbs of the same names, these return 0, or -1 and errno. */
int sroce_event_get_cq(struct ibv_comp_channel *channel, struct ibv_cq **cq_p,
                       void **cq_context_p);
void sroce_event_ack_cq(sroce_host_cq_t *cq, unsigned num);
int sroce_event_get_async(sroce_host_ctx_t *ctx, struct ibv_async_event *event);
void sroce_event_ack_async(struct ibv_async_event *event);

#endif
