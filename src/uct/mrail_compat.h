/*
 * The private headers of the UCX that this is built for, and what differs
 * between its versions.  Every difference is a HAVE_ macro that configure
 * found by asking the headers (m4/mrail_ucx.m4), never a version number.
 */
#ifndef UCT_MRAIL_COMPAT_H
#define UCT_MRAIL_COMPAT_H

#include <uct/base/uct_iface.h>
#include <uct/base/uct_iov.inl>
#include <uct/base/uct_md.h>

/* Who caches registrations.  Where UCP asks for it (cache_mem_types) its own
 * cache serves all transports, and UCX_RCACHE_ENABLE is its switch: an md has
 * none, since UCP asserts that it may cache what it registers.  Before that the
 * md must do it. */
#if HAVE_UCT_MD_ATTR_V2_T_CACHE_MEM_TYPES
#define UCT_MRAIL_HAVE_UCP_RCACHE 1
#elif HAVE_UCX_MD_RCACHE
#define UCT_MRAIL_HAVE_MD_RCACHE 1
#endif

/* The stub of every slot that this transport does not fill.  Its type is
 * changed by way of void (*)(void), which compilers take as deliberate. */
ucs_status_t uct_mrail_unsupported(void);
#define UCT_MRAIL_UNSUPPORTED(_type)                                           \
    ((_type)(void (*)(void))uct_mrail_unsupported)

void uct_mrail_nothing(void);
#define UCT_MRAIL_NOTHING(_type) ((_type)(void (*)(void))uct_mrail_nothing)

#endif
