// SPDX-License-Identifier: Apache-2.0
// The rings of one process, read along while it writes. Nothing in them is trusted: the process is another's program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "trace/recording.h"

namespace sluice::tools {

class Rings {
 public:
  // Maps what the descriptor leads to and closes it. Throws ToolError where it is no such memory, or may change its
  // size under us.
  static Rings of_descriptor(int fd);
  // Whether the process has yet to finish such memory: sealing it is the last thing.
  static bool is_being_made(int fd) noexcept;
  Rings(Rings&& other) noexcept;
  Rings(const Rings&) = delete;
  Rings& operator=(const Rings&) = delete;
  Rings& operator=(Rings&&) = delete;
  ~Rings();

  // The process as it numbers itself.
  std::uint64_t own_number() const noexcept;
  std::string library() const;
  std::string program() const;
  ino_t inode() const noexcept { return inode_; }
  std::uint64_t threads_without_ring() const noexcept;

  // Takes what has been written since the last time, at most `room` events; the rest is counted as lost. Events that
  // were written before `since` are left out.
  void read(TracedProcess& into, std::uint64_t since, std::uint64_t& room);

 private:
  Rings(const std::byte* memory, ino_t inode) noexcept : memory_(memory), inode_(inode) {}
  const sluice_trace_head& head() const noexcept { return *reinterpret_cast<const sluice_trace_head*>(memory_); }
  void read_ring(std::uint32_t number, TracedProcess& into, std::uint64_t since, std::uint64_t& room);

  struct Place {
    std::uint64_t next = 0;                // the first event that has not been read
    std::size_t thread = ~std::size_t{0};  // whose they are, as an index; ~0: not known yet
  };

  const std::byte* memory_;
  ino_t inode_;
  std::array<Place, SLUICE_TRACE_RING_COUNT> places_{};
};

}  // namespace sluice::tools
