// SPDX-License-Identifier: Apache-2.0
// Calls that move: what is refused, in the module's order, and what becomes of file, device memory, shadow buffer and
// the page that tells.
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "nvfs/fake_job.h"
#include "nvfs/fake_module.h"

namespace sluice::nvfs_test {

namespace {

constexpr std::uint64_t block = 4096;
constexpr std::uint64_t gpu_page = 65536;
constexpr std::size_t most_holes = 768;

struct Run {
  std::uint64_t first = 0, count = 0;  // blocks
};

// Blocks of the range that are no data: not there, or only reserved.
std::vector<Run> holes_in(int fd, std::uint64_t at, std::uint64_t length) {
  std::vector<bool> has_data(length / block, false);
  for (std::uint64_t from = at; from < at + length;) {
    constexpr std::size_t extents = 16;
    alignas(struct fiemap) std::array<std::byte, sizeof(struct fiemap) + extents * sizeof(struct fiemap_extent)>
        bytes{};
    auto& map = *reinterpret_cast<struct fiemap*>(bytes.data());
    map.fm_start = from;
    map.fm_length = at + length - from;
    map.fm_extent_count = extents;
    if (syscall(SYS_ioctl, fd, FS_IOC_FIEMAP, &map) != 0 || map.fm_mapped_extents == 0) break;
    for (std::size_t i = 0; i < map.fm_mapped_extents; ++i) {
      const struct fiemap_extent& extent = map.fm_extents[i];
      const std::uint64_t begin = std::max<std::uint64_t>(extent.fe_logical, at);
      const std::uint64_t end = std::min<std::uint64_t>(extent.fe_logical + extent.fe_length, at + length);
      from = std::max<std::uint64_t>(from, extent.fe_logical + extent.fe_length);
      if ((extent.fe_flags & FIEMAP_EXTENT_UNWRITTEN) != 0) continue;
      for (std::uint64_t byte = begin; byte < end; byte += block) has_data[(byte - at) / block] = true;
    }
  }
  std::vector<Run> holes;
  for (std::size_t i = 0; i < has_data.size(); ++i) {
    if (has_data[i]) continue;
    if (!holes.empty() && holes.back().first + holes.back().count == i) {
      ++holes.back().count;
    } else {
      holes.push_back({i, 1});
    }
  }
  return holes;
}

bool is_sparse(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_blocks * 512 < status.st_size;
}

void tell_holes(std::byte* fence, std::int64_t at, const std::vector<Run>& holes) {
  const std::size_t count = std::min(holes.size(), most_holes);
  put<std::int64_t>(fence, 40, at);
  put<std::uint32_t>(fence, 36, static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    put<std::uint16_t>(fence, 48 + 4 * i, static_cast<std::uint16_t>(holes[i].first));
    put<std::uint16_t>(fence, 50 + 4 * i, static_cast<std::uint16_t>(holes[i].count));
  }
  put<std::int32_t>(fence, 16, 1);
}

struct Bounce {
  explicit Bounce(std::uint64_t size) : bytes(static_cast<std::byte*>(std::aligned_alloc(block, size))) {}
  ~Bounce() { std::free(bytes); }
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;
  std::byte* const bytes;
};

std::int64_t raw(long answer) {
  return answer < 0 ? -errno : answer;
}

}  // namespace

std::int64_t FakeModule::check(const void* argument, const Shadow& shadow) {
  const auto length = field<std::uint64_t>(argument, 16);
  const auto gpu_offset = field<std::uint64_t>(argument, 60);
  const int fd = field<std::int32_t>(argument, 72);
  const bool is_synchronous = (field<std::uint8_t>(argument, 76) & 1) != 0;
  if ((fcntl(fd, F_GETFL) & O_DIRECT) == 0) return -EINVAL;
  if (!is_synchronous && field<std::uint64_t>(argument, 24) == 0) return -EINVAL;
  const std::uint64_t into_page = (shadow.gpu + gpu_offset) % gpu_page;
  if (into_page % block != 0) return -EINVAL;
  if (length > shadow.gpu_length || gpu_offset > shadow.gpu_length - length) return -EINVAL;
  if (into_page != 0 && length > gpu_page - into_page) return -EINVAL;
  // The real one brings the kernel down.
  if (!is_synchronous && length > shadow.length) std::abort();
  return 0;
}

std::int64_t FakeModule::begin_io(bool is_read, void* argument) {
  const auto at = field<std::int64_t>(argument, 8);
  const auto length = field<std::uint64_t>(argument, 16);
  if (at < 0 || at % block != 0 || length % block != 0) return -EINVAL;
  const int fd = field<std::int32_t>(argument, 72);
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return -EINVAL;
  if ((flags & O_ACCMODE) == (is_read ? O_WRONLY : O_RDONLY)) return -EBADF;
  struct stat status {};
  if (fstat(fd, &status) != 0) return -EINVAL;
  const dev_t device = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  const auto inode = field<std::uint64_t>(argument, 40);
  if (inode == 0) return -EINVAL;
  if (inode != status.st_ino || field<std::uint32_t>(argument, 52) != major(device) ||
      field<std::uint32_t>(argument, 56) != minor(device)) {
    return -ESTALE;
  }
  const bool is_synchronous = (field<std::uint8_t>(argument, 76) & 1) != 0;
  std::unique_lock lock(mutex_);
  const auto place = shadows_.find(field<std::uint64_t>(argument, 0));
  if (place == shadows_.end() || !place->second->is_mapped) return -EINVAL;
  const ShadowRef shadow = place->second;
  if (shadow->in_use || shadow->is_dead) {
    if (!shadow->is_dead) ++counts_.refused_busy;
    return -EBUSY;
  }
  if (const std::int64_t refusal = check(argument, *shadow); refusal != 0) return refusal;
  Job job{shadow,
          is_read,
          is_synchronous,
          dup(fd),
          at,
          length,
          shadow->gpu + field<std::uint64_t>(argument, 60),
          field<std::uint64_t>(argument, 24),
          next_fault()};
  shadow->in_use = true;
  ++(is_read ? counts_.reads : counts_.writes);
  counts_.most_at_once = std::max(counts_.most_at_once, ++at_once_);
  if (!is_synchronous && !ends_at_once_) {
    jobs_.push_back(std::move(job));
    changed_.notify_all();
    return 0;
  }
  if (is_synchronous) ++counts_.synchronous;
  lock.unlock();
  const std::int64_t moved = move(job);
  lock.lock();
  finish(job);
  if (is_synchronous) return moved;
  tell(job, moved);
  return 0;
}

// The value is the last to be written.
void FakeModule::tell(const Job& job, std::int64_t moved) {
  std::byte* const fence = job.shadow->fence;
  put<std::int64_t>(fence, 8, moved);
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(fence)).store(job.fence_value, std::memory_order_release);
}

// With mutex_ held.
void FakeModule::finish(Job& job) {
  syscall(SYS_close, job.fd);
  job.shadow->in_use = false;
  --at_once_;
  changed_.notify_all();
}

void FakeModule::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    ++held_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !holding_; });
    --held_;
    lock.unlock();
    const std::int64_t moved = move(job);
    lock.lock();
    // The mapping is free for the next call before this one is told of.
    finish(job);
    tell(job, moved);
  }
}

// With mutex_ held.
Fault FakeModule::next_fault() {
  if (fault_.kind == Fault::Kind::none || fault_count_ == 0) return {};
  if (fault_skip_ > 0) {
    --fault_skip_;
    return {};
  }
  --fault_count_;
  return fault_;
}

std::int64_t FakeModule::move(Job& job) {
  using Kind = Fault::Kind;
  if (job.fault.kind == Kind::fail) return -job.fault.value;
  if (job.fault.kind == Kind::nothing) return 0;
  std::uint64_t length = job.length;
  if (job.fault.kind == Kind::shorten) length = std::min(length, static_cast<std::uint64_t>(job.fault.value));
  auto* const shadow = reinterpret_cast<std::byte*>(job.shadow->address);
  const bool hooked = hooked_ && job.fault.kind != Kind::lie_about_a_hole;
  std::int64_t moved = 0;
  if (hooked && job.is_read) {
    moved = read_into(job, length);
  } else if (hooked) {
    Bounce bounce(length);
    std::memcpy(bounce.bytes, reinterpret_cast<const void*>(job.gpu), length);
    moved = raw(syscall(SYS_pwrite64, job.fd, bounce.bytes, length, job.at));
  } else if (job.is_read) {
    moved = raw(syscall(SYS_pread64, job.fd, shadow, std::min(length, job.shadow->length), job.at));
    if (moved > 0)
      tell_holes(job.shadow->fence, job.at, {{0, (static_cast<std::uint64_t>(moved) + block - 1) / block}});
  } else {
    syscall(SYS_pwrite64, job.fd, shadow, std::min(length, job.shadow->length), job.at);
  }
  if (job.fault.kind == Kind::spoil_the_page) {
    tell_holes(job.shadow->fence, job.at, {{0, 1}});
    put<std::uint32_t>(job.shadow->fence, 32, 2);
  }
  if (hooked && moved > 0) {
    const std::lock_guard lock(mutex_);
    counts_.moved += static_cast<std::uint64_t>(moved);
  }
  return moved;
}

// Up to the next 512 behind the end of the file device memory is overwritten; blocks of holes are left as they were.
std::int64_t FakeModule::read_into(Job& job, std::uint64_t length) {
  Bounce bounce(length);
  const std::int64_t got = raw(syscall(SYS_pread64, job.fd, bounce.bytes, length, job.at));
  if (got <= 0) return got;
  const std::uint64_t arrived = (static_cast<std::uint64_t>(got) + 511) / 512 * 512;
  const std::uint64_t blocks = (static_cast<std::uint64_t>(got) + block - 1) / block;
  std::vector<bool> skipped(blocks, false);
  if (is_sparse(job.fd)) {
    const std::vector<Run> holes = holes_in(job.fd, static_cast<std::uint64_t>(job.at), blocks * block);
    for (const Run& hole : holes)
      std::fill_n(skipped.begin() + static_cast<std::ptrdiff_t>(hole.first), hole.count, true);
    if (!holes.empty()) tell_holes(job.shadow->fence, job.at, holes);
  }
  auto* const device = reinterpret_cast<std::byte*>(job.gpu);
  for (std::uint64_t i = 0; i < blocks; ++i) {
    if (!skipped[i]) std::memcpy(device + i * block, bounce.bytes + i * block, std::min(block, arrived - i * block));
  }
  return got;
}

}  // namespace sluice::nvfs_test
