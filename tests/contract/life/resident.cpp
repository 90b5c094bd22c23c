// SPDX-License-Identifier: Apache-2.0
// What becomes of a process while a kernel of the library stays on the device for the next small read: the scenarios
// are played with SLUICE_SMALL_READS=resident.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "contract/life/scenario.h"
#include "sluice.h"
#include "support/kernel_wait.h"

namespace sluice::life {

using namespace support;

namespace {

constexpr std::size_t piece = 4096;

// All that a process waits for the kernel, taken together: it tells of it before it is ended (life/child.cpp). A forked
// child has what its parent had left.
constexpr std::chrono::seconds kLongestWait{40};
const KernelWait& all_waiting() {
  static const KernelWait all{Deadline(kLongestWait)};
  return all;
}

std::uint64_t served() {
  sluice_carrier_counts_t counts{};
  auto* const ask = entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters");
  if (ask == nullptr) skip("this libcufile does not count carriers");
  ask(&counts);
  return counts.resident_kernel;
}

// A file, and small reads of it, which go on until the kernel has served one: then it is there, for a moment.
class Reader {
 public:
  Reader() {
    if (cuda() == nullptr) skip("no CUDA device");
    const char* const mode = std::getenv("SLUICE_MODE");
    if (mode != nullptr && std::string(mode) == "plain") skip("plain mode keeps no kernel");
    file_.unlink();
    cuda()->context_push(primary_context(0));
  }

  void read(std::size_t place) const {
    require(read_file(handle_.get(), memory_.address(), piece, static_cast<off_t>(place * piece)) == moved(piece),
            "a small read");
  }
  // False where this machine is too busy for it.
  bool is_served() const {
    const std::uint64_t before = served();
    for (int round = 0; served() == before; ++round) {
      if (all_waiting().is_over()) {
        look(0);  // what is read is right all the same
        require(all_waiting().machine_is_too_busy(), "the kernel has served nothing");
        return false;
      }
      read(static_cast<std::size_t>(round) % places);
    }
    return true;
  }
  void until_served() const {
    if (!is_served()) skip(kTooBusyForKernels);
  }
  void look(std::size_t place) const {
    read(place);
    require(same_bytes(std::span(file_.content()).subspan(place * piece, piece), memory_.get()), "what was read");
  }
  CUfileHandle_t handle() const { return handle_.get(); }
  const Bytes& content() const { return file_.content(); }

 private:
  static constexpr std::size_t places = 16;
  ScratchFile file_{places * piece};
  const Fd fd_{file_.open(O_RDONLY)};
  const Handle handle_{fd_};
  const Memory memory_{MemoryKind::device, piece};
};

int end_of_main_beside_a_resident_kernel() {
  const Reader reader;
  reader.until_served();
  return 0;
}

int exit_beside_a_resident_kernel() {
  static const auto* const reader = new Reader;
  reader->until_served();
  std::exit(0);
}

int exit_at_once_beside_a_resident_kernel() {
  const Reader reader;
  reader.until_served();
  _exit(0);
}

int exit_while_threads_read() {
  static const auto* const reader = new Reader;
  static std::atomic<int> ready{0};
  reader->until_served();
  constexpr int threads = 4;
  for (int i = 0; i < threads; ++i) {
    std::thread([] {
      cuda()->context_push(primary_context(0));
      const Memory memory(MemoryKind::device, piece);
      ++ready;
      for (;;) read_file(reader->handle(), memory.address(), piece);
    }).detach();
  }
  while (ready < threads) std::this_thread::yield();  // at exit a driver gives no memory any more
  reader->until_served();
  std::exit(0);
}

int fork_beside_a_resident_kernel() {
  const Reader reader;
  reader.until_served();
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      const Memory memory(MemoryKind::plain, piece);
      require(read_file(reader.handle(), memory.address(), piece) == moved(piece), "reading in the child");
      require(same_bytes(std::span(reader.content()).first(piece), memory.get()), "what the child has read");
      _exit(0);
    }
    const bool in_time = reader.is_served();
    reader.look(static_cast<std::size_t>(round));
    int status = -1;
    require(waitpid(child, &status, 0) == child && status == 0, "the child");
    if (!in_time) skip(kTooBusyForKernels);
  }
  return 0;
}

int synchronise_beside_a_resident_kernel() {
  const Reader reader;
  for (int round = 0; round < 20; ++round) {
    reader.until_served();
    require(cuda()->context_synchronize() == 0, "a device-wide synchronise");
    reader.look(static_cast<std::size_t>(round) % 16);
  }
  return 0;
}

constexpr std::array<Scenario, 6> played{
    {{"end_of_main_beside_a_resident_kernel", end_of_main_beside_a_resident_kernel},
     {"exit_beside_a_resident_kernel", exit_beside_a_resident_kernel},
     {"exit_at_once_beside_a_resident_kernel", exit_at_once_beside_a_resident_kernel},
     {"exit_while_threads_read", exit_while_threads_read},
     {"fork_beside_a_resident_kernel", fork_beside_a_resident_kernel},
     {"synchronise_beside_a_resident_kernel", synchronise_beside_a_resident_kernel}}};

}  // namespace

std::span<const Scenario> resident_scenarios() {
  return played;
}

}  // namespace sluice::life
