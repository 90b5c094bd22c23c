// SPDX-License-Identifier: Apache-2.0
// A file as a careful cuFile program opens it.
#include "common/registered_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {
namespace {

std::string remedy_for(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "Check the spelling of the path.";
    case EACCES:
    case EPERM:
      return "Ask the owner for the permission, or run this as a user who has it.";
    case EROFS:
      return "Leave --write out, or mount the file system for writing.";
    default:
      return "Try to read the file with cat: the cause lies outside Sluice.";
  }
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  return "a special file";
}

constexpr const char* log_remedy =
    "For the whole story, set CUFILE_LOGGING_LEVEL=DEBUG and CUFILE_LOGFILE_PATH=/tmp/cufile.log and try again.";

// Before it is opened: opening a pipe would wait for its other end.
void want_storage(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    throw ToolError(fmt::format("{} cannot be opened: {}.", printable(path), system_words(errno)), remedy_for(errno));
  }
  if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) return;
  throw ToolError(fmt::format("{} is {}; cuFile works on regular files and block devices.", printable(path),
                              kind_of(status.st_mode)),
                  "Name a regular file or a block device.");
}

}  // namespace

void check(CUfileError_t result, const char* what) {
  if (result.err == CU_FILE_SUCCESS) return;
  const std::string cause = sluice_last_error();
  throw ToolError(fmt::format("{}: {} (cuFile error {}).", what,
                              cause.empty() ? cufileop_status_error(result.err) : cause, static_cast<int>(result.err)),
                  log_remedy);
}

RegisteredFile::RegisteredFile(const std::string& path, Access access) {
  want_storage(path);
  const int flags = (access == Access::read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC;
  fd_ = open(path.c_str(), flags | O_DIRECT);
  direct_ = fd_ >= 0;
  if (fd_ < 0 && errno == EINVAL) fd_ = open(path.c_str(), flags);
  if (fd_ < 0) {
    throw ToolError(fmt::format("{} cannot be opened: {}.", printable(path), system_words(errno)), remedy_for(errno));
  }
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd_;
  try {
    check(cuFileHandleRegister(&handle_, &description), "the file cannot be registered");
  } catch (...) {
    close(fd_);
    throw;
  }
}

RegisteredFile::~RegisteredFile() {
  cuFileHandleDeregister(handle_);
  close(fd_);
}

sluice_explanation_t RegisteredFile::explain(const void* memory, int gpu, CUfileOpcode_t opcode, std::size_t size,
                                             off_t offset) const {
  sluice_explanation_t answer{};
  check(sluice_explain(handle_, memory, gpu, opcode, size, offset, &answer),
        "the library cannot explain this transfer");
  return answer;
}

std::vector<FileReason> RegisteredFile::reasons(const void* memory, int gpu, CUfileOpcode_t opcode, std::size_t size,
                                                off_t offset) const {
  std::vector<FileReason> found;
  const auto take = [](const sluice_explanation_t* words, const char* facts, void* context) {
    static_cast<std::vector<FileReason>*>(context)->push_back({*words, facts});
  };
  check(sluice_explain_all(handle_, memory, gpu, opcode, size, offset, take, &found),
        "the library cannot explain this transfer");
  return found;
}

}  // namespace sluice::tools
