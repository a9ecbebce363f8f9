/*
 * The unsupported functions of the driver API. Each returns
 * CUDA_ERROR_NOT_SUPPORTED and counts its calls; `mrail soft status` shows the
 * counts. sgpu_session_t.not_served has the same order.
 */
#ifndef MRAIL_SGPU_NOT_SERVED_H
#define MRAIL_SGPU_NOT_SERVED_H

/* clang-format off */
#define SGPU_NOT_SERVED(X)                                                     \
    X(cuArray3DCreate) X(cuArray3DCreate_v2) X(cuArray3DGetDescriptor)         \
    X(cuArray3DGetDescriptor_v2) X(cuArrayCreate) X(cuArrayCreate_v2)          \
    X(cuArrayDestroy) X(cuArrayGetDescriptor) X(cuArrayGetDescriptor_v2)       \
    X(cuArrayGetMemoryRequirements) X(cuArrayGetPlane)                         \
    X(cuArrayGetSparseProperties) X(cuCheckpointProcessCheckpoint)             \
    X(cuCheckpointProcessGetRestoreThreadId) X(cuCheckpointProcessGetState)    \
    X(cuCheckpointProcessLock) X(cuCheckpointProcessRestore)                   \
    X(cuCheckpointProcessUnlock) X(cuCoredumpGetAttribute)                     \
    X(cuCoredumpGetAttributeGlobal) X(cuCoredumpSetAttribute)                  \
    X(cuCoredumpSetAttributeGlobal) X(cuCtxAttach) X(cuCtxCreate)              \
    X(cuCtxDestroy) X(cuCtxDetach) X(cuCtxFromGreenCtx) X(cuCtxGetCacheConfig) \
    X(cuCtxGetDevResource) X(cuCtxGetDevice_v2) X(cuCtxGetExecAffinity)        \
    X(cuCtxGetLimit) X(cuCtxGetSharedMemConfig) X(cuCtxPopCurrent)             \
    X(cuCtxPushCurrent) X(cuCtxRecordEvent) X(cuCtxResetPersistingL2Cache)     \
    X(cuCtxSetCacheConfig) X(cuCtxSetLimit) X(cuCtxSetSharedMemConfig)         \
    X(cuCtxSynchronize_v2) X(cuCtxWaitEvent) X(cuDestroyExternalMemory)        \
    X(cuDestroyExternalSemaphore) X(cuDevResourceGenerateDesc)                 \
    X(cuDevSmResourceSplitByCount) X(cuDeviceGetDevResource)                   \
    X(cuDeviceGetExecAffinitySupport) X(cuDeviceGetGraphMemAttribute)          \
    X(cuDeviceGetHostAtomicCapabilities) X(cuDeviceGetLuid)                    \
    X(cuDeviceGetNvSciSyncAttributes) X(cuDeviceGetP2PAtomicCapabilities)      \
    X(cuDeviceGetProperties) X(cuDeviceGetTexture1DLinearMaxWidth)             \
    X(cuDeviceGraphMemTrim) X(cuDeviceRegisterAsyncNotification)               \
    X(cuDeviceSetGraphMemAttribute) X(cuDeviceTotalMem)                        \
    X(cuDeviceUnregisterAsyncNotification) X(cuEventDestroy)                   \
    X(cuEventRecordWithFlags_ptsz) X(cuEventRecord_ptsz)                       \
    X(cuExternalMemoryGetMappedBuffer)                                         \
    X(cuExternalMemoryGetMappedMipmappedArray)                                 \
    X(cuFuncGetName) X(cuFuncGetParamInfo) X(cuFuncIsLoaded) X(cuFuncLoad)     \
    X(cuFuncSetAttribute) X(cuFuncSetBlockShape) X(cuFuncSetCacheConfig)       \
    X(cuFuncSetSharedMemConfig) X(cuFuncSetSharedSize) X(cuGetExportTable)     \
    X(cuGraphAddBatchMemOpNode) X(cuGraphAddChildGraphNode)                    \
    X(cuGraphAddDependencies) X(cuGraphAddDependencies_v2)                     \
    X(cuGraphAddEmptyNode) X(cuGraphAddEventRecordNode)                        \
    X(cuGraphAddEventWaitNode) X(cuGraphAddExternalSemaphoresSignalNode)       \
    X(cuGraphAddExternalSemaphoresWaitNode) X(cuGraphAddHostNode)              \
    X(cuGraphAddKernelNode) X(cuGraphAddKernelNode_v2)                         \
    X(cuGraphAddMemAllocNode) X(cuGraphAddMemFreeNode) X(cuGraphAddMemcpyNode) \
    X(cuGraphAddMemsetNode) X(cuGraphAddNode) X(cuGraphAddNode_v2)             \
    X(cuGraphBatchMemOpNodeGetParams) X(cuGraphBatchMemOpNodeSetParams)        \
    X(cuGraphChildGraphNodeGetGraph) X(cuGraphClone)                           \
    X(cuGraphConditionalHandleCreate) X(cuGraphCreate) X(cuGraphDebugDotPrint) \
    X(cuGraphDestroy) X(cuGraphDestroyNode) X(cuGraphEventRecordNodeGetEvent)  \
    X(cuGraphEventRecordNodeSetEvent) X(cuGraphEventWaitNodeGetEvent)          \
    X(cuGraphEventWaitNodeSetEvent) X(cuGraphExecBatchMemOpNodeSetParams)      \
    X(cuGraphExecChildGraphNodeSetParams) X(cuGraphExecDestroy)                \
    X(cuGraphExecEventRecordNodeSetEvent) X(cuGraphExecEventWaitNodeSetEvent)  \
    X(cuGraphExecExternalSemaphoresSignalNodeSetParams)                        \
    X(cuGraphExecExternalSemaphoresWaitNodeSetParams) X(cuGraphExecGetFlags)   \
    X(cuGraphExecHostNodeSetParams) X(cuGraphExecKernelNodeSetParams)          \
    X(cuGraphExecKernelNodeSetParams_v2) X(cuGraphExecMemcpyNodeSetParams)     \
    X(cuGraphExecMemsetNodeSetParams) X(cuGraphExecNodeSetParams)              \
    X(cuGraphExecUpdate) X(cuGraphExecUpdate_v2)                               \
    X(cuGraphExternalSemaphoresSignalNodeGetParams)                            \
    X(cuGraphExternalSemaphoresSignalNodeSetParams)                            \
    X(cuGraphExternalSemaphoresWaitNodeGetParams)                              \
    X(cuGraphExternalSemaphoresWaitNodeSetParams) X(cuGraphGetEdges)           \
    X(cuGraphGetEdges_v2) X(cuGraphGetNodes) X(cuGraphGetRootNodes)            \
    X(cuGraphHostNodeGetParams) X(cuGraphHostNodeSetParams)                    \
    X(cuGraphInstantiate) X(cuGraphInstantiateWithFlags)                       \
    X(cuGraphInstantiateWithParams) X(cuGraphInstantiateWithParams_ptsz)       \
    X(cuGraphInstantiate_v2) X(cuGraphKernelNodeCopyAttributes)                \
    X(cuGraphKernelNodeGetAttribute) X(cuGraphKernelNodeGetParams)             \
    X(cuGraphKernelNodeGetParams_v2) X(cuGraphKernelNodeSetAttribute)          \
    X(cuGraphKernelNodeSetParams) X(cuGraphKernelNodeSetParams_v2)             \
    X(cuGraphLaunch) X(cuGraphLaunch_ptsz) X(cuGraphMemAllocNodeGetParams)     \
    X(cuGraphMemFreeNodeGetParams) X(cuGraphMemcpyNodeGetParams)               \
    X(cuGraphMemcpyNodeSetParams) X(cuGraphMemsetNodeGetParams)                \
    X(cuGraphMemsetNodeSetParams) X(cuGraphNodeFindInClone)                    \
    X(cuGraphNodeGetDependencies) X(cuGraphNodeGetDependencies_v2)             \
    X(cuGraphNodeGetDependentNodes) X(cuGraphNodeGetDependentNodes_v2)         \
    X(cuGraphNodeGetEnabled) X(cuGraphNodeGetType) X(cuGraphNodeSetEnabled)    \
    X(cuGraphNodeSetParams) X(cuGraphReleaseUserObject)                        \
    X(cuGraphRemoveDependencies) X(cuGraphRemoveDependencies_v2)               \
    X(cuGraphRetainUserObject) X(cuGraphUpload) X(cuGraphUpload_ptsz)          \
    X(cuGraphicsMapResources) X(cuGraphicsMapResources_ptsz)                   \
    X(cuGraphicsResourceGetMappedMipmappedArray)                               \
    X(cuGraphicsResourceGetMappedPointer)                                      \
    X(cuGraphicsResourceGetMappedPointer_v2) X(cuGraphicsResourceSetMapFlags)  \
    X(cuGraphicsResourceSetMapFlags_v2) X(cuGraphicsSubResourceGetMappedArray) \
    X(cuGraphicsUnmapResources) X(cuGraphicsUnmapResources_ptsz)               \
    X(cuGraphicsUnregisterResource) X(cuGreenCtxCreate) X(cuGreenCtxDestroy)   \
    X(cuGreenCtxGetDevResource) X(cuGreenCtxGetId) X(cuGreenCtxRecordEvent)    \
    X(cuGreenCtxStreamCreate) X(cuGreenCtxWaitEvent) X(cuImportExternalMemory) \
    X(cuImportExternalSemaphore) X(cuKernelGetAttribute)                       \
    X(cuKernelGetFunction) X(cuKernelGetLibrary) X(cuKernelGetName)            \
    X(cuKernelGetParamInfo) X(cuKernelSetAttribute) X(cuKernelSetCacheConfig)  \
    X(cuLaunch) X(cuLaunchCooperativeKernelMultiDevice)                        \
    X(cuLaunchCooperativeKernel_ptsz) X(cuLaunchGrid) X(cuLaunchGridAsync)     \
    X(cuLaunchHostFunc_ptsz) X(cuLaunchKernelEx) X(cuLaunchKernelEx_ptsz)      \
    X(cuLaunchKernel_ptsz) X(cuLibraryEnumerateKernels) X(cuLibraryGetGlobal)  \
    X(cuLibraryGetKernel) X(cuLibraryGetKernelCount) X(cuLibraryGetManaged)    \
    X(cuLibraryGetModule) X(cuLibraryGetUnifiedFunction) X(cuLibraryLoadData)  \
    X(cuLibraryLoadFromFile) X(cuLibraryUnload) X(cuLinkAddData)               \
    X(cuLinkAddData_v2) X(cuLinkAddFile) X(cuLinkAddFile_v2) X(cuLinkComplete) \
    X(cuLinkCreate) X(cuLinkCreate_v2) X(cuLinkDestroy) X(cuLogsCurrent)       \
    X(cuLogsDumpToFile) X(cuLogsDumpToMemory) X(cuLogsRegisterCallback)        \
    X(cuLogsUnregisterCallback) X(cuMemAdvise) X(cuMemAdvise_v2) X(cuMemAlloc) \
    X(cuMemAllocAsync_ptsz) X(cuMemAllocFromPoolAsync_ptsz) X(cuMemAllocHost)  \
    X(cuMemAllocPitch) X(cuMemBatchDecompressAsync)                            \
    X(cuMemBatchDecompressAsync_ptsz) X(cuMemDiscardAndPrefetchBatchAsync)     \
    X(cuMemDiscardAndPrefetchBatchAsync_ptsz) X(cuMemDiscardBatchAsync)        \
    X(cuMemDiscardBatchAsync_ptsz) X(cuMemFree) X(cuMemFreeAsync_ptsz)         \
    X(cuMemGetAddressRange) X(cuMemGetDefaultMemPool) X(cuMemGetInfo)          \
    X(cuMemGetMemPool) X(cuMemHostGetDevicePointer) X(cuMemMapArrayAsync)      \
    X(cuMemMapArrayAsync_ptsz) X(cuMemPoolGetAccess) X(cuMemPoolSetAccess)     \
    X(cuMemPrefetchAsync) X(cuMemPrefetchAsync_ptsz) X(cuMemPrefetchAsync_v2)  \
    X(cuMemPrefetchAsync_v2_ptsz) X(cuMemPrefetchBatchAsync)                   \
    X(cuMemPrefetchBatchAsync_ptsz) X(cuMemRangeGetAttribute)                  \
    X(cuMemRangeGetAttributes) X(cuMemSetMemPool) X(cuMemcpy2D)                \
    X(cuMemcpy2DAsync) X(cuMemcpy2DAsync_v2_ptsz) X(cuMemcpy2DUnaligned)       \
    X(cuMemcpy2DUnaligned_v2_ptds) X(cuMemcpy2D_v2_ptds) X(cuMemcpy3D)         \
    X(cuMemcpy3DAsync) X(cuMemcpy3DAsync_v2) X(cuMemcpy3DAsync_v2_ptsz)        \
    X(cuMemcpy3DBatchAsync) X(cuMemcpy3DBatchAsync_ptsz)                       \
    X(cuMemcpy3DBatchAsync_v2) X(cuMemcpy3DBatchAsync_v2_ptsz)                 \
    X(cuMemcpy3DPeer) X(cuMemcpy3DPeerAsync) X(cuMemcpy3DPeerAsync_ptsz)       \
    X(cuMemcpy3DPeer_ptds) X(cuMemcpy3D_v2) X(cuMemcpy3D_v2_ptds)              \
    X(cuMemcpyAsync_ptsz) X(cuMemcpyAtoA) X(cuMemcpyAtoA_v2)                   \
    X(cuMemcpyAtoA_v2_ptds) X(cuMemcpyAtoD) X(cuMemcpyAtoD_v2)                 \
    X(cuMemcpyAtoD_v2_ptds) X(cuMemcpyAtoH) X(cuMemcpyAtoHAsync)               \
    X(cuMemcpyAtoHAsync_v2) X(cuMemcpyAtoHAsync_v2_ptsz) X(cuMemcpyAtoH_v2)    \
    X(cuMemcpyAtoH_v2_ptds) X(cuMemcpyBatchAsync) X(cuMemcpyBatchAsync_ptsz)   \
    X(cuMemcpyBatchAsync_v2) X(cuMemcpyBatchAsync_v2_ptsz) X(cuMemcpyDtoA)     \
    X(cuMemcpyDtoA_v2) X(cuMemcpyDtoA_v2_ptds) X(cuMemcpyDtoD)                 \
    X(cuMemcpyDtoDAsync) X(cuMemcpyDtoDAsync_v2_ptsz) X(cuMemcpyDtoD_v2_ptds)  \
    X(cuMemcpyDtoH) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoHAsync_v2_ptsz)          \
    X(cuMemcpyDtoH_v2_ptds) X(cuMemcpyHtoA) X(cuMemcpyHtoAAsync)               \
    X(cuMemcpyHtoAAsync_v2) X(cuMemcpyHtoAAsync_v2_ptsz) X(cuMemcpyHtoA_v2)    \
    X(cuMemcpyHtoA_v2_ptds) X(cuMemcpyHtoD) X(cuMemcpyHtoDAsync)               \
    X(cuMemcpyHtoDAsync_v2_ptsz) X(cuMemcpyHtoD_v2_ptds)                       \
    X(cuMemcpyPeerAsync_ptsz) X(cuMemcpyPeer_ptds) X(cuMemcpy_ptds)            \
    X(cuMemsetD16) X(cuMemsetD16Async_ptsz) X(cuMemsetD16_v2_ptds)             \
    X(cuMemsetD2D16) X(cuMemsetD2D16Async) X(cuMemsetD2D16Async_ptsz)          \
    X(cuMemsetD2D16_v2) X(cuMemsetD2D16_v2_ptds) X(cuMemsetD2D32)              \
    X(cuMemsetD2D32Async) X(cuMemsetD2D32Async_ptsz) X(cuMemsetD2D32_v2)       \
    X(cuMemsetD2D32_v2_ptds) X(cuMemsetD2D8) X(cuMemsetD2D8Async)              \
    X(cuMemsetD2D8Async_ptsz) X(cuMemsetD2D8_v2) X(cuMemsetD2D8_v2_ptds)       \
    X(cuMemsetD32) X(cuMemsetD32Async_ptsz) X(cuMemsetD32_v2_ptds)             \
    X(cuMemsetD8) X(cuMemsetD8Async_ptsz) X(cuMemsetD8_v2_ptds)                \
    X(cuMipmappedArrayCreate) X(cuMipmappedArrayDestroy)                       \
    X(cuMipmappedArrayGetLevel) X(cuMipmappedArrayGetMemoryRequirements)       \
    X(cuMipmappedArrayGetSparseProperties) X(cuModuleEnumerateFunctions)       \
    X(cuModuleGetFunctionCount) X(cuModuleGetGlobal) X(cuModuleGetGlobal_v2)   \
    X(cuModuleGetLoadingMode) X(cuModuleGetSurfRef) X(cuModuleGetTexRef)       \
    X(cuModuleLoad) X(cuModuleLoadFatBinary) X(cuMulticastAddDevice)           \
    X(cuMulticastBindAddr) X(cuMulticastBindMem) X(cuMulticastCreate)          \
    X(cuMulticastGetGranularity) X(cuMulticastUnbind)                          \
    X(cuOccupancyAvailableDynamicSMemPerBlock)                                 \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)                    \
    X(cuOccupancyMaxActiveClusters) X(cuOccupancyMaxPotentialBlockSize)        \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags)                               \
    X(cuOccupancyMaxPotentialClusterSize) X(cuParamSetSize)                    \
    X(cuParamSetTexRef) X(cuParamSetf) X(cuParamSeti) X(cuParamSetv)           \
    X(cuProfilerInitialize) X(cuProfilerStart) X(cuProfilerStop)               \
    X(cuSignalExternalSemaphoresAsync) X(cuSignalExternalSemaphoresAsync_ptsz) \
    X(cuStreamAddCallback_ptsz) X(cuStreamAttachMemAsync)                      \
    X(cuStreamAttachMemAsync_ptsz) X(cuStreamBatchMemOp_ptsz)                  \
    X(cuStreamBatchMemOp_v2_ptsz) X(cuStreamBeginCapture)                      \
    X(cuStreamBeginCaptureToGraph) X(cuStreamBeginCaptureToGraph_ptsz)         \
    X(cuStreamBeginCapture_ptsz) X(cuStreamBeginCapture_v2)                    \
    X(cuStreamBeginCapture_v2_ptsz) X(cuStreamCopyAttributes)                  \
    X(cuStreamCopyAttributes_ptsz) X(cuStreamDestroy) X(cuStreamEndCapture)    \
    X(cuStreamEndCapture_ptsz) X(cuStreamGetAttribute)                         \
    X(cuStreamGetAttribute_ptsz) X(cuStreamGetCaptureInfo)                     \
    X(cuStreamGetCaptureInfo_ptsz) X(cuStreamGetCaptureInfo_v2)                \
    X(cuStreamGetCaptureInfo_v2_ptsz) X(cuStreamGetCaptureInfo_v3)             \
    X(cuStreamGetCaptureInfo_v3_ptsz) X(cuStreamGetCtx_ptsz)                   \
    X(cuStreamGetCtx_v2) X(cuStreamGetCtx_v2_ptsz) X(cuStreamGetDevice)        \
    X(cuStreamGetDevice_ptsz) X(cuStreamGetFlags_ptsz) X(cuStreamGetGreenCtx)  \
    X(cuStreamGetId_ptsz) X(cuStreamGetPriority_ptsz)                          \
    X(cuStreamIsCapturing_ptsz) X(cuStreamQuery_ptsz) X(cuStreamSetAttribute)  \
    X(cuStreamSetAttribute_ptsz) X(cuStreamSynchronize_ptsz)                   \
    X(cuStreamUpdateCaptureDependencies)                                       \
    X(cuStreamUpdateCaptureDependencies_ptsz)                                  \
    X(cuStreamUpdateCaptureDependencies_v2)                                    \
    X(cuStreamUpdateCaptureDependencies_v2_ptsz) X(cuStreamWaitEvent_ptsz)     \
    X(cuStreamWaitValue32_ptsz) X(cuStreamWaitValue32_v2_ptsz)                 \
    X(cuStreamWaitValue64_ptsz) X(cuStreamWaitValue64_v2_ptsz)                 \
    X(cuStreamWriteValue32_ptsz) X(cuStreamWriteValue32_v2_ptsz)               \
    X(cuStreamWriteValue64_ptsz) X(cuStreamWriteValue64_v2_ptsz)               \
    X(cuSurfObjectCreate) X(cuSurfObjectDestroy)                               \
    X(cuSurfObjectGetResourceDesc) X(cuSurfRefGetArray) X(cuSurfRefSetArray)   \
    X(cuTensorMapEncodeIm2col) X(cuTensorMapEncodeIm2colWide)                  \
    X(cuTensorMapEncodeTiled) X(cuTensorMapReplaceAddress)                     \
    X(cuTexObjectCreate) X(cuTexObjectDestroy) X(cuTexObjectGetResourceDesc)   \
    X(cuTexObjectGetResourceViewDesc) X(cuTexObjectGetTextureDesc)             \
    X(cuTexRefCreate) X(cuTexRefDestroy) X(cuTexRefGetAddress)                 \
    X(cuTexRefGetAddressMode) X(cuTexRefGetAddress_v2) X(cuTexRefGetArray)     \
    X(cuTexRefGetBorderColor) X(cuTexRefGetFilterMode) X(cuTexRefGetFlags)     \
    X(cuTexRefGetFormat) X(cuTexRefGetMaxAnisotropy)                           \
    X(cuTexRefGetMipmapFilterMode) X(cuTexRefGetMipmapLevelBias)               \
    X(cuTexRefGetMipmapLevelClamp) X(cuTexRefGetMipmappedArray)                \
    X(cuTexRefSetAddress) X(cuTexRefSetAddress2D) X(cuTexRefSetAddress2D_v2)   \
    X(cuTexRefSetAddress2D_v3) X(cuTexRefSetAddressMode)                       \
    X(cuTexRefSetAddress_v2) X(cuTexRefSetArray) X(cuTexRefSetBorderColor)     \
    X(cuTexRefSetFilterMode) X(cuTexRefSetFlags) X(cuTexRefSetFormat)          \
    X(cuTexRefSetMaxAnisotropy) X(cuTexRefSetMipmapFilterMode)                 \
    X(cuTexRefSetMipmapLevelBias) X(cuTexRefSetMipmapLevelClamp)               \
    X(cuTexRefSetMipmappedArray) X(cuThreadExchangeStreamCaptureMode)          \
    X(cuUserObjectCreate) X(cuUserObjectRelease) X(cuUserObjectRetain)         \
    X(cuWaitExternalSemaphoresAsync) X(cuWaitExternalSemaphoresAsync_ptsz)

#endif
