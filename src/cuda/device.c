#include "config.h"
#include "cuda/device.h"

#include <ctype.h>
#include <unistd.h>

#define PEERMEM_MODULE "/sys/module/nvidia_peermem/version"

static int device_attribute(const mrail_cuda_t *cuda, CUdevice device,
                            CUdevice_attribute attribute)
{
    int value = 0;

    return (cuda->cuDeviceGetAttribute(&value, attribute, device) ==
            CUDA_SUCCESS) &&
           (value != 0);
}

static uint32_t device_peers(const mrail_cuda_t *cuda, CUdevice device,
                             int count)
{
    uint32_t peers = 0;

    for (int i = 0; (i < count) && (i < MRAIL_CUDA_MAX_DEVICES); ++i) {
        CUdevice peer;
        int can = 0;

        if ((cuda->cuDeviceGet(&peer, i) == CUDA_SUCCESS) && (peer != device) &&
            (cuda->cuDeviceCanAccessPeer(&can, device, peer) == CUDA_SUCCESS) &&
            can) {
            peers |= UINT32_C(1) << i;
        }
    }
    return peers;
}

/* Returns 0 if the driver does not know the device. */
static int device_describe(const mrail_cuda_t *cuda, int ordinal, int count,
                           mrail_cuda_device_t *device_p)
{
    mrail_cuda_device_t device = {.ordinal = ordinal};
    CUdevice handle;

    if ((cuda->cuDeviceGet(&handle, ordinal) != CUDA_SUCCESS) ||
        (cuda->cuDeviceGetName(device.name, sizeof(device.name), handle) !=
         CUDA_SUCCESS) ||
        (cuda->cuDeviceGetPCIBusId(device.pci, sizeof(device.pci), handle) !=
         CUDA_SUCCESS) ||
        (cuda->cuDeviceGetUuid_v2(&device.uuid, handle) != CUDA_SUCCESS) ||
        (cuda->cuDeviceTotalMem(&device.memory, handle) != CUDA_SUCCESS)) {
        return 0;
    }
    for (char *p = device.pci; *p != '\0'; ++p) {
        *p = (char)tolower((unsigned char)*p);
    }
    device.has_rdma = device_attribute(
        cuda, handle, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
    device.has_dmabuf =
        device_attribute(cuda, handle, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
    device.peers = device_peers(cuda, handle, count);
    *device_p = device;
    return 1;
}

unsigned mrail_cuda_devices(const mrail_cuda_t *cuda,
                            mrail_cuda_device_t *devices)
{
    unsigned num = 0;
    int count;

    if (cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        return 0;
    }
    for (int i = 0; (i < count) && (num < MRAIL_CUDA_MAX_DEVICES); ++i) {
        num += (unsigned)device_describe(cuda, i, count, &devices[num]);
    }
    return num;
}

mrail_cuda_access_t mrail_cuda_access(const mrail_cuda_device_t *device,
                                      int nics_have_dmabuf,
                                      const char **reason_p)
{
    *reason_p = "";
    if (device->has_rdma && device->has_dmabuf && nics_have_dmabuf) {
        return MRAIL_CUDA_ACCESS_DMABUF;
    }
    *reason_p = !device->has_rdma ? "the GPU does not support GPUDirect RDMA"
                : !device->has_dmabuf ? "the GPU's driver exports no dma-buf"
                                      : "a rail does not accept dma-bufs";
    return (device->has_rdma && (access(PEERMEM_MODULE, F_OK) == 0))
               ? MRAIL_CUDA_ACCESS_PEERMEM
               : MRAIL_CUDA_ACCESS_NONE;
}
