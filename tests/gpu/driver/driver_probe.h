// SPDX-License-Identifier: Apache-2.0
// How the probe asks and tells.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <string>

#include "driver_calls.h"

namespace sluice::gpu_suite {

constexpr std::size_t page = 4096;
constexpr std::size_t mebibyte = std::size_t{1} << 20U;

inline void tell(const std::string& question, long long answer) {
  std::printf("%-72s %lld\n", question.c_str(), answer);
}

inline void tell(const std::string& question, cuda::Result answer) {
  tell(question, cuda::number_of(answer));
}

inline Ptr allocate(std::size_t size) {
  Ptr pointer = 0;
  cuMemAlloc_v2(&pointer, size);
  return pointer;
}

inline void* pages(std::size_t size) {
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return memory != MAP_FAILED ? memory : nullptr;
}

inline Ptr address(const void* pointer) {
  return reinterpret_cast<Ptr>(pointer);
}

template <typename Value>
inline void tell_attribute(const std::string& question, int attribute, Ptr pointer) {
  Value value{};
  const cuda::Result result = cuPointerGetAttribute(&value, attribute, pointer);
  tell(question + ": result", result);
  if (result == cuda::success) tell(question + ": value", static_cast<long long>(value));
}

// Code, copies, memory operations, attributes: driver_probe_work.cpp.
void ask_about_work();

}  // namespace sluice::gpu_suite
