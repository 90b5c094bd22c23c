// SPDX-License-Identifier: Apache-2.0
// How this tool, and the library that was built with it, were built.
#pragma once

#include <string>

namespace sluice::tools {

struct BuildFacts {
  std::string description;  // what git calls the sources; "unknown" where nothing tells
  std::string compiler;     // its name and version
  std::string machine;      // x86_64, aarch64
  std::string type;         // CMake's build type
  std::string flags;        // as given to the compiler for the library
  std::string sanitizers;   // as given to -fsanitize=, empty without
  bool by_folders;          // SLUICE_UNITY
  bool reproducible;        // SLUICE_REPRODUCIBLE
};

BuildFacts build_facts();

// In a source of its own, which alone changes with every commit.
const char* build_description();

}  // namespace sluice::tools
