// SPDX-License-Identifier: Apache-2.0
// Transfers in three streams, in turn. Parameters stay where they are until all is over.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::lab {

class Streamed {
 public:
  void read(CUfileHandle_t handle, const support::Memory& memory, std::size_t size, std::size_t file_offset,
            std::size_t memory_offset) {
    put(cuFileReadAsync, handle, memory, size, file_offset, memory_offset);
  }
  void write(CUfileHandle_t handle, const support::Memory& memory, std::size_t size, std::size_t file_offset,
             std::size_t memory_offset) {
    put(cuFileWriteAsync, handle, memory, size, file_offset, memory_offset);
  }

  // The counts, in the order of the calls; of one that was refused its negative answer.
  std::vector<ssize_t> run() {
    for (const support::Stream& stream : streams_) stream.synchronize();
    std::vector<ssize_t> counts;
    for (const auto& parameters : all_) counts.push_back(parameters->bytes);
    return counts;
  }

 private:
  struct Parameters {
    std::size_t size;
    off_t file_offset;
    off_t memory_offset;
    ssize_t bytes = 0;
  };

  template <typename Call>
  void put(Call* call, CUfileHandle_t handle, const support::Memory& memory, std::size_t size, std::size_t file_offset,
           std::size_t memory_offset) {
    all_.push_back(std::make_unique<Parameters>(
        Parameters{size, static_cast<off_t>(file_offset), static_cast<off_t>(memory_offset)}));
    Parameters& now = *all_.back();
    const int answer = support::code(call(handle, memory.address(), &now.size, &now.file_offset, &now.memory_offset,
                                          &now.bytes, streams_[all_.size() % streams_.size()].get()));
    if (answer != CU_FILE_SUCCESS) now.bytes = -answer;
  }

  std::array<support::Stream, 3> streams_;
  std::vector<std::unique_ptr<Parameters>> all_;
};

}  // namespace sluice::lab
