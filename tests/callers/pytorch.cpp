// SPDX-License-Identifier: Apache-2.0
// PyTorch's torch.cuda.gds: O_DIRECT files, storages that its allocator cuts out of larger blocks, each registered and
// saved or loaded whole. Only the host orders the calls. A count that is not the whole storage is an error.
#include <cerrno>
#include <cstring>

#include "callers/kit.h"
#include "cufile.h"

namespace sluice::callers {
namespace {

void succeed(CUfileError_t answer, const char* call) {
  if (answer.err != CU_FILE_SUCCESS) wrong(std::string(call) + ": " + cufileop_status_error(answer.err));
}

std::string text_of(ssize_t status) {
  const auto code = static_cast<int>(status < 0 ? -status : status);
  return IS_CUFILE_ERR(code) ? CUFILE_ERRSTR(code) : std::strerror(errno);
}

class GdsFile {
 public:
  GdsFile(const std::string& path, int flags) : fd_(open_file(path, flags | O_DIRECT)) {
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd_.get();
    succeed(cuFileHandleRegister(&handle_, &description), "cuFileHandleRegister");
  }
  ~GdsFile() { cuFileHandleDeregister(handle_); }
  GdsFile(const GdsFile&) = delete;
  GdsFile& operator=(const GdsFile&) = delete;

  void save(const void* storage, std::size_t size, std::size_t offset) const {
    finish(cuFileWrite(handle_, storage, size, static_cast<off_t>(offset), 0), size, "cuFileWrite");
  }
  void load(void* storage, std::size_t size, std::size_t offset) const {
    finish(cuFileRead(handle_, storage, size, static_cast<off_t>(offset), 0), size, "cuFileRead");
  }

 private:
  static void finish(ssize_t count, std::size_t size, const char* call) {
    if (count < 0) wrong(std::string(call) + " failed: " + text_of(count));
    if (static_cast<std::size_t>(count) != size) wrong(std::string(call) + " was partial: " + std::to_string(count));
  }

  Fd fd_;
  CUfileHandle_t handle_ = nullptr;
};

struct Storage {
  std::size_t in_block;
  std::size_t size;
  std::size_t in_file;
};

void caller(const Place& place) {
  // It never opens the driver, nor closes it.
  const std::string path = place.at("checkpoint.pt");
  const Memory block(MemoryKind::device, 20 * kMiB);
  std::vector<Storage> storages;
  std::size_t in_block = 0;
  std::size_t in_file = 0;
  for (const std::size_t size :
       {std::size_t{512}, 4096 * kKiB, std::size_t{4}, 512 * std::size_t{1000}, 8 * kMiB + 12, 64 * kKiB}) {
    storages.push_back({in_block, size, in_file});
    in_block += (size + 511) / 512 * 512;           // the allocator's grain
    in_file += (size + 4095) / 4096 * 4096 + 4096;  // a checkpoint aligns storages, and has more between them
  }
  const Bytes content = support::random_bytes(block.size(), 1);
  block.put(0, content);
  {
    const GdsFile file(path, O_CREAT | O_RDWR);
    for (const Storage& each : storages) {
      succeed(cuFileBufRegister(block.at(each.in_block), each.size, 0), "cuFileBufRegister");
    }
    for (const Storage& each : storages) file.save(block.at(each.in_block), each.size, each.in_file);
    for (const Storage& each : storages) succeed(cuFileBufDeregister(block.at(each.in_block)), "cuFileBufDeregister");
  }
  const Bytes written = content_of(path);
  for (const Storage& each : storages) {
    require(written.size() >= each.in_file + each.size, "the file is too short");
    require_same(std::span(content).subspan(each.in_block, each.size),
                 std::span(written).subspan(each.in_file, each.size), "a storage in the file");
  }
  // Loaded by a process that has registered nothing, then by one that has registered each.
  for (const bool registered : {false, true}) {
    block.fill(0x5a);
    const GdsFile file(path, O_RDONLY);
    for (const Storage& each : storages) {
      void* const memory = block.at(each.in_block);
      if (registered) succeed(cuFileBufRegister(memory, each.size, 0), "cuFileBufRegister");
      file.load(memory, each.size, each.in_file);
      // A kernel of the default stream comes next; what it finds is what a copy finds.
      require_same(std::span(content).subspan(each.in_block, each.size), block.get(each.in_block, each.size),
                   "a storage that was loaded");
      if (registered) succeed(cuFileBufDeregister(memory), "cuFileBufDeregister");
    }
    Bytes expected(block.size(), 0x5a);
    for (const Storage& each : storages) {
      const auto from = content.begin() + static_cast<std::ptrdiff_t>(each.in_block);
      std::copy_n(from, each.size, expected.begin() + static_cast<std::ptrdiff_t>(each.in_block));
    }
    require_same(expected, block.get(), "what lies between the storages");
  }
}

}  // namespace
}  // namespace sluice::callers

int main(int argc, char** argv) {
  return sluice::callers::play(argc, argv, sluice::callers::caller);
}
