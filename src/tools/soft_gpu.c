/* Creates and checks the software GPUs of a session, and sets up their
 * environment. */
#include "config.h"
#include "soft_gpu.h"
#include "soft.h"
#include "soft_gpu_fault.h"
#include "tools/rates.h"
#include "tools/soft_file.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOFT_GPU_LIBRARY "libcuda.so.1"

_Static_assert((int)MRAIL_GPUS_MESH == (int)SGPU_LINK_MESH &&
                   (int)MRAIL_GPUS_SWITCH == (int)SGPU_LINK_SWITCH &&
                   (int)MRAIL_GPUS_NONE == (int)SGPU_LINK_NONE,
               "the same order");

void soft_gpu_parse(const mrail_gpus_options_t *options, unsigned num_nodes)
{
    char reason[SOFT_REASON_MAX];

    if (mrail_gpus_check(options, reason, sizeof(reason)) != 0) {
        mrail_tool_usage(SOFT_COMMAND, "%s", reason);
    }
    if (options->num * num_nodes > SGPU_SESSION_MAX_DEVS) {
        mrail_tool_usage(SOFT_COMMAND,
                         "%u nodes x %u GPUs: at most %d GPUs are supported",
                         num_nodes, options->num, SGPU_SESSION_MAX_DEVS);
    }
}

/* The options must be valid. */
static sgpu_session_params_t
soft_gpu_params(const mrail_gpus_options_t *options, unsigned num_nodes)
{
    sgpu_session_params_t params = {.num_nodes = num_nodes,
                                    .num_gpus = options->num,
                                    .memory_bytes =
                                        SGPU_SESSION_DEFAULT_MEMORY};
    mrail_gpus_link_t link = MRAIL_GPUS_MESH;
    uint32_t settings = 0;
    char reason[SOFT_REASON_MAX];

    if (options->link != NULL) {
        (void)mrail_gpus_parse_link(options->link, &link,
                                    &params.link_rate_bytes_per_s, reason,
                                    sizeof(reason));
    }
    params.link_kind = (sgpu_link_kind_t)link;
    if (options->pcie != NULL) {
        (void)mrail_rate_parse(options->pcie, &params.pcie_rate_bytes_per_s,
                               reason, sizeof(reason));
    }
    if (options->memory != 0) {
        params.memory_bytes = options->memory;
    }
    if (options->faults != NULL) {
        (void)soft_file_read_faults(options->faults, &settings, reason,
                                    sizeof(reason));
    }
    params.faults = soft_gpu_fault_bits(settings);
    params.has_peermem = options->peermem;
    return params;
}

int soft_gpu_create(const char *session, const mrail_gpus_options_t *options,
                    unsigned num_nodes)
{
    sgpu_session_params_t params = soft_gpu_params(options, num_nodes);
    char path[128];
    int ret;

    sroce_session_path(session, SROCE_SESSION_GPUS, path, sizeof(path));
    if (params.num_gpus == 0) {
        unlink(path); /* the file may be left over from a killed session */
        return 0;
    }
    ret = sgpu_session_create(path, &params);
    if (ret != 0) {
        soft_error("cannot create the GPUs of session '%s' in /dev/shm: %s",
                   session, strerror(-ret));
    }
    return ret;
}

int soft_gpu_check(const char *session, const mrail_gpus_options_t *options,
                   char *reason, size_t size)
{
    sgpu_session_params_t params = soft_gpu_params(options, 1);
    sgpu_session_t *gpus;
    char path[128];
    int ret;

    if (options->num == 0) {
        return 0;
    }
    sroce_session_path(session, SROCE_SESSION_GPUS, path, sizeof(path));
    ret = sgpu_session_open(path, &gpus, NULL);
    if (ret != 0) {
        snprintf(reason, size,
                 "session '%s' has no GPUs; end its jobs or choose another "
                 "--session",
                 session);
        return -EINVAL;
    }
    if ((gpus->num_gpus != params.num_gpus) ||
        ((options->link != NULL) && ((gpus->link_kind != params.link_kind) ||
                                     (gpus->first_link_rate_bytes_per_s !=
                                      params.link_rate_bytes_per_s))) ||
        ((options->pcie != NULL) &&
         (gpus->first_pcie_rate_bytes_per_s != params.pcie_rate_bytes_per_s)) ||
        ((options->memory != 0) &&
         (gpus->memory_bytes != params.memory_bytes)) ||
        ((options->faults != NULL) && (gpus->first_faults != params.faults)) ||
        (options->peermem && !gpus->has_peermem)) {
        snprintf(
            reason, size,
            "session '%s' was created with %u GPUs per node, or with links, "
            "memory or faults other than requested; end its jobs or choose "
            "another --session",
            session, gpus->num_gpus);
        ret = -EINVAL;
    }
    sgpu_session_close(gpus);
    return ret;
}

/* Finds the directory of the driver library. */
static int soft_gpu_folder(char *folder, size_t max)
{
    char path[MRAIL_TOOL_PATH_MAX];

    if (soft_library("src/softgpu/.libs/" SOFT_GPU_LIBRARY,
                     "softgpu/" SOFT_GPU_LIBRARY, path, sizeof(path)) != 0) {
        soft_error(SOFT_GPU_LIBRARY
                   " is not at %s; the installation is incomplete",
                   path);
        return -ENOENT;
    }
    *strrchr(path, '/') = '\0';
    snprintf(folder, max, "%s", path);
    return 0;
}

int soft_gpu_environment(const char *session, unsigned num_rails)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    char path[128], folder[MRAIL_TOOL_PATH_MAX], places[32];
    sgpu_session_t *gpus = soft_gpu_open(session, NULL);
    char *list;

    unsetenv("MRAIL_SOFT_PEERMEM");
    unsetenv("MRAIL_SOFT_PLACES");
    if (gpus == NULL) {
        return 0;
    }
    if (gpus->has_peermem) {
        setenv("MRAIL_SOFT_PEERMEM", "1", 1);
    }
    snprintf(places, sizeof(places), "%u:%u", num_rails, gpus->num_gpus);
    setenv("MRAIL_SOFT_PLACES", places, 1); /* see cuda/place.h */
    sgpu_session_close(gpus);
    sroce_session_path(session, SROCE_SESSION_GPUS, path, sizeof(path));
    if (soft_gpu_folder(folder, sizeof(folder)) != 0) {
        return -ENOENT;
    }
    if (asprintf(&list, "%s%s%s", folder, before ? ":" : "",
                 before ? before : "") < 0) {
        return -ENOMEM;
    }
    setenv("LD_LIBRARY_PATH", list, 1);
    setenv("MRAIL_SOFT_GPUS", path, 1);
    /* UCX hooks functions by overwriting their first instructions, which is not
     * possible for every function of this library. Without hooks, UCX has no
     * registration cache. */
    setenv("UCX_MEM_CUDA_HOOK_MODE", "reloc", 0);
    free(list);
    return 0;
}
