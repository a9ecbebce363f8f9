/*
 * Protection domains, memory regions and SGE lists.
 *
 * Invariant: the core accesses memory for a QP only at addresses that
 * sroce_mr_find() returned during the same call.
 */
#include "config.h"

#include "softroce/core/core.h"

#include <errno.h>
#include <stdlib.h>

#define MR_GROW 64
#define MR_MAX (1u << 24)
#define REMOTE_WRITE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

int sroce_pd_create(sroce_dev_t *dev, sroce_pd_t **pd_p)
{
    sroce_pd_t *pd = calloc(1, sizeof(*pd));

    if (pd == NULL) {
        return ENOMEM;
    }
    pd->dev = dev;
    *pd_p = pd;
    return 0;
}

int sroce_pd_destroy(sroce_pd_t *pd)
{
    if (pd->users != 0) {
        return EBUSY;
    }
    free(pd);
    return 0;
}

static void mr_slot_free(sroce_dev_t *dev, uint32_t idx)
{
    sroce_mr_slot_t *slot = &dev->mrs[idx];

    slot->mr = NULL;
    slot->next_free = SROCE_MR_NONE;
    ++slot->generation;
    if (dev->mr_free_tail == SROCE_MR_NONE) {
        dev->mr_free_head = idx;
    } else {
        dev->mrs[dev->mr_free_tail].next_free = idx;
    }
    dev->mr_free_tail = idx;
}

/* Returns the first generation of a slot, which is secret. A process that holds
 * one key can derive the mask, but not the generations of other slots. */
static uint8_t mr_first_generation(const sroce_dev_t *dev, uint32_t idx)
{
    uint64_t secret = dev->params.key_secret;

    return (secret == 0) ? 0 : (uint8_t)mrail_mix64(secret + idx);
}

static int mr_grow(sroce_dev_t *dev)
{
    uint32_t num = dev->num_mrs + MRAIL_MAX(MR_GROW, dev->num_mrs / 2);
    sroce_mr_slot_t *mrs;

    if (num > MR_MAX) {
        return ENOMEM;
    }
    mrs = realloc(dev->mrs, num * sizeof(*mrs));
    if (mrs == NULL) {
        return ENOMEM;
    }
    dev->mrs = mrs;
    while (dev->num_mrs < num) {
        mrs[dev->num_mrs].generation = mr_first_generation(dev, dev->num_mrs);
        mr_slot_free(dev, dev->num_mrs++);
    }
    return 0;
}

int sroce_mr_create(sroce_pd_t *pd, void *addr, size_t length, uint64_t iova,
                    int access, sroce_mr_t **mr_p)
{
    sroce_dev_t *dev = pd->dev;
    sroce_mr_t *mr;
    uint32_t idx;

    if (((access & REMOTE_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE)) ||
        (iova + length < iova) || ((uintptr_t)addr + length < length)) {
        return EINVAL;
    }
    mr = calloc(1, sizeof(*mr));
    if (mr == NULL) {
        return ENOMEM;
    }
    if ((dev->mr_free_head == SROCE_MR_NONE) && (mr_grow(dev) != 0)) {
        free(mr);
        return ENOMEM;
    }
    idx = dev->mr_free_head;
    dev->mr_free_head = dev->mrs[idx].next_free;
    if (dev->mr_free_head == SROCE_MR_NONE) {
        dev->mr_free_tail = SROCE_MR_NONE;
    }
    mr->pd = pd;
    mr->addr = addr;
    mr->iova = iova;
    mr->length = length;
    mr->access = access;
    mr->key = ((idx << 8) | dev->mrs[idx].generation) ^ dev->key_mask;
    dev->mrs[idx].mr = mr;
    ++pd->users;
    *mr_p = mr;
    return 0;
}

int sroce_mr_destroy(sroce_mr_t *mr)
{
    sroce_dev_t *dev = mr->pd->dev;

    sroce_delayed_write_place_all(dev);
    mr_slot_free(dev, (mr->key ^ dev->key_mask) >> 8);
    --mr->pd->users;
    free(mr);
    return 0;
}

uint32_t sroce_mr_key(const sroce_mr_t *mr)
{
    return mr->key;
}

int sroce_sg_iov(const sroce_qp_t *qp, const struct ibv_sge *sge,
                 uint32_t num_sge, sroce_sgcur_t *cur, uint32_t length,
                 struct iovec *iov, unsigned max)
{
    sroce_sgcur_t c = *cur;
    unsigned n = 0;

    while (length > 0) {
        uint32_t part;
        uint8_t *p;

        if (c.idx >= num_sge) {
            return -EMSGSIZE;
        }
        part = MRAIL_MIN(length, sge[c.idx].length - c.off);
        if (part > 0) {
            p = sroce_mr_find(qp->dev, qp->pd, sge[c.idx].lkey,
                              sge[c.idx].addr + c.off, part, 0);
            if (p == NULL) {
                return -EACCES;
            }
            if (n == max) {
                return -ENOBUFS;
            }
            iov[n].iov_base = p;
            iov[n++].iov_len = part;
        }
        length -= part;
        c.off += part;
        if (c.off == sge[c.idx].length) {
            ++c.idx;
            c.off = 0;
        }
    }
    *cur = c;
    return (int)n;
}

int sroce_sg_scatter(const sroce_pd_t *pd, const struct ibv_sge *sge,
                     uint32_t num_sge, sroce_sgcur_t *cur, const void *src,
                     uint32_t length)
{
    const uint8_t *from = src;

    while (length > 0) {
        uint32_t part;
        uint8_t *p;

        if (cur->idx >= num_sge) {
            return -EMSGSIZE;
        }
        part = MRAIL_MIN(length, sge[cur->idx].length - cur->off);
        if (part > 0) {
            p = sroce_mr_find(pd->dev, pd, sge[cur->idx].lkey,
                              sge[cur->idx].addr + cur->off, part,
                              IBV_ACCESS_LOCAL_WRITE);
            if (p == NULL) {
                return -EACCES;
            }
            memcpy(p, from, part);
        }
        from += part;
        length -= part;
        cur->off += part;
        if (cur->off == sge[cur->idx].length) {
            ++cur->idx;
            cur->off = 0;
        }
    }
    return 0;
}

void sroce_sg_seek(const struct ibv_sge *sge, uint32_t num_sge,
                   sroce_sgcur_t *cur, uint32_t off)
{
    cur->idx = 0;
    while ((cur->idx < num_sge) && (off >= sge[cur->idx].length)) {
        off -= sge[cur->idx++].length;
    }
    cur->off = (cur->idx < num_sge) ? off : 0;
}
