// SPDX-License-Identifier: Apache-2.0
// One request at a time through io_uring, by the bare system calls: the lab asks what the kernel does.
#pragma once

#include <linux/io_uring.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::lab {

enum class Waiting : std::uint8_t { interrupt, polling };
enum class Operation : std::uint8_t { read, write };

// Throws std::system_error where the kernel offers no ring of that kind.
class Ring {
 public:
  explicit Ring(Waiting waiting);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Submits and waits. The count, or an errno, negative.
  ssize_t run(Operation operation, int fd, std::span<std::byte> memory, off_t offset);

  // 0, or an errno, negative.
  int register_buffer(std::span<std::byte> memory);

 private:
  ssize_t enter(unsigned submit) const;

  int fd_ = -1;
  io_uring_params params_{};
  std::byte* rings_ = nullptr;
  std::size_t rings_length_ = 0;
  io_uring_sqe* entries_ = nullptr;
};

}  // namespace sluice::lab
