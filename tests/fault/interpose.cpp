// SPDX-License-Identifier: Apache-2.0
// The interposed functions. They end in raw system calls, so that neither a sanitizer's nor glibc's wrapper stands
// between the plan and the kernel.
#include "fault/interpose.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <system_error>
#include <thread>

#include "support/calls.h"

namespace sluice::fault {
namespace {

constexpr std::size_t kDirectBlock = 4096;
// A library that never gives up would call for ever: the test program ends instead.
constexpr std::size_t kMostCalls = 2'000'000;

std::mutex& plan_mutex() {
  static std::mutex mutex;
  return mutex;
}
Plan* current_plan = nullptr;  // guarded by plan_mutex()

struct stat status_of(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) throw std::system_error(errno, std::generic_category(), "fstat");
  return status;
}

ssize_t transfer(int fd, void* buffer, std::size_t size, off_t offset, Direction direction) {
  const Step step = step_for(fd, direction);
  if (step.kind == Step::Kind::nothing) return 0;
  if (step.kind == Step::Kind::lose) return static_cast<ssize_t>(size);
  if (step.kind == Step::Kind::fail) {
    errno = step.error;
    return -1;
  }
  if (step.kind == Step::Kind::shorten) size = shortened(fd, size, step.length);
  const long number = direction == Direction::read ? SYS_pread64 : SYS_pwrite64;
  return syscall(number, fd, buffer, size, offset);
}

ssize_t transfer(int fd, const iovec* parts, int count, off_t offset, int flags, Direction direction) {
  const Step step = step_for(fd, direction);
  if (step.kind == Step::Kind::nothing) return 0;
  if (step.kind == Step::Kind::fail) {
    errno = step.error;
    return -1;
  }
  std::vector<iovec> chosen(parts, parts + count);
  if (step.kind == Step::Kind::lose) {
    return std::accumulate(chosen.begin(), chosen.end(), ssize_t{0},
                           [](ssize_t sum, const iovec& part) { return sum + static_cast<ssize_t>(part.iov_len); });
  }
  if (step.kind == Step::Kind::shorten) {
    std::size_t left = shortened(fd, SIZE_MAX, step.length);
    for (iovec& part : chosen) {
      part.iov_len = std::min(part.iov_len, left);
      left -= part.iov_len;
    }
  }
  const long number = direction == Direction::read ? SYS_preadv2 : SYS_pwritev2;
  return syscall(number, fd, chosen.data(), count, offset, 0L, flags);
}

}  // namespace

Step step_for_request(int fd, Direction direction) {
  Plan* plan = nullptr;
  Step step;
  {
    const std::lock_guard lock(plan_mutex());
    plan = current_plan;
    if (plan == nullptr || !plan->concerns(fd, direction)) return pass();
    step = plan->next();
  }
  if (step.kind == Step::Kind::hold) {
    plan->tell_of_a_stop();
    step.released_by = plan->released_by();
  }
  if (step.kind != Step::Kind::block) return step;
  plan->stand_still();
  return step.error != 0 ? fail(step.error) : pass();
}

Step step_for(int fd, Direction direction) {
  const Step step = step_for_request(fd, direction);
  if (step.kind != Step::Kind::hold) return step;
  struct pollfd until_released {
    step.released_by, POLLIN, 0
  };
  while (poll(&until_released, 1, -1) < 0 && errno == EINTR) continue;
  return step.length > 0 ? pass() : nothing();
}

std::size_t shortened(int fd, std::size_t length, std::size_t limit) {
  const bool direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
  if (direct) limit = std::max(limit / kDirectBlock * kDirectBlock, kDirectBlock);
  return std::min(length, limit);
}

Plan::Plan(int fd, Direction direction, std::vector<Step> steps)
    : device_(status_of(fd).st_dev), inode_(status_of(fd).st_ino), direction_(direction), steps_(std::move(steps)) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  until_released_ = support::Fd(ends[0]);
  releasing_ = support::Fd(ends[1]);
  const std::lock_guard lock(plan_mutex());
  current_plan = this;
}

Plan::~Plan() {
  release();
  const std::lock_guard lock(plan_mutex());
  current_plan = nullptr;
}

bool Plan::concerns(int fd, Direction direction) const {
  struct stat status {};
  return direction == direction_ && fstat(fd, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

std::size_t Plan::threads() const {
  const std::lock_guard lock(plan_mutex());
  return threads_.size();
}

Step Plan::next() {
  const std::size_t call = calls_++;
  threads_.insert(std::this_thread::get_id());
  if (call == kMostCalls) {
    std::fputs("fault: the library repeats a call without end\n", stderr);
    std::abort();
  }
  return steps_[std::min(call, steps_.size() - 1)];
}

void Plan::tell_of_a_stop() {
  blocked_ = true;
  blocked_.notify_all();
}

void Plan::stand_still() {
  tell_of_a_stop();
  released_.wait(false);
}

void Plan::wait_until_blocked() {
  blocked_.wait(false);
}

void Plan::release() {
  released_ = true;
  released_.notify_all();
  releasing_.reset();
}

bool interposition_works() {
  const support::ScratchFile file(4096);
  const support::Fd fd = file.open(O_RDONLY);
  const support::Handle handle(fd);
  const support::Memory memory(support::MemoryKind::plain, 4096);
  const Plan plan(fd.get(), Direction::read, {fail(EILSEQ)});
  return support::read_file(handle.get(), memory.address(), 4096) == support::failed(EILSEQ);
}

}  // namespace sluice::fault

using sluice::fault::Direction;
using sluice::fault::transfer;

// The tests are compiled with hidden visibility; these must be seen by the loader.
#pragma GCC visibility push(default)
extern "C" {

#define SLUICE_INTERPOSE_READ(name)                               \
  ssize_t name(int fd, void* buffer, size_t size, off_t offset) { \
    return transfer(fd, buffer, size, offset, Direction::read);   \
  }
#define SLUICE_INTERPOSE_WRITE(name)                                                \
  ssize_t name(int fd, const void* buffer, size_t size, off_t offset) {             \
    return transfer(fd, const_cast<void*>(buffer), size, offset, Direction::write); \
  }
#define SLUICE_INTERPOSE_VECTOR(name, direction)                             \
  ssize_t name(int fd, const struct iovec* parts, int count, off_t offset) { \
    return transfer(fd, parts, count, offset, 0, direction);                 \
  }
#define SLUICE_INTERPOSE_VECTOR2(name, direction)                                       \
  ssize_t name(int fd, const struct iovec* parts, int count, off_t offset, int flags) { \
    return transfer(fd, parts, count, offset, flags, direction);                        \
  }

SLUICE_INTERPOSE_READ(pread)
SLUICE_INTERPOSE_READ(pread64)
SLUICE_INTERPOSE_WRITE(pwrite)
SLUICE_INTERPOSE_WRITE(pwrite64)
SLUICE_INTERPOSE_VECTOR(preadv, Direction::read)
SLUICE_INTERPOSE_VECTOR(preadv64, Direction::read)
SLUICE_INTERPOSE_VECTOR(pwritev, Direction::write)
SLUICE_INTERPOSE_VECTOR(pwritev64, Direction::write)
SLUICE_INTERPOSE_VECTOR2(preadv2, Direction::read)
SLUICE_INTERPOSE_VECTOR2(preadv64v2, Direction::read)
SLUICE_INTERPOSE_VECTOR2(pwritev2, Direction::write)
SLUICE_INTERPOSE_VECTOR2(pwritev64v2, Direction::write)

// What fortified callers use instead.
ssize_t __pread_chk(int fd, void* buffer, size_t size, off_t offset,
                    size_t /*room*/) {  // NOLINT(bugprone-reserved-identifier)
  return transfer(fd, buffer, size, offset, Direction::read);
}
ssize_t __pread64_chk(int fd, void* buffer, size_t size, off_t offset,
                      size_t /*room*/) {  // NOLINT(bugprone-reserved-identifier)
  return transfer(fd, buffer, size, offset, Direction::read);
}

}  // extern "C"
#pragma GCC visibility pop
