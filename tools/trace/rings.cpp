// SPDX-License-Identifier: Apache-2.0
#include "trace/rings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t ring_events = SLUICE_TRACE_RING_EVENTS;

template <typename T>
T load(const T& there, std::memory_order order = std::memory_order_relaxed) noexcept {
  return std::atomic_ref<T>(const_cast<T&>(there)).load(order);
}

// Whole, or being written: then nothing.
bool copy(const sluice_trace_event& from, std::uint64_t number, sluice_trace_event& to) noexcept {
  const auto serial = static_cast<std::uint32_t>(number + 1);
  if (load(from.serial, std::memory_order_acquire) != serial) return false;
  to = {load(from.time),   serial,        load(from.request), load(from.kind), load(from.phase),
        load(from.detail), load(from.fd), load(from.a),       load(from.b)};
  std::atomic_thread_fence(std::memory_order_acquire);
  return load(from.serial) == serial;
}

std::string name_of(const char* text, std::size_t size) {
  return printable({text, strnlen(text, size)});
}

std::size_t thread_of(TracedProcess& process, pid_t number, const std::string& name) {
  for (std::size_t i = 0; i < process.threads.size(); ++i) {
    if (process.threads[i].number == number && process.threads[i].name == name) return i;
  }
  process.threads.push_back({number, name, {}, 0});
  return process.threads.size() - 1;
}

}  // namespace

bool Rings::is_being_made(int fd) noexcept {
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals < 0 || (seals & F_SEAL_SHRINK) == 0;
}

Rings Rings::of_descriptor(int fd) {
  constexpr std::size_t size = SLUICE_TRACE_SIZE;
  struct stat status {};
  const bool is_large = fstat(fd, &status) == 0 && status.st_size >= static_cast<off_t>(size);
  void* const memory = !is_being_made(fd) && is_large ? mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  close(fd);
  if (memory == MAP_FAILED) {
    throw ToolError("The memory of a trace is not what this tool knows.",
                    "Use the sluice that was installed with the library that the process runs on.");
  }
  Rings rings(static_cast<const std::byte*>(memory), status.st_ino);
  const sluice_trace_head& head = rings.head();
  if (load(head.magic, std::memory_order_acquire) != SLUICE_TRACE_MAGIC || head.version != SLUICE_TRACE_VERSION ||
      head.size != size) {
    throw ToolError(fmt::format("The process runs on another version of Sluice: its trace has layout {}, this tool "
                                "reads layout {}.",
                                head.version, SLUICE_TRACE_VERSION),
                    "Use the sluice that was installed with the library that the process runs on.");
  }
  return rings;
}

Rings::Rings(Rings&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), inode_(other.inode_), places_(other.places_) {}

Rings::~Rings() {
  if (memory_ != nullptr) munmap(const_cast<std::byte*>(memory_), SLUICE_TRACE_SIZE);
}

std::uint64_t Rings::own_number() const noexcept {
  return load(head().pid);
}

std::string Rings::library() const {
  return name_of(head().library, sizeof head().library);
}

std::string Rings::program() const {
  return name_of(head().program, sizeof head().program);
}

std::uint64_t Rings::threads_without_ring() const noexcept {
  return load(head().threads_without_ring);
}

void Rings::read(TracedProcess& into, std::uint64_t since, std::uint64_t& room) {
  for (std::uint32_t number = 0; number < SLUICE_TRACE_RING_COUNT; ++number) read_ring(number, into, since, room);
  into.threads_without_ring = threads_without_ring();
}

void Rings::read_ring(std::uint32_t number, TracedProcess& into, std::uint64_t since, std::uint64_t& room) {
  const sluice_trace_ring_head& ring = head().rings[number];
  Place& place = places_[number];
  const std::uint64_t end = load(ring.next, std::memory_order_acquire);
  if (end == place.next || end < place.next) return;
  const auto* const events =
      reinterpret_cast<const sluice_trace_event*>(memory_ + SLUICE_TRACE_PAGE + number * SLUICE_TRACE_RING_BYTES);
  std::uint64_t missed = 0;
  if (end - place.next > ring_events) {
    missed = end - ring_events - place.next;
    place.next += missed;
  }
  for (; place.next < end; ++place.next) {
    sluice_trace_event event{};
    if (!copy(events[place.next % ring_events], place.next, event)) {
      // Being written now, and the last ones: the next time. Else it has been written over.
      if (load(ring.next) - place.next < ring_events / 2) break;
      ++missed;
      continue;
    }
    if (event.kind == SLUICE_TRACE_THREAD) {
      std::array<char, SLUICE_TRACE_THREAD_NAME_SIZE> name{};
      std::memcpy(name.data(), &event.a, sizeof event.a);
      std::memcpy(name.data() + sizeof event.a, &event.b, sizeof event.b);
      place.thread = thread_of(into, event.fd, name_of(name.data(), name.size()));
      continue;
    }
    if (event.time < since) continue;
    if (place.thread == ~std::size_t{0}) {  // its first event has been written over
      place.thread = thread_of(into, static_cast<pid_t>(load(ring.thread)), name_of(ring.name, sizeof ring.name));
    }
    TracedThread& thread = into.threads[place.thread];
    if (room == 0) {
      ++thread.lost;
      continue;
    }
    --room;
    thread.events.push_back(event);
  }
  if (missed == 0) return;
  if (place.thread == ~std::size_t{0}) {
    place.thread = thread_of(into, static_cast<pid_t>(load(ring.thread)), name_of(ring.name, sizeof ring.name));
  }
  into.threads[place.thread].lost += missed;
}

}  // namespace sluice::tools
