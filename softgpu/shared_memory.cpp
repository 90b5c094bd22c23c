// SPDX-License-Identifier: Apache-2.0
// Behind the memory's own pages the file has one more, which tells the receiver of a descriptor what it is. It is
// sealed: no process can shorten it beneath another one.
#include "shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

#include "address_space.h"
#include "device.h"
#include "refusal.h"

namespace sluice::softgpu {

namespace {

struct Label {
  std::uint64_t magic = 0;
  std::uint64_t size = 0;
  std::int64_t device = 0;
};
constexpr std::uint64_t magic = 0x736c756963653031;  // "sluice01"
constexpr std::uint64_t label_page = 4096;           // of the file, where no device memory is
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Label label_of(int file) {
  struct stat status {};
  Label label;
  const int found = ::fcntl(file, F_GET_SEALS);
  require(found >= 0 && (found & seals) == seals && ::fstat(file, &status) == 0);
  const auto end = static_cast<std::uint64_t>(status.st_size);
  require(end > label_page && (end - label_page) % device_page == 0);
  const ssize_t got = ::pread(file, &label, sizeof label, static_cast<off_t>(end - label_page));
  require(got == static_cast<ssize_t>(sizeof label) && label.magic == magic && label.size == end - label_page);
  return label;
}

}  // namespace

SharedMemory::SharedMemory(int device, std::uint64_t size)
    : file_(::memfd_create("sluice-softgpu-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING)), size_(size), device_(device) {
  require(size + label_page <= largest_file(), cuda::error_out_of_memory);
  require(file_.valid() && ::ftruncate(file_.get(), static_cast<off_t>(size + label_page)) == 0,
          cuda::error_operating_system);
  const Label label{magic, size, device};
  const ssize_t put = ::pwrite(file_.get(), &label, sizeof label, static_cast<off_t>(size));
  require(put == static_cast<ssize_t>(sizeof label), cuda::error_operating_system);
  require(::fcntl(file_.get(), F_ADD_SEALS, seals) == 0, cuda::error_operating_system);
  bytes_ = map_shared(file_.get(), 0, size_);
}

SharedMemory::SharedMemory(int descriptor) : file_(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) {
  require(file_.valid(), errno == EBADF ? cuda::error_invalid_value : cuda::error_operating_system);
  const Label label = label_of(file_.get());
  size_ = label.size;
  device_ = device_of(static_cast<cuda::Device>(label.device)).ordinal();
  bytes_ = map_shared(file_.get(), 0, size_);
}

SharedMemory::~SharedMemory() {
  ::munmap(bytes_, size_);
}

int SharedMemory::share() const {
  const int fresh = ::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0);
  require(fresh >= 0, cuda::error_operating_system);
  return fresh;
}

}  // namespace sluice::softgpu
