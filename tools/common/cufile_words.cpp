// SPDX-License-Identifier: Apache-2.0
#include "common/cufile_words.h"

#include <fmt/format.h>

#include <cerrno>

#include "common/driver.h"
#include "common/error.h"
#include "common/text.h"
#include "common/thread_group.h"
#include "common/written.h"
#include "cufile.h"

namespace sluice::tools {

std::string cufile_words(int code) {
  return fmt::format("{} ({})", cufileop_status_error(static_cast<CUfileOpError>(code)), code);
}

std::string cause_words(long long negated) {
  const long long code = -negated;
  return IS_CUFILE_ERR(code) ? cufile_words(static_cast<int>(code)) : system_words(static_cast<int>(code));
}

const char* remedy_for_cause(long long negated) {
  switch (-negated) {
    case ENOSPC:
    case EDQUOT:
      return "Make room on the file system, or see that no quota is reached.";
    case EMFILE:
      return "Raise the limit of open files (ulimit -n).";
    case ENFILE:
      return "See which program has so many files open, or raise fs.file-max.";
    case ENAMETOOLONG:
      return "Use a shorter name.";
    case EAGAIN:
    case ENOMEM:
    case CU_FILE_NOMEM_ERROR:
      return remedy_for_threads;
    default:
      return nullptr;
  }
}

bool note_soft_gpu(const char* tool) {
  const Driver& driver = choose_driver();
  if (driver.kind != DriverKind::soft) return false;
  tell("{}: note: this is the soft GPU ({}): the CPU copies, and the numbers say nothing about a GPU.\n", tool,
       driver.why_not_real);
  return true;
}

OpenDriver::OpenDriver() {
  const CUfileError_t result = cuFileDriverOpen();
  if (result.err == CU_FILE_SUCCESS) return;
  tell("cuFile driver open error: {}\n", static_cast<int>(result.err));
  throw ToolError(fmt::format("The cuFile driver cannot be opened: {}.", cufile_words(result.err)),
                  "`gdscheck -p` tells more.");
}

OpenDriver::~OpenDriver() {
  cuFileDriverClose();
}

}  // namespace sluice::tools
