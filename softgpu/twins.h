// SPDX-License-Identifier: Apache-2.0
// The twins of our kernels, one for each file of PTX in src/gpu/kernels, which describes what both do.
#pragma once

namespace sluice::softgpu {

class Launch;

namespace twin {

void stream_copy(const Launch& launch);
void gather(const Launch& launch);
void relay(const Launch& launch);
void scatter(const Launch& launch);
void probe_hold(const Launch& launch);
void probe_store(const Launch& launch);
void serve(const Launch& launch);

}  // namespace twin

}  // namespace sluice::softgpu
