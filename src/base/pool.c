#include "config.h"
#include "base/pool.h"

#include <errno.h>
#include <stdlib.h>

struct mrail_pool_chunk {
    mrail_pool_chunk_t *next;
    char *base;
    size_t length;
    void *priv;
};

void mrail_pool_init(mrail_pool_t *pool, const mrail_pool_params_t *params)
{
    pool->params = *params;
    if (pool->params.align == 0) {
        pool->params.align = 64;
    }
    pool->params.elem_size =
        MRAIL_DIV_ROUND_UP(MRAIL_MAX(params->elem_size, sizeof(void *)),
                           pool->params.align) *
        pool->params.align;
    pool->free_list = NULL;
    pool->chunks = NULL;
    pool->num_elems = 0;
    pool->num_used = 0;
}

void mrail_pool_cleanup(mrail_pool_t *pool)
{
    mrail_pool_chunk_t *chunk;

    while ((chunk = pool->chunks) != NULL) {
        pool->chunks = chunk->next;
        if (pool->params.chunk_cleanup != NULL) {
            pool->params.chunk_cleanup(pool->params.arg, chunk->priv);
        }
        free(chunk->base);
        free(chunk);
    }
    pool->free_list = NULL;
    pool->num_elems = 0;
}

static int mrail_pool_chunk_create(mrail_pool_t *pool, unsigned count,
                                   mrail_pool_chunk_t **chunk_p)
{
    const mrail_pool_params_t *params = &pool->params;
    mrail_pool_chunk_t *chunk = calloc(1, sizeof(*chunk));
    void *base;
    int ret;

    if (chunk == NULL) {
        return -ENOMEM;
    }
    chunk->length = (size_t)count * params->elem_size;
    if (posix_memalign(&base, MRAIL_MAX(params->align, sizeof(void *)),
                       chunk->length) != 0) {
        ret = -ENOMEM;
        goto err_free_chunk;
    }
    chunk->base = base;
    if (params->chunk_init != NULL) {
        ret =
            params->chunk_init(params->arg, base, chunk->length, &chunk->priv);
        if (ret != 0) {
            goto err_free_base;
        }
    }
    *chunk_p = chunk;
    return 0;

err_free_base:
    free(base);
err_free_chunk:
    free(chunk);
    return ret;
}

int mrail_pool_grow(mrail_pool_t *pool)
{
    const mrail_pool_params_t *params = &pool->params;
    unsigned count = params->elems_per_chunk;
    mrail_pool_chunk_t *chunk;
    int ret;

    if (params->max_elems != 0) {
        count = MRAIL_MIN(count, params->max_elems - pool->num_elems);
        if (count == 0) {
            return -ENOBUFS;
        }
    }
    ret = mrail_pool_chunk_create(pool, count, &chunk);
    if (ret != 0) {
        return ret;
    }
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->num_elems += count;
    for (unsigned i = count; i-- > 0;) {
        mrail_pool_elem_t *elem =
            (mrail_pool_elem_t *)(chunk->base + i * params->elem_size);

        elem->next = pool->free_list;
        pool->free_list = elem;
    }
    return 0;
}

size_t mrail_pool_bytes(const mrail_pool_t *pool)
{
    return (size_t)pool->num_elems * pool->params.elem_size;
}
