// SPDX-License-Identifier: Apache-2.0
// fio's libcufile engine: jobs are threads, the first opens the driver and the last closes it. Each job registers one
// piece of device memory and names parts of it by offsets, copies what it writes there and what it reads from there,
// and goes on with what came short. -1 is errno; another negative count goes to the header's texts.
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "callers/kit.h"
#include "cufile.h"

namespace sluice::callers {
namespace {

constexpr std::size_t kJobs = 4;
constexpr std::size_t kDepth = 8;  // parts of a job's memory
constexpr std::size_t kBlocks = 40;

class Running {
 public:
  Running() {
    const std::lock_guard lock(mutex());
    if (jobs()++ == 0 && cuFileDriverOpen().err != CU_FILE_SUCCESS) wrong("cuFileDriverOpen");
  }
  ~Running() {
    const std::lock_guard lock(mutex());
    if (--jobs() == 0) cuFileDriverClose();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static int& jobs() {
    static int count = 0;
    return count;
  }
};

template <typename Transfer, typename Pointer>
void whole(Transfer transfer, CUfileHandle_t file, Pointer base, std::size_t size, std::size_t offset,
           std::size_t in_memory) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count =
        transfer(file, base, size - done, static_cast<off_t>(offset + done), static_cast<off_t>(in_memory + done));
    if (count == -1) wrong(std::string("a transfer failed: ") + std::strerror(errno));
    if (count < 0)
      wrong(std::string("a transfer failed: ") + cufileop_status_error(static_cast<CUfileOpError>(-count)));
    if (count == 0) wrong("a transfer moves nothing and would be repeated for ever");
    done += static_cast<std::size_t>(count);
  }
}

void job(const Place& place, std::size_t number, std::size_t block, int direct) {
  const Running running;
  const Memory memory(MemoryKind::device, kDepth * block);
  memory.fill(0xab);
  if (cuFileBufRegister(memory.address(), memory.size(), 0).err != CU_FILE_SUCCESS) wrong("cuFileBufRegister");
  const std::string path = place.at("job." + std::to_string(number));
  const Fd fd = open_file(path, O_CREAT | O_RDWR | O_TRUNC | direct);
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd.get();
  CUfileHandle_t file = nullptr;
  if (cuFileHandleRegister(&file, &description).err != CU_FILE_SUCCESS) wrong("cuFileHandleRegister");

  // Blocks in an order without any, each written, then each read and verified.
  const Bytes content = support::random_bytes(kBlocks * block, number);
  const auto bytes_of = [&](std::size_t index) { return std::span(content).subspan(index * block, block); };
  constexpr std::size_t step = 17;  // has no divisor in common with the number of blocks
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::size_t index = i * step % kBlocks;
    const std::size_t part = i % kDepth * block;
    memory.put(part, bytes_of(index));
    whole(cuFileWrite, file, memory.address(), block, index * block, part);
  }
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::size_t index = (kBlocks - i) * step % kBlocks;
    const std::size_t part = i % kDepth * block;
    whole(cuFileRead, file, memory.address(), block, index * block, part);
    require_same(bytes_of(index), memory.get(part, block), "verification");
  }
  cuFileHandleDeregister(file);
  if (cuFileBufDeregister(memory.address()).err != CU_FILE_SUCCESS) wrong("cuFileBufDeregister");
  require_same(content, content_of(path), "the job's file");
}

void caller(const Place& place) {
  for (const std::size_t block : {4 * kKiB, 128 * kKiB, std::size_t{5000}}) {
    for (const int direct : {O_DIRECT, 0}) {
      on_pool(kJobs, kJobs, [&](std::size_t number) { job(place, number, block, direct); });
    }
  }
}

}  // namespace
}  // namespace sluice::callers

int main(int argc, char** argv) {
  return sluice::callers::play(argc, argv, sluice::callers::caller);
}
