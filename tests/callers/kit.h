// SPDX-License-Identifier: Apache-2.0
// What the programs of this folder share, each of which plays a real caller of cuFile: memory that can be looked at,
// files, bytes that are known, and an end that says what was wrong. Nothing here calls cuFile: how that is loaded and
// called is each caller's own manner.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/cuda_driver.h"
#include "support/memory.h"
#include "support/random.h"
#include "support/scratch.h"

namespace sluice::callers {

using support::Bytes;
using support::Fd;
using support::Memory;
using support::MemoryKind;

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;

// A caller that finds something wrong throws; so does one that cannot play here, with the reason.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] void wrong(const std::string& what);
inline void require(bool good, const char* what) {
  if (!good) wrong(what);
}
// Every byte, or wrong with the place of the first that differs.
void require_same(std::span<const unsigned char> expected, std::span<const unsigned char> found,
                  const std::string& what);

// Makes the primary context of a device current, as the CUDA runtime does for each thread that uses it.
void use_device(int device);

// A file that is opened as this caller opens it; skips where the file system refuses O_DIRECT.
Fd open_file(const std::string& path, int flags);
// What the file holds, by plain reading.
Bytes content_of(const std::string& path);

// Runs task(0) ... task(count - 1) on a pool of threads with a device, and throws what the first of them threw.
void on_pool(std::size_t threads, std::size_t count, const std::function<void(std::size_t)>& task);

// main(): PROGRAM DIRECTORY [PART]. Plays in a folder of its own in DIRECTORY that is removed at the end. The status is
// 0, or 1 with what was wrong, or 77 with the reason why it was skipped.
struct Place {
  std::string folder;
  std::string part;  // which of the caller's parts to play; empty for the usual one
  std::string at(const std::string& name) const { return folder + "/" + name; }
};
int play(int argc, char** argv, const std::function<void(const Place&)>& caller);

}  // namespace sluice::callers
