// SPDX-License-Identifier: Apache-2.0
// The way into every entry point: is the driver usable, is this call to fail on request, and every exception becomes
// a CUDA result.
#pragma once

#include <new>
#include <type_traits>

#include "refusal.h"

namespace sluice::softgpu {

// success, or why the entry point `name` cannot be served at all: before cuInit, in the child of a fork, inside a
// host function, or because SLUICE_SOFTGPU_FAIL says so.
cuda::Result admission(const char* name) noexcept;

// As admission(), for the few calls that work before cuInit.
cuda::Result early_admission(const char* name) noexcept;

// success, or what SLUICE_SOFTGPU_FAIL wants of this call. Only once the machine is made.
cuda::Result failure_on_request(const char* name);

// Runs the body, which may throw Refusal and return nothing or a cuda::Result.
template <typename Body>
cuda::Result guarded(Body&& body) noexcept {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      body();
      return cuda::success;
    } else {
      return body();
    }
  } catch (const Refusal& refusal) {
    return refusal.code;
  } catch (const std::bad_alloc&) {
    return cuda::error_out_of_memory;
  } catch (...) {
    return cuda::error_unknown;
  }
}

template <typename Body>
cuda::Result answer(const char* name, Body&& body) noexcept {
  const cuda::Result admitted = admission(name);
  return admitted == cuda::success ? guarded(body) : admitted;
}

template <typename Body>
cuda::Result answer_early(const char* name, Body&& body) noexcept {
  const cuda::Result admitted = early_admission(name);
  return admitted == cuda::success ? guarded(body) : admitted;
}

}  // namespace sluice::softgpu
