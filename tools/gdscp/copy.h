// SPDX-License-Identifier: Apache-2.0
// A file copied to another one through GPU memory. What gdscp and `sluice cp` do.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace sluice::tools {

struct CopyOptions {
  std::string source;
  std::string destination;  // a file, or a folder to put it into
  std::string gpu = "0";
  std::string piece = "16M";  // of each transfer
  std::string threads = "4";
  bool verify = false;
  bool json = false;
  bool quiet = false;
};

// Declares source, destination and flags; the parser writes into `options`.
void declare_copy_options(CLI::App& app, CopyOptions& options);

// Copies and tells of it, with `json` of a failure, too. The destination appears, or is replaced, when the copy is
// whole; before that, and after an error, it is as it was. Holes stay holes; mode bits are kept. Throws ToolError.
void copy_file(const CopyOptions& options, const char* tool);

// What --help of both says behind the flags.
extern const char* const copy_lesson;

}  // namespace sluice::tools
