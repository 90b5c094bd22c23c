// SPDX-License-Identifier: Apache-2.0
// Nothing in a region is trusted but its size, and that only when the kernel keeps it: the process is another's
// program.
#include "gds_stats/region.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {
namespace {

constexpr std::size_t region_size = sizeof(sluice_stats_region);
// F_SEAL_WRITE or, from Linux 5.1 on, F_SEAL_FUTURE_WRITE: neither lets pages be taken out.
constexpr int seals_of_pages = F_SEAL_WRITE | 0x10;

constexpr int most_descriptors = 65536;

// Of a process that the user has named, or of any one that there is.
enum class Trust : std::uint8_t { asked_for, none };

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

bool is_file(int fd, const ShownMapping& mapping) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_ino == mapping.inode &&
         status.st_dev == mapping.device && status.st_size >= static_cast<off_t>(sizeof(sluice_stats_head));
}

// The process's descriptor of this memory, opened once more for reading; -1 when it has none. Looked at before it is
// opened: opening something else could have consequences.
int open_own_descriptor(const WatchedProcess& process, const ShownMapping& mapping) {
  const std::string folder = process.path("fd");
  DIR* const entries = ::opendir(folder.c_str());
  if (entries == nullptr) return -1;
  int found = -1;
  // A process may have a million of them open.
  for (int looked = 0; looked < most_descriptors; ++looked) {
    const dirent* const entry = ::readdir(entries);
    if (entry == nullptr) break;
    const Descriptor seen(::open(fmt::format("{}/{}", folder, entry->d_name).c_str(), O_PATH | O_CLOEXEC));
    if (seen.get() < 0 || !is_file(seen.get(), mapping)) continue;
    found = ::open(fmt::format("/proc/self/fd/{}", seen.get()).c_str(), O_RDONLY | O_CLOEXEC);
    if (found >= 0) break;
  }
  ::closedir(entries);
  return found;
}

class MappedRegion : public ShownRegion {
 public:
  MappedRegion(void* memory, std::size_t size, ino_t inode) : ShownRegion(inode), memory_(memory), size_(size) {}
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;
  ~MappedRegion() override { ::munmap(memory_, size_); }

  const sluice_stats_region& read() override {
    auto* const from = static_cast<std::uint64_t*>(memory_);
    auto* const to = reinterpret_cast<std::uint64_t*>(&copy_);
    for (std::size_t i = 0; i < size_ / sizeof *to; ++i) {
      to[i] = std::atomic_ref<std::uint64_t>(from[i]).load(std::memory_order_acquire);
    }
    return copy_;
  }

 private:
  void* memory_;
  std::size_t size_;
  sluice_stats_region copy_{};
};

class DistantRegion : public ShownRegion {
 public:
  DistantRegion(Descriptor memory, const ShownMapping& mapping)
      : ShownRegion(mapping.inode), memory_(std::move(memory)), mapping_(mapping) {}

  const sluice_stats_region& read() override {
    sluice_stats_region now{};
    const std::size_t size = std::min<std::size_t>(mapping_.size, sizeof now);
    const ssize_t count = ::pread(memory_.get(), &now, size, static_cast<off_t>(mapping_.address));
    if (count >= static_cast<ssize_t>(sizeof now.head)) copy_ = now;
    return copy_;
  }

 private:
  Descriptor memory_;
  ShownMapping mapping_;
  sluice_stats_region copy_{};
};

// The device that all memfds lie on: what is on another one may be a file whose reader waits for its owner.
dev_t device_of_memfds() {
  const Descriptor own(::memfd_create("sluice-reader", MFD_CLOEXEC));
  struct stat status {};
  return own.get() >= 0 && ::fstat(own.get(), &status) == 0 ? status.st_dev : 0;
}

// Its pages are there: reading a hole would take memory of the reader's.
bool is_whole(const struct stat& status) {
  return status.st_blocks * 512 >= status.st_size;
}

// Mapped when it keeps its size: a file that shrank would end a process that reads behind its end.
std::unique_ptr<ShownRegion> map_own_descriptor(const WatchedProcess& process, const ShownMapping& mapping,
                                                Trust trust) {
  const Descriptor fd(open_own_descriptor(process, mapping));
  if (fd.get() < 0) return nullptr;
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return nullptr;
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return nullptr;
  if (trust == Trust::none && (!is_whole(status) || (seals & seals_of_pages) == 0)) return nullptr;
  const std::size_t size = std::min(region_size, static_cast<std::size_t>(status.st_size));
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  return std::make_unique<MappedRegion>(memory, size, mapping.inode);
}

std::unique_ptr<ShownRegion> read_memory(const WatchedProcess& process, const ShownMapping& mapping) {
  Descriptor memory(::open(process.path("mem").c_str(), O_RDONLY | O_CLOEXEC));
  if (memory.get() < 0) {
    throw ToolError(
        fmt::format("Process {} has closed the descriptor of its statistics, and its memory cannot be read: {}.",
                    process.name(), system_words(errno)),
        "Ask as root.");
  }
  return std::make_unique<DistantRegion>(std::move(memory), mapping);
}

bool has_known_layout(const sluice_stats_head& head) {
  return head.version == SLUICE_STATS_BASE_VERSION && head.size == SLUICE_STATS_BASE_SIZE;
}

void want_layout(const WatchedProcess& process, const sluice_stats_head& head) {
  if (has_known_layout(head)) return;
  throw ToolError(
      fmt::format("Process {} runs on another version of Sluice: its statistics have layout {} of {} bytes, this tool "
                  "reads layout {} of {}.",
                  process.name(), head.version, head.size, SLUICE_STATS_BASE_VERSION, SLUICE_STATS_BASE_SIZE),
      "Use the sluice or gds_stats that was installed with the library that the process runs on.");
}

// Does the file of a libcufile hold our functions? Where it cannot be read, it is taken for ours.
bool is_sluice(const WatchedProcess& process, const std::string& library) {
  std::ifstream file(process.path("root" + library), std::ios::binary | std::ios::ate);
  if (!file) return true;
  std::string bytes(static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0)), '\0');
  file.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes.find("sluice_path_counters") != std::string::npos;
}

[[noreturn]] void tell_why_none(const WatchedProcess& process, const ProcessMaps& maps) {
  if (maps.libraries.empty()) {
    throw ToolError(fmt::format("Process {} has no libcufile.so.0 loaded.", process.name()),
                    "Programs load it with their first use of cuFile; `sluice run -- CMD` starts one on this library.");
  }
  if (std::ranges::none_of(maps.libraries, [&](const std::string& path) { return is_sluice(process, path); })) {
    throw ToolError(fmt::format("Process {} runs on a libcufile that is not Sluice's ({}).", process.name(),
                                printable(maps.libraries.front())),
                    "Start it with `sluice run -- CMD`.");
  }
  std::string sentence =
      fmt::format("Process {} shows no statistics: their level is 0, or its driver is not open", process.name());
  if (process.sandboxed()) sentence += ", or its sandbox (seccomp) refuses memfd_create";
  throw ToolError(
      sentence + ".",
      "Start it with SLUICE_STATS=3, set \"profile\": {\"cufile_stats\": 3} in its cufile.json, or let it call "
      "cuFileSetStatsLevel(3) and cuFileStatsStart(). Where they cannot be shared, its log says why "
      "(CUFILE_LOGFILE_PATH=FILE CUFILE_LOGGING_LEVEL=WARN).");
}

}  // namespace

std::unique_ptr<ShownRegion> ShownRegion::open(const WatchedProcess& process, const ShownMapping& mapping) {
  std::unique_ptr<ShownRegion> region = map_own_descriptor(process, mapping, Trust::asked_for);
  if (!region) region = read_memory(process, mapping);
  const sluice_stats_head& head = region->read().head;
  if (head.magic != SLUICE_STATS_MAGIC) return nullptr;
  want_layout(process, head);
  const std::optional<std::uint64_t> number = process.own_number();
  if (number && *number != head.pid) return nullptr;  // made without fork's handlers: what it maps is its parent's
  return region;
}

std::unique_ptr<ShownRegion> ShownRegion::open_carefully(const WatchedProcess& process, const ShownMapping& mapping) {
  static const dev_t memfds = device_of_memfds();
  if (memfds == 0 || mapping.device != memfds) return nullptr;
  std::unique_ptr<ShownRegion> region = map_own_descriptor(process, mapping, Trust::none);
  if (!region) return nullptr;
  const sluice_stats_head& head = region->read().head;
  if (head.magic != SLUICE_STATS_MAGIC || !has_known_layout(head)) return nullptr;
  const std::optional<std::uint64_t> number = process.own_number();
  return !number || *number == head.pid ? std::move(region) : nullptr;
}

std::vector<std::unique_ptr<ShownRegion>> open_regions(const WatchedProcess& process) {
  const ProcessMaps maps = process.maps();
  std::vector<std::unique_ptr<ShownRegion>> regions;
  for (const ShownMapping& mapping : maps.shown) {
    const auto seen = [&mapping](const auto& region) { return region->is(mapping); };
    if (std::ranges::any_of(regions, seen)) continue;
    if (std::unique_ptr<ShownRegion> region = ShownRegion::open(process, mapping)) regions.push_back(std::move(region));
  }
  if (regions.empty()) tell_why_none(process, maps);
  return regions;
}

}  // namespace sluice::tools
