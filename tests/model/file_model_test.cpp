// SPDX-License-Identifier: Apache-2.0
// Threads that share a file, each with a part of its own that begins and ends where no block does: a short count is the
// end of the file, an error is the storage's, and no others' bytes are touched by what goes on beside them.
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
#include <utility>
#include <vector>

#include "model/file_actor.h"
#include "sluice.h"
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

// The file opened in each way that its file system takes.
class OpenDoors {
 public:
  explicit OpenDoors(const std::string& path) {
    constexpr std::pair<const char*, int> ways[] = {
        {"buffered", 0}, {"O_DIRECT", O_DIRECT}, {"O_DIRECT and O_SYNC", O_DIRECT | O_SYNC}, {"O_DSYNC", O_DSYNC}};
    for (const auto& [name, flags] : ways) {
      const Fd& fd = files_.emplace_back(::open(path.c_str(), O_RDWR | O_CLOEXEC | flags));
      if (fd.valid()) doors_.push_back({name, fd.get(), handles_.emplace_back(fd).get()});
    }
  }
  const Doors& doors() const { return doors_; }

 private:
  std::deque<Fd> files_;
  std::deque<Handle> handles_;
  Doors doors_;
};

// What drives have moved by themselves so far.
std::uint64_t moved_directly() {
  std::vector<sluice_path_counter_t> counters(std::size_t{SLUICE_PATH_COUNT} * SLUICE_REASON_COUNT);
  std::size_t count = 0;
  EXPECT_EQ(code(sluice_path_counters(counters.data(), counters.size(), &count)), CU_FILE_SUCCESS);
  counters.resize(count);
  std::uint64_t bytes = 0;
  for (const sluice_path_counter_t& counter : counters) {
    if (counter.path == SLUICE_PATH_P2PDMA) bytes += counter.read_bytes + counter.written_bytes;
  }
  return bytes;
}

TEST_P(FileModel, KeepsEveryBodysBytesAndTellsTrueCounts) {
  const Place* const place = find_place(GetParam());
  if (place == nullptr) GTEST_SKIP() << "there is no " << GetParam() << " here";
  const ScratchFile scratch(random_bytes(kPart * kActors, 0x0de1), place->path);
  const OpenDoors opened(scratch.path());
  std::deque<FileActor> actors;
  for (std::size_t i = 0; i < kActors; ++i) {
    const auto begin = scratch.content().begin() + static_cast<std::ptrdiff_t>(i * kPart);
    const bool last = i + 1 == kActors;
    actors.emplace_back(i, opened.doors(), i * kPart, Bytes(begin, begin + static_cast<std::ptrdiff_t>(kPart)),
                        last ? kMost : kPart, last ? Edge::at_the_end : Edge::inner);
  }
  const std::uint64_t directly_before = moved_directly();
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
  // On a soft GPU whose memory drives reach (with_backing.sh).
  const bool has_direct_path =
      std::getenv("SLUICE_SOFTGPU_BACKING") != nullptr && (place->name == "ext4" || place->name == "xfs");
  EXPECT_TRUE(!has_direct_path || moved_directly() > directly_before) << "no transfer went device to device";
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
