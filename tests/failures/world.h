// SPDX-License-Identifier: Apache-2.0
// What a play works on: a file, seen through a mapping that was made before anything fails, memory of every kind, a
// stream; and a model of what the file holds. Looking at any of it needs no memory and as few system calls as can be.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "failures/record.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/memory.h"
#include "support/random.h"
#include "support/scratch.h"

namespace sluice::failures {

inline constexpr std::size_t kFileSize = 3'145'733;
inline constexpr std::size_t kMemorySize = 3'300'000;

// A range of a file and of memory.
struct Range {
  std::size_t size = 0;
  std::size_t file_at = 0;
  std::size_t memory_at = 0;
};

enum class Verdict : unsigned char { done, refused, short_but_true, bad };

class World {
 public:
  World(Record& record, const std::string& directory, std::uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int descriptor(bool direct) const { return direct ? direct_.get() : buffered_.get(); }
  // By number: device memory that is to be registered, other device memory, pinned, plain and managed memory.
  static constexpr std::size_t memories = 5;
  const support::Memory& memory(std::size_t number) const { return *memories_[number]; }
  CUstream stream() const { return stream_.get(); }
  Record& record() const { return record_; }

  // Before each call: from here on it has so long, and then the process ends by SIGALRM. The machine may be a busy one.
  static void allow_a_minute();

  // Before a read: the range and what lies beside it hold nothing that is in the file.
  void soil(const support::Memory& memory, const Range& range) const;
  // After it: `count`, or -errno. A short count is the end of the file, unless the storage was told to say less.
  Verdict judge_read(const char* what, const support::Memory& memory, const Range& range, ssize_t count);
  // Before a write: fresh bytes.
  void fill(const support::Memory& memory, const Range& range);
  // After it, of several at once: the model gets what counts as written; what was refused may be in the file in part,
  // and is taken from there.
  void expect(const Range& range, ssize_t count);
  // After that, or after one.
  Verdict judge_write(const char* what, const Range& range, ssize_t count);

  // The storage answers less than there is, once: reads may, too.
  // Were they allowed to be before?
  bool let_reads_be_short(bool allowed) { return std::exchange(reads_may_be_short_, allowed); }
  bool could_not_look() const { return could_not_look_; }
  void complain(const char* what, const Range& range, ssize_t count, const char* why) const;
  bool has_complained() const { return complained_; }

 private:
  bool take(const support::Memory& memory, std::size_t at, std::size_t size) const;
  bool put(const support::Memory& memory, std::size_t at, std::size_t size) const;
  bool file_is_as_modelled_outside(const Range& range) const;

  Record& record_;
  support::Random random_;
  support::ScratchFile file_;
  support::Fd buffered_;
  support::Fd direct_;
  const unsigned char* mapped_ = nullptr;
  support::Bytes model_;
  mutable support::Bytes scratch_;  // what was taken from memory, or is put there
  support::Bytes written_;          // by the last write, at its place in memory
  std::array<std::unique_ptr<support::Memory>, memories> memories_;
  support::Stream stream_;
  bool reads_may_be_short_ = false;
  mutable bool could_not_look_ = false;
  mutable bool complained_ = false;
};

}  // namespace sluice::failures
