// SPDX-License-Identifier: Apache-2.0
// The two ends of a case: the file, and the memory of each kind.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "contract/matrix_case.h"
#include "support/calls.h"

namespace sluice::contract {

// What the file of each place holds when no case is running: the same random bytes, cut at the file's size.
const support::Bytes& base_content();

// The file (or raw device) that the cases of one place share. Besides directories and devices, the names "memfd" and
// "unlinked" are places.
class Target {
 public:
  explicit Target(const std::string& place);

  // A new description of the file; not valid, with errno, when the file system refuses the flags.
  support::Fd open(int flags) const;
  // A plain descriptor to look at the file and to put it right.
  int plain() const { return plain_.get(); }
  std::uint64_t size() const { return size_; }
  Growth growth() const { return growth_; }
  std::span<const unsigned char> content() const { return {base_content().data(), size_}; }

 private:
  support::Fd held_;  // of a raw device, for as long as its content is ours
  std::optional<support::ScratchFile> file_;
  std::string path_;
  support::Fd plain_;
  std::uint64_t size_ = 0;
  Growth growth_ = Growth::may_grow;
};

// The memory of each kind, registered where the kind says so. Needs the driver open for as long as it lives.
class Buffers {
 public:
  Buffers();

  // Whether this machine has the kind.
  static bool available(Buffer buffer);
  const support::Memory& of(Buffer buffer) const { return *memory_[index(buffer)]; }

 private:
  // A pointer into a registered buffer needs no buffer of its own.
  static std::size_t index(Buffer buffer) {
    return static_cast<std::size_t>(buffer == Buffer::device_interior ? Buffer::device_registered : buffer);
  }

  std::array<std::optional<support::Memory>, kBuffers> memory_;
  std::array<std::optional<support::Registration>, kBuffers> registration_;
};

}  // namespace sluice::contract
