// SPDX-License-Identifier: Apache-2.0
// What the tests of the direct path share: files, device memory that I/O can reach, and what the library counted.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "sluice.h"
#include "support/calls.h"

namespace sluice::direct {

using support::Bytes;

inline constexpr std::size_t kBlock = 4096;
inline constexpr std::size_t kMebibyte = std::size_t{1} << 20U;

// What went which way since the process started.
struct Count {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Count&, const Count&) = default;
};
void PrintTo(const Count& count, std::ostream* out);  // NOLINT(readability-identifier-naming): GoogleTest's name
Count counted(sluice_path_t path, sluice_reason_t reason);
Count operator-(Count now, Count before);

// Counts from its construction on.
class Meter {
 public:
  Meter(sluice_path_t path, sluice_reason_t reason) : path_(path), reason_(reason), before_(counted(path, reason)) {}
  Count so_far() const { return counted(path_, reason_) - before_; }

 private:
  sluice_path_t path_;
  sluice_reason_t reason_;
  Count before_;
};

// An O_DIRECT file and its handle.
class OpenFile {
 public:
  explicit OpenFile(const support::ScratchFile& file, int flags = O_RDWR | O_DIRECT)
      : fd_(file.open(flags)), handle_(fd_) {}
  CUfileHandle_t handle() const { return handle_.get(); }
  int fd() const { return fd_.get(); }

 private:
  support::Fd fd_;
  support::Handle handle_;
};

sluice_explanation_t explain(CUfileHandle_t handle, const void* memory, std::size_t size = 0, off_t offset = 0,
                             CUfileOpcode_t opcode = CUFILE_READ);

// A pair as sluice_direct_pairs tells it.
struct Pair {
  int gpu = -1;
  std::string reason;
  std::string sentence;
  std::uint64_t transfers = 0;
  std::uint64_t polled = 0;
  std::uint64_t rerouted = 0;
};
std::vector<Pair> pairs();

// Skipped where the soft GPU has no backing: on a real driver, or when it was not asked for.
class DirectTest : public support::DeviceTest {
 protected:
  void SetUp() override;
};

}  // namespace sluice::direct
