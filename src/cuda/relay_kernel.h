/*
 * Device memory for the payloads of relays, as in relay_copy.h, but a kernel
 * copies the bytes. Each rank launches one kernel on its device for an exchange.
 * The kernel's blocks are divided among channels, one for each area and
 * direction, and take copies from a queue in host memory.
 *
 * The kernel exits when the exchange is complete. It also exits if it has had
 * no task for MRAIL_CUDA_RELAY_IDLE_NS, and the next copy launches it again. A
 * process that waits for its device therefore does not wait for a peer.
 *
 * Ranks of a node may use different ways to copy, because each rank executes its
 * own copies.
 */
#ifndef MRAIL_CUDA_RELAY_KERNEL_H
#define MRAIL_CUDA_RELAY_KERNEL_H

#include "base/clock.h"
#include "cuda/driver.h"
#include "relay/memory.h"

#define MRAIL_CUDA_RELAY_IDLE_NS (10 * MRAIL_NS_PER_MS)

/* As mrail_cuda_relay_create(). Copy engines still execute the copies that the
 * kernel cannot: all of them if the driver rejects the kernel, and those of
 * memory that the primary context of the device cannot access. */
int mrail_cuda_relay_kernel_create(const mrail_cuda_t *cuda, int ordinal,
                                   mrail_relay_memory_t **memory_p);

/* Returns 1 if the driver has loaded the kernel. Valid after import(). */
int mrail_cuda_relay_kernel_is_used(const mrail_relay_memory_t *memory);

#endif
