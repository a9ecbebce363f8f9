/*
 * Implements libnvidia-ml.so.1 for the software GPUs of a node. It supports the
 * queries of UCX 1.22 about devices and their links. All GPUs of the node are
 * listed, in the order of their PCI addresses. As with the real library,
 * CUDA_VISIBLE_DEVICES has no effect. A device handle is the number of the GPU
 * plus one.
 *
 * Source: [NVML].
 */
#include "config.h"
#include "cuda/abi_nvml.h"
#include "softgpu/session.h"

#include "base/util.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVML_SWITCH_BUS 0x30

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sgpu_session_t *session;
static unsigned node, users;

/* The session stays open until the process exits, because closing a descriptor
 * of its file would release the record lock by which libcuda owns a slot. For
 * the same reason, the library is never unloaded. */
static int nvml_open(void)
{
    const char *path = getenv("MRAIL_SOFT_GPUS");
    const char *text = getenv("MRAIL_SOFT_NODE");
    int fd;

    if (session != NULL) {
        return 1;
    }
    if ((path == NULL) || (sgpu_session_open(path, &session, &fd) != 0)) {
        return 0;
    }
    node = (text != NULL) ? (unsigned)strtoul(text, NULL, 10) : 0;
    node = MRAIL_MIN(node, session->num_nodes - 1);
    return 1;
}

nvmlReturn_t nvmlInit_v2(void)
{
    nvmlReturn_t ret = NVML_SUCCESS;

    pthread_mutex_lock(&lock);
    if (nvml_open()) {
        ++users;
    } else {
        ret = NVML_ERROR_DRIVER_NOT_LOADED;
    }
    pthread_mutex_unlock(&lock);
    return ret;
}

nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t ret = NVML_SUCCESS;

    pthread_mutex_lock(&lock);
    if (users == 0) {
        ret = NVML_ERROR_UNINITIALIZED;
    } else {
        --users;
    }
    pthread_mutex_unlock(&lock);
    return ret;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    static const struct {
        nvmlReturn_t result;
        const char *text;
    } texts[] = {{NVML_SUCCESS, "success"},
                 {NVML_ERROR_UNINITIALIZED, "nvmlInit was not called"},
                 {NVML_ERROR_INVALID_ARGUMENT, "invalid argument"},
                 {NVML_ERROR_NOT_SUPPORTED, "not supported"},
                 {NVML_ERROR_NOT_FOUND, "not found"},
                 {NVML_ERROR_DRIVER_NOT_LOADED, "no software GPUs"}};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(texts); ++i) {
        if (texts[i].result == result) {
            return texts[i].text;
        }
    }
    return "unknown error";
}

/* ---- Devices ---- */

/* The list excludes GPUs that cuInit would not find. */
static unsigned nvml_count(void)
{
    unsigned num = 0;

    for (unsigned i = 0; i < session->num_gpus; ++i) {
        num += !sgpu_gpu_has(sgpu_session_gpu(session, node, i),
                             SGPU_FAULT_NO_DEVICE);
    }
    return num;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *num_p)
{
    if (users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (num_p == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *num_p = nvml_count();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index,
                                           nvmlDevice_t *device_p)
{
    if (users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    for (unsigned i = 0; (device_p != NULL) && (i < session->num_gpus); ++i) {
        if (sgpu_gpu_has(sgpu_session_gpu(session, node, i),
                         SGPU_FAULT_NO_DEVICE)) {
            continue;
        }
        if (index-- == 0) {
            *device_p = (nvmlDevice_t)(uintptr_t)(i + 1);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index,
                                        nvmlDevice_t *device_p)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device_p);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id,
                                              nvmlDevice_t *device_p)
{
    unsigned domain, bus, device;

    if (users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if ((id == NULL) || (device_p == NULL) ||
        (sscanf(id, "%x:%x:%x", &domain, &bus, &device) != 3)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if ((domain != 0) || (device != 0) || (bus < SGPU_SESSION_FIRST_BUS) ||
        (bus >= SGPU_SESSION_FIRST_BUS + session->num_gpus)) {
        return NVML_ERROR_NOT_FOUND;
    }
    /* As in a container without this GPU. */
    if (sgpu_gpu_has(
            sgpu_session_gpu(session, node, bus - SGPU_SESSION_FIRST_BUS),
            SGPU_FAULT_NO_DEVICE)) {
        return NVML_ERROR_NOT_FOUND;
    }
    *device_p = (nvmlDevice_t)(uintptr_t)(bus - SGPU_SESSION_FIRST_BUS + 1);
    return NVML_SUCCESS;
}

/* Finds the GPU of a handle. */
static nvmlReturn_t nvml_find(nvmlDevice_t device, sgpu_gpu_t **gpu_p)
{
    uintptr_t number = (uintptr_t)device;

    if (users == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if ((number == 0) || (number > session->num_gpus)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *gpu_p = sgpu_session_gpu(session, node, (unsigned)(number - 1));
    return NVML_SUCCESS;
}

static void nvml_fill_pci(nvmlPciInfo_t *pci, unsigned bus)
{
    memset(pci, 0, sizeof(*pci));
    pci->bus = bus;
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0",
             bus & 0xff);
    snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", bus & 0xff);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci_p)
{
    sgpu_gpu_t *gpu;
    nvmlReturn_t ret = nvml_find(device, &gpu);

    if ((ret == NVML_SUCCESS) && (pci_p == NULL)) {
        ret = NVML_ERROR_INVALID_ARGUMENT;
    }
    if (ret == NVML_SUCCESS) {
        nvml_fill_pci(pci_p, SGPU_SESSION_FIRST_BUS + gpu->index);
    }
    return ret;
}

/* ---- Links ---- */

/* With pairwise links, link i leads to the i-th other GPU of the node. */
static unsigned nvml_num_links(void)
{
    switch (session->link_kind) {
    case SGPU_LINK_MESH:
        return session->num_gpus - 1;
    case SGPU_LINK_SWITCH:
        return 1;
    default:
        return 0;
    }
}

/* Finds a link. Stores its far end (a GPU, or NULL for the switch), and whether
 * the link is down. */
static nvmlReturn_t nvml_find_link(nvmlDevice_t device, unsigned link,
                                   sgpu_gpu_t **peer_p, int *is_down_p)
{
    sgpu_gpu_t *gpu;
    nvmlReturn_t ret = nvml_find(device, &gpu);
    unsigned peer;

    if (ret != NVML_SUCCESS) {
        return ret;
    }
    if (link >= nvml_num_links()) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (session->link_kind == SGPU_LINK_SWITCH) {
        *peer_p = NULL;
        *is_down_p = (gpu->up.is_down != 0) || (gpu->down.is_down != 0);
        return NVML_SUCCESS;
    }
    peer = link + (link >= gpu->index);
    *peer_p = sgpu_session_gpu(session, node, peer);
    *is_down_p = (gpu->mesh[peer].is_down != 0);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                      nvmlEnableState_t *is_active_p)
{
    sgpu_gpu_t *peer;
    int is_down;
    nvmlReturn_t ret = nvml_find_link(device, link, &peer, &is_down);

    if ((ret == NVML_SUCCESS) && (is_active_p == NULL)) {
        ret = NVML_ERROR_INVALID_ARGUMENT;
    }
    if (ret == NVML_SUCCESS) {
        *is_active_p = !is_down;
    }
    return ret;
}

/* If a link is down, it has no remote end. */
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device,
                                                 unsigned int link,
                                                 nvmlPciInfo_t *pci_p)
{
    sgpu_gpu_t *peer;
    int is_down;
    nvmlReturn_t ret = nvml_find_link(device, link, &peer, &is_down);

    if ((ret == NVML_SUCCESS) && (pci_p == NULL)) {
        ret = NVML_ERROR_INVALID_ARGUMENT;
    }
    if ((ret == NVML_SUCCESS) && is_down) {
        ret = NVML_ERROR_NOT_SUPPORTED;
    }
    if (ret == NVML_SUCCESS) {
        nvml_fill_pci(pci_p, (peer != NULL)
                                 ? SGPU_SESSION_FIRST_BUS + peer->index
                                 : NVML_SWITCH_BUS);
    }
    return ret;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device,
                                              unsigned int link,
                                              nvmlPciInfo_t *pci_p)
{
    return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci_p);
}

nvmlReturn_t
nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                    nvmlIntNvLinkDeviceType_t *type_p)
{
    sgpu_gpu_t *peer;
    int is_down;
    nvmlReturn_t ret = nvml_find_link(device, link, &peer, &is_down);

    if ((ret == NVML_SUCCESS) && (type_p == NULL)) {
        ret = NVML_ERROR_INVALID_ARGUMENT;
    }
    if (ret == NVML_SUCCESS) {
        *type_p = (peer != NULL) ? NVML_NVLINK_DEVICE_TYPE_GPU
                                 : NVML_NVLINK_DEVICE_TYPE_SWITCH;
    }
    return ret;
}

/* Returns the rate that each link had when the session began, in MB/s, or 0 if
 * the links have no limit. As in the real library, this is the rate of the
 * hardware, which does not change with the load. */
static unsigned nvml_speed(void)
{
    return (unsigned)(session->first_link_rate_bytes_per_s / 1000000);
}

/* Returns 0 for a field that is not supported. */
static int nvml_field(const nvmlFieldValue_t *value, unsigned *number_p)
{
    switch (value->fieldId) {
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
        *number_p = nvml_num_links();
        return 1;
    case NVML_FI_DEV_NVLINK_GET_SPEED:
        if (value->scopeId >= nvml_num_links()) {
            return 0;
        }
        *number_p = nvml_speed();
        return *number_p > 0;
    case NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON:
        *number_p = nvml_speed();
        return (*number_p > 0) && (nvml_num_links() > 0);
    default:
        return 0;
    }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int num,
                                      nvmlFieldValue_t *values)
{
    sgpu_gpu_t *gpu;
    nvmlReturn_t ret = nvml_find(device, &gpu);

    if ((ret == NVML_SUCCESS) && ((values == NULL) || (num < 0))) {
        ret = NVML_ERROR_INVALID_ARGUMENT;
    }
    for (int i = 0; (ret == NVML_SUCCESS) && (i < num); ++i) {
        unsigned number;

        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        if (nvml_field(&values[i], &number)) {
            values[i].nvmlReturn = NVML_SUCCESS;
            values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
            values[i].value.uiVal = number;
        }
    }
    return ret;
}

/* GPUs of different nodes have no links, so they do not form a fabric. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void *info)
{
    sgpu_gpu_t *gpu;
    nvmlReturn_t ret = nvml_find(device, &gpu);

    return (ret == NVML_SUCCESS) ? NVML_ERROR_NOT_SUPPORTED : ret;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, void *info)
{
    return nvmlDeviceGetGpuFabricInfoV(device, info);
}
