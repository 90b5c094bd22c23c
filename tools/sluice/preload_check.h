// SPDX-License-Identifier: Apache-2.0
// Can a library be preloaded into this program at all? Answered by looking, before it is started.
#pragma once

#include <optional>
#include <string>

namespace sluice::tools {

struct Obstacle {
  std::string sentence;
  std::string remedy;
};

// The file that executing `command` would run: a path as it is, a bare name looked up in PATH. nullopt: there is none.
std::optional<std::string> find_program(const std::string& command);

// What keeps the loader from preloading a library into `program` (a path): it is static, or it runs with privileges
// that its caller lacks. Scripts are followed to their interpreter. nullopt: nothing that can be seen.
std::optional<Obstacle> preload_obstacle(const std::string& program);

// What `program` (a path) needs to be executed, and is not there: a script's interpreter, or the loader of either.
std::optional<std::string> missing_interpreter(const std::string& program);

// Why a program that could be executed ended without our library in it. `status` is as waitpid() gave it.
Obstacle cause_of_absence(const std::string& program, int status);

}  // namespace sluice::tools
