#include "config.h"
#include "cuda/links.h"

#include "base/util.h"
#include "cuda/abi_nvml.h"

#include <dlfcn.h>
#include <stdio.h>

#define BYTES_PER_MB 1000000u

/* X(symbol) */
#define NVML_CALLS(X)                                                          \
    X(nvmlInit_v2)                                                             \
    X(nvmlShutdown)                                                            \
    X(nvmlDeviceGetHandleByPciBusId_v2)                                        \
    X(nvmlDeviceGetNvLinkState)                                                \
    X(nvmlDeviceGetNvLinkRemotePciInfo_v2)                                     \
    X(nvmlDeviceGetFieldValues)

typedef struct nvml {
    void *library;
#define NVML_MEMBER(_symbol) __typeof__(_symbol) *_symbol;
    NVML_CALLS(NVML_MEMBER)
#undef NVML_MEMBER
    /* NULL if the driver lacks it */
    __typeof__(nvmlDeviceGetNvLinkRemoteDeviceType) *remote_type;
} nvml_t;

uint64_t mrail_cuda_pci(const char *text)
{
    unsigned domain, bus, device, function;

    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) {
        return 0;
    }
    return (uint64_t)domain << 32 | (bus & 0xff) << 16 | (device & 0xff) << 8 |
           (function & 0xff);
}

/* ---- the library ---- */

static int nvml_has_all(const nvml_t *nvml)
{
#define NVML_HAS(_symbol) (nvml->_symbol != NULL) &&
    return NVML_CALLS(NVML_HAS) 1;
#undef NVML_HAS
}

/* Returns 0 if the library is absent or too old, or finds no driver. */
static int nvml_open(nvml_t *nvml)
{
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml->library == NULL) {
        return 0;
    }
#define NVML_FIND(_symbol)                                                     \
    *(void **)&nvml->_symbol = dlsym(nvml->library, #_symbol);
    NVML_CALLS(NVML_FIND)
#undef NVML_FIND
    *(void **)&nvml->remote_type =
        dlsym(nvml->library, "nvmlDeviceGetNvLinkRemoteDeviceType");
    if (nvml_has_all(nvml) && (nvml->nvmlInit_v2() == NVML_SUCCESS)) {
        return 1;
    }
    dlclose(nvml->library);
    return 0;
}

static void nvml_close(const nvml_t *nvml)
{
    (void)nvml->nvmlShutdown();
    dlclose(nvml->library);
}

/* Returns 0 if the field is unknown. */
static unsigned nvml_field(const nvml_t *nvml, nvmlDevice_t device,
                           unsigned field, unsigned link)
{
    nvmlFieldValue_t value = {.fieldId = field, .scopeId = link};

    return ((nvml->nvmlDeviceGetFieldValues(device, 1, &value) ==
             NVML_SUCCESS) &&
            (value.nvmlReturn == NVML_SUCCESS) &&
            (value.valueType == NVML_VALUE_TYPE_UNSIGNED_INT))
               ? value.value.uiVal
               : 0;
}

/* Drivers before release 525 report only the common rate of all links. */
static uint64_t nvml_rate(const nvml_t *nvml, nvmlDevice_t device,
                          unsigned link)
{
    unsigned speed =
        nvml_field(nvml, device, NVML_FI_DEV_NVLINK_GET_SPEED, link);

    if (speed == 0) {
        speed =
            nvml_field(nvml, device, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0);
    }
    return (uint64_t)speed * BYTES_PER_MB;
}

/* ---- links ---- */

static void add_peer(mrail_cuda_links_t *links, uint64_t pci, uint64_t rate)
{
    uint64_t i = 0;

    while ((i < links->num_peers) && (links->peers[i].pci != pci)) {
        ++i;
    }
    if (i == MRAIL_CUDA_MAX_PEERS) {
        return;
    }
    links->peers[i].pci = pci;
    links->peers[i].rate += rate;
    links->num_peers = MRAIL_MAX(links->num_peers, i + 1);
}

/* A container may hide the GPU at the far end, so that NVML does not find it.
 * Old drivers do not report what is there; then a switch is assumed. */
static int is_to_gpu(const nvml_t *nvml, nvmlDevice_t device, unsigned link,
                     const nvmlPciInfo_t *far)
{
    nvmlIntNvLinkDeviceType_t type = NVML_NVLINK_DEVICE_TYPE_SWITCH;
    nvmlDevice_t peer;

    if (nvml->nvmlDeviceGetHandleByPciBusId_v2(far->busId, &peer) ==
        NVML_SUCCESS) {
        return 1;
    }
    return (nvml->remote_type != NULL) &&
           (nvml->remote_type(device, link, &type) == NVML_SUCCESS) &&
           (type != NVML_NVLINK_DEVICE_TYPE_SWITCH);
}

/* If the far end is not a GPU, it is a switch. */
static void read_link(const nvml_t *nvml, nvmlDevice_t device, unsigned link,
                      mrail_cuda_links_t *links)
{
    uint64_t rate = nvml_rate(nvml, device, link);
    nvmlEnableState_t is_active = 0;
    nvmlPciInfo_t far;

    if ((rate == 0) ||
        (nvml->nvmlDeviceGetNvLinkState(device, link, &is_active) !=
         NVML_SUCCESS) ||
        !is_active ||
        (nvml->nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &far) !=
         NVML_SUCCESS)) {
        return;
    }
    if (is_to_gpu(nvml, device, link, &far)) {
        add_peer(links, mrail_cuda_pci(far.busId), rate);
    } else {
        links->switch_rate += rate;
    }
}

void mrail_cuda_links_read(const char *pci, mrail_cuda_links_t *links_p)
{
    nvmlDevice_t device;
    nvml_t nvml;

    *links_p = (mrail_cuda_links_t){.pci = mrail_cuda_pci(pci)};
    if (!nvml_open(&nvml)) {
        return;
    }
    if (nvml.nvmlDeviceGetHandleByPciBusId_v2(pci, &device) == NVML_SUCCESS) {
        unsigned count =
            nvml_field(&nvml, device, NVML_FI_DEV_NVLINK_LINK_COUNT, 0);

        for (unsigned link = 0; link < count; ++link) {
            read_link(&nvml, device, link, links_p);
        }
    }
    nvml_close(&nvml);
}
