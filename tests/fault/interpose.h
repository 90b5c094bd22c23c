// SPDX-License-Identifier: Apache-2.0
// Faults between the library and the kernel. The test program defines pread, pwrite and their relatives itself, and the
// loader gives them to the library; a Plan says what the calls on one file are to do.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "support/scratch.h"

namespace sluice::fault {

enum class Direction : std::uint8_t { read, write };

// What one call does. Made by the functions below.
struct Step {
  enum class Kind : std::uint8_t { pass, shorten, fail, nothing, lose, block, hold, detour };
  Kind kind = Kind::pass;
  std::size_t length = 0;
  int error = 0;
  int released_by = -1;  // of hold(), once it is a request's: a descriptor that can be read then
};

inline Step pass() {
  return {Step::Kind::pass};
}
// Moves at most so many bytes. On an O_DIRECT descriptor a multiple of 4096 and at least that, as a kernel would.
inline Step shorten(std::size_t length) {
  return {Step::Kind::shorten, length};
}
inline Step fail(int error) {
  return {Step::Kind::fail, 0, error};
}
// Answers 0: the end of the file, or a device that takes nothing.
inline Step nothing() {
  return {Step::Kind::nothing};
}
// Answers that all was moved, and moves nothing: what an IOMMU does that drops the transfer.
inline Step lose() {
  return {Step::Kind::lose};
}
// Waits for Plan::release(), then passes, or fails where an error is given.
inline Step block(int error = 0) {
  return {Step::Kind::block, 0, error};
}

// As block(), but a request of io_uring waits by itself, and others of the same ring go on. It moves nothing, and says
// that it has moved a few bytes, or none.
inline Step hold(bool says_some = true) {
  return {Step::Kind::hold, says_some ? 1U : 0U};
}
// Passes, but a request of io_uring does so by a thread of the kernel's: later, and behind others of the same ring.
inline Step detour() {
  return {Step::Kind::detour};
}

// In force from construction to destruction, one at a time. Concerns the calls of one direction on one file, whatever
// descriptor and thread they use. The last step holds for all further calls.
class Plan {
 public:
  Plan(int fd, Direction direction, std::vector<Step> steps);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Calls so far.
  std::size_t calls() const { return calls_; }
  // How many threads made them.
  std::size_t threads() const;
  // Returns when a call has reached a block() or hold() step.
  void wait_until_blocked();
  bool has_blocked() const { return blocked_; }
  void release();

  // For the interposed functions.
  bool concerns(int fd, Direction direction) const;
  Step next();
  void tell_of_a_stop();
  void stand_still();
  int released_by() const { return until_released_.get(); }

 private:
  const dev_t device_;
  const ino_t inode_;
  const Direction direction_;
  const std::vector<Step> steps_;
  std::atomic<std::size_t> calls_{0};
  std::set<std::thread::id> threads_;  // all calls of next() are made one after the other
  std::atomic<bool> blocked_{false};
  std::atomic<bool> released_{false};
  support::Fd until_released_;  // of a pipe, whose other end is closed then
  support::Fd releasing_;
};

// Visits to io_uring that the kernel refuses: `count` of them, behind the next `skip`, on whatever ring and thread. In
// force from construction to destruction, one at a time. Some rings have their answers with visits only; of theirs,
// those that hand nothing over are let through, unless all are to be refused.
class RefusedVisits {
 public:
  enum class Which : std::uint8_t { some, all };
  RefusedVisits(std::size_t skip, std::size_t count, int error, Which which = Which::some);
  ~RefusedVisits();
  RefusedVisits(const RefusedVisits&) = delete;
  RefusedVisits& operator=(const RefusedVisits&) = delete;

  // So far, refused or not.
  std::size_t visits() const;
};
// The rings of all threads that are asked for from construction on. One at a time.
class RingsSeen {
 public:
  RingsSeen();
  std::size_t made() const;
  // Of those, how many had these setup flags, of the ones in `mask`.
  std::size_t made_with(unsigned flags, unsigned mask) const;
  std::size_t refused() const;
  // Requests for memory that is registered with their ring.
  std::size_t requests_at_hand() const;
};

// No ring is to be had, for this reason. In force from construction to destruction, one at a time.
class RefusedRings {
 public:
  explicit RefusedRings(int error);
  ~RefusedRings();
  RefusedRings(const RefusedRings&) = delete;
  RefusedRings& operator=(const RefusedRings&) = delete;
  std::size_t count() const;
};
inline constexpr std::size_t for_ever = ~std::size_t{0};

// Whether O_DIRECT reads into device memory go by io_uring here; the kernel, a sandbox, or the mode that is tested may
// be without.
bool reads_disks_by_ring();

// For the interposed functions: the step for this call, `pass` where no plan concerns it; returns when a call that
// blocks may go on.
Step step_for(int fd, Direction direction);
// The same for a request, which may be one that is to be held.
Step step_for_request(int fd, Direction direction);
// A length cut to what shorten(limit) allows on this descriptor.
std::size_t shortened(int fd, std::size_t length, std::size_t limit);

// True when the library's calls do come by here: a test that injects nothing would prove nothing.
bool interposition_works();

}  // namespace sluice::fault
