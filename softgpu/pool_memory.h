// SPDX-License-Identifier: Apache-2.0
// What an allocation from a pool holds on to.
#pragma once

#include <memory>

#include "pool.h"

namespace sluice::softgpu {

struct PoolMemory {
  std::shared_ptr<MemoryPool> pool;
  std::shared_ptr<DeviceStorage> storage;
};

}  // namespace sluice::softgpu
