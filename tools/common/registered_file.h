// SPDX-License-Identifier: Apache-2.0
// A file as a careful cuFile program opens it: with O_DIRECT where the file system takes it, registered, and asked
// which way its bytes go.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice.h"

namespace sluice::tools {

enum class Access : std::uint8_t { read_only, read_write };

// Throws ToolError when a cuFile call did not succeed; `what` begins the sentence: "the driver cannot be opened".
void check(CUfileError_t result, const char* what);

// One reason, and all the facts.
struct FileReason {
  sluice_explanation_t words{};
  std::string facts;
};

class RegisteredFile {
 public:
  // Opens `path`, which must be a regular file or a block device, and registers it. Throws ToolError.
  RegisteredFile(const std::string& path, Access access);
  RegisteredFile(const RegisteredFile&) = delete;
  RegisteredFile& operator=(const RegisteredFile&) = delete;
  ~RegisteredFile();

  CUfileHandle_t handle() const noexcept { return handle_; }
  bool direct() const noexcept { return direct_; }

  // The way of a transfer between this file and `memory`, or memory of device `gpu` where that is nullptr.
  sluice_explanation_t explain(const void* memory, int gpu, CUfileOpcode_t opcode, std::size_t size,
                               off_t offset) const;
  // Every reason, never none; a gpu of SLUICE_GPU_SUPPOSED stands for one that is not there.
  std::vector<FileReason> reasons(const void* memory, int gpu, CUfileOpcode_t opcode, std::size_t size,
                                  off_t offset) const;

 private:
  int fd_ = -1;
  CUfileHandle_t handle_ = nullptr;
  bool direct_ = false;
};

}  // namespace sluice::tools
