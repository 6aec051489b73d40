// Compiled where a CUDA toolkit is installed: every declaration of ours is the toolkit's. A translation unit that compiles
// is the proof; it has no code.
#include <cuda_runtime_api.h>  // the toolkit's
// The toolkit's header has these as empty words for host compilers.
#undef __device__
#undef __global__
#undef __host__

#include <cstddef>
#include <type_traits>

#include "kernels/emulated/include/cuda_errors.inc"
#include "kernels/emulated/include/cuda_functions.inc"

namespace ours {
#include "kernels/emulated/include/cuda_types.inc"
}  // namespace ours

// clang-format off
#define SAME_FUNCTION(result, name, parameters) \
  static_assert(std::is_same_v<decltype(&::name), result(*) parameters>, #name);
TENSORD_CUDA_FUNCTIONS(SAME_FUNCTION)

#define SAME_ERROR(name, value) static_assert(static_cast<int>(::name) == value, #name);
TENSORD_CUDA_ERRORS(SAME_ERROR)

#define SAME_VALUE(name) static_assert(static_cast<int>(ours::name) == static_cast<int>(::name), #name);
SAME_VALUE(cudaMemcpyHostToHost) SAME_VALUE(cudaMemcpyHostToDevice) SAME_VALUE(cudaMemcpyDeviceToHost)
SAME_VALUE(cudaMemcpyDeviceToDevice) SAME_VALUE(cudaMemcpyDefault) SAME_VALUE(cudaMemoryTypeUnregistered)
SAME_VALUE(cudaMemoryTypeHost) SAME_VALUE(cudaMemoryTypeDevice) SAME_VALUE(cudaMemoryTypeManaged)
SAME_VALUE(cudaDevAttrMaxThreadsPerBlock) SAME_VALUE(cudaDevAttrMaxBlockDimX) SAME_VALUE(cudaDevAttrMaxBlockDimY)
SAME_VALUE(cudaDevAttrMaxBlockDimZ) SAME_VALUE(cudaDevAttrMaxGridDimX) SAME_VALUE(cudaDevAttrMaxGridDimY)
SAME_VALUE(cudaDevAttrMaxGridDimZ) SAME_VALUE(cudaDevAttrMaxSharedMemoryPerBlock) SAME_VALUE(cudaDevAttrWarpSize)
SAME_VALUE(cudaDevAttrClockRate) SAME_VALUE(cudaDevAttrMultiProcessorCount) SAME_VALUE(cudaDevAttrIntegrated)
SAME_VALUE(cudaDevAttrCanMapHostMemory) SAME_VALUE(cudaDevAttrComputeMode) SAME_VALUE(cudaDevAttrConcurrentKernels)
SAME_VALUE(cudaDevAttrEccEnabled) SAME_VALUE(cudaDevAttrPciBusId) SAME_VALUE(cudaDevAttrPciDeviceId)
SAME_VALUE(cudaDevAttrMemoryClockRate) SAME_VALUE(cudaDevAttrGlobalMemoryBusWidth) SAME_VALUE(cudaDevAttrL2CacheSize)
SAME_VALUE(cudaDevAttrMaxThreadsPerMultiProcessor) SAME_VALUE(cudaDevAttrAsyncEngineCount)
SAME_VALUE(cudaDevAttrUnifiedAddressing) SAME_VALUE(cudaDevAttrPciDomainId)
SAME_VALUE(cudaDevAttrComputeCapabilityMajor) SAME_VALUE(cudaDevAttrComputeCapabilityMinor)
SAME_VALUE(cudaDevAttrStreamPrioritiesSupported) SAME_VALUE(cudaDevAttrMaxSharedMemoryPerMultiprocessor)
SAME_VALUE(cudaDevAttrMaxRegistersPerMultiprocessor) SAME_VALUE(cudaDevAttrManagedMemory)
SAME_VALUE(cudaDevAttrPageableMemoryAccess) SAME_VALUE(cudaDevAttrCooperativeLaunch)
SAME_VALUE(cudaDevAttrMaxSharedMemoryPerBlockOptin) SAME_VALUE(cudaDevAttrHostRegisterSupported)
SAME_VALUE(cudaDevAttrMaxBlocksPerMultiprocessor) SAME_VALUE(cudaDevAttrReservedSharedMemoryPerBlock)
SAME_VALUE(cudaDevAttrMemoryPoolsSupported) SAME_VALUE(cudaDevAttrHostNumaId)
SAME_VALUE(cudaFuncAttributeMaxDynamicSharedMemorySize) SAME_VALUE(cudaFuncAttributePreferredSharedMemoryCarveout)
SAME_VALUE(cudaMemPoolReuseFollowEventDependencies) SAME_VALUE(cudaMemPoolReuseAllowOpportunistic)
SAME_VALUE(cudaMemPoolReuseAllowInternalDependencies) SAME_VALUE(cudaMemPoolAttrReleaseThreshold)
SAME_VALUE(cudaMemPoolAttrReservedMemCurrent) SAME_VALUE(cudaMemPoolAttrReservedMemHigh)
SAME_VALUE(cudaMemPoolAttrUsedMemCurrent) SAME_VALUE(cudaMemPoolAttrUsedMemHigh)
SAME_VALUE(cudaMemAllocationTypeInvalid) SAME_VALUE(cudaMemAllocationTypePinned) SAME_VALUE(cudaMemHandleTypeNone)
SAME_VALUE(cudaMemHandleTypePosixFileDescriptor) SAME_VALUE(cudaMemLocationTypeInvalid)
SAME_VALUE(cudaMemLocationTypeDevice) SAME_VALUE(cudaMemLocationTypeHost) SAME_VALUE(cudaMemAccessFlagsProtNone)
SAME_VALUE(cudaMemAccessFlagsProtRead) SAME_VALUE(cudaMemAccessFlagsProtReadWrite)

#define SAME_FIELD(type, field)                                                       \
  static_assert(offsetof(ours::type, field) == offsetof(::type, field), #type "." #field); \
  static_assert(sizeof(ours::type::field) == sizeof(::type::field), #type "." #field);
#define SAME_SIZE(type)                                 \
  static_assert(sizeof(ours::type) == sizeof(::type) && alignof(ours::type) == alignof(::type), #type);
SAME_SIZE(uint3)
SAME_FIELD(uint3, x) SAME_FIELD(uint3, y) SAME_FIELD(uint3, z)
SAME_SIZE(dim3)
SAME_FIELD(dim3, x) SAME_FIELD(dim3, y) SAME_FIELD(dim3, z)
SAME_SIZE(CUuuid_st)
SAME_FIELD(CUuuid_st, bytes)
SAME_SIZE(cudaPointerAttributes)
SAME_FIELD(cudaPointerAttributes, type) SAME_FIELD(cudaPointerAttributes, device)
SAME_FIELD(cudaPointerAttributes, devicePointer) SAME_FIELD(cudaPointerAttributes, hostPointer)
SAME_FIELD(cudaPointerAttributes, reserved)
SAME_SIZE(cudaDeviceProp)
SAME_FIELD(cudaDeviceProp, name) SAME_FIELD(cudaDeviceProp, uuid) SAME_FIELD(cudaDeviceProp, luid)
SAME_FIELD(cudaDeviceProp, luidDeviceNodeMask) SAME_FIELD(cudaDeviceProp, totalGlobalMem)
SAME_FIELD(cudaDeviceProp, sharedMemPerBlock) SAME_FIELD(cudaDeviceProp, regsPerBlock)
SAME_FIELD(cudaDeviceProp, warpSize) SAME_FIELD(cudaDeviceProp, memPitch)
SAME_FIELD(cudaDeviceProp, maxThreadsPerBlock) SAME_FIELD(cudaDeviceProp, maxThreadsDim)
SAME_FIELD(cudaDeviceProp, maxGridSize) SAME_FIELD(cudaDeviceProp, totalConstMem) SAME_FIELD(cudaDeviceProp, major)
SAME_FIELD(cudaDeviceProp, minor) SAME_FIELD(cudaDeviceProp, textureAlignment)
SAME_FIELD(cudaDeviceProp, texturePitchAlignment) SAME_FIELD(cudaDeviceProp, multiProcessorCount)
SAME_FIELD(cudaDeviceProp, integrated) SAME_FIELD(cudaDeviceProp, canMapHostMemory)
SAME_FIELD(cudaDeviceProp, maxTexture1D) SAME_FIELD(cudaDeviceProp, maxTexture1DMipmap)
SAME_FIELD(cudaDeviceProp, maxTexture2D) SAME_FIELD(cudaDeviceProp, maxTexture2DMipmap)
SAME_FIELD(cudaDeviceProp, maxTexture2DLinear) SAME_FIELD(cudaDeviceProp, maxTexture2DGather)
SAME_FIELD(cudaDeviceProp, maxTexture3D) SAME_FIELD(cudaDeviceProp, maxTexture3DAlt)
SAME_FIELD(cudaDeviceProp, maxTextureCubemap) SAME_FIELD(cudaDeviceProp, maxTexture1DLayered)
SAME_FIELD(cudaDeviceProp, maxTexture2DLayered) SAME_FIELD(cudaDeviceProp, maxTextureCubemapLayered)
SAME_FIELD(cudaDeviceProp, maxSurface1D) SAME_FIELD(cudaDeviceProp, maxSurface2D)
SAME_FIELD(cudaDeviceProp, maxSurface3D) SAME_FIELD(cudaDeviceProp, maxSurface1DLayered)
SAME_FIELD(cudaDeviceProp, maxSurface2DLayered) SAME_FIELD(cudaDeviceProp, maxSurfaceCubemap)
SAME_FIELD(cudaDeviceProp, maxSurfaceCubemapLayered) SAME_FIELD(cudaDeviceProp, surfaceAlignment)
SAME_FIELD(cudaDeviceProp, concurrentKernels) SAME_FIELD(cudaDeviceProp, ECCEnabled)
SAME_FIELD(cudaDeviceProp, pciBusID) SAME_FIELD(cudaDeviceProp, pciDeviceID) SAME_FIELD(cudaDeviceProp, pciDomainID)
SAME_FIELD(cudaDeviceProp, tccDriver) SAME_FIELD(cudaDeviceProp, asyncEngineCount)
SAME_FIELD(cudaDeviceProp, unifiedAddressing) SAME_FIELD(cudaDeviceProp, memoryBusWidth)
SAME_FIELD(cudaDeviceProp, l2CacheSize) SAME_FIELD(cudaDeviceProp, persistingL2CacheMaxSize)
SAME_FIELD(cudaDeviceProp, maxThreadsPerMultiProcessor) SAME_FIELD(cudaDeviceProp, streamPrioritiesSupported)
SAME_FIELD(cudaDeviceProp, globalL1CacheSupported) SAME_FIELD(cudaDeviceProp, localL1CacheSupported)
SAME_FIELD(cudaDeviceProp, sharedMemPerMultiprocessor) SAME_FIELD(cudaDeviceProp, regsPerMultiprocessor)
SAME_FIELD(cudaDeviceProp, managedMemory) SAME_FIELD(cudaDeviceProp, isMultiGpuBoard)
SAME_FIELD(cudaDeviceProp, multiGpuBoardGroupID) SAME_FIELD(cudaDeviceProp, hostNativeAtomicSupported)
SAME_FIELD(cudaDeviceProp, pageableMemoryAccess) SAME_FIELD(cudaDeviceProp, concurrentManagedAccess)
SAME_FIELD(cudaDeviceProp, computePreemptionSupported) SAME_FIELD(cudaDeviceProp, canUseHostPointerForRegisteredMem)
SAME_FIELD(cudaDeviceProp, cooperativeLaunch) SAME_FIELD(cudaDeviceProp, sharedMemPerBlockOptin)
SAME_FIELD(cudaDeviceProp, pageableMemoryAccessUsesHostPageTables)
SAME_FIELD(cudaDeviceProp, directManagedMemAccessFromHost) SAME_FIELD(cudaDeviceProp, maxBlocksPerMultiProcessor)
SAME_FIELD(cudaDeviceProp, accessPolicyMaxWindowSize) SAME_FIELD(cudaDeviceProp, reservedSharedMemPerBlock)
SAME_FIELD(cudaDeviceProp, hostRegisterSupported) SAME_FIELD(cudaDeviceProp, sparseCudaArraySupported)
SAME_FIELD(cudaDeviceProp, hostRegisterReadOnlySupported)
SAME_FIELD(cudaDeviceProp, timelineSemaphoreInteropSupported) SAME_FIELD(cudaDeviceProp, memoryPoolsSupported)
SAME_FIELD(cudaDeviceProp, gpuDirectRDMASupported) SAME_FIELD(cudaDeviceProp, gpuDirectRDMAFlushWritesOptions)
SAME_FIELD(cudaDeviceProp, gpuDirectRDMAWritesOrdering) SAME_FIELD(cudaDeviceProp, memoryPoolSupportedHandleTypes)
SAME_FIELD(cudaDeviceProp, deferredMappingCudaArraySupported) SAME_FIELD(cudaDeviceProp, ipcEventSupported)
SAME_FIELD(cudaDeviceProp, clusterLaunch) SAME_FIELD(cudaDeviceProp, unifiedFunctionPointers)
SAME_FIELD(cudaDeviceProp, deviceNumaConfig) SAME_FIELD(cudaDeviceProp, deviceNumaId)
SAME_FIELD(cudaDeviceProp, mpsEnabled) SAME_FIELD(cudaDeviceProp, hostNumaId)
SAME_FIELD(cudaDeviceProp, gpuPciDeviceID) SAME_FIELD(cudaDeviceProp, gpuPciSubsystemID)
SAME_FIELD(cudaDeviceProp, hostNumaMultinodeIpcSupported) SAME_FIELD(cudaDeviceProp, reserved)
SAME_SIZE(cudaFuncAttributes)
SAME_FIELD(cudaFuncAttributes, sharedSizeBytes) SAME_FIELD(cudaFuncAttributes, constSizeBytes)
SAME_FIELD(cudaFuncAttributes, localSizeBytes) SAME_FIELD(cudaFuncAttributes, maxThreadsPerBlock)
SAME_FIELD(cudaFuncAttributes, numRegs) SAME_FIELD(cudaFuncAttributes, ptxVersion)
SAME_FIELD(cudaFuncAttributes, binaryVersion) SAME_FIELD(cudaFuncAttributes, cacheModeCA)
SAME_FIELD(cudaFuncAttributes, maxDynamicSharedSizeBytes) SAME_FIELD(cudaFuncAttributes, preferredShmemCarveout)
SAME_FIELD(cudaFuncAttributes, clusterDimMustBeSet) SAME_FIELD(cudaFuncAttributes, requiredClusterWidth)
SAME_FIELD(cudaFuncAttributes, requiredClusterHeight) SAME_FIELD(cudaFuncAttributes, requiredClusterDepth)
SAME_FIELD(cudaFuncAttributes, clusterSchedulingPolicyPreference)
SAME_FIELD(cudaFuncAttributes, nonPortableClusterSizeAllowed) SAME_FIELD(cudaFuncAttributes, reserved)
SAME_SIZE(cudaLaunchConfig_st)
SAME_FIELD(cudaLaunchConfig_st, gridDim) SAME_FIELD(cudaLaunchConfig_st, blockDim)
SAME_FIELD(cudaLaunchConfig_st, dynamicSmemBytes) SAME_FIELD(cudaLaunchConfig_st, stream)
SAME_FIELD(cudaLaunchConfig_st, attrs) SAME_FIELD(cudaLaunchConfig_st, numAttrs)
SAME_SIZE(cudaMemLocation)
SAME_FIELD(cudaMemLocation, type) SAME_FIELD(cudaMemLocation, id)
SAME_SIZE(cudaMemAccessDesc)
SAME_FIELD(cudaMemAccessDesc, location) SAME_FIELD(cudaMemAccessDesc, flags)
SAME_SIZE(cudaMemPoolProps)
SAME_FIELD(cudaMemPoolProps, allocType) SAME_FIELD(cudaMemPoolProps, handleTypes)
SAME_FIELD(cudaMemPoolProps, location) SAME_FIELD(cudaMemPoolProps, win32SecurityAttributes)
SAME_FIELD(cudaMemPoolProps, maxSize) SAME_FIELD(cudaMemPoolProps, usage) SAME_FIELD(cudaMemPoolProps, reserved)

#define SAME_FLAG(name, value) static_assert((name) == (value), #name);
SAME_FLAG(cudaHostAllocPortable, 0x01) SAME_FLAG(cudaHostAllocMapped, 0x02) SAME_FLAG(cudaHostAllocWriteCombined, 0x04)
SAME_FLAG(cudaHostRegisterPortable, 0x01) SAME_FLAG(cudaStreamNonBlocking, 0x01) SAME_FLAG(cudaEventBlockingSync, 0x01)
SAME_FLAG(cudaEventDisableTiming, 0x02) SAME_FLAG(cudaDeviceScheduleSpin, 0x01)
SAME_FLAG(cudaDeviceScheduleYield, 0x02) SAME_FLAG(cudaDeviceScheduleBlockingSync, 0x04)
