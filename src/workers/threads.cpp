// SPDX-License-Identifier: Apache-2.0
#include "workers/threads.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <thread>

#include "base/signals_blocked.h"
#include "facts/read.h"
#include "observe/log.h"

namespace sluice::workers {

namespace {

// What the cgroup grants, in whole processors; ~0 without a limit.
unsigned granted_by_cgroup() {
  const std::string text = facts::read_value("/sys/fs/cgroup/cpu.max").value_or("");  // "200000 100000", "max 100000"
  const char* const end = text.data() + text.size();
  std::uint64_t quota = 0;
  std::uint64_t period = 0;
  const auto first = std::from_chars(text.data(), end, quota);
  if (first.ec != std::errc() || first.ptr == end) return ~0U;
  std::from_chars(first.ptr + 1, end, period);
  return period == 0 ? ~0U : static_cast<unsigned>(std::max<std::uint64_t>(1, quota / period));
}

// What this thread may run on, or the process's first one: a thread that is tied to a processor for its own sake says
// nothing of the others.
cpu_set_t allowed_processors() noexcept {
  cpu_set_t here;
  cpu_set_t first;
  CPU_ZERO(&here);
  CPU_ZERO(&first);
  ::sched_getaffinity(0, sizeof here, &here);
  ::sched_getaffinity(::getpid(), sizeof first, &first);
  CPU_OR(&here, &here, &first);
  return here;
}

unsigned count_processors() {
  const cpu_set_t allowed = allowed_processors();
  return std::min(std::max(1U, static_cast<unsigned>(CPU_COUNT(&allowed))), granted_by_cgroup());
}

void start_one(const Threads& kind, unsigned number, const cpu_set_t& allowed) {
  std::thread thread(kind.run, number);
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "%s-%u", kind.name, number);
  ::pthread_setname_np(thread.native_handle(), name.data());
  ::pthread_setaffinity_np(thread.native_handle(), sizeof allowed, &allowed);
  thread.detach();
}

}  // namespace

// Without memory to read what the cgroup grants, it is asked again the next time.
unsigned processor_count() noexcept try {
  static const unsigned count = count_processors();
  return count;
} catch (const std::bad_alloc&) {
  return 1;
}

void Threads::start(unsigned wanted) noexcept {
  if (tried.load(std::memory_order_acquire) >= wanted) return;
  const base::SignalsBlocked blocked;  // and so are those of the threads that are made
  const std::lock_guard lock(starting);
  const cpu_set_t allowed = allowed_processors();
  for (unsigned number = tried.load(std::memory_order_relaxed); number < wanted; ++number) {
    try {
      start_one(*this, number, allowed);
    } catch (const std::exception& failure) {
      std::array<char, 96> text{};
      std::snprintf(text.data(), text.size(), "only %u of %u worker threads could be started", running.load(), wanted);
      observe::log_failure(config::LogLevel::warn, "workers", text.data(), failure.what());
      tried.store(wanted, std::memory_order_release);  // not to be tried again
      return;
    }
    running.fetch_add(1, std::memory_order_relaxed);
    tried.store(number + 1, std::memory_order_release);
  }
}

}  // namespace sluice::workers
