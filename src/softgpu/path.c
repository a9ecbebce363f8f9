#include "config.h"
#include "softgpu/path.h"

#include "base/gcra.h"

static void path_add(sgpu_path_t *path, sgpu_link_t *link)
{
    path->links[path->num++] = link;
}

sgpu_path_t sgpu_path_find(sgpu_link_kind_t kind, sgpu_gpu_t *from,
                           sgpu_gpu_t *to, int direct)
{
    sgpu_path_t path = {.num = 0};

    if (from == to) {
        return path; /* within a GPU or within host memory */
    }
    if ((from != NULL) && (to != NULL) && direct && (kind == SGPU_LINK_MESH)) {
        path_add(&path, &from->mesh[to->index]);
        return path;
    }
    if ((from != NULL) && (to != NULL) && direct &&
        (kind == SGPU_LINK_SWITCH)) {
        path_add(&path, &from->up);
        path_add(&path, &to->down);
        return path;
    }
    if (from != NULL) {
        path_add(&path, &from->pcie_out);
    }
    if (to != NULL) {
        path_add(&path, &to->pcie_in);
    }
    return path;
}

int sgpu_path_is_cut(const sgpu_path_t *path)
{
    for (unsigned i = 0; i < path->num; ++i) {
        if (path->links[i]->is_down) {
            return 1;
        }
    }
    return 0;
}

int sgpu_path_joins(sgpu_link_kind_t kind, sgpu_gpu_t *a, sgpu_gpu_t *b)
{
    sgpu_path_t path = sgpu_path_find(kind, a, b, 1);

    return (kind != SGPU_LINK_NONE) && !sgpu_path_is_cut(&path) &&
           !sgpu_gpu_has(a, SGPU_FAULT_NO_PEER) &&
           !sgpu_gpu_has(b, SGPU_FAULT_NO_PEER);
}

uint32_t sgpu_path_chunk(const sgpu_path_t *path, uint64_t left)
{
    uint64_t chunk = SGPU_PATH_CHUNK_BYTES;

    for (unsigned i = 0; i < path->num; ++i) {
        uint64_t rate_bytes_per_s = path->links[i]->rate_bytes_per_s;

        if (rate_bytes_per_s != 0) {
            chunk = MRAIL_MIN(chunk, rate_bytes_per_s * SGPU_PATH_CHUNK_NS /
                                         MRAIL_NS_PER_SEC);
        }
    }
    chunk = MRAIL_MAX(chunk, SGPU_PATH_MIN_BYTES);
    return (uint32_t)MRAIL_MIN(chunk, left);
}

mrail_ns_t sgpu_path_reserve(const sgpu_path_t *path, uint32_t bytes,
                             mrail_ns_t ready_ns, mrail_ns_t now_ns)
{
    mrail_ns_t floor_ns = MRAIL_MAX(ready_ns, now_ns - SGPU_PATH_LATE_NS);
    mrail_ns_t end_ns = 0;

    for (unsigned i = 0; i < path->num; ++i) {
        sgpu_link_t *link = path->links[i];
        uint64_t rate_bytes_per_s = link->rate_bytes_per_s, cost;
        mrail_ns_t from_ns;

        atomic_fetch_add_explicit(&link->bytes, bytes, memory_order_relaxed);
        if (rate_bytes_per_s == 0) {
            continue;
        }
        cost = mrail_gcra_cost(rate_bytes_per_s, bytes);
        from_ns = mrail_gcra_advance(&link->tat, cost, floor_ns);
        end_ns = MRAIL_MAX(end_ns, from_ns + cost / MRAIL_GCRA_PER_NS);
    }
    return end_ns;
}
