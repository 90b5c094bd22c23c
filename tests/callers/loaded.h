// SPDX-License-Identifier: Apache-2.0
// libcufile as programs have it that are not linked with it: loaded by name, each function found by its name.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#define CUFILE_NO_CLOSE_V2_RENAME
#include "callers/kit.h"
#include "cufile.h"

namespace sluice::callers {

// The first of the names that the loader finds. Never unloaded, as with all who do so.
inline void* load_cufile(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  }
  wrong(std::string("libcufile cannot be loaded: ") + dlerror());
}

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) wrong(std::string("no ") + name);
}

inline void succeed(CUfileError_t answer, const char* call) {
  if (answer.err != CU_FILE_SUCCESS) wrong(std::string(call) + ": " + cufileop_status_error(answer.err));
}

}  // namespace sluice::callers
