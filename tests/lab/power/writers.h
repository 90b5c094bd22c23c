// SPDX-License-Identifier: Apache-2.0
// Those who write while the power is cut. Each writes, makes durable, acknowledges, and goes on until the machine is
// gone.
#pragma once

#include <cstdint>
#include <string>

#include "lab/power/operations.h"
#include "lab/probe/system.h"

namespace sluice::lab {

// The device on which acknowledgements are told: they count from the moment that the drive has them. What lies there is
// the world outside the drive, so the drive's cache does not lose it (power.py).
class Acknowledgements {
 public:
  explicit Acknowledgements(const std::string& device);
  void tell(Writer writer, std::uint64_t number) const;

 private:
  File device_;
};

// Makes the writer's files, or its folder, and makes them durable.
void begin_writing(Writer writer, const std::string& folder);
// Never returns, except by an exception. After `enough` operations of this writer, `when_enough` is called, once.
struct Enough {
  std::uint64_t operations;
  void (*call)();
};
[[noreturn]] void keep_writing(Writer writer, const std::string& folder, const Acknowledgements& told, Enough enough);

}  // namespace sluice::lab
