// SPDX-License-Identifier: Apache-2.0
// A file that a job reads or writes: open, of a known size, and known to cuFile where cuFile moves the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cufile.h"
#include "gdsio/settings.h"

namespace sluice::tools {

class Target {
 public:
  // Opens, or for writing makes, the file. `begin` and `size`: the part of it that the job works on; a size of 0 asks
  // for all that is there; `where`: the flags that name it, for a sentence about how to make it. Throws ToolError.
  Target(const Settings& settings, std::string path, std::uint64_t begin, std::uint64_t size, const std::string& where);
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  ~Target();

  const std::string& path() const noexcept { return path_; }
  int descriptor() const noexcept { return descriptor_; }
  CUfileHandle_t handle() const noexcept { return handle_; }  // nullptr: cuFile has no part in it
  std::uint64_t begin() const noexcept { return begin_; }
  std::uint64_t size() const noexcept { return size_; }
  bool is_direct() const noexcept { return direct_; }

  // What a write has made of the file stays when this ends. Without it a file that was made goes, and one that was
  // made longer gets its old end back, unless another process has changed its size or put another one there.
  void keep() noexcept { made_ = lengthened_ = false; }

  // Writes back what is dirty and drops the file's pages; a note on stderr tells of those that stay.
  void make_cold() const;

 private:
  void open_file(const Settings& settings, const std::string& where);
  void settle_size(const Settings& settings);
  void register_file();
  void give_back() noexcept;
  void undo() noexcept;

  std::string path_;
  std::uint64_t begin_;
  std::uint64_t size_;
  int descriptor_ = -1;
  bool direct_ = false;
  bool made_ = false;
  bool lengthened_ = false;
  std::uint64_t old_end_ = 0;
  std::uint64_t new_end_ = 0;  // of a write: the file's size, as this one wants it
  CUfileHandle_t handle_ = nullptr;
};

// The targets of a job: its one file, or one file of its folder for each thread or entry of the batch.
std::vector<std::unique_ptr<Target>> open_targets(const Settings& settings, const JobSettings& job);

}  // namespace sluice::tools
