// SPDX-License-Identifier: Apache-2.0
// Names of rows, taken apart.
#include "client/row.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "client/trouble.h"

namespace sluice::bench {
namespace {

constexpr std::array<std::pair<std::string_view, Operation>, 11> sized{{{"read", Operation::read},
                                                                        {"write", Operation::write},
                                                                        {"batch", Operation::batch},
                                                                        {"async", Operation::async},
                                                                        {"pread", Operation::pread},
                                                                        {"pwrite", Operation::pwrite},
                                                                        {"link", Operation::link_in},
                                                                        {"copy", Operation::copy_in},
                                                                        {"bell", Operation::bell},
                                                                        {"cycle", Operation::cycle},
                                                                        {"pcycle", Operation::pcycle}}};

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t dash = name.find('-');
    words.push_back(name.substr(0, dash));
    if (dash == std::string_view::npos) return words;
    name.remove_prefix(dash + 1);
  }
}

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

}  // namespace

std::size_t parse_size(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (error != std::errc() || number == 0 || shift < 0) {
    throw Trouble(fmt::format("\"{}\" is no size: write 4K, 16M or 3G", text));
  }
  return number << shift;
}

std::string size_text(std::size_t size) {
  for (const auto& [unit, shift] : {std::pair{'G', 30}, {'M', 20}, {'K', 10}}) {
    if (size % (std::size_t{1} << shift) == 0) return fmt::format("{}{}", size >> shift, unit);
  }
  return fmt::format("{}", size);
}

Row parse_row(std::string_view name) {
  const auto refuse = [&](std::string_view word) {
    return Trouble(
        fmt::format("\"{}\" is no row: \"{}\" is not understood (--list shows the table's rows)", name, word));
  };
  Row row;
  row.name = name;
  const std::vector<std::string_view> words = words_of(name);
  const bool waits = words.front() == "idle" || words.front() == "held";
  bool known = waits;
  row.operation = words.front() == "held" ? Operation::held : Operation::idle;
  for (const auto& [word, operation] : sized) {
    if (word == words.front()) {
      known = true;
      row.operation = operation;
    }
  }
  if (!known) throw refuse(words.front());
  const bool is_link = row.operation == Operation::link_in;
  const bool is_copy = row.operation == Operation::copy_in;
  if (is_copy && (words.size() == 1 || (words[1] != "in" && words[1] != "out"))) {
    throw Trouble(fmt::format("\"{}\" is no row: it names no way, as copy-in-4K and copy-out-4K do", name));
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (is_link && (word == "h2d" || word == "d2h" || word == "kernel")) {
      row.operation = word == "h2d" ? Operation::link_in : word == "d2h" ? Operation::link_out : Operation::link_kernel;
    } else if (is_copy && i == 1 && (word == "in" || word == "out")) {
      row.operation = word == "in" ? Operation::copy_in : Operation::copy_out;
    } else if (word == "write" && (row.operation == Operation::batch || row.operation == Operation::async)) {
      row.writes = true;
    } else if (word == "rand") {
      row.random = true;
    } else if (word == "unreg") {
      row.registered = false;
    } else if (word == "fixed" && row.operation == Operation::async) {
      row.fixed = true;
    } else if (word == "matmul") {
      row.product = Product::finite;
    } else if (word == "hog") {
      row.product = Product::endless;
    } else if (word == "others" && row.product != Product::none) {
      row.product_on_others = true;
    } else if (word == "each" && (row.operation == Operation::read || row.operation == Operation::write)) {
      row.each = true;
    } else if (word.size() > 1 && word.front() == 'x' && is_digit(word[1])) {
      row.count = static_cast<unsigned>(parse_size(word.substr(1)));
    } else if (!word.empty() && is_digit(word.front())) {
      row.size = parse_size(word);
    } else {
      throw refuse(word);
    }
  }
  if (row.size == 0) {
    if (is_link) row.size = std::size_t{256} << 20;
    if (waits) row.size = std::size_t{1} << 20;
  }
  if (row.size == 0) throw Trouble(fmt::format("\"{}\" is no row: it names no size", name));
  if (row.count > 256) throw Trouble(fmt::format("\"{}\" is no row: more than 256 at once", name));
  return row;
}

const std::vector<std::string>& table() {
  static const std::vector<std::string> rows = {"link-h2d",
                                                "link-d2h",
                                                "link-kernel",
                                                "copy-in-4K",
                                                "copy-out-4K",
                                                "bell-4K-x8",
                                                "pread-16M",
                                                "pread-16M-x8",
                                                "pread-1M-x16",
                                                "pwrite-1M",
                                                "pwrite-1M-x8",
                                                "pwrite-16M",
                                                "pwrite-16M-x8",
                                                "read-4K",
                                                "read-64K",
                                                "read-256K",
                                                "read-1M",
                                                "read-4M",
                                                "read-16M",
                                                "read-64M",
                                                "read-256M",
                                                "read-4K-unreg",
                                                "read-1M-unreg",
                                                "read-16M-unreg",
                                                "read-rand-4K-x16",
                                                "read-1M-x8",
                                                "read-16M-x8",
                                                "write-4K",
                                                "write-1M",
                                                "write-16M",
                                                "write-1M-x8",
                                                "write-16M-x8",
                                                "batch-4K-x128",
                                                "batch-64K-x64",
                                                "batch-1M-x32",
                                                "batch-write-1M-x32",
                                                "async-1M-x1",
                                                "async-1M-x1-fixed",
                                                "async-16M-x4",
                                                "async-1M-x8-fixed",
                                                "async-4K-x8-fixed",
                                                "async-write-4K-x8-fixed",
                                                "async-write-1M-x8-fixed",
                                                "read-4K-matmul",
                                                "read-1M-matmul",
                                                "read-16M-matmul",
                                                "read-1M-hog",
                                                "read-16M-hog",
                                                "pcycle-4K",
                                                "pcycle-1M",
                                                "pcycle-16M",
                                                "cycle-4K",
                                                "cycle-1M",
                                                "cycle-16M",
                                                "held",
                                                "idle"};
  return rows;
}

}  // namespace sluice::bench
