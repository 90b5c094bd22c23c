// SPDX-License-Identifier: Apache-2.0
// cuFileDriver*, cuFileUseCount, cuFileGetVersion: the driver's life cycle and its properties.
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "api/bar_size.h"
#include "api/funnel.h"
#include "config/keys.h"
#include "gpu/memory.h"
#include "nvfs/client.h"
#include "process/process.h"

using sluice::api::guarded;
using sluice::base::Failure;
using sluice::process::Process;

namespace {

template <typename T>
void require(T* pointer) {
  if (pointer == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "a pointer to write to is null");
}

unsigned saturated(std::size_t value) {
  return static_cast<unsigned>(std::min<std::size_t>(value, std::numeric_limits<unsigned>::max()));
}

// What the setters take: multiples of the parameter's step; too small or crooked is a limit, too large a value.
void adjust(CUFileSizeTConfigParameter_t id, std::size_t value, CUfileOpError too_large) {
  const auto& parameter = sluice::config::size_parameters[static_cast<std::size_t>(id)];
  const auto complain = [&](CUfileOpError code) {
    throw Failure(code, std::string(parameter.key) + " takes multiples of " + std::to_string(parameter.step) +
                            " up to " + std::to_string(parameter.highest) + ", not " + std::to_string(value));
  };
  if (value > parameter.highest) complain(too_large);
  if (value % parameter.step != 0 || (value < parameter.lowest && value != 0))
    complain(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  Process::instance().store().adjust(id, value);
}

CUfileError_t close(const char* call) {
  return guarded(call, [] { Process::instance().close(); });
}

// A drive has reached the memory of a device since the driver opened.
bool has_proven_pair() {
  const auto session = Process::instance().session();
  if (session == nullptr) return false;
  const auto reports = session->pair_reports();
  return std::any_of(reports.begin(), reports.end(), [](const auto& report) {
    return report.path == SLUICE_PATH_P2PDMA && report.reason == SLUICE_REASON_DIRECT;
  });
}

// What nvidia-fs.ko lists, where it is spoken to. Listed is not proven.
unsigned listed_by_nvfs() {
  struct Bit {
    std::string_view key;
    unsigned number;
  };
  constexpr std::array bits{Bit{"nvme", CU_FILE_NVME_SUPPORTED},
                            Bit{"nvme_rdma", CU_FILE_NVMEOF_SUPPORTED},
                            Bit{"scsi_mod", CU_FILE_SCSI_SUPPORTED},
                            Bit{"sfxvdriver", CU_FILE_SCALEFLUX_CSD_SUPPORTED},
                            Bit{"nvmeib_common", CU_FILE_NVMESH_SUPPORTED},
                            Bit{"lnet", CU_FILE_LUSTRE_SUPPORTED},
                            Bit{"mmfslinux", CU_FILE_GPFS_SUPPORTED},
                            Bit{"rpcrdma", CU_FILE_NFS_SUPPORTED},
                            Bit{"beegfs", CU_FILE_BEEGFS_SUPPORTED},
                            Bit{"scatefs", CU_FILE_SCATEFS_SUPPORTED}};
  const auto session = Process::instance().session();
  if (session == nullptr || !session->options.rules.use_nvfs) return 0;
  const std::vector<std::string>& hooked = sluice::nvfs::client().facts().hooked;
  unsigned flags = 0;
  for (const Bit& bit : bits) {
    if (std::find(hooked.begin(), hooked.end(), bit.key) != hooked.end()) flags |= 1u << bit.number;
  }
  return flags;
}

// What this version of the library knows, on every machine, as NVIDIA's library tells it: batches, streams and
// splitting work, and the configuration takes the keys of dynamic routing.
constexpr unsigned features = 1U << CU_FILE_DYN_ROUTING_SUPPORTED | 1U << CU_FILE_BATCH_IO_SUPPORTED |
                              1U << CU_FILE_STREAMS_SUPPORTED | 1U << CU_FILE_PARALLEL_IO_SUPPORTED;

}  // namespace

extern "C" {

CUfileError_t cuFileDriverOpen(void) {
  return guarded("cuFileDriverOpen", [] { Process::instance().open(); });
}

CUfileError_t cuFileDriverClose(void) {
  return close("cuFileDriverClose");
}
CUfileError_t cuFileDriverClose_v2(void) {
  return close("cuFileDriverClose");
}

long cuFileUseCount(void) {
  long count = 0;
  guarded("cuFileUseCount", [&] { count = Process::instance().use_count(); });
  return count;
}

CUfileError_t cuFileGetVersion(int* version) {
  return guarded("cuFileGetVersion", [&] {
    require(version);
    *version = Process::instance().store().current()->api_version;
  });
}

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props) {
  return guarded("cuFileDriverGetProperties", [&] {
    require(props);
    const auto config = Process::instance().store().asked_for();
    *props = {};
    props->nvfs.dstatusflags = listed_by_nvfs();
    if (has_proven_pair()) props->nvfs.dstatusflags |= 1u << CU_FILE_NVME_P2P_SUPPORTED;
    props->nvfs.poll_thresh_size = config->size(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB);
    props->nvfs.max_direct_io_size = config->size(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB);
    if (config->flag(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE)) {
      props->nvfs.dcontrolflags |= 1u << CU_FILE_USE_POLL_MODE;
    }
    if (config->flag(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE)) {
      props->nvfs.dcontrolflags |= 1u << CU_FILE_ALLOW_COMPAT_MODE;
    }
    if (config->api_version >= 1190) {
      if (config->flag(CUFILE_PARAM_PROPERTIES_POSIX_IO_MODE)) {
        props->nvfs.dcontrolflags |= 1u << CU_FILE_VANILLA_POSIX_IO_MODE;
      }
      if (config->flag(CUFILE_PARAM_GDS_FALLBACK_IO)) props->nvfs.dcontrolflags |= 1u << CU_FILE_FALLBACK_IO_MODE;
    }
    props->fflags = features;
    props->max_device_cache_size = saturated(config->size(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB));
    props->per_buffer_cache_size = 0;  // buffers have no caches of their own
    props->max_device_pinned_mem_size = saturated(config->size(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB));
    props->max_batch_io_size = saturated(config->size(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE));
    props->max_batch_io_timeout_msecs = saturated(config->size(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS));
  });
}

CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size) {
  return guarded("cuFileDriverSetPollMode", [&] {
    if (poll_threshold_size == 0) {
      throw Failure(CU_FILE_DRIVER_UNSUPPORTED_LIMIT, "a poll threshold of 0 KiB polls for nothing: use 4 or more");
    }
    adjust(CUFILE_PARAM_POLLTHRESHOLD_SIZE_KB, poll_threshold_size, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
    Process::instance().store().adjust(CUFILE_PARAM_PROPERTIES_USE_POLL_MODE, poll);
  });
}

CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size) {
  return guarded("cuFileDriverSetMaxDirectIOSize", [&] {
    if (max_direct_io_size == 0) {
      throw Failure(CU_FILE_DRIVER_UNSUPPORTED_LIMIT, "a largest direct transfer of 0 KiB transfers nothing");
    }
    adjust(CUFILE_PARAM_PROPERTIES_MAX_DIRECT_IO_SIZE_KB, max_direct_io_size, CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  });
}

CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size) {
  return guarded("cuFileDriverSetMaxCacheSize", [&] {
    Process::instance().session_or_open();
    adjust(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_CACHE_SIZE_KB, max_cache_size, CU_FILE_INVALID_VALUE);
  });
}

CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size) {
  return guarded("cuFileDriverSetMaxPinnedMemSize", [&] {
    Process::instance().session_or_open();
    adjust(CUFILE_PARAM_PROPERTIES_MAX_DEVICE_PINNED_MEM_SIZE_KB, max_pinned_size, CU_FILE_INVALID_VALUE);
  });
}

CUfileError_t cuFileGetBARSizeInKB(int gpuIndex, size_t* barSize) {
  return guarded("cuFileGetBARSizeInKB", [&] {
    require(barSize);
    Process::instance().session_or_open();
    if (gpuIndex < 0 || gpuIndex >= sluice::gpu::device_count()) {
      throw Failure(CU_FILE_INVALID_VALUE, "no device has the index " + std::to_string(gpuIndex));
    }
    *barSize = sluice::api::bar_kb(gpuIndex);
  });
}

}  // extern "C"
