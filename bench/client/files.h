// SPDX-License-Identifier: Apache-2.0
// The file that rows read, whose bytes follow the pattern, and the file beside it that rows write; sets of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::bench {

enum class Opened { buffered, direct };

// A file of ours, open for reading and writing as long as this lives.
class TestFile {
 public:
  TestFile(std::string path, Opened how, std::uint64_t size);
  TestFile(TestFile&& other) noexcept;
  TestFile& operator=(TestFile&&) = delete;
  ~TestFile();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  bool is_direct() const { return how_ == Opened::direct; }
  std::uint64_t size() const { return size_; }  // of the part that rows may use
  // What offsets, sizes and addresses of plain transfers have to be multiples of.
  std::uint64_t alignment() const { return is_direct() ? 4096 : 1; }

 private:
  std::string path_;
  Opened how_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

// Makes the file of `size` bytes of the pattern, unless it is there already; a buffered one is then read once, so that
// the page cache holds it. `size` 0: any size will do, and the file has to be there. Never touches a file that is none
// of ours. Throws Trouble.
TestFile source_file(const std::string& path, Opened how, std::uint64_t size);

// The same for the file that is written: `path` with ".written" behind it. Its last block tells that it is ours.
TestFile target_file(const std::string& path, Opened how, std::uint64_t size);

// So many files of that size in a folder beside `path`, made unless they are there, and read once so that the page
// cache holds them. The bytes of each are those of a salt of its own. Throws Trouble.
std::vector<std::string> file_set(const std::string& path, std::uint64_t size, std::size_t count);
std::uint64_t salt_in_set(std::size_t index);

}  // namespace sluice::bench
