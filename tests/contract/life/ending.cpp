// SPDX-License-Identifier: Apache-2.0
// How a process may end with the library in use: each way there is, with transfers in flight and without.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "contract/life/scenario.h"

namespace sluice::life {

using namespace support;

namespace {

// A device's driver may have ended before a handler or destructor that was registered before the driver began: those
// use plain memory.
void use_plain_memory() {
  World::open().use(MemoryKind::plain);
}

void use_and_end() {
  World& world = World::open();
  world.use(MemoryKind::plain);
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDWR);
  {
    const Handle handle(fd);
    const Memory memory(MemoryKind::plain, 4096);
    const Registration registration(memory);
    require(read_file(handle.get(), memory.address(), 4096) == moved(4096), "reading a new file");
    require(same_bytes(file.content(), memory.get()), "what a new file holds");
  }
  world.end();
  // And once more from the start.
  const Handle handle(fd);
  require(cuFileUseCount() == 1, "the use count of a driver that was opened again");
}

// Does something when it is destroyed.
struct AtDestruction {
  void (*action)();
  ~AtDestruction() {
    action();
    say("the destructor is done");
  }
};

int return_from_main() {
  World::open().use();
  return 0;
}

int destructor_made_before_the_first_call() {
  static const AtDestruction later{use_and_end};
  World::open();
  return 0;
}

int destructor_made_after_the_first_call() {
  World::open();
  static const AtDestruction later{use_and_end};
  return 0;
}

void handler() {
  use_and_end();
  say("the handler is done");
}

int handler_registered_before_the_first_call() {
  std::atexit(handler);
  World::open();
  return 0;
}

int handler_registered_after_the_first_call() {
  World::open();
  std::atexit(handler);
  std::atexit([] { World::open().use(); });  // the first to run; the device's driver is still there
  return 0;
}

int first_call_in_a_handler() {
  std::atexit([] {
    const ScratchFile file(4096);
    const Fd fd = file.open(O_RDWR);
    const Handle handle(fd);
    const Memory memory(MemoryKind::plain, 4096);
    require(read_file(handle.get(), memory.address(), 4096) == moved(4096), "reading");
    say("the handler is done");
  });
  return 0;
}

int quick_exit_with_everything_open() {
  World::open();
  std::at_quick_exit([] {
    use_and_end();
    say("the handler is done");
  });
  std::quick_exit(0);
}

int exit_at_once_with_everything_open() {
  World::open();
  _exit(0);
}

// ---- with a transfer in flight

// A transfer of a thread of its own that stands still. Never given back.
struct Flight {
  explicit Flight(MemoryKind kind)
      : gated(new GatedFile(16 * scenario_bytes)), memory(new Memory(kind, gated->content().size())) {
    memory->fill(unlike_the_last());
    thread = new std::thread([this] { read_file(gated->handle(), memory->address(), memory->size()); });
    gated->wait_until_inside();
  }
  // The last byte first: nothing may take time before it is looked at.
  bool complete() const {
    return memory->get(memory->size() - 1, 1).front() == gated->content().back() &&
           same_bytes(gated->content(), memory->get());
  }
  unsigned char unlike_the_last() const { return static_cast<unsigned char>(gated->content().back() + 1); }

  GatedFile* gated;
  Memory* memory;
  std::thread* thread;
};
Flight* flight = nullptr;

void let_go() {
  flight->gated->open();
}

void require_complete() {
  require(flight->complete(), "the transfer was still going on");
}

// Everything that was made before the transfers may go only when they are through: destructors and handlers that were
// registered earlier run later.
int exit_waits_for_a_transfer() {
  static const AtDestruction earlier{require_complete};
  World::open();
  flight = new Flight(MemoryKind::plain);
  std::atexit(let_go);
  return 0;
}

int exit_waits_for_a_transfer_to_a_device() {
  if (cuda() == nullptr) skip("no CUDA device");
  std::atexit([] {
    require_complete();
    say("the handler is done");
  });
  flight = new Flight(MemoryKind::device);
  std::atexit(let_go);
  return 0;
}

int exit_by_another_thread_waits_for_a_transfer() {
  static const AtDestruction earlier{require_complete};
  World::open();
  flight = new Flight(MemoryKind::plain);
  std::atexit(let_go);
  std::thread([] { std::exit(0); }).join();
  return 1;
}

// Entries of a batch that stand still, or have not been begun. Never given back.
struct BatchFlight {
  static constexpr std::size_t entries = 64;
  explicit BatchFlight(MemoryKind kind)
      : gated(new GatedFile(entries * piece)), memory(new Memory(kind, gated->content().size())) {
    memory->fill(unlike_all);
    CUfileBatchHandle_t batch = nullptr;
    require(code(cuFileBatchIOSetUp(&batch, entries)) == CU_FILE_SUCCESS, "a batch");
    std::array<CUfileIOParams_t, entries> params{};
    for (std::size_t i = 0; i < entries; ++i) {
      params[i].mode = CUFILE_BATCH;
      params[i].fh = gated->handle();
      params[i].opcode = CUFILE_READ;
      params[i].u.batch.devPtr_base = memory->at(i * piece);
      params[i].u.batch.file_offset = static_cast<off_t>(i * piece);
      params[i].u.batch.size = piece;
    }
    require(code(cuFileBatchIOSubmit(batch, entries, params.data(), 0)) == CU_FILE_SUCCESS, "a submission");
    gated->wait_until_inside();
  }
  // What had begun is in place, what had not will never be.
  bool settled() const {
    std::size_t complete = 0;
    for (std::size_t i = 0; i < entries; ++i) {
      const Bytes found = memory->get(i * piece, piece);
      if (all_bytes(unlike_all, found)) continue;
      if (!same_bytes(std::span(gated->content()).subspan(i * piece, piece), found)) return false;
      ++complete;
    }
    return complete > 0;
  }

  static constexpr std::size_t piece = 4096;
  static constexpr unsigned char unlike_all = 0x5a;
  GatedFile* gated;
  Memory* memory;
};
BatchFlight* batch_flight = nullptr;

int exit_waits_for_what_a_batch_has_begun() {
  static const AtDestruction earlier{[] { require(batch_flight->settled(), "the batch was still going on"); }};
  World::open();
  batch_flight = new BatchFlight(MemoryKind::plain);
  std::atexit([] { batch_flight->gated->open(); });
  return 0;
}

int exit_at_once_with_a_batch_in_flight() {
  World::open();
  batch_flight = new BatchFlight(usual_memory());
  _exit(0);
}

int exit_does_not_wait_for_ever() {
  // What a program's own destructor closes does not wait for ever either.
  static const AtDestruction later{[] { World::open().end(); }};
  World::open();
  flight = new Flight(MemoryKind::plain);
  return 0;
}

bool has_thread(std::string_view name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    if (comm == name) return true;
  }
  return false;
}

// Registered before the library's own handler, this one comes behind it. The thread that is done may take a moment to
// be gone; loading takes longer (tests/contract/life_process_test.cpp).
int exit_waits_until_our_kernels_are_loaded() {
  if (cuda() == nullptr) skip("no CUDA device");
  const char* const mode = std::getenv("SLUICE_MODE");
  if (mode != nullptr && std::string_view(mode) == "plain") skip("nothing needs a kernel in plain mode");
  std::atexit([] {
    for (int looks = 0; looks < 1000 && has_thread("sluice-load"); ++looks) ::usleep(1000);
    require(!has_thread("sluice-load"), "a thread that loads our kernels is gone");
    say("the handler is done");
  });
  const ScratchFile file(scenario_bytes);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, scenario_bytes);
  require(read_file(handle.get(), memory.address(), scenario_bytes) == moved(scenario_bytes), "reading");
  // Other drivers may have loaded them by now.
  require(!cuda()->soft || has_thread("sluice-load"), "a thread that loads our kernels");
  return 0;
}

int exit_lets_busy_threads_be() {
  // Threads that start one transfer after the other: those in flight at exit are waited for, no more.
  World::open();
  static std::atomic<int> rounds{0};
  for (int i = 0; i < 4; ++i) {
    std::thread([] {
      for (;; ++rounds) use_plain_memory();
    }).detach();
  }
  while (rounds < 8) std::this_thread::yield();
  return 0;
}

int quick_exit_with_a_transfer_in_flight() {
  World::open();
  flight = new Flight(usual_memory());
  std::quick_exit(0);
}

int exit_at_once_with_a_transfer_in_flight() {
  World::open();
  flight = new Flight(usual_memory());
  _exit(0);
}

int killed_with_a_transfer_in_flight() {
  World::open();
  flight = new Flight(usual_memory());
  kill(getpid(), SIGTERM);
  pause();
  return 1;
}

// The ending thread is itself inside a transfer, which it must not wait for.
int ends_inside_a_transfer(void (*end)()) {
  static const AtDestruction later{[] { World::open().end(); }};  // closes the driver, and may not wait for itself
  static auto* const gated = new GatedFile(4096);
  gated->set_visitor([end](const void*) { end(); });
  World::open();
  const Memory memory(usual_memory(), 4096);
  read_file(gated->handle(), memory.address(), 4096);
  return 1;
}

int exit_inside_a_transfer() {
  return ends_inside_a_transfer([] { std::exit(0); });
}

// The frame that waits for events never returns; what the handler ends must not wait for it.
int exit_by_a_signal_handler_while_its_thread_waits_for_events() {
  static auto* const gated = new GatedFile(4096);
  static CUfileBatchHandle_t batch = nullptr;
  World::open().use();  // so that the library's own handlers come behind this one
  std::atexit([] {
    gated->open();
    cuFileBatchIODestroy(batch);
    say("the handler is done");
  });
  static const auto* const memory = new Memory(MemoryKind::plain, 4096);
  require(code(cuFileBatchIOSetUp(&batch, 1)) == CU_FILE_SUCCESS, "setting up");
  CUfileIOParams_t entry{};
  entry.mode = CUFILE_BATCH;
  entry.fh = gated->handle();
  entry.opcode = CUFILE_READ;
  entry.u.batch.devPtr_base = memory->address();
  entry.u.batch.size = 4096;
  require(code(cuFileBatchIOSubmit(batch, 1, &entry, 0)) == CU_FILE_SUCCESS, "submitting");
  gated->wait_until_inside(1);
  signal(SIGALRM, [](int) { std::exit(0); });
  alarm(1);
  unsigned room = 1;
  CUfileIOEvents_t event;
  for (;;) cuFileBatchIOGetStatus(batch, 1, &room, &event, nullptr);
}

int exit_by_a_signal_handler_inside_a_transfer() {
  signal(SIGTERM, [](int) { std::exit(0); });
  return ends_inside_a_transfer([] { raise(SIGTERM); });
}

int main_thread_ends_first() {
  World::open();
  std::thread([] {
    while (state_of_thread(getpid()) != 'Z') std::this_thread::yield();
    // The first thread's entry in /proc is that of a process that has ended; ragged direct writes need ours.
    World::open().use();
    say("the thread is done");
    std::exit(0);
  }).detach();
  pthread_exit(nullptr);
}

constexpr Scenario ending_all[] = {
    {"return_from_main", return_from_main},
    {"destructor_made_before_the_first_call", destructor_made_before_the_first_call},
    {"destructor_made_after_the_first_call", destructor_made_after_the_first_call},
    {"handler_registered_before_the_first_call", handler_registered_before_the_first_call},
    {"handler_registered_after_the_first_call", handler_registered_after_the_first_call},
    {"first_call_in_a_handler", first_call_in_a_handler},
    {"quick_exit_with_everything_open", quick_exit_with_everything_open},
    {"exit_at_once_with_everything_open", exit_at_once_with_everything_open},
    {"exit_waits_for_a_transfer", exit_waits_for_a_transfer},
    {"exit_waits_for_a_transfer_to_a_device", exit_waits_for_a_transfer_to_a_device},
    {"exit_by_another_thread_waits_for_a_transfer", exit_by_another_thread_waits_for_a_transfer},
    {"exit_waits_for_what_a_batch_has_begun", exit_waits_for_what_a_batch_has_begun},
    {"exit_at_once_with_a_batch_in_flight", exit_at_once_with_a_batch_in_flight},
    {"exit_does_not_wait_for_ever", exit_does_not_wait_for_ever},
    {"exit_lets_busy_threads_be", exit_lets_busy_threads_be},
    {"exit_waits_until_our_kernels_are_loaded", exit_waits_until_our_kernels_are_loaded},
    {"quick_exit_with_a_transfer_in_flight", quick_exit_with_a_transfer_in_flight},
    {"exit_at_once_with_a_transfer_in_flight", exit_at_once_with_a_transfer_in_flight},
    {"killed_with_a_transfer_in_flight", killed_with_a_transfer_in_flight},
    {"exit_inside_a_transfer", exit_inside_a_transfer},
    {"exit_by_a_signal_handler_inside_a_transfer", exit_by_a_signal_handler_inside_a_transfer},
    {"exit_by_a_signal_handler_while_its_thread_waits_for_events",
     exit_by_a_signal_handler_while_its_thread_waits_for_events},
    {"main_thread_ends_first", main_thread_ends_first},
};

}  // namespace

std::span<const Scenario> ending_scenarios() {
  return ending_all;
}

}  // namespace sluice::life
