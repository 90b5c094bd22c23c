// SPDX-License-Identifier: Apache-2.0
// cuFileReadAsync, cuFileWriteAsync, cuFileStreamRegister, cuFileStreamDeregister.
#include <cerrno>

#include "api/funnel.h"
#include "stream/streams.h"

using sluice::api::guarded;
using sluice::base::Direction;
using sluice::base::Failure;
using sluice::process::Process;
using sluice::stream::LateCall;

namespace {

void run(CUstream stream, const LateCall& call) {
  Process& process = Process::instance();
  const bool complete = call.base != nullptr && call.size != nullptr && call.file_offset != nullptr &&
                        call.buffer_offset != nullptr && call.moved != nullptr;
  if (!complete) {
    process.session_or_open();
    if (call.moved != nullptr) *call.moved = -EINVAL;  // for those that look at nothing else
    throw Failure(CU_FILE_INVALID_VALUE, "an argument is a null pointer");
  }
  process.streams().submit(process, stream, call);
}

}  // namespace

extern "C" {

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                              off_t* bufPtr_offset_p, ssize_t* bytes_read_p, CUstream stream) {
  return guarded("cuFileReadAsync", [&] {
    run(stream, {Direction::read, fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_read_p});
  });
}

CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p, off_t* file_offset_p,
                               off_t* bufPtr_offset_p, ssize_t* bytes_written_p, CUstream stream) {
  return guarded("cuFileWriteAsync", [&] {
    run(stream, {Direction::write, fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_written_p});
  });
}

CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags) {
  return guarded("cuFileStreamRegister", [&] { Process::instance().streams().add(stream, flags); });
}

CUfileError_t cuFileStreamDeregister(CUstream stream) {
  return guarded("cuFileStreamDeregister", [&] { Process::instance().streams().remove(stream); });
}

}  // extern "C"
