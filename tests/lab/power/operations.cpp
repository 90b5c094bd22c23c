// SPDX-License-Identifier: Apache-2.0
#include "lab/power/operations.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "support/random.h"

namespace sluice::lab {

namespace {

constexpr std::size_t kBlock = 4096;

struct Named {
  Writer writer;
  std::string_view name;
  bool copies;
};

constexpr std::array<Named, kWriters> kNames{{
    {Writer::calls, "calls", false},
    {Writer::batches, "batches", false},
    {Writer::streams, "streams", false},
    {Writer::synchronous, "synchronous", false},
    {Writer::gdscp, "gdscp", true},
    {Writer::save_file, "save_file", true},
    {Writer::careless_calls, "careless_calls", false},
    {Writer::careless_direct, "careless_direct", false},
    {Writer::careless_copies, "careless_copies", true},
}};

std::uint64_t seed_of(Writer writer, std::uint64_t number) {
  return support::mix(static_cast<std::uint64_t>(writer) * 1000003 + number);
}

// Aligned and ragged in turn; within [first, first + length).
Range range_within(support::Random& random, std::size_t file, std::size_t first, std::size_t length, bool aligned) {
  const std::size_t unit = aligned ? kBlock : 1;
  const std::size_t size = (1 + random.below(length / 2 / unit)) * unit;
  const std::size_t offset = first + random.below((length - size) / unit + 1) * unit;
  return {file, offset, size};
}

}  // namespace

std::string_view name_of(Writer writer) {
  return kNames.at(static_cast<std::size_t>(writer)).name;
}

std::optional<Writer> writer_named(std::string_view name) {
  for (const Named& known : kNames) {
    if (known.name == name) return known.writer;
  }
  return std::nullopt;
}

bool copies(Writer writer) {
  return kNames.at(static_cast<std::size_t>(writer)).copies;
}

std::vector<Range> ranges_of(Writer writer, std::uint64_t number) {
  support::Random random(seed_of(writer, number));
  const std::size_t file = number % kFiles;
  if (writer == Writer::careless_direct) {
    // Short, so that some are acknowledged between two flushes of others: only those can be caught.
    constexpr std::size_t kStretch = 8 * kBlock;
    const std::size_t first = random.below(kLargest / 4 / kStretch) * kStretch;
    return {range_within(random, 0, first, kStretch, true)};
  }
  if (writer != Writer::batches && writer != Writer::streams) {
    // The files grow, so that sizes have to be durable, too.
    const std::size_t reach = std::min<std::size_t>(kLargest, (8 + number) * 2 * kBlock);
    return {range_within(random, file, 0, reach, random.below(2) == 0)};
  }
  constexpr std::size_t kParts = 4;
  std::vector<Range> ranges;
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::size_t length = kLargest / kParts / 2;
    ranges.push_back(range_within(random, (file + part) % kFiles, part * length, length, random.below(2) == 0));
  }
  return ranges;
}

void fill_content(Writer writer, std::uint64_t number, std::size_t offset, std::span<unsigned char> bytes) {
  if (number == 0) {
    std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
    return;
  }
  const std::uint64_t seed = seed_of(writer, number);
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t at = offset + i;
    const std::uint64_t word = support::mix(seed + at / sizeof(std::uint64_t));
    const std::size_t skipped = at % sizeof word;
    const std::size_t count = std::min(sizeof word - skipped, bytes.size() - i);
    std::memcpy(bytes.data() + i, reinterpret_cast<const unsigned char*>(&word) + skipped, count);
    i += count;
  }
}

std::string copy_name(Writer writer, std::uint64_t number) {
  const std::string folder(name_of(writer));
  return folder + "/" + (number % 2 == 0 ? "again" : std::to_string(number));
}

// Simple enough for Python to make the same (writer.py).
std::vector<unsigned char> copy_content(Writer writer, std::uint64_t number) {
  std::array<char, 64> line{};
  const int length = std::snprintf(line.data(), line.size(), "%s %012llu\n", std::string(name_of(writer)).c_str(),
                                   static_cast<unsigned long long>(number));
  std::vector<unsigned char> bytes(100000 + number * 7919 % 200000);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(line.at(i % static_cast<std::size_t>(length)));
  }
  return bytes;
}

}  // namespace sluice::lab
