// SPDX-License-Identifier: Apache-2.0
// vLLM's GDS tier: the cache's tensors are registered at the start, and a pool of threads stores and loads blocks, a
// file each, while others do so at the same time: a block is read while its neighbour is written, and blocks come and
// go.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>

#include "callers/kit.h"
#include "cufile.h"

namespace sluice::callers {
namespace {

constexpr std::size_t kTensors = 4;
constexpr std::size_t kBlocks = 24;
constexpr std::size_t kBlock = 192 * kKiB;
constexpr std::size_t kThreads = 6;
constexpr std::size_t kRounds = 4;

void succeed(CUfileError_t answer, const char* call) {
  if (answer.err != CU_FILE_SUCCESS) wrong(std::string(call) + ": " + cufileop_status_error(answer.err));
}

struct Registered {
  CUfileHandle_t handle = nullptr;
  explicit Registered(int fd) {
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd;
    succeed(cuFileHandleRegister(&handle, &description), "cuFileHandleRegister");
  }
  ~Registered() { cuFileHandleDeregister(handle); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
};

void caller(const Place& place) {
  succeed(cuFileDriverOpen(), "cuFileDriverOpen");
  std::vector<std::unique_ptr<Memory>> tensors;
  for (std::size_t i = 0; i < kTensors; ++i) {
    tensors.push_back(std::make_unique<Memory>(MemoryKind::device, kBlocks * kBlock));
    succeed(cuFileBufRegister(tensors[i]->address(), tensors[i]->size(), 0), "cuFileBufRegister");
  }
  const auto path_of = [&](std::size_t block, std::size_t round) {
    return place.at("kv-" + std::to_string(block) + "-" + std::to_string(round));
  };
  const auto content_for = [](std::size_t tensor, std::size_t block, std::size_t round) {
    return support::random_bytes(kBlock, 1000 * round + 10 * block + tensor);
  };
  // Flags vary: the tier takes O_DIRECT where the file system has it, and the page cache elsewhere.
  const auto flags_of = [](std::size_t block) { return block % 2 == 0 ? O_DIRECT : 0; };
  const auto store = [&](std::size_t block, std::size_t round) {
    const Fd fd = open_file(path_of(block, round), O_CREAT | O_RDWR | flags_of(block));
    const Registered file(fd.get());
    for (std::size_t i = 0; i < kTensors; ++i) {
      tensors[i]->put(block * kBlock, content_for(i, block, round));
      const ssize_t count = cuFileWrite(file.handle, tensors[i]->address(), kBlock, static_cast<off_t>(i * kBlock),
                                        static_cast<off_t>(block * kBlock));
      if (count != static_cast<ssize_t>(kBlock)) wrong("a store came to " + std::to_string(count));
    }
  };
  const auto load = [&](std::size_t block, std::size_t round) {
    const Fd fd = open_file(path_of(block, round), O_RDONLY | flags_of(block));
    const Registered file(fd.get());
    for (std::size_t i = 0; i < kTensors; ++i) {
      tensors[i]->put(block * kBlock, Bytes(kBlock, 0x5a));
      const ssize_t count = cuFileRead(file.handle, tensors[i]->address(), kBlock, static_cast<off_t>(i * kBlock),
                                       static_cast<off_t>(block * kBlock));
      if (count != static_cast<ssize_t>(kBlock)) wrong("a load came to " + std::to_string(count));
      require_same(content_for(i, block, round), tensors[i]->get(block * kBlock, kBlock), "a block that was loaded");
    }
    std::filesystem::remove(path_of(block, round));  // evicted
  };
  // In a round even blocks are stored while odd ones are loaded, then the other way round.
  on_pool(kThreads, kBlocks, [&](std::size_t block) {
    if (block % 2 != 0) store(block, 0);
  });
  for (std::size_t round = 0; round < kRounds; ++round) {
    on_pool(kThreads, kBlocks, [&](std::size_t block) {
      const bool stores = (block + round) % 2 == 0;
      stores ? store(block, round + 1) : load(block, round);
    });
  }
  for (const auto& tensor : tensors) succeed(cuFileBufDeregister(tensor->address()), "cuFileBufDeregister");
  succeed(cuFileDriverClose(), "cuFileDriverClose");
}

}  // namespace
}  // namespace sluice::callers

int main(int argc, char** argv) {
  return sluice::callers::play(argc, argv, sluice::callers::caller);
}
