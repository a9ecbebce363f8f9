/* The parameters of the kernels in this directory, and the byte pattern with
 * which programs validate device memory. Kernels and the programs that launch
 * them include this file. */
#ifndef MRAIL_KERNELS_ARGS_H
#define MRAIL_KERNELS_ARGS_H

#include <stdint.h>

#ifdef __CUDACC__
#define MRAIL_KERNEL_ARGS_INLINE static __host__ __device__ __forceinline__
#else
#define MRAIL_KERNEL_ARGS_INLINE static inline
#endif

/* mrail_kernel_fill: writes a part of the pattern of `seed`, which begins at
 * byte `offset` of the pattern. mrail_kernel_verify compares the memory with
 * the pattern, and adds the number of wrong bytes to the 64-bit counter at
 * `wrong`. */
typedef struct mrail_kernel_pattern {
    uint64_t address;
    uint64_t bytes;
    uint64_t offset;
    uint64_t seed;
    uint64_t wrong; /* address of the counter; fill does not use it */
} mrail_kernel_pattern_t;

/* mrail_kernel_copy: copies bytes between the memory of any GPUs and pinned
 * host memory. */
typedef struct mrail_kernel_copy {
    uint64_t to;
    uint64_t from;
    uint64_t bytes;
} mrail_kernel_copy_t;

/* mrail_kernel_wait: each block ends after `ns` nanoseconds. */
typedef struct mrail_kernel_wait {
    uint64_t ns;
} mrail_kernel_wait_t;

/*
 * mrail_kernel_relay: a persistent kernel that copies chunks of relays. A
 * channel is a queue of copies over one link. `parts` blocks serve each channel,
 * and each of them copies its share of every task. All structs are in host memory
 * that is registered with the driver. Source: [NIMBLE] IV-C and IV-D.
 *
 * The host fills in a task and then increments `put`. A block continues at its
 * own `done`, so another launch resumes where the last one ended.
 */
#define MRAIL_KERNEL_RELAY_PARTS 8u /* maximum number of blocks per channel */

typedef struct mrail_kernel_task {
    uint64_t to;
    uint64_t from;
    uint64_t bytes;
} mrail_kernel_task_t;

typedef struct mrail_kernel_channel {
    uint64_t put; /* number of tasks so far; the host writes it */
    uint64_t unused[7];
    uint64_t
        done[MRAIL_KERNEL_RELAY_PARTS]; /* tasks that each part completed */
} mrail_kernel_channel_t;

typedef struct mrail_kernel_relay {
    uint64_t channels; /* address of mrail_kernel_channel_t[num_channels] */
    uint64_t tasks;    /* address of mrail_kernel_task_t[num_channels][ring] */
    uint64_t busy;     /* address of the 64-bit time of the last copy */
    uint64_t leave;    /* address of the number of the last launch that must
                        * end. The host writes it, and a block if none had a
                        * task for idle_ns */
    uint64_t launch;   /* number of this launch, from 1 */
    uint64_t idle_ns;
    uint32_t num_channels;
    uint32_t ring;
    uint32_t parts; /* divides the number of blocks */
    uint32_t unused;
} mrail_kernel_relay_t;

/* Returns bytes 8 * index to 8 * index + 7 of the pattern, with the first byte
 * in the lowest bits. */
MRAIL_KERNEL_ARGS_INLINE uint64_t mrail_kernel_word(uint64_t seed,
                                                    uint64_t index)
{
    uint64_t x = seed + (index + 1) * 0x9e3779b97f4a7c15ull;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

MRAIL_KERNEL_ARGS_INLINE uint8_t mrail_kernel_byte(uint64_t seed, uint64_t at)
{
    return (uint8_t)(mrail_kernel_word(seed, at / 8) >> (at % 8 * 8));
}

#endif
