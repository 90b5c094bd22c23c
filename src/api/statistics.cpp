// SPDX-License-Identifier: Apache-2.0
// cuFile*Stats*.
#include "observe/statistics.h"

#include <cstdint>
#include <cstring>

#include "api/funnel.h"
#include "gpu/cuda_api.h"
#include "gpu/introduce.h"
#include "process/process.h"

using sluice::api::guarded;
using sluice::base::Failure;
using sluice::process::Process;

namespace observe = sluice::observe;

namespace {

void require_open() {
  if (!Process::instance().is_open()) {
    throw Failure(CU_FILE_DRIVER_NOT_INITIALIZED, "the driver is not open: statistics belong to an open one");
  }
}

// The structures of 1.19.
struct Level1Of1190 {
  CUfileStatsLevel1_t known;
  observe::VectoredCounters vectored;
};
struct Level2Of1190 {
  Level1Of1190 basic;
  std::uint64_t read_size_kb_hist[32];
  std::uint64_t write_size_kb_hist[32];
};
struct Level3Of1190 {
  Level2Of1190 detailed;
  std::uint32_t num_gpus;
  CUfilePerGpuStats_t per_gpu_stats[16];
};
static_assert(sizeof(CUfileStatsLevel1_t) == 512 && sizeof(Level1Of1190) == 624);
static_assert(sizeof(CUfileStatsLevel2_t) == 1024 && sizeof(Level2Of1190) == 1136);
static_assert(sizeof(CUfileStatsLevel3_t) == 5000 && sizeof(Level3Of1190) == 5112);

void write_long(CUfileStatsLevel1_t* out) {
  Level1Of1190 all{};
  observe::read_statistics(all.known, observe::Vectored::apart);
  observe::read_statistics(all.vectored);
  std::memcpy(static_cast<void*>(out), &all, sizeof all);
}

Level2Of1190 lengthened(const CUfileStatsLevel2_t& known) {
  Level2Of1190 all{};
  all.basic.known = known.basic;
  observe::read_statistics(all.basic.vectored);
  std::memcpy(all.read_size_kb_hist, known.read_size_kb_hist, sizeof known.read_size_kb_hist);
  std::memcpy(all.write_size_kb_hist, known.write_size_kb_hist, sizeof known.write_size_kb_hist);
  return all;
}

void write_long(CUfileStatsLevel2_t* out) {
  CUfileStatsLevel2_t known;
  observe::read_statistics(known, observe::Vectored::apart);
  const Level2Of1190 all = lengthened(known);
  std::memcpy(static_cast<void*>(out), &all, sizeof all);
}

void write_long(CUfileStatsLevel3_t* out) {
  CUfileStatsLevel3_t known;
  observe::read_statistics(known, observe::Vectored::apart);
  Level3Of1190 all{lengthened(known.detailed), known.num_gpus, {}};
  std::memcpy(all.per_gpu_stats, known.per_gpu_stats, sizeof known.per_gpu_stats);
  std::memcpy(static_cast<void*>(out), &all, sizeof all);
}

// Of the shorter structures only what NVIDIA's library fills is written: the bins in use, and once the statistics were
// started the devices of the machine.
void write_short(CUfileStatsLevel1_t* out) {
  observe::read_statistics(*out, observe::Vectored::among_all);
}

void write_short(CUfileStatsLevel2_t* out, const CUfileStatsLevel2_t& all) {
  constexpr std::size_t bytes = observe::size_bins_in_use * sizeof all.read_size_kb_hist[0];
  out->basic = all.basic;
  std::memcpy(out->read_size_kb_hist, all.read_size_kb_hist, bytes);
  std::memcpy(out->write_size_kb_hist, all.write_size_kb_hist, bytes);
}

void write_short(CUfileStatsLevel2_t* out) {
  CUfileStatsLevel2_t all;
  observe::read_statistics(all, observe::Vectored::among_all);
  write_short(out, all);
}

void write_short(CUfileStatsLevel3_t* out) {
  CUfileStatsLevel3_t all;
  observe::read_statistics(all, observe::Vectored::among_all);
  write_short(&out->detailed, all.detailed);
  if (!observe::statistics_were_started()) all.num_gpus = 0;
  out->num_gpus = all.num_gpus;
  std::memcpy(out->per_gpu_stats, all.per_gpu_stats, all.num_gpus * sizeof all.per_gpu_stats[0]);
}

void name_devices() {
  const int devices = sluice::gpu::device_count();
  for (int i = 0; i < devices; ++i) sluice::gpu::introduce_device(i);
}

// The version that is reported decides how long the structures are: a caller of 1.15 has no room for more.
template <typename Stats>
CUfileError_t read_level(const char* call, Stats* stats, int level) {
  return guarded(call, [&] {
    if (stats == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "the pointer for the statistics is null");
    require_open();
    if (observe::shown_statistics_level() < level) {
      throw Failure(CU_FILE_INVALID_VALUE,
                    "the statistics are stopped or of a lower level: cuFileSetStatsLevel and cuFileStatsStart first");
    }
    if (level == 3) name_devices();
    if (Process::instance().store().current()->api_version >= 1190) {
      write_long(stats);
    } else {
      write_short(stats);
    }
  });
}

}  // namespace

extern "C" {

CUfileError_t cuFileSetStatsLevel(int level) {
  return guarded("cuFileSetStatsLevel", [&] {
    if (level < 0 || level > 3) throw Failure(CU_FILE_INVALID_VALUE, "statistics have levels 0 to 3");
    // Set before an open it holds for that life, over what the configuration says.
    Process::instance().store().adjust(CUFILE_PARAM_PROFILE_STATS, static_cast<std::size_t>(level));
    observe::set_statistics_level(level);
  });
}

CUfileError_t cuFileGetStatsLevel(int* level) {
  return guarded("cuFileGetStatsLevel", [&] {
    if (level == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "the pointer for the level is null");
    *level = observe::shown_statistics_level();
  });
}

CUfileError_t cuFileStatsStart(void) {
  return guarded("cuFileStatsStart", [] {
    require_open();
    if (observe::statistics_level() == 0 && !observe::statistics_are_started()) {
      throw Failure(CU_FILE_INTERNAL_ERROR, "the statistics level is 0: set one with cuFileSetStatsLevel");
    }
    observe::start_statistics();
  });
}

CUfileError_t cuFileStatsStop(void) {
  return guarded("cuFileStatsStop", [] {
    require_open();
    observe::stop_statistics();
  });
}

CUfileError_t cuFileStatsReset(void) {
  return guarded("cuFileStatsReset", [] {
    require_open();
    observe::reset_statistics();
  });
}

CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t* stats) {
  return read_level("cuFileGetStatsL1", stats, 1);
}
CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t* stats) {
  return read_level("cuFileGetStatsL2", stats, 2);
}
CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t* stats) {
  return read_level("cuFileGetStatsL3", stats, 3);
}

}  // extern "C"
