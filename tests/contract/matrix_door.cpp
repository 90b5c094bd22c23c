// SPDX-License-Identifier: Apache-2.0
#include "contract/matrix_door.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "support/cuda_driver.h"
#include "support/planned.h"

namespace sluice::contract {
namespace {

using support::Transfer;

Transfer transfer_of(ssize_t result) {
  return result >= 0 ? support::moved(static_cast<std::size_t>(result)) : support::failed(static_cast<int>(-result));
}

void want(CUfileError_t error, const char* what) {
  if (error.err != CU_FILE_SUCCESS) throw std::runtime_error(std::string(what) + ": " + std::to_string(error.err));
}

Transfer in_batch(Direction direction, CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset,
                  off_t buffer_offset) {
  CUfileBatchHandle_t batch = nullptr;
  want(cuFileBatchIOSetUp(&batch, 1), "cuFileBatchIOSetUp");
  CUfileIOParams_t entry{};
  entry.mode = CUFILE_BATCH;
  entry.fh = handle;
  entry.opcode = direction == Direction::read ? CUFILE_READ : CUFILE_WRITE;
  entry.u.batch.devPtr_base = base;
  entry.u.batch.devPtr_offset = buffer_offset;
  entry.u.batch.file_offset = file_offset;
  entry.u.batch.size = size;
  want(cuFileBatchIOSubmit(batch, 1, &entry, 0), "cuFileBatchIOSubmit");
  CUfileIOEvents_t event{};
  unsigned count = 1;
  want(cuFileBatchIOGetStatus(batch, size > 0 ? 1 : 0, &count, &event, nullptr), "cuFileBatchIOGetStatus");
  cuFileBatchIODestroy(batch);
  return transfer_of(size > 0 ? static_cast<ssize_t>(event.ret) : 0);
}

Transfer in_plan(Direction direction, CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset,
                 off_t buffer_offset) {
  support::Planned plan(direction == Direction::read ? CUFILE_READ : CUFILE_WRITE);
  plan.add(handle, static_cast<unsigned char*>(base) + buffer_offset, size, static_cast<std::size_t>(file_offset));
  return transfer_of(support::answer_of(plan.run().front()));
}

Transfer in_stream(Direction direction, CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset,
                   off_t buffer_offset) {
  const support::Stream stream;
  ssize_t moved = -1;
  want(direction == Direction::read
           ? cuFileReadAsync(handle, base, &size, &file_offset, &buffer_offset, &moved, stream.get())
           : cuFileWriteAsync(handle, base, &size, &file_offset, &buffer_offset, &moved, stream.get()),
       "a call for a stream");
  stream.synchronize();
  return transfer_of(moved);
}

}  // namespace

Transfer transfer(Direction direction, CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset,
                  off_t buffer_offset) {
  static const std::string door = std::getenv("SLUICE_TEST_DOOR") != nullptr ? std::getenv("SLUICE_TEST_DOOR") : "";
  if (door == "batch") return in_batch(direction, handle, base, size, file_offset, buffer_offset);
  if (door == "plan") return in_plan(direction, handle, base, size, file_offset, buffer_offset);
  if (door == "stream") return in_stream(direction, handle, base, size, file_offset, buffer_offset);
  return direction == Direction::read ? support::read_file(handle, base, size, file_offset, buffer_offset)
                                      : support::write_file(handle, base, size, file_offset, buffer_offset);
}

}  // namespace sluice::contract
