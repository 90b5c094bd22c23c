// SPDX-License-Identifier: Apache-2.0
// The PTX text that a program hands to the soft GPU.
#include "ptx.h"
#include "input.h"
#include "refusal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const sluice::softgpu::PtxModule module = sluice::softgpu::read_ptx(sluice::fuzz::text_of(data, size));
    sluice::fuzz::require(module.target >= 0, "a target below nought\n");
  } catch (const sluice::softgpu::Refusal&) {  // as a driver refuses an image
  }
  return 0;
}
