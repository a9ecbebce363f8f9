/*
 * Access to the real libibverbs. A replacement of one of its functions begins
 * with
 *
 *     SROCE_PASS(ibv_alloc_pd, context);
 *
 * Without a session, this returns the result of the real function, so that the
 * library is inert. A replacement calls SROCE_REAL() itself if it returns void,
 * or if an older libibverbs may lack the function; the result is then NULL.
 */
#ifndef MRAIL_SROCE_REAL_H
#define MRAIL_SROCE_REAL_H

#include "softroce/host/host.h"

#include <dlfcn.h>

#define SROCE_REAL(_name)                                                      \
    ({                                                                         \
        static __typeof__(&_name) real_func;                                   \
        if (real_func == NULL) {                                               \
            real_func = (__typeof__(&_name))dlsym(RTLD_NEXT, #_name);          \
        }                                                                      \
        real_func;                                                             \
    })

#define SROCE_PASS(_name, ...)                                                 \
    do {                                                                       \
        if (!sroce_host_enabled()) {                                           \
            return SROCE_REAL(_name)(__VA_ARGS__);                             \
        }                                                                      \
    } while (0)

#endif
