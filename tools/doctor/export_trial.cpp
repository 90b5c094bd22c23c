// SPDX-License-Identifier: Apache-2.0
// Functions of libcuda, found by name.
#include "doctor/export_trial.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>

namespace sluice::doctor {
namespace {

constexpr int dma_buf_descriptor = 1;
constexpr std::size_t tried_bytes = std::size_t{2} << 20U;

template <typename Function>
Function* call_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::string with_name(void* library, int result) {
  const char* name = nullptr;
  auto* const error_name = call_of<int(int, const char**)>(library, "cuGetErrorName");
  if (error_name == nullptr || error_name(result, &name) != 0 || name == nullptr) name = "";
  return fmt::format("{} {}", result, name);
}

}  // namespace

std::string ask_export(void* library, int ordinal) {
  auto* const retain = call_of<int(void**, int)>(library, "cuDevicePrimaryCtxRetain");
  auto* const release = call_of<int(int)>(library, "cuDevicePrimaryCtxRelease_v2");
  auto* const choose = call_of<int(void*)>(library, "cuCtxSetCurrent");
  auto* const take = call_of<int(unsigned long long*, std::size_t)>(library, "cuMemAlloc_v2");
  auto* const give_back = call_of<int(unsigned long long)>(library, "cuMemFree_v2");
  auto* const export_range = call_of<int(void*, unsigned long long, std::size_t, int, unsigned long long)>(
      library, "cuMemGetHandleForAddressRange");
  if (retain == nullptr || release == nullptr || choose == nullptr || take == nullptr || give_back == nullptr ||
      export_range == nullptr) {
    return {};
  }
  void* context = nullptr;
  if (const int result = retain(&context, ordinal); result != 0) {
    return fmt::format("export {} untried {}\n", ordinal, with_name(library, result));
  }
  choose(context);
  unsigned long long memory = 0;
  std::string answer;
  if (const int result = take(&memory, tried_bytes); result != 0) {
    answer = "untried " + with_name(library, result);
  } else {
    int descriptor = -1;
    const int refused = export_range(&descriptor, memory, tried_bytes, dma_buf_descriptor, 0);
    answer = refused == 0 ? "ok" : with_name(library, refused);
    if (refused == 0) close(descriptor);
    give_back(memory);
  }
  release(ordinal);
  return fmt::format("export {} {}\n", ordinal, answer);
}

}  // namespace sluice::doctor
