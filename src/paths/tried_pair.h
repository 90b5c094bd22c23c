// SPDX-License-Identifier: Apache-2.0
// What trials of one device and one file system or block device, and transfers after them, have shown. Read by every
// transfer, written by trials and refusals.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "facts/file.h"
#include "facts/trial_result.h"

namespace sluice::paths {

class TriedPair {
 public:
  TriedPair(int device, std::string storage, std::string words = "")
      : device_(device), storage_(std::move(storage)), words_(std::move(words)) {}
  TriedPair(const TriedPair&) = delete;
  TriedPair& operator=(const TriedPair&) = delete;

  facts::TrialResult reach() const noexcept { return reach_.load(std::memory_order_acquire); }
  int device() const noexcept { return device_; }
  const std::string& storage() const noexcept { return storage_; }

  // True for the one that is to make the trial now: it has not been made, no thread is at it, and it is not too soon
  // after one that could not be made. It then calls settle() or postpone().
  bool claim_trial() noexcept {
    if (reach() != facts::TrialResult::untried) return false;
    // After the first asking, the second, the fourth, ...: a file without data is looked at by few of its transfers.
    const std::uint64_t asked = asked_.fetch_add(1, std::memory_order_relaxed) + 1;
    if ((asked & (asked - 1)) != 0) return false;
    facts::TrialResult expected = facts::TrialResult::untried;
    return reach_.compare_exchange_strong(expected, facts::TrialResult::probing, std::memory_order_acq_rel);
  }
  // The same where the answer is needed, however often that was tried.
  bool claim_trial_at_once() noexcept {
    facts::TrialResult expected = facts::TrialResult::untried;
    return reach_.compare_exchange_strong(expected, facts::TrialResult::probing, std::memory_order_acq_rel);
  }
  void settle(facts::TrialResult reach, const std::string& words) {
    say(words);
    reach_.store(reach);  // before the look whether a thread waits: no weaker order keeps these two apart
    reach_.notify_all();
  }
  // The same when there is not even memory to say so.
  void give_up() noexcept {
    reach_.store(facts::TrialResult::untried);
    reach_.notify_all();
  }
  // Returns when no thread is at the trial any more.
  void wait_for_trial() const noexcept { reach_.wait(facts::TrialResult::probing, std::memory_order_acquire); }
  // There was nothing to try it on: another file, or this one later, may do.
  void postpone(const std::string& words) { settle(facts::TrialResult::untried, words); }

  // A transfer was refused after the trial had succeeded: from now on the others go by the CPU. True for the first one,
  // which then says so.
  bool refuse(facts::TrialResult reach) noexcept {
    facts::TrialResult expected = facts::TrialResult::proven;
    return reach_.compare_exchange_strong(expected, reach, std::memory_order_acq_rel);
  }
  void say(const std::string& words) {
    const std::lock_guard lock(mutex_);
    words_ = words;
  }

  std::string words() const {
    const std::lock_guard lock(mutex_);
    return words_;
  }

  // No child inherits the lock held.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

  void count_transfer() noexcept { transfers_.fetch_add(1, std::memory_order_relaxed); }
  void count_rerouted() noexcept { rerouted_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t transfers() const noexcept { return transfers_.load(std::memory_order_relaxed); }
  std::uint64_t rerouted() const noexcept { return rerouted_.load(std::memory_order_relaxed); }

 protected:
  ~TriedPair() = default;
  void begin_with(facts::TrialResult reach) noexcept { reach_.store(reach, std::memory_order_relaxed); }

 private:
  const int device_;
  const std::string storage_;
  std::atomic<facts::TrialResult> reach_{facts::TrialResult::untried};
  std::atomic<std::uint64_t> asked_{0};
  std::atomic<std::uint64_t> transfers_{0};
  std::atomic<std::uint64_t> rerouted_{0};
  mutable std::mutex mutex_;
  std::string words_;  // guarded by mutex_
};

// What is tried once for all files on it: the file system, by its number; of a block device, its disk.
std::string storage_key(const facts::FileFacts& file);
// The same for people.
std::string storage_name(const facts::FileFacts& file);

}  // namespace sluice::paths
