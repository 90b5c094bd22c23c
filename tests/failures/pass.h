// SPDX-License-Identifier: Apache-2.0
// One pass over the library's calls, always the same: handles and buffers are registered, transfers of every kind and
// of ragged and whole ranges are made and looked at, the library is asked what it knows, and all is given back. What is
// refused is asked for again; what fails once must work then.
#pragma once

#include <span>

#include "failures/world.h"
#include "sluice.h"

namespace sluice::failures {

enum class Trouble : unsigned char {
  none,     // every call has to succeed
  once,     // one call may be refused, and succeeds when it is made again
  staying,  // calls may be refused for good
};

// World::memory()
inline constexpr std::size_t registered_memory = 0;
inline constexpr std::size_t device_memory = 1;
inline constexpr std::size_t pinned_memory = 2;
inline constexpr std::size_t plain_memory = 3;

// In place of a count, where none has come.
inline constexpr ssize_t kNoEvent = -1'000'000;

// One transfer of several that are under way together.
struct Entry {
  CUfileOpcode_t opcode;
  std::size_t memory;  // World::memory()
  Range range;
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
  void prepare(std::span<const Entry> entries);
  void settle(const char* read, const char* write, CUfileHandle_t handle, std::span<const Entry> entries,
              std::span<const ssize_t> counts);
  void run_batch(CUfileBatchHandle_t batch, CUfileHandle_t handle);
  void plans(CUfileHandle_t handle);
  void plan(CUfileHandle_t handle, CUfileOpcode_t opcode, unsigned flags);
  void run_plan(sluice_plan_t plan, std::size_t items, bool for_streams);
  void cancelled_plan(CUfileHandle_t handle);
  void streams(CUfileHandle_t handle);
  void in_stream(const char* what, CUfileOpcode_t opcode, CUfileHandle_t handle, const support::Memory& memory,
                 const Range& range);
  void questions(CUfileHandle_t handle);

  World& world_;
  Trouble trouble_;
};

// Twice where the first may be refused.
template <typename Body>
bool Pass::call(const char* what, Body body) {
  const int tries = trouble_ == Trouble::none ? 1 : 2;
  int answer = 0;
  for (int i = 0; i < tries; ++i) {
    World::allow_a_minute();
    answer = support::code(body());
    if (answer == CU_FILE_SUCCESS) return true;
    world_.record().tell("refused %s: %d", what, answer);
  }
  if (trouble_ != Trouble::staying) world_.complain(what, {}, answer, "it does not succeed");
  return false;
}

}  // namespace sluice::failures
