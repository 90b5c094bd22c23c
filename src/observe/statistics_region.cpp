// SPDX-License-Identifier: Apache-2.0
// One pointer. It moves once, from private memory to the memfd's mapping, which is never unmapped: a child of fork maps
// its own memfd over the same addresses, so that a pointer in the hand of a signal handler's victim stays good.
#include "observe/statistics_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>

#include "base/version.h"
#include "observe/log.h"
#include "observe/statistics_words.h"

namespace sluice::observe {

namespace {

// Newer than the headers of the oldest systems that we build on.
constexpr unsigned memfd_noexec_seal = 0x8;
constexpr int seal_future_write = 0x10;
constexpr std::size_t region_size = sizeof(sluice_stats_region);

static_assert(offsetof(sluice_stats_region, shards) % 64 == 0 && sizeof(sluice_stats_shard) % 64 == 0);
static_assert(offsetof(sluice_stats_region, latencies) % 64 == 0 && sizeof(sluice_stats_latencies) % 64 == 0);
static_assert(region_size % sizeof(std::uint64_t) == 0);

alignas(64) constinit sluice_stats_region private_region{};
constinit std::atomic<sluice_stats_region*> current_region{&private_region};

// The descriptor of the memfd, which a program may close as any other: only a look at what it is makes it ours.
struct Shown {
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;
};
constinit Shown shown{};

bool is_still_ours(const Shown& memfd) noexcept {
  struct stat status {};
  return memfd.fd >= 0 && ::fstat(memfd.fd, &status) == 0 && status.st_dev == memfd.device &&
         status.st_ino == memfd.inode;
}

int create_memfd() noexcept {
  const int fd = ::memfd_create(SLUICE_STATS_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | memfd_noexec_seal);
  if (fd >= 0 || errno != EINVAL) return fd;  // kernels before 6.3 do not know the last flag
  return ::memfd_create(SLUICE_STATS_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

// Takes the memory now: a page that is not to be had later would end the process. Beyond its limit of file sizes the
// kernel would send it a signal instead of an answer.
bool give_size(int fd) noexcept {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < region_size) {
    errno = EFBIG;
    return false;
  }
  return ::fallocate(fd, 0, 0, static_cast<off_t>(region_size)) == 0;
}

// Low numbers are a program's own business: some close 0 and count on getting it back, some still use select().
int move_out_of_the_way(int fd) noexcept {
  struct rlimit limit {};
  const rlim_t room = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 64;
  const int floor = static_cast<int>(std::clamp<rlim_t>(room / 2, 3, 512));
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, floor);
  if (moved < 0) return fd;
  ::close(fd);
  return moved;
}

// Seals come when our own mapping is there: the last one forbids new ones that can be written.
void seal(int fd) noexcept {
  constexpr int size = F_SEAL_SHRINK | F_SEAL_GROW;
  if (::fcntl(fd, F_ADD_SEALS, size | seal_future_write | F_SEAL_SEAL) == 0) return;
  ::fcntl(fd, F_ADD_SEALS, size | F_SEAL_SEAL);  // before Linux 5.1
}

// A mapping at `place`, or anywhere for null, of a new memfd; null when there is none. errno says why.
sluice_stats_region* map_memfd(int fd, void* place) noexcept {
  if (fd < 0 || !give_size(fd)) return nullptr;
  const int fixed = place == nullptr ? 0 : MAP_FIXED;
  void* const memory = ::mmap(place, region_size, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<sluice_stats_region*>(memory);
}

// Counters of transfers that ended late may still change: words are read as whole ones.
void copy_words(sluice_stats_region& from, sluice_stats_region& to) noexcept {
  const std::span source = words_of(from);
  const std::span target = words_of(to);
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (const std::uint64_t counted = value(source[i]); counted != 0) set(target[i], counted);
  }
}

void introduce(sluice_stats_region& region) noexcept {
  sluice_stats_head& head = region.head;
  head.version = SLUICE_STATS_BASE_VERSION;
  head.size = SLUICE_STATS_BASE_SIZE;
  head.extent_version = SLUICE_STATS_VERSION;
  head.extent_size = region_size;
  head.pid = static_cast<std::uint64_t>(::getpid());
  constexpr const char* text = SLUICE_VERSION_TEXT;
  std::memcpy(head.library, text, std::min(std::strlen(text), sizeof head.library - 1));
  word(head.magic).store(SLUICE_STATS_MAGIC, std::memory_order_release);
}

void remember(int fd) noexcept {
  struct stat status {};
  shown = ::fstat(fd, &status) == 0 ? Shown{fd, status.st_dev, status.st_ino} : Shown{};
}

}  // namespace

sluice_stats_region& statistics_region() noexcept {
  return *current_region.load(std::memory_order_acquire);
}

void show_statistics_region() noexcept {
  if (current_region.load(std::memory_order_relaxed) != &private_region) return;
  const int fd = create_memfd();
  sluice_stats_region* const region = map_memfd(fd, nullptr);
  if (region == nullptr) {
    const int why = errno;
    if (fd >= 0) ::close(fd);
    log(config::LogLevel::warn, "statistics",
        "no other program can see the statistics: their memory cannot be shared (" +
            std::error_code(why, std::generic_category()).message() + ")");
    return;
  }
  copy_words(private_region, *region);
  introduce(*region);
  seal(fd);
  remember(move_out_of_the_way(fd));
  current_region.store(region, std::memory_order_release);
}

void renew_statistics_region_in_child() noexcept {
  sluice_stats_region* const parents = current_region.load(std::memory_order_relaxed);
  sluice_stats_head head = parents->head;
  head.magic = 0;
  // Most of it was never touched, and is to stay that way.
  for (std::uint64_t& counter : words_of(private_region)) {
    if (counter != 0) counter = 0;
  }
  if (parents == &private_region) {
    private_region.head = head;
    return;
  }
  const Shown inherited = shown;
  shown = {};
  const int fd = create_memfd();
  sluice_stats_region* own = map_memfd(fd, parents);
  if (own != nullptr) {
    own->head = head;
    introduce(*own);
    seal(fd);
    // The parent's leaves the child's table.
    if (is_still_ours(inherited) && ::dup3(fd, inherited.fd, O_CLOEXEC) == inherited.fd) {
      ::close(fd);
      remember(inherited.fd);
    } else {
      remember(move_out_of_the_way(fd));
    }
    return;
  }
  if (fd >= 0) ::close(fd);
  if (is_still_ours(inherited)) ::close(inherited.fd);
  void* const memory =
      ::mmap(parents, region_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (memory == MAP_FAILED) current_region.store(&private_region, std::memory_order_release);
  statistics_region().head = head;
}

}  // namespace sluice::observe
