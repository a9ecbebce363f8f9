/*
 * Device memory for the payloads of relays. Copy engines move the bytes, over
 * the links between devices, and no kernel is launched. Each rank allocates an
 * area on its device and exports it with an IPC handle. A rank copies only from
 * and to areas of its node. Each area and direction has a stream of its own, so
 * that copies over one link do not wait for another link.
 *
 * The context is the primary one of the device. The current context of a thread
 * does not change. Source: [NIMBLE] IV-C, with copy engines in place of kernels.
 */
#ifndef MRAIL_CUDA_RELAY_COPY_H
#define MRAIL_CUDA_RELAY_COPY_H

#include "cuda/driver.h"
#include "relay/memory.h"

/*
 * Creates an empty memory on the device with this ordinal. All ranks of a node
 * must use device memory, each on a device that the others can reach. Besides
 * -errno of files and of shared memory, functions of the memory return:
 *
 *   -ENOMEM      no memory, on the host or on the device
 *   -EACCES      the driver refuses access to the device of another rank
 *   -EINVAL      another rank failed to allocate, or has another kind of memory
 *   -EOPNOTSUPP  the driver lacks a function
 *   -EIO         any other error of the driver: the context was destroyed, a
 *                link does not work, a copy failed
 *
 * Its copies are between device memory only. Returns 0 or one of these.
 */
int mrail_cuda_relay_create(const mrail_cuda_t *cuda, int ordinal,
                            mrail_relay_memory_t **memory_p);
void mrail_cuda_relay_destroy(mrail_relay_memory_t *memory); /* or NULL */

/* Returns the area that alloc() has allocated, for NICs. */
void mrail_cuda_relay_area(const mrail_relay_memory_t *memory, void **area_p,
                           size_t *size_p);

#endif
