// SPDX-License-Identifier: Apache-2.0
// Work that stands in a stream, or is just being done for one, while its process, its context or its stream ends.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <thread>

#include "contract/life/gated_file.h"
#include "contract/life/scenario.h"
#include "support/stream_gate.h"

namespace sluice::life {

using namespace support;
using support::cuda_function;
using support::Gate;

namespace {

constexpr unsigned char untouched = 0x5a;

// One call's arguments.
struct Asked {
  std::size_t size = scenario_bytes;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t moved = -77;

  void read(CUfileHandle_t handle, void* base, CUstream stream) {
    const int answer = code(cuFileReadAsync(handle, base, &size, &file_offset, &buffer_offset, &moved, stream));
    require(answer == CU_FILE_SUCCESS, "putting a read into a stream");
  }
  void write(CUfileHandle_t handle, void* base, CUstream stream) {
    const int answer = code(cuFileWriteAsync(handle, base, &size, &file_offset, &buffer_offset, &moved, stream));
    require(answer == CU_FILE_SUCCESS, "putting a write into a stream");
  }
  bool is_done() const { return moved == static_cast<ssize_t>(size); }
};

void need_streams() {
  if (cuda() == nullptr) skip("no CUDA device");
  if (std::getenv("SLUICE_MODE") != nullptr) skip("in plain mode a call waits for its stream");
}

// Reads and a write behind a gate. Never given back.
struct Standing {
  Standing() {
    const World& world = World::open();
    gate.hold(stream.get());
    read.read(world.handle(), memory.address(), stream.get());
    write.write(world.direct(), memory.address(), stream.get());
    again.read(world.handle(), memory.address(), stream.get());
  }
  bool is_done() const { return read.is_done() && write.is_done() && again.is_done(); }

  const Stream stream;
  const Gate gate;
  const Memory memory{MemoryKind::device, scenario_bytes};
  Asked read;
  Asked write;
  Asked again;
};
Standing* standing = nullptr;

struct AtDestruction {
  void (*action)();
  ~AtDestruction() {
    action();
    say("the destructor is done");
  }
};

int exit_with_work_in_a_stream() {
  need_streams();
  World::open();
  standing = new Standing;
  return 0;
}

int exit_closes_the_driver_with_work_in_a_stream() {
  static const AtDestruction later{[] {
    if (standing != nullptr) close_driver_fully();
  }};
  need_streams();
  World::open();
  standing = new Standing;
  return 0;
}

int exit_opens_the_way_for_a_stream() {
  need_streams();
  World::open();
  standing = new Standing;
  std::atexit([] {
    standing->gate.open();
    standing->stream.synchronize();
    require(standing->is_done(), "the stream went on without its work");
    say("the handler is done");
  });
  return 0;
}

// A read that a stream has got to, which stands still in its file.
struct Reached {
  Reached() : gated(scenario_bytes), memory(MemoryKind::plain, scenario_bytes) {
    memory.fill(untouched);
    read.read(gated.handle(), memory.address(), stream.get());
    gated.wait_until_inside();
  }
  GatedFile gated;
  const Stream stream;
  const Memory memory;
  Asked read;
};
Reached* reached = nullptr;

int exit_waits_for_what_a_stream_has_got_to() {
  static const AtDestruction earlier{[] {
    if (reached == nullptr) return;
    require(reached->read.is_done(), "the count was not told yet");
    require(same_bytes(reached->gated.content(), reached->memory.get()), "the transfer was still going on");
  }};
  need_streams();
  World::open();
  reached = new Reached;
  std::atexit([] { reached->gated.open(); });
  return 0;
}

// Streams that are served as fast as they can be, and one that waits.
int exit_at_once_while_streams_are_served() {
  need_streams();
  const World& world = World::open();
  standing = new Standing;
  static std::atomic<int> rounds{0};
  for (int i = 0; i < 3; ++i) {
    std::thread([&world] {
      cuda()->context_push(primary_context(0));
      const Stream stream;
      const Memory memory(MemoryKind::device, scenario_bytes);
      for (;; ++rounds) {
        std::deque<Asked> all(4);
        for (Asked& one : all) one.read(world.handle(), memory.address(), stream.get());
        stream.synchronize();
      }
    }).detach();
  }
  std::thread([] {
    while (rounds < 12) std::this_thread::yield();
    _exit(0);
  }).join();
  return 1;
}

// A gate in a context of its own, which the ends of others leave alone. Not current outside its own functions.
class KeptGate {
 public:
  KeptGate() {
    constexpr unsigned portable = 1;
    require(cuda()->context_create(&context_, 0, 0) == 0, "a context");
    require(cuda()->allocate_host(&word_, 64, portable) == 0, "pinned memory");
    store(0);
    CudaContext popped = nullptr;
    cuda()->context_pop(&popped);
  }
  ~KeptGate() { cuda()->context_destroy(context_); }
  KeptGate(const KeptGate&) = delete;
  KeptGate& operator=(const KeptGate&) = delete;

  void hold(CUstream stream) const {
    using Wait = int(CUstream, CudaAddress, std::uint32_t, unsigned);
    auto* const wait = cuda_function<Wait>("cuStreamWaitValue32_v2");
    require(wait(stream, reinterpret_cast<CudaAddress>(word_), 1, 0) == 0, "making a stream wait");
  }
  void open() const { store(1); }

  // Runs what ends a context. A driver may first wait for what stands in its streams: then the gate opens after a
  // while.
  template <typename End>
  void while_closed(const End& end) const {
    std::atomic<bool> over{false};
    std::thread opener([&] {
      for (int i = 0; i < 500 && !over; ++i) usleep(1000);
      if (!over) open();
    });
    end();
    over = true;
    opener.join();
  }

 private:
  void store(std::uint32_t value) const { std::atomic_ref(*static_cast<std::uint32_t*>(word_)).store(value); }

  CudaContext context_ = nullptr;
  void* word_ = nullptr;
};

// Memory and a stream of the current context, whose end takes both.
struct Things {
  Things() {
    require(cuda()->allocate(&address, scenario_bytes) == 0, "memory");
    require(cuda()->stream_create(&stream, 1) == 0, "a stream");
  }
  void* base() const { return reinterpret_cast<void*>(address); }

  CudaAddress address = 0;
  CUstream stream{};
};

// Reads by a stream of the current context, as if nothing had been.
void read_by_a_new_stream(const World& world) {
  const Things things;
  require(cuda()->fill(things.address, untouched, scenario_bytes) == 0, "filling");
  require(cuda()->context_synchronize() == 0, "waiting until all is filled");  // this stream does not wait for it
  Asked one;
  Asked two;
  one.read(world.handle(), things.base(), things.stream);
  two.read(world.direct(), things.base(), things.stream);
  require(cuda()->stream_synchronize(things.stream) == 0, "the new stream");
  require(one.is_done() && two.is_done(), "a read in a new context");
  Bytes found(scenario_bytes);
  require(cuda()->to_host(found.data(), things.address, found.size()) == 0, "looking at the memory");
  require(same_bytes(plain_read(world.fd(), 0, scenario_bytes), found), "what was read in a new context");
  cuda()->stream_destroy(things.stream);
  cuda()->release(things.address);
}

int context_ends_with_work_in_its_stream() {
  need_streams();
  World& world = World::open();
  for (int round = 0; round < 3; ++round) {
    const KeptGate gate;
    CudaContext context = nullptr;
    require(cuda()->context_create(&context, 0, 0) == 0, "a context");
    auto* const things = new Things;
    auto* const asked = new Asked[2];
    if (round == 1) require(code(cuFileStreamRegister(things->stream, 15)) == CU_FILE_SUCCESS, "registering a stream");
    if (round == 2) asked[0].read(world.handle(), things->base(), things->stream);
    gate.hold(things->stream);
    asked[0].read(world.handle(), things->base(), things->stream);
    asked[1].write(world.direct(), things->base(), things->stream);
    gate.while_closed([&] { cuda()->context_destroy(context); });
    CudaContext next = nullptr;
    require(cuda()->context_create(&next, 0, 0) == 0, "another context");
    read_by_a_new_stream(world);
    cuda()->context_destroy(next);
  }
  cuda()->context_push(primary_context(0));
  read_by_a_new_stream(world);
  world.end();
  say("the contexts are done");
  return 0;
}

// The next context gets the handle, and its memory and streams the addresses, of those that are gone: the read that
// still comes is not for them.
int context_is_replaced_while_a_read_of_its_stream_stands_still() {
  need_streams();
  if (!cuda()->soft) skip("a driver may wait for streams that wait for us");
  constexpr std::size_t size = 16 * scenario_bytes;  // more than there are places for
  GatedFile gated(size);
  const auto allocate = [] {
    CudaAddress address = 0;
    require(cuda()->allocate(&address, size) == 0, "memory");
    return address;
  };
  CudaContext context = nullptr;
  require(cuda()->context_create(&context, 0, 0) == 0, "a context");
  const CudaAddress old = allocate();
  CUstream stream{};
  require(cuda()->stream_create(&stream, 1) == 0, "a stream");
  Asked asked;
  asked.size = size;
  asked.read(gated.handle(), reinterpret_cast<void*>(old), stream);
  gated.wait_until_inside();
  cuda()->context_destroy(context);

  CudaContext next = nullptr;
  require(cuda()->context_create(&next, 0, 0) == 0, "another context");
  const CudaAddress address = allocate();
  if (next != context || address != old) skip("the new context is told from the old one by its addresses");
  std::array<CUstream, 8> streams{};
  for (CUstream& each : streams) require(cuda()->stream_create(&each, 1) == 0, "another stream");
  require(cuda()->fill(address, untouched, size) == 0, "filling");
  require(cuda()->context_synchronize() == 0, "waiting until all is filled");
  gated.open();
  gated.deregister();
  require(asked.moved < 0, "a read into memory that went with its context");
  Bytes found(size);
  require(cuda()->to_host(found.data(), address, found.size()) == 0, "looking at the memory");
  require(found == Bytes(size, untouched), "the memory of the new context is as it was");
  say("the contexts are done");
  return 0;
}

// A driver that loads our kernels would wait for the stream that is held, and what else is asked of it would wait, too.
int context_is_used_first_while_its_stream_is_held() {
  need_streams();
  const World& world = World::open();
  const KeptGate gate;
  CudaContext context = nullptr;
  require(cuda()->context_create(&context, 0, 0) == 0, "a context");
  {
    const Things things;
    gate.hold(things.stream);
    Asked first;
    first.read(world.handle(), things.base(), things.stream);
    const ScratchFile other(scenario_bytes);
    const Fd fd = other.open(O_RDONLY);
    const Handle handle(fd);
    const Memory memory(MemoryKind::device, scenario_bytes);
    require(read_file(handle.get(), memory.address(), scenario_bytes) == moved(scenario_bytes), "a read meanwhile");
    require(same_bytes(other.content(), memory.get()), "what was read meanwhile");
    Asked second;
    second.read(handle.get(), things.base(), things.stream);
    require(first.moved == -77 && second.moved == -77, "the stream is held");
    gate.open();
    require(cuda()->stream_synchronize(things.stream) == 0, "the stream that was held");
    require(first.is_done() && second.is_done(), "the reads in the stream that was held");
    Bytes found(scenario_bytes);
    require(cuda()->to_host(found.data(), things.address, found.size()) == 0, "looking at the memory");
    require(same_bytes(other.content(), found), "what was read when the stream was let go");
  }
  read_by_a_new_stream(world);
  cuda()->context_destroy(context);
  say("the context is done");
  return 0;
}

int device_is_reset_with_work_in_a_stream() {
  need_streams();
  const auto reset = cuda_function<int(int)>("cuDevicePrimaryCtxReset_v2");
  require(reset != nullptr, "this driver cannot reset a device");
  const ScratchFile file(scenario_bytes);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  for (int round = 0; round < 3; ++round) {
    const KeptGate gate;
    cuda()->context_push(primary_context(0));
    auto* const things = new Things;
    auto* const asked = new Asked[2];
    gate.hold(things->stream);
    asked[0].read(handle.get(), things->base(), things->stream);
    asked[1].read(handle.get(), things->base(), things->stream);
    CudaContext popped = nullptr;
    cuda()->context_pop(&popped);
    gate.while_closed([&] { require(reset(0) == 0, "cuDevicePrimaryCtxReset"); });
    CudaContext context = nullptr;
    require(cuda()->primary_retain(&context, 0) == 0, "the primary context after the reset");
    cuda()->context_push(context);
    const Things after;
    Asked read;
    read.read(handle.get(), after.base(), after.stream);
    require(cuda()->stream_synchronize(after.stream) == 0, "the stream after the reset");
    require(read.is_done(), "a read after the reset");
    Bytes found(scenario_bytes);
    require(cuda()->to_host(found.data(), after.address, found.size()) == 0, "looking at the memory");
    require(found == file.content(), "what was read after the reset");
    cuda()->stream_destroy(after.stream);
    cuda()->release(after.address);
    cuda()->context_pop(&popped);
  }
  say("the device is done");
  return 0;
}

// The sleep is the pause itself: longer than the end of a file waits for the next of what stands in streams to end.
int is_stopped_while_a_file_ends_with_work_in_its_stream() {
  need_streams();
  const World& world = World::open();
  standing = new Standing;
  std::atomic<pid_t> waits{0};
  std::thread ender([&] {
    waits = ::gettid();
    cuFileHandleDeregister(world.handle());
  });
  while (waits == 0 || state_of_thread(waits) != 'S') std::this_thread::yield();
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::kill(self, SIGSTOP);
    ::usleep(2'500'000);
    ::kill(self, SIGCONT);
    ::_exit(0);
  }
  require(child > 0 && ::waitpid(child, nullptr, 0) == child, "a process that stops this one");
  standing->gate.open();
  ender.join();
  standing->stream.synchronize();
  require(standing->is_done(), "what stood in the stream was given up");
  say("the stream is done");
  return 0;
}

// Loading takes longer than the registration of a file waits for it, and waits for the stream that is held.
int kernels_are_loaded_while_a_stream_waits_for_the_program() {
  need_streams();
  cuda()->context_push(primary_context(0));  // as the file is registered
  const Stream held;
  const Stream idle;
  const Gate gate;
  const Memory memory(MemoryKind::device, scenario_bytes);
  const ScratchFile file(scenario_bytes);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  gate.hold(held.get());
  Asked read;
  read.read(handle.get(), memory.address(), idle.get());
  gate.open();
  idle.synchronize();
  require(read.is_done(), "a read beside the stream that was held");
  require(same_bytes(file.content(), memory.get()), "what was read");
  say("the stream is done");
  return 0;
}

constexpr Scenario streams_all[] = {
    {"exit_with_work_in_a_stream", exit_with_work_in_a_stream},
    {"exit_closes_the_driver_with_work_in_a_stream", exit_closes_the_driver_with_work_in_a_stream},
    {"exit_opens_the_way_for_a_stream", exit_opens_the_way_for_a_stream},
    {"exit_waits_for_what_a_stream_has_got_to", exit_waits_for_what_a_stream_has_got_to},
    {"exit_at_once_while_streams_are_served", exit_at_once_while_streams_are_served},
    {"context_ends_with_work_in_its_stream", context_ends_with_work_in_its_stream},
    {"context_is_replaced_while_a_read_of_its_stream_stands_still",
     context_is_replaced_while_a_read_of_its_stream_stands_still},
    {"context_is_used_first_while_its_stream_is_held", context_is_used_first_while_its_stream_is_held},
    {"device_is_reset_with_work_in_a_stream", device_is_reset_with_work_in_a_stream},
    {"is_stopped_while_a_file_ends_with_work_in_its_stream", is_stopped_while_a_file_ends_with_work_in_its_stream},
    {"kernels_are_loaded_while_a_stream_waits_for_the_program",
     kernels_are_loaded_while_a_stream_waits_for_the_program},
};

}  // namespace

std::span<const Scenario> stream_scenarios() {
  return streams_all;
}

}  // namespace sluice::life
