/*
 * Operations in streams, and the engine that executes them. The caller of each
 * function holds sgpu.lock.
 */
#ifndef MRAIL_SGPU_WORK_H
#define MRAIL_SGPU_WORK_H

#include "softgpu/state.h"

typedef enum sgpu_op_kind {
    SGPU_OP_COPY,
    SGPU_OP_SET,
    SGPU_OP_FUNC,
    SGPU_OP_RECORD,
    SGPU_OP_AFTER,       /* wait for an operation of another stream */
    SGPU_OP_AFTER_EVENT, /* wait for a record of an interprocess event */
    SGPU_OP_WAIT_VALUE,
    SGPU_OP_WRITE_VALUE,
    SGPU_OP_KERNEL,
    SGPU_OP_FREE, /* free memory from a pool */
    SGPU_OP_NUM
} sgpu_op_kind_t;

/* One side of a copy: rows of equal width. */
typedef struct sgpu_place {
    char *view;
    uint64_t pitch;
    sgpu_mem_t *mem; /* NULL for host memory that the driver does not know */
    sgpu_gpu_t *gpu; /* NULL for host memory */
} sgpu_place_t;

typedef struct sgpu_op {
    mrail_list_t list; /* stream->ops */
    sgpu_op_kind_t kind;
    uint64_t seq;        /* sequence number in its stream */
    uint64_t serial;     /* sequence number in the process */
    mrail_ns_t ready_ns; /* earliest start on an engine that is never late */
    /* result of the last step: the time of the next step, or MRAIL_NS_NEVER to
     * wait for any event */
    mrail_ns_t wake_ns;
    union {
        struct {
            sgpu_place_t to, from;
            uint64_t width, rows, done; /* bytes, rows, bytes */
            sgpu_path_t path;
            /* time at which the bytes counted in `done` have crossed the
             * links */
            mrail_ns_t end_ns;
            void *staged; /* copy of the source; freed with the op */
        } copy;
        struct {
            sgpu_place_t to;
            uint32_t value;
            unsigned unit; /* element size: 1, 2 or 4 bytes */
            uint64_t num;
        } set;
        struct {
            mrail_list_t due; /* dev->funcs */
            CUhostFn func;
            CUstreamCallback callback; /* NULL if `func` is used */
            CUstream stream;           /* handle that the caller passed */
            uint64_t ctx_handle;
            void *arg;
            int is_started, is_done;
        } func;
        struct {
            sgpu_event_t *event;
            uint64_t number; /* interprocess event: number of the record */
        } record;
        struct {
            sgpu_stream_t *stream;
            uint64_t seq;
        } after;
        struct {
            sgpu_event_t *event;
            uint64_t number;
        } after_event;
        struct {
            sgpu_mem_t *mem;
            void *view;
            uint64_t value;
            int is_64;
            unsigned flags;
            unsigned polls;
        } value;
        struct {
            sgpu_launch_t *launch;
        } kernel;
        struct {
            sgpu_mem_t *mem;
        } free;
    };
} sgpu_op_t;

typedef enum sgpu_step {
    SGPU_STEP_DONE,
    SGPU_STEP_AGAIN /* continue at op->wake_ns */
} sgpu_step_t;

/* ---- stream.c ---- */
CUresult sgpu_stream_create(sgpu_ctx_t *ctx, unsigned flags, int has_handle,
                            sgpu_stream_t **stream_p);
/* Finds the stream of a handle. Special handles stand for streams of ctx. */
CUresult sgpu_stream_find(sgpu_ctx_t *ctx, CUstream handle,
                          sgpu_stream_t **stream_p);
void sgpu_stream_get(sgpu_stream_t *stream);
void sgpu_stream_put(sgpu_stream_t *stream);
/* Removes the handle. Work in the stream still completes. */
void sgpu_stream_destroy(sgpu_stream_t *stream);
sgpu_op_t *sgpu_op_create(sgpu_op_kind_t kind);
/* Appends the operation, ordered by the rules of the legacy stream. On failure,
 * the caller keeps it. */
CUresult sgpu_stream_append(sgpu_stream_t *stream, sgpu_op_t *op);
/* Waits until the operation is complete, with the lock released. Returns the
 * error of the context's work. */
CUresult sgpu_stream_wait(sgpu_stream_t *stream, uint64_t seq);

/* Work in the stream has failed. Drops the rest of the context's work. Later
 * calls in the context return the error until the context is destroyed. */
void sgpu_stream_fail(const sgpu_stream_t *stream, CUresult error);

/* ---- engine.c ---- */
/* Starts the threads of the device unless they are running. */
CUresult sgpu_engine_start(sgpu_dev_t *dev);
/* Wakes the engines of all devices. */
void sgpu_engine_signal(void);

/* ---- op.c ---- */
/* Executes a part of the operation at the head of a stream. Releases the lock
 * while it copies. */
sgpu_step_t sgpu_op_step(sgpu_stream_t *stream, sgpu_op_t *op,
                         mrail_ns_t now_ns);
/* Returns 1 if the operation can be dropped at this point. */
int sgpu_op_can_drop(const sgpu_op_t *op);
/* Returns the references that the operation holds, and frees it. */
void sgpu_op_destroy(sgpu_op_t *op);

/* ---- launch.c ---- */
/* Starts the blocks, or checks whether they have finished. The last block to
 * finish wakes the engine. */
sgpu_step_t sgpu_launch_step(sgpu_launch_t *launch);
int sgpu_launch_is_running(const sgpu_launch_t *launch);
void sgpu_launch_destroy(sgpu_launch_t *launch);

/* ---- event.c ---- */
void sgpu_event_get(sgpu_event_t *event);
void sgpu_event_put(sgpu_event_t *event);
/* Creates an interprocess event with the page in fd. Returns NULL on
 * failure. */
sgpu_event_t *sgpu_event_create(sgpu_dev_t *dev, unsigned flags, int fd);
static inline int sgpu_event_page_is_done(const sgpu_event_page_t *page,
                                          uint64_t number)
{
    /* If a later record is in the same entry, this record is complete. */
    return page->done[number % SGPU_EVENT_RECORDS] >= number;
}

#endif
