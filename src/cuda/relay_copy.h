/*
 * Device memory for the payloads of relays. Copy engines move the bytes over
 * the links between devices, and no kernel is launched. Each rank allocates an
 * area on its device and exports it with an IPC handle. A rank copies only from
 * and to areas of its node. Each area and direction has its own stream, so that
 * copies over one link do not wait for another link.
 *
 * All calls use the primary context of the device, and leave the current
 * context of the thread unchanged. Source: [NIMBLE] IV-C, with copy engines in
 * place of kernels.
 */
#ifndef MRAIL_CUDA_RELAY_COPY_H
#define MRAIL_CUDA_RELAY_COPY_H

#include "cuda/driver.h"
#include "relay/memory.h"

/*
 * Creates an empty memory object for the device with this ordinal. All ranks of
 * a node must use device memory, on devices that can access each other.
 * The functions of the object return 0, the -errno of files and shared memory,
 * or:
 *
 *   -ENOMEM      no memory, on the host or on the device
 *   -EACCES      the driver denies access to the device of another rank
 *   -EINVAL      another rank failed to allocate, or has a different kind of
 *                memory
 *   -EOPNOTSUPP  the driver lacks a function
 *   -EIO         any other error of the driver: the context was destroyed, a
 *                link does not work, a copy failed
 *
 * The object copies only between device memory. This function returns 0 or one
 * of these errors.
 */
int mrail_cuda_relay_create(const mrail_cuda_t *cuda, int ordinal,
                            mrail_relay_memory_t **memory_p);

/* Also destroys an object of mrail_cuda_relay_kernel_create(), or NULL. The
 * driver may wait until the device has no work. An exchange must not call it,
 * because a stream may wait for this exchange. */
void mrail_cuda_relay_destroy(mrail_relay_memory_t *memory);

/* Keeps an object, or NULL, for the next call of the second function, which
 * destroys all such objects of the process. The first function never waits, and
 * frees nothing on the device. Any thread may call them. */
void mrail_cuda_relay_retire(mrail_relay_memory_t *memory);
void mrail_cuda_relay_destroy_retired(void);

/* Returns 1 if NICs may write to the area: either the device orders their
 * writes, or the driver can flush them. */
int mrail_cuda_relay_can_receive(const mrail_relay_memory_t *memory);

/* Returns the area that alloc() has allocated, for registration by NICs. */
void mrail_cuda_relay_area(const mrail_relay_memory_t *memory, void **area_p,
                           size_t *size_p);

#endif
