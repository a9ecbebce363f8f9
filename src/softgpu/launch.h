/* Launches of kernels. The caller of each function holds sgpu.lock. */
#ifndef MRAIL_SGPU_LAUNCH_H
#define MRAIL_SGPU_LAUNCH_H

#include "kernels/image.h"
#include "softgpu/work.h"

/* Number of blocks of one launch that can run at the same time. */
#define SGPU_MULTIPROCESSORS 16
#define SGPU_BLOCKS_PER_MULTIPROCESSOR 2
#define SGPU_BLOCKS (SGPU_MULTIPROCESSORS * SGPU_BLOCKS_PER_MULTIPROCESSOR)
#define SGPU_THREADS_PER_BLOCK 1024
#define SGPU_SHARED_BYTES 49152

/* Creates a launch with a copy of the arguments. Returns NULL on failure. */
sgpu_launch_t *sgpu_launch_create(sgpu_stream_t *stream,
                                  const mrail_kernel_entry_t *entry,
                                  const void *args, uint32_t num_blocks);

#endif
