// SPDX-License-Identifier: Apache-2.0
// Rings of events: whose they are, what is in them, what becomes of them when they are full.
#include "observe/recorder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "observe/probe_switch.h"
#include "observe/probes.h"

namespace sluice::observe {
namespace {

using testing::ElementsAre;

// As another process sees it.
class Rings {
 public:
  Rings() {
    start_recorder("on");
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry, gone).string().starts_with("/memfd:" SLUICE_TRACE_NAME)) {
        const int fd = ::open(entry.path().c_str(), O_RDONLY);
        memory_ = ::mmap(nullptr, SLUICE_TRACE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
        ::close(fd);
      }
    }
  }
  Rings(const Rings&) = delete;
  Rings& operator=(const Rings&) = delete;
  ~Rings() {
    Watchers::remove(Watchers::recorder);
    if (memory_ != MAP_FAILED) ::munmap(memory_, SLUICE_TRACE_SIZE);
  }

  bool are_there() const { return memory_ != MAP_FAILED; }
  const sluice_trace_head& head() const { return *static_cast<const sluice_trace_head*>(memory_); }
  const sluice_trace_event& event(std::size_t ring, std::uint64_t number) const {
    const auto* const bytes =
        static_cast<const std::byte*>(memory_) + SLUICE_TRACE_PAGE + ring * SLUICE_TRACE_RING_BYTES;
    return reinterpret_cast<const sluice_trace_event*>(bytes)[number % SLUICE_TRACE_RING_EVENTS];
  }
  // Of the calling thread.
  std::size_t own() const {
    const auto thread = static_cast<std::uint64_t>(::gettid());
    for (std::size_t i = 0; i < SLUICE_TRACE_RING_COUNT; ++i) {
      if (head().rings[i].thread == thread) return i;
    }
    return ~std::size_t{0};
  }

 private:
  void* memory_ = MAP_FAILED;
};

TEST(Recorder, WritesAnEventIntoTheRingOfItsThread) {
  const Rings rings;
  ASSERT_TRUE(rings.are_there());
  EXPECT_EQ(rings.head().magic, SLUICE_TRACE_MAGIC);
  EXPECT_EQ(rings.head().pid, static_cast<std::uint64_t>(::getpid()));
  set_request_at_hand(7);
  record({.kind = SLUICE_TRACE_COPY, .phase = SLUICE_TRACE_BEGIN, .detail = 3, .fd = 11, .a = 5, .b = 6});
  set_request_at_hand(0);
  const std::size_t ring = rings.own();
  ASSERT_LT(ring, std::size_t{SLUICE_TRACE_RING_COUNT});
  const std::uint64_t last = rings.head().rings[ring].next - 1;
  const sluice_trace_event& event = rings.event(ring, last);
  EXPECT_EQ(event.serial, static_cast<std::uint32_t>(last + 1));
  EXPECT_THAT((std::vector<std::uint64_t>{event.kind, event.phase, event.detail, event.request, event.a, event.b}),
              ElementsAre(SLUICE_TRACE_COPY, SLUICE_TRACE_BEGIN, 3, 7, 5, 6));
  EXPECT_EQ(event.fd, 11);
  EXPECT_GT(event.time, 0U);
}

TEST(Recorder, GoesOnAtTheBeginningOfAFullRing) {
  const Rings rings;
  ASSERT_TRUE(rings.are_there());
  record({.kind = SLUICE_TRACE_COPY});
  const std::size_t ring = rings.own();
  const std::uint64_t before = rings.head().rings[ring].next;
  for (std::uint64_t i = 0; i < SLUICE_TRACE_RING_EVENTS + 5; ++i) record({.kind = SLUICE_TRACE_COPY, .b = i});
  EXPECT_EQ(rings.head().rings[ring].next, before + SLUICE_TRACE_RING_EVENTS + 5);
  EXPECT_EQ(rings.event(ring, before + SLUICE_TRACE_RING_EVENTS + 4).b, std::uint64_t{SLUICE_TRACE_RING_EVENTS} + 4);
}

TEST(Recorder, GivesTheRingOfAThreadThatEndedToAnotherOneAndTellsBoth) {
  const Rings rings;
  ASSERT_TRUE(rings.are_there());
  std::size_t first = 0;
  std::size_t second = 0;
  std::thread([&] {
    record({.kind = SLUICE_TRACE_COPY});
    first = rings.own();
  }).join();
  std::thread([&] {
    record({.kind = SLUICE_TRACE_COPY});
    second = rings.own();
    const std::uint64_t named = rings.head().rings[second].next - 2;
    EXPECT_EQ(rings.event(second, named).kind, SLUICE_TRACE_THREAD);
    EXPECT_EQ(rings.event(second, named).fd, ::gettid());
  }).join();
  EXPECT_EQ(first, second);
}

TEST(Recorder, CountsThreadsThatFindNoRing) {
  const Rings rings;
  ASSERT_TRUE(rings.are_there());
  const std::uint64_t before = rings.head().threads_without_ring;
  std::vector<std::thread> threads;
  std::atomic<int> at_it{0};
  constexpr int more = SLUICE_TRACE_RING_COUNT + 8;
  for (int i = 0; i < more; ++i) {
    threads.emplace_back([&at_it] {
      record({.kind = SLUICE_TRACE_COPY});
      record({.kind = SLUICE_TRACE_COPY});
      at_it.fetch_add(1);
      while (at_it.load() < more) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(rings.head().threads_without_ring - before, 8U);
  EXPECT_LE(rings.head().threads_without_ring - before, 10U);  // this thread, and one of an earlier test
}

TEST(Recorder, GivesRequestsNumbersOfTheirOwn) {
  const Rings rings;
  ASSERT_TRUE(rings.are_there());
  std::uint32_t other = 0;
  const std::uint32_t first = new_request_number();
  std::thread([&other] { other = new_request_number(); }).join();
  const std::uint32_t second = new_request_number();
  EXPECT_EQ(second, first + 1);
  EXPECT_NE(other, first);
  EXPECT_NE(other, second);
}

TEST(Probes, DoNothingWhileNobodyWatches) {
  const Rings rings;
  ASSERT_TRUE(rings.are_there());
  record({.kind = SLUICE_TRACE_COPY});
  const std::size_t ring = rings.own();
  const std::uint64_t before = rings.head().rings[ring].next;
  Watchers::remove(Watchers::recorder);
  {
    RequestProbe request([] { return RequestShape{.fd = 3, .size = 4096}; });
    const PhaseProbe phase(SLUICE_TRACE_FILE_READ, 4096);
    decided(SLUICE_PATH_POSIX, SLUICE_REASON_HOST_MEMORY, -1);
    request.end(base::Outcome::bytes(4096));
  }
  EXPECT_EQ(rings.head().rings[ring].next, before);
}

TEST(Probes, OfARequestTellItsBeginningAndItsEndAndWhatLiesBetween) {
  const Rings rings;
  ASSERT_TRUE(rings.are_there());
  record({.kind = SLUICE_TRACE_COPY});
  const std::size_t ring = rings.own();
  const std::uint64_t before = rings.head().rings[ring].next;
  RequestProbe request([] { return RequestShape{.fd = 3, .offset = 512, .size = 4096}; });
  decided(SLUICE_PATH_POSIX, SLUICE_REASON_HOST_MEMORY, 1);
  {
    PhaseProbe phase(SLUICE_TRACE_FILE_READ, 4096, 512, 3);
    EXPECT_EQ(phase.ends(base::Outcome::bytes(4096)).count(), 4096U);
  }
  request.end(base::Outcome::bytes(4096));
  std::vector<int> kinds;
  for (std::uint64_t i = before; i < rings.head().rings[ring].next; ++i) {
    const sluice_trace_event& event = rings.event(ring, i);
    kinds.push_back(event.kind * 10 + event.phase);
    EXPECT_EQ(event.request, rings.event(ring, before).request);
  }
  EXPECT_THAT(kinds, ElementsAre(21, 33, 51, 52, 22));
  const sluice_trace_event& end = rings.event(ring, before + 4);
  EXPECT_EQ(end.detail, SLUICE_PATH_POSIX << 8 | SLUICE_REASON_HOST_MEMORY);
  EXPECT_EQ(end.a, 4096U);
  EXPECT_EQ(end.b, 2U);
  EXPECT_EQ(request_at_hand(), 0U);
}

// No promise of time is tested; what it says is for docs/performance.md.
TEST(Recorder, TellsWhatAnEventCosts) {
  const Rings rings;
  ASSERT_TRUE(rings.are_there());
  constexpr int times = 200'000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) record({.kind = SLUICE_TRACE_COPY});
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("nanoseconds_an_event", std::to_string(took.count() / times));
  std::printf("an event costs %.1f ns\n", took.count() / times);
}

}  // namespace
}  // namespace sluice::observe
