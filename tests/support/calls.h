// SPDX-License-Identifier: Apache-2.0
// cuFile's calls as the tests like them: results that compare and print well, registrations that end with their scope,
// and the fixture that leaves the driver closed.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstddef>
#include <iosfwd>
#include <span>

#include "cufile.h"
#include "support/memory.h"
#include "support/scratch.h"

namespace sluice::support {

// The cuFile code of an answer, to compare with CU_FILE_SUCCESS and its siblings.
inline int code(CUfileError_t error) {
  return static_cast<int>(error.err);
}

// What cuFileRead or cuFileWrite answered: a count, or -1 and the errno (an errno of the system or a code 50xx).
struct Transfer {
  ssize_t count = 0;
  int error = 0;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};
void PrintTo(const Transfer& transfer, std::ostream* out);  // NOLINT(readability-identifier-naming): GoogleTest's name

// What the library answers for, 1150 unless CUFILE_VERSION_COMPAT says more; and what has changed with it.
inline int reported_version() {
  int version = 0;
  cuFileGetVersion(&version);
  return version;
}
inline std::size_t stock_direct_io_kib() {
  return reported_version() >= 1190 ? 1024 : 16384;
}

inline Transfer moved(std::size_t count) {
  return {static_cast<ssize_t>(count), 0};
}
inline Transfer failed(int error) {
  return {-1, error};
}

Transfer read_file(CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset = 0, off_t buffer_offset = 0);
Transfer write_file(CUfileHandle_t handle, const void* base, std::size_t size, off_t file_offset = 0,
                    off_t buffer_offset = 0);

// Registers a descriptor and answers the code; the handle is NULL when it failed.
int register_fd(int fd, CUfileHandle_t* handle);

// A registered handle; throws when the descriptor is refused.
class Handle {
 public:
  explicit Handle(int fd);
  explicit Handle(const Fd& fd) : Handle(fd.get()) {}
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  CUfileHandle_t get() const { return handle_; }
  // Early; the destructor then does nothing.
  void deregister();

 private:
  CUfileHandle_t handle_ = nullptr;
  bool registered_ = true;
};

// A registered buffer; throws when the memory is refused.
class Registration {
 public:
  Registration(const void* base, std::size_t size);
  explicit Registration(const Memory& memory) : Registration(memory.address(), memory.size()) {}
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  const void* base_;
};

// Success when both are equal; else says where they differ first and in how many bytes.
::testing::AssertionResult same_bytes(std::span<const unsigned char> expected, std::span<const unsigned char> actual);
// Success when all bytes have the value.
::testing::AssertionResult all_bytes(unsigned char value, std::span<const unsigned char> actual);

// A function that older libcufile do not export, or nullptr: entry<decltype(cuFileReadv)>("cuFileReadv").
void* find_entry(const char* name);
template <typename Function>
Function* entry(const char* name) {
  return reinterpret_cast<Function*>(find_entry(name));
}

// Closes the driver until its use count is 0.
void close_driver_fully();

// The memory that a test uses where the kind does not matter: device memory where there is some.
MemoryKind usual_memory();

// The base of the contract tests: the driver is closed before and after each, and where there is a device, the primary
// context of device 0 is the only one on the thread's stack.
class CufileTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

// The same, skipped where there is no device.
class DeviceTest : public CufileTest {
 protected:
  void SetUp() override;
};

}  // namespace sluice::support
