// SPDX-License-Identifier: Apache-2.0
// Two hundred volumes on one node, over the socket: what calls take is printed, what they leave behind is nothing.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "facts/read.h"
#include "tests/driver.h"

namespace sluice::csi {
namespace {

constexpr int volumes_there_are = 200;

class ScaleTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (!IsSkipped()) begin();
  }
  std::string process_folder() const { return "/proc/" + std::to_string(driver_->process()); }
  std::size_t descriptors() const { return facts::list_names(process_folder() + "/fd").size(); }
  long resident_kib() const {
    const std::string status = facts::read_text(process_folder() + "/status").value_or("");
    const std::size_t at = status.find("VmRSS:");
    return at == std::string::npos ? 0 : std::strtol(status.c_str() + at + 6, nullptr, 10);
  }
  // How often the process's threads have gone to sleep, which is how often they were woken.
  long sleeps() const {
    long sum = 0;
    for (const std::string& thread : facts::list_names(process_folder() + "/task")) {
      const std::string status = facts::read_text(process_folder() + "/task/" + thread + "/status").value_or("");
      constexpr std::string_view word = "\nvoluntary_ctxt_switches:";
      const std::size_t at = status.find(word);
      if (at != std::string::npos) sum += std::strtol(status.c_str() + at + word.size(), nullptr, 10);
    }
    return sum;
  }
  template <typename Body>
  static double milliseconds(Body body) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

  // All of them made, brought to a pod each, listed, and taken away again.
  void round(const std::string& name) {
    std::vector<double> brought;
    std::vector<std::string> ids;
    for (int i = 0; i < volumes_there_are; ++i) {
      ids.push_back(made("pvc-" + std::to_string(i), 1 << 20));
      brought.push_back(milliseconds([&] {
        ASSERT_TRUE(stage(ids.back()).ok());
        ASSERT_TRUE(publish(ids.back(), target("pod-" + std::to_string(i))).ok());
      }));
    }
    std::vector<double> listed;
    for (int i = 0; i < 9; ++i) {
      listed.push_back(milliseconds([&] {
        const auto answer =
            ask(driver_->controller(), &wire::Controller::Stub::ListVolumes, wire::ListVolumesRequest());
        ASSERT_EQ(answer.value.entries_size(), volumes_there_are);
      }));
    }
    std::sort(brought.begin(), brought.end());
    std::sort(listed.begin(), listed.end());
    std::printf(
        "%s: stage and publish %.1f ms (median), %.1f ms (99 of 100); ListVolumes of %d %.1f ms (median); "
        "resident %ld KiB, %zu descriptors\n",
        name.c_str(), brought[brought.size() / 2], brought[brought.size() * 99 / 100], volumes_there_are,
        listed[listed.size() / 2], resident_kib(), descriptors());
    most_resident_ = std::max(most_resident_, resident_kib());
    for (int i = 0; i < volumes_there_are; ++i) {
      ASSERT_TRUE(unpublish(ids[static_cast<std::size_t>(i)], target("pod-" + std::to_string(i))).ok());
      ASSERT_TRUE(unstage(ids[static_cast<std::size_t>(i)]).ok());
      ASSERT_TRUE(remove(ids[static_cast<std::size_t>(i)]).ok());
    }
  }

  long most_resident_ = 0;
};

TEST_F(ScaleTest, TwoHundredVolumesComeAndGoAndLeaveNothing) {
  const std::int64_t room = capacity();
  const int mounts = count_mounts_below(pool_->folder());
  round("first");
  const std::size_t open_after_one = descriptors();
  const long resident_after_one = resident_kib();
  round("second");
  EXPECT_LE(descriptors(), open_after_one + 2);
  EXPECT_LE(resident_kib(), resident_after_one + 1024);
  EXPECT_EQ(count_mounts_below(pool_->folder()), mounts);
  EXPECT_EQ(capacity(), room);
  EXPECT_TRUE(facts::list_names(pool_->path() + "/sluice-csi/records").empty());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(most_resident_, 16 * 1024);
#endif
}

// Polling that is worth the name is ten times a second and more. What wakes are two timers of gRPC.
TEST_F(ScaleTest, NothingPollsWhileNothingIsAsked) {
  const std::string id = made("pvc-1", 1 << 20);
  ASSERT_TRUE(stage(id).ok());
  ASSERT_TRUE(publish(id, target("pod-1")).ok());
  constexpr unsigned window = 5;  // seconds
  const long before = sleeps();
  sleep(window);
  const double wakes = static_cast<double>(sleeps() - before) / window;
  std::printf("idle: %.1f wake-ups a second of %zu threads\n", wakes,
              facts::list_names(process_folder() + "/task").size());
  EXPECT_LT(wakes, 10);
  EXPECT_TRUE(unpublish(id, target("pod-1")).ok());
  EXPECT_TRUE(unstage(id).ok());
}

}  // namespace
}  // namespace sluice::csi
