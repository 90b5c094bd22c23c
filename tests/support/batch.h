// SPDX-License-Identifier: Apache-2.0
// A batch as the tests like it: entries are put together one by one, go in one submission, and answer by their numbers.
#pragma once

#include <cstddef>
#include <vector>

#include "cufile.h"
#include "support/calls.h"

namespace sluice::support {

class Batch {
 public:
  explicit Batch(unsigned capacity);  // throws when it cannot be set up
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  CUfileBatchHandle_t get() const { return batch_; }

  // Each answers the entry's number, which is its cookie, too.
  std::size_t read(CUfileHandle_t handle, const Memory& memory, std::size_t size, std::size_t file_offset,
                   std::size_t memory_offset);
  std::size_t write(CUfileHandle_t handle, const Memory& memory, std::size_t size, std::size_t file_offset,
                    std::size_t memory_offset);

  // All entries in one submission.
  void submit();
  // Waits for the events of all of them; each has to come once. Their counts, or -errno, by number; whether the status
  // fits the count is checked. The entries stay for the next submit().
  std::vector<ssize_t> collect();
  std::vector<ssize_t> run() {
    submit();
    return collect();
  }
  void clear() { entries_.clear(); }

 private:
  std::size_t add(CUfileOpcode_t opcode, CUfileHandle_t handle, const Memory& memory, std::size_t size,
                  std::size_t file_offset, std::size_t memory_offset);

  CUfileBatchHandle_t batch_ = nullptr;
  unsigned capacity_;
  std::vector<CUfileIOParams_t> entries_;
};

}  // namespace sluice::support
