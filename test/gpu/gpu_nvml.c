/* Tests NVML with UCX's queries about devices and their links. */
#include "config.h"
#include "gpu_test.h"
#include "cuda/abi_nvml.h"
#include "cuda/links.h"
#include "softgpu/session.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#define NVML(_wanted, _call)                                                   \
    do {                                                                       \
        nvmlReturn_t nvml_ = (_call);                                          \
                                                                               \
        if (nvml_ != (_wanted)) {                                              \
            printf("# %s:%d: %s gives %d, not %d\n", __FILE__, __LINE__,       \
                   #_call, nvml_, (int)(_wanted));                             \
            return -1;                                                         \
        }                                                                      \
    } while (0)
#define OK(_call) NVML(NVML_SUCCESS, _call)

static sgpu_session_t *session;

static int is_switch(void)
{
    return session->link_kind == SGPU_LINK_SWITCH;
}

/* The devices are those of the driver. */
static int test_devices(void)
{
    unsigned int num;
    nvmlDevice_t device, same;
    nvmlPciInfo_t pci;
    CUdevice cuda;
    char id[32];

    NVML(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount_v2(&num));
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetCount_v2(&num));
    CHECK(num == 4);
    NVML(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex(4, &device));
    CU(cuInit(0));
    for (unsigned i = 0; i < num; ++i) {
        OK(nvmlDeviceGetHandleByIndex_v2(i, &device));
        OK(nvmlDeviceGetPciInfo_v3(device, &pci));
        CU(cuDeviceGetByPCIBusId(&cuda, pci.busIdLegacy));
        CHECK(cuda == (int)i);
        CU(cuDeviceGetByPCIBusId(&cuda, pci.busId));
        CHECK(cuda == (int)i);
        CU(cuDeviceGetPCIBusId(id, sizeof(id), cuda));
        OK(nvmlDeviceGetHandleByPciBusId_v2(id, &same));
        CHECK(same == device);
    }
    NVML(NVML_ERROR_NOT_FOUND,
         nvmlDeviceGetHandleByPciBusId_v2("0000:01:00.0", &same));
    NVML(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetPciInfo_v3(NULL, &pci));
    OK(nvmlShutdown());
    NVML(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
    return 0;
}

static int test_links(void)
{
    nvmlFieldValue_t values[] = {
        {.fieldId = 1},
        {.fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT},
        {.fieldId = NVML_FI_DEV_NVLINK_GET_SPEED},
        {.fieldId = NVML_FI_DEV_NVLINK_GET_SPEED, .scopeId = 3}};
    nvmlEnableState_t active;
    nvmlDevice_t device;
    nvmlPciInfo_t pci;
    sgpu_link_t *link;

    OK(nvmlInit_v2());
    OK(nvmlDeviceGetHandleByIndex(1, &device));
    OK(nvmlDeviceGetFieldValues(device, 4, values));
    CHECK(values[0].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
    CHECK(values[1].nvmlReturn == NVML_SUCCESS);
    CHECK(values[1].valueType == NVML_VALUE_TYPE_UNSIGNED_INT);
    CHECK(values[1].value.uiVal == (is_switch() ? 1 : 3));
    CHECK(values[2].value.uiVal == (is_switch() ? 400 : 240));
    CHECK(values[3].nvmlReturn == NVML_ERROR_NOT_SUPPORTED);
    OK(nvmlDeviceGetNvLinkRemotePciInfo(device, 0, &pci));
    CHECK(pci.bus == (is_switch() ? 0x30 : 0x40));
    if (!is_switch()) {
        OK(nvmlDeviceGetNvLinkRemotePciInfo_v2(device, 1, &pci));
        CHECK(pci.bus == 0x42);
    }
    NVML(NVML_ERROR_INVALID_ARGUMENT,
         nvmlDeviceGetNvLinkRemotePciInfo(device, values[1].value.uiVal, &pci));
    /* A link that is cut. */
    link = is_switch() ? &sgpu_session_gpu(session, 0, 1)->down
                       : &sgpu_session_gpu(session, 0, 1)->mesh[0];
    link->is_down = 1;
    OK(nvmlDeviceGetNvLinkState(device, 0, &active));
    CHECK(!active);
    NVML(NVML_ERROR_NOT_SUPPORTED,
         nvmlDeviceGetNvLinkRemotePciInfo(device, 0, &pci));
    link->is_down = 0;
    OK(nvmlDeviceGetNvLinkState(device, 0, &active));
    CHECK(active);
    NVML(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetGpuFabricInfoV(device, &pci));
    CHECK(strcmp(nvmlErrorString(NVML_ERROR_NOT_SUPPORTED), "not supported") ==
          0);
    OK(nvmlShutdown());
    return 0;
}

/* A process that uses NVML keeps its slot, and other processes cannot use that
 * slot. */
static int test_slot(void)
{
    unsigned before = session->pids[0] == getpid();
    pid_t child;
    int status;

    OK(nvmlInit_v2());
    OK(nvmlShutdown());
    child = fork();
    if (child == 0) {
        sgpu_session_t *other;
        int fd;

        if (sgpu_session_open(getenv("MRAIL_SOFT_GPUS"), &other, &fd) != 0) {
            _exit(1);
        }
        _exit(sgpu_session_take_slot(other, fd) == 1 ? 0 : 2);
    }
    CHECK(before && (child > 0));
    CHECK((waitpid(child, &status, 0) == child) && (status == 0));
    return 0;
}

/* mrail sums the links of a GPU per far end. */
static int test_read(void)
{
    mrail_cuda_links_t links;

    mrail_cuda_links_read("0000:41:00.0", &links);
    CHECK(links.pci == mrail_cuda_pci("00000000:41:00.0"));
    CHECK(links.switch_rate == (is_switch() ? 400000000 : 0));
    CHECK(links.num_peers == (is_switch() ? 0 : 3));
    for (uint64_t i = 0; i < links.num_peers; ++i) {
        CHECK(links.peers[i].rate == 240000000);
        CHECK(links.peers[i].pci != links.pci);
    }
    mrail_cuda_links_read("0000:01:00.0", &links);
    CHECK((links.pci != 0) && (links.num_peers == 0));
    CHECK(mrail_cuda_pci("gpu0") == 0);
    return 0;
}

/* A container hides a GPU. Its links are not those of a switch. */
static int test_hidden(void)
{
    sgpu_session_t *shared;
    mrail_cuda_links_t links;
    sgpu_gpu_t *hidden;
    int fd;

    CHECK(sgpu_session_open(getenv("MRAIL_SOFT_GPUS"), &shared, &fd) == 0);
    hidden = sgpu_session_gpu(shared, 0, 3);
    hidden->faults |= SGPU_FAULT_NO_DEVICE;
    mrail_cuda_links_read("0000:41:00.0", &links);
    hidden->faults &= ~(uint32_t)SGPU_FAULT_NO_DEVICE;
    CHECK(links.switch_rate == (is_switch() ? 400000000 : 0));
    CHECK(links.num_peers == (is_switch() ? 0 : 3));
    return 0;
}

/* Programs load the library at run time, by this name. */
static int test_name(void)
{
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

    CHECK(handle != NULL);
    CHECK(dlsym(handle, "nvmlDeviceGetNvLinkRemotePciInfo") != NULL);
    CHECK(dlclose(handle) == 0);
    return 0;
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"devices", test_devices},
        {"links", test_links},
        {"the slot", test_slot},
        {"links of a GPU", test_read},
        {"a hidden GPU is not a switch", test_hidden},
        {"the name of the library", test_name}};

    if (sgpu_session_open(getenv("MRAIL_SOFT_GPUS"), &session, NULL) != 0) {
        printf("Bail out! no session\n");
        return 1;
    }
    return GPU_RUN(cases);
}
