// SPDX-License-Identifier: Apache-2.0
// One pointer. It moves once, from private memory to the memfd's mapping, which is never unmapped: a child of fork maps
// its own memfd over the same addresses, so that a pointer in the hand of a signal handler's victim stays good.
#include "observe/statistics_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>

#include "base/version.h"
#include "observe/log.h"
#include "observe/shared_memory.h"
#include "observe/statistics_words.h"

namespace sluice::observe {

namespace {

constexpr std::size_t region_size = sizeof(sluice_stats_region);

static_assert(offsetof(sluice_stats_region, shards) % 64 == 0 && sizeof(sluice_stats_shard) % 64 == 0);
static_assert(offsetof(sluice_stats_region, latencies) % 64 == 0 && sizeof(sluice_stats_latencies) % 64 == 0);
static_assert(region_size % sizeof(std::uint64_t) == 0);

alignas(64) constinit sluice_stats_region private_region{};
constinit std::atomic<sluice_stats_region*> current_region{&private_region};

constinit Shown shown{};

int create_memfd() noexcept {
  return create_shared_memory(SLUICE_STATS_NAME, region_size, Pages::all_now);
}

// At `place`, or anywhere for null; null when there is none. errno says why.
sluice_stats_region* map_memfd(int fd, void* place) noexcept {
  return fd < 0 ? nullptr : static_cast<sluice_stats_region*>(map_shared_memory(fd, region_size, place));
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
  seal_shared_memory(fd);
  shown = shown_by(move_out_of_the_way(fd));
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
    seal_shared_memory(fd);
    // The parent's leaves the child's table.
    if (inherited.is_still_ours() && ::dup3(fd, inherited.fd, O_CLOEXEC) == inherited.fd) {
      ::close(fd);
      shown = shown_by(inherited.fd);
    } else {
      shown = shown_by(move_out_of_the_way(fd));
    }
    return;
  }
  if (fd >= 0) ::close(fd);
  if (inherited.is_still_ours()) ::close(inherited.fd);
  void* const memory =
      ::mmap(parents, region_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (memory == MAP_FAILED) current_region.store(&private_region, std::memory_order_release);
  statistics_region().head = head;
}

}  // namespace sluice::observe
