// SPDX-License-Identifier: Apache-2.0
// The whole life of a handle a step, as caches of small files have it: a file of the set is opened, registered, read
// from its start to its end, deregistered and closed. And the same by the plain calls.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "client/check.h"
#include "client/job.h"
#include "client/pattern.h"
#include "client/trouble.h"

namespace sluice::bench {
namespace {

// As much of a set as stays in the page cache and not in the processors' caches.
std::size_t files_in_set(std::size_t size) {
  constexpr std::size_t volume = std::size_t{256} << 20;
  return std::clamp<std::size_t>(volume / size, 16, 64);
}

class FileForACycle {
 public:
  FileForACycle(const std::string& path, Opened how)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | (how == Opened::direct ? O_DIRECT : 0))) {
    if (descriptor_ < 0) throw Trouble(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  }
  FileForACycle(const FileForACycle&) = delete;
  FileForACycle& operator=(const FileForACycle&) = delete;
  ~FileForACycle() { ::close(descriptor_); }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

struct CycleLane {
  DeviceMemory memory;
  std::optional<RegisteredBuffer> registration;
  std::optional<PinnedMemory> between;  // of the plain calls
  std::size_t next;
  std::optional<std::size_t> last;  // which file the last step has read
};

class CycleJob : public Job {
 public:
  CycleJob(Bench& bench, const Row& row)
      : bench_(bench),
        row_(row),
        plain_(row.operation == Operation::pcycle),
        files_(file_set(bench.path(), row.size, files_in_set(row.size))) {
    if (!plain_) bench.open_driver();
    for (unsigned i = 0; i < row.count; ++i) {
      lanes_.push_back({DeviceMemory(bench.gpu(), row.size), std::nullopt, std::nullopt,
                        i * files_.size() / row.count % files_.size(), std::nullopt});
      if (plain_) {
        lanes_.back().between.emplace(bench.gpu(), row.size);
      } else if (row.registered) {
        lanes_.back().registration.emplace(lanes_.back().memory.pointer(), row.size);
      }
    }
  }

  std::uint64_t check() override {
    const unsigned rounds = checks_of(row_.size);
    bench_.workers().run(row_.count, [&](unsigned thread) {
      CycleLane& lane = lanes_[thread];
      std::minstd_rand choice{std::random_device()()};
      for (unsigned i = 0; i < rounds; ++i) {
        poison(bench_.gpu(), lane.memory.address(), row_.size);
        lane.next = choice() % files_.size();
        step(lane);
        compare(lane);
      }
    });
    return std::uint64_t{rounds} * row_.count * row_.size;
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), row_.count, seconds, [&](unsigned thread) { return step(lanes_[thread]); });
  }

  std::uint64_t check_last() override {
    bench_.workers().run(row_.count, [&](unsigned thread) { compare(lanes_[thread]); });
    return std::uint64_t{row_.count} * row_.size;
  }

 private:
  std::uint64_t step(CycleLane& lane) {
    lane.last = lane.next;
    if (++lane.next == files_.size()) lane.next = 0;
    const FileForACycle file(files_[*lane.last], bench_.how());
    if (plain_) {
      want_all(::pread(file.descriptor(), lane.between->data(), row_.size, 0), row_.size, "pread");
      bench_.gpu().want(bench_.gpu().calls().copy_in(lane.memory.address(), lane.between->data(), row_.size),
                        "cuMemcpyHtoD");
    } else {
      const RegisteredFile handle(file.descriptor());
      want_all(cuFileRead(handle.get(), lane.memory.pointer(), row_.size, 0, 0), row_.size, "cuFileRead");
    }
    return row_.size;
  }

  void compare(const CycleLane& lane) const {
    if (!lane.last) return;
    std::vector<std::byte> bytes(row_.size);
    bench_.gpu().want(bench_.gpu().calls().copy_out(bytes.data(), lane.memory.address(), row_.size), "cuMemcpyDtoH");
    want_pattern(bytes, 0, salt_in_set(*lane.last), row_);
  }

  Bench& bench_;
  Row row_;
  bool plain_;
  std::vector<std::string> files_;
  std::vector<CycleLane> lanes_;
};

}  // namespace

std::unique_ptr<Job> make_cycle(Bench& bench, const Row& row) {
  return std::make_unique<CycleJob>(bench, row);
}

}  // namespace sluice::bench
