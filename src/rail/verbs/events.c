#include "config.h"
#include "rail/verbs/rail.h"

static int mrail_arm(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
    struct ibv_cq *source;
    void *context;

    while (ibv_get_cq_event(channel, &source, &context) == 0) {
        ibv_ack_cq_events(source, 1);
    }
    return -ibv_req_notify_cq(cq, 0);
}

int mrail_rail_arm(mrail_rail_t *rail)
{
    return mrail_arm(rail->channel, rail->cq);
}

int mrail_rail_arm_ud(mrail_rail_t *rail)
{
    return mrail_arm(rail->ud_channel, rail->ud_cq);
}

static mrail_event_kind_t mrail_event_kind(const mrail_rail_t *rail,
                                           const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR: /* completions are lost */
    case IBV_EVENT_SRQ_ERR:
        return MRAIL_EVENT_RAIL;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
        return ((unsigned)event->element.port_num == rail->attr.port)
                   ? MRAIL_EVENT_PORT
                   : MRAIL_EVENT_OTHER;
    case IBV_EVENT_GID_CHANGE:
        return ((unsigned)event->element.port_num == rail->attr.port)
                   ? MRAIL_EVENT_GID
                   : MRAIL_EVENT_OTHER;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        return MRAIL_EVENT_QP;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return MRAIL_EVENT_LAST_WQE;
    default:
        return MRAIL_EVENT_OTHER;
    }
}

int mrail_rail_next_event(mrail_rail_t *rail, mrail_event_t *event)
{
    struct ibv_async_event async;

    if (ibv_get_async_event(rail->ctx, &async) != 0) {
        return 0;
    }
    event->kind = mrail_event_kind(rail, &async);
    event->text = ibv_event_type_str(async.event_type);
    event->is_up = (async.event_type == IBV_EVENT_PORT_ACTIVE);
    event->qp_serial = ((event->kind == MRAIL_EVENT_QP) ||
                        (event->kind == MRAIL_EVENT_LAST_WQE))
                           ? (uintptr_t)async.element.qp->qp_context
                           : 0;
    ibv_ack_async_event(&async);
    return 1;
}
