// SPDX-License-Identifier: Apache-2.0
// The libcufile.so.0 that the loader has chosen, and what is registered with it. Everything here throws Trouble.
#pragma once

#include <cstddef>
#include <string>

#include "cufile.h"

namespace sluice::bench {

// The file that the library was mapped from, links resolved.
std::string library_path();
// 1150 for 1.15.
int library_version();

void want(CUfileError_t status, const char* call);
// A transfer's answer has to be all that was asked for.
void want_all(ssize_t answer, std::size_t size, const char* call);

// The driver, open as long as this lives.
class OpenDriver {
 public:
  OpenDriver();
  OpenDriver(const OpenDriver&) = delete;
  OpenDriver& operator=(const OpenDriver&) = delete;
  ~OpenDriver();
};

class RegisteredFile {
 public:
  explicit RegisteredFile(int descriptor);
  RegisteredFile(const RegisteredFile&) = delete;
  RegisteredFile& operator=(const RegisteredFile&) = delete;
  ~RegisteredFile();
  CUfileHandle_t get() const { return handle_; }

 private:
  CUfileHandle_t handle_ = nullptr;
};

class RegisteredBuffer {
 public:
  RegisteredBuffer(void* base, std::size_t size);
  RegisteredBuffer(RegisteredBuffer&& other) noexcept;
  RegisteredBuffer& operator=(RegisteredBuffer&&) = delete;
  ~RegisteredBuffer();

 private:
  void* base_;
};

}  // namespace sluice::bench
