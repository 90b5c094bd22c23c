// SPDX-License-Identifier: Apache-2.0
// Read from /proc/self.
#include "fuzz/census.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "sluice.h"
#include "support/cuda_driver.h"
#include "support/deadline.h"

namespace sluice::fuzz {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::vector<std::string> descriptors() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    // The iterator's own descriptor refers to this very folder.
    if (!gone && target.filename() != "fd") all.push_back(target.string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Without the kernel's workers for our io_uring: they come and go as it likes.
std::vector<std::string> threads() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "comm");
    std::string name;
    if (std::getline(file, name) && !name.starts_with("iou-")) all.push_back(name);
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::size_t status_of(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::size_t value = 0;
    if (word == field && file >> value) return value;
  }
  return 0;
}

struct AddressSpace {
  std::size_t stacks = 0;        // that are mapped: of so many pages behind a page that no thread may touch
  std::size_t reserved_kib = 0;  // no thread may touch it: the C library's arenas begin with 64 MiB of that
};

AddressSpace address_space() {
  constexpr std::uintptr_t guard_bytes = 4096;
  constexpr std::uintptr_t stack_bytes = std::uintptr_t{8} << 20;
  std::ifstream file("/proc/self/maps");
  AddressSpace found;
  std::uintptr_t guard_end = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string permissions;
    words >> std::hex >> begin >> dash >> end >> permissions;
    if (permissions == "rw-p" && begin == guard_end && end - begin >= stack_bytes) ++found.stacks;
    guard_end = permissions == "---p" && end - begin == guard_bytes ? end : 0;
    if (permissions == "---p") found.reserved_kib += (end - begin) >> 10U;
  }
  return found;
}

// Of threads that have ended: the C library keeps them for those to come, or until another one ends.
std::size_t kib_of_unused_stacks(std::size_t stacks, std::size_t threads_with_stacks) {
  constexpr std::size_t stack_kib = 8192;
  return stacks > threads_with_stacks ? (stacks - threads_with_stacks) * stack_kib : 0;
}

void compare(const char* what, const std::vector<std::string>& before, const std::vector<std::string>& now,
             std::vector<std::string>& found) {
  if (now.size() <= before.size()) return;
  std::vector<std::string> more;
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(), std::back_inserter(more));
  std::string text = std::to_string(now.size() - before.size()) + " more " + what + ":";
  for (const std::string& one : more) text += " " + one;
  found.push_back(text);
}

sluice_carrier_counts_t carriers() {
  sluice_carrier_counts_t counts{};
  sluice_carrier_counters(&counts);
  return counts;
}

// What a ring takes of each: three streams, which are threads of the soft GPU from their first use on; up to 8 MiB; a
// few words of device memory.
constexpr std::size_t kStreamsARing = 3;
constexpr std::size_t kMappedKibARing = 8600;
constexpr std::size_t kDeviceBytesARing = 4096;
// What a channel takes: one stream, which it uses first when the program's is late; 1.3 MiB; a few words of device
// memory.
constexpr std::size_t kMappedKibAChannel = 1500;
constexpr std::size_t kDeviceBytesAChannel = 512;
// Threads that come when they are needed, and stay: when so many streams have work at once, with the first ragged
// O_DIRECT write to each storage, and with the first read that a kernel carries, which on a busy machine may be none of
// the first round's.
constexpr std::array kThatStay = {"sluice-streams", "sluice-files", "sluice-sentinel"};
// A thread that works on another device for the first time gets a stream there.
constexpr std::size_t kStreamsOfThreads = 8;
constexpr const char* kStream = "softgpu-queue";
constexpr std::size_t kMappedKibAStream = 8400;  // its stack

std::size_t count_of(const char* name, const Census& census) {
  return static_cast<std::size_t>(std::count(census.threads.begin(), census.threads.end(), name));
}

}  // namespace

Census take_census() {
  const sluice_carrier_counts_t staging = carriers();
  Census census{descriptors(), threads(),       status_of("VmSize:"), status_of("VmLck:"), 0,
                staging.rings, staging.stations};
  const AddressSpace space = address_space();
  // The first thread's stack is none of these.
  census.mapped_kib -= space.reserved_kib + kib_of_unused_stacks(space.stacks, census.threads.size() - 1);
  const support::CudaDriver* const cuda = support::cuda();
  if (cuda != nullptr && cuda->memory_info != nullptr) {
    const support::ContextScope scope(support::primary_context(0));
    std::size_t total = 0;
    cuda->memory_info(&census.device_free, &total);
  }
  return census;
}

std::vector<std::string> growth(const Census& before, const Census& now, std::size_t slack_kib) {
  std::vector<std::string> found;
  compare("descriptors", before.descriptors, now.descriptors, found);
  const std::size_t rings = now.rings - before.rings;
  const std::size_t channels = now.channels - before.channels;
  std::vector<std::string> others = now.threads;
  const std::size_t streams_then = count_of(kStream, before);
  // Of all that are there now: one that was there before may have used its streams since for the first time.
  const std::size_t most_streams = now.rings * kStreamsARing + now.channels + kStreamsOfThreads;
  std::size_t new_streams = 0;
  while (new_streams < most_streams && count_of(kStream, now) > streams_then + new_streams) {
    others.erase(std::find(others.begin(), others.end(), kStream));
    ++new_streams;
  }
  std::size_t new_that_stay = 0;
  for (const char* const name : kThatStay) {
    for (std::size_t i = count_of(name, before); i < count_of(name, now); ++i) {
      others.erase(std::find(others.begin(), others.end(), name));
      ++new_that_stay;
    }
  }
  compare("threads", before.threads, others, found);
  if (now.locked_kib > before.locked_kib) {
    found.push_back(std::to_string(now.locked_kib - before.locked_kib) + " KiB more are locked");
  }
  if (now.device_free + rings * kDeviceBytesARing + channels * kDeviceBytesAChannel < before.device_free) {
    found.push_back(std::to_string(before.device_free - now.device_free) + " bytes of device memory are missing");
  }
  const std::size_t allowed_kib =
      rings * kMappedKibARing + channels * kMappedKibAChannel + (new_streams + new_that_stay) * kMappedKibAStream;
  if (!kSanitized && now.mapped_kib > before.mapped_kib + slack_kib + allowed_kib) {
    found.push_back(std::to_string(now.mapped_kib - before.mapped_kib) + " KiB more are mapped");
  }
  return found;
}

std::vector<std::string> settled_growth(const Census& before, std::size_t slack_kib) {
  std::vector<std::string> found = growth(before, take_census(), slack_kib);
  for (const support::Deadline deadline; !found.empty() && !deadline.has_passed();) {
    sched_yield();
    found = growth(before, take_census(), slack_kib);
  }
  return found;
}

}  // namespace sluice::fuzz
