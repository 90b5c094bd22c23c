// SPDX-License-Identifier: Apache-2.0
#include "report/drives.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "common/text.h"
#include "common/thread_group.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t large = std::size_t{1} << 20;
constexpr std::size_t small = 4096;
constexpr std::size_t threads = 8;

struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};
using Room = std::unique_ptr<void, Freed>;

Room room_of(std::size_t size) {
  return Room(std::aligned_alloc(small, size));
}

class OpenDrive {
 public:
  explicit OpenDrive(const std::string& name) : fd_(open(("/dev/" + name).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)) {}
  OpenDrive(const OpenDrive&) = delete;
  OpenDrive& operator=(const OpenDrive&) = delete;
  ~OpenDrive() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// Somewhere on the drive, all over it: no cache of a drive holds that.
class Offsets {
 public:
  Offsets(std::uint64_t drive, std::size_t piece, unsigned seed)
      : piece_(piece), random_(seed), last_(0, drive / piece - 1) {}
  Offsets(const Offsets&) = delete;
  Offsets& operator=(const Offsets&) = delete;
  off_t next() { return static_cast<off_t>(last_(random_) * piece_); }

 private:
  std::size_t piece_;
  std::mt19937_64 random_;
  std::uniform_int_distribution<std::uint64_t> last_;
};

// GiB/s of several readers; negative where one failed.
double speed_of_readers(int fd, std::uint64_t size, double seconds, const Budget& budget) {
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<bool> failed{false};
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(seconds);
  ThreadGroup readers;
  bool all = true;
  for (unsigned i = 0; i < threads && all; ++i) {
    all = readers.start([&, i] {
      const Room room = room_of(large);
      Offsets offsets(size, large, i);
      do {
        const ssize_t got = pread(fd, room.get(), large, offsets.next());
        if (got != static_cast<ssize_t>(large)) failed = true;
        if (got > 0) bytes += static_cast<std::uint64_t>(got);
      } while (!failed && Clock::now() < end && !budget.is_spent());
    });
  }
  if (!all) failed = true;  // fewer readers say less of the drive
  readers.join();
  if (!all) errno = EAGAIN;
  const std::chrono::duration<double> took = Clock::now() - begin;
  return failed ? -1 : static_cast<double>(bytes) / took.count() / (1 << 30);
}

// Microseconds; negative where one failed.
double median_of_small_reads(int fd, std::uint64_t size, double seconds, const Budget& budget) {
  const Room room = room_of(small);
  Offsets offsets(size, small, threads);
  std::vector<double> took;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto begin = Clock::now();
    if (pread(fd, room.get(), small, offsets.next()) != static_cast<ssize_t>(small)) return -1;
    took.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  } while (Clock::now() < end && !budget.is_spent());
  const auto middle = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2);
  std::nth_element(took.begin(), middle, took.end());
  return *middle;
}

}  // namespace

Json measure_drive(const std::string& drive, double seconds, const Budget& budget) {
  Json measured{{"drive", drive}};
  const OpenDrive fd(drive);
  if (fd.get() < 0) {
    measured["why"] = "it cannot be opened: " + system_words(errno);
    return measured;
  }
  const off_t end = lseek(fd.get(), 0, SEEK_END);
  if (end < static_cast<off_t>(large)) {
    measured["why"] = "it holds less than 1 MiB";
    return measured;
  }
  const auto size = static_cast<std::uint64_t>(end);
  const double speed = speed_of_readers(fd.get(), size, seconds, budget);
  const double latency = speed < 0 ? -1 : median_of_small_reads(fd.get(), size, seconds, budget);
  if (latency < 0) {
    measured["why"] = "it cannot be read: " + system_words(errno);
    return measured;
  }
  measured["read_gib_per_s"] = rounded(speed);
  measured["read_4k_us"] = rounded(latency);
  return measured;
}

}  // namespace sluice::tools
