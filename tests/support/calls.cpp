// SPDX-License-Identifier: Apache-2.0
// The calls, their printing, and the fixture.
#include "support/calls.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ostream>
#include <stdexcept>
#include <string>

#include "support/cuda_driver.h"

namespace sluice::support {
namespace {

std::string text_of(int error) {
  if (error < CUFILEOP_BASE_ERR) return strerrorname_np(error) != nullptr ? strerrorname_np(error) : "?";
  const char* text = cufileop_status_error(static_cast<CUfileOpError>(error));
  return text != nullptr ? text : "?";
}

// Fails loudly where a loop over the use count would not end.
constexpr int kMostOpens = 10000;

// The stack of contexts then holds the primary context of device 0 and nothing else.
void make_device_0_current() {
  if (cuda() == nullptr) return;
  CudaContext context = nullptr;
  while (cuda()->context_current(&context) == 0 && context != nullptr) cuda()->context_pop(&context);
  cuda()->context_push(primary_context(0));
}

}  // namespace

void PrintTo(const Transfer& transfer, std::ostream* out) {
  if (transfer.count >= 0) {
    *out << transfer.count << " bytes";
    if (transfer.error != 0) *out << " (errno " << transfer.error << ")";
    return;
  }
  *out << transfer.count << " with errno " << transfer.error << " (" << text_of(transfer.error) << ")";
}

Transfer read_file(CUfileHandle_t handle, void* base, std::size_t size, off_t file_offset, off_t buffer_offset) {
  errno = 0;
  const ssize_t count = cuFileRead(handle, base, size, file_offset, buffer_offset);
  return {count, count < 0 ? errno : 0};
}

Transfer write_file(CUfileHandle_t handle, const void* base, std::size_t size, off_t file_offset, off_t buffer_offset) {
  errno = 0;
  const ssize_t count = cuFileWrite(handle, base, size, file_offset, buffer_offset);
  return {count, count < 0 ? errno : 0};
}

int register_fd(int fd, CUfileHandle_t* handle) {
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  return code(cuFileHandleRegister(handle, &description));
}

Handle::Handle(int fd) {
  const int result = register_fd(fd, &handle_);
  if (result != CU_FILE_SUCCESS) throw std::runtime_error("cuFileHandleRegister: " + std::to_string(result));
}

Handle::~Handle() {
  deregister();
}

void Handle::deregister() {
  if (registered_) cuFileHandleDeregister(handle_);
  registered_ = false;
}

Registration::Registration(const void* base, std::size_t size) : base_(base) {
  const int result = code(cuFileBufRegister(base, size, 0));
  if (result != CU_FILE_SUCCESS) throw std::runtime_error("cuFileBufRegister: " + std::to_string(result));
}

Registration::~Registration() {
  cuFileBufDeregister(base_);
}

::testing::AssertionResult same_bytes(std::span<const unsigned char> expected, std::span<const unsigned char> actual) {
  if (expected.size() != actual.size()) {
    return ::testing::AssertionFailure() << "expected " << expected.size() << " bytes, got " << actual.size();
  }
  if (std::equal(expected.begin(), expected.end(), actual.begin())) return ::testing::AssertionSuccess();
  std::size_t first = expected.size();
  std::size_t last = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == actual[i]) continue;
    first = std::min(first, i);
    last = i;
    ++count;
  }
  return ::testing::AssertionFailure() << count << " of " << expected.size() << " bytes differ, the first at " << first
                                       << " (expected " << int{expected[first]} << ", got " << int{actual[first]}
                                       << "), the last at " << last;
}

::testing::AssertionResult all_bytes(unsigned char value, std::span<const unsigned char> actual) {
  const auto other = std::find_if(actual.begin(), actual.end(), [&](unsigned char byte) { return byte != value; });
  if (other == actual.end()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "byte " << (other - actual.begin()) << " of " << actual.size() << " is "
                                       << int{*other} << ", not " << int{value};
}

void* find_entry(const char* name) {
  return dlsym(RTLD_DEFAULT, name);
}

void close_driver_fully() {
  for (int i = 0; cuFileUseCount() > 0; ++i) {
    if (i == kMostOpens) throw std::runtime_error("the use count does not fall to 0");
    cuFileDriverClose();
  }
}

MemoryKind usual_memory() {
  return cuda() != nullptr ? MemoryKind::device : MemoryKind::plain;
}

void CufileTest::SetUp() {
  close_driver_fully();
  make_device_0_current();
}

void CufileTest::TearDown() {
  close_driver_fully();
}

void DeviceTest::SetUp() {
  CufileTest::SetUp();
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device: neither a driver nor the soft GPU was found";
}

}  // namespace sluice::support
