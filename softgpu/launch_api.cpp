// SPDX-License-Identifier: Apache-2.0
// Entry points about functions: what they are, and launching them.
#include <algorithm>
#include <cstring>
#include <span>

#include "answer.h"
#include "device.h"
#include "device_attributes.h"
#include "entry_points.h"
#include "machine.h"
#include "stream_use.h"

namespace sluice::softgpu {

namespace {

using Parameters = std::vector<std::byte>;

Parameters packed(const PtxEntry& entry, void** given) {
  Parameters bytes;
  std::size_t index = 0;
  for (const std::size_t size : entry.parameter_sizes) {
    const void* const value = given[index++];
    require(value != nullptr);
    bytes.resize(parameter_offset(bytes.size(), size));
    const auto* const first = static_cast<const std::byte*>(value);
    bytes.insert(bytes.end(), first, first + size);
  }
  return bytes;
}

// The other way to hand parameters over: one buffer that has them all, given by marked words up to an end.
Parameters from_buffer(void** extra) {
  const void* buffer = nullptr;
  std::size_t size = 0;
  for (; reinterpret_cast<std::uintptr_t>(extra[0]) != cuda::launch_parameters_end; extra += 2) {
    const auto marker = reinterpret_cast<std::uintptr_t>(extra[0]);
    require(extra[1] != nullptr);
    if (marker == cuda::launch_parameters_buffer) {
      buffer = extra[1];
    } else {
      require(marker == cuda::launch_parameters_size);
      std::memcpy(&size, extra[1], sizeof size);
    }
  }
  require(buffer != nullptr);
  const auto* const first = static_cast<const std::byte*>(buffer);
  return {first, first + size};
}

Parameters parameters_of(const PtxEntry& entry, void** given, void** extra) {
  if (entry.parameter_sizes.empty()) return {};
  require((given != nullptr) != (extra != nullptr));
  if (given != nullptr) return packed(entry, given);
  Parameters bytes = from_buffer(extra);
  std::size_t end = 0;
  for (const std::size_t size : entry.parameter_sizes) end = parameter_offset(end, size) + size;
  bytes.resize(end);  // a driver takes a buffer that is too short as well; what is missing is anything
  return bytes;
}

void check_shape(const Device& device, const LaunchShape& shape, const Function& function) {
  const auto within = [&](unsigned value, int attribute) {
    return value != 0 && value <= static_cast<unsigned>(device_attribute(device, attribute));
  };
  require(within(shape.grid.x, attribute_most_grid_x) && within(shape.grid.y, attribute_most_grid_x + 1) &&
          within(shape.grid.z, attribute_most_grid_x + 2));
  require(within(shape.block.x, attribute_most_block_x) && within(shape.block.y, attribute_most_block_x + 1) &&
          within(shape.block.z, attribute_most_block_x + 2));
  require(shape.block.count() <= static_cast<std::uint64_t>(device_attribute(device, attribute_most_threads)));
  require(shape.shared_bytes <= static_cast<unsigned>(function.attribute(cuda::function_max_dynamic_shared_size)));
}

// Runs on the stream's thread.
void run(Workspace& workspace, const Code& code, const LaunchShape& shape, const Parameters& parameters) {
  const auto health = workspace.shared_health();
  Residency& residency = workspace.device().residency();
  if (!residency.enter(*health)) return;
  try {
    const Launch launch(shape, parameters, code.entry.parameter_sizes, workspace, *health);
    code.twin->run(launch);
  } catch (const KernelFault& fault) {
    workspace.break_down(fault.code);
  } catch (...) {
    workspace.break_down(cuda::error_launch_failed);
  }
  residency.leave();
}

cuda::Result launch(const char* name, cuda::Function handle, const LaunchShape& shape, cuda::Stream stream,
                    void** parameters, void** extra) {
  return answer(name, [&] {
    const auto function = function_of(handle);
    const StreamUse use = use_stream(stream);
    require(function->workspace().lock() == use.workspace, cuda::error_invalid_handle);
    check_shape(use.workspace->device(), shape, *function);
    if (machine().knobs.keeps_calls != 0 && !use.captured()) use.workspace->wait_while_brought_to_rest();
    // A graph that was captured may be replayed when the context of the kernel is gone.
    use.submit([home = std::weak_ptr(use.workspace), code = function->code(), shape,
                values = parameters_of(function->code()->entry, parameters, extra)] {
      if (const auto workspace = home.lock()) run(*workspace, *code, shape, values);
    });
  });
}

cuda::Result launch_by_config(const char* name, const cuda::LaunchConfig* config, cuda::Function function,
                              cuda::Stream stream, void** parameters, void** extra) {
  if (config == nullptr) return answer(name, [] { throw Refusal(cuda::error_invalid_value); });
  const LaunchShape shape{{config->grid_x, config->grid_y, config->grid_z},
                          {config->block_x, config->block_y, config->block_z},
                          config->shared_bytes};
  // Those that only advise may be passed over; the others change what a launch means.
  constexpr int ignore = 0;
  constexpr int access_policy_window = 1;
  constexpr int synchronization_policy = 3;
  constexpr int priority = 8;
  for (const auto& attribute : std::span(config->attributes, config->attribute_count)) {
    if (attribute.id != ignore && attribute.id != access_policy_window && attribute.id != synchronization_policy &&
        attribute.id != priority) {
      return answer(name, [] { throw Refusal(cuda::error_not_supported); });
    }
  }
  return launch(name, function, shape, stream, parameters, extra);
}

cuda::Result occupancy(const char* name, int* blocks, cuda::Function handle, int threads, std::size_t shared_bytes) {
  return answer(name, [&] {
    require(blocks != nullptr && threads > 0);
    const auto function = function_of(handle);
    const auto workspace = function->workspace().lock();
    require(workspace != nullptr, cuda::error_context_is_destroyed);
    const Device& device = workspace->device();
    const int by_threads = device_attribute(device, attribute_most_threads_a_multiprocessor) / threads;
    const auto memory = static_cast<std::size_t>(device_attribute(device, attribute_shared_a_multiprocessor));
    const auto reserved = static_cast<std::size_t>(device_attribute(device, attribute_reserved_shared_a_block));
    const std::size_t by_memory = memory / (shared_bytes + reserved);
    const int most = device_attribute(device, attribute_most_blocks_a_multiprocessor);
    *blocks = threads > device_attribute(device, attribute_most_threads)
                  ? 0
                  : static_cast<int>(
                        std::min({static_cast<std::size_t>(by_threads), static_cast<std::size_t>(most), by_memory}));
  });
}

}  // namespace

cuda::Result cuFuncGetName(const char** name, cuda::Function function) {
  return answer(__func__, [&] {
    require(name != nullptr);
    *name = function_of(function)->code()->entry.name.c_str();
  });
}

cuda::Result cuFuncGetModule(cuda::Module* module, cuda::Function function) {
  return answer(__func__, [&] {
    require(module != nullptr);
    const Module& owner = function_of(function)->module();
    const auto found = machine().modules.find(&owner);
    require(found != nullptr, cuda::error_invalid_handle);
    *module = found->handle();
  });
}

cuda::Result cuFuncGetAttribute(int* value, int attribute, cuda::Function function) {
  return answer(__func__, [&] {
    require(value != nullptr);
    *value = function_of(function)->attribute(attribute);
  });
}

cuda::Result cuFuncSetAttribute(cuda::Function function, int attribute, int value) {
  return answer(__func__, [&] { function_of(function)->set_attribute(attribute, value); });
}

cuda::Result cuFuncSetCacheConfig(cuda::Function function, int config) {
  constexpr int prefer_equal = 3;
  return answer(__func__, [&] {
    function_of(function);
    require(config >= 0 && config <= prefer_equal);
  });
}

cuda::Result cuFuncGetParamInfo(cuda::Function function, std::size_t index, std::size_t* offset, std::size_t* size) {
  return answer(__func__, [&] {
    require(offset != nullptr);
    const auto& sizes = function_of(function)->code()->entry.parameter_sizes;
    require(index < sizes.size());
    std::size_t end = 0;
    for (std::size_t before = 0; before < index; ++before) end = parameter_offset(end, sizes[before]) + sizes[before];
    *offset = parameter_offset(end, sizes[index]);
    if (size != nullptr) *size = sizes[index];
  });
}

cuda::Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, cuda::Function function, int threads,
                                                         std::size_t shared_bytes) {
  return occupancy(__func__, blocks, function, threads, shared_bytes);
}

cuda::Result cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, cuda::Function function, int threads,
                                                                  std::size_t shared_bytes, unsigned flags) {
  constexpr unsigned disable_caching_override = 1;
  if ((flags & ~disable_caching_override) != 0)
    return answer(__func__, [] { throw Refusal(cuda::error_invalid_value); });
  return occupancy(__func__, blocks, function, threads, shared_bytes);
}

cuda::Result cuLaunchKernel(cuda::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                            cuda::Stream stream, void** parameters, void** extra) {
  return launch(__func__, function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes}, stream,
                parameters, extra);
}

cuda::Result cuLaunchKernel_ptsz(cuda::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                 cuda::Stream stream, void** parameters, void** extra) {
  return launch("cuLaunchKernel", function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes},
                per_thread_if_null(stream), parameters, extra);
}

cuda::Result cuLaunchKernelEx(const cuda::LaunchConfig* config, cuda::Function function, void** parameters,
                              void** extra) {
  return launch_by_config(__func__, config, function, config != nullptr ? config->stream : nullptr, parameters, extra);
}

cuda::Result cuLaunchKernelEx_ptsz(const cuda::LaunchConfig* config, cuda::Function function, void** parameters,
                                   void** extra) {
  return launch_by_config("cuLaunchKernelEx", config, function,
                          per_thread_if_null(config != nullptr ? config->stream : nullptr), parameters, extra);
}

}  // namespace sluice::softgpu
