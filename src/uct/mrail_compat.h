/*
 * The private headers of the UCX version for which the transport is built, and
 * the differences between UCX versions. Each difference is a HAVE_ macro, which
 * configure derives from the headers (m4/mrail_ucx.m4), never from a version
 * number.
 */
#ifndef UCT_MRAIL_COMPAT_H
#define UCT_MRAIL_COMPAT_H

#include <ucs/memory/rcache.h>
#include <uct/base/uct_iface.h>
#include <uct/base/uct_iov.inl>
#include <uct/base/uct_md.h>

/* Registration caches for messages sent by UCX. If UCP has its own cache
 * (cache_mem_types), that cache covers all transports, and UCX_RCACHE_ENABLE
 * controls it. UCP then asserts that no md has a cache. Older UCP versions
 * expect each md to have one. */
#if HAVE_UCT_MD_ATTR_V2_T_CACHE_MEM_TYPES
#define UCT_MRAIL_HAVE_UCP_RCACHE 1
#elif HAVE_UCX_RCACHE && HAVE_UCX_MD_RCACHE
#define UCT_MRAIL_HAVE_MD_RCACHE 1
#endif

/* The stub for every operation that this transport does not support. The cast
 * through void (*)(void) tells compilers that the type change is deliberate. */
ucs_status_t uct_mrail_unsupported(void);
#define UCT_MRAIL_UNSUPPORTED(_type)                                           \
    ((_type)(void (*)(void))uct_mrail_unsupported)

void uct_mrail_nothing(void);
#define UCT_MRAIL_NOTHING(_type) ((_type)(void (*)(void))uct_mrail_nothing)

#endif
