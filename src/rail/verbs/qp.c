#include "config.h"
#include "rail/verbs/rail.h"

#include "rail/params.h"

#include <errno.h>

struct ibv_qp *mrail_qp_create(mrail_rail_t *rail, unsigned depth,
                               uint64_t serial)
{
    struct ibv_qp_init_attr init = {
        .qp_context = (void *)(uintptr_t)serial,
        .qp_type = IBV_QPT_RC,
        .send_cq = rail->cq,
        .recv_cq = rail->cq,
        .srq = rail->srq,
        .cap = {.max_send_wr = depth,
                .max_send_sge = MRAIL_MAX_IOV,
                .max_inline_data = rail->attr.max_inline},
    };
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = (uint8_t)rail->attr.port,
        .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ,
    };
    struct ibv_qp *qp = ibv_create_qp(rail->pd, &init);
    int ret;

    if (qp == NULL) {
        return NULL;
    }
    ret = ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                            IBV_QP_ACCESS_FLAGS);
    if (ret != 0) {
        ibv_destroy_qp(qp);
        errno = ret;
        return NULL;
    }
    return qp;
}

int mrail_qp_to_rtr(struct ibv_qp *qp, const mrail_rail_t *rail,
                    const struct ibv_ah_attr *path,
                    const mrail_wire_lane_t *remote, unsigned mtu)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .ah_attr = *path,
        .path_mtu = MRAIL_MIN((unsigned)rail->mtu, mtu),
        .dest_qp_num = remote->qpn,
        .rq_psn = remote->psn,
        .max_dest_rd_atomic = (uint8_t)rail->max_dest_rd_atomic,
        .min_rnr_timer = 12, /* 0.64 ms */
    };

    return -ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                              IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int mrail_qp_to_rts(struct ibv_qp *qp, const mrail_rail_t *rail,
                    const mrail_config_t *config, uint32_t psn, unsigned reads)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = psn,
        .timeout = (uint8_t)mrail_config_qp_timeout(config),
        .retry_cnt = (uint8_t)config->retry_count,
        .rnr_retry = (uint8_t)config->rnr_retry_count,
        .max_rd_atomic =
            (uint8_t)MRAIL_MIN(MRAIL_MAX(reads, 1u), rail->max_rd_atomic),
    };

    return -ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                              IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_MAX_QP_RD_ATOMIC);
}

static int mrail_qp_to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    return -ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

int mrail_qp_to_error(struct ibv_qp *qp)
{
    return mrail_qp_to_state(qp, IBV_QPS_ERR);
}

enum ibv_qp_state mrail_qp_state(struct ibv_qp *qp, int *is_draining_p)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) != 0) {
        return IBV_QPS_UNKNOWN;
    }
    *is_draining_p = attr.sq_draining;
    return attr.qp_state;
}

int mrail_qp_stop_sending(struct ibv_qp *qp)
{
    return mrail_qp_to_state(qp, IBV_QPS_SQD);
}

int mrail_qp_set_path(struct ibv_qp *qp, const struct ibv_ah_attr *path)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .ah_attr = *path};

    return -ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV);
}

int mrail_qp_continue_sending(struct ibv_qp *qp)
{
    return mrail_qp_to_state(qp, IBV_QPS_RTS);
}

void mrail_qp_destroy(struct ibv_qp *qp)
{
    ibv_destroy_qp(qp);
}
