// SPDX-License-Identifier: Apache-2.0
// The entries of a batch: all of a CUfileIOParams_t but the handle and the memory comes from the input. What lies
// beside the memory that the entries name stays as it was, and everything that was submitted ends.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cufile.h"
#include "input.h"

using namespace sluice;

namespace {

constexpr std::size_t memory_bytes = 1 << 16;
constexpr std::size_t guard_bytes = 1 << 16;
constexpr std::size_t entry_bytes = 16;  // of the input

struct World {
  CUfileHandle_t handle = nullptr;
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(memory_bytes + 2 * guard_bytes, 0xa5);

  World() {
    const int fd = ::memfd_create("fuzz-batch", MFD_CLOEXEC);
    fuzz::require(fd >= 0 && ::ftruncate(fd, memory_bytes) == 0, "no file for batches\n");
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd;
    fuzz::require(cuFileHandleRegister(&handle, &description).err == CU_FILE_SUCCESS, "the file is refused\n");
  }
};

// Little-endian, wherever the input ends.
std::uint64_t number(const std::uint8_t* data, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, data, bytes);
  return value;
}

CUfileIOParams_t entry_of(World& world, const std::uint8_t* data) {
  CUfileIOParams_t entry{};
  entry.mode = static_cast<CUfileBatchMode_t>(data[0] & 1);
  const std::uint8_t opcode = data[1] & 3;  // two of the four are none
  std::memcpy(&entry.opcode, &opcode, sizeof opcode);
  entry.fh = world.handle;
  entry.cookie = nullptr;
  entry.u.batch.devPtr_base = world.memory.data() + guard_bytes;
  entry.u.batch.devPtr_offset = static_cast<off_t>(number(data + 2, 2));
  entry.u.batch.file_offset = static_cast<off_t>(number(data + 4, 8));
  const std::uint64_t room = memory_bytes - static_cast<std::uint64_t>(entry.u.batch.devPtr_offset);
  entry.u.batch.size = std::min<std::uint64_t>(number(data + 12, 4), room);
  // A write makes the file longer: by a little, and never near the end of what a file can be.
  if (opcode == CUFILE_WRITE) entry.u.batch.file_offset &= 0xfffff;
  return entry;
}

bool holds_only(const std::uint8_t* bytes, std::size_t count) {
  return std::all_of(bytes, bytes + count, [](std::uint8_t byte) { return byte == 0xa5; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  std::vector<CUfileIOParams_t> entries;
  for (std::size_t at = 0; at + entry_bytes <= size && entries.size() < 64; at += entry_bytes) {
    entries.push_back(entry_of(world, data + at));
  }
  CUfileBatchHandle_t batch = nullptr;
  if (entries.empty() || cuFileBatchIOSetUp(&batch, static_cast<unsigned>(entries.size())).err != CU_FILE_SUCCESS) {
    return -1;
  }
  const unsigned count = static_cast<unsigned>(entries.size());
  if (cuFileBatchIOSubmit(batch, count, entries.data(), 0).err == CU_FILE_SUCCESS) {
    // Entries of no bytes have no event.
    const auto expected =
        std::count_if(entries.begin(), entries.end(), [](const auto& e) { return e.u.batch.size > 0; });
    std::vector<CUfileIOEvents_t> events(count);
    unsigned seen = 0;
    while (seen < expected) {
      unsigned room = count;
      const CUfileError_t answer = cuFileBatchIOGetStatus(batch, 1, &room, events.data(), nullptr);
      fuzz::require(answer.err == CU_FILE_SUCCESS && room > 0, "a batch that does not end\n");
      seen += room;
    }
  }
  cuFileBatchIODestroy(batch);
  fuzz::require(holds_only(world.memory.data(), guard_bytes), "bytes in front of the memory changed\n");
  fuzz::require(holds_only(world.memory.data() + guard_bytes + memory_bytes, guard_bytes),
                "bytes behind the memory changed\n");
  return 0;
}
