// SPDX-License-Identifier: Apache-2.0
// The operations find the one file by a pointer, as their own argument is the library's handle.
#include "contract/life/gated_file.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sluice::life {

using namespace support;

namespace {

GatedFile* current = nullptr;

}  // namespace

GatedFile::GatedFile(std::size_t length) : content_(random_bytes(length, 0x6a7e)) {
  // The name goes at once: a process that ends in the middle of a test leaves nothing behind.
  file_.unlink();
  current = this;
  operations_.read = read;
  operations_.write = write;
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
  description.handle.fd = fd_.get();
  description.fs_ops = &operations_;
  if (code(cuFileHandleRegister(&handle_, &description)) != CU_FILE_SUCCESS) {
    throw std::runtime_error("a file with operations of its own is refused");
  }
}

GatedFile::~GatedFile() {
  open();
  deregister();
  current = nullptr;
}

void GatedFile::deregister() {
  if (handle_ != nullptr) cuFileHandleDeregister(std::exchange(handle_, nullptr));
}

void GatedFile::wait_until_inside(int transfers) const {
  for (int seen = inside_; seen < transfers; seen = inside_) inside_.wait(seen);
}

void GatedFile::open() {
  open_ = true;
  open_.notify_all();
}

void GatedFile::pass(const void* buffer) {
  if (visitor_) visitor_(buffer);
  ++inside_;
  inside_.notify_all();
  open_.wait(false);
}

ssize_t GatedFile::read(void* /*handle*/, char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* /*info*/) {
  current->pass(buffer);
  const Bytes& content = current->content_;
  const std::size_t at = std::min(static_cast<std::size_t>(offset), content.size());
  const std::size_t count = std::min(size, content.size() - at);
  std::memcpy(buffer, content.data() + at, count);
  return static_cast<ssize_t>(count);
}

ssize_t GatedFile::write(void* /*handle*/, const char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* /*info*/) {
  current->pass(buffer);
  Bytes& content = current->content_;
  const std::size_t at = std::min(static_cast<std::size_t>(offset), content.size());
  const std::size_t count = std::min(size, content.size() - at);
  std::memcpy(content.data() + at, buffer, count);
  return static_cast<ssize_t>(count);
}

}  // namespace sluice::life
