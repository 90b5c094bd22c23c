// SPDX-License-Identifier: Apache-2.0
// The words of the command line, before the parser: which belong to a program that is run, and which subcommand was
// meant.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string_view>

namespace sluice::tools {

struct Words {
  std::span<char*> own;      // what the parser sees
  std::span<char*> command;  // of `run`: the program and its arguments, untouched
};

// `run`, `stats` and `trace` stop reading at "--" or at the first word that is no option: the rest belongs to the
// program. Numbers are a process's, or an option's, and belong to `stats` and `trace`.
Words split(std::span<char*> words);

// A first word that is no subcommand is answered by the nearest one, where one is near. Throws ToolError.
void want_subcommand(const CLI::App& app, std::string_view word);

}  // namespace sluice::tools
