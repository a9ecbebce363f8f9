/* Receive rings and shared receive queues. */
#include "config.h"

#include "softroce/core/core.h"

#include <errno.h>
#include <stdlib.h>

int sroce_rq_init(sroce_rq_t *rq, uint32_t max_wr, uint32_t max_sge)
{
    if ((max_wr > SROCE_MAX_WR) || (max_sge > SROCE_MAX_SGE)) {
        return EINVAL;
    }
    memset(rq, 0, sizeof(*rq));
    rq->max_wr = max_wr;
    rq->max_sge = max_sge;
    for (rq->size = 1; rq->size < max_wr; rq->size <<= 1) {
    }
    rq->stride =
        (uint32_t)(sizeof(sroce_rwqe_t) + max_sge * sizeof(struct ibv_sge));
    rq->ring = calloc(rq->size, rq->stride);
    return (rq->ring == NULL) ? ENOMEM : 0;
}

void sroce_rq_cleanup(sroce_rq_t *rq)
{
    free(rq->ring);
    rq->ring = NULL;
}

static int rq_post_one(sroce_rq_t *rq, const struct ibv_recv_wr *wr)
{
    uint64_t length = 0;
    sroce_rwqe_t *wqe;

    if ((wr->num_sge < 0) || ((uint32_t)wr->num_sge > rq->max_sge)) {
        return EINVAL;
    }
    if (sroce_rq_count(rq) >= rq->max_wr) {
        return ENOMEM;
    }
    wqe = (sroce_rwqe_t *)(rq->ring +
                           (size_t)(rq->head & (rq->size - 1)) * rq->stride);
    for (int i = 0; i < wr->num_sge; ++i) {
        wqe->sge[i] = wr->sg_list[i];
        length += wr->sg_list[i].length;
    }
    wqe->wr_id = wr->wr_id;
    wqe->num_sge = (uint32_t)wr->num_sge;
    wqe->length = (uint32_t)MRAIL_MIN(length, UINT32_MAX);
    ++rq->head;
    return 0;
}

int sroce_rq_post(sroce_rq_t *rq, struct ibv_recv_wr *wr,
                  struct ibv_recv_wr **bad_wr)
{
    for (; wr != NULL; wr = wr->next) {
        int ret = rq_post_one(rq, wr);

        if (MRAIL_UNLIKELY(ret != 0)) {
            *bad_wr = wr;
            return ret;
        }
    }
    return 0;
}

int sroce_srq_create(sroce_pd_t *pd, struct ibv_srq_attr *attr, void *user,
                     sroce_srq_t **srq_p)
{
    sroce_srq_t *srq;
    int ret;

    if ((attr->max_wr == 0) || (attr->max_wr > SROCE_MAX_WR)) {
        return EINVAL;
    }
    srq = calloc(1, sizeof(*srq));
    if (srq == NULL) {
        return ENOMEM;
    }
    attr->max_sge = MRAIL_MAX(attr->max_sge, 1);
    ret = sroce_rq_init(&srq->rq, attr->max_wr, attr->max_sge);
    if (ret != 0) {
        free(srq);
        return ret;
    }
    srq->dev = pd->dev;
    srq->pd = pd;
    srq->user = user;
    ++pd->users;
    *srq_p = srq;
    return 0;
}

int sroce_srq_destroy(sroce_srq_t *srq)
{
    if (srq->users != 0) {
        return EBUSY;
    }
    --srq->pd->users;
    sroce_rq_cleanup(&srq->rq);
    free(srq);
    return 0;
}

static int srq_resize(sroce_srq_t *srq, uint32_t max_wr)
{
    sroce_rq_t old = srq->rq, new;
    int ret;

    if ((max_wr == 0) || (max_wr < sroce_rq_count(&old))) {
        return EINVAL;
    }
    ret = sroce_rq_init(&new, max_wr, old.max_sge);
    if (ret != 0) {
        return ret;
    }
    while (old.tail != old.head) {
        memcpy(new.ring + (size_t) new.head++ *new.stride,
               old.ring + (size_t)(old.tail++ & (old.size - 1)) * old.stride,
               old.stride);
    }
    sroce_rq_cleanup(&old);
    srq->rq = new;
    return 0;
}

int sroce_srq_modify(sroce_srq_t *srq, const struct ibv_srq_attr *attr,
                     int attr_mask)
{
    int ret;

    if (attr_mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) {
        return EINVAL;
    }
    if ((attr_mask & IBV_SRQ_LIMIT) &&
        (attr->srq_limit >
         ((attr_mask & IBV_SRQ_MAX_WR) ? attr->max_wr : srq->rq.max_wr))) {
        return EINVAL;
    }
    if (attr_mask & IBV_SRQ_MAX_WR) {
        ret = srq_resize(srq, attr->max_wr);
        if (ret != 0) {
            return ret;
        }
    }
    if (attr_mask & IBV_SRQ_LIMIT) {
        srq->limit = attr->srq_limit;
    }
    return 0;
}

void sroce_srq_query(const sroce_srq_t *srq, struct ibv_srq_attr *attr)
{
    attr->max_wr = srq->rq.max_wr;
    attr->max_sge = srq->rq.max_sge;
    attr->srq_limit = srq->limit;
}

int sroce_srq_post_recv(sroce_srq_t *srq, struct ibv_recv_wr *wr,
                        struct ibv_recv_wr **bad_wr)
{
    return sroce_rq_post(&srq->rq, wr, bad_wr);
}
