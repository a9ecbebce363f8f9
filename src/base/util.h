/* Small helpers that C lacks. Needs only libc. */
#ifndef MRAIL_BASE_UTIL_H
#define MRAIL_BASE_UTIL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MRAIL_LIKELY(x) __builtin_expect(!!(x), 1)
#define MRAIL_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* For functions that must be inlined because a call would lower the message
 * rate. */
#define MRAIL_INLINE inline __attribute__((always_inline))
#define MRAIL_EXPORT __attribute__((visibility("default")))
#define MRAIL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MRAIL_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MRAIL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define MRAIL_MAX(a, b) ((a) > (b) ? (a) : (b))
#define MRAIL_CONTAINER_OF(ptr, type, member)                                  \
    ((type *)((char *)(ptr)-offsetof(type, member)))
#define MRAIL_DIV_ROUND_UP(a, b) (((a) + (b)-1) / (b))

/* Like memcpy(3), but allows invalid pointers if length is 0. */
static inline void mrail_copy(void *to, const void *from, size_t length)
{
    if (MRAIL_LIKELY(length != 0)) {
        memcpy(to, from, length);
    }
}

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014), a good hash of ids. */
static inline uint64_t mrail_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

#endif
