/*
 * Implements completion queues, which are rings of ibv_wc that the owner polls.
 * A full ring drops new completions and raises IBV_EVENT_CQ_ERR once.
 */
#include "config.h"

#include "softroce/core/core.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t cq_size(unsigned cqe)
{
    uint32_t size = 1;

    while (size < cqe) {
        size <<= 1;
    }
    return size;
}

int sroce_cq_create(sroce_dev_t *dev, unsigned cqe, void *user,
                    sroce_cq_t **cq_p)
{
    sroce_cq_t *cq;

    if ((cqe == 0) || (cqe > SROCE_MAX_CQE)) {
        return EINVAL;
    }
    cq = calloc(1, sizeof(*cq));
    if (cq == NULL) {
        return ENOMEM;
    }
    cq->dev = dev;
    cq->user = user;
    cq->size = cq_size(cqe);
    cq->ring = calloc(cq->size, sizeof(*cq->ring));
    if (cq->ring == NULL) {
        free(cq);
        return ENOMEM;
    }
    *cq_p = cq;
    return 0;
}

int sroce_cq_destroy(sroce_cq_t *cq)
{
    if (cq->users != 0) {
        return EBUSY;
    }
    free(cq->ring);
    free(cq);
    return 0;
}

int sroce_cq_resize(sroce_cq_t *cq, unsigned cqe)
{
    uint32_t pending = cq->head - cq->tail, size;
    struct ibv_wc *ring;

    if ((cqe == 0) || (cqe > SROCE_MAX_CQE) || (cqe < pending)) {
        return EINVAL;
    }
    size = cq_size(cqe);
    ring = calloc(size, sizeof(*ring));
    if (ring == NULL) {
        return ENOMEM;
    }
    for (uint32_t i = 0; i < pending; ++i) {
        ring[i] = cq->ring[(cq->tail + i) & (cq->size - 1)];
    }
    free(cq->ring);
    cq->ring = ring;
    cq->size = size;
    cq->tail = 0;
    cq->head = pending;
    return 0;
}

int sroce_cq_poll(sroce_cq_t *cq, int n, struct ibv_wc *wc)
{
    int i;

    for (i = 0; (i < n) && (cq->tail != cq->head); ++i) {
        wc[i] = cq->ring[cq->tail++ & (cq->size - 1)];
    }
    return i;
}

void sroce_cq_arm(sroce_cq_t *cq, int solicited_only)
{
    if (!solicited_only) {
        cq->armed = SROCE_ARM_ANY;
    } else if (cq->armed == SROCE_ARM_NONE) {
        cq->armed = SROCE_ARM_SOLICITED;
    }
}

unsigned sroce_cq_depth(const sroce_cq_t *cq)
{
    return cq->size;
}

unsigned sroce_cq_pending(const sroce_cq_t *cq)
{
    return cq->head - cq->tail;
}

void sroce_cq_push(sroce_cq_t *cq, const struct ibv_wc *wc, int solicited)
{
    const sroce_dev_ops_t *ops = &cq->dev->params.ops;

    if (MRAIL_UNLIKELY(cq->head - cq->tail == cq->size)) {
        if (!cq->overrun) {
            cq->overrun = 1;
            ops->async_event(ops->arg, IBV_EVENT_CQ_ERR, cq->user);
        }
        return;
    }
    sroce_delayed_write_place_all(cq->dev);
    cq->ring[cq->head++ & (cq->size - 1)] = *wc;
    if ((cq->armed == SROCE_ARM_ANY) ||
        ((cq->armed == SROCE_ARM_SOLICITED) &&
         (solicited || (wc->status != IBV_WC_SUCCESS)))) {
        cq->armed = SROCE_ARM_NONE;
        ops->cq_event(ops->arg, cq->user);
    }
}

void sroce_cq_invalidate_qp(sroce_cq_t *cq, uint32_t qpn)
{
    uint32_t to = cq->tail;

    for (uint32_t i = cq->tail; i != cq->head; ++i) {
        const struct ibv_wc *wc = &cq->ring[i & (cq->size - 1)];

        if (wc->qp_num != qpn) {
            cq->ring[to++ & (cq->size - 1)] = *wc;
        }
    }
    cq->head = to;
}
