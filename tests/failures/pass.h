// SPDX-License-Identifier: Apache-2.0
// One pass over the library's calls, always the same: handles and buffers are registered, transfers of every kind and
// of ragged and whole ranges are made and looked at, the library is asked what it knows, and all is given back. What is
// refused is asked for again; what fails once must work then.
#pragma once

#include <span>

#include "failures/world.h"

namespace sluice::failures {

enum class Trouble : unsigned char {
  none,     // every call has to succeed
  once,     // one call may be refused, and succeeds when it is made again
  staying,  // calls may be refused for good
};

class Pass {
 public:
  Pass(World& world, Trouble trouble) : world_(world), trouble_(trouble) {}

  void open_driver();
  void work();
  void close_driver();

 private:
  template <typename Body>
  bool call(const char* what, Body body);
  void read(const char* what, CUfileHandle_t handle, const support::Memory& memory, const Range& range);
  void write(const char* what, CUfileHandle_t handle, const support::Memory& memory, const Range& range);
  void settle_read(const char* what, CUfileHandle_t handle, const support::Memory& memory, Range range, ssize_t count);
  void settle_write(const char* what, CUfileHandle_t handle, const support::Memory& memory, Range range, ssize_t count);
  void transfers(CUfileHandle_t handle);
  void vectors(CUfileHandle_t handle);
  void batch(CUfileHandle_t handle);
  void settle_batch(CUfileHandle_t handle, std::span<const ssize_t> counts);
  void run_batch(CUfileBatchHandle_t batch, CUfileHandle_t handle);
  void streams(CUfileHandle_t handle);
  void in_stream(const char* what, CUfileOpcode_t opcode, CUfileHandle_t handle, const support::Memory& memory,
                 const Range& range);
  void questions(CUfileHandle_t handle);

  World& world_;
  Trouble trouble_;
};

}  // namespace sluice::failures
