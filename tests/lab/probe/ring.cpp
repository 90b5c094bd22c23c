// SPDX-License-Identifier: Apache-2.0
// The submission ring, the completion ring and the entries are memory that the kernel shares with us. With one request
// at a time our side is: store the entry, then the tail (release); wait; load the completion's tail (acquire).
#include "lab/probe/ring.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

namespace sluice::lab {

namespace {

constexpr unsigned kEntries = 4;

std::atomic_ref<std::uint32_t> shared(std::byte* rings, std::uint32_t offset) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(rings + offset));
}

void* map_ring(int fd, std::size_t length, off_t what) {
  void* address = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
  if (address == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "cannot map a ring");
  return address;
}

}  // namespace

Ring::Ring(Waiting waiting) {
  if (waiting == Waiting::polling) params_.flags = IORING_SETUP_IOPOLL;
  fd_ = static_cast<int>(syscall(SYS_io_uring_setup, kEntries, &params_));
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "io_uring_setup");
  rings_length_ = std::max<std::size_t>(params_.sq_off.array + params_.sq_entries * sizeof(std::uint32_t),
                                        params_.cq_off.cqes + params_.cq_entries * sizeof(io_uring_cqe));
  rings_ = static_cast<std::byte*>(map_ring(fd_, rings_length_, IORING_OFF_SQ_RING));
  entries_ = static_cast<io_uring_sqe*>(map_ring(fd_, params_.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
}

Ring::~Ring() {
  munmap(entries_, params_.sq_entries * sizeof(io_uring_sqe));
  munmap(rings_, rings_length_);
  close(fd_);
}

ssize_t Ring::enter(unsigned submit) const {
  for (;;) {
    const long result = syscall(SYS_io_uring_enter, fd_, submit, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
    if (result >= 0) return result;
    if (errno != EINTR) return -errno;
    submit = 0;
  }
}

ssize_t Ring::run(Operation operation, int fd, std::span<std::byte> memory, off_t offset) {
  io_uring_sqe& entry = entries_[0];
  entry = io_uring_sqe{};
  entry.opcode = operation == Operation::read ? IORING_OP_READ : IORING_OP_WRITE;
  entry.fd = fd;
  entry.addr = reinterpret_cast<std::uint64_t>(memory.data());
  entry.len = static_cast<std::uint32_t>(memory.size());
  entry.off = static_cast<std::uint64_t>(offset);

  auto tail = shared(rings_, params_.sq_off.tail);
  const std::uint32_t slot = tail.load(std::memory_order_relaxed);
  auto* slots = reinterpret_cast<std::uint32_t*>(rings_ + params_.sq_off.array);
  slots[slot & (params_.sq_entries - 1)] = 0;
  tail.store(slot + 1, std::memory_order_release);

  auto head = shared(rings_, params_.cq_off.head);
  const std::uint32_t next = head.load(std::memory_order_relaxed);
  unsigned submit = 1;
  while (shared(rings_, params_.cq_off.tail).load(std::memory_order_acquire) == next) {
    if (const ssize_t result = enter(submit); result < 0) return result;
    submit = 0;
  }
  const auto* completions = reinterpret_cast<const io_uring_cqe*>(rings_ + params_.cq_off.cqes);
  const ssize_t result = completions[next & (params_.cq_entries - 1)].res;
  head.store(next + 1, std::memory_order_release);
  return result;
}

int Ring::register_buffer(std::span<std::byte> memory) {
  iovec vector{memory.data(), memory.size()};
  const long result = syscall(SYS_io_uring_register, fd_, IORING_REGISTER_BUFFERS, &vector, 1);
  return result < 0 ? -errno : 0;
}

}  // namespace sluice::lab
