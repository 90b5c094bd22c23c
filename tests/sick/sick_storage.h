// SPDX-License-Identifier: Apache-2.0
// A sick file system beside healthy storage, and threads that are stuck in it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "sick/ward.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::sick {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr auto kLongEnough = std::chrono::seconds(40);  // only a fault gets there

class SickStorage : public support::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    const std::string why_not = Ward::why_not();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    ward_.emplace();
  }
  void TearDown() override {
    cure();
    ward_.reset();
    DeviceTest::TearDown();
  }

  void fall_silent() {
    for (auto& ailment : ward_->condition().reading) ailment = Ailment::silent;
    for (auto& ailment : ward_->condition().writing) ailment = Ailment::silent;
  }
  void cure() {
    if (!ward_) return;
    for (auto& ailment : ward_->condition().reading) ailment = Ailment::none;
    for (auto& ailment : ward_->condition().writing) ailment = Ailment::none;
  }

  // Whether it comes to an end while the storage is silent. Where it does not, the storage is cured.
  bool ends(std::function<void()> body) {
    auto done = std::async(std::launch::async, [body = std::move(body)] {
      const support::ContextScope context(support::primary_context(0));
      body();
    });
    if (done.wait_for(kLongEnough) == std::future_status::ready) return true;
    cure();
    done.wait();
    return false;
  }

  std::optional<Ward> ward_;
};

// What a thread of its own is stuck in, until the storage is cured.
class Stuck {
 public:
  explicit Stuck(std::function<void()> body)
      : thread_([body = std::move(body)] {
          const support::ContextScope context(support::primary_context(0));
          body();
        }) {}
  ~Stuck() { thread_.join(); }
  Stuck(const Stuck&) = delete;
  Stuck& operator=(const Stuck&) = delete;

 private:
  std::thread thread_;
};

}  // namespace sluice::sick
