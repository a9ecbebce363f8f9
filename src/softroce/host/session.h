/*
 * The shared state of a software-rail session is one file in /dev/shm, which
 * every process of the session maps. It holds the topology, the settings that
 * change while jobs run (rates, port state, loss, delay), each device's table
 * of processes ("slots"), and counters.
 *
 * daemon.h handles sockets and processes. The session holds no packets.
 *
 * Invariant: because a process can be killed between two stores, a reader must
 * expect any value in a mutable field at any time. This memory therefore
 * contains no locks, and each field is an atomic that is meaningful on its own.
 *
 * `mrail soft` creates the file, and the session daemon removes it.
 */
#ifndef MRAIL_SROCE_SESSION_H
#define MRAIL_SROCE_SESSION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SROCE_SESSION_MAGIC 0x6d7261696c736f66ull /* "mrailsof" */
#define SROCE_SESSION_VERSION 4u
#define SROCE_SESSION_NAME_MAX 40
#define SROCE_SESSION_MAX_RAILS 16
#define SROCE_SESSION_MAX_NODES 254
#define SROCE_SESSION_MAX_DEVS 256
/* log2 of the number of processes that can have a device open at the same time.
 * The top bits of a QPN select the process. */
#define SROCE_SESSION_SLOT_BITS 7
#define SROCE_SESSION_SLOTS (1 << SROCE_SESSION_SLOT_BITS)
#define SROCE_SESSION_QPN_BITS (24 - SROCE_SESSION_SLOT_BITS)

#define SROCE_SESSION_DEFAULT_MTU 4096
/* UDP port of the socket that marks a session's base as in use. It is outside
 * the source port range and the kernel's ephemeral ports. */
#define SROCE_SESSION_BASE_PORT 4792

/* Flags of a session, which never change. */
#define SROCE_SESSION_F_ICRC 0x1u /* compute and check real ICRCs */
#define SROCE_SESSION_F_LIST 0x2u /* addresses are listed, not computed */

typedef enum sroce_slot_state {
    SROCE_SLOT_FREE,    /* available to the session daemon */
    SROCE_SLOT_JOINING, /* assigned, not receiving yet */
    SROCE_SLOT_LIVE     /* receives packets */
} sroce_slot_state_t;

/* Only the owner of the slot increments its counters. They are never reset
 * during a session, so a sum over slots never decreases. */
typedef enum sroce_counter {
    SROCE_CNT_TX_PACKETS,
    SROCE_CNT_TX_BYTES,
    SROCE_CNT_RX_PACKETS,
    SROCE_CNT_RX_BYTES,
    SROCE_CNT_DROP_LOSS,      /* lost by the loss setting */
    SROCE_CNT_DROP_DOWN,      /* port down, here or at the destination */
    SROCE_CNT_DROP_BLACKHOLE, /* lost by a blackhole fault */
    SROCE_CNT_DROP_ACKS,      /* responses lost by drop_acks */
    SROCE_CNT_DROP_NO_PEER,   /* no process has the destination QPN */
    SROCE_CNT_DROP_SHORT,     /* too short for a destination QPN */
    SROCE_CNT_DROP_MISROUTED, /* addressed to another process's QPN */
    SROCE_CNT_DROP_DELAY,     /* the delay line was full */
    SROCE_CNT_DROP_SEND,      /* the kernel did not accept the packets */
    SROCE_CNT_DROP_KERNEL,    /* the receive socket overflowed (SO_MEMINFO) */
    SROCE_CNT_WAIT_RATE,      /* sends delayed by a rate limit */
    SROCE_CNT_WAIT_CREDIT,    /* sends delayed by socket-buffer credit */
    SROCE_CNT_FAULT_DUP,      /* packets sent twice */
    SROCE_CNT_FAULT_REORDER,  /* packets delayed for reordering */
    SROCE_CNT_FAULT_CORRUPT,  /* corrupted packets */
    SROCE_CNT_FAULT_QP,       /* queue pairs moved to error */
    SROCE_CNT_NUM
} sroce_counter_t;

#define SROCE_CORE_CNT_MAX 40

extern const char *const sroce_counter_names[SROCE_CNT_NUM];

/* Bits of sroce_session_dev_t.faults, which the packet path tests. If a fault
 * has a value, its bit is set as long as the value is not zero. */
#define SROCE_RAIL_BLACKHOLE_TX 0x01u
#define SROCE_RAIL_BLACKHOLE_RX 0x02u
#define SROCE_RAIL_PAUSE 0x04u
#define SROCE_RAIL_DROP_ACKS 0x08u
#define SROCE_RAIL_DUPLICATE 0x10u
#define SROCE_RAIL_REORDER 0x20u
#define SROCE_RAIL_CORRUPT 0x40u
/* Faults that senders also apply to packets addressed to the rail. */
#define SROCE_RAIL_BOTH_ENDS                                                   \
    (SROCE_RAIL_DUPLICATE | SROCE_RAIL_REORDER | SROCE_RAIL_CORRUPT)

/* One process that uses one device. */
typedef struct sroce_slot {
    /* Read by senders; written by the session daemon and the owner. */
    _Alignas(64) _Atomic uint32_t state; /* sroce_slot_state_t */
    _Atomic uint32_t generation;         /* incremented at each assignment */
    _Atomic int32_t pid;
    /* Socket-buffer bytes that senders have reserved and the owner has not yet
     * read. Senders add to it before they send, and the owner subtracts. */
    _Alignas(64) _Atomic int64_t rx_held;
    _Atomic int64_t rx_limit; /* upper limit of rx_held */
    /* The sender that has waited longest for credit, as (start of its wait in
     * us) << 16 | sender; or 0 if none waits. While it waits, it refreshes the
     * heartbeat. */
    _Atomic uint64_t waiter;
    _Atomic uint64_t waiter_heartbeat_ns;
    /* Bytes that this process has reserved at another slot and may not have
     * sent yet; pend_bytes is 0 if there are none. The daemon returns them if
     * the process dies. */
    _Alignas(64) _Atomic uint32_t pend_bytes;
    _Atomic uint32_t pend_dev;
    _Atomic uint32_t pend_slot;
    _Alignas(64) _Atomic uint64_t counters[SROCE_CNT_NUM];
    /* Counters of the protocol core, in the order of SROCE_COUNTERS, copied at
     * intervals. */
    _Atomic uint64_t core[SROCE_CORE_CNT_MAX];
} sroce_slot_t;

/* A rate shared by all processes of a device (see rate.h). */
typedef struct sroce_bucket {
    _Alignas(64) _Atomic uint64_t rate_bytes_per_s; /* 0 if unlimited */
    _Atomic uint64_t tat;       /* next departure, in units of rate.h */
    _Atomic uint64_t small_tat; /* next departure, small packets only */
} sroce_bucket_t;

typedef struct sroce_session_dev {
    uint32_t node; /* constant */
    uint32_t rail; /* constant */
    uint32_t addr; /* IPv4 address, network order; constant */
    uint32_t reserved;
    uint64_t first_rate_bytes_per_s;    /* rate at creation; constant */
    _Alignas(64) _Atomic uint32_t down; /* 1 if the port is down */
    _Atomic uint32_t loss_ppm;       /* loss rate of sent and received packets,
                                * 0..1000000 */
    _Atomic uint32_t delay_us;       /* delay of sent and received packets */
    _Atomic uint32_t write_delay_us; /* delay before WRITEs become visible */
    _Atomic uint32_t faults;         /* SROCE_RAIL_* */
    _Atomic uint32_t dup_ppm;
    _Atomic uint32_t reorder_ppm;
    _Atomic uint32_t reorder_us; /* largest extra delay */
    _Atomic uint32_t corrupt_ppm;
    /* Incremented after a change to any of the next three fields. */
    _Atomic uint32_t settings_gen;
    _Atomic uint32_t seeds;    /* number of restarts of the random numbers */
    _Atomic uint64_t error_qp; /* number of requests << 32 | every n-th */
    _Atomic uint64_t seed;     /* seed of the random numbers, or 0 for the
                                * session's seed */
    sroce_bucket_t egress;
    sroce_bucket_t ingress;
    sroce_slot_t slots[SROCE_SESSION_SLOTS];
} sroce_session_dev_t;

typedef struct sroce_session {
    uint64_t magic;
    uint32_t version;
    uint32_t ready; /* 1 once all fields are valid */
    uint64_t size;  /* size of the file */
    uint32_t uid;
    uint32_t flags; /* SROCE_SESSION_F_* */
    uint32_t num_nodes;
    uint32_t num_rails;
    uint32_t mtu; /* largest path MTU of the ports, bytes: 256..4096 */
    uint32_t slots_per_dev;
    uint64_t seed;              /* seed of the random faults */
    _Atomic int32_t script_pid; /* process that runs a fault script, or 0 */
    char name[SROCE_SESSION_NAME_MAX + 1];
    /* With SROCE_SESSION_F_LIST: copies of devs[].addr, for a fast search. */
    uint32_t addrs[SROCE_SESSION_MAX_DEVS];
    sroce_session_dev_t devs[]; /* [node * num_rails + rail] */
} sroce_session_t;

/* A device in a session with given addresses. */
typedef struct sroce_session_addr {
    uint32_t addr; /* host byte order */
    uint64_t rate_bytes_per_s;
} sroce_session_addr_t;

/* Parameters of a new session, from `mrail soft`. */
typedef struct sroce_session_params {
    const char *name;
    unsigned num_nodes;
    unsigned num_rails;
    unsigned mtu;
    uint32_t flags;
    uint64_t seed;
    /* Both directions of rail r on every node, in bytes per second; 0 for no
     * limit. */
    uint64_t rate_bytes_per_s[SROCE_SESSION_MAX_RAILS];
    /* First octets of the addresses: rail r of node k is base + (r+1, k+1). 0
     * stands for 127.S, with S from a hash of the name, or the next free S. */
    uint32_t base_addr; /* host byte order, low 16 bits 0 */
    /* A list that replaces base_addr and rate_bytes_per_s, or NULL. Entry [node
     * * num_rails + rail] has an address (host byte order) and a rate. The rate
     * limits only the bytes that the rail sends; the network limits those that
     * it receives. */
    const struct sroce_session_addr *addrs;
    const char *addrs_path; /* the list's file, which the session locks */
} sroce_session_params_t;

/* Returns 0 or -EINVAL. A name consists of 1..40 letters, digits, '-', '_' and
 * '.', and does not start with '.'. */
int sroce_session_name_check(const char *name);

/* Writes the path of the session's file or, with the suffix ".sock", of its
 * socket. */
void sroce_session_path(const char *name, const char *suffix, char *path,
                        size_t max);

size_t sroce_session_size(unsigned num_nodes, unsigned num_rails);

/* Descriptors that keep the session's file locked and its addresses reserved.
 * The kernel closes both when the process exits. */
typedef struct sroce_session_hold {
    int file_fd; /* exclusive lock on the session's file */
    int base_fd; /* socket, or lock on a list, that reserves the addresses */
} sroce_session_hold_t;

/*
 * Creates the file under its final name, with all fields valid. *hold_p
 * receives two open descriptors. The session lives while any process has
 * file_fd open, and owns its addresses while any process has base_fd open. On
 * failure, no file remains. Errors:
 * - -EEXIST: a session of this name exists, or the session that owns the given
 *   base is being created (the caller may open it);
 * - -EADDRINUSE: the given base, or every base, is in use;
 * - another -errno.
 */
int sroce_session_create(const sroce_session_params_t *params,
                         sroce_session_hold_t *hold_p);
void sroce_session_hold_close(const sroce_session_hold_t *hold);

/*
 * Maps an existing session after checking its owner, mode, magic, version, size
 * and topology. Errors:
 * - -ENOENT: no session, or the files of a dead session daemon (now removed);
 * - -ESTALE: another version;
 * - -EACCES: another user's session;
 * - -EINVAL: damaged.
 */
int sroce_session_open(const char *name, sroce_session_t **session_p);
void sroce_session_close(sroce_session_t *session);

/* Checks the content of a file of `size` bytes, which must include the header.
 * Returns 0, -ESTALE (another version) or -EINVAL (damaged). */
int sroce_session_check(const sroce_session_t *session, size_t size);

/* Suffix of the file that holds the software GPUs of a session (src/softgpu).
 * No session name contains '+'. */
#define SROCE_SESSION_GPUS "+gpu"

/* Removes the files and the socket. Only the session daemon and the reaper call
 * it. */
void sroce_session_unlink(const char *name);

static inline sroce_session_dev_t *
sroce_session_dev(sroce_session_t *session, unsigned node, unsigned rail)
{
    return &session->devs[node * session->num_rails + rail];
}

static inline unsigned sroce_session_num_devs(const sroce_session_t *session)
{
    return session->num_nodes * session->num_rails;
}

static inline unsigned sroce_session_dev_index(const sroce_session_t *session,
                                               const sroce_session_dev_t *dev)
{
    return (unsigned)(dev - session->devs);
}

/* Returns the index of the device with this address (network byte order), or
 * -1. */
int sroce_session_find(const sroce_session_t *session, uint32_t addr);

#endif
