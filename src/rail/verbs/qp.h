/*
 * RC QPs: creation and state changes. A QP belongs to a lane (conn/lane.h).
 *
 * Functions return 0 or -errno unless stated otherwise. Control lock held,
 * except for mrail_qp_post().
 */
#ifndef MRAIL_RAIL_VERBS_QP_H
#define MRAIL_RAIL_VERBS_QP_H

#include "rail/verbs/rail.h"

/* Creates a QP with `depth` send queue entries on the rail's CQ and SRQ, in
 * state INIT. Events of the QP carry `serial`. Returns NULL with errno set on
 * failure. */
struct ibv_qp *mrail_qp_create(mrail_rail_t *rail, unsigned depth,
                               uint64_t serial);

/* Makes the QP ready to receive from the remote QP over `path`. `mtu`: enum
 * ibv_mtu of the remote port. */
int mrail_qp_to_rtr(struct ibv_qp *qp, const mrail_rail_t *rail,
                    const struct ibv_ah_attr *path,
                    const mrail_wire_lane_t *remote, unsigned mtu);

/* Makes the QP ready to send. `reads`: number of READs that the remote QP
 * serves at once. */
int mrail_qp_to_rts(struct ibv_qp *qp, const mrail_rail_t *rail,
                    const mrail_config_t *config, uint32_t psn, unsigned reads);

/* Moves the QP to the error state, in which it sends and receives nothing. */
int mrail_qp_to_error(struct ibv_qp *qp);

/* Returns the state. `*is_draining_p`: in state SQD, whether requests are still
 * in flight. */
enum ibv_qp_state mrail_qp_state(struct ibv_qp *qp, int *is_draining_p);

/* Stops the send queue after the current request (RTS -> SQD). */
int mrail_qp_stop_sending(struct ibv_qp *qp);
/* Changes the path of a stopped QP without requests in flight. */
int mrail_qp_set_path(struct ibv_qp *qp, const struct ibv_ah_attr *path);
/* Restarts the send queue (SQD -> RTS). */
int mrail_qp_continue_sending(struct ibv_qp *qp);

/* Destroys the QP. Completions already in the CQ stay there. */
void mrail_qp_destroy(struct ibv_qp *qp);

/* Posts a work request. Data-path lock held. */
static inline int mrail_qp_post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    return -ibv_post_send(qp, wr, &bad);
}

#endif
