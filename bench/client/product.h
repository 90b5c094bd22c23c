// SPDX-License-Identifier: Apache-2.0
// Work for every multiprocessor of the device: multiplications and additions as in a matrix product, with as many
// threads as fit, counted so that the product itself tells how much anything else slows it down.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <thread>

#include "client/gpu.h"
#include "client/kernel.h"
#include "client/row.h"

namespace sluice::bench {

class BusyProduct {
 public:
  // Throws Trouble where there are no kernels (the soft GPU). This and all below leave the context of `gpu` current.
  explicit BusyProduct(const Gpu& gpu);
  BusyProduct(const BusyProduct&) = delete;
  BusyProduct& operator=(const BusyProduct&) = delete;
  ~BusyProduct();

  void start(Product kind);
  // Ends the work and waits for it. Throws Trouble when a launch has failed meanwhile.
  void stop();
  // Pieces of work done since the start.
  std::uint64_t count();

 private:
  void launch(unsigned blocks, unsigned pieces);
  void set_flag(unsigned value);
  void feed(unsigned pieces);
  unsigned pieces_for(double seconds);

  const Gpu* gpu_;
  std::optional<Kernel> kernel_;
  unsigned full_;  // blocks that fill the device
  DeviceMemory cells_;
  OwnStream work_;
  OwnStream control_;
  std::thread feeder_;
  std::atomic<bool> leave_{false};
  std::exception_ptr failure_;
};

}  // namespace sluice::bench
