// SPDX-License-Identifier: Apache-2.0
// The entries of a batch: all of a CUfileIOParams_t but the handle and the memory comes from the input. What lies
// beside the memory that the entries name stays as it was, and everything that was submitted ends.
#include <algorithm>
#include <vector>

#include "cufile.h"
#include "world.h"

using namespace sluice;

namespace {

constexpr std::size_t entry_bytes = 16;  // of the input

CUfileIOParams_t entry_of(fuzz::World& world, const std::uint8_t* data) {
  CUfileIOParams_t entry{};
  entry.mode = static_cast<CUfileBatchMode_t>(data[0] & 1);
  const std::uint8_t opcode = data[1] & 3;  // two of the four are none
  std::memcpy(&entry.opcode, &opcode, sizeof opcode);
  entry.fh = world.handle();
  entry.cookie = nullptr;
  entry.u.batch.devPtr_base = world.memory();
  entry.u.batch.devPtr_offset = static_cast<off_t>(fuzz::number(data + 2, 2));
  entry.u.batch.file_offset = static_cast<off_t>(fuzz::number(data + 4, 8));
  const std::uint64_t room = fuzz::memory_bytes - static_cast<std::uint64_t>(entry.u.batch.devPtr_offset);
  entry.u.batch.size = std::min<std::uint64_t>(fuzz::number(data + 12, 4), room);
  // A write makes the file longer: by a little, and never near the end of what a file can be.
  if (opcode == CUFILE_WRITE) entry.u.batch.file_offset &= 0xfffff;
  return entry;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::World world;
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
  world.require_whole_guards();
  return 0;
}
