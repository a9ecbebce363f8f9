/*
 * The language of kernel sources (*.inc), for nvcc and for the C compiler.
 *
 *     MRAIL_KERNEL(mrail_kernel_fill, mrail_kernel_fill_t)
 *     {
 *         uint8_t *to = MRAIL_KERNEL_MEM(uint8_t, args.to, args.bytes, 1);
 *
 *         MRAIL_KERNEL_FOR (i, 0, args.bytes) {
 *             to[i] = args.value;
 *         }
 *     }
 *
 * A kernel has one parameter, the struct `args`. Its grid and its blocks have
 * one dimension. When the C compiler builds it, a block is one thread.
 * Statements outside MRAIL_KERNEL_FOR and MRAIL_KERNEL_LEADER must therefore
 * have the same effect, whether one thread or all threads of a block execute
 * them. MRAIL_KERNEL_SYNC is a barrier: later reads by any thread of the block
 * see the writes before it. MRAIL_KERNEL_UNIFORM evaluates an expression in one
 * thread, and gives its value to all threads of the block. Conditions on time or
 * on memory that others change need it.
 *
 * Addresses in `args` are device addresses. MRAIL_KERNEL_MEM makes a pointer to
 * a range within one allocation. A kernel may read and write the memory of
 * other GPUs through pointers, but on software GPUs only MRAIL_KERNEL_COPY
 * takes as long as the links need. Blocks wait for each other, for other GPUs
 * and for the host with mrail_kernel_load64() and MRAIL_KERNEL_PAUSE; all
 * blocks of a cooperative launch run at the same time.
 */
#ifndef MRAIL_KERNELS_KERNEL_H
#define MRAIL_KERNELS_KERNEL_H

#include "kernels/image.h"

#ifdef __CUDACC__

#define MRAIL_KERNEL_INLINE static __device__ __forceinline__
#define MRAIL_KERNEL(_name, _args_t)                                           \
    extern "C" __global__ void _name(const _args_t args)
#define MRAIL_KERNEL_BLOCK blockIdx.x
#define MRAIL_KERNEL_BLOCKS gridDim.x
#define MRAIL_KERNEL_FOR(_i, _begin, _end)                                     \
    for (uint64_t _i = (_begin) + threadIdx.x; _i < (_end); _i += blockDim.x)
#define MRAIL_KERNEL_LEADER (threadIdx.x == 0)
#define MRAIL_KERNEL_SYNC() __syncthreads()
#define MRAIL_KERNEL_MEM(_type, _address, _num, _is_write)                     \
    ((_type *)(uintptr_t)(_address))
#define MRAIL_KERNEL_COPY(_to, _from, _bytes)                                  \
    mrail_kernel_copy_bytes(_to, _from, _bytes)
#define MRAIL_KERNEL_PAUSE() __nanosleep(100)
#define MRAIL_KERNEL_NOW() mrail_kernel_timer()
#define MRAIL_KERNEL_UNIFORM(_variable, _expression)                           \
    do {                                                                       \
        __shared__ uint64_t uniform_;                                          \
                                                                               \
        __syncthreads();                                                       \
        if (MRAIL_KERNEL_LEADER) {                                             \
            uniform_ = (_expression);                                          \
        }                                                                      \
        __syncthreads();                                                       \
        (_variable) = uniform_;                                                \
    } while (0)

MRAIL_KERNEL_INLINE uint64_t mrail_kernel_timer(void)
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Copies 16 bytes at a time if the alignment of both addresses permits it. */
MRAIL_KERNEL_INLINE void mrail_kernel_copy_bytes(uint64_t to, uint64_t from,
                                                 uint64_t bytes)
{
    uint64_t wide = ((to | from) % 16 == 0) ? bytes / 16 : 0;
    const uint4 *from_wide = (const uint4 *)(uintptr_t)from;
    uint4 *to_wide = (uint4 *)(uintptr_t)to;

    MRAIL_KERNEL_FOR(i, 0, wide)
    {
        to_wide[i] = from_wide[i];
    }
    MRAIL_KERNEL_FOR(i, 16 * wide, bytes)
    {
        ((uint8_t *)(uintptr_t)to)[i] = ((const uint8_t *)(uintptr_t)from)[i];
    }
}

/* Loads and stores that are visible to the whole system: other GPUs, the host
 * and NICs. */
MRAIL_KERNEL_INLINE uint64_t mrail_kernel_load64(const uint64_t *p)
{
    uint64_t value;

    asm volatile("ld.acquire.sys.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(p)
                 : "memory");
    return value;
}

MRAIL_KERNEL_INLINE void mrail_kernel_store64(uint64_t *p, uint64_t value)
{
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(p), "l"(value)
                 : "memory");
}

MRAIL_KERNEL_INLINE uint64_t mrail_kernel_add64(uint64_t *p, uint64_t value)
{
    __threadfence_system();
    return atomicAdd_system((unsigned long long *)p, value);
}

#else

#define MRAIL_KERNEL_INLINE static inline
#define MRAIL_KERNEL(_name, _args_t)                                           \
    static void _name(mrail_kernel_block_t *block, const _args_t args);        \
    static void _name##_run(mrail_kernel_block_t *block, const void *args)     \
    {                                                                          \
        _name(block, *(const _args_t *)args);                                  \
    }                                                                          \
    static void _name(mrail_kernel_block_t *block, const _args_t args)
#define MRAIL_KERNEL_BLOCK block->index
#define MRAIL_KERNEL_BLOCKS block->num
#define MRAIL_KERNEL_FOR(_i, _begin, _end)                                     \
    for (uint64_t _i = (_begin); _i < (_end); ++_i)
#define MRAIL_KERNEL_LEADER 1
#define MRAIL_KERNEL_SYNC() ((void)0)
#define MRAIL_KERNEL_MEM(_type, _address, _num, _is_write)                     \
    ((_type *)block->ops->map(block, _address, (_num) * sizeof(_type),         \
                              _is_write))
#define MRAIL_KERNEL_COPY(_to, _from, _bytes)                                  \
    block->ops->copy(block, _to, _from, _bytes)
#define MRAIL_KERNEL_PAUSE() block->ops->pause(block)
#define MRAIL_KERNEL_NOW() block->ops->now(block)
#define MRAIL_KERNEL_UNIFORM(_variable, _expression) (_variable) = (_expression)

MRAIL_KERNEL_INLINE uint64_t mrail_kernel_load64(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

MRAIL_KERNEL_INLINE void mrail_kernel_store64(uint64_t *p, uint64_t value)
{
    __atomic_store_n(p, value, __ATOMIC_RELEASE);
}

MRAIL_KERNEL_INLINE uint64_t mrail_kernel_add64(uint64_t *p, uint64_t value)
{
    return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}

/* A row of the table in an image. */
#define MRAIL_KERNEL_ENTRY(_name, _args_t)                                     \
    {                                                                          \
#_name, sizeof(_args_t), _name##_run                                   \
    }

#endif

/* Sets [begin, end) to share `part` of `parts` of `total` items. Shares consist
 * of whole units, except that the last one ends at `total`. */
#define MRAIL_KERNEL_PART(_part, _parts, _total, _unit, _begin, _end)          \
    do {                                                                       \
        uint64_t units_ = ((_total) + (_unit)-1) / (_unit);                    \
        uint64_t each_ = (units_ + (_parts)-1) / (_parts);                     \
                                                                               \
        (_begin) = (_part)*each_ * (_unit);                                    \
        (_end) = (_begin) + each_ * (_unit);                                   \
        (_begin) = ((_begin) < (_total)) ? (_begin) : (_total);                \
        (_end) = ((_end) < (_total)) ? (_end) : (_total);                      \
    } while (0)

/* Sets [begin, end) to this block's share of `total` items. */
#define MRAIL_KERNEL_SHARE(_total, _unit, _begin, _end)                        \
    MRAIL_KERNEL_PART(MRAIL_KERNEL_BLOCK, MRAIL_KERNEL_BLOCKS, _total, _unit,  \
                      _begin, _end)

#endif
