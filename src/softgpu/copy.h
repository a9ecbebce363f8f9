/* Resolves the addresses of copies. The caller of each function holds
 * sgpu.lock. */
#ifndef MRAIL_SGPU_COPY_H
#define MRAIL_SGPU_COPY_H

#include "softgpu/work.h"

typedef enum sgpu_place_kind {
    SGPU_PLACE_HOST,   /* an address that the CPU may use */
    SGPU_PLACE_DEVICE, /* an address known to the driver */
    SGPU_PLACE_KERNEL, /* like DEVICE, for a kernel that was launched earlier */
    SGPU_PLACE_ANY
} sgpu_place_kind_t;

/* Finds the memory at [address, address + span), and acquires a reference to
 * it. Returns CUDA_ERROR_INVALID_VALUE if the range is not of the requested
 * kind, extends beyond its allocation, or is not accessible to the current
 * device. */
CUresult sgpu_place_find(sgpu_ctx_t *ctx, uint64_t address, uint64_t span,
                         sgpu_place_kind_t kind, int is_write,
                         sgpu_place_t *place_p);
/* Returns 1 if the context has access to the memory. */
int sgpu_place_is_reachable(const sgpu_ctx_t *ctx, const sgpu_place_t *place);
void sgpu_place_put(sgpu_place_t *place);

#endif
