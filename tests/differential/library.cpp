// SPDX-License-Identifier: Apache-2.0
#include "differential/library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace sluice::differential {
namespace {

template <typename Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
}

}  // namespace

Library load_library(const std::string& path) {
  void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    std::fprintf(stderr, "player: %s\n", dlerror());
    std::exit(2);
  }
  Library library;
#define SLUICE_FIND(member, symbol, result, parameters) find(opened, symbol, library.member);
  SLUICE_CUFILE_ENTRIES(SLUICE_FIND)
#undef SLUICE_FIND
  return library;
}

}  // namespace sluice::differential
