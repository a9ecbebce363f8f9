/*
 * Memory for receive buffers. A lane needs only a few buffers at a time, and a
 * process may have thousands of lanes. NICs are slow to register memory, and
 * have limited tables for it, so the memory is registered in blocks. The block
 * size grows with the number of buffers, so at most an eighth of the memory is
 * unused.
 */
#include "config.h"
#include "rail/verbs/rail.h"

#include <errno.h>
#include <stdlib.h>

/* Size of the largest block. On a huge page, it causes few page faults, and
 * occupies few entries in the NIC's tables. */
#define RX_BLOCK MRAIL_HUGE_PAGE

static mrail_rx_block_t *mrail_rx_block_create(mrail_rail_t *rail, size_t size)
{
    mrail_rx_block_t *block = calloc(1, sizeof(*block));

    if (block == NULL) {
        return NULL;
    }
    block->mr =
        mrail_rail_alloc(rail, size, (size == RX_BLOCK) ? size : MRAIL_PAGE,
                         MRAIL_ACCESS_OWN, &block->base);
    if (block->mr == NULL) {
        free(block);
        return NULL;
    }
    block->size = size;
    return block;
}

static mrail_rx_block_t *mrail_rx_block_add(mrail_rail_t *rail, size_t stride,
                                            unsigned count)
{
    size_t least = count * stride;
    size_t most =
        MRAIL_MIN((rail->srq_depth - rail->srq_used) * stride, RX_BLOCK);
    size_t size = MRAIL_MIN(rail->rx_bytes / 8, most);
    mrail_rx_block_t *block = NULL;

    if (least < size) {
        block = mrail_rx_block_create(rail, size);
    }
    if (block == NULL) { /* or a larger block exceeds the locked-memory limit */
        block = mrail_rx_block_create(rail, least);
    }
    if (block == NULL) {
        errno = -mrail_rail_explain(rail->attr.device, least, errno);
        return NULL;
    }
    block->next = rail->blocks;
    rail->blocks = block;
    rail->rx_bytes += block->size;
    return block;
}

void *mrail_rail_rx_buffers(mrail_rail_t *rail, size_t stride, unsigned count,
                            unsigned *count_p, uint32_t *lkey_p)
{
    mrail_rx_block_t *block = rail->blocks;
    char *base;

    if ((block == NULL) || (block->size - block->used < stride)) {
        block = mrail_rx_block_add(rail, stride, count);
        if (block == NULL) {
            return NULL;
        }
    }
    base = (char *)block->base + block->used;
    *count_p = (unsigned)MRAIL_MIN((block->size - block->used) / stride,
                                   (size_t)count);
    *lkey_p = block->mr->lkey;
    block->used += *count_p * stride;
    return base;
}

void mrail_rail_free_buffers(mrail_rail_t *rail)
{
    mrail_rx_block_t *block;

    while ((block = rail->blocks) != NULL) {
        rail->blocks = block->next;
        ibv_dereg_mr(block->mr);
        free(block->base);
        free(block);
    }
}
