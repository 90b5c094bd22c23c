// The text of our kernels: PTX, which the driver compiles for the device it has.
#pragma once

namespace sluice::gpu::kernels {

extern const char* const gather;   // entry sluice_gather, kernels/gather.cu
extern const char* const scatter;  // entry sluice_scatter, kernels/scatter.cu
extern const char* const errand;   // entry sluice_errand, kernels/errand.cu

}  // namespace sluice::gpu::kernels
