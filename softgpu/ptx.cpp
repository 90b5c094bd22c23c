// SPDX-License-Identifier: Apache-2.0
// PTX as a sequence of words: directives, names, punctuation. What stands inside of function bodies is passed over.
#include "ptx.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "refusal.h"

namespace sluice::softgpu {

namespace {

// The newest that the driver whose version we report can compile.
constexpr int newest_ptx = 90;     // 9.0
constexpr int newest_target = 90;  // sm_90

bool is_name(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || character == '_' || character == '$' || character == '%' ||
         character == '.';
}

bool is_blank(char character) {
  return character == ' ' || character == '\t' || character == '\n' || character == '\r';
}

class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  // Empty at the end.
  std::string_view next() {
    skip();
    if (rest_.empty()) return {};
    std::size_t size = 1;
    if (is_name(rest_.front())) {
      while (size < rest_.size() && is_name(rest_[size])) ++size;
    }
    const std::string_view word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return word;
  }

 private:
  // Blanks and comments.
  void skip() {
    for (;;) {
      while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
      if (rest_.starts_with("//")) {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (rest_.starts_with("/*")) {
        const std::size_t end = rest_.find("*/");
        rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 2);
      } else {
        return;
      }
    }
  }

  std::string_view rest_;
};

template <typename Number>
std::optional<Number> number_at(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// "6.4" as 64.
int version_in(std::string_view text) {
  const std::size_t point = text.find('.');
  const auto major = number_at<int>(text.substr(0, point));
  const auto minor = point != std::string_view::npos ? number_at<int>(text.substr(point + 1)) : std::nullopt;
  require(major && minor && *major >= 0 && *minor >= 0 && *minor < 10, cuda::error_invalid_ptx);
  constexpr int beyond_all = 1000;
  return std::min(*major, beyond_all) * 10 + *minor;
}

// ".u64" is 8; 0 for what is no type.
std::size_t size_of_type(std::string_view word) {
  const std::size_t digits = word.find_first_of("0123456789");
  if (!word.starts_with('.') || digits == std::string_view::npos) return 0;
  return number_at<std::size_t>(word.substr(digits)).value_or(0) / 8;
}

// From behind ".entry" to the end of its list of parameters.
PtxEntry read_entry(Words& words) {
  PtxEntry entry;
  entry.name = words.next();
  require(!entry.name.empty() && is_name(entry.name.front()), cuda::error_invalid_ptx);
  if (words.next() != "(") return entry;
  std::size_t size = 0;
  for (std::string_view word = words.next(); word != ")"; word = words.next()) {
    require(!word.empty(), cuda::error_invalid_ptx);
    if (word == ".param") {
      entry.parameter_sizes.push_back(0);
    } else if (word == "[") {
      size = number_at<std::size_t>(words.next()).value_or(0);
      require(!entry.parameter_sizes.empty(), cuda::error_invalid_ptx);
      entry.parameter_sizes.back() *= size;
    } else if (const std::size_t bytes = size_of_type(word); bytes != 0) {
      require(!entry.parameter_sizes.empty(), cuda::error_invalid_ptx);
      entry.parameter_sizes.back() = bytes;
    }
  }
  for (const std::size_t bytes : entry.parameter_sizes) require(bytes != 0, cuda::error_invalid_ptx);
  return entry;
}

}  // namespace

PtxModule read_ptx(std::string_view text) {
  Words words(text);
  require(words.next() == ".version", cuda::error_invalid_image);
  require(version_in(words.next()) <= newest_ptx, cuda::error_unsupported_ptx_version);
  PtxModule module;
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (word == ".target") {
      const std::string_view target = words.next();
      require(target.starts_with("sm_"), cuda::error_invalid_ptx);
      module.target = number_at<int>(target.substr(3)).value_or(0);
    } else if (word == ".entry") {
      module.entries.push_back(read_entry(words));
    }
  }
  require(module.target != 0, cuda::error_invalid_ptx);
  require(module.target <= newest_target, cuda::error_invalid_ptx);
  return module;
}

}  // namespace sluice::softgpu
