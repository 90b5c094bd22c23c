// SPDX-License-Identifier: Apache-2.0
#include "lab/power/remains.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::lab {

namespace {

using Bytes = std::vector<unsigned char>;

std::optional<Bytes> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// One file of a writer, as the acknowledged operations have left it.
class Expected {
 public:
  Expected(Writer writer, std::size_t file, std::uint64_t acknowledged)
      : writer_(writer), owners_(writer == Writer::careless_direct ? kLargest / 4 : 0) {
    for (std::uint64_t number = 1; number <= acknowledged; ++number) {
      for (const Range& range : ranges_of(writer, number)) {
        if (range.file == file) own(range, number);
      }
    }
    for (const Range& range : ranges_of(writer, acknowledged + 1)) {
      if (range.file == file) next_.push_back(range);
    }
    next_number_ = acknowledged + 1;
  }

  std::string differs(const Bytes& found) const {
    if (found.size() < owners_.size()) {
      return "it has " + std::to_string(found.size()) + " bytes, not " + std::to_string(owners_.size());
    }
    const Bytes wanted = content();
    Bytes next(found.size());
    std::vector<bool> under_way(found.size());
    for (const Range& range : next_) {
      const std::size_t end = std::min(range.offset + range.length, found.size());
      for (std::size_t at = range.offset; at < end; ++at) under_way[at] = true;
      if (end <= range.offset) continue;
      fill_content(writer_, next_number_, range.offset, std::span(next).subspan(range.offset, end - range.offset));
    }
    for (std::size_t at = 0; at < found.size(); ++at) {
      const unsigned char due = at < wanted.size() ? wanted[at] : 0;
      if (found[at] == due || (under_way[at] && found[at] == next[at])) continue;
      const std::uint64_t owner = at < owners_.size() ? owners_[at] : 0;
      return "byte " + std::to_string(at) + " is not what operation " + std::to_string(owner) + " wrote";
    }
    return "";
  }

 private:
  void own(const Range& range, std::uint64_t number) {
    if (owners_.size() < range.offset + range.length) owners_.resize(range.offset + range.length);
    std::fill_n(owners_.begin() + static_cast<std::ptrdiff_t>(range.offset), range.length, number);
  }

  Bytes content() const {
    Bytes bytes(owners_.size());
    for (std::size_t at = 0; at < bytes.size();) {
      std::size_t end = at;
      while (end < bytes.size() && owners_[end] == owners_[at]) ++end;
      fill_content(writer_, owners_[at], at, std::span(bytes).subspan(at, end - at));
      at = end;
    }
    return bytes;
  }

  Writer writer_;
  std::vector<std::uint64_t> owners_;  // by byte: the last operation that wrote it
  std::vector<Range> next_;
  std::uint64_t next_number_ = 0;
};

// The tensor's bytes of a file of save_file; what is no such file has none.
std::optional<Bytes> tensor_of(const Bytes& file) {
  std::uint64_t header = 0;
  if (file.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof header);
  if (header > file.size() - sizeof header) return std::nullopt;
  const auto begin = file.begin() + sizeof header;
  const std::string text(begin, begin + static_cast<std::ptrdiff_t>(header));
  Bytes tensor(begin + static_cast<std::ptrdiff_t>(header), file.end());
  if (text.find("\"data_offsets\":[0," + std::to_string(tensor.size()) + "]") == std::string::npos) return std::nullopt;
  return tensor;
}

bool is_whole(Writer writer, const Bytes& file, std::uint64_t number) {
  const Bytes wanted = copy_content(writer, number);
  if (writer != Writer::save_file) return file == wanted;
  return tensor_of(file) == wanted;
}

// A name that `number` was the last to give, if any was; the one after it may have.
std::string name_differs(Writer writer, const std::string& folder, const std::string& name, std::uint64_t number,
                         std::uint64_t after) {
  const std::optional<Bytes> found = content_of(folder + "/" + name);
  if (!found) return number == 0 ? "" : name + " is not there";
  if (number != 0 && is_whole(writer, *found, number)) return "";
  if (after != 0 && is_whole(writer, *found, after)) return "";
  return name + " has its name, " + std::to_string(found->size()) + " bytes, and is not whole";
}

std::string copies_differ(Writer writer, const std::string& folder, std::uint64_t acknowledged) {
  const std::uint64_t next = acknowledged + 1;
  for (std::uint64_t number = 1; number <= next; number += 2) {
    const bool is_next = number == next;
    std::string why = name_differs(writer, folder, copy_name(writer, number), is_next ? 0 : number, is_next ? next : 0);
    if (!why.empty()) return why;
  }
  const std::uint64_t last_even = acknowledged - acknowledged % 2;
  return name_differs(writer, folder, copy_name(writer, 2), last_even, next % 2 == 0 ? next : 0);
}

}  // namespace

std::string what_is_lost(Writer writer, const std::string& folder, std::uint64_t acknowledged) {
  if (copies(writer)) return copies_differ(writer, folder, acknowledged);
  for (std::size_t file = 0; file < kFiles; ++file) {
    const std::string name = std::string(name_of(writer)) + "." + std::to_string(file);
    const std::optional<Bytes> found = content_of(folder + "/" + name);
    if (!found) return name + " is not there";
    const std::string why = Expected(writer, file, acknowledged).differs(*found);
    if (!why.empty()) return name + ": " + why;
  }
  return "";
}

}  // namespace sluice::lab
