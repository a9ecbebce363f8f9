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
