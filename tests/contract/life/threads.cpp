// SPDX-License-Identifier: Apache-2.0
// What a thread leaves behind when it ends, calls that it makes in the last moment, and what the library's own threads
// take over from it.
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "contract/life/scenario.h"
#include "support/batch.h"

namespace sluice::life {

using namespace support;

namespace {

// An object of a thread that was made before the thread's first transfer goes after everything of the library's own.
struct AtThreadEnd {
  void (*action)() = nullptr;
  ~AtThreadEnd() {
    if (action != nullptr) action();
  }
};
thread_local AtThreadEnd at_thread_end;

int transfers_in_a_threads_last_destructor() {
  World::open();
  for (int round = 0; round < 10; ++round) {
    std::thread([] {
      at_thread_end.action = [] { World::open().use(); };
      World::open().use();
    }).join();
  }
  say("the threads are done");
  return 0;
}

// Staging memory is used by one transfer at a time, whichever has had it before: also by the transfers of a thread that
// has given its own back as it ended.
int staging_memory_is_not_lent_twice() {
  if (cuda() == nullptr) skip("no CUDA device: only device memory is staged");
  static auto* const gated = new GatedFile(4096);
  static std::set<const void*> lent;
  static std::mutex mutex;
  static bool opened = false;
  gated->set_visitor([](const void* staging) {
    const std::lock_guard lock(mutex);
    if (opened) return;  // SLUICE_VERIFY reads again
    require(lent.insert(staging).second, "two transfers were given the same staging memory");
  });
  static const auto read = [] {
    const Memory memory(MemoryKind::device, 4096);
    require(read_file(gated->handle(), memory.address(), 4096) == moved(4096), "reading");
  };
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDONLY);
  static CUfileHandle_t plain = nullptr;
  require(register_fd(fd.get(), &plain) == CU_FILE_SUCCESS, "registering");
  std::thread ending([] {
    at_thread_end.action = [] { read(); };  // after this thread's staging memory went back
    const Memory memory(MemoryKind::device, 4096);
    require(read_file(plain, memory.address(), 4096) == moved(4096), "reading");
  });
  gated->wait_until_inside(1);
  std::thread other(read);
  gated->wait_until_inside(2);
  {
    const std::lock_guard lock(mutex);
    opened = true;
  }
  gated->open();
  ending.join();
  other.join();
  return 0;
}

int transfers_at_exit_use_staging_memory_of_their_own() {
  // The thread that calls exit() gives its staging memory back before the handlers run.
  if (cuda() == nullptr) skip("no CUDA device: only device memory is staged");
  std::atexit([] {
    static std::set<const void*> lent;
    static std::mutex mutex;
    static bool opened = false;
    static GatedFile gated(4096);
    gated.set_visitor([](const void* staging) {
      const std::lock_guard lock(mutex);
      if (opened) return;  // SLUICE_VERIFY reads again
      require(lent.insert(staging).second, "two transfers were given the same staging memory");
    });
    const auto read = [] {
      const Memory memory(MemoryKind::device, 4096);
      require(read_file(gated.handle(), memory.address(), 4096) == moved(4096), "reading");
    };
    std::thread other(read);
    gated.wait_until_inside(1);
    std::thread opener([] {
      gated.wait_until_inside(2);
      {
        const std::lock_guard lock(mutex);
        opened = true;
      }
      gated.open();
    });
    read();
    other.join();
    opener.join();
    say("the handler is done");
  });
  World::open().use();
  return 0;
}

// A program ties its reader to a processor for its own sake; a helper has all that the program has.
int lanes_are_not_tied_like_the_thread_that_needs_them() {
  cpu_set_t ours;
  require(sched_getaffinity(0, sizeof ours, &ours) == 0, "the program's processors");
  if (CPU_COUNT(&ours) < 2) skip("there is one processor");
  std::thread([&ours] {
    cpu_set_t one;
    CPU_ZERO(&one);
    int processor = 0;
    while (!CPU_ISSET(processor, &ours)) ++processor;
    CPU_SET(processor, &one);
    require(sched_setaffinity(0, sizeof one, &one) == 0, "tying the thread");
    const ScratchFile file(4096);
    const Fd fd = file.open(O_RDONLY);
    const Handle handle(fd);
    const Memory memory(MemoryKind::plain, 4096);
    Batch batch(1);
    batch.read(handle.get(), memory, 4096, 0, 0);
    require(batch.run().at(0) == 4096, "reading");
  }).join();
  int lanes = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm"), name);
    if (!name.starts_with("sluice-work")) continue;
    ++lanes;
    cpu_set_t theirs;
    require(sched_getaffinity(std::stoi(thread.path().filename()), sizeof theirs, &theirs) == 0, "a lane's processors");
    require(CPU_EQUAL(&ours, &theirs), "a lane has other processors than the program");
  }
  require(lanes > 0, "there are no lanes");
  return 0;
}

constexpr Scenario threads_all[] = {
    {"lanes_are_not_tied_like_the_thread_that_needs_them", lanes_are_not_tied_like_the_thread_that_needs_them},
    {"transfers_in_a_threads_last_destructor", transfers_in_a_threads_last_destructor},
    {"staging_memory_is_not_lent_twice", staging_memory_is_not_lent_twice},
    {"transfers_at_exit_use_staging_memory_of_their_own", transfers_at_exit_use_staging_memory_of_their_own},
};

}  // namespace

std::span<const Scenario> thread_scenarios() {
  return threads_all;
}

}  // namespace sluice::life
