/*
 * An LD_PRELOAD shim over a verbs library that gives a device the faults listed
 * in MRAIL_TEST_LABELS:
 * - "ignored": it stores no flow label.
 * - "fixed": it stores a fixed label instead.
 * - "no-sqd": it rejects the SQD state.
 * - "unknown": its firmware version matches no known device.
 * - "mlx5": its kernel driver is mlx5_core, and libmlx5 has the calls that set
 *   a port and report a port of a LAG.
 * - "mlx5-old": the same, but the calls fail.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAG_PORT 2
#define FIXED_LABEL 0x2345u

typedef int (*query_qp_func_t)(struct ibv_qp *qp, struct ibv_qp_attr *attr,
                               int mask, struct ibv_qp_init_attr *init);
typedef int (*modify_qp_func_t)(struct ibv_qp *qp, struct ibv_qp_attr *attr,
                                int mask);
typedef int (*query_device_func_t)(struct ibv_context *ctx,
                                   struct ibv_device_attr *attr);
typedef ssize_t (*readlink_func_t)(const char *path, char *target, size_t size);
typedef void *(*dlopen_func_t)(const char *name, int flags);

__attribute__((visibility("default"))) int
ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
             struct ibv_qp_init_attr *init);
__attribute__((visibility("default"))) int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
__attribute__((visibility("default"))) int
ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr);
__attribute__((visibility("default"))) int
mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t sport);
__attribute__((visibility("default"))) int
mlx5dv_query_qp_lag_port(struct ibv_qp *qp, uint8_t *port, uint8_t *active);
__attribute__((visibility("default"))) ssize_t
readlink(const char *path, char *target, size_t size);
__attribute__((visibility("default"))) void *dlopen(const char *name,
                                                    int flags);

static int has_fault(const char *name)
{
    const char *faults = getenv("MRAIL_TEST_LABELS");

    return faults != NULL && strcmp(faults, name) == 0;
}

static int is_mlx5(void)
{
    return has_fault("mlx5") || has_fault("mlx5-old");
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

    if (ret == 0 && (has_fault("unknown") || is_mlx5())) {
        strcpy(attr->fw_ver, "1.0");
    }
    return ret;
}

/* ---- libmlx5 ---- */

int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t sport)
{
    return has_fault("mlx5") ? 0 : EOPNOTSUPP;
}

int mlx5dv_query_qp_lag_port(struct ibv_qp *qp, uint8_t *port, uint8_t *active)
{
    if (!has_fault("mlx5")) {
        return EOPNOTSUPP;
    }
    *port = 0;
    *active = LAG_PORT;
    return 0;
}

ssize_t readlink(const char *path, char *target, size_t size)
{
    static const char driver[] = "../../bus/pci/drivers/mlx5_core";
    readlink_func_t next =
        (readlink_func_t)(uintptr_t)dlsym(RTLD_NEXT, "readlink");

    if (!is_mlx5() || strstr(path, "/device/driver") == NULL ||
        size < sizeof(driver)) {
        return next(path, target, size);
    }
    memcpy(target, driver, sizeof(driver) - 1);
    return sizeof(driver) - 1;
}

/* Calls to libmlx5 go to this shim. */
void *dlopen(const char *name, int flags)
{
    dlopen_func_t next = (dlopen_func_t)(uintptr_t)dlsym(RTLD_NEXT, "dlopen");

    if (is_mlx5() && name != NULL && strcmp(name, "libmlx5.so.1") == 0) {
        name = NULL;
    }
    return next(name, flags);
}
