// SPDX-License-Identifier: Apache-2.0
#include "failures/point.h"

#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>

namespace sluice::failures {

namespace {

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool holds(std::uintptr_t address) const { return address >= begin && address < end; }
};

// Filled by prepare_point(), while there is one thread.
Range library;
std::array<Range, 8> runtimes;
std::size_t runtime_count = 0;
Record* record = nullptr;

std::atomic<Kind> armed{Kind::none};
std::atomic<std::uint64_t> failing{0};
std::atomic<std::size_t> failing_turn{0};
std::atomic<std::size_t> run_length{1};
std::atomic<std::size_t> left_to_fail{0};
std::atomic<int> code_of_driver{0};
constinit thread_local bool inside = false;

bool is_one_of(const char* path, std::span<const char* const> names) {
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash != nullptr ? slash + 1 : path;
  return std::any_of(names.begin(), names.end(),
                     [&](const char* one) { return std::strncmp(name, one, std::strlen(one)) == 0; });
}

int look_at_library(dl_phdr_info* info, std::size_t /*size*/, void* /*unused*/) {
  static constexpr std::array ours{"libcufile.so"};
  static constexpr std::array theirs{"libc.so", "libstdc++.so", "libgcc_s.so", "ld-linux",
                                     "libm.so", "libasan.so",   "libubsan.so"};
  Range range{UINTPTR_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    range.begin = std::min(range.begin, info->dlpi_addr + part.p_vaddr);
    range.end = std::max(range.end, info->dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  if (is_one_of(info->dlpi_name, ours)) library = range;
  if (is_one_of(info->dlpi_name, theirs) && runtime_count < runtimes.size()) runtimes[runtime_count++] = range;
  return 0;
}

bool is_runtime(std::uintptr_t address) {
  return std::any_of(runtimes.begin(), runtimes.begin() + static_cast<std::ptrdiff_t>(runtime_count),
                     [&](const Range& range) { return range.holds(address); });
}

// From the interposed function's caller outwards.
struct Frames {
  std::uintptr_t caller = 0;
  bool reached_caller = false;
  bool decided = false;
  bool of_the_library = false;
  std::array<std::uintptr_t, 12> in_library{};
  std::size_t count = 0;
};

_Unwind_Reason_Code look_at_frame(_Unwind_Context* frame, void* argument) {
  Frames& frames = *static_cast<Frames*>(argument);
  const std::uintptr_t place = _Unwind_GetIP(frame);
  frames.reached_caller = frames.reached_caller || place == frames.caller;
  if (!frames.reached_caller) return _URC_NO_REASON;
  if (!frames.decided && !is_runtime(place)) {
    frames.decided = true;
    frames.of_the_library = library.holds(place);
  }
  if (frames.decided && !frames.of_the_library) return _URC_END_OF_STACK;
  if (library.holds(place) && frames.count < frames.in_library.size()) {
    frames.in_library[frames.count++] = place - library.begin;
  }
  return _URC_NO_REASON;
}

void tell_of(const char* what, const char* name, const Frames& frames) {
  std::array<char, 512> places{};
  std::size_t used = 0;
  for (std::size_t i = 0; i < frames.count; ++i) {
    used += static_cast<std::size_t>(std::snprintf(places.data() + used, places.size() - used, " %zx",
                                                   static_cast<std::size_t>(frames.in_library[i])));
    if (used >= places.size()) break;
  }
  record->tell("%s %s%s", what, name, places.data());
}

// Open addressing; what there is no room for is not counted.
struct Site {
  std::atomic<std::uint64_t> number{0};
  std::atomic<std::size_t> calls{0};
};
std::array<Site, 4096> sites;

// From 1.
std::size_t count_at(std::uint64_t number) {
  for (std::size_t i = 0; i < sites.size(); ++i) {
    Site& site = sites[(number + i) % sites.size()];
    std::uint64_t free = 0;
    if (site.number.load() == number || site.number.compare_exchange_strong(free, number) || free == number) {
      return site.calls.fetch_add(1) + 1;
    }
  }
  return 0;
}

std::uint64_t site_of(const char* name, const Frames& frames) {
  std::uint64_t number = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&](std::uint64_t value) { number = (number ^ value) * 0x100000001b3; };
  for (const char* letter = name; *letter != 0; ++letter) add(static_cast<unsigned char>(*letter));
  for (std::size_t i = 0; i < frames.count; ++i) add(frames.in_library[i]);
  return number >> 16U | 1U;  // never 0, and short to write
}

bool is_turn(Kind kind, const char* name, const void* caller) {
  if (armed.load(std::memory_order_acquire) != kind) return false;
  Frames frames;
  frames.caller = reinterpret_cast<std::uintptr_t>(caller);
  _Unwind_Backtrace(look_at_frame, &frames);
  if (!frames.of_the_library) return false;
  const std::uint64_t site = site_of(name, frames);
  const std::size_t turn = count_at(site);
  if (site == failing.load(std::memory_order_relaxed) && turn == failing_turn.load(std::memory_order_relaxed)) {
    left_to_fail.store(run_length - 1);
    tell_of("struck", name, frames);
    return true;
  }
  std::size_t left = left_to_fail.load();
  while (left > 0 && !left_to_fail.compare_exchange_weak(left, left - 1)) continue;
  return left > 0;
}

_Unwind_Reason_Code look_at_any_frame(_Unwind_Context* frame, void* argument) {
  Frames& frames = *static_cast<Frames*>(argument);
  const std::uintptr_t place = _Unwind_GetIP(frame);
  if (library.holds(place) && frames.count < frames.in_library.size()) {
    frames.in_library[frames.count++] = place - library.begin;
  }
  return _URC_NO_REASON;
}

void tell_where_it_ends(int signal) {
  Frames frames;
  _Unwind_Backtrace(look_at_any_frame, &frames);
  tell_of("ended", sigabbrev_np(signal), frames);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

void prepare_point(Record& to) {
  record = &to;
  dl_iterate_phdr(look_at_library, nullptr);
  for (const int signal : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) ::signal(signal, tell_where_it_ends);
}

void arm(const Failing& asked) {
  failing = asked.site;
  failing_turn = asked.turn;
  run_length = asked.run;
  left_to_fail = 0;
  code_of_driver = asked.code;
  armed.store(asked.kind, std::memory_order_release);
}

void disarm() {
  armed.store(Kind::none, std::memory_order_release);
  for (const Site& site : sites) {
    const std::size_t calls = site.calls.load();
    if (calls != 0) record->tell("site %llu %zu", static_cast<unsigned long long>(site.number.load()), calls);
  }
}

bool is_to_fail(Kind kind, const char* name, const void* caller) noexcept {
  if (armed.load(std::memory_order_relaxed) != kind || inside) return false;
  inside = true;
  const bool answer = is_turn(kind, name, caller);
  inside = false;
  return answer;
}

int driver_code() noexcept {
  return code_of_driver;
}

bool is_in_library(const void* address) noexcept {
  return library.holds(reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace sluice::failures
