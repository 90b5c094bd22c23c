// The values are those that the incumbent reports with its stock file; the ranges are those it reports too.
#include "config/parameters.h"

namespace sluice::config {

namespace {
template <typename Id>
std::optional<std::size_t> bounded(Id id, std::size_t count) noexcept {
  const auto value = static_cast<long long>(id);
  if (value < 0 || static_cast<unsigned long long>(value) >= count) return std::nullopt;
  return static_cast<std::size_t>(value);
}
}  // namespace

constinit const std::array<SizeParameter, size_parameter_count> size_parameters{{
    {CUFILE_PARAM_PROFILE_STATS, "profile.cufile_stats", 0, 0, 3, 1},
    {CUFILE_PARAM_EXECUTION_MAX_IO_QUEUE_DEPTH, "execution.max_io_queue_depth", 128, 1, 256, 1},
    {CUFILE_PARAM_EXECUTION_MAX_IO_THREADS, "execution.max_io_threads", 4, 0, 32, 1},
    {CUFILE_PARAM_EXECUTION_MIN_IO_THRESHOLD_SIZE_KB, "execution.min_io_threshold_size_kb", 8192, 4, 4294967295, 1},
    {CUFILE_PARAM_EXECUTION_MAX_REQUEST_PARALLELISM, "execution.max_request_parallelism", 4, 0, 8, 1},
    {CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, "properties.max_direct_io_size_kb", 16384, 64, 16384, 64},
    {CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, "properties.max_device_cache_size_kb", 131072, 0, 268435456, 4},
    {CUFILE_PARAM_PROPERTIES_PER_BUFFER_CACHE_SIZE_KB, "properties.per_buffer_cache_size_kb", 1024, 64, 16384, 64},
    {CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, "properties.max_device_pinned_mem_size_kb", 33554432, 64,
     268435456, 4},
    {CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, "properties.io_batchsize", 128, 1, 256, 1},
    {CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, "properties.poll_mode_max_size_kb", 4, 4, 18014398509481980, 4},
    {CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS, "properties.batch_io_timeout_ms", 5, 1, 1000, 1},
}};

constinit const std::array<BoolParameter, bool_parameter_count> bool_parameters{{
    {CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, "properties.use_poll_mode", "", false},
    {CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE, "properties.allow_compat_mode", "CUFILE_ALLOW_COMPAT_MODE", true},
    {CUFILE_PARAM_FORCE_COMPAT_MODE, "properties.force_compat_mode", "CUFILE_FORCE_COMPAT_MODE", false},
    {CUFILE_PARAM_FS_MISC_API_CHECK_AGGRESSIVE, "miscellaneous.api_check_aggressive", "", false},
    {CUFILE_PARAM_EXECUTION_PARALLEL_IO, "execution.parallel_io", "", true},
    {CUFILE_PARAM_PROFILE_NVTX, "profile.nvtx", "CUFILE_NVTX", false},
    {CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY, "properties.allow_system_memory", "", true},
    {CUFILE_PARAM_USE_PCIP2PDMA, "properties.use_pci_p2pdma", "CUFILE_USE_PCIP2PDMA", false},
    {CUFILE_PARAM_PREFER_IO_URING, "properties.prefer_iouring", "", false},
    {CUFILE_PARAM_FORCE_ODIRECT_MODE, "properties.force_odirect_mode", "", false},
    {CUFILE_PARAM_SKIP_TOPOLOGY_DETECTION, "miscellaneous.skip_topology_detection", "CUFILE_SKIP_TOPOLOGY_DETECTION",
     false},
    {CUFILE_PARAM_STREAM_MEMOPS_BYPASS, "miscellaneous.stream_memops_bypass", "CUFILE_STREAM_MEMOPS_BYPASS", false},
}};

std::optional<std::size_t> index_of(CUFileSizeTConfigParameter_t id) noexcept {
  return bounded(id, size_parameter_count);
}
std::optional<std::size_t> index_of(CUFileBoolConfigParameter_t id) noexcept {
  return bounded(id, bool_parameter_count);
}
std::optional<std::size_t> index_of(CUFileStringConfigParameter_t id) noexcept {
  return bounded(id, string_parameter_count);
}

bool in_range(const SizeParameter& parameter, std::size_t value) noexcept {
  return value >= parameter.lowest && value <= parameter.highest;
}

}  // namespace sluice::config
