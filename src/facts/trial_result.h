// SPDX-License-Identifier: Apache-2.0
// What is known of I/O between the memory of one device and one file system or block device, by having tried it.
#pragma once

#include <cstdint>

namespace sluice::facts {

enum class TrialResult : std::uint8_t {
  untried,          // not tried yet, or what was there to try on was not enough
  probing,          // a thread is trying it now
  no_provider,      // nothing hands this device's memory to the kernel
  pages_refused,    // the queue takes no pages of device memory: EREMOTEIO
  unreachable,      // the kernel knows no way between drive and device: EINVAL on whole, aligned blocks
  pinning_refused,  // the pages cannot be pinned: EFAULT
  data_lost,        // success was reported and the bytes were not there
  call_refused,     // nvidia-fs.ko: the call itself was refused
  bytes_elsewhere,  // nvidia-fs.ko: success was reported, and the bytes stayed in host memory
  write_lost,       // nvidia-fs.ko: success was reported, and the file holds other bytes
  unwritable,       // nvidia-fs.ko: there is no place for a file of our own to try a write with
  proven,           // the bytes were there
};

}  // namespace sluice::facts
