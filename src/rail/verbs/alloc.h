/* Registered memory of a rail. */
#ifndef MRAIL_RAIL_VERBS_ALLOC_H
#define MRAIL_RAIL_VERBS_ALLOC_H

#include "rail/verbs/rail.h"

/* Logs one error line about a failed registration if the locked-memory limit
 * may be the cause. */
void mrail_rail_explain(const char *device, size_t length, int error);

/* Access of peers to registered memory. */
typedef enum mrail_access {
    MRAIL_ACCESS_OWN,  /* none */
    MRAIL_ACCESS_READ, /* peers may read */
    MRAIL_ACCESS_FULL  /* peers may read and write */
} mrail_access_t;

/* Registers memory with the rail's device. Returns NULL with errno set on
 * failure. */
struct ibv_mr *mrail_rail_reg(mrail_rail_t *rail, void *address, size_t length,
                              mrail_access_t access);
/* Registers a part of a dma-buf, which starts at `offset`, with full access. WRs
 * and peers use `address`. */
struct ibv_mr *mrail_rail_reg_dmabuf(mrail_rail_t *rail, int fd,
                                     uint64_t offset, void *address,
                                     size_t length);
/* Deregisters memory. Returns 0, or -1 with errno set. */
int mrail_rail_dereg(struct ibv_mr *mr);

/* Allocates page-aligned, registered memory. Its contents are undefined. The
 * caller frees the registration and the memory. */
struct ibv_mr *mrail_rail_alloc(mrail_rail_t *rail, size_t length,
                                mrail_access_t access, void **buffer_p);

#endif
