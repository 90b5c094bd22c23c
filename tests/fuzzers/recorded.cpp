// SPDX-License-Identifier: Apache-2.0
// A tar file from outside: unpacking it never writes outside its folder.
#include <filesystem>
#include <stdexcept>

#include "doctor/tar.h"
#include "input.h"

using namespace sluice;

namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "sluice-fuzz-XXXXXX";
    fuzz::require(::mkdtemp(pattern.data()) != nullptr, "no temporary folder can be made\n");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile tar;
  static const TemporaryFolder top;
  tar.holds(fuzz::text_of(data, size));
  const std::filesystem::path inside = top.path() / "inside";
  std::filesystem::create_directory(inside);
  try {
    doctor::unpack_tar(tar.path(), inside);
  } catch (const std::runtime_error&) {  // refused, with why
  }
  std::filesystem::remove_all(inside);
  fuzz::require(std::filesystem::is_empty(top.path()), "something was written outside the folder\n");
  return 0;
}
