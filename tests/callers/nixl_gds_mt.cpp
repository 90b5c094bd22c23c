// SPDX-License-Identifier: Apache-2.0
// NIXL's GDS_MT plugin: a pool of threads, each with a plain cuFileRead or cuFileWrite of a whole descriptor. A failure
// is told by strerror(errno), a short count is an error, and a registration that fails is fatal.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "callers/kit.h"
#include "cufile.h"

namespace sluice::callers {
namespace {

constexpr std::size_t kThreads = 4;

// What NIXL cannot say when a registration fails, and this library can: empty with another library.
std::string last_error() {
  const auto ask = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "sluice_last_error"));
  return ask != nullptr ? ask() : "";
}
bool tells_reasons() {
  return dlsym(RTLD_DEFAULT, "sluice_last_error") != nullptr;
}

void succeed(CUfileError_t answer, const char* call) {
  if (answer.err != CU_FILE_SUCCESS) {
    wrong(std::string(call) + ": " + cufileop_status_error(answer.err) + ": " + last_error());
  }
}

CUfileError_t register_fd(int fd, CUfileHandle_t* handle) {
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  return cuFileHandleRegister(handle, &description);
}

struct Request {
  CUfileOpcode_t opcode;
  CUfileHandle_t file;
  char* memory;
  std::size_t size;
  std::size_t offset;
};

void run(const Request& request) {
  errno = 0;
  const auto offset = static_cast<off_t>(request.offset);
  const ssize_t count = request.opcode == CUFILE_READ
                            ? cuFileRead(request.file, request.memory, request.size, offset, 0)
                            : cuFileWrite(request.file, request.memory, request.size, offset, 0);
  if (count < 0) wrong(std::string("a transfer failed: ") + std::strerror(errno) + ": " + last_error());
  if (static_cast<std::size_t>(count) != request.size) {
    wrong("short: " + std::to_string(count) + " of " + std::to_string(request.size));
  }
}

// Descriptors of any length, all given to the pool at once; then the same to read.
void transfers(const Place& place, const Memory& memory, int flags) {
  const std::string path = place.at("agent.bin");
  const Fd fd = open_file(path, O_CREAT | O_RDWR | O_TRUNC | flags);
  CUfileHandle_t file = nullptr;
  succeed(register_fd(fd.get(), &file), "cuFileHandleRegister");
  succeed(cuFileBufRegister(memory.address(), memory.size(), 0), "cuFileBufRegister");
  constexpr std::array<std::size_t, 7> lengths{4 * kMiB, 4096, 65536, 1 * kMiB + 7, 100, 3 * kMiB, 262144};
  const std::size_t half = memory.size() / 2;
  char* const base = static_cast<char*>(memory.address());
  std::vector<Request> out;
  for (std::size_t at = 0; at < half;) {
    const std::size_t size = std::min(lengths[out.size() % lengths.size()], half - at);
    out.push_back({CUFILE_WRITE, file, base + at, size, at});
    at += size;
  }
  std::vector<Request> in = out;
  for (Request& each : in) {
    each.opcode = CUFILE_READ;
    each.memory += half;
  }
  const Bytes content = support::random_bytes(half, static_cast<std::uint64_t>(flags) + 1);
  memory.fill(0x5a);
  memory.put(0, content);
  on_pool(kThreads, out.size(), [&](std::size_t i) { run(out[i]); });
  require_same(content, content_of(path), "what was written");
  on_pool(kThreads, in.size(), [&](std::size_t i) { run(in[i]); });
  require_same(content, memory.get(half, half), "what was read");
  succeed(cuFileBufDeregister(memory.address()), "cuFileBufDeregister");
  cuFileHandleDeregister(file);
}

// A registration that fails answers a code and, since nothing else tells its caller, why.
void registrations_that_fail_say_why(const Place& place) {
  const auto must_say = [](CUfileError_t answer, const char* what) {
    if (answer.err == CU_FILE_SUCCESS) wrong(std::string(what) + " was registered");
    if (tells_reasons() && last_error().empty()) wrong(std::string(what) + " was refused without a reason");
  };
  std::array<int, 2> ends{};
  require(pipe2(ends.data(), O_CLOEXEC) == 0, "no pipe");
  const Fd reader(ends[0]);
  const Fd writer(ends[1]);
  CUfileHandle_t handle = nullptr;
  must_say(register_fd(-1, &handle), "no descriptor");
  must_say(register_fd(reader.get(), &handle), "a pipe");
  Fd closed = open_file(place.at("closed.bin"), O_CREAT | O_RDWR);
  const int number = closed.get();
  closed.reset();
  must_say(register_fd(number, &handle), "a closed descriptor");
  const Memory memory(MemoryKind::device, 64 * kKiB);
  must_say(cuFileBufRegister(nullptr, 4096, 0), "no memory");
  must_say(cuFileBufRegister(memory.address(), 0, 0), "nothing of a buffer");
  succeed(cuFileBufRegister(memory.address(), memory.size(), 0), "cuFileBufRegister");
  must_say(cuFileBufRegister(memory.address(), memory.size(), 0), "a buffer for the second time");
  succeed(cuFileBufDeregister(memory.address()), "cuFileBufDeregister");
}

// errno is all that the pool's threads have to tell.
void transfers_that_fail_set_errno(const Place& place) {
  const Bytes content = support::random_bytes(64 * kKiB, 9);
  const std::string path = place.at("fails.bin");
  { support::plain_write(open_file(path, O_CREAT | O_RDWR).get(), 0, content); }
  const Fd reading = open_file(path, O_RDONLY);
  const Fd writing = open_file(path, O_WRONLY);
  Fd gone = open_file(path, O_RDWR);
  std::array<CUfileHandle_t, 4> files{};
  succeed(register_fd(reading.get(), &files[0]), "cuFileHandleRegister");
  succeed(register_fd(writing.get(), &files[1]), "cuFileHandleRegister");
  succeed(register_fd(gone.get(), &files[2]), "cuFileHandleRegister");
  const Fd last = open_file(path, O_RDWR);
  succeed(register_fd(last.get(), &files[3]), "cuFileHandleRegister");
  cuFileHandleDeregister(files[3]);  // stale from here on
  gone.reset();
  const Memory memory(MemoryKind::device, 64 * kKiB);
  memory.fill(0x5a);
  void* const base = memory.address();
  on_pool(kThreads, 64, [&](std::size_t i) {
    errno = 0;
    ssize_t count = 0;
    switch (i % 6) {
      case 0:
        count = cuFileWrite(files[0], base, 4096, 0, 0);
        break;
      case 1:
        count = cuFileRead(files[1], base, 4096, 0, 0);
        break;
      case 2:
        count = cuFileRead(files[2], base, 4096, 0, 0);
        break;
      case 3:
        count = cuFileRead(files[3], base, 4096, 0, 0);
        break;
      case 4:
        count = cuFileRead(nullptr, base, 4096, 0, 0);
        break;
      default:
        count = cuFileRead(files[0], nullptr, 4096, 0, 0);
        break;
    }
    if (count >= 0) wrong("a transfer of kind " + std::to_string(i % 6) + " did not fail");
    if (errno == 0) wrong("a failed transfer of kind " + std::to_string(i % 6) + " left errno at 0");
    if (tells_reasons() && last_error().empty()) wrong("a failed transfer gives no reason");
  });
  require_same(content, content_of(path), "the file behind refused writes");
  require_same(Bytes(memory.size(), 0x5a), memory.get(), "the memory behind refused reads");
  for (std::size_t i = 0; i < 3; ++i) cuFileHandleDeregister(files[i]);
}

void caller(const Place& place) {
  succeed(cuFileDriverOpen(), "cuFileDriverOpen");
  {
    const Memory device(MemoryKind::device, 48 * kMiB);
    transfers(place, device, O_DIRECT);
    transfers(place, device, 0);
    const Memory host(MemoryKind::plain, 16 * kMiB);
    transfers(place, host, O_DIRECT);
  }
  registrations_that_fail_say_why(place);
  transfers_that_fail_set_errno(place);
  succeed(cuFileDriverClose(), "cuFileDriverClose");
}

}  // namespace
}  // namespace sluice::callers

int main(int argc, char** argv) {
  return sluice::callers::play(argc, argv, sluice::callers::caller);
}
