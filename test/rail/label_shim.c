/*
 * An LD_PRELOAD shim over a verbs library that gives a device the faults listed
 * in MRAIL_TEST_LABELS:
 * - "ignored": it stores no flow label.
 * - "fixed": it stores a fixed label instead.
 * - "no-sqd": it refuses the SQD state.
 * - "unknown": its firmware version matches no known device.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#define FIXED_LABEL 0x2345u

typedef int (*query_qp_func_t)(struct ibv_qp *qp, struct ibv_qp_attr *attr,
                               int mask, struct ibv_qp_init_attr *init);
typedef int (*modify_qp_func_t)(struct ibv_qp *qp, struct ibv_qp_attr *attr,
                                int mask);
typedef int (*query_device_func_t)(struct ibv_context *ctx,
                                   struct ibv_device_attr *attr);

__attribute__((visibility("default"))) int
ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
             struct ibv_qp_init_attr *init);
__attribute__((visibility("default"))) int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
__attribute__((visibility("default"))) int
ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr);

static int has_fault(const char *name)
{
    const char *faults = getenv("MRAIL_TEST_LABELS");

    return faults != NULL && strcmp(faults, name) == 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    query_qp_func_t next =
        (query_qp_func_t)(uintptr_t)dlsym(RTLD_NEXT, "ibv_query_qp");
    int ret = next(qp, attr, mask, init);

    if (ret == 0 && has_fault("ignored")) {
        attr->ah_attr.grh.flow_label = 0;
    } else if (ret == 0 && has_fault("fixed")) {
        attr->ah_attr.grh.flow_label = FIXED_LABEL;
    }
    return ret;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    modify_qp_func_t next =
        (modify_qp_func_t)(uintptr_t)dlsym(RTLD_NEXT, "ibv_modify_qp");

    if (has_fault("no-sqd") && (mask & IBV_QP_STATE) != 0 &&
        attr->qp_state == IBV_QPS_SQD) {
        return EINVAL;
    }
    return next(qp, attr, mask);
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
    query_device_func_t next =
        (query_device_func_t)(uintptr_t)dlsym(RTLD_NEXT, "ibv_query_device");
    int ret = next(ctx, attr);

    if (ret == 0 && has_fault("unknown")) {
        strcpy(attr->fw_ver, "1.0");
    }
    return ret;
}
