// SPDX-License-Identifier: Apache-2.0
// Threads of the soft GPU: detached, all signals blocked, named.
#pragma once

#include <functional>

namespace sluice::softgpu {

// Runs `work` on a new thread that is not joined. Throws Refusal (out of memory) when no thread can be made.
void start_worker(const char* name, std::function<void()> work);

}  // namespace sluice::softgpu
