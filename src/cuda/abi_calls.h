/*
 * Prototypes of the driver functions that mrail calls or software GPUs
 * implement, under their symbol names. The types come from abi.h or from
 * cuda.h.
 *
 * The suffix _v2 marks the second version of a function. Macros in cuda.h and
 * abi.h map the plain name to the second version.
 */
#ifndef MRAIL_CUDA_ABI_CALLS_H
#define MRAIL_CUDA_ABI_CALLS_H

#pragma GCC visibility push(default)

/* Initialisation, errors, entry points */
CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version_p);
CUresult cuGetErrorString(CUresult error, const char **text_p);
CUresult cuGetErrorName(CUresult error, const char **name_p);
CUresult cuGetProcAddress_v2(const char *symbol, void **func_p, int version,
                             cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status_p);

/* Devices */
CUresult cuDeviceGet(CUdevice *dev_p, int ordinal);
CUresult cuDeviceGetCount(int *count_p);
CUresult cuDeviceGetName(char *name, int size, CUdevice dev);
CUresult cuDeviceGetUuid(CUuuid *uuid_p, CUdevice dev);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid_p, CUdevice dev);
CUresult cuDeviceTotalMem_v2(size_t *bytes_p, CUdevice dev);
CUresult cuDeviceGetAttribute(int *value_p, CUdevice_attribute attribute,
                              CUdevice dev);
CUresult cuDeviceComputeCapability(int *major_p, int *minor_p, CUdevice dev);
CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice dev);
CUresult cuDeviceGetByPCIBusId(CUdevice *dev_p, const char *id);
CUresult cuDeviceCanAccessPeer(int *can_p, CUdevice dev, CUdevice peer);
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope);
CUresult cuDeviceGetP2PAttribute(int *value_p, CUdevice_P2PAttribute attribute,
                                 CUdevice source, CUdevice dest);

/* Contexts */
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx_p, CUdevice dev);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags);
CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags_p,
                                    int *active_p);
CUresult cuCtxCreate_v2(CUcontext *ctx_p, unsigned int flags, CUdevice dev);
CUresult cuCtxCreate_v3(CUcontext *ctx_p, CUexecAffinityParam *params, int num,
                        unsigned int flags, CUdevice dev);
CUresult cuCtxCreate_v4(CUcontext *ctx_p, CUctxCreateParams *params,
                        unsigned int flags, CUdevice dev);
CUresult cuCtxDestroy_v2(CUcontext ctx);
CUresult cuCtxPushCurrent_v2(CUcontext ctx);
CUresult cuCtxPopCurrent_v2(CUcontext *ctx_p);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuCtxGetCurrent(CUcontext *ctx_p);
CUresult cuCtxGetDevice(CUdevice *dev_p);
CUresult cuCtxGetFlags(unsigned int *flags_p);
CUresult cuCtxSetFlags(unsigned int flags);
CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id_p);
CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version_p);
CUresult cuCtxGetStreamPriorityRange(int *least_p, int *greatest_p);
CUresult cuCtxSynchronize(void);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
CUresult cuCtxDisablePeerAccess(CUcontext peer);

/* Memory */
CUresult cuMemGetInfo_v2(size_t *free_p, size_t *total_p);
CUresult cuMemAlloc_v2(CUdeviceptr *address_p, size_t size);
CUresult cuMemAllocPitch_v2(CUdeviceptr *address_p, size_t *pitch_p,
                            size_t width, size_t height, unsigned int element);
CUresult cuMemAllocManaged(CUdeviceptr *address_p, size_t size,
                           unsigned int flags);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base_p, size_t *size_p,
                                 CUdeviceptr address);
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address,
                                       size_t size, CUmemRangeHandleType type,
                                       unsigned long long flags);
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                               CUdeviceptr address);
CUresult cuPointerGetAttributes(unsigned int num, CUpointer_attribute *attrs,
                                void **data, CUdeviceptr address);
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address);

/* Host memory */
CUresult cuMemAllocHost_v2(void **pointer_p, size_t size);
CUresult cuMemHostAlloc(void **pointer_p, size_t size, unsigned int flags);
CUresult cuMemFreeHost(void *pointer);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address_p, void *pointer,
                                      unsigned int flags);
CUresult cuMemHostGetFlags(unsigned int *flags_p, void *pointer);
CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned int flags);
CUresult cuMemHostUnregister(void *pointer);

/* Sharing between processes */
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle_p, CUdeviceptr address);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address_p, CUipcMemHandle handle,
                               unsigned int flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr address);
CUresult cuIpcGetEventHandle(CUipcEventHandle *handle_p, CUevent event);
CUresult cuIpcOpenEventHandle(CUevent *event_p, CUipcEventHandle handle);

/* Virtual memory management */
CUresult cuMemAddressReserve(CUdeviceptr *address_p, size_t size,
                             size_t alignment, CUdeviceptr hint,
                             unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr address, size_t size);
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle_p, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle,
                  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr address, size_t size);
CUresult cuMemSetAccess(CUdeviceptr address, size_t size,
                        const CUmemAccessDesc *descs, size_t num);
CUresult cuMemGetAccess(unsigned long long *flags_p,
                        const CUmemLocation *location, CUdeviceptr address);
CUresult cuMemExportToShareableHandle(void *shareable,
                                      CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type,
                                      unsigned long long flags);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle_p,
                                        void *shareable,
                                        CUmemAllocationHandleType type);
CUresult cuMemGetAllocationGranularity(size_t *bytes_p,
                                       const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option);
CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop_p,
                                       CUmemGenericAllocationHandle handle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle_p,
                                     void *address);

/* Pools */
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_p, CUdevice dev);
CUresult cuDeviceGetMemPool(CUmemoryPool *pool_p, CUdevice dev);
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool);
CUresult cuMemPoolCreate(CUmemoryPool *pool_p, const CUmemPoolProps *props);
CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                               void *value);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                               void *value_p);
CUresult cuMemAllocAsync(CUdeviceptr *address_p, size_t size, CUstream stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address_p, size_t size,
                                 CUmemoryPool pool, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);

/* Copies */
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size,
                       CUstream stream);
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                      CUcontext from_ctx, size_t size);
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                           CUcontext from_ctx, size_t size, CUstream stream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size,
                              CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size,
                              CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size,
                              CUstream stream);
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t num);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t num);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t num);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t num,
                         CUstream stream);
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t num,
                          CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t num,
                          CUstream stream);

/* Streams */
CUresult cuStreamCreate(CUstream *stream_p, unsigned int flags);
CUresult cuStreamCreateWithPriority(CUstream *stream_p, unsigned int flags,
                                    int priority);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags_p);
CUresult cuStreamGetPriority(CUstream stream, int *priority_p);
CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx_p);
CUresult cuStreamGetId(CUstream stream, unsigned long long *id_p);
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status_p);
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback func, void *arg,
                             unsigned int flags);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn func, void *arg);
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address,
                                cuuint32_t value, unsigned int flags);
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address,
                                cuuint64_t value, unsigned int flags);
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address,
                                 cuuint32_t value, unsigned int flags);
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address,
                                 cuuint64_t value, unsigned int flags);
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int num,
                               CUstreamBatchMemOpParams *params,
                               unsigned int flags);

/* Events */
CUresult cuEventCreate(CUevent *event_p, unsigned int flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream,
                                unsigned int flags);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime_v2(float *ms_p, CUevent start, CUevent end);

/* Pools of other processes */
CUresult cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags);
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_p,
                                            void *shareable,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags);
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data_p,
                                CUdeviceptr address);
CUresult cuMemPoolImportPointer(CUdeviceptr *address_p, CUmemoryPool pool,
                                CUmemPoolPtrExportData *data);

/* Kernels */
CUresult cuModuleLoadData(CUmodule *module_p, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *module_p, const void *image,
                            unsigned int num, CUjit_option *options,
                            void **values);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *func_p, CUmodule module,
                             const char *name);
CUresult cuFuncGetAttribute(int *value_p, CUfunction_attribute attribute,
                            CUfunction func);
CUresult cuFuncGetModule(CUmodule *module_p, CUfunction func);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *num_p,
                                                     CUfunction func,
                                                     int threads,
                                                     size_t shared);
CUresult cuLaunchKernel(CUfunction func, unsigned int grid_x,
                        unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared,
                        CUstream stream, void **params, void **extra);
CUresult cuLaunchCooperativeKernel(CUfunction func, unsigned int grid_x,
                                   unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared,
                                   CUstream stream, void **params);

#pragma GCC visibility pop

#endif
