// SPDX-License-Identifier: Apache-2.0
// Asking the library what it knows and counted.
#include "direct/direct_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <vector>

#include "support/cuda_driver.h"

namespace sluice::direct {

void PrintTo(const Count& count, std::ostream* out) {
  *out << count.operations << " transfers of " << count.bytes << " bytes";
}

Count counted(sluice_path_t path, sluice_reason_t reason) {
  std::vector<sluice_path_counter_t> counters(std::size_t{SLUICE_PATH_COUNT} * SLUICE_REASON_COUNT);
  std::size_t count = 0;
  EXPECT_EQ(support::code(sluice_path_counters(counters.data(), counters.size(), &count)), CU_FILE_SUCCESS);
  counters.resize(count);
  const auto found = std::find_if(counters.begin(), counters.end(), [&](const sluice_path_counter_t& counter) {
    return counter.path == path && counter.reason == reason;
  });
  if (found == counters.end()) return {};
  return {found->reads + found->writes, found->read_bytes + found->written_bytes};
}

Count operator-(Count now, Count before) {
  return {now.operations - before.operations, now.bytes - before.bytes};
}

sluice_explanation_t explain(CUfileHandle_t handle, const void* memory, std::size_t size, off_t offset,
                             CUfileOpcode_t opcode) {
  sluice_explanation_t explanation{};
  EXPECT_EQ(support::code(sluice_explain(handle, memory, 0, opcode, size, offset, &explanation)), CU_FILE_SUCCESS);
  return explanation;
}

std::vector<Pair> pairs() {
  std::vector<Pair> found;
  const auto visit = [](const sluice_direct_pair_t* pair, void* context) {
    static_cast<std::vector<Pair>*>(context)->push_back(
        {pair->gpu, sluice_reason_name(pair->reason), pair->sentence, pair->transfers, pair->polled, pair->rerouted});
  };
  EXPECT_EQ(support::code(sluice_direct_pairs(visit, &found)), CU_FILE_SUCCESS);
  return found;
}

void DirectTest::SetUp() {
  support::DeviceTest::SetUp();
  if (IsSkipped()) return;
  if (!support::cuda()->soft) GTEST_SKIP() << "whether a real GPU has a direct path is for the machine to say";
  if (std::getenv("SLUICE_SOFTGPU_BACKING") == nullptr) GTEST_SKIP() << "run this by tests/support/with_backing.sh";
}

}  // namespace sluice::direct
