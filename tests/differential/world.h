// SPDX-License-Identifier: Apache-2.0
// What scripts work on: memory of every kind and files of every sort, by name, the same for every script. What a script
// uses is put into its first state when the script first names it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "differential/cuda.h"

namespace sluice::differential {

enum class Kind : std::uint8_t { device, host };

// Memory, and beside it the bytes that it is known to hold.
struct Buffer {
  std::string name;
  Kind kind = Kind::host;
  char* address = nullptr;
  std::size_t size = 0;
  bool used = false;
  bool uncertain = false;  // a transfer that was cancelled may or may not have written here
  std::vector<char> known;

  void refill();
  std::vector<char> contents() const;
};

struct Range {
  std::size_t begin = 0;
  std::size_t length = 0;
};

// Of so many bytes of a file the player looks at what they are.
constexpr std::size_t kMostTold = std::size_t{4} << 20;

// How the bytes of a buffer differ from what is known of them.
struct Change {
  std::uint64_t inside = 0;  // the digest of the ranges that may have changed
  bool unmoved = false;      // there are such ranges, and they hold what they held before
  bool outside = false;      // a byte outside of them is another now; it has been put back
  bool wrong = false;        // a byte inside is not what was expected
};

// A place that a script names: a buffer and an offset, or an address that is no buffer's.
struct Place {
  Buffer* buffer = nullptr;
  char* address = nullptr;
};

struct File {
  std::string name;
  std::string path;
  std::size_t size = 0;
  bool used = false;
  bool written = false;
  bool uncertain = false;
  std::vector<char> holds;  // as far as what was written by the script is known
  bool is_known = true;
  int under_way = 0;  // entries of batches that write it

  bool can_be_told() const { return is_known && !uncertain && under_way == 0; }
};

class World {
 public:
  explicit World(std::string folder);

  // "d0", "d0+512", "NULL", "garbage"
  Place place(const std::string& text);
  // `expected`: what the buffer has to hold, if that is known. The first `before` bytes are the end of a transfer that
  // began before the buffer: they may have changed, and are put back.
  Change settle(Buffer& buffer, const std::vector<Range>& ranges, const std::vector<char>* expected,
                std::size_t before) const;
  // What a transfer of a range that leaves its buffer has moved was never known: bytes of the file, or what other
  // buffers hold. `file`: of a write.
  void doubt_outside(const Place& place, std::ptrdiff_t shift, std::size_t length, File* file) const;
  void mark_written();  // the files that are in use are made anew before the next script uses them
  // A descriptor for "r.rw", "dir", "-1", ...; the same name means the same descriptor until the script ends.
  int descriptor(const std::string& text, File** file);
  // Closes it behind the library's back.
  void close_descriptor(const std::string& text);
  std::string tell(File& file) const;  // size and digest, and "wrong=file" where it holds what it should not
  void tell_all();                     // answers what every used buffer and file holds
  void clean_up();
  const std::string& folder() const { return folder_; }

 private:
  void add_buffer(const char* name, Kind kind, void* address, std::size_t size);
  File& fresh_file(const std::string& name);
  int open_special(const std::string& text) const;

  std::string folder_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::map<std::string, File> files_;
  std::map<std::string, int> descriptors_;
  std::vector<int> extra_;
};

}  // namespace sluice::differential
