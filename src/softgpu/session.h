/*
 * The software GPUs of a session are described by one file in /dev/shm next to
 * the file of the software rails, which every process of the session maps. The
 * file contains the devices, the rates of their links, the processes that use
 * them, and counters, but not the device memory.
 *
 * `mrail soft` creates the file, and the session daemon removes it. As in
 * softroce/host/session.h, each field is an atomic that is meaningful on its
 * own, because a process may be killed between any two stores.
 *
 * A process owns slot i as long as it holds the kernel's record lock on byte
 * SGPU_SESSION_LOCKS + i of the file. The lock ends with the process, so the
 * memory of a killed process is reclaimed without a daemon.
 */
#ifndef MRAIL_SGPU_SESSION_H
#define MRAIL_SGPU_SESSION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SGPU_SESSION_MAGIC 0x6d7261696c677075ull /* "mrailgpu" */
#define SGPU_SESSION_VERSION 3u
#define SGPU_SESSION_MAX_GPUS 16 /* per node */
/* Bus number of the first GPU. GPU i of a node has the PCI address 0000:(40 +
 * i):00.0. As on real machines, the GPUs of each node have the same
 * addresses. */
#define SGPU_SESSION_FIRST_BUS 0x40
#define SGPU_SESSION_MAX_DEVS 256 /* per session */
#define SGPU_SESSION_SLOTS 256    /* processes that use GPUs at the same time */
#define SGPU_SESSION_NOT_SERVED 640
#define SGPU_SESSION_DEFAULT_MEMORY (UINT64_C(1) << 30)
/* Offsets of the record locks, beyond the end of the file. */
#define SGPU_SESSION_LOCKS (INT64_C(1) << 40)
#define SGPU_SESSION_LOCK_ALLOC (SGPU_SESSION_LOCKS - 1)

typedef enum sgpu_link_kind {
    SGPU_LINK_MESH,   /* each GPU of a node has a link to each other GPU */
    SGPU_LINK_SWITCH, /* each GPU has one link to a switch and one from it */
    SGPU_LINK_NONE    /* no peer access; copies between GPUs cross PCIe */
} sgpu_link_kind_t;

extern const char *const sgpu_link_kind_names[3];

/* Faults of a GPU. Any process of the session may set them
 * (mrail-script(5)). */
typedef enum sgpu_fault {
    SGPU_FAULT_IPC_ERROR = 1 << 0, /* contexts of this GPU cannot open
                                    * handles */
    SGPU_FAULT_NO_MEMORY = 1 << 1, /* allocations fail */
    SGPU_FAULT_NO_DMABUF = 1 << 2, /* the driver does not support dma-buf */
    SGPU_FAULT_NO_PEER = 1 << 3,   /* no access between this GPU and other
                                    * GPUs */
    SGPU_FAULT_NO_DEVICE = 1 << 4  /* cuInit does not find the GPU */
} sgpu_fault_t;

/* Only processes that own a slot increment its counters. They are never reset,
 * so a sum over slots never decreases. */
typedef enum sgpu_counter {
    SGPU_CNT_COPIES_IN, /* copies from host memory */
    SGPU_CNT_BYTES_IN,
    SGPU_CNT_COPIES_OUT, /* copies to host memory */
    SGPU_CNT_BYTES_OUT,
    SGPU_CNT_COPIES_LOCAL, /* within the GPU */
    SGPU_CNT_BYTES_LOCAL,
    SGPU_CNT_COPIES_PEER, /* copies to another GPU */
    SGPU_CNT_BYTES_PEER,
    SGPU_CNT_MEMSETS,
    SGPU_CNT_HOST_FUNCS,
    SGPU_CNT_LAUNCHES, /* kernels */
    SGPU_CNT_FLUSHES,  /* of the writes of rails */
    SGPU_CNT_SM_NS,    /* time that kernels ran, summed over blocks */
    SGPU_CNT_NUM
} sgpu_counter_t;

extern const char *const sgpu_counter_names[SGPU_CNT_NUM];

/* One process on one GPU. */
typedef struct sgpu_slot {
    _Alignas(64) _Atomic uint64_t memory_bytes; /* allocated by the process */
    _Atomic uint64_t counters[SGPU_CNT_NUM];
    /* values when its process acquired the slot */
    _Atomic uint64_t first[SGPU_CNT_NUM];
} sgpu_slot_t;

/* One direction of a link, which all processes share (base/gcra.h). */
typedef struct sgpu_link {
    _Alignas(64) _Atomic uint64_t rate_bytes_per_s; /* 0 if unlimited */
    _Atomic uint64_t tat;                           /* as in base/gcra.h */
    _Atomic uint64_t bytes;                         /* bytes carried so far */
    _Atomic uint32_t is_down;                       /* 1 if the link is down */
} sgpu_link_t;

typedef struct sgpu_gpu {
    uint32_t node;                /* constant */
    uint32_t index;               /* index in the node; constant */
    _Atomic uint32_t faults;      /* bits of sgpu_fault_t */
    _Atomic uint32_t copy_errors; /* copies that will fail */
    /* Attributes that the GPU reports. The writes of rails are always ordered,
     * so only tests change them. */
    _Atomic uint32_t writes_ordering, flush_options;
    sgpu_link_t pcie_in;                     /* PCIe from host memory */
    sgpu_link_t pcie_out;                    /* PCIe to host memory */
    sgpu_link_t up;                          /* switch: out of this GPU */
    sgpu_link_t down;                        /* switch: into this GPU */
    sgpu_link_t mesh[SGPU_SESSION_MAX_GPUS]; /* mesh: to GPU i of the node */
    sgpu_slot_t slots[SGPU_SESSION_SLOTS];
} sgpu_gpu_t;

typedef struct sgpu_session {
    uint64_t magic;
    uint32_t version;
    uint32_t ready;        /* 1 once all fields are valid */
    uint64_t size;         /* size of the file in bytes */
    uint64_t id;           /* random number that identifies this session */
    uint32_t num_nodes;    /* constant, as are the next seven */
    uint32_t num_gpus;     /* number per node */
    uint32_t link_kind;    /* sgpu_link_kind_t */
    uint32_t first_faults; /* faults of each GPU when the session starts */
    uint64_t memory_bytes; /* bytes of memory per GPU */
    uint32_t has_peermem;  /* 1 if rails register device memory by its
                            * address */
    uint32_t reserved;
    uint64_t first_link_rate_bytes_per_s;
    uint64_t first_pcie_rate_bytes_per_s;
    _Atomic int32_t pids[SGPU_SESSION_SLOTS]; /* 0 if the slot is free */
    /* Calls of unsupported functions, in the order of SGPU_NOT_SERVED. */
    _Atomic uint64_t not_served[SGPU_SESSION_NOT_SERVED];
    sgpu_gpu_t gpus[]; /* [node * num_gpus + index] */
} sgpu_session_t;

typedef struct sgpu_session_params {
    unsigned num_nodes;
    unsigned num_gpus; /* number per node, or 0 if the session has no GPUs */
    sgpu_link_kind_t link_kind;
    uint64_t link_rate_bytes_per_s; /* 0 for no limit */
    uint64_t pcie_rate_bytes_per_s; /* 0 for no limit */
    uint64_t memory_bytes;
    uint32_t faults; /* faults of each GPU, bits of sgpu_fault_t */
    int has_peermem;
} sgpu_session_params_t;

/* Creates the file at `path` with mode 0600, replacing any file that a killed
 * session left there. Returns 0, or -errno, in which case no file remains. */
int sgpu_session_create(const char *path, const sgpu_session_params_t *params);

/* Maps the file at `path` after checking its owner, mode, version and content.
 * *fd_p receives the descriptor that the record locks need, unless fd_p is
 * NULL. Errors: -ENOENT (the session has no GPUs), -ESTALE (another version),
 * -EACCES (another user's file), -EINVAL (damaged), another -errno. */
int sgpu_session_open(const char *path, sgpu_session_t **session_p, int *fd_p);
void sgpu_session_close(sgpu_session_t *session);

/* Acquires a free slot and returns its number, or -EAGAIN if there is none. The
 * process holds the slot until it exits or closes any descriptor of the
 * file. */
int sgpu_session_take_slot(sgpu_session_t *session, int fd);

/* Adds `bytes` to the memory that a slot has allocated on a GPU. Returns 0, or
 * -ENOMEM if the GPU does not have that much free memory. Several threads of a
 * process must not call it at the same time. */
int sgpu_session_charge(sgpu_session_t *session, int fd, sgpu_gpu_t *gpu,
                        unsigned slot, uint64_t bytes);

/* Returns the bytes that live processes have allocated on the GPU, and the
 * number of these processes, unless procs_p is NULL. */
uint64_t sgpu_session_usage(const sgpu_session_t *session, int fd,
                            const sgpu_gpu_t *gpu, unsigned *procs_p);

/* Returns the process that owns a slot, or 0. */
int32_t sgpu_session_pid(const sgpu_session_t *session, int fd, unsigned slot);

/* Returns 1 if the GPU has this fault now. */
static inline int sgpu_gpu_has(const sgpu_gpu_t *gpu, sgpu_fault_t fault)
{
    return (atomic_load_explicit(&gpu->faults, memory_order_relaxed) & fault) !=
           0;
}

static inline sgpu_gpu_t *sgpu_session_gpu(sgpu_session_t *session,
                                           unsigned node, unsigned index)
{
    return &session->gpus[node * session->num_gpus + index];
}

#endif
