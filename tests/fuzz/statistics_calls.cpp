// SPDX-License-Identifier: Apache-2.0
// The statistics.
#include "fuzz/families.h"

namespace sluice::fuzz {

void set_statistics(Actor& actor) {
  switch (actor.draw(4)) {
    case 0: {
      const int level = actor.one_of({0, 1, 2, 3, 3, -1, 4, 1 << 30});
      actor.expect(actor.call("cuFileSetStatsLevel", std::to_string(level), [&] { return cuFileSetStatsLevel(level); }),
                   {level >= 0 && level <= 3 ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE});
      break;
    }
    case 1:
      actor.expect(actor.call("cuFileStatsStart", "", [] { return cuFileStatsStart(); }),
                   {CU_FILE_SUCCESS, CU_FILE_DRIVER_NOT_INITIALIZED, CU_FILE_INTERNAL_ERROR});
      break;
    case 2:
      actor.expect(actor.call("cuFileStatsStop", "", [] { return cuFileStatsStop(); }),
                   {CU_FILE_SUCCESS, CU_FILE_DRIVER_NOT_INITIALIZED});
      break;
    default:
      actor.expect(actor.call("cuFileStatsReset", "", [] { return cuFileStatsReset(); }),
                   {CU_FILE_SUCCESS, CU_FILE_DRIVER_NOT_INITIALIZED});
  }
}

void get_statistics(Actor& actor) {
  CUfileStatsLevel3_t& all = actor.statistics();
  const bool null = actor.one_in(6);
  const char* const where = null ? "NULL" : "&";
  CUfileError_t answer{};
  switch (actor.draw(4)) {
    case 0: {
      int level = -1;
      answer = actor.call("cuFileGetStatsLevel", where, [&] { return cuFileGetStatsLevel(null ? nullptr : &level); });
      actor.require(null || (level >= 0 && level <= 3), joined("level ", level));
      actor.expect(answer, {null ? CU_FILE_INVALID_VALUE : CU_FILE_SUCCESS});
      return;
    }
    case 1:
      answer =
          actor.call("cuFileGetStatsL1", where, [&] { return cuFileGetStatsL1(null ? nullptr : &all.detailed.basic); });
      break;
    case 2:
      answer = actor.call("cuFileGetStatsL2", where, [&] { return cuFileGetStatsL2(null ? nullptr : &all.detailed); });
      break;
    default:
      answer = actor.call("cuFileGetStatsL3", where, [&] { return cuFileGetStatsL3(null ? nullptr : &all); });
      actor.require(all.num_gpus <= 16, joined(all.num_gpus, " devices"));
  }
  actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE, CU_FILE_DRIVER_NOT_INITIALIZED});
  actor.require(!null || answer.err != CU_FILE_SUCCESS, "it succeeded");
}

}  // namespace sluice::fuzz
