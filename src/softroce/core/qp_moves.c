/* Tables of the legal state transitions of a QP. */
#include "config.h"

#include "softroce/core/core.h"

#include <errno.h>

#define NUM_STATES (IBV_QPS_ERR + 1)

typedef struct qp_move {
    int need; /* required attributes; 0 for an illegal transition */
    int may;  /* optional attributes */
} qp_move_t;

#define ST IBV_QP_STATE
#define CUR IBV_QP_CUR_STATE
#define PATH                                                                   \
    (IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_ALT_PATH |            \
     IBV_QP_PATH_MIG_STATE)
/* Legal from every state. */
#define ANY_RESET [IBV_QPS_RESET] = {ST, 0}
#define ANY_ERR [IBV_QPS_ERR] = {ST, 0}

/* Source: IBA 11.2.5.2 table 96, ibv_modify_qp(3), IBV_QPT_RC. IBV_QP_CUR_STATE
 * is legal only in transitions from a state that the QP can leave by itself. */
static const qp_move_t rc_moves[NUM_STATES][NUM_STATES] = {
    [IBV_QPS_RESET] = {ANY_RESET, ANY_ERR,
                       [IBV_QPS_INIT] = {ST | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                             IBV_QP_ACCESS_FLAGS,
                                         0}},
    [IBV_QPS_INIT] = {ANY_RESET, ANY_ERR,
                      [IBV_QPS_INIT] = {ST, IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                                IBV_QP_ACCESS_FLAGS},
                      [IBV_QPS_RTR] = {ST | IBV_QP_AV | IBV_QP_PATH_MTU |
                                           IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                           IBV_QP_MAX_DEST_RD_ATOMIC |
                                           IBV_QP_MIN_RNR_TIMER,
                                       IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS |
                                           IBV_QP_ALT_PATH}},
    [IBV_QPS_RTR] = {ANY_RESET, ANY_ERR,
                     [IBV_QPS_RTS] = {ST | IBV_QP_SQ_PSN |
                                          IBV_QP_MAX_QP_RD_ATOMIC |
                                          IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                          IBV_QP_TIMEOUT,
                                      CUR | PATH}},
    [IBV_QPS_RTS] = {ANY_RESET, ANY_ERR, [IBV_QPS_RTS] = {ST, CUR | PATH},
                     [IBV_QPS_SQD] = {ST, IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    [IBV_QPS_SQD] = {ANY_RESET, ANY_ERR, [IBV_QPS_RTS] = {ST, CUR | PATH},
                     [IBV_QPS_SQD] = {ST,
                                      PATH | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                          IBV_QP_AV | IBV_QP_TIMEOUT |
                                          IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                          IBV_QP_MAX_QP_RD_ATOMIC |
                                          IBV_QP_MAX_DEST_RD_ATOMIC}},
    [IBV_QPS_SQE] = {ANY_RESET, ANY_ERR},
    [IBV_QPS_ERR] = {ANY_RESET, ANY_ERR},
};

/* Source: as rc_moves, IBV_QPT_UD. */
static const qp_move_t ud_moves[NUM_STATES][NUM_STATES] = {
    [IBV_QPS_RESET] = {ANY_RESET, ANY_ERR,
                       [IBV_QPS_INIT] = {ST | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                             IBV_QP_QKEY,
                                         0}},
    [IBV_QPS_INIT] = {ANY_RESET, ANY_ERR,
                      [IBV_QPS_INIT] = {ST, IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                                IBV_QP_QKEY},
                      [IBV_QPS_RTR] = {ST, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    [IBV_QPS_RTR] =
        {ANY_RESET,
         ANY_ERR, [IBV_QPS_RTS] = {ST | IBV_QP_SQ_PSN, CUR | IBV_QP_QKEY}},
    [IBV_QPS_RTS] = {ANY_RESET,
                     ANY_ERR, [IBV_QPS_RTS] = {ST, CUR | IBV_QP_QKEY},
                     [IBV_QPS_SQD] = {ST, IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    [IBV_QPS_SQD] = {ANY_RESET,
                     ANY_ERR, [IBV_QPS_RTS] = {ST, CUR | IBV_QP_QKEY},
                     [IBV_QPS_SQD] = {ST, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    [IBV_QPS_SQE] = {ANY_RESET,
                     ANY_ERR, [IBV_QPS_RTS] = {ST, CUR | IBV_QP_QKEY}},
    [IBV_QPS_ERR] = {ANY_RESET, ANY_ERR},
};

int sroce_qp_move_check(enum ibv_qp_type type, enum ibv_qp_state from,
                        enum ibv_qp_state to, int attr_mask)
{
    const qp_move_t *move;

    if (((unsigned)from >= NUM_STATES) || ((unsigned)to >= NUM_STATES)) {
        return EINVAL;
    }
    move = (type == IBV_QPT_RC) ? &rc_moves[from][to] : &ud_moves[from][to];
    /* IBV_QP_STATE is optional if the state does not change. */
    if (from == to) {
        attr_mask |= IBV_QP_STATE;
    }
    if ((move->need == 0) || ((attr_mask & move->need) != move->need) ||
        (attr_mask & ~(move->need | move->may))) {
        return EINVAL;
    }
    return 0;
}
