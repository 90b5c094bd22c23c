// SPDX-License-Identifier: Apache-2.0
// A device that begins no other kernel: one of ours holds every multiprocessor until it is let go.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cufile.h"

namespace sluice::support {

class BusyDevice {
 public:
  // Device 0. Null, with the reason, where it cannot be done: no device, or a soft GPU that runs any number of kernels
  // at once (SLUICE_SOFTGPU_SMS=1 makes it run one).
  static std::unique_ptr<BusyDevice> hold(std::string* why_not);
  ~BusyDevice();
  BusyDevice(const BusyDevice&) = delete;
  BusyDevice& operator=(const BusyDevice&) = delete;

  // Waits until the kernel is gone. Its memory is freed with this object: a driver that frees some waits for all
  // streams.
  void let_go();

 private:
  BusyDevice() = default;

  std::uint32_t* word_ = nullptr;  // pinned; the kernel leaves when it is 1
  CUstream stream_ = nullptr;
};

}  // namespace sluice::support
