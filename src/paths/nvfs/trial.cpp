// SPDX-License-Identifier: Apache-2.0
#include "paths/nvfs/trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/unique_fd.h"
#include "facts/read.h"
#include "gpu/memory.h"
#include "gpu/pinnable.h"
#include "nvfs/group.h"
#include "observe/log.h"
#include "paths/trial.h"

namespace sluice::paths {

namespace {

using base::Direction;
using base::Outcome;
using facts::TrialResult;

constexpr std::uint64_t trial_bytes = 65536;

// The bytes of a trial are stored: there is no hole among them.
class NoHoles final : public nvfs::Holes {
 public:
  nvfs::Filled fill(std::uint64_t /*begin*/, std::uint64_t /*length*/) noexcept override {
    return nvfs::Filled::over_data;
  }
};

// Memory of our own that the module has mapped. It begins within a page of the device, as transfers may.
class TrialMemory {
 public:
  static std::optional<std::string> take(const facts::BufferFacts& memory, std::optional<TrialMemory>& made) {
    const std::optional<gpu::Scratch> scratch = gpu::plain_scratch().take(memory.device, gpu::scratch_bytes);
    if (!scratch) return "no device memory is free to try it with";
    const std::uint64_t there = gpu::kernel_address(scratch->memory, scratch->address, scratch->size);
    if (there == 0 || there % nvfs::block_bytes != 0) {
      gpu::plain_scratch().give_back(*scratch);
      return "memory of the device does not lie as the module wants it";
    }
    made.emplace(*scratch, there);
    return std::nullopt;
  }

  TrialMemory(const gpu::Scratch& scratch, std::uint64_t there)
      : scratch_(scratch),
        there_(there),
        windows_(nvfs::client().mappings(), there, scratch.size, gpu_on_bus(scratch.memory.device)) {}
  ~TrialMemory() { gpu::plain_scratch().give_back(scratch_); }
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;

  std::uint64_t address() const noexcept { return scratch_.address + nvfs::block_bytes; }

  nvfs::Member move(Direction direction, const nvfs::FileName& file, std::uint64_t at, std::uint64_t length) {
    NoHoles holes;
    nvfs::Member member;
    member.direction = direction;
    member.file = file;
    member.at = at;
    member.address = there_ + nvfs::block_bytes;
    member.length = length;
    member.windows = &windows_;
    member.holes = &holes;
    nvfs::Group::run(nvfs::client().node(), {&member, 1});
    member.holes = nullptr;
    return member;
  }

 private:
  const gpu::Scratch scratch_;
  const std::uint64_t there_;
  nvfs::Windows windows_;
};

class ByModule final : public TrialWay {
 public:
  explicit ByModule(const Ends& ends) : file_(ends.file), memory_(ends.memory) {}

  const char* name() const noexcept override { return "nvfs"; }
  std::uint64_t block() const noexcept override {
    return std::max<std::uint64_t>(nvfs::block_bytes, file_.facts.offset_alignment);
  }
  std::optional<std::string> take_memory(std::uint64_t /*size*/) override { return TrialMemory::take(memory_, own_); }
  std::uint64_t address() const noexcept override { return own_->address(); }

  Outcome read(const facts::Extent& place) override {
    member_ = own_->move(Direction::read, nvfs_file_of(file_)->name(), place.begin, place.length);
    return member_.outcome();
  }

  Finding refused(Outcome read) const override {
    switch (member_.trouble) {
      case nvfs::Trouble::hole_over_data:
        return {TrialResult::bytes_elsewhere, "the trial read reported a hole where the file has bytes"};
      case nvfs::Trouble::not_understood:
        return {TrialResult::bytes_elsewhere, "the trial read told of holes in a way that is not known"};
      case nvfs::Trouble::not_mapped:
        return {TrialResult::call_refused, "memory of the device cannot be mapped: " + error_text(read)};
      default:
        break;
    }
    if (read.error() == EINVAL) return {TrialResult::call_refused, "the trial read answered EINVAL"};
    return {std::nullopt, "reading into device memory failed: " + error_text(read)};
  }

  TrialResult lost() const noexcept override { return TrialResult::bytes_elsewhere; }

 private:
  const File& file_;
  const facts::BufferFacts& memory_;
  std::optional<TrialMemory> own_;
  nvfs::Member member_;
};

using Pages = std::unique_ptr<std::byte, decltype(&std::free)>;
Pages pages() {
  Pages made(static_cast<std::byte*>(std::aligned_alloc(nvfs::block_bytes, trial_bytes)), &std::free);
  if (!made) throw std::bad_alloc();
  return made;
}

std::span<std::byte> all_of(const Pages& of) {
  return {of.get(), trial_bytes};
}

void fill_with(std::span<std::byte> bytes, std::uint32_t seed) {
  for (std::byte& byte : bytes) {
    seed = seed * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(seed >> 24U);
  }
}

std::string folder_of(int fd) {
  const std::optional<std::string> path = facts::read_link(fmt::format("/proc/self/fd/{}", fd));
  return path && path->starts_with('/') ? std::string(facts::parent_path(*path)) : "";
}

Finding unwritable(std::string words) {
  return {TrialResult::unwritable, std::move(words)};
}

class WriteTrial {
 public:
  explicit WriteTrial(const Ends& ends) : file_(ends.file), memory_(ends.memory) {}

  Finding make() {
    if (file_.facts.kind == facts::FileKind::block_device) {
      return unwritable("writes: a raw drive has no place for a file of the library's own");
    }
    const std::string folder = folder_of(file_.descriptor());
    const base::UniqueFd own(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
    if (!own) return unwritable(fmt::format("writes: no file without a name can be made beside it ({})", errno_name()));
    struct stat status {};
    if (::fstat(own.get(), &status) != 0 || status.st_dev != file_.facts.device) {
      return unwritable("writes: the folder of the file is on another file system by now");
    }
    return into(own.get(),
                {own.get(), status.st_ino, nvfs_file_of(file_)->name().major, nvfs_file_of(file_)->name().minor});
  }

 private:
  static std::string errno_name() { return error_text(Outcome::system_error(errno)); }

  // The file holds bytes of ours, so that its blocks are there, and is to hold others.
  Finding into(int own, const nvfs::FileName& name) {
    const Pages pattern = pages();
    fill_with(all_of(pattern), 1);
    if (::pwrite(own, pattern.get(), trial_bytes, 0) != static_cast<ssize_t>(trial_bytes)) {
      return unwritable("writes: a file without a name cannot be written to: " + errno_name());
    }
    gpu::Session session(memory_);
    if (session.status() != cuda::success) return {std::nullopt, "writes: the device's context cannot be used"};
    std::optional<TrialMemory> device;
    if (const auto refusal = TrialMemory::take(memory_, device)) return {std::nullopt, "writes: " + *refusal};
    fill_with(all_of(pattern), 2);
    if (session.copy_to_device(device->address(), all_of(pattern)) != cuda::success) {
      return {std::nullopt, "writes: the device's memory cannot be written to"};
    }
    const nvfs::Member member = device->move(Direction::write, name, 0, trial_bytes);
    if (member.trouble == nvfs::Trouble::wrote_nothing) {
      return {TrialResult::write_lost, "writes: the trial write was reported to have written nothing"};
    }
    if (member.error == EINVAL) return {TrialResult::call_refused, "writes: the trial write answered EINVAL"};
    if (member.done < trial_bytes) {
      return {std::nullopt, fmt::format("writes: the trial write failed: {}", error_text(member.outcome()))};
    }
    const Pages found = pages();
    if (::pread(own, found.get(), trial_bytes, 0) != static_cast<ssize_t>(trial_bytes)) {
      return {std::nullopt, "writes: the trial's file cannot be read back: " + errno_name()};
    }
    if (!std::ranges::equal(all_of(pattern), all_of(found))) {
      return {TrialResult::write_lost, "writes: the trial write was reported as done, and the file holds other bytes"};
    }
    return {TrialResult::proven, fmt::format("writes: {} bytes were verified", trial_bytes)};
  }

  const File& file_;
  const facts::BufferFacts& memory_;
};

}  // namespace

void make_read_trial(const Ends& ends, NvfsPair& pair) noexcept {
  ByModule way(ends);
  make_trial(ends, pair.reads, way);
  if (pair.reads.reach() == TrialResult::bytes_elsewhere) nvfs::client().drop();
}

void make_write_trial(const Ends& ends, NvfsPair& pair) noexcept {
  try {
    const Finding finding = WriteTrial(ends).make();
    tell_trial(pair.writes, finding, "nvfs", "direct writes are proven", "writes are not direct");
    if (finding.reach == TrialResult::write_lost) nvfs::client().drop();
    if (finding.reach) {
      pair.writes.settle(*finding.reach, finding.words);
    } else {
      pair.writes.postpone(finding.words);
    }
  } catch (...) {  // no memory for a trial
    pair.writes.give_up();
  }
}

}  // namespace sluice::paths
