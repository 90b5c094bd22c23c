// SPDX-License-Identifier: Apache-2.0
// Our kernels: as machine code for the usual devices, and as text (PTX), which any driver compiles for the device it
// has.
#pragma once

namespace sluice::gpu::kernels {

extern const char* const gather;       // entry sluice_gather, kernels/gather.cu
extern const char* const relay;        // entry sluice_relay, kernels/relay.cu
extern const char* const scatter;      // entry sluice_scatter, kernels/scatter.cu
extern const char* const serve;        // entry sluice_serve, kernels/serve.cu
extern const char* const stream_copy;  // entry sluice_stream_copy, kernels/stream_copy.cu

// All of them, kernels/kernels.fatbin.
const void* machine_code() noexcept;

}  // namespace sluice::gpu::kernels
