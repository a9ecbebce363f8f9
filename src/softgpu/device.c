/* Implements cuDevice*, the queries about devices. */
#include "config.h"
#include "softgpu/launch.h"

#include <stdio.h>
#include <string.h>

CUresult cuDriverGetVersion(int *version_p)
{
    if (version_p == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version_p = SGPU_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count_p)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (count_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *count_p = (int)sgpu.num_devs;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *dev_p, int ordinal)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (dev_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *dev_p = ordinal;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *name, int size, CUdevice ordinal)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((name == NULL) || (size <= 0)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    snprintf(name, (size_t)size, "mrail software GPU %u", dev->gpu->index);
    return sgpu_leave(CUDA_SUCCESS);
}

/* The UUID is unique even across nodes and sessions. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid_p, CUdevice ordinal)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);
    uint64_t words[2];

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (uuid_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    words[0] = sgpu.session->id;
    words[1] = mrail_mix64((uint64_t)dev->gpu->node << 32 | dev->gpu->index);
    memcpy(uuid_p->bytes, words, sizeof(uuid_p->bytes));
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetUuid(CUuuid *uuid_p, CUdevice ordinal)
{
    return cuDeviceGetUuid_v2(uuid_p, ordinal);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes_p, CUdevice ordinal)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (bytes_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *bytes_p = sgpu.session->memory_bytes;
    return sgpu_leave(CUDA_SUCCESS);
}

/* Attributes that are the same for all devices. All other attributes in
 * abi_values.h are 0. */
static const struct {
    CUdevice_attribute attribute;
    int value;
} device_attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, SGPU_THREADS_PER_BLOCK},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, SGPU_SHARED_BYTES},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, SGPU_MULTIPROCESSORS},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
     SGPU_BLOCKS_PER_MULTIPROCESSOR},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
};

CUresult cuDeviceGetAttribute(int *value_p, CUdevice_attribute attribute,
                              CUdevice ordinal)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((value_p == NULL) || (attribute <= 0)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *value_p = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) {
        *value_p = SGPU_SESSION_FIRST_BUS + (int)dev->gpu->index;
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(device_attributes); ++i) {
        if (device_attributes[i].attribute == attribute) {
            *value_p = device_attributes[i].value;
        }
    }
    if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) {
        *value_p = (int)atomic_load(&dev->gpu->writes_ordering);
    }
    if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS) {
        *value_p = (int)atomic_load(&dev->gpu->flush_options);
    }
    if ((attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) &&
        sgpu_gpu_has(dev->gpu, SGPU_FAULT_NO_DMABUF)) {
        *value_p = 0;
    }
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceComputeCapability(int *major_p, int *minor_p, CUdevice ordinal)
{
    CUresult ret = cuDeviceGetAttribute(
        major_p, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal);

    return (ret != CUDA_SUCCESS)
               ? ret
               : cuDeviceGetAttribute(
                     minor_p, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                     ordinal);
}

CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice ordinal)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(ordinal, &dev);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((id == NULL) || (size <= 0)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    snprintf(id, (size_t)size, "0000:%02x:00.0",
             SGPU_SESSION_FIRST_BUS + dev->gpu->index);
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev_p, const char *id)
{
    CUresult ret = sgpu_enter();
    unsigned domain, bus, device, function = 0;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((dev_p == NULL) || (id == NULL) ||
        (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    for (unsigned i = 0; i < sgpu.num_devs; ++i) {
        if ((domain == 0) && (device == 0) && (function == 0) &&
            (bus == SGPU_SESSION_FIRST_BUS + sgpu.devs[i].gpu->index)) {
            *dev_p = (CUdevice)i;
            return sgpu_leave(CUDA_SUCCESS);
        }
    }
    return sgpu_leave(CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuDeviceGetP2PAttribute(int *value_p, CUdevice_P2PAttribute attribute,
                                 CUdevice source, CUdevice dest)
{
    sgpu_dev_t *dev;
    CUresult ret = sgpu_enter_dev(source, &dev);
    int has_link;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((dest < 0) || ((unsigned)dest >= sgpu.num_devs) || (source == dest)) {
        return sgpu_leave(CUDA_ERROR_INVALID_DEVICE);
    }
    if ((value_p == NULL) ||
        (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK) ||
        (attribute > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    has_link = sgpu_path_joins((sgpu_link_kind_t)sgpu.session->link_kind,
                               dev->gpu, sgpu.devs[dest].gpu);
    *value_p = (attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED) &&
               has_link;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuDeviceCanAccessPeer(int *can_p, CUdevice ordinal, CUdevice peer)
{
    CUresult ret;

    if ((ordinal == peer) && (can_p != NULL)) {
        *can_p = 0; /* a device is not its own peer */
        return CUDA_SUCCESS;
    }
    ret = cuDeviceGetP2PAttribute(
        can_p, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, ordinal, peer);
    return ret;
}

/* Rails write to device memory directly, so there is nothing to flush. */
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX) ||
        ((scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER) &&
         (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if ((atomic_load(&ctx->dev->gpu->flush_options) &
         CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) == 0) {
        return sgpu_leave(CUDA_ERROR_NOT_SUPPORTED);
    }
    sgpu_count(ctx->dev->gpu, SGPU_CNT_FLUSHES, 1);
    return sgpu_leave(CUDA_SUCCESS);
}
