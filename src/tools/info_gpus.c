/* mrail info shows the GPUs, and how rails access their memory. */
#include "config.h"
#include "tools/info.h"

#include "cuda/device.h"
#include "cuda/place.h"

#include <stdio.h>
#include <string.h>

#define PEERS_TEXT_MAX 128

typedef struct gpu {
    const mrail_cuda_device_t *device;
    mrail_cuda_access_t access;
    const char *reason; /* reason why dma-buf is not used, or "" */
    char rails[256];    /* the nearest rails, "mlx5_0:1, mlx5_1:1", or "" if
                         * unknown */
} gpu_t;

static const char *access_name(mrail_cuda_access_t access)
{
    static const char *const names[] = {[MRAIL_CUDA_ACCESS_NONE] = "none",
                                        [MRAIL_CUDA_ACCESS_DMABUF] = "dma-buf",
                                        [MRAIL_CUDA_ACCESS_PEERMEM] =
                                            "nvidia-peermem"};

    return names[access];
}

static unsigned nearness(const mrail_place_t *gpu,
                         const mrail_rail_attr_t *rail)
{
    mrail_place_t place;

    mrail_place_rail(rail->device, &place);
    return mrail_place_nearness(gpu, &place);
}

static void find_rails(gpu_t *gpu, const mrail_rail_attr_t *rails,
                       unsigned count)
{
    mrail_place_t place;
    unsigned best = 0;
    size_t used = 0;

    mrail_place_gpu(gpu->device->pci, &place);
    for (unsigned i = 0; i < count; ++i) {
        if (rails[i].selected) {
            best = MRAIL_MAX(best, nearness(&place, &rails[i]));
        }
    }
    for (unsigned i = 0; (best > 0) && (i < count); ++i) {
        if (rails[i].selected && (nearness(&place, &rails[i]) == best) &&
            (used < sizeof(gpu->rails))) {
            used += (size_t)snprintf(
                gpu->rails + used, sizeof(gpu->rails) - used, "%s%s:%u",
                (used > 0) ? ", " : "", rails[i].device, rails[i].port);
        }
    }
}

/* Writes the ordinals of the peers, "1, 2, 3". */
static void peers_text(const gpu_t *gpu, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; (i < MRAIL_CUDA_MAX_DEVICES) && (used < size); ++i) {
        if (gpu->device->peers & (UINT32_C(1) << i)) {
            used += (size_t)snprintf(text + used, size - used, "%s%d",
                                     (used > 0) ? ", " : "", i);
        }
    }
}

static void print_gpu_json(mrail_json_t *json, const gpu_t *gpu)
{
    char peers[PEERS_TEXT_MAX];

    peers_text(gpu, peers, sizeof(peers));
    mrail_json_newline(json);
    mrail_json_object(json, NULL);
    mrail_json_int(json, "ordinal", gpu->device->ordinal);
    mrail_json_string(json, "name", gpu->device->name);
    mrail_json_string(json, "pci", gpu->device->pci);
    mrail_json_uint(json, "memory", gpu->device->memory);
    mrail_json_string(json, "peers", peers);
    mrail_json_string(json, "registered_by", access_name(gpu->access));
    mrail_json_string(json, "reason", gpu->reason);
    mrail_json_string(json, "nearest_rails", gpu->rails);
    mrail_json_object_end(json);
}

static void print_gpu(const gpu_t *gpu, int is_first)
{
    char peers[PEERS_TEXT_MAX];

    peers_text(gpu, peers, sizeof(peers));
    if (is_first) {
        printf("%-4s %-22s %-13s %-15s %-14s %s\n", "GPU", "name",
               "PCI address", "registered by", "peers", "nearest rails");
    }
    printf("%-4d %-22s %-13s %-15s %-14s %s\n", gpu->device->ordinal,
           gpu->device->name, gpu->device->pci, access_name(gpu->access),
           (peers[0] != '\0') ? peers : "-",
           (gpu->rails[0] != '\0') ? gpu->rails : "unknown");
    if (gpu->reason[0] != '\0') {
        printf("     dma-buf is not used: %s\n", gpu->reason);
    }
}

void mrail_info_gpus(mrail_json_t *json, const mrail_rail_attr_t *rails,
                     unsigned count)
{
    mrail_cuda_device_t devices[MRAIL_CUDA_MAX_DEVICES];
    const mrail_cuda_t *cuda;
    char reason[128] = "";
    int has_dmabuf = 1;
    unsigned num = 0;

    if (mrail_cuda_open(&cuda, reason, sizeof(reason)) == 0) {
        num = mrail_cuda_devices(cuda, devices);
    }
    for (unsigned i = 0; i < count; ++i) {
        has_dmabuf &= !rails[i].selected || rails[i].has_dmabuf;
    }
    if (json != NULL) {
        mrail_json_array(json, "gpus");
    } else if (num == 0) {
        printf("no GPU: %s\n", reason);
    }
    for (unsigned i = 0; i < num; ++i) {
        gpu_t gpu = {.device = &devices[i]};

        gpu.access = mrail_cuda_access(&devices[i], has_dmabuf, &gpu.reason);
        find_rails(&gpu, rails, count);
        if (json != NULL) {
            print_gpu_json(json, &gpu);
        } else {
            print_gpu(&gpu, i == 0);
        }
    }
    if (json != NULL) {
        mrail_json_array_end(json);
        mrail_json_string(json, "gpu_reason", reason);
    }
}
