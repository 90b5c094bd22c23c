// Reading what a disk has to bring first into device memory: many reads on their way at a time, by io_uring, and the
// copy engine behind them. One thread does it, and sleeps while the disk works.
#pragma once

#include "base/outcome.h"
#include "engine/device_read.h"
#include "engine/ring.h"
#include "engine/uring.h"

namespace sluice::engine {

// As read_to_device(), for a descriptor with O_DIRECT.
base::Outcome read_from_disk(const FileRange& range, RingLoan& ring, cuda::DevicePtr to, Uring& uring) noexcept;

}  // namespace sluice::engine
