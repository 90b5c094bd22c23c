// SPDX-License-Identifier: Apache-2.0
// cuFileGetParameter*, cuFileSetParameter*.
#include <algorithm>
#include <cstring>
#include <string>

#include "api/bar_size.h"
#include "api/funnel.h"
#include "base/foreign_enum.h"
#include "process/process.h"

using sluice::api::guarded;
using sluice::base::Failure;
using sluice::config::Slabs;
using sluice::process::Process;

namespace {

sluice::config::Store& store() {
  return Process::instance().store();
}

[[noreturn]] void refuse(const char* why) {
  throw Failure(CU_FILE_INVALID_VALUE, why);
}

Slabs slabs_from(const size_t* sizes, const size_t* counts, int len) {
  if (sizes == nullptr || counts == nullptr || len <= 0) refuse("slab sizes and counts must be arrays of len > 0");
  return {{sizes, sizes + len}, {counts, counts + len}};
}

void copy_slabs(const Slabs& slabs, size_t* sizes, size_t* counts, int len) {
  if (sizes == nullptr || counts == nullptr || len <= 0) refuse("slab sizes and counts must be arrays of len > 0");
  if (static_cast<std::size_t>(len) != slabs.sizes_kb.size())
    refuse("len is not the number of slab sizes that are set");
  std::copy(slabs.sizes_kb.begin(), slabs.sizes_kb.end(), sizes);
  std::copy(slabs.counts.begin(), slabs.counts.end(), counts);
}

std::string text_of(const CUFileStringConfigParameter_t& param) {
  switch (sluice::base::number_of(param)) {
    case CUFILE_PARAM_LOGGING_LEVEL:
      return store().shown_log_level();
    case CUFILE_PARAM_ENV_LOGFILE_PATH: {
      const auto config = store().current();
      if (!config->log_file_given) refuse("CUFILE_LOGFILE_PATH is not set");
      return config->log_file;
    }
    case CUFILE_PARAM_LOG_DIR:
      return store().shown_log_dir();
    case CUFILE_PARAM_RDMA_TRANSPORT: {
      const auto config = store().current();
      if (!sluice::config::is_known(param, config->api_version)) break;
      return config->text(sluice::config::key_at("properties.rdma_transport_type"));
    }
  }
  refuse("no such text parameter");
}

}  // namespace

extern "C" {

CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t* value) {
  return guarded("cuFileGetParameterSizeT", [&] {
    const auto index = sluice::config::index_of(param);
    if (!index || value == nullptr) refuse("no such size parameter, or nowhere to write it");
    *value = store().shown(param);
  });
}

CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool* value) {
  return guarded("cuFileGetParameterBool", [&] {
    const auto index = sluice::config::index_of(param);
    if (!index || value == nullptr) refuse("no such switch, or nowhere to write it");
    if (!sluice::config::is_known(param, store().current()->api_version)) {
      refuse("no such switch in the version that is reported");
    }
    *value = store().shown(param);
  });
}

CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char* desc_str, int len) {
  return guarded("cuFileGetParameterString", [&] {
    if (desc_str == nullptr || len <= 0) refuse("no room for the text");
    const std::string text = text_of(param);
    if (text.size() >= static_cast<std::size_t>(len)) refuse("too little room for the text and its end");
    std::memcpy(desc_str, text.c_str(), text.size() + 1);
  });
}

CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t* min_value, size_t* max_value) {
  return guarded("cuFileGetParameterMinMaxValue", [&] {
    const auto index = sluice::config::index_of(param);
    if (!index || min_value == nullptr || max_value == nullptr)
      refuse("no such size parameter, or nowhere to write it");
    if (*index == CUFILE_PARAM_PROFILE_STATS)
      refuse("the level of the statistics, 0 to 3, has no limits to be asked for");
    *min_value = sluice::config::size_parameters[*index].lowest;
    *max_value = sluice::config::size_parameters[*index].highest;
    const bool is_of_device_memory = *index == CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB ||
                                     *index == CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB;
    // What the first device shows of its memory, where there is one and it is known: from the first open on.
    const std::uint64_t shown = is_of_device_memory && Process::instance().was_open() ? sluice::api::bar_kb(0) : 0;
    if (shown > 0) *max_value = shown;
  });
}

CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value) {
  return guarded("cuFileSetParameterSizeT", [&] { store().set(param, value); });
}

CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value) {
  return guarded("cuFileSetParameterBool", [&] { store().set(param, value); });
}

CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char* desc_str) {
  return guarded("cuFileSetParameterString", [&] {
    if (desc_str == nullptr) refuse("the text is a null pointer");
    store().set(param, std::string(desc_str));
  });
}

CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* size_values, const size_t* count_values, int len) {
  return guarded("cuFileSetParameterPosixPoolSlabArray",
                 [&] { store().set_posix_slabs(slabs_from(size_values, count_values, len)); });
}

CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* size_values, size_t* count_values, int len) {
  return guarded("cuFileGetParameterPosixPoolSlabArray", [&] {
    const auto slabs = store().shown_posix_slabs();
    if (!slabs) refuse("no slabs are set, and the driver has not been open");
    copy_slabs(*slabs, size_values, count_values, len);
  });
}

CUfileError_t cuFileSetParameterGpuBounceBufferSlabArray(const size_t* size_values, const size_t* count_values,
                                                         int len) {
  return guarded("cuFileSetParameterGpuBounceBufferSlabArray",
                 [&] { store().set_gpu_slabs(slabs_from(size_values, count_values, len)); });
}

CUfileError_t cuFileGetParameterGpuBounceBufferSlabArray(size_t* size_values, size_t* count_values, int len) {
  return guarded("cuFileGetParameterGpuBounceBufferSlabArray",
                 [&] { copy_slabs(store().current()->gpu_slabs, size_values, count_values, len); });
}

}  // extern "C"
