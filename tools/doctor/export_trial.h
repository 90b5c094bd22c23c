// SPDX-License-Identifier: Apache-2.0
// Whether the driver exports memory of a GPU as a dma-buf: tried, not believed.
#pragma once

#include <string>

namespace sluice::doctor {

// A line: "export 0 ok", "export 0 801 CUDA_ERROR_NOT_SUPPORTED", or, where there is no memory to try it with,
// "export 0 untried 2 CUDA_ERROR_OUT_OF_MEMORY"; "" where the driver has no such call. Makes a context, takes 2 MiB of
// the GPU's memory, and gives both back: in the child that asks CUDA. `library` is a started libcuda.so.1.
std::string ask_export(void* library, int ordinal);

}  // namespace sluice::doctor
