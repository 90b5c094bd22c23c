// SPDX-License-Identifier: Apache-2.0
// Random transfers by the client, held against plain memory that does the same. SLUICE_NVFS_OPERATIONS says how many,
// SLUICE_TEST_SEED draws them; a failure prints both the operation and the seed.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <random>

#include "nvfs/rig.h"

namespace sluice::nvfs_test {
namespace {

using base::Direction;

constexpr std::uint64_t kDevice = 9 * kMebibyte;  // of three windows, the last one not whole
constexpr std::uint64_t kFile = 2 * kMebibyte;
constexpr std::uint64_t kMargin = 64 * kKibibyte;

std::uint64_t number(const char* variable, std::uint64_t standard) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : standard;
}

class Model : public ClientTest {
 protected:
  std::uint64_t draw(std::uint64_t most) { return std::uniform_int_distribution<std::uint64_t>(0, most)(random_); }
  bool chance(std::uint64_t one_in) { return draw(one_in - 1) == 0; }
  std::uint64_t draw_blocks(std::uint64_t most_bytes) {
    const std::uint64_t usual = chance(40) ? most_bytes : std::min(most_bytes, 160 * kKibibyte);
    return (1 + draw(std::max<std::uint64_t>(usual / kBlock, 1) - 1)) * kBlock;
  }

  void make() {
    memory_ = std::make_unique<DeviceMemory>(kDevice);
    file_ = std::make_unique<File>(kFile, 7);
    device_ = pattern(kDevice, 8);
    std::ranges::copy(device_, memory_->bytes().begin());
    content_ = file_->content();
    register_memory();
  }

  void register_memory() {
    windows_.reset();
    windows_ = std::make_unique<nvfs::Windows>(client_.mappings(), memory_->address(), kDevice, 0x300);
  }

  // Ranges that do not touch each other, in the device and in the file.
  std::vector<nvfs::Member> draw_members(Direction direction) {
    std::vector<nvfs::Member> members;
    const std::uint64_t count = 1 + (chance(3) ? draw(7) : 0);
    std::uint64_t there = draw(kDevice / kBlock - 1) * kBlock;
    std::uint64_t at = draw(content_.size() / kBlock + 4) * kBlock;
    for (std::uint64_t i = 0; i < count && there < kDevice && at < kFile; ++i) {
      const std::uint64_t length = std::min({draw_blocks(kMebibyte), kDevice - there, kFile - at});
      members.push_back(member(direction, *file_, at, memory_->address() + there, length, *windows_));
      there += length + draw(8) * kBlock;
      at += length + draw(8) * kBlock;
    }
    return members;
  }

  void transfer() {
    const Direction direction = chance(2) ? Direction::read : Direction::write;
    std::vector<nvfs::Member> members = draw_members(direction);
    if (members.empty()) return;
    std::vector<std::unique_ptr<Clearing>> holes;
    for (nvfs::Member& one : members) {
      holes.push_back(std::make_unique<Clearing>(reinterpret_cast<std::byte*>(one.address)));
      one.holes = holes.back().get();
    }
    const bool faulty = chance(8);
    if (faulty) plan_a_fault();
    fake_.end_at_once(!chance(10));
    nvfs::Group::run(client_.node(), members);
    fake_.plan({}, 0, 0);
    for (const nvfs::Member& one : members) {
      direction == Direction::read ? follow_read(one, faulty) : follow_write(one, faulty);
    }
    for (const nvfs::Member& one : members) compare_margins(one.address - memory_->address(), one.length);
  }

  void plan_a_fault() {
    const Fault::Kind kind = chance(2) ? Fault::Kind::fail : Fault::Kind::shorten;
    constexpr std::array errors{EIO, ENOSPC, EBUSY};
    const std::int64_t value =
        kind == Fault::Kind::fail ? errors[draw(2)] : static_cast<std::int64_t>(draw_blocks(64 * kKibibyte));
    fake_.plan({kind, value}, draw(4));
  }

  void follow_read(const nvfs::Member& one, bool faulty) {
    const std::uint64_t there = one.address - memory_->address();
    const std::uint64_t end = std::max<std::uint64_t>(one.at, content_.size());
    const std::uint64_t wanted = std::min(one.length, end - one.at);
    if (!faulty) {
      ASSERT_EQ(one.outcome(), base::Outcome::bytes(wanted));
    }
    ASSERT_LE(one.done, wanted);
    std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(one.at), one.done,
                device_.begin() + static_cast<std::ptrdiff_t>(there));
    compare(there, one.done);
    // Behind the end of the file, and of a transfer that was stopped, the member's own memory may be any.
    std::ranges::copy(memory_->bytes(there, one.length), device_.begin() + static_cast<std::ptrdiff_t>(there));
  }

  void follow_write(const nvfs::Member& one, bool faulty) {
    const std::uint64_t there = one.address - memory_->address();
    if (!faulty) {
      ASSERT_EQ(one.outcome(), base::Outcome::bytes(one.length));
    }
    const Bytes now = file_->content(one.at, one.length);
    ASSERT_GE(now.size(), one.done);
    ASSERT_TRUE(std::equal(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(one.done),
                           device_.begin() + static_cast<std::ptrdiff_t>(there)));
    compare(there, one.length);
    if (now.empty()) return;
    if (content_.size() < one.at + now.size()) content_.resize(one.at + now.size());
    std::ranges::copy(now, content_.begin() + static_cast<std::ptrdiff_t>(one.at));
  }

  void compare(std::uint64_t there, std::uint64_t length) {
    const auto now = memory_->bytes(there, length);
    ASSERT_TRUE(std::equal(now.begin(), now.end(), device_.begin() + static_cast<std::ptrdiff_t>(there)));
  }

  void compare_margins(std::uint64_t there, std::uint64_t length) {
    const std::uint64_t begin = there > kMargin ? there - kMargin : 0;
    compare(begin, std::min(there + length + kMargin, kDevice) - begin);
  }

  void change_the_file() {
    if (chance(2)) {
      const std::uint64_t size = draw(kFile / kBlock) * kBlock + (chance(3) ? draw(kBlock - 1) : 0);
      file_->resize(size);
      content_.resize(size);
    } else if (!content_.empty()) {
      const std::uint64_t at = draw(content_.size() / kBlock) * kBlock;
      const std::uint64_t length = draw_blocks(256 * kKibibyte);
      file_->punch(at, length);
      const std::uint64_t end = std::min<std::uint64_t>(at + length, content_.size());
      if (at < end) std::fill_n(content_.begin() + static_cast<std::ptrdiff_t>(at), end - at, std::byte{0});
    }
  }

  void change_the_mappings() {
    switch (draw(3)) {
      case 0:
        return register_memory();
      case 1:
        return client_.mappings().set_limit(1 + draw(3));
      case 2:
        return fake_.set_bar((4 + draw(8)) * kMebibyte);
      default: {
        const std::uint64_t at = draw(2) * 4 * kMebibyte;
        fake_.free_device_memory(memory_->address() + at, kBlock);
        // The first to come by finds out.
        nvfs::Member probe = member(Direction::read, *file_, 0, memory_->address() + at, kBlock, *windows_);
        Clearing holes(reinterpret_cast<std::byte*>(probe.address));
        probe.holes = &holes;
        const nvfs::Member done = move(probe);
        std::ranges::copy(memory_->bytes(at, kBlock), device_.begin() + static_cast<std::ptrdiff_t>(at));
        ASSERT_TRUE(done.trouble == nvfs::Trouble::memory_gone || done.trouble == nvfs::Trouble::none);
      }
    }
  }

  std::mt19937_64 random_{number("SLUICE_TEST_SEED", 1)};
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<File> file_;
  std::unique_ptr<nvfs::Windows> windows_;
  Bytes device_;
  Bytes content_;
};

TEST_F(Model, AgreesWithTheClientAfterEveryOperation) {
  make();
  const std::uint64_t operations = number("SLUICE_NVFS_OPERATIONS", 100'000);
  for (std::uint64_t i = 0; i < operations; ++i) {
    SCOPED_TRACE(testing::Message() << "operation " << i << ", SLUICE_TEST_SEED=" << number("SLUICE_TEST_SEED", 1));
    if (chance(25)) {
      change_the_file();
    } else if (chance(60)) {
      change_the_mappings();
    } else {
      transfer();
    }
    if (i % 1000 == 0) {
      compare(0, kDevice);
      const Bytes now = file_->content();
      ASSERT_TRUE(now == content_);
    }
    if (HasFatalFailure()) return;
  }
  compare(0, kDevice);
  ASSERT_TRUE(file_->content() == content_);
  const FakeModule::Counts counts = fake_.counts();
  EXPECT_EQ(counts.refused_busy, 0U);
  EXPECT_GT(counts.reads, 0U);
  EXPECT_GT(counts.writes, 0U);
}

}  // namespace
}  // namespace sluice::nvfs_test
