#include "config.h"
#include "softgpu/copy.h"

CUresult sgpu_place_find(sgpu_ctx_t *ctx, uint64_t address, uint64_t span,
                         sgpu_place_kind_t kind, int is_write,
                         sgpu_place_t *place_p)
{
    sgpu_mem_t *mem = (kind == SGPU_PLACE_KERNEL) ? sgpu_mem_find_any(address)
                                                  : sgpu_mem_find(address);
    sgpu_place_t place = {.view = (char *)(uintptr_t)address, .mem = mem};

    if ((address == 0) || (address + span < address)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (mem == NULL) {
        if ((kind == SGPU_PLACE_DEVICE) || (kind == SGPU_PLACE_KERNEL) ||
            sgpu_mem_overlaps(address, span)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        *place_p = place;
        return CUDA_SUCCESS;
    }
    if ((address - mem->base > mem->size) ||
        (span > mem->size - (address - mem->base))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sgpu_mem_is_host(mem)) {
        uint32_t access = is_write ? mem->writers : mem->readers;

        if (((kind == SGPU_PLACE_HOST) && (mem->kind != SGPU_MEM_MANAGED)) ||
            !(access & (1u << ctx->dev->ordinal))) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        place.gpu = mem->phys->gpu;
    }
    place.view = mem->view + (address - mem->base);
    sgpu_mem_get(mem);
    *place_p = place;
    return CUDA_SUCCESS;
}

int sgpu_place_is_reachable(const sgpu_ctx_t *ctx, const sgpu_place_t *place)
{
    return (place->gpu == NULL) || (place->gpu == ctx->dev->gpu) ||
           (place->mem->kind == SGPU_MEM_MAPPED) ||
           place->mem->peer_is_enabled ||
           (ctx->peers & (1u << place->mem->dev->ordinal));
}

void sgpu_place_put(sgpu_place_t *place)
{
    if (place->mem != NULL) {
        sgpu_mem_put(place->mem);
    }
}
