// SPDX-License-Identifier: Apache-2.0
// Threads that share a file, each with a part of its own that begins and ends where no block does: a short count is the
// end of the file, an error is the storage's, and nobody's bytes are touched by what goes on beside them.
//
// SLUICE_TEST_SEED repeats a run as far as threads do; SLUICE_MODEL_SECONDS lets each file system have so long.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "model/file_actor.h"
#include "support/scratch.h"

namespace sluice::model {
namespace {

using namespace support;

constexpr std::size_t kActors = 4;
constexpr std::size_t kPart = 1'500'007;
constexpr std::size_t kMost = 2'500'000;  // of the last part
constexpr std::size_t kSteps = 120;

class FileModel : public CufileTest, public ::testing::WithParamInterface<const char*> {};

// Until so many steps are done, or so long has gone by.
class Until {
 public:
  Until() {
    const char* const seconds = std::getenv("SLUICE_MODEL_SECONDS");
    if (seconds != nullptr) end_ = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(seconds));
  }
  bool is_over(std::size_t steps) const { return end_ ? std::chrono::steady_clock::now() > *end_ : steps >= kSteps; }

 private:
  std::optional<std::chrono::steady_clock::time_point> end_;
};

TEST_P(FileModel, KeepsEveryBodysBytesAndTellsTrueCounts) {
  const Place* const place = find_place(GetParam());
  if (place == nullptr) GTEST_SKIP() << "there is no " << GetParam() << " here";
  const ScratchFile scratch(random_bytes(kPart * kActors, 0x0de1), place->path);
  const Fd buffered = scratch.open(O_RDWR);
  const Fd direct(::open(scratch.path().c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  const Handle by_buffered(buffered);
  const std::optional<Handle> by_direct = direct.valid() ? std::optional<Handle>(std::in_place, direct) : std::nullopt;
  const SharedFile file{scratch.path(), buffered.get(), direct.get(), by_buffered.get(),
                        by_direct ? by_direct->get() : nullptr};
  std::deque<FileActor> actors;
  for (std::size_t i = 0; i < kActors; ++i) {
    const auto begin = scratch.content().begin() + static_cast<std::ptrdiff_t>(i * kPart);
    const bool last = i + 1 == kActors;
    actors.emplace_back(i, file, i * kPart, Bytes(begin, begin + static_cast<std::ptrdiff_t>(kPart)),
                        last ? kMost : kPart, last ? Edge::at_the_end : Edge::inner);
  }
  const Until until;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (FileActor& actor : actors) {
    threads.emplace_back([&] {
      while (!stop && !until.is_over(actor.steps())) {
        if (!actor.step()) stop = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Bytes found = content_of(scratch.path());
  std::size_t end = 0;
  std::size_t steps = 0;
  for (const FileActor& actor : actors) {
    EXPECT_EQ(actor.complaint(), "") << "SLUICE_TEST_SEED=" << run_seed();
    end = actor.begin() + actor.content().size();
    steps += actor.steps();
    ASSERT_LE(end, found.size());
    EXPECT_TRUE(same_bytes(actor.content(), std::span(found).subspan(actor.begin(), actor.content().size())))
        << "at " << actor.begin() << "; SLUICE_TEST_SEED=" << run_seed();
  }
  EXPECT_EQ(end, found.size());
  RecordProperty("steps", static_cast<int>(steps));
}

std::string name_of_place(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Places, FileModel,
                         ::testing::Values("ext4", "xfs", "btrfs", "tmpfs", "overlay-ext4", "fuse", "here"),
                         name_of_place);

}  // namespace
}  // namespace sluice::model
