// SPDX-License-Identifier: Apache-2.0
#include "cpu_side/subject.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "client/trouble.h"

namespace sluice::bench {

ScratchFile::ScratchFile() {
  const char* folder = std::getenv("TMPDIR");
  std::string name = std::string(folder == nullptr ? "/tmp" : folder) + "/sluice-cpu-side-XXXXXX";
  descriptor_ = ::mkstemp(name.data());
  if (descriptor_ < 0) throw Trouble(name + ": " + std::strerror(errno));
  ::unlink(name.c_str());
  const std::vector<char> bytes(size, 'x');
  want_all(::pwrite(descriptor_, bytes.data(), size, 0), size, "pwrite");
}
ScratchFile::~ScratchFile() {
  ::close(descriptor_);
}

Subject::Subject(Memory memory) : handle_(file_.descriptor()), host_(piece * entries), memory_(host_.data()) {
  if (memory == Memory::device) {
    gpu_.emplace();
    device_.emplace(*gpu_, piece * entries);
    memory_ = device_->pointer();
  }
}
Subject::~Subject() {
  if (batch_ != nullptr) cuFileBatchIODestroy(batch_);
}

off_t Subject::next() {
  return offset_ = (offset_ + static_cast<off_t>(piece)) % static_cast<off_t>(ScratchFile::size);
}

void Subject::read() {
  want_all(cuFileRead(handle_.get(), memory_, piece, next(), 0), piece, "cuFileRead");
}
void Subject::write() {
  want_all(cuFileWrite(handle_.get(), memory_, piece, next(), 0), piece, "cuFileWrite");
}
void Subject::set_up_batch() {
  want(cuFileBatchIOSetUp(&batch_, entries), "cuFileBatchIOSetUp");
  entries_.resize(entries);
  events_.resize(entries);
  for (unsigned i = 0; i < entries; ++i) {
    entries_[i].mode = CUFILE_BATCH;
    entries_[i].fh = handle_.get();
    entries_[i].opcode = CUFILE_READ;
    entries_[i].u.batch.devPtr_base = memory_;
    entries_[i].u.batch.devPtr_offset = static_cast<off_t>(i * piece);
    entries_[i].u.batch.size = piece;
  }
}
void Subject::read_batch() {
  if (batch_ == nullptr) set_up_batch();
  for (CUfileIOParams_t& entry : entries_) entry.u.batch.file_offset = next();
  want(cuFileBatchIOSubmit(batch_, entries, entries_.data(), 0), "cuFileBatchIOSubmit");
  for (unsigned left = entries; left > 0;) {
    unsigned count = left;
    want(cuFileBatchIOGetStatus(batch_, left, &count, events_.data(), nullptr), "cuFileBatchIOGetStatus");
    for (unsigned i = 0; i < count; ++i) {
      want_all(static_cast<ssize_t>(events_[i].ret), piece, "an entry of the batch");
    }
    left -= count;
  }
}
void Subject::register_file() {
  const RegisteredFile again(other_.descriptor());
}
void Subject::register_buffer() {
  const RegisteredBuffer again(memory_, piece);
}

}  // namespace sluice::bench
