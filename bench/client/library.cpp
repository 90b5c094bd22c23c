// SPDX-License-Identifier: Apache-2.0
#include "client/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "client/trouble.h"

namespace sluice::bench {
namespace {

std::string sentence(int code) {
  if (IS_CUFILE_ERR(code)) return fmt::format("{} ({})", code, CUFILE_ERRSTR(code));
  return fmt::format("{} ({})", code, std::strerror(code < 0 ? -code : code));
}

}  // namespace

std::string library_path() {
  // By dlsym: the address of the function itself may be that of an entry in our own table.
  void* const function = ::dlsym(RTLD_DEFAULT, "cuFileRead");
  Dl_info info{};
  if (function == nullptr || ::dladdr(function, &info) == 0) throw Trouble("no cuFileRead is mapped");
  std::array<char, PATH_MAX> resolved{};
  return ::realpath(info.dli_fname, resolved.data()) == nullptr ? info.dli_fname : resolved.data();
}

int library_version() {
  int version = 0;
  want(cuFileGetVersion(&version), "cuFileGetVersion");
  return version;
}

void want(CUfileError_t status, const char* call) {
  if (status.err == CU_FILE_SUCCESS) return;
  const std::string cuda = IS_CUDA_ERR(status) ? fmt::format(", CUDA's {}", static_cast<int>(status.cu_err)) : "";
  throw Trouble(fmt::format("{} answers {}{}", call, sentence(status.err), cuda));
}

void want_all(ssize_t answer, std::size_t size, const char* call) {
  if (answer == static_cast<ssize_t>(size)) return;
  const int error = errno;
  if (answer >= 0) throw Trouble(fmt::format("{} moved {} of {} bytes", call, answer, size));
  throw Trouble(fmt::format("{} answers {}", call, sentence(answer == -1 ? error : static_cast<int>(answer))));
}

OpenDriver::OpenDriver() {
  want(cuFileDriverOpen(), "cuFileDriverOpen");
}
OpenDriver::~OpenDriver() {
  cuFileDriverClose();
}

RegisteredFile::RegisteredFile(int descriptor) {
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = descriptor;
  want(cuFileHandleRegister(&handle_, &description), "cuFileHandleRegister");
}
RegisteredFile::~RegisteredFile() {
  cuFileHandleDeregister(handle_);
}

RegisteredBuffer::RegisteredBuffer(void* base, std::size_t size) : base_(base) {
  want(cuFileBufRegister(base, size, 0), "cuFileBufRegister");
}
RegisteredBuffer::RegisteredBuffer(RegisteredBuffer&& other) noexcept : base_(std::exchange(other.base_, nullptr)) {}
RegisteredBuffer::~RegisteredBuffer() {
  if (base_ != nullptr) cuFileBufDeregister(base_);
}

}  // namespace sluice::bench
