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

Subject::Subject(Memory memory) : handle_(file_.descriptor()), host_(piece), memory_(host_.data()) {
  if (memory == Memory::device) {
    gpu_.emplace();
    device_.emplace(*gpu_, piece);
    memory_ = device_->pointer();
  }
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
void Subject::register_file() {
  const RegisteredFile again(other_.descriptor());
}
void Subject::register_buffer() {
  const RegisteredBuffer again(memory_, piece);
}

}  // namespace sluice::bench
