// SPDX-License-Identifier: Apache-2.0
// Reads and writes of device memory by the CPU that go together: many through one staging buffer.
#pragma once

#include <memory>

#include "paths/group_mover.h"
#include "paths/options.h"
#include "transfer/file_range.h"

namespace sluice::paths {

// Null: there is no memory.
std::unique_ptr<GroupMover> staging_group(GroupClass group_class) noexcept;

constexpr transfer::CopyEngine copy_engine_of(CopyMode copy_mode) noexcept {
  switch (copy_mode) {
    case CopyMode::kernel:
      return transfer::CopyEngine::kernel;
    case CopyMode::copy_engine:
      return transfer::CopyEngine::engine;
    default:
      return transfer::CopyEngine::automatic;
  }
}

}  // namespace sluice::paths
