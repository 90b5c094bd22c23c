// SPDX-License-Identifier: Apache-2.0
// Devices that are reset under the library, when all memory, streams and registrations on them go at once, and the
// start of CUDA in a child. Other tests of one process would suffer from it, so each of these has a process of its own.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "contract/life/scenario.h"

namespace sluice::life {

using namespace support;

namespace {

// Resets a device and makes its primary context, which the driver makes anew, the only one of this thread.
void reset(int device) {
  using Reset = int (*)(int);
  const auto entry =
      reinterpret_cast<Reset>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuDevicePrimaryCtxReset_v2"));
  require(entry != nullptr, "this driver cannot reset a device");
  while (true) {
    CudaContext current = nullptr;
    cuda()->context_current(&current);
    if (current == nullptr) break;
    cuda()->context_pop(&current);
  }
  require(entry(device) == 0, "cuDevicePrimaryCtxReset");
  CudaContext context = nullptr;
  require(cuda()->primary_retain(&context, device) == 0, "the primary context after the reset");
  cuda()->context_push(context);
}

// Reads into fresh memory of the current context.
void read_into_new_memory(CUfileHandle_t handle, const Bytes& content) {
  CudaAddress address = 0;
  require(cuda()->allocate(&address, content.size()) == 0, "memory after the reset");
  void* const base = reinterpret_cast<void*>(address);
  require(read_file(handle, base, content.size()) == moved(content.size()), "reading");
  require(code(cuFileBufRegister(base, content.size(), 0)) == CU_FILE_SUCCESS, "registering");
  require(read_file(handle, base, content.size()) == moved(content.size()), "reading into a registered buffer");
  Bytes found(content.size());
  require(cuda()->to_host(found.data(), address, found.size()) == 0, "looking at the memory");
  require(found == content, "what was read");
  require(write_file(handle, base, content.size()) == moved(content.size()), "writing");
  require(code(cuFileBufDeregister(base)) == CU_FILE_SUCCESS, "deregistering");
  cuda()->release(address);
}

// A driver may put memory of its own where the program's was.
bool is_somebodys(CudaAddress address) {
  unsigned char byte = 0;
  return cuda()->to_host(&byte, address, 1) == 0;
}

// Memory that belongs to no context: taken from the device's pool.
void read_into_pool_memory(CUfileHandle_t handle, const Bytes& content) {
  if (cuda()->allocate_async == nullptr) return;
  CUstream stream{};
  CudaAddress address = 0;
  require(cuda()->stream_create(&stream, 1) == 0, "a stream");
  if (cuda()->allocate_async(&address, content.size(), stream) != 0) return;
  cuda()->stream_synchronize(stream);
  require(read_file(handle, reinterpret_cast<void*>(address), content.size()) == moved(content.size()),
          "reading into memory of a pool");
  Bytes found(content.size());
  require(cuda()->to_host(found.data(), address, found.size()) == 0 && found == content, "what was read into a pool");
  cuda()->release_async(address, stream);
  cuda()->stream_synchronize(stream);
  cuda()->stream_destroy(stream);
}

int reset_of_the_device() {
  if (cuda() == nullptr) skip("no CUDA device");
  const ScratchFile file(scenario_bytes);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  cuda()->context_push(primary_context(0));
  for (int round = 0; round < 3; ++round) {
    CudaAddress address = 0;
    require(cuda()->allocate(&address, scenario_bytes) == 0, "memory");
    void* const base = reinterpret_cast<void*>(address);
    require(code(cuFileBufRegister(base, scenario_bytes, 0)) == CU_FILE_SUCCESS, "registering");
    require(read_file(handle.get(), base, scenario_bytes) == moved(scenario_bytes), "reading before the reset");
    read_into_pool_memory(handle.get(), file.content());
    reset(0);
    if (!is_somebodys(address)) {
      const Transfer gone = read_file(handle.get(), base, scenario_bytes);
      if (gone.count != -1) fail("reading into memory that the reset took: " + ::testing::PrintToString(gone));
    }
    read_into_new_memory(handle.get(), file.content());
    read_into_pool_memory(handle.get(), file.content());
    // A thread that had nothing to do with the context before.
    std::thread([&] {
      CudaContext context = nullptr;
      cuda()->primary_retain(&context, 0);
      cuda()->context_push(context);
      read_into_new_memory(handle.get(), file.content());
    }).join();
    // Unless the new memory came to lie at the same address: its registration has ended this one.
    const int answer = code(cuFileBufDeregister(base));
    require(answer == CU_FILE_SUCCESS || answer == CU_FILE_MEMORY_NOT_REGISTERED, "deregistering what the reset took");
  }
  say("the device is done");
  return 0;
}

int reset_of_another_device() {
  if (cuda() == nullptr || cuda()->devices < 2) skip("fewer than two devices");
  const ScratchFile file(scenario_bytes);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory kept(MemoryKind::device, scenario_bytes, 0);
  const Registration registration(kept);
  auto* const lost = new Memory(MemoryKind::device, scenario_bytes, 1);
  require(read_file(handle.get(), lost->address(), scenario_bytes) == moved(scenario_bytes), "reading to device 1");
  require(read_file(handle.get(), kept.address(), scenario_bytes) == moved(scenario_bytes), "reading to device 0");
  reset(1);
  kept.fill(0);
  require(read_file(handle.get(), kept.address(), scenario_bytes) == moved(scenario_bytes), "reading afterwards");
  require(same_bytes(file.content(), kept.get()), "what was read afterwards");
  read_into_new_memory(handle.get(), file.content());
  say("the devices are done");
  return 0;
}

// A process that has the library open, and even the driver's library loaded, but has not begun with CUDA yet: its child
// may, and finds everything as in a process of its own.
int cuda_begins_in_a_forked_child() {
  dlopen("libcuda.so.1", RTLD_NOW);
  const ScratchFile file(scenario_bytes);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory plain(MemoryKind::plain, scenario_bytes);
  require(read_file(handle.get(), plain.address(), scenario_bytes) == moved(scenario_bytes), "reading in the parent");
  const pid_t child = fork();
  if (child == 0) {
    alarm(200);  // less than this process has
    if (cuda() == nullptr) _exit(77);
    cuda()->context_push(primary_context(0));
    read_into_new_memory(handle.get(), file.content());
    read_into_pool_memory(handle.get(), file.content());
    say("the child is done");
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  require(WIFEXITED(status), "the child died");
  if (WEXITSTATUS(status) == 77) skip("no CUDA device");
  return WEXITSTATUS(status);
}

constexpr Scenario reset_all[] = {
    {"reset_of_the_device", reset_of_the_device},
    {"reset_of_another_device", reset_of_another_device},
    {"cuda_begins_in_a_forked_child", cuda_begins_in_a_forked_child},
};

}  // namespace

std::span<const Scenario> reset_scenarios() {
  return reset_all;
}

}  // namespace sluice::life
