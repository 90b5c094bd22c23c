// SPDX-License-Identifier: Apache-2.0
// A stream of the program's that waits for a plan.
#pragma once

#include <cstddef>
#include <memory>

#include "gpu/cuda_abi.h"
#include "plan/items.h"

namespace sluice::plan {

// What is put into the stream from now on waits until so many of the first items have ended. The stream may get there
// when the plan is gone: it waits for nothing then. Throws base::Failure.
void wait_in_stream(const std::shared_ptr<Front>& front, std::size_t first, cuda::Stream stream);

}  // namespace sluice::plan
