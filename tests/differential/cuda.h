// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as the player needs it, from whichever libcuda.so.1 the loader finds: a GPU's or the soft GPU's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cufile.h"

namespace sluice::differential {

using Address = std::uint64_t;

struct Cuda {
  int (*init)(unsigned);
  int (*device_get)(int*, int);
  int (*primary_retain)(void**, int);
  int (*context_set)(void*);
  int (*context_current)(void**);
  int (*context_synchronize)();
  int (*allocate)(Address*, std::size_t);
  int (*allocate_managed)(Address*, std::size_t, unsigned);
  int (*pin)(void*, std::size_t, unsigned);
  int (*to_device)(Address, const void*, std::size_t);
  int (*to_host)(void*, Address, std::size_t);
  int (*stream_create)(CUstream*, unsigned);
  int (*stream_synchronize)(CUstream);
};

// The driver, initialised, with the first device's primary context current. Ends the program where that fails.
const Cuda& cuda();

// A range of device memory that is mapped piece by piece, 2 MiB each, as growing allocators do; 0 where that fails.
Address map_pieces(int pieces);
constexpr std::size_t kPiece = std::size_t{2} << 20;

}  // namespace sluice::differential
