// SPDX-License-Identifier: Apache-2.0
// gdscheck -f FILE: one registration, and which way the file's bytes would go.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "common/driver.h"
#include "common/error.h"
#include "common/text.h"
#include "gdscheck/sections.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT)) {
    if (fd_ < 0 && errno == EINVAL) fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) {
      throw ToolError(fmt::format("{} cannot be opened: {}.", printable(path), system_words(errno)),
                      "Check the path and its permissions.");
    }
  }
  ~OpenFile() { close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

}  // namespace

void check_file(const std::string& path) {
  const bool has_device = choose_driver().kind != DriverKind::none;
  const OpenFile file(path);
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = file.get();
  CUfileHandle_t handle = nullptr;
  if (cuFileHandleRegister(&handle, &description).err != CU_FILE_SUCCESS) {
    throw ToolError(fmt::format("GDS register failed for {}.", printable(path)), sluice_last_error());
  }
  fmt::print("GDS register success\n");
  sluice_explanation_t way{};
  constexpr std::size_t size = 1 << 20;
  if (has_device && sluice_explain(handle, nullptr, 0, CUFILE_READ, size, 0, &way).err == CU_FILE_SUCCESS) {
    fmt::print("path {}, because {}: {}\n", way.path_name, way.reason_name, way.sentence);
  }
  cuFileHandleDeregister(handle);
}

}  // namespace sluice::tools
