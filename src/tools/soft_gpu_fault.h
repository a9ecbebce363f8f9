/* Faults of the software GPUs of a session, as settings of fault/action.h. Jobs
 * see a change at their next call, or at the next chunk of a copy. */
#ifndef MRAIL_TOOLS_SOFT_GPU_FAULT_H
#define MRAIL_TOOLS_SOFT_GPU_FAULT_H

#include "softroce/fault/action.h"
#include "softgpu/session.h"

/* A GPU, or the link between two GPUs of a node. */
typedef struct soft_gpu_target {
    unsigned node, gpu;
    unsigned peer; /* equal to `gpu` for the GPU itself and its link to a
                    * switch */
} soft_gpu_target_t;

/* Sets the state of the target, or triggers an event. */
void soft_gpu_fault_set(sgpu_session_t *gpus, soft_gpu_target_t target,
                        sroce_fault_setting_t setting, uint64_t value);
/* Returns the current value, or with healthy != 0, the value at the creation of
 * the session. */
uint64_t soft_gpu_fault_get(sgpu_session_t *gpus, soft_gpu_target_t target,
                            sroce_fault_setting_t setting, int healthy);
/* Returns the bytes that the target's links have carried. */
uint64_t soft_gpu_fault_bytes(sgpu_session_t *gpus, soft_gpu_target_t target);
/* Executes an action of the table on the target. */
void soft_gpu_fault_do(sgpu_session_t *gpus, soft_gpu_target_t target,
                       const sroce_fault_action_t *fault);
/* Returns the faults of a set of settings, for new GPUs. */
uint32_t soft_gpu_fault_bits(uint32_t settings);

/* Returns the name of the action that sets the settings. */
const char *soft_gpu_fault_name(uint32_t settings);
/* Writes the names of the GPU's faults, separated by blanks. */
void soft_gpu_fault_names(const sgpu_gpu_t *gpu, char *text, size_t size);

#endif
