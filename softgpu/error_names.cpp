// SPDX-License-Identifier: Apache-2.0
// The names of CUDA's results, and what each means in a few words.
#include <algorithm>
#include <array>

#include "answer.h"
#include "entry_points.h"

namespace sluice::softgpu {

namespace {

struct Name {
  int code;
  const char* name;
  const char* meaning;
};

constexpr std::array table{
    Name{0, "CUDA_SUCCESS", "no error"},
    Name{1, "CUDA_ERROR_INVALID_VALUE", "an argument is out of range"},
    Name{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    Name{3, "CUDA_ERROR_NOT_INITIALIZED", "the driver is not initialised"},
    Name{4, "CUDA_ERROR_DEINITIALIZED", "the driver is shutting down"},
    Name{5, "CUDA_ERROR_PROFILER_DISABLED", "profiling is disabled"},
    Name{6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED", "the profiler is not initialised"},
    Name{7, "CUDA_ERROR_PROFILER_ALREADY_STARTED", "the profiler runs already"},
    Name{8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED", "the profiler is stopped already"},
    Name{34, "CUDA_ERROR_STUB_LIBRARY", "this is a stub library"},
    Name{36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "the call needs a newer driver"},
    Name{46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is busy or unavailable"},
    Name{100, "CUDA_ERROR_NO_DEVICE", "no device was found"},
    Name{101, "CUDA_ERROR_INVALID_DEVICE", "there is no such device"},
    Name{102, "CUDA_ERROR_DEVICE_NOT_LICENSED", "the device has no licence"},
    Name{200, "CUDA_ERROR_INVALID_IMAGE", "the kernel image is invalid"},
    Name{201, "CUDA_ERROR_INVALID_CONTEXT", "no usable context is current"},
    Name{202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "the context is current already"},
    Name{205, "CUDA_ERROR_MAP_FAILED", "mapping failed"},
    Name{206, "CUDA_ERROR_UNMAP_FAILED", "unmapping failed"},
    Name{207, "CUDA_ERROR_ARRAY_IS_MAPPED", "the array is mapped"},
    Name{208, "CUDA_ERROR_ALREADY_MAPPED", "it is mapped already"},
    Name{209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image fits this device"},
    Name{210, "CUDA_ERROR_ALREADY_ACQUIRED", "it is acquired already"},
    Name{211, "CUDA_ERROR_NOT_MAPPED", "it is not mapped"},
    Name{212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "it is not mapped as an array"},
    Name{213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER", "it is not mapped as a pointer"},
    Name{214, "CUDA_ERROR_ECC_UNCORRECTABLE", "an uncorrectable ECC error"},
    Name{215, "CUDA_ERROR_UNSUPPORTED_LIMIT", "the limit is not supported"},
    Name{216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE", "the context is in use by another thread"},
    Name{217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "the devices cannot reach each other"},
    Name{218, "CUDA_ERROR_INVALID_PTX", "the PTX text is invalid"},
    Name{219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "the graphics context is invalid"},
    Name{220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "an uncorrectable NVLink error"},
    Name{221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "the PTX compiler was not found"},
    Name{222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX version is not supported"},
    Name{223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "compilation of PTX is disabled"},
    Name{224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "the execution affinity is not supported"},
    Name{225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", "device-side synchronisation is not supported"},
    Name{226, "CUDA_ERROR_CONTAINED", "a contained fault ended the context"},
    Name{300, "CUDA_ERROR_INVALID_SOURCE", "the source is invalid"},
    Name{301, "CUDA_ERROR_FILE_NOT_FOUND", "a file was not found"},
    Name{302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "a shared object lacks a symbol"},
    Name{303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "a shared object could not be initialised"},
    Name{304, "CUDA_ERROR_OPERATING_SYSTEM", "the operating system refused"},
    Name{400, "CUDA_ERROR_INVALID_HANDLE", "the handle is invalid"},
    Name{401, "CUDA_ERROR_ILLEGAL_STATE", "an object is in the wrong state"},
    Name{402, "CUDA_ERROR_LOSSY_QUERY", "the query would lose information"},
    Name{500, "CUDA_ERROR_NOT_FOUND", "there is no such name"},
    Name{600, "CUDA_ERROR_NOT_READY", "the work is not done yet"},
    Name{700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal address was accessed"},
    Name{701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources are asked for"},
    Name{702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the kernel ran too long"},
    Name{703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "incompatible texturing modes"},
    Name{704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is enabled already"},
    Name{705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access is not enabled"},
    Name{708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "the primary context is active"},
    Name{709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context is destroyed"},
    Name{710, "CUDA_ERROR_ASSERT", "a device assertion failed"},
    Name{711, "CUDA_ERROR_TOO_MANY_PEERS", "too many peers"},
    Name{712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "the host memory is registered already"},
    Name{713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "the host memory is not registered"},
    Name{714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "a hardware stack error"},
    Name{715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction"},
    Name{716, "CUDA_ERROR_MISALIGNED_ADDRESS", "a misaligned address"},
    Name{717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "an address in the wrong space"},
    Name{718, "CUDA_ERROR_INVALID_PC", "an invalid program counter"},
    Name{719, "CUDA_ERROR_LAUNCH_FAILED", "the kernel failed"},
    Name{720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "the cooperative launch is too large"},
    Name{721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory was not freed"},
    Name{800, "CUDA_ERROR_NOT_PERMITTED", "the operation is not permitted"},
    Name{801, "CUDA_ERROR_NOT_SUPPORTED", "the operation is not supported"},
    Name{802, "CUDA_ERROR_SYSTEM_NOT_READY", "the system is not ready"},
    Name{803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver and display driver do not match"},
    Name{804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility is not supported here"},
    Name{805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "no connection to the MPS server"},
    Name{806, "CUDA_ERROR_MPS_RPC_FAILURE", "the MPS server failed"},
    Name{807, "CUDA_ERROR_MPS_SERVER_NOT_READY", "the MPS server is not ready"},
    Name{808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "the MPS server has too many clients"},
    Name{809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "the MPS server has too many connections"},
    Name{810, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "the MPS server ended this client"},
    Name{811, "CUDA_ERROR_CDP_NOT_SUPPORTED", "dynamic parallelism is not supported"},
    Name{812, "CUDA_ERROR_CDP_VERSION_MISMATCH", "dynamic parallelism of another version"},
    Name{900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "the stream is being captured and does not permit this"},
    Name{901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the capture was invalidated by an earlier error"},
    Name{902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures would be merged"},
    Name{903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture was not begun in this stream"},
    Name{904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "the capture has streams that were not joined"},
    Name{905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "the capture would depend on work outside of it"},
    Name{906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "the capture would depend on the legacy stream"},
    Name{907, "CUDA_ERROR_CAPTURED_EVENT", "the event was recorded in a capture"},
    Name{908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "another thread began the capture"},
    Name{909, "CUDA_ERROR_TIMEOUT", "the time is over"},
    Name{910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph cannot be updated like this"},
    Name{911, "CUDA_ERROR_EXTERNAL_DEVICE", "an external device failed"},
    Name{912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "the cluster size is invalid"},
    Name{913, "CUDA_ERROR_FUNCTION_NOT_LOADED", "the function is not loaded"},
    Name{914, "CUDA_ERROR_INVALID_RESOURCE_TYPE", "the resource type is invalid"},
    Name{915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "the resource configuration is invalid"},
    Name{916, "CUDA_ERROR_KEY_ROTATION", "a key was rotated"},
    Name{999, "CUDA_ERROR_UNKNOWN", "an unknown error"},
};

// Null for a code that CUDA does not have.
const Name* find(int code) {
  const auto* const found =
      std::find_if(table.begin(), table.end(), [code](const Name& name) { return name.code == code; });
  return found != table.end() ? found : nullptr;
}

}  // namespace

cuda::Result cuGetErrorName(cuda::Result error, const char** text) {
  return guarded([&] {
    require(text != nullptr);
    const Name* const known = find(cuda::number_of(error));
    *text = known != nullptr ? known->name : nullptr;
    require(known != nullptr);
  });
}

cuda::Result cuGetErrorString(cuda::Result error, const char** text) {
  return guarded([&] {
    require(text != nullptr);
    const Name* const known = find(cuda::number_of(error));
    *text = known != nullptr ? known->meaning : nullptr;
    require(known != nullptr);
  });
}

}  // namespace sluice::softgpu
