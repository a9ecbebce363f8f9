/*
 * The engine presents all NIC ports ("rails") of this process as one transport.
 * It uses libibverbs, but neither UCX nor MPI.
 *
 * A process has one engine, opened by reference. A user (a UCT interface, a
 * collective component) creates an `mrail_iface` on it. Endpoints of all ifaces
 * to the same peer process share the lanes of that peer.
 *
 * Threads: the user serialises calls on one iface, its endpoints and their
 * operations. Calls on different ifaces may run on different threads. Callbacks
 * of an iface run only inside mrail_iface_progress() of that iface, or inside
 * mrail_iface_destroy(). They never run on the control thread, which handles
 * control messages, timers and asynchronous events.
 *
 * Errors: functions return 0 or -errno. -EAGAIN always means that the call had
 * no effect, and that the caller should retry after progress. -EINPROGRESS
 * means that the completion callback will run. Once the engine has given up a
 * peer, all operations to it, new or in flight, fail with one of these values:
 *
 *   -ETIMEDOUT     unreachable -ECONNREFUSED  the peer refused the connection
 *   -ESHUTDOWN     the peer has shut down -ENOMEM, -EIO, -ECONNRESET
 */
#ifndef MRAIL_RAIL_MRAIL_H
#define MRAIL_RAIL_MRAIL_H

#include "base/clock.h"
#include "base/util.h"
#include "cuda/device.h"
#include "rail/params.h"

#include <stddef.h>
#include <stdint.h>

#define MRAIL_MAX_RAILS 16
#define MRAIL_IFACE_ADDR_MAX 63  /* limit of UCX address version 1 */
#define MRAIL_DEVICE_ADDR_MAX 31 /* limit of UCX address version 1 */
#define MRAIL_MAX_IOV 4

typedef struct mrail_engine mrail_engine_t;
typedef struct mrail_iface mrail_iface_t;
typedef struct mrail_ep mrail_ep_t;
typedef struct mrail_mem mrail_mem_t;
typedef struct mrail_rkey mrail_rkey_t;

typedef struct mrail_iov {
    void *buffer;
    size_t length;    /* bytes */
    mrail_mem_t *mem; /* registration that covers the buffer */
} mrail_iov_t;

/* ---- rails ---- */

typedef struct mrail_rail_attr {
    char device[64];  /* verbs device name */
    unsigned port;    /* port number, starting at 1 */
    int selected;     /* 1 if the port is a rail of this engine */
    char reason[128]; /* reason if the port is not selected, otherwise empty */
    uint8_t gid[16];  /* valid if selected */
    int gid_index;
    unsigned mtu;         /* bytes of payload per packet */
    uint64_t rate_bps;    /* bits per second, from the port's width and
                           * speed; the scheduler and UCX use it */
    uint64_t speed_bps;   /* bits per second that the port reports now; the
                           * planner uses it */
    uint64_t subnet;      /* rails with equal subnets reach each other */
    unsigned subnet_bits; /* leading bits of the address that form the subnet */
    unsigned nic_index;   /* used to choose source ports */
    int bad_parameter;    /* not selected, because GID_INDEX or NIC_INDEX must
                           * be set or changed */
    int numa_node;        /* -1 if unknown */
    unsigned max_inline;
    int has_dmabuf; /* the device accepts dma-bufs */
} mrail_rail_attr_t;

/* Writes "192.0.2.1" for a mapped IPv4 address, otherwise the IPv6 form. `size`
 * must be at least INET6_ADDRSTRLEN. */
void mrail_gid_text(const uint8_t gid[16], char *text, size_t size);

typedef void (*mrail_rail_func_t)(void *arg, const mrail_rail_attr_t *attr);

/* The ports that are not selected, as "soft0:1 (REASON), soft1:1 (REASON)".
 * Ports that do not fit into the text are omitted. Initialised with zeros. */
typedef struct mrail_rejected_ports {
    char text[512];
    size_t length;
} mrail_rejected_ports_t;

/* A mrail_rail_func_t. Adds the port to the mrail_rejected_ports_t `arg`,
 * unless the port is selected. */
void mrail_rejected_ports_add(void *arg, const mrail_rail_attr_t *attr);

/* Returns the reason for which no port was selected: the list of ports, or the
 * lack of RDMA devices. The text is valid as long as `rejected`. */
const char *mrail_rejected_ports_text(const mrail_rejected_ports_t *rejected);

/*
 * Calls `func` for every port of every verbs device. The attributes include
 * whether `config` selects the port. Closes all devices before it returns the
 * number of selected rails. If config->devices names a port that does not
 * exist or is not active, logs one error line and returns -EINVAL.
 */
int mrail_rail_discover(const mrail_config_t *config, mrail_rail_func_t func,
                        void *arg);

/* ---- engine ---- */

/*
 * Opens the engine of this process, or takes another reference to it. The
 * configuration of the first caller applies. Returns -ENODEV if there are no
 * rails (a warning gives the reason), -EINVAL if the configuration is invalid,
 * or -ENOMEM. -ENOMEM may also mean that the locked-memory limit is too small,
 * which the error line then states.
 */
int mrail_engine_open(const mrail_config_t *config, mrail_engine_t **engine_p);
void mrail_engine_close(mrail_engine_t *engine);

typedef struct mrail_engine_attr {
    unsigned num_rails;
    double bandwidth;     /* bytes per second, sum over all rails */
    double latency_s;     /* estimated one-way latency of a small message */
    size_t max_am_short;  /* bytes of header + payload of am_short */
    size_t max_am_bcopy;  /* bytes */
    size_t max_put_short; /* bytes */
    size_t max_bcopy;     /* bytes of put_bcopy and get_bcopy */
    size_t rkey_size;     /* bytes of a packed key */
} mrail_engine_attr_t;

void mrail_engine_query(const mrail_engine_t *engine,
                        mrail_engine_attr_t *attr_p);

/* The current state of a rail. Rates are in bytes per second. */
typedef struct mrail_rail_now {
    unsigned index; /* index of the rail in the engine */
    uint64_t subnet;
    uint8_t gid[16];
    char device[64];
    uint64_t speed;    /* capacity of the port */
    uint64_t live_in;  /* rate that this process measured recently while it
                        * was busy receiving; 0 if unknown */
    uint64_t live_out; /* rate that this process measured recently while it
                        * was busy sending; 0 if unknown */
    int is_up;         /* 0 if the port is down or the device is gone */
    /* The lanes to a peer, and the uplinks among which their source ports
     * divide them; see mrail_ports_lane(). uplinks is 0 without port rules. */
    unsigned nic_index, uplinks, num_lanes;
} mrail_rail_now_t;

/*
 * Fills in the rails of this process's engine, sorted by subnet, at most
 * MRAIL_MAX_RAILS. Returns their number, or 0 if no engine is open. Any thread
 * may call it, but not from within mrail_engine_open() or mrail_engine_close(),
 * because it waits until these have returned. Queries `speed` from the device
 * at most once every 100 ms.
 */
unsigned mrail_rails_now(mrail_rail_now_t *rails);

typedef struct mrail_memory {
    size_t pools;  /* bytes: receive and send buffers */
    size_t queues; /* bytes: QPs and CQs, estimated from their depths */
    size_t tables; /* bytes: peers, endpoints, operations */
    unsigned num_qps;
    unsigned num_peers;
} mrail_memory_t;

void mrail_engine_memory(mrail_engine_t *engine, mrail_memory_t *memory_p);

/* ---- memory ---- */

/*
 * Registers host memory or device memory on every rail, and allows remote reads
 * and writes. Only zero-copy PUTs and GETs may use device memory, because all
 * other operations access their buffers with the CPU. Registration caches align
 * ranges, so the range may extend up to 63 bytes beyond an allocation of device
 * memory; the function ignores these bytes.
 *
 * Returns 0, or one of these errors, after which no rail has a registration:
 *   -EFAULT, -ERANGE  see mrail_cuda_recognise()
 *   -EOPNOTSUPP       managed memory, or device memory that NICs cannot access
 *   other             -errno of ibv_reg_mr(3)
 */
int mrail_mem_reg(mrail_engine_t *engine, void *address, size_t length,
                  mrail_mem_t **mem_p);
int mrail_mem_dereg(mrail_mem_t *mem);

/* Returns the buffer id of registered device memory, or 0 for host memory. */
uint64_t mrail_mem_buffer_id(const mrail_mem_t *mem);

/* Returns how all rails can access the memory of all devices, or
 * MRAIL_CUDA_ACCESS_NONE if some rail cannot or the process has not loaded the
 * driver. Initialises a loaded driver. */
mrail_cuda_access_t mrail_engine_device_access(const mrail_engine_t *engine);

/* Writes attr.rkey_size bytes. */
void mrail_rkey_pack(const mrail_mem_t *mem, void *buffer);

/* Returns 0, -ENOMEM, or -EINVAL if the bytes are not a key of this version. */
int mrail_rkey_unpack(const void *buffer, mrail_rkey_t **rkey_p);
void mrail_rkey_release(mrail_rkey_t *rkey);

/* ---- iface ---- */

typedef struct mrail_iface_params {
    void *arg; /* first argument of the callbacks */
    /* Called when an active message arrives. `data` is valid only during the
     * call. */
    void (*am)(void *arg, uint8_t am_id, void *data, size_t length);
    /* Called when an operation that returned -EINPROGRESS completes, with
     * status 0 or -errno. `comp` is the argument of the operation. */
    void (*complete)(void *arg, void *comp, int status);
    /* Called once per endpoint when its peer can no longer be reached;
     * mrail_ep_describe() returns the peer and the reason. -EIO means that a
     * device rejected a PUT or GET of the endpoint, for example because of an
     * invalid key. Later operations on the endpoint fail as well. May be
     * NULL. */
    void (*ep_failed)(void *arg, mrail_ep_t *ep, int status);
    /* 1 if the user also serialises the calls on this iface with those on the
     * first iface of the process, so that the engine needs no mutex for it. */
    int is_serialised;
} mrail_iface_params_t;

int mrail_iface_create(mrail_engine_t *engine,
                       const mrail_iface_params_t *params,
                       mrail_iface_t **iface_p);

/* Destroys the iface, whose endpoints must be destroyed first. No callback runs
 * afterwards. */
void mrail_iface_destroy(mrail_iface_t *iface);

/* Makes progress on all ifaces and peers of the engine. Returns the number of
 * events handled. */
unsigned mrail_iface_progress(mrail_iface_t *iface);

/* Returns a counter that changes whenever an operation that returned -EAGAIN
 * may succeed: an iface has handled events, a lane has come up, or a peer has
 * failed. Compare its values after two successive calls of
 * mrail_iface_progress(). */
uint64_t mrail_iface_activity(const mrail_iface_t *iface);

/*
 * Returns in *fd_p a file descriptor that becomes readable when an armed iface
 * has work. It belongs to the iface; do not read from it. Returns 0 or -errno
 * (descriptors, memory).
 */
int mrail_iface_event_fd(mrail_iface_t *iface, int *fd_p);

/* Arms the descriptor. Returns 0 if the caller may sleep until the descriptor
 * is readable and then call mrail_iface_progress(). Returns -EBUSY if the
 * caller must call progress first, or -EINVAL if there is no descriptor. If
 * wants_room is set, the descriptor also becomes readable when an operation
 * that returned -EAGAIN may succeed. */
int mrail_iface_arm(mrail_iface_t *iface, int wants_space);

/* Addresses are opaque byte strings, whose lengths are fixed for an engine. */
size_t mrail_iface_addr_size(const mrail_iface_t *iface);
size_t mrail_device_addr_size(const mrail_engine_t *engine);
void mrail_iface_addr_pack(const mrail_iface_t *iface, void *buffer);
void mrail_device_addr_pack(const mrail_engine_t *engine, void *buffer);
/* An endpoint that sends no active messages may use the address of the engine
 * instead of the address of an iface. */
size_t mrail_engine_addr_size(const mrail_engine_t *engine);
void mrail_engine_addr_pack(const mrail_engine_t *engine, void *buffer);

/* Returns 1 if an endpoint to that address can be created, or 0 if the address
 * is from another version of mrail (one warning names both). Ports on different
 * leaves count as reachable, because the network between them may be routed. */
int mrail_addr_is_reachable(mrail_engine_t *engine, const void *device_addr,
                            const void *iface_addr);

/* ---- endpoints ---- */

/* Creates an endpoint without waiting for the connection. Operations return
 * -EAGAIN until the first lane is up. */
int mrail_ep_create(mrail_iface_t *iface, const void *device_addr,
                    const void *iface_addr, void *user, mrail_ep_t **ep_p);
void mrail_ep_destroy(mrail_ep_t *ep);
void *mrail_ep_user(const mrail_ep_t *ep);

/*
 * Active messages form one ordered stream per endpoint, and each message is
 * delivered once. header_length + length <= attr.max_am_short; header may be
 * NULL if its length is 0. Returns 0 if the message was sent and the buffers
 * may be reused, -EAGAIN, or the -errno with which the peer failed.
 */
int mrail_ep_am_short(mrail_ep_t *ep, uint8_t am_id, const void *header,
                      unsigned header_length, const void *payload,
                      unsigned length);

/* `pack` writes at most attr.max_am_bcopy bytes to `dest` and returns their
 * number. It is called only if the message will be sent. Returns the packed
 * length, -EAGAIN, or the -errno with which the peer failed. */
typedef size_t (*mrail_pack_func_t)(void *dest, void *arg);
ptrdiff_t mrail_ep_am_bcopy(mrail_ep_t *ep, uint8_t am_id,
                            mrail_pack_func_t pack, void *arg);

/*
 * Remote memory access. Only a fence orders operations. Buffered forms return 0
 * or the packed length; other forms return -EINPROGRESS. Every length >= 0 is
 * legal; comp may be NULL. The key must remain valid until the operation
 * completes; in buffered forms, only until the call returns.
 */
int mrail_ep_put_short(mrail_ep_t *ep, const void *buffer, unsigned length,
                       uint64_t remote_address, const mrail_rkey_t *rkey);
ptrdiff_t mrail_ep_put_bcopy(mrail_ep_t *ep, mrail_pack_func_t pack, void *arg,
                             uint64_t remote_address, const mrail_rkey_t *rkey);
int mrail_ep_put_zcopy(mrail_ep_t *ep, const mrail_iov_t *iov,
                       unsigned iov_count, uint64_t remote_address,
                       const mrail_rkey_t *rkey, void *comp);
/* Blocks until the data has arrived, making progress but calling no callbacks.
 * length is at most attr.max_bcopy. If a lane fails during the call, or another
 * thread has waited too long, returns -EAGAIN with the buffer unchanged. */
int mrail_ep_get_short(mrail_ep_t *ep, void *buffer, unsigned length,
                       uint64_t remote_address, const mrail_rkey_t *rkey);
typedef void (*mrail_unpack_func_t)(void *arg, const void *data, size_t length);
int mrail_ep_get_bcopy(mrail_ep_t *ep, mrail_unpack_func_t unpack, void *arg,
                       size_t length, uint64_t remote_address,
                       const mrail_rkey_t *rkey, void *comp);
int mrail_ep_get_zcopy(mrail_ep_t *ep, const mrail_iov_t *iov,
                       unsigned iov_count, uint64_t remote_address,
                       const mrail_rkey_t *rkey, void *comp);

/*
 * Bytes that each rail should carry according to a plan. Several operations to
 * one peer may share a quota, which they consume. A rail whose quota is used up
 * carries no more bytes. A rail keeps its quota while its first lane to the
 * peer connects, and while its paths to the peer are suspect.
 *
 * An operation ignores its quota after until_ns, the time by which its bytes
 * should have arrived. It also ignores the quota if the rails that lead to the
 * peer have less quota left than the operation has bytes, for example because a
 * rail has failed. The lanes then pull the remaining bytes as their windows
 * allow.
 */
typedef struct mrail_quota {
    uint64_t left[MRAIL_MAX_RAILS]; /* bytes, indexed by the rail of this
                                     * engine */
    mrail_ns_t until_ns;            /* see mrail_clock_now() */
    /* Bytes that have arrived over each rail; updated by the engine. */
    uint64_t carried[MRAIL_MAX_RAILS];
} mrail_quota_t;

/* Like mrail_ep_get_zcopy(), with a quota, which must remain valid until the
 * operation completes. */
int mrail_ep_get_quota(mrail_ep_t *ep, const mrail_iov_t *iov,
                       unsigned iov_count, uint64_t remote_address,
                       const mrail_rkey_t *rkey, mrail_quota_t *quota,
                       void *comp);

/*
 * Sets the capacities of the uplinks that lead from the peer's leaf to the leaf
 * of a local rail. `count` is 1 to MRAIL_MAX_UPLINKS. The lanes of the rail
 * then share the bytes from the peer in proportion to the capacities of their
 * uplinks, and a lane on an uplink of capacity 0 carries none. The capacities
 * apply to all endpoints to the peer. Returns 0 or -ENOMEM.
 *
 * The capacities have no effect if the switches have no port rules, if `count`
 * differs from config.uplinks, or if all of them are 0.
 */
#define MRAIL_MAX_UPLINKS 64u
int mrail_ep_set_uplinks(mrail_ep_t *ep, unsigned rail, const double *uplinks,
                         unsigned count);

/* Order operations of the endpoint, or of all endpoints of the iface: later
 * operations become visible at the target after all earlier PUTs, over all
 * rails. Return 0 or -EAGAIN. */
int mrail_ep_fence(mrail_ep_t *ep);
int mrail_iface_fence(mrail_iface_t *iface);

/* Returns 0 if all earlier operations are complete at the target. Otherwise
 * returns -EINPROGRESS, and `comp` completes when they are. If `comp` is NULL,
 * the caller must call again. May also return -EAGAIN. */
int mrail_ep_flush(mrail_ep_t *ep, void *comp);
int mrail_iface_flush(mrail_iface_t *iface, void *comp);

/* Starts a liveness check of the peer's control thread. If no answer arrives,
 * ep_failed() is called, and also with -ESHUTDOWN if the peer has exited
 * regularly. Returns 0, or the -errno with which the endpoint failed. */
int mrail_ep_check(mrail_ep_t *ep);

/* Describes the peer, the rails to it, and the last event of each: "peer
 * 39bd8761f41345db at 192.0.2.1: soft0:1 (port down), soft1:1 (probes
 * lost)". */
void mrail_ep_describe(const mrail_ep_t *ep, char *text, size_t size);

/* Cancels the endpoint. New operations on it fail with -ECANCELED, and
 * ep_failed() is not called for it. Pending operations and flushes of the
 * endpoint complete with -ECANCELED in the next progress call of its iface.
 * Operations that a device is executing are an exception: they complete when
 * the device no longer accesses their memory. Later calls of mrail_ep_flush()
 * wait only for these operations. Messages and data may still arrive at the
 * peer. */
void mrail_ep_cancel(mrail_ep_t *ep);

#endif
