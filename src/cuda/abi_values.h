/*
 * Defines the numbers of the CUDA driver API: result codes, constants, and the
 * layout of structures. abi.h turns them into C names. Where cuda.h is
 * installed, test/gpu/abi_check.c compares them with it.
 *
 * Source: [CUDA] driver API, "Data types used by CUDA driver".
 */
#ifndef MRAIL_CUDA_ABI_VALUES_H
#define MRAIL_CUDA_ABI_VALUES_H

/* X(name, value, text for cuGetErrorString) */
#define CUDA_ABI_RESULTS(X)                                                    \
    X(CUDA_SUCCESS, 0, "no error")                                             \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                         \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                            \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "cuInit was not called")                  \
    X(CUDA_ERROR_DEINITIALIZED, 4, "the driver is shutting down")              \
    X(CUDA_ERROR_NO_DEVICE, 100, "no device")                                  \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                \
    X(CUDA_ERROR_INVALID_IMAGE, 200, "invalid kernel image")                   \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")               \
    X(CUDA_ERROR_MAP_FAILED, 205, "mapping failed")                            \
    X(CUDA_ERROR_UNMAP_FAILED, 206, "unmapping failed")                        \
    X(CUDA_ERROR_ALREADY_MAPPED, 208, "already mapped")                        \
    X(CUDA_ERROR_NOT_MAPPED, 211, "not mapped")                                \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217, "no peer access")               \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220, "a link between GPUs failed")      \
    X(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found")                        \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304, "operating system call failed")        \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid handle")                        \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, "illegal state")                          \
    X(CUDA_ERROR_NOT_FOUND, 500, "not found")                                  \
    X(CUDA_ERROR_NOT_READY, 600, "not ready")                                  \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "illegal address")                      \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources")           \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is enabled")   \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access is not enabled")   \
    X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "primary context in use")        \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")            \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712,                          \
      "host memory is registered already")                                     \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713,                              \
      "host memory is not registered")                                         \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "launch failed")                          \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720,                            \
      "too many blocks for a cooperative launch")                              \
    X(CUDA_ERROR_NOT_PERMITTED, 800, "not permitted here")                     \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "not supported")                          \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

/* X(name, value). Enumerators of cuda.h. */
#define CUDA_ABI_DEVICE_ATTRIBUTES(X)                                          \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                            \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 2)                                  \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 3)                                  \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 4)                                  \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 5)                                   \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 6)                                   \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 7)                                   \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8)                      \
    X(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 9)                            \
    X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10)                                       \
    X(CU_DEVICE_ATTRIBUTE_MAX_PITCH, 11)                                       \
    X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 12)                         \
    X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                                      \
    X(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 14)                               \
    X(CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 15)                                     \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                            \
    X(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 19)                             \
    X(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 31)                              \
    X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                                      \
    X(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34)                                   \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39)                  \
    X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                              \
    X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                              \
    X(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 50)                                   \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                        \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                        \
    X(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 78)                     \
    X(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83)                                  \
    X(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 89)                       \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91)         \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 92)                       \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 93)                \
    X(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 95)                              \
    X(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99)                         \
    X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)            \
    X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)    \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 106)                  \
    X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110)        \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)                         \
    X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 116)                      \
    X(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 98)                         \
    X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 117)           \
    X(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 118)                \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 122)                  \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 123)                  \
    X(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 124)                              \
    X(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 125)                            \
    X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 128)                   \
    X(CU_DEVICE_ATTRIBUTE_NUMA_ID, 131)                                        \
    X(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 134)

#define CUDA_ABI_POINTER_ATTRIBUTES(X)                                         \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                         \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                     \
    X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)                                  \
    X(CU_POINTER_ATTRIBUTE_HOST_POINTER, 4)                                    \
    X(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6)                                     \
    X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                                       \
    X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                      \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                  \
    X(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10)                     \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                               \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                                     \
    X(CU_POINTER_ATTRIBUTE_MAPPED, 13)                                         \
    X(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 14)                           \
    X(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 15)                     \
    X(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 16)                                   \
    X(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 17)                                 \
    X(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, 18)                                   \
    X(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, 19)                              \
    X(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, 20)

#define CUDA_ABI_CONSTANTS(X)                                                  \
    CUDA_ABI_DEVICE_ATTRIBUTES(X)                                              \
    CUDA_ABI_POINTER_ATTRIBUTES(X)                                             \
    X(CU_MEMORYTYPE_HOST, 1)                                                   \
    X(CU_MEMORYTYPE_DEVICE, 2)                                                 \
    X(CU_MEMORYTYPE_ARRAY, 3)                                                  \
    X(CU_MEMORYTYPE_UNIFIED, 4)                                                \
    X(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1)                             \
    X(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 2)                             \
    X(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 3)                      \
    X(CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, 4)                  \
    X(CU_CTX_FLAGS_MASK, 0xff)                                                 \
    X(CU_CTX_SYNC_MEMOPS, 0x80)                                                \
    X(CU_STREAM_NON_BLOCKING, 1)                                               \
    X(CU_EVENT_BLOCKING_SYNC, 1)                                               \
    X(CU_EVENT_DISABLE_TIMING, 2)                                              \
    X(CU_EVENT_INTERPROCESS, 4)                                                \
    X(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1)                                   \
    X(CU_STREAM_WAIT_VALUE_GEQ, 0)                                             \
    X(CU_STREAM_WAIT_VALUE_EQ, 1)                                              \
    X(CU_STREAM_WAIT_VALUE_AND, 2)                                             \
    X(CU_STREAM_WAIT_VALUE_FLUSH, 1 << 30)                                     \
    X(CU_STREAM_WAIT_VALUE_NOR, 3)                                             \
    X(CU_STREAM_MEM_OP_WAIT_VALUE_32, 1)                                       \
    X(CU_STREAM_MEM_OP_WRITE_VALUE_32, 2)                                      \
    X(CU_STREAM_MEM_OP_WAIT_VALUE_64, 4)                                       \
    X(CU_STREAM_MEM_OP_WRITE_VALUE_64, 5)                                      \
    X(CU_MEM_ATTACH_GLOBAL, 1)                                                 \
    X(CU_MEM_ALLOCATION_TYPE_PINNED, 1)                                        \
    X(CU_MEM_LOCATION_TYPE_DEVICE, 1)                                          \
    X(CU_MEM_LOCATION_TYPE_HOST, 2)                                            \
    X(CU_MEM_HANDLE_TYPE_NONE, 0)                                              \
    X(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)                             \
    X(CU_MEM_ACCESS_FLAGS_PROT_NONE, 0)                                        \
    X(CU_MEM_ACCESS_FLAGS_PROT_READ, 1)                                        \
    X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)                                   \
    X(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1)                                  \
    X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4)                                    \
    X(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5)                                 \
    X(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 7)                                     \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                              \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                  \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                           \
    X(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                                     \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                        \
    X(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE, 0)                              \
    X(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER, 100)                           \
    X(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES, 200)                     \
    X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST, 1)                          \
    X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, 0)                   \
    X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER, 100)                           \
    X(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES, 200)                     \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0)                                          \
    X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)                                 \
    X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)                           \
    X(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, 2)

/* X(name, value). Macros of cuda.h. */
#define CUDA_ABI_MACROS(X)                                                     \
    X(CU_IPC_HANDLE_SIZE, 64)                                                  \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                             \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2)                                            \
    X(CU_MEMHOSTALLOC_WRITECOMBINED, 4)                                        \
    X(CU_MEMHOSTREGISTER_PORTABLE, 1)                                          \
    X(CU_MEMHOSTREGISTER_DEVICEMAP, 2)                                         \
    X(CU_MEMHOSTREGISTER_READ_ONLY, 8)

/* X(type, bytes) */
#define CUDA_ABI_SIZES(X)                                                      \
    X(CUdeviceptr, 8)                                                          \
    X(CUdevice, 4)                                                             \
    X(CUuuid, 16)                                                              \
    X(CUipcMemHandle, 64)                                                      \
    X(CUipcEventHandle, 64)                                                    \
    X(CUmemGenericAllocationHandle, 8)                                         \
    X(CUmemLocation, 8)                                                        \
    X(CUmemAllocationProp, 32)                                                 \
    X(CUmemAccessDesc, 12)                                                     \
    X(CUmemPoolPtrExportData, 64)                                              \
    X(CUmemPoolProps, 88)                                                      \
    X(CUDA_MEMCPY2D, 128)                                                      \
    X(CUstreamBatchMemOpParams, 48)

/* X(type, member, offset) */
#define CUDA_ABI_OFFSETS(X)                                                    \
    X(CUmemAllocationProp, requestedHandleTypes, 4)                            \
    X(CUmemAllocationProp, location, 8)                                        \
    X(CUmemAllocationProp, allocFlags, 24)                                     \
    X(CUmemAccessDesc, flags, 8)                                               \
    X(CUmemPoolProps, handleTypes, 4)                                          \
    X(CUmemPoolProps, location, 8)                                             \
    X(CUmemPoolProps, maxSize, 24)                                             \
    X(CUDA_MEMCPY2D, srcMemoryType, 16)                                        \
    X(CUDA_MEMCPY2D, srcHost, 24)                                              \
    X(CUDA_MEMCPY2D, srcDevice, 32)                                            \
    X(CUDA_MEMCPY2D, srcPitch, 48)                                             \
    X(CUDA_MEMCPY2D, dstXInBytes, 56)                                          \
    X(CUDA_MEMCPY2D, dstMemoryType, 72)                                        \
    X(CUDA_MEMCPY2D, dstHost, 80)                                              \
    X(CUDA_MEMCPY2D, dstDevice, 88)                                            \
    X(CUDA_MEMCPY2D, dstPitch, 104)                                            \
    X(CUDA_MEMCPY2D, WidthInBytes, 112)                                        \
    X(CUDA_MEMCPY2D, Height, 120)                                              \
    X(CUstreamBatchMemOpParams, waitValue.address, 8)                          \
    X(CUstreamBatchMemOpParams, waitValue.value64, 16)                         \
    X(CUstreamBatchMemOpParams, waitValue.flags, 24)                           \
    X(CUstreamBatchMemOpParams, writeValue.flags, 24)

#endif
