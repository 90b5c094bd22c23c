// SPDX-License-Identifier: Apache-2.0
// cuFileRead, cuFileWrite and their vectored forms.
#include <cerrno>

#include "api/funnel.h"
#include "batch/vectored.h"
#include "request/run.h"

using sluice::api::guarded_transfer;
using sluice::base::Direction;
using sluice::base::Outcome;
using sluice::process::Process;
using sluice::request::Call;

namespace {

Outcome transfer_parts(Direction direction, CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt,
                       off_t file_offset, unsigned flags) {
  if ((iov == nullptr && iovcnt > 0) || flags != 0) return Outcome::system_error(EINVAL);
  const sluice::batch::VectoredCall call{direction, fh, {iov, iovcnt}, file_offset};
  return sluice::batch::transfer_vectored(Process::instance(), call);
}

}  // namespace

extern "C" {

ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset) {
  const Call call{Direction::read, fh, bufPtr_base, size, file_offset, bufPtr_offset};
  return guarded_transfer(
      "cuFileRead", [&] { return sluice::request::run(Process::instance(), call); }, call);
}

ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset) {
  const Call call{Direction::write, fh, bufPtr_base, size, file_offset, bufPtr_offset};
  return guarded_transfer(
      "cuFileWrite", [&] { return sluice::request::run(Process::instance(), call); }, call);
}

ssize_t cuFileReadv(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags) {
  return guarded_transfer(
      "cuFileReadv", [&] { return transfer_parts(Direction::read, fh, iov, iovcnt, file_offset, flags); },
      Call{.handle = fh});
}

ssize_t cuFileWritev(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags) {
  return guarded_transfer(
      "cuFileWritev", [&] { return transfer_parts(Direction::write, fh, iov, iovcnt, file_offset, flags); },
      Call{.direction = Direction::write, .handle = fh});
}

}  // extern "C"
