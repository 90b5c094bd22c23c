// SPDX-License-Identifier: Apache-2.0
// Keeping the cause. The I/O path stores a number; the sentence is made when the program asks.
#include "api/funnel.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "gpu/cuda_api.h"
#include "observe/log.h"
#include "request/answer.h"
#include "sluice.h"

namespace sluice::api {

namespace {

struct LastError {
  const char* call = nullptr;  // null: no call of this thread has failed
  int error = 0;               // of a transfer; 0: `text` has the sentence
  std::array<char, 512> text{};
};
thread_local LastError last_error;

void keep(const char* call, const char* sentence) noexcept {
  last_error.call = call;
  last_error.error = 0;
  std::snprintf(last_error.text.data(), last_error.text.size(), "%s: %s", call, sentence);
  observe::log(config::LogLevel::error, "api", last_error.text.data());
}

CUfileError_t error_of(CUfileOpError code, int cuda = 0) noexcept {
  return {code, static_cast<CUresult>(code == CU_FILE_CUDA_DRIVER_ERROR ? cuda : 0)};
}

// The sentence for a refused transfer, where the code's own text does not say what to do.
const char* sentence_of(int error) noexcept {
  switch (error) {
    case EPERM:
      return "the descriptor only names its file (O_PATH)";
    case EINVAL:
      return "the handle is none that cuFileHandleRegister gave, the buffer is a null pointer, or flags, lengths or an "
             "offset make no sense";
    case EBADF:
      return "the file's descriptor was closed, or its number belongs to another file now";
    case EFAULT:
      return gpu::driver_is_lost()
                 ? "there is no memory at the address given; memory of a device stays with the process "
                   "that allocated it, a child of fork cannot use it"
                 : "there is no memory at the address given";
    case CU_FILE_HANDLE_NOT_REGISTERED:
      return "the handle was deregistered, or the driver was closed since";
    case CU_FILE_INVALID_VALUE:
      return "an offset is negative, or the size is larger than any file";
    case CU_FILE_INVALID_FILE_OPEN_FLAG:
      return "the file was not opened for this direction: open it with O_RDWR";
    case CU_FILE_INVALID_MAPPING_RANGE:
      return "the range reaches beyond the registered buffer";
    case CU_FILE_CUDA_POINTER_RANGE_ERROR:
      return "the range reaches beyond the allocation";
    case CU_FILE_INVALID_CONTEXT_ERROR:
      return "the CUDA context that owns the memory is gone";
    case CU_FILE_IO_ERROR:
      return "SLUICE_VERIFY found that file and memory differ; the log says where";
    default:
      return error > CUFILEOP_BASE_ERR ? CUFILE_ERRSTR(error) : nullptr;
  }
}

void write_sentence(LastError& last) noexcept {
  const char* sentence = sentence_of(last.error);
  std::array<char, 128> system{};
  if (sentence == nullptr) sentence = ::strerror_r(last.error, system.data(), system.size());
  std::snprintf(last.text.data(), last.text.size(), "%s: %s (%d)", last.call, sentence, last.error);
  last.error = 0;
}

}  // namespace

CUfileError_t report(const char* call, const base::Failure& failure) noexcept {
  keep(call, failure.what());
  return error_of(failure.code(), failure.cause());
}

CUfileError_t report_no_memory(const char* call) noexcept {
  keep(call, "out of memory");
  return error_of(CU_FILE_NOMEM_ERROR);
}

CUfileError_t report_unknown(const char* call) noexcept {
  keep(call, "an internal error; please report it with the log at level TRACE");
  return error_of(CU_FILE_INTERNAL_ERROR);
}

void report(const char* call, base::Outcome refusal) noexcept {
  last_error.call = call;
  last_error.error = refusal.error();
  if (observe::log_enabled(config::LogLevel::error)) {
    write_sentence(last_error);
    observe::log(config::LogLevel::error, "api", last_error.text.data());
  }
}

ssize_t deliver(const char* call, base::Outcome outcome, const request::Call& asked) noexcept {
  if (outcome.ok()) return static_cast<ssize_t>(outcome.count());
  report(call, outcome);
  errno = request::answer_to(asked, outcome.error());
  return -1;
}

}  // namespace sluice::api

extern "C" const char* sluice_last_error(void) {
  using sluice::api::last_error;
  if (last_error.call == nullptr) return "";
  if (last_error.error != 0) sluice::api::write_sentence(last_error);
  return last_error.text.data();
}
