// SPDX-License-Identifier: Apache-2.0
// Events come in any order.
#include "support/batch.h"

#include <stdexcept>

namespace sluice::support {

Batch::Batch(unsigned capacity) : capacity_(capacity) {
  if (code(cuFileBatchIOSetUp(&batch_, capacity)) != CU_FILE_SUCCESS) {
    throw std::runtime_error("the batch cannot be set up");
  }
}

Batch::~Batch() {
  cuFileBatchIODestroy(batch_);
}

std::size_t Batch::add(CUfileOpcode_t opcode, CUfileHandle_t handle, const Memory& memory, std::size_t size,
                       std::size_t file_offset, std::size_t memory_offset) {
  CUfileIOParams_t entry{};
  entry.mode = CUFILE_BATCH;
  entry.fh = handle;
  entry.opcode = opcode;
  entry.cookie = reinterpret_cast<void*>(entries_.size());
  entry.u.batch.devPtr_base = memory.address();
  entry.u.batch.file_offset = static_cast<off_t>(file_offset);
  entry.u.batch.devPtr_offset = static_cast<off_t>(memory_offset);
  entry.u.batch.size = size;
  entries_.push_back(entry);
  return entries_.size() - 1;
}

std::size_t Batch::read(CUfileHandle_t handle, const Memory& memory, std::size_t size, std::size_t file_offset,
                        std::size_t memory_offset) {
  return add(CUFILE_READ, handle, memory, size, file_offset, memory_offset);
}

std::size_t Batch::write(CUfileHandle_t handle, const Memory& memory, std::size_t size, std::size_t file_offset,
                         std::size_t memory_offset) {
  return add(CUFILE_WRITE, handle, memory, size, file_offset, memory_offset);
}

void Batch::submit() {
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch_, static_cast<unsigned>(entries_.size()), entries_.data(), 0)),
            CU_FILE_SUCCESS);
}

std::vector<ssize_t> Batch::collect() {
  constexpr ssize_t kNothing = -100'000;
  std::vector<ssize_t> results(entries_.size(), kNothing);
  std::vector<CUfileIOEvents_t> events(capacity_);
  for (std::size_t found = 0; found < entries_.size();) {
    unsigned room = capacity_;
    const auto missing = static_cast<unsigned>(entries_.size() - found);
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, missing, &room, events.data(), nullptr)), CU_FILE_SUCCESS);
    if (room == 0) {
      ADD_FAILURE() << "only " << found << " of " << entries_.size() << " events";
      break;
    }
    for (unsigned i = 0; i < room; ++i) {
      const auto result = static_cast<ssize_t>(events[i].ret);
      ssize_t& place = results.at(reinterpret_cast<std::size_t>(events[i].cookie));
      EXPECT_EQ(place, kNothing) << "an event came twice";
      EXPECT_EQ(events[i].status, result < 0 ? CUFILE_FAILED : CUFILE_COMPLETE) << result;
      place = result;
    }
    found += room;
  }
  return results;
}

}  // namespace sluice::support
