// SPDX-License-Identifier: Apache-2.0
// Which libcuda.so.1 this process works with: the one that the program has loaded, or, where SLUICE_SOFTGPU=1 asks for
// it, our stand-in. Never two of them in one process.
#pragma once

#include <string>

namespace sluice::gpu {

struct DriverLibrary {
  void* handle = nullptr;  // as dlopen gives it; null when there is none
  std::string refusal;     // why SLUICE_SOFTGPU=1 could not be followed; empty when it was, or was not given
};

enum class Loading { only_what_is_loaded, whatever_is_there };

// With SLUICE_SOFTGPU=1 the stand-in is loaded in either case: from then on a program that asks the loader for
// libcuda.so.1 gets it, too.
DriverLibrary open_driver_library(Loading loading);

// Any other library: by the loader's own search, or, where `beside` lies in a library, from that one's folder and from
// nowhere else. Null with the loader's words in `refusal`.
void* open_library(const std::string& name, const void* beside, std::string& refusal);

// How often a library has been loaded into this process: it grows with each.
unsigned long long libraries_loaded_so_far() noexcept;

// Around fork: no thread of ours is left in the loader.
void loader_before_fork() noexcept;
void loader_after_fork(bool in_child) noexcept;

}  // namespace sluice::gpu
