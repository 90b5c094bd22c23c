// cuFileRead, cuFileWrite and their vectored forms.
#include <cerrno>
#include <cstdint>

#include "api/funnel.h"
#include "core/in_flight.h"
#include "core/transfer.h"

using sluice::api::guarded_transfer;
using sluice::base::Direction;
using sluice::base::Outcome;
using sluice::core::Call;
using sluice::core::Driver;

namespace {

// The parts of memory in their order, for one range of the file: stops where a part comes back short.
Outcome transfer_parts(Direction direction, CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt,
                       off_t file_offset, unsigned flags) {
  if ((iov == nullptr && iovcnt > 0) || flags != 0) return Outcome::system_error(EINVAL);
  std::uint64_t total = 0;
  for (size_t i = 0; i < iovcnt; ++i) {
    total += iov[i].len;
    if (total > INT64_MAX || iov[i].len > INT64_MAX) return Outcome::system_error(EINVAL);
    if (iov[i].base == nullptr && iov[i].len > 0) return Outcome::system_error(EINVAL);
  }
  Driver& driver = Driver::instance();
  const sluice::core::InFlight in_flight;  // with all its parts; before the pin, as in transfer()
  const auto file = driver.files().pin(fh);
  if (!file) return sluice::core::transfer(driver, {direction, fh, iov, 0, 0, 0});  // its answer for such a handle
  std::uint64_t done = 0;
  for (size_t i = 0; i < iovcnt; ++i) {
    if (iov[i].len == 0) continue;
    const Call part{direction, fh, iov[i].base, iov[i].len, file_offset + static_cast<off_t>(done), 0};
    const Outcome moved = sluice::core::transfer(driver, *file, part);
    if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
    done += moved.count();
    if (moved.count() < iov[i].len) break;
  }
  return Outcome::bytes(done);
}

}  // namespace

extern "C" {

ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset) {
  return guarded_transfer("cuFileRead", [&] {
    const Call call{Direction::read, fh, bufPtr_base, size, file_offset, bufPtr_offset};
    return sluice::core::transfer(Driver::instance(), call);
  });
}

ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset, off_t bufPtr_offset) {
  return guarded_transfer("cuFileWrite", [&] {
    const Call call{Direction::write, fh, bufPtr_base, size, file_offset, bufPtr_offset};
    return sluice::core::transfer(Driver::instance(), call);
  });
}

ssize_t cuFileReadv(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags) {
  return guarded_transfer("cuFileReadv",
                          [&] { return transfer_parts(Direction::read, fh, iov, iovcnt, file_offset, flags); });
}

ssize_t cuFileWritev(CUfileHandle_t fh, const CUfileIOVec_t* iov, size_t iovcnt, off_t file_offset, unsigned flags) {
  return guarded_transfer("cuFileWritev",
                          [&] { return transfer_parts(Direction::write, fh, iov, iovcnt, file_offset, flags); });
}

}  // extern "C"
