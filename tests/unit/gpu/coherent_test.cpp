// SPDX-License-Identifier: Apache-2.0
// What drivers say of coherent links, and what a trial makes of memory with two sides.
#include "gpu/coherent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "facts/coherence.h"

namespace sluice::gpu {
namespace {

using facts::is_said_coherent;

TEST(SaidCoherent, TakesMoreThanAnIntegratedDevice) {
  EXPECT_TRUE(is_said_coherent({.host_page_tables = true, .pageable = true}));                        // Grace Hopper
  EXPECT_TRUE(is_said_coherent({.integrated = true, .pageable = true, .concurrent_managed = true}));  // GB10
  EXPECT_FALSE(is_said_coherent({.integrated = true}));                                               // Jetson
  EXPECT_FALSE(is_said_coherent({.integrated = true, .pageable = true}));
  EXPECT_FALSE(is_said_coherent({.pageable = true, .concurrent_managed = true}));  // HMM on any x86 machine
  EXPECT_FALSE(is_said_coherent({}));
}

// Memory, and what may be wrong with it.
class Pretended final : public TwoSides {
 public:
  bool host_is_elsewhere = false;  // the two sides are different memory
  bool host_remembers = false;     // the host's cache is not told of the device's stores
  bool device_is_behind = false;   // the device sees what was there one store before
  Answer host_answer = Answer::done;
  Answer device_answer = Answer::done;

  Answer store_by_host(std::span<const std::byte> bytes) override {
    if (host_answer != Answer::done) return host_answer;
    before_ = device_;
    assign(host_, bytes);
    if (!host_is_elsewhere) assign(device_, bytes);
    return Answer::done;
  }
  Answer load_by_host(std::span<std::byte> bytes) override {
    if (host_answer != Answer::done) return host_answer;
    if (host_.empty() || (!host_remembers && !host_is_elsewhere)) host_ = device_;
    return give(host_, bytes);
  }
  Answer store_by_device(std::span<const std::byte> bytes) override {
    if (device_answer != Answer::done) return device_answer;
    assign(device_, bytes);
    return Answer::done;
  }
  Answer load_by_device(std::span<std::byte> bytes) override {
    return give(device_is_behind ? before_ : device_, bytes);
  }

 private:
  static void assign(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
    to.assign(bytes.begin(), bytes.end());
  }
  static Answer give(const std::vector<std::byte>& from, std::span<std::byte> to) {
    std::copy_n(from.begin(), std::min(from.size(), to.size()), to.begin());
    return Answer::done;
  }
  std::vector<std::byte> host_;
  std::vector<std::byte> device_;
  std::vector<std::byte> before_;
};

CpuReach tried(Pretended memory) {
  std::vector<std::byte> put(5000);
  std::vector<std::byte> found(5000);
  return try_both_sides(memory, put, found);
}

TEST(ReachTrial, SucceedsWhereEachSideFindsWhatTheOtherStores) {
  EXPECT_EQ(tried({}), CpuReach::reached);
}

TEST(ReachTrial, FindsOtherMemoryAndCachesThatAreNotKeptInStep) {
  Pretended elsewhere;
  elsewhere.host_is_elsewhere = true;
  EXPECT_EQ(tried(elsewhere), CpuReach::other_bytes);
  Pretended stale;
  stale.host_remembers = true;
  EXPECT_EQ(tried(stale), CpuReach::other_bytes);
  Pretended behind;
  behind.device_is_behind = true;
  EXPECT_EQ(tried(behind), CpuReach::other_bytes);
}

TEST(ReachTrial, TellsAnAddressThatLeadsNowhereFromOneThatCannotBeTriedNow) {
  Pretended nowhere;
  nowhere.host_answer = TwoSides::Answer::unreachable;
  EXPECT_EQ(tried(nowhere), CpuReach::unreachable);
  Pretended busy;
  busy.host_answer = TwoSides::Answer::not_now;
  EXPECT_EQ(tried(busy), CpuReach::untried);
  Pretended lost;
  lost.device_answer = TwoSides::Answer::not_now;
  EXPECT_EQ(tried(lost), CpuReach::untried);
}

TEST(CpuReach, IsNoneOfMemoryThatNoDriverKnows) {
  const facts::BufferFacts host;
  EXPECT_FALSE(cpu_reaches(host, Coherent::always));
  facts::BufferFacts supposed;
  supposed.kind = facts::MemoryKind::device;
  EXPECT_FALSE(cpu_reaches(supposed, Coherent::always));
  EXPECT_EQ(words_of_cpu_reach(supposed, Coherent::always), "");
}

}  // namespace
}  // namespace sluice::gpu
