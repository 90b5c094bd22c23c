// SPDX-License-Identifier: Apache-2.0
// Reading /sys/block/DISK/md; levels without stripes have a chunk size of 0.
#include "facts/stripes.h"

#include <charconv>
#include <optional>

#include "facts/read.h"

namespace sluice::facts {

namespace {

template <typename Number>
Number number_in_file(const std::string& file) {
  Number number = 0;
  if (const std::optional<std::string> text = read_value(file)) {
    std::from_chars(text->data(), text->data() + text->size(), number);
  }
  return number;
}

}  // namespace

Stripes stripes_of(const std::string& disk, const Root& root) {
  const std::string array = root.at("/sys/block/" + disk + "/md");
  const Stripes found{number_in_file<std::uint64_t>(array + "/chunk_size"),
                      number_in_file<unsigned>(array + "/raid_disks"), read_value(array + "/level") != "raid0"};
  return found.chunk != 0 && found.drives > 1 ? found : Stripes{};
}

}  // namespace sluice::facts
