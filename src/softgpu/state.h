/*
 * Declares the state of a process that uses software GPUs: devices, contexts,
 * memory, streams and events. One lock, sgpu.lock, protects the whole state. A
 * thread that copies bytes releases the lock, and holds references to the
 * memory instead.
 */
#ifndef MRAIL_SGPU_STATE_H
#define MRAIL_SGPU_STATE_H

#include "cuda/abi.h"
#include "softgpu/handle.h"
#include "softgpu/path.h"
#include "softgpu/session.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/util.h"

#include <pthread.h>
#include <sys/types.h>

/* Size in bytes of the units in which device memory is allocated. */
#define SGPU_PAGE 65536u
/* Granularity of cuMemCreate and of address reservations, as on real GPUs. */
#define SGPU_GRANULE (UINT64_C(2) << 20)
#define SGPU_DRIVER_VERSION 13000
#define SGPU_CTX_STACK 64

typedef struct sgpu_ctx sgpu_ctx_t;
typedef struct sgpu_stream sgpu_stream_t;
typedef struct sgpu_pool sgpu_pool_t;
typedef struct sgpu_launch sgpu_launch_t;

/* A device that the process sees. The engine is the thread that executes the
 * work in the streams of the device. A separate callback thread runs host
 * functions, so that a blocking host function does not stall other streams. */
typedef struct sgpu_dev {
    unsigned ordinal;
    sgpu_gpu_t *gpu;
    sgpu_ctx_t *primary; /* NULL if inactive */
    unsigned primary_flags;
    sgpu_pool_t *default_pool; /* NULL until the first use */
    sgpu_pool_t *pool;         /* used by cuMemAllocAsync; NULL for
                                * default_pool */
    int threads_run;
    pthread_cond_t engine_wake;
    unsigned engine_signals; /* increases with each signal */
    mrail_list_t busy;       /* streams with work */
    pthread_cond_t func_wake;
    mrail_list_t funcs; /* host functions that are due; list of sgpu_op_t */
} sgpu_dev_t;

struct sgpu_ctx {
    mrail_list_t list; /* sgpu.ctxs */
    uint64_t handle;
    sgpu_dev_t *dev;
    uint64_t id;
    unsigned flags;
    unsigned refs; /* primary: number of retains */
    int is_primary;
    /* error of failed work; every later call returns it */
    CUresult error;
    uint32_t peers;       /* bit i: access to the memory of device i */
    mrail_list_t streams; /* list of sgpu_stream_t */
    mrail_list_t modules; /* list of sgpu_module_t */
    sgpu_stream_t *legacy, *per_thread;
};

/* Physical memory of a GPU: a memory file, whose mapping only this library
 * uses. */
typedef struct sgpu_phys {
    unsigned refs;
    int fd;
    char *view;
    uint64_t size; /* size of the file */
    sgpu_gpu_t *gpu;
    sgpu_dev_t *dev;  /* `gpu` as a device of this process, or NULL if hidden */
    uint64_t charged; /* bytes to release on the GPU at the end */
    int is_shareable; /* cuMemCreate with a file descriptor as handle type */
    dev_t st_dev;     /* identifies the file, together with st_ino */
    ino_t st_ino;
} sgpu_phys_t;

typedef enum sgpu_mem_kind {
    SGPU_MEM_DEVICE,    /* cuMemAlloc, pools: addresses without access */
    SGPU_MEM_MAPPED,    /* cuMemMap */
    SGPU_MEM_IMPORTED,  /* cuIpcOpenMemHandle */
    SGPU_MEM_MANAGED,   /* cuMemAllocManaged: the CPU may access it */
    SGPU_MEM_HOST,      /* cuMemHostAlloc */
    SGPU_MEM_REGISTERED /* cuMemHostRegister */
} sgpu_mem_kind_t;

/* A range of addresses known to the driver. */
typedef struct sgpu_mem {
    sgpu_mem_kind_t kind;
    unsigned refs; /* number of references from the table and from work in
                    * streams */
    uint64_t base, size;
    char *view;        /* address at which this library accesses the range */
    sgpu_phys_t *phys; /* NULL for host memory */
    uint64_t offset;   /* offset in phys */
    sgpu_dev_t *dev;
    uint64_t ctx; /* handle of the context that created the range */
    uint64_t id;  /* unique in the process */
    uint64_t pool;
    unsigned flags;      /* host memory: the caller's flags */
    unsigned opened;     /* imported: number of times it was opened */
    uint32_t readers;    /* mapped memory: bit i is 1 if device i may read */
    uint32_t writers;    /* bit i is 1 if device i may write; other kinds:
                          * all bits are 1 */
    int is_freed;        /* freed by a cuMemFreeAsync that its stream has not
                       * reached */
    int is_sync_memops;  /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    int peer_is_enabled; /* 1 if imported with peer access */
} sgpu_mem_t;

struct sgpu_stream {
    mrail_list_t list; /* ctx->streams; not on it once destroyed */
    mrail_list_t busy; /* dev->busy */
    uint64_t handle;   /* 0 for legacy and per-thread streams */
    sgpu_ctx_t *ctx;   /* NULL once destroyed */
    uint64_t ctx_handle;
    sgpu_dev_t *dev;
    /* references of the handle, a queue with operations, waiting work */
    unsigned refs;
    unsigned flags;
    int priority;
    uint64_t id;
    mrail_list_t ops;             /* list of sgpu_op_t */
    uint64_t enqueued, completed; /* sequence numbers of operations */
    uint64_t legacy_seen; /* last operation of the legacy stream that this
                           * stream waits for */
    uint64_t seen_by_legacy;
    mrail_ns_t ideal_ns; /* end of the last operation on an engine that is never
                          * late */
};

/* Records of an interprocess event, in a memory file. Record n is in entry n
 * modulo the number of entries. */
#define SGPU_EVENT_RECORDS 64
typedef struct sgpu_event_page {
    _Atomic uint64_t recorded;                 /* number of the last record */
    _Atomic uint64_t done[SGPU_EVENT_RECORDS]; /* records that are complete */
} sgpu_event_page_t;

typedef struct sgpu_event {
    uint64_t handle;
    unsigned refs; /* references of the handle and of work in streams */
    sgpu_dev_t *dev;
    unsigned flags;
    sgpu_stream_t *stream; /* stream of the last record, or NULL if there is
                            * none */
    uint64_t seq;       /* sequence number of the last record in that stream */
    mrail_ns_t time_ns; /* time at which the last record was complete */
    int fd;             /* memory file of an interprocess event, or -1 */
    sgpu_event_page_t *page;
} sgpu_event_t;

typedef struct sgpu_state {
    pthread_mutex_t lock;
    pthread_cond_t done; /* an operation is complete */
    int is_ready;        /* cuInit has succeeded */
    int is_forked;       /* child of a process that was ready */
    sgpu_session_t *session;
    int fd; /* descriptor of the session's file */
    unsigned slot, node;
    unsigned num_devs;
    sgpu_dev_t devs[SGPU_SESSION_MAX_GPUS];
    mrail_list_t ctxs;
    uint64_t next_id;
    uint64_t last_serial; /* serial of the last operation in any stream */
} sgpu_state_t;

extern sgpu_state_t sgpu;

/* ---- init.c ---- */

/* Opens the GPUs of the session that MRAIL_SOFT names, once. */
void sgpu_session_once(void);
/* Acquires the lock and returns CUDA_SUCCESS. Before cuInit, after fork, or in
 * a host function, returns an error without the lock. */
CUresult sgpu_enter(void);
/* Like sgpu_enter(), but also returns the current context, or the error of its
 * failed work. */
CUresult sgpu_enter_ctx(sgpu_ctx_t **ctx_p);
/* Like sgpu_enter(), but also returns a device. */
CUresult sgpu_enter_dev(CUdevice ordinal, sgpu_dev_t **dev_p);
/* Releases the lock and returns `ret`. */
CUresult sgpu_leave(CUresult ret);
/* If `refuse` is 1, driver API calls by this thread fail from now on,
 * because the thread is running a host function. If it is 0, calls are
 * permitted again. */
void sgpu_refuse_calls(int refuse);
/* Converts -errno to a CUDA error. */
CUresult sgpu_result(int error);
void sgpu_count(sgpu_gpu_t *gpu, sgpu_counter_t counter, uint64_t n);

/* ---- ctx.c; sgpu.lock is held ---- */
sgpu_ctx_t *sgpu_ctx_current(void);
sgpu_ctx_t *sgpu_ctx_find(CUcontext ctx);
/* Returns the error of the context's work, or CUDA_SUCCESS. */
CUresult sgpu_ctx_error(uint64_t handle);
/* Waits for all work that is currently in the streams of the device. */
void sgpu_dev_drain(sgpu_dev_t *dev);

/* ---- phys.c; sgpu.lock is held ---- */
CUresult sgpu_phys_create(sgpu_dev_t *dev, uint64_t size, sgpu_phys_t **phys_p);
/* Takes ownership of a descriptor for memory that any process has created. */
CUresult sgpu_phys_import(int fd, sgpu_phys_t **phys_p);
void sgpu_phys_get(sgpu_phys_t *phys);
void sgpu_phys_put(sgpu_phys_t *phys);
/* Opens the file again. Its offset is the beginning of the range, which a
 * software rail reads with lseek(2). Returns -1 and errno on failure. */
int sgpu_phys_reopen(const sgpu_phys_t *phys, uint64_t offset);

/* ---- mem.c; sgpu.lock is held ---- */
/* Returns the range that contains the address, or NULL. */
sgpu_mem_t *sgpu_mem_find(uint64_t address);
/* Like sgpu_mem_find(), but also finds memory that only earlier work in streams
 * may access. */
sgpu_mem_t *sgpu_mem_find_any(uint64_t address);
/* Returns 1 if [address, address + size) touches a known range. */
int sgpu_mem_overlaps(uint64_t address, uint64_t size);
/* Returns a new range, which the caller fills and inserts, or NULL. */
sgpu_mem_t *sgpu_mem_create(sgpu_mem_kind_t kind, sgpu_dev_t *dev);
int sgpu_mem_insert(sgpu_mem_t *mem);
void sgpu_mem_remove(sgpu_mem_t *mem);
void sgpu_mem_get(sgpu_mem_t *mem);
void sgpu_mem_put(sgpu_mem_t *mem);
/* Allocates device memory. `pool` is the handle of its pool, or 0. */
CUresult sgpu_mem_alloc(sgpu_dev_t *dev, sgpu_mem_kind_t kind, uint64_t size,
                        uint64_t pool, sgpu_mem_t **mem_p);
/* Assigns addresses to physical memory, and inserts the range. Takes over a
 * reference to phys, even on failure. */
CUresult sgpu_mem_place(sgpu_mem_kind_t kind, sgpu_dev_t *dev,
                        sgpu_phys_t *phys, uint64_t size, sgpu_mem_t **mem_p);
static inline int sgpu_mem_is_host(const sgpu_mem_t *mem)
{
    return mem->phys == NULL;
}
/* Return the ranges in ascending order of their addresses, and NULL after the
 * last one. */
sgpu_mem_t *sgpu_mem_first(void);
sgpu_mem_t *sgpu_mem_after(const sgpu_mem_t *mem);

/* ---- module.c; sgpu.lock is held ---- */
void sgpu_modules_unload(sgpu_ctx_t *ctx);

/* ---- pool.c; sgpu.lock is held ---- */
void sgpu_pool_return(uint64_t pool, uint64_t size);

#endif
