/*
 * Provides RDMA READs for a collective component. They bypass UCX, but use the
 * same lanes and memory registrations. The component chooses how many bytes
 * each rail should carry.
 *
 * The component looks up the symbol uct_mrail_direct in libuct_mrail.so.0 with
 * dlsym(3). Both sides can be built separately, because they exchange plain
 * data and compare the sizes of the structures.
 *
 * Functions return 0 or -errno, as in rail/mrail.h. Any thread may call them
 * after open() has returned. There are no callbacks: the completion of a READ
 * is stored in its own structure.
 */
#ifndef UCT_MRAIL_DIRECT_H
#define UCT_MRAIL_DIRECT_H

#include "uct/mrail_rails.h"

#include <stddef.h>
#include <stdint.h>

#define UCT_MRAIL_DIRECT_ADDRESS_MAX 96 /* bytes */
#define UCT_MRAIL_DIRECT_KEY_MAX 68     /* bytes */
#define UCT_MRAIL_MAX_UPLINKS 64u       /* per leaf switch */

typedef struct uct_mrail_direct_ep uct_mrail_direct_ep_t;
typedef struct uct_mrail_direct_mem uct_mrail_direct_mem_t;
typedef struct uct_mrail_direct_quota uct_mrail_direct_quota_t;

/* One READ. Rails are numbered as in uct_mrail_rails(). */
typedef struct uct_mrail_direct_get {
    /* ---- set by the caller ---- */
    void *buffer;
    size_t length;               /* bytes, > 0 */
    uct_mrail_direct_mem_t *mem; /* registration that covers the buffer */
    uint64_t remote_address;
    const void *key; /* key of the remote memory, valid during get() */
    /* bytes that each rail should carry; if all are 0, the transport decides.
     * After until_ns, any rail may carry the remaining bytes. */
    uint64_t quota[UCT_MRAIL_MAX_RAILS];
    uint64_t until_ns; /* time of CLOCK_MONOTONIC */
    /* quota to use instead of `quota` and until_ns, or NULL */
    uct_mrail_direct_quota_t *shared;

    /* ---- set by the transport; valid once status is not -EINPROGRESS ---- */
    int status; /* atomic: -EINPROGRESS, 0 or -errno */
    /* bytes that each rail has carried; 0 unless `quota` is used */
    uint64_t carried[UCT_MRAIL_MAX_RAILS];
} uct_mrail_direct_get_t;

/* The uplinks that the lanes of this process use if the switches have port
 * rules. Lane q of a NIC uses uplink (nic_index * num_lanes + q) mod uplinks of
 * its leaf (orchestrator/ports.h). */
typedef struct uct_mrail_direct_lanes {
    uint32_t uplinks;   /* uplinks per leaf; 0 if there are no port rules */
    uint32_t num_lanes; /* number of lanes per rail to a peer */
    uint32_t nic_index[UCT_MRAIL_MAX_RAILS];
} uct_mrail_direct_lanes_t;

typedef struct uct_mrail_direct_ops {
    size_t struct_size, get_size; /* sizes of this structure and of a READ */

    /* Writes the address of this process for peers, at most
     * UCT_MRAIL_DIRECT_ADDRESS_MAX bytes. Returns its length, or 0 if READs are
     * not available: no engine is open, or it has no registration cache. */
    size_t (*address)(void *buffer);
    /* Fills in the lanes of the rails. */
    void (*lanes)(uct_mrail_direct_lanes_t *lanes);

    /* Opens the interface to the engine. Later calls have no effect.
     * is_threaded is 1 if several threads may use UCX or these functions at the
     * same time. close() closes the interface. Without close(), it closes
     * together with the transport. By then, all READs must have completed, and
     * all memory must have been put. */
    int (*open)(int is_threaded);
    void (*close)(void);

    /* Creates an endpoint to a peer. It exists until the interface closes. */
    int (*ep_create)(const void *address, size_t length,
                     uct_mrail_direct_ep_t **ep_p);

    /* Sets the capacities, in bytes per second, of the uplinks from the peer's
     * leaf to the leaf of a local rail. `count` is 1 to UCT_MRAIL_MAX_UPLINKS.
     * The lanes of the rail share its bytes in proportion to the capacities of
     * their uplinks; see mrail_ep_set_uplinks(). */
    int (*ep_set_uplinks)(uct_mrail_direct_ep_t *ep, unsigned rail,
                          const double *uplinks, unsigned count);

    /* Registers host memory or device memory for READs, or takes a reference to
     * a cached registration. Does not log errors. Returns -EOPNOTSUPP for
     * managed memory, and for device memory that some rail cannot access;
     * -ENODEV if address() has returned 0 or was not called. */
    int (*mem_get)(void *address, size_t length,
                   uct_mrail_direct_mem_t **mem_p);
    void (*mem_put)(uct_mrail_direct_mem_t *mem);
    /* Writes the key with which peers read the memory, at most
     * UCT_MRAIL_DIRECT_KEY_MAX bytes. Returns its length. */
    size_t (*key_pack)(const uct_mrail_direct_mem_t *mem, void *buffer);

    /* Creates a quota that several READs from one peer share. `bytes` and
     * until_ns are as in a READ. Returns 0 or -ENOMEM. */
    int (*quota_create)(const uint64_t bytes[UCT_MRAIL_MAX_RAILS],
                        uint64_t until_ns, uct_mrail_direct_quota_t **quota_p);
    /* Destroys a quota, whose READs must all have completed. Stores the bytes
     * that each rail has carried. */
    void (*quota_destroy)(uct_mrail_direct_quota_t *quota,
                          uint64_t carried[UCT_MRAIL_MAX_RAILS]);

    /* Starts a READ. `get` must remain valid until the READ has completed.
     * Returns 0, or -EAGAIN if the caller must retry after progress. Any other
     * error means that the READ cannot be started. */
    int (*get)(uct_mrail_direct_ep_t *ep, uct_mrail_direct_get_t *get);
    /* Makes progress and completes READs. */
    void (*progress)(void);
} uct_mrail_direct_ops_t;

/* The symbol uct_mrail_direct. Returns the functions, or NULL if the transport
 * was not loaded. */
typedef const uct_mrail_direct_ops_t *(*uct_mrail_direct_func_t)(void);
const uct_mrail_direct_ops_t *uct_mrail_direct(void);

#endif
