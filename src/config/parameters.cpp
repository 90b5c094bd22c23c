// SPDX-License-Identifier: Apache-2.0
// Names meet numbers at compile time; ranges and standards come from the table of keys.
#include "config/parameters.h"

#include "base/foreign_enum.h"
#include "config/keys.h"

namespace sluice::config {

namespace {

template <typename Id>
std::optional<std::size_t> bounded(const Id& id, std::size_t count) noexcept {
  const int value = base::number_of(id);
  if (value < 0 || static_cast<unsigned>(value) >= count) return std::nullopt;
  return static_cast<std::size_t>(value);
}

consteval std::size_t number_in(std::string_view digits) {
  std::size_t number = 0;
  for (const char digit : digits) number = number * 10 + static_cast<std::size_t>(digit - '0');
  return number;
}

consteval SizeParameter size_of(CUFileSizeTConfigParameter_t id, std::string_view name) {
  const std::size_t index = key_at(name);
  const Key& key = keys[index];
  return {id,
          index,
          key.name,
          number_in(key.standard),
          static_cast<std::size_t>(key.limits.lowest),
          static_cast<std::size_t>(key.limits.highest),
          static_cast<std::size_t>(key.limits.step)};
}

consteval BoolParameter bool_of(CUFileBoolConfigParameter_t id, std::string_view name) {
  const std::size_t index = key_at(name);
  return {id, index, keys[index].name, keys[index].standard == "true"};
}

}  // namespace

constinit const std::array<SizeParameter, size_parameter_count> size_parameters{{
    size_of(CUFILE_PARAM_PROFILE_STATS, "profile.cufile_stats"),
    size_of(CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH, "execution.max_io_queue_depth"),
    size_of(CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, "execution.max_io_threads"),
    size_of(CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB, "execution.min_io_threshold_size_kb"),
    size_of(CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM, "execution.max_request_parallelism"),
    size_of(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, "properties.max_direct_io_size_kb"),
    size_of(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, "properties.max_device_cache_size_kb"),
    size_of(CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB, "properties.per_buffer_cache_size_kb"),
    size_of(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, "properties.max_device_pinned_mem_size_kb"),
    size_of(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, "properties.io_batchsize"),
    size_of(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, "properties.poll_mode_max_size_kb"),
    size_of(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS, "properties.batch_io_timeout_ms"),
}};

constinit const std::array<BoolParameter, bool_parameter_count> bool_parameters{{
    bool_of(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, "properties.use_poll_mode"),
    bool_of(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, "properties.allow_compat_mode"),
    bool_of(CUFILE_PARAM_FORCE_COMPAT_MODE, "properties.force_compat_mode"),
    bool_of(CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE, "miscellaneous.api_check_aggressive"),
    bool_of(CUFILE_PARAM_EXECUTION_PARALLEL_IO, "execution.parallel_io"),
    bool_of(CUFILE_PARAM_PROFILE_NVTX, "profile.nvtx"),
    bool_of(CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY, "properties.allow_system_memory"),
    bool_of(CUFILE_PARAM_USE_PCIP2PDMA, "properties.use_pci_p2pdma"),
    bool_of(CUFILE_PARAM_PREFER_IO_URING, "properties.prefer_iouring"),
    bool_of(CUFILE_PARAM_FORCE_ODIRECT_MODE, "properties.force_odirect_mode"),
    bool_of(CUFILE_PARAM_SKIP_TOPOLOGY_DETECTION, "miscellaneous.skip_topology_detection"),
    bool_of(CUFILE_PARAM_STREAM_MEMOPS_BYPASS, "miscellaneous.stream_memops_bypass"),
    bool_of(CUFILE_PARAM_PROPERTIES_POSIX_IO_MODE, "properties.vanilla_posix_io_mode"),
    bool_of(CUFILE_PARAM_GDS_FALLBACK_IO, "properties.gds_fallback_io"),
}};

std::optional<std::size_t> index_of(const CUFileSizeTConfigParameter_t& id) noexcept {
  return bounded(id, size_parameter_count);
}
std::optional<std::size_t> index_of(const CUFileBoolConfigParameter_t& id) noexcept {
  return bounded(id, bool_parameter_count);
}
std::optional<std::size_t> index_of(const CUFileStringConfigParameter_t& id) noexcept {
  return bounded(id, string_parameter_count);
}

bool is_known(const CUFileBoolConfigParameter_t& id, std::int64_t api_version) noexcept {
  const auto index = index_of(id);
  return index && (*index < CUFILE_PARAM_PROPERTIES_POSIX_IO_MODE || api_version >= 1190);
}
bool is_known(const CUFileStringConfigParameter_t& id, std::int64_t api_version) noexcept {
  const auto index = index_of(id);
  return index && (*index < CUFILE_PARAM_RDMA_TRANSPORT || api_version >= 1190);
}

bool in_range(const SizeParameter& parameter, std::size_t value) noexcept {
  return value >= parameter.lowest && value <= parameter.highest;
}

}  // namespace sluice::config
