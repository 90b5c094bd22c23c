// cuFile*Stats*.
#include "observe/statistics.h"

#include "api/funnel.h"
#include "core/driver.h"

using sluice::api::guarded;
using sluice::base::Failure;
using sluice::core::Driver;

namespace observe = sluice::observe;

namespace {

void require_open() {
  if (!Driver::instance().is_open()) {
    throw Failure(CU_FILE_DRIVER_NOT_INITIALIZED, "the driver is not open: statistics belong to an open one");
  }
}

template <typename Stats>
CUfileError_t read_level(const char* call, Stats* stats, int level) {
  return guarded(call, [&] {
    require_open();
    if (stats == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "the pointer for the statistics is null");
    if (!observe::statistics_running() || observe::statistics_level() < level) {
      throw Failure(CU_FILE_INVALID_VALUE,
                    "statistics of this level are not running: cuFileSetStatsLevel and cuFileStatsStart first");
    }
    observe::read_statistics(*stats);
  });
}

}  // namespace

extern "C" {

CUfileError_t cuFileSetStatsLevel(int level) {
  return guarded("cuFileSetStatsLevel", [&] {
    if (level < 0 || level > 3) throw Failure(CU_FILE_INVALID_VALUE, "statistics have levels 0 to 3");
    // Set before an open it holds for that life, over what the configuration says.
    Driver::instance().store().adjust(CUFILE_PARAM_PROFILE_STATS, static_cast<std::size_t>(level));
    observe::set_statistics_level(level);
  });
}

CUfileError_t cuFileGetStatsLevel(int* level) {
  return guarded("cuFileGetStatsLevel", [&] {
    if (level == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "the pointer for the level is null");
    *level = observe::statistics_level();
  });
}

CUfileError_t cuFileStatsStart(void) {
  return guarded("cuFileStatsStart", [] {
    require_open();
    if (observe::statistics_level() == 0) {
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
