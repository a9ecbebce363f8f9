/* cuInit, the devices that a process sees, and the checks at the beginning of
 * each call. */
#include "config.h"
#include "softgpu/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

sgpu_state_t sgpu = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static pthread_once_t session_once = PTHREAD_ONCE_INIT;
static __thread int is_refused;

static void init_warn(const char *what)
{
    fprintf(stderr, "mrail soft: %s\n", what);
}

/* A forked child has no engines, and does not own its parent's contexts. As
 * with a real driver, it cannot use GPUs. */
static void init_after_fork(void)
{
    pthread_mutex_init(&sgpu.lock, NULL);
    sgpu.is_forked = sgpu.is_ready;
}

static void init_open_session(void)
{
    const char *path = getenv("MRAIL_SOFT_GPUS");
    const char *node = getenv("MRAIL_SOFT_NODE");
    pthread_condattr_t attr;
    char line[192];
    int ret;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&sgpu.done, &attr);
    for (unsigned i = 0; i < SGPU_SESSION_MAX_GPUS; ++i) {
        sgpu_dev_t *dev = &sgpu.devs[i];

        dev->ordinal = i;
        pthread_cond_init(&dev->engine_wake, &attr);
        pthread_cond_init(&dev->func_wake, &attr);
        mrail_list_init(&dev->busy);
        mrail_list_init(&dev->funcs);
    }
    pthread_condattr_destroy(&attr);
    mrail_list_init(&sgpu.ctxs);
    pthread_atfork(NULL, NULL, init_after_fork);
    if (path == NULL) {
        return;
    }
    ret = sgpu_session_open(path, &sgpu.session, &sgpu.fd);
    if (ret != 0) {
        snprintf(line, sizeof(line), "no software GPUs: %.100s: %s", path,
                 (ret == -ESTALE) ? "created by another version of mrail"
                                  : strerror(-ret));
        init_warn(line);
        return;
    }
    sgpu.node = (node != NULL) ? (unsigned)strtoul(node, NULL, 10) : 0;
    if (sgpu.node >= sgpu.session->num_nodes) {
        init_warn("no software GPUs: MRAIL_SOFT_NODE is not a node of the "
                  "session");
        sgpu_session_close(sgpu.session);
        sgpu.session = NULL;
    }
}

void sgpu_session_once(void)
{
    pthread_once(&session_once, init_open_session);
}

/* CUDA_VISIBLE_DEVICES is a list of device numbers, such as "2,0". The first
 * word that is not a device number ends the list. */
static void init_see_devices(void)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    sgpu_gpu_t *found[SGPU_SESSION_MAX_GPUS];
    unsigned num = 0;
    uint32_t seen = 0;

    for (unsigned i = 0; i < sgpu.session->num_gpus; ++i) {
        sgpu_gpu_t *gpu = sgpu_session_gpu(sgpu.session, sgpu.node, i);

        if (!sgpu_gpu_has(gpu, SGPU_FAULT_NO_DEVICE)) {
            found[num++] = gpu;
        }
    }
    for (unsigned i = 0; (text == NULL) && (i < num); ++i) {
        sgpu.devs[sgpu.num_devs++].gpu = found[i];
    }
    while (text != NULL) {
        char *end;
        long index = strtol(text, &end, 10);

        if ((end == text) || ((*end != '\0') && (*end != ',')) || (index < 0) ||
            (index >= (long)num) || (seen & (1u << index))) {
            break;
        }
        seen |= 1u << index;
        sgpu.devs[sgpu.num_devs++].gpu = found[index];
        text = (*end == ',') ? end + 1 : NULL;
    }
}

static CUresult init_locked(void)
{
    int slot;

    if (sgpu.is_forked) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (sgpu.is_ready) {
        return CUDA_SUCCESS;
    }
    if (sgpu.session == NULL) {
        return CUDA_ERROR_NO_DEVICE;
    }
    sgpu.num_devs = 0;
    init_see_devices();
    if (sgpu.num_devs == 0) {
        return CUDA_ERROR_NO_DEVICE;
    }
    slot = sgpu_session_take_slot(sgpu.session, sgpu.fd);
    if (slot < 0) {
        init_warn("too many processes use the software GPUs of this session");
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    sgpu.slot = (unsigned)slot;
    sgpu.is_ready = 1;
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    CUresult ret;

    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sgpu_session_once();
    pthread_mutex_lock(&sgpu.lock);
    ret = init_locked();
    pthread_mutex_unlock(&sgpu.lock);
    return ret;
}

CUresult sgpu_enter(void)
{
    if (is_refused) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    pthread_mutex_lock(&sgpu.lock);
    if (!sgpu.is_ready || sgpu.is_forked) {
        return sgpu_leave(CUDA_ERROR_NOT_INITIALIZED);
    }
    return CUDA_SUCCESS;
}

CUresult sgpu_enter_ctx(sgpu_ctx_t **ctx_p)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    *ctx_p = sgpu_ctx_current();
    if (*ctx_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
    }
    return ((*ctx_p)->error == CUDA_SUCCESS) ? CUDA_SUCCESS
                                             : sgpu_leave((*ctx_p)->error);
}

CUresult sgpu_enter_dev(CUdevice ordinal, sgpu_dev_t **dev_p)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((ordinal < 0) || ((unsigned)ordinal >= sgpu.num_devs)) {
        return sgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    *dev_p = &sgpu.devs[ordinal];
    return CUDA_SUCCESS;
}

CUresult sgpu_leave(CUresult ret)
{
    pthread_mutex_unlock(&sgpu.lock);
    return ret;
}

void sgpu_refuse_calls(int refuse)
{
    is_refused = refuse;
}

CUresult sgpu_result(int error)
{
    switch (error) {
    case 0:
        return CUDA_SUCCESS;
    case -ENOMEM:
    case -EMFILE:
    case -ENFILE:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -EINVAL:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
}

void sgpu_count(sgpu_gpu_t *gpu, sgpu_counter_t counter, uint64_t n)
{
    /* Only this process writes to its slot, and the calling thread holds the
     * lock. */
    _Atomic uint64_t *c = &gpu->slots[sgpu.slot].counters[counter];

    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}
