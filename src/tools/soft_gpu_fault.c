#include "config.h"
#include "soft_gpu_fault.h"
#include "base/util.h"

#include <stdio.h>

/* The bit of each setting in the faults of a GPU. */
static const uint32_t fault_bits[SROCE_FAULT_NUM] = {
    [SROCE_FAULT_GPU_IPC_ERROR] = SGPU_FAULT_IPC_ERROR,
    [SROCE_FAULT_GPU_NO_MEMORY] = SGPU_FAULT_NO_MEMORY,
    [SROCE_FAULT_GPU_NO_DMABUF] = SGPU_FAULT_NO_DMABUF,
    [SROCE_FAULT_GPU_NO_PEER] = SGPU_FAULT_NO_PEER,
    [SROCE_FAULT_GPU_NO_DEVICE] = SGPU_FAULT_NO_DEVICE};

/* Finds both directions of the target's link. If the target has no link,
 * returns two entries that no copy uses. */
static void fault_links(sgpu_session_t *gpus, soft_gpu_target_t target,
                        sgpu_link_t *links[2])
{
    sgpu_gpu_t *gpu = sgpu_session_gpu(gpus, target.node, target.gpu);
    sgpu_gpu_t *peer = sgpu_session_gpu(gpus, target.node, target.peer);

    if (gpu == peer) {
        links[0] = &gpu->up;
        links[1] = &gpu->down;
    } else {
        links[0] = &gpu->mesh[target.peer];
        links[1] = &peer->mesh[target.gpu];
    }
}

void soft_gpu_fault_set(sgpu_session_t *gpus, soft_gpu_target_t target,
                        sroce_fault_setting_t setting, uint64_t value)
{
    sgpu_gpu_t *gpu = sgpu_session_gpu(gpus, target.node, target.gpu);
    sgpu_link_t *links[2];

    fault_links(gpus, target, links);
    switch (setting) {
    case SROCE_FAULT_GPU_LINK_DOWN:
        links[0]->is_down = links[1]->is_down = (uint32_t)value;
        break;
    case SROCE_FAULT_GPU_LINK_RATE:
        links[0]->rate_bytes_per_s = links[1]->rate_bytes_per_s = value;
        break;
    case SROCE_FAULT_GPU_COPY_ERROR:
        gpu->copy_errors = (uint32_t)value;
        break;
    default:
        if (value != 0) {
            atomic_fetch_or(&gpu->faults, fault_bits[setting]);
        } else {
            atomic_fetch_and(&gpu->faults, ~fault_bits[setting]);
        }
        break;
    }
}

uint64_t soft_gpu_fault_get(sgpu_session_t *gpus, soft_gpu_target_t target,
                            sroce_fault_setting_t setting, int healthy)
{
    sgpu_gpu_t *gpu = sgpu_session_gpu(gpus, target.node, target.gpu);
    sgpu_link_t *links[2];

    fault_links(gpus, target, links);
    switch (setting) {
    case SROCE_FAULT_GPU_LINK_DOWN:
        return healthy ? 0 : links[0]->is_down;
    case SROCE_FAULT_GPU_LINK_RATE:
        return healthy ? gpus->first_link_rate_bytes_per_s
                       : links[0]->rate_bytes_per_s;
    default:
        return ((healthy ? gpus->first_faults : gpu->faults) &
                fault_bits[setting]) != 0;
    }
}

uint64_t soft_gpu_fault_bytes(sgpu_session_t *gpus, soft_gpu_target_t target)
{
    sgpu_link_t *links[2];

    fault_links(gpus, target, links);
    return links[0]->bytes + links[1]->bytes;
}

void soft_gpu_fault_do(sgpu_session_t *gpus, soft_gpu_target_t target,
                       const sroce_fault_action_t *fault)
{
    uint32_t settings =
        (target.gpu == target.peer) ? UINT32_MAX : SROCE_FAULT_GPU_LINK_STATES;
    int is_clear = sroce_fault_is_clear(fault);

    settings &= is_clear ? SROCE_FAULT_GPU_STATES : fault->settings;
    for (unsigned s = 0; s < SROCE_FAULT_NUM; ++s) {
        sroce_fault_setting_t setting = (sroce_fault_setting_t)s;

        if (settings & SROCE_FAULT_BIT(s)) {
            soft_gpu_fault_set(
                gpus, target, setting,
                is_clear ? soft_gpu_fault_get(gpus, target, setting, 1)
                         : fault->value);
        }
    }
}

uint32_t soft_gpu_fault_bits(uint32_t settings)
{
    uint32_t bits = 0;

    for (unsigned s = 0; s < SROCE_FAULT_NUM; ++s) {
        bits |= (settings & SROCE_FAULT_BIT(s)) ? fault_bits[s] : 0;
    }
    return bits;
}

const char *soft_gpu_fault_name(uint32_t settings)
{
    const sroce_fault_action_def_t *a = sroce_fault_gpu_action_defs;

    while ((a->name != NULL) && (a->settings != settings)) {
        ++a;
    }
    return a->name;
}

void soft_gpu_fault_names(const sgpu_gpu_t *gpu, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (const sroce_fault_action_def_t *a = sroce_fault_gpu_action_defs;
         (a->name != NULL) && (used < size); ++a) {
        if (soft_gpu_fault_bits(a->settings) & gpu->faults) {
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     (used != 0) ? " " : "", a->name);
        }
    }
}
