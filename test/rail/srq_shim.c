/*
 * An LD_PRELOAD shim over a verbs library. It limits the shared receive queues
 * of the device to MRAIL_TEST_SRQ_WR requests.
 */
#include "config.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

typedef int (*query_device_func_t)(struct ibv_context *ctx,
                                   struct ibv_device_attr *attr);

__attribute__((visibility("default"))) int
ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr);

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
    const char *limit = getenv("MRAIL_TEST_SRQ_WR");
    query_device_func_t next =
        (query_device_func_t)(uintptr_t)dlsym(RTLD_NEXT, "ibv_query_device");
    int ret = next(ctx, attr);

    if ((ret == 0) && (limit != NULL)) {
        attr->max_srq_wr = atoi(limit);
    }
    return ret;
}
