// SPDX-License-Identifier: Apache-2.0
// Resource limits at nothing: the library does without, or says clearly what it could not get, and works again once
// there is some.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "contract/life/scenario.h"

namespace sluice::life {

using namespace support;

namespace {

void limit_to(__rlimit_resource resource, rlim_t value) {
  rlimit limit{};
  getrlimit(resource, &limit);
  limit.rlim_cur = value;
  require(setrlimit(resource, &limit) == 0, "setting a limit");
}

// Everything that the calls need of the system, had before there is a limit.
struct Prepared {
  explicit Prepared(MemoryKind kind) : memory(kind, scenario_bytes) { file.unlink(); }

  void use(CUfileHandle_t handle) const {
    require(read_file(handle, memory.address(), scenario_bytes) == moved(scenario_bytes), "reading");
    require(same_bytes(plain_read(fd.get(), 0, scenario_bytes), memory.get()), "what was read");
    memory.put(3, written);
    require(write_file(handle, memory.address(), written.size(), 4097, 3) == moved(written.size()), "writing");
    require(same_bytes(written, plain_read(fd.get(), 4097, written.size())), "what was written");
  }
  void use_fresh_handles() const {
    for (const Fd* each : {&fd, &direct}) {
      const Handle handle(*each);
      const Registration registration(memory);
      use(handle.get());
    }
    require(code(cuFileDriverClose()) == CU_FILE_SUCCESS, "closing the driver");
  }

  const ScratchFile file{scenario_bytes};
  const Fd fd{file.open(O_RDWR)};
  const Fd direct{file.open(O_RDWR | O_DIRECT)};
  const Memory memory;
  const Bytes written = random_bytes(5001, 2);
};

// First before the library has anything, then with everything open.
int works_with(__rlimit_resource resource, rlim_t value, MemoryKind kind = usual_memory()) {
  const Prepared prepared(kind);
  limit_to(resource, value);
  prepared.use_fresh_handles();
  prepared.use_fresh_handles();
  say("done");
  return 0;
}

int memlock_zero() {
  return works_with(RLIMIT_MEMLOCK, 0);
}

int nofile_zero() {
  if (sanitized) skip("a sanitizer opens files of its own");
  return works_with(RLIMIT_NOFILE, 0, MemoryKind::plain);
}

int nofile_used_up() {
  if (sanitized) skip("a sanitizer opens files of its own");
  const Prepared prepared(usual_memory());
  prepared.use_fresh_handles();  // the device's driver has its own descriptors by now
  while (dup(STDIN_FILENO) >= 0) {
  }
  prepared.use_fresh_handles();
  say("done");
  return 0;
}

int core_zero() {
  return works_with(RLIMIT_CORE, 0);
}

int sigpending_zero() {
  return works_with(RLIMIT_SIGPENDING, 0);
}

int msgqueue_and_rtprio_zero() {
  limit_to(RLIMIT_MSGQUEUE, 0);
  return works_with(RLIMIT_RTPRIO, 0);
}

// No new thread, and files that only the process's own descriptors still reach.
int nproc_zero() {
  const Prepared prepared(MemoryKind::plain);
  limit_to(RLIMIT_NPROC, 0);
  constexpr id_t nobody = 65534;
  if (geteuid() == 0)
    require(setresgid(nobody, nobody, nobody) == 0 && setresuid(nobody, nobody, nobody) == 0, "setuid");
  pthread_t thread{};
  require(pthread_create(
              &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr) != 0,
          "the limit does not bind here");
  prepared.use_fresh_handles();
  prepared.use_fresh_handles();
  say("done");
  return 0;
}

int fsize_zero() {
  const Prepared prepared(usual_memory());
  signal(SIGXFSZ, SIG_IGN);
  limit_to(RLIMIT_FSIZE, 0);
  const Bytes before = plain_read(prepared.fd.get(), 0, scenario_bytes);
  for (const Fd* each : {&prepared.fd, &prepared.direct}) {
    const Handle handle(*each);
    require(read_file(handle.get(), prepared.memory.address(), scenario_bytes) == moved(scenario_bytes), "reading");
    for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, scenario_bytes}) {
      for (const off_t offset : {0, 4096, 4097}) {
        const Transfer answer = write_file(handle.get(), prepared.memory.address(), size, offset);
        // As NVIDIA's library tells of it, by the memory and the size.
        const int error = usual_memory() == MemoryKind::device && size > 8192 ? EPERM : EIO;
        if (answer != failed(error)) fail("writing answers " + ::testing::PrintToString(answer));
      }
    }
  }
  require(same_bytes(before, plain_read(prepared.fd.get(), 0, scenario_bytes)), "the file");
  say("done");
  return 0;
}

std::size_t address_space_in_use() {
  std::ifstream pages("/proc/self/statm");
  std::size_t count = 0;
  pages >> count;
  return count * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Takes what the heap still has, until malloc refuses even a few bytes.
void exhaust_the_heap() {
  constexpr int most_pieces = 1'000'000;
  for (const std::size_t size : {1U << 20, 1U << 12, 256U, 64U, 24U}) {
    void* volatile piece = malloc(size);
    for (int i = 0; piece != nullptr; ++i) {
      require(i < most_pieces, "the limit does not bind here");
      piece = malloc(size);
    }
  }
}

// Whether a call comes through or says that there is no memory, and nothing else, is all that counts.
bool through_or_no_memory(const Transfer& answer, std::size_t size) {
  return answer == moved(size) || answer == failed(ENOMEM) || answer == failed(CU_FILE_NOMEM_ERROR) ||
         answer == failed(EPERM) || answer == failed(EIO);
}
bool through_or_no_memory(int answer) {
  return answer == CU_FILE_SUCCESS || answer == CU_FILE_NOMEM_ERROR;
}

// Every kind of call while there is no memory to be had.
void call_everything(const Prepared& prepared, CUfileHandle_t handle) {
  const void* const base = prepared.memory.address();
  require(through_or_no_memory(read_file(handle, prepared.memory.address(), scenario_bytes), scenario_bytes),
          "reading");
  require(through_or_no_memory(write_file(handle, base, 5001, 4097, 3), 5001), "writing");
  CUfileHandle_t other = nullptr;
  const int registered = register_fd(prepared.fd.get(), &other);
  require(through_or_no_memory(registered), "registering a file");
  if (registered == CU_FILE_SUCCESS) cuFileHandleDeregister(other);
  const int buffer = code(cuFileBufRegister(base, scenario_bytes, 0));
  require(through_or_no_memory(buffer), "registering a buffer");
  CUfileBatchHandle_t batch = nullptr;
  const int set_up = code(cuFileBatchIOSetUp(&batch, 4));
  require(through_or_no_memory(set_up), "setting a batch up");
  if (set_up == CU_FILE_SUCCESS) cuFileBatchIODestroy(batch);
  CUfileDrvProps_t properties{};
  require(through_or_no_memory(code(cuFileDriverGetProperties(&properties))), "the properties");
  if (buffer == CU_FILE_SUCCESS)
    require(through_or_no_memory(code(cuFileBufDeregister(base))), "deregistering a buffer");
}

int no_memory(__rlimit_resource resource) {
  if (sanitized) skip("a sanitizer needs the address space for itself");
  // A driver of a device is not asked to live without memory.
  const Prepared prepared(MemoryKind::plain);
  rlimit before{};
  getrlimit(resource, &before);
  {
    const Handle handle(prepared.direct);
    prepared.use(handle.get());
    // Not 0 for data: that has a meaning of its own.
    limit_to(resource, resource == RLIMIT_AS ? address_space_in_use() : 4096);
    exhaust_the_heap();
    call_everything(prepared, handle.get());
    require(setrlimit(resource, &before) == 0, "lifting the limit");
  }
  prepared.use_fresh_handles();
  say("done");
  return 0;
}

int no_address_space() {
  return no_memory(RLIMIT_AS);
}

int no_data_segment() {
  return no_memory(RLIMIT_DATA);
}

int no_memory_at_the_first_call() {
  if (sanitized) skip("a sanitizer needs the address space for itself");
  const Prepared prepared(MemoryKind::plain);
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  limit_to(RLIMIT_AS, address_space_in_use());
  exhaust_the_heap();
  require(read_file(nullptr, prepared.memory.address(), 1).count == -1, "reading from no file");
  call_everything(prepared, nullptr);
  require(through_or_no_memory(code(cuFileDriverOpen())), "opening the driver");
  require(setrlimit(RLIMIT_AS, &before) == 0, "lifting the limit");
  while (cuFileUseCount() > 0) cuFileDriverClose();
  prepared.use_fresh_handles();
  say("done");
  return 0;
}

int work_on_a_small_stack() {
  const Prepared prepared(usual_memory());
  prepared.use_fresh_handles();
  say("done");
  return 0;
}

// The limit counts from exec on, and is what threads get that ask for nothing else.
int stack_tiny() {
  if (sanitized) skip("a sanitizer needs larger stacks");
  limit_to(RLIMIT_STACK, 128 * 1024);
  std::array<char, 16> name{"life_program"};
  std::array<char, 32> scenario{"work_on_a_small_stack"};
  std::array<char*, 3> words{name.data(), scenario.data(), nullptr};
  execv("/proc/self/exe", words.data());
  return 1;
}

int stack_of_a_calling_thread_tiny() {
  if (sanitized) skip("a sanitizer needs larger stacks");
  const Prepared prepared(usual_memory());
  const Handle handle(prepared.direct);
  // What the test itself needs, printing and all, is a few KiB.
  constexpr std::size_t bytes = 64 * 1024;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  const std::function<void()> body = [&] {
    prepared.use(handle.get());
    const Fd again(dup(prepared.fd.get()));
    const Handle other(again);
    prepared.use(other.get());
  };
  pthread_t thread{};
  const auto run = [](void* work) -> void* {
    (*static_cast<const std::function<void()>*>(work))();
    return nullptr;
  };
  require(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&body)) == 0, "a thread");
  pthread_join(thread, nullptr);
  say("done");
  return 0;
}

constexpr Scenario limits_all[] = {
    {"memlock_zero", memlock_zero},
    {"nofile_zero", nofile_zero},
    {"nofile_used_up", nofile_used_up},
    {"core_zero", core_zero},
    {"sigpending_zero", sigpending_zero},
    {"msgqueue_and_rtprio_zero", msgqueue_and_rtprio_zero},
    {"nproc_zero", nproc_zero},
    {"fsize_zero", fsize_zero},
    {"no_address_space", no_address_space},
    {"no_data_segment", no_data_segment},
    {"no_memory_at_the_first_call", no_memory_at_the_first_call},
    {"work_on_a_small_stack", work_on_a_small_stack},
    {"stack_tiny", stack_tiny},
    {"stack_of_a_calling_thread_tiny", stack_of_a_calling_thread_tiny},
};

}  // namespace

std::span<const Scenario> limit_scenarios() {
  return limits_all;
}

}  // namespace sluice::life
