/*
 * Models the path of a copy through a node: the link directions that it
 * occupies, and the time at which its bytes have crossed these links. The
 * current time is an argument.
 */
#ifndef MRAIL_SGPU_PATH_H
#define MRAIL_SGPU_PATH_H

#include "softgpu/session.h"

#include "base/clock.h"

/* Size of a chunk on links without a rate limit, and duration of a chunk on
 * links with a rate limit. Copies that share a link alternate chunk by
 * chunk. */
#define SGPU_PATH_CHUNK_BYTES (1u << 20)
#define SGPU_PATH_CHUNK_NS (500 * MRAIL_NS_PER_US)
#define SGPU_PATH_MIN_BYTES 512u
/* A copy whose thread ran late may catch up by this time, because the copy
 * engine of a real GPU would not have been late. */
#define SGPU_PATH_LATE_NS (50 * MRAIL_NS_PER_MS)

typedef struct sgpu_path {
    sgpu_link_t *links[2];
    unsigned num;
} sgpu_path_t;

/* Returns the path between two locations in a node, where NULL stands for host
 * memory. `direct` is 1 if the copy may use the link between the GPUs.
 * Otherwise it crosses PCIe twice. */
sgpu_path_t sgpu_path_find(sgpu_link_kind_t kind, sgpu_gpu_t *from,
                           sgpu_gpu_t *to, int direct);

/* Returns 1 if a link of the path is down. */
int sgpu_path_is_cut(const sgpu_path_t *path);

/* Returns 1 if two different GPUs can access each other's memory. */
int sgpu_path_joins(sgpu_link_kind_t kind, sgpu_gpu_t *a, sgpu_gpu_t *b);

/* Returns the number of bytes in the next chunk, from 1 to `left`. */
uint32_t sgpu_path_chunk(const sgpu_path_t *path, uint64_t left);

/* Reserves `bytes` on every link, and returns the time at which the last byte
 * will have crossed the links. ready_ns is the time at which the bytes were
 * ready to leave. */
mrail_ns_t sgpu_path_reserve(const sgpu_path_t *path, uint32_t bytes,
                             mrail_ns_t ready_ns, mrail_ns_t now_ns);

#endif
