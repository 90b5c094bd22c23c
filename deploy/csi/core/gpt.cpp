// SPDX-License-Identifier: Apache-2.0
#include "core/gpt.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>

#include "core/bytes.h"

namespace sluice::csi {
namespace {

constexpr std::string_view signature = "EFI PART";
constexpr std::uint32_t entry_bytes = 128;
constexpr std::uint32_t entry_count = 128;
constexpr std::uint32_t table_bytes = entry_bytes * entry_count;
constexpr std::uint32_t header_bytes = 92;
constexpr std::size_t name_letters = 36;

// Of the header, by offset.
constexpr std::size_t at_revision = 8;
constexpr std::size_t at_header_bytes = 12;
constexpr std::size_t at_header_sum = 16;
constexpr std::size_t at_own_block = 24;
constexpr std::size_t at_other_block = 32;
constexpr std::size_t at_first_usable = 40;
constexpr std::size_t at_last_usable = 48;
constexpr std::size_t at_disk = 56;
constexpr std::size_t at_table_block = 72;
constexpr std::size_t at_entry_count = 80;
constexpr std::size_t at_entry_bytes = 84;
constexpr std::size_t at_table_sum = 88;

std::uint32_t checksum(std::string_view bytes) {
  std::uint32_t sum = ~0U;
  for (const char each : bytes) {
    sum ^= static_cast<unsigned char>(each);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~sum;
}

template <typename Number>
void put(std::string& bytes, std::size_t at, Number value) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

template <typename Number>
Number get(std::string_view bytes, std::size_t at) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    const auto byte = static_cast<Number>(static_cast<unsigned char>(bytes[at + i]));
    value = static_cast<Number>(value | static_cast<Number>(byte << (8 * i)));
  }
  return value;
}

Guid guid_at(std::string_view bytes, std::size_t at) {
  Guid guid;
  std::memcpy(guid.data(), bytes.data() + at, guid.size());
  return guid;
}

Guid random_guid() {
  std::random_device random;
  Guid guid;
  for (std::uint8_t& each : guid) each = static_cast<std::uint8_t>(random());
  guid[7] = static_cast<std::uint8_t>((guid[7] & 0x0f) | 0x40);  // version 4
  guid[8] = static_cast<std::uint8_t>((guid[8] & 0x3f) | 0x80);
  return guid;
}

std::uint64_t table_blocks(std::uint32_t block) {
  return (table_bytes + block - 1) / block;
}
std::uint64_t first_usable(std::uint32_t block) {
  return 2 + table_blocks(block);
}
std::uint64_t last_usable(std::uint32_t block, std::uint64_t blocks) {
  return blocks - 2 - table_blocks(block);
}

std::string table_of(const Gpt& gpt) {
  std::string table(table_blocks(gpt.block) * gpt.block, '\0');
  for (const GptEntry& each : gpt.entries) {
    const std::size_t at = std::size_t{each.number - 1} * entry_bytes;
    std::memcpy(&table[at], each.type.data(), each.type.size());
    std::memcpy(&table[at + 16], each.unique.data(), each.unique.size());
    put(table, at + 32, each.first);
    put(table, at + 40, each.last);
    for (std::size_t i = 0; i < std::min(each.name.size(), name_letters); ++i) table[at + 56 + (2 * i)] = each.name[i];
  }
  return table;
}

std::string header_of(const Gpt& gpt, const std::string& table, bool second) {
  const std::uint64_t end = gpt.blocks - 1;
  std::string header(gpt.block, '\0');
  std::copy(signature.begin(), signature.end(), header.begin());
  put<std::uint32_t>(header, at_revision, 0x10000);
  put<std::uint32_t>(header, at_header_bytes, header_bytes);
  put<std::uint64_t>(header, at_own_block, second ? end : 1);
  put<std::uint64_t>(header, at_other_block, second ? 1 : end);
  put<std::uint64_t>(header, at_first_usable, first_usable(gpt.block));
  put<std::uint64_t>(header, at_last_usable, last_usable(gpt.block, gpt.blocks));
  std::memcpy(&header[at_disk], gpt.disk.data(), gpt.disk.size());
  put<std::uint64_t>(header, at_table_block, second ? end - table_blocks(gpt.block) : 2);
  put<std::uint32_t>(header, at_entry_count, entry_count);
  put<std::uint32_t>(header, at_entry_bytes, entry_bytes);
  put<std::uint32_t>(header, at_table_sum, checksum(std::string_view(table).substr(0, table_bytes)));
  put<std::uint32_t>(header, at_header_sum, checksum(std::string_view(header).substr(0, header_bytes)));
  return header;
}

// The old kind of table, which tells programs that know no GPT that the drive is not empty.
std::string protective_of(const Gpt& gpt) {
  std::string bytes(gpt.block, '\0');
  constexpr std::size_t at_first_entry = 446;
  constexpr char kind_of_gpt = static_cast<char>(0xee);
  bytes[at_first_entry + 2] = 2;
  bytes[at_first_entry + 4] = kind_of_gpt;
  for (std::size_t i = 5; i < 8; ++i) bytes[at_first_entry + i] = static_cast<char>(0xff);
  put<std::uint32_t>(bytes, at_first_entry + 8, 1);
  put<std::uint32_t>(bytes, at_first_entry + 12,
                     static_cast<std::uint32_t>(std::min<std::uint64_t>(gpt.blocks - 1, 0xffffffff)));
  put<std::uint16_t>(bytes, 510, 0xaa55);
  return bytes;
}

std::vector<GptEntry> entries_in(std::string_view table, std::uint32_t count, std::uint32_t size) {
  std::vector<GptEntry> entries;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view bytes = table.substr(std::size_t{i} * size, size);
    GptEntry entry;
    entry.number = i + 1;
    entry.type = guid_at(bytes, 0);
    if (entry.type == Guid{}) continue;
    entry.unique = guid_at(bytes, 16);
    entry.first = get<std::uint64_t>(bytes, 32);
    entry.last = get<std::uint64_t>(bytes, 40);
    for (std::size_t letter = 0; letter < name_letters; ++letter) {
      const auto code = get<std::uint16_t>(bytes, 56 + (2 * letter));
      if (code == 0) break;
      entry.name += code < 0x80 ? static_cast<char>(code) : '?';
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

// The table whose header lies in this block; nothing when a sum is wrong, or something lies beyond the drive.
std::optional<Gpt> table_at(const void* drive, ReadAt read, std::uint32_t block, std::uint64_t blocks,
                            std::uint64_t header_block) {
  std::string header = read(drive, header_block * block, block);
  if (header.size() < block || !std::string_view(header).starts_with(signature)) return std::nullopt;
  const auto size = get<std::uint32_t>(header, at_header_bytes);
  const auto sum = get<std::uint32_t>(header, at_header_sum);
  if (size < header_bytes || size > block) return std::nullopt;
  put<std::uint32_t>(header, at_header_sum, 0);
  const bool right = checksum(std::string_view(header).substr(0, size)) == sum;
  const auto count = get<std::uint32_t>(header, at_entry_count);
  const auto each = get<std::uint32_t>(header, at_entry_bytes);
  const auto table_block = get<std::uint64_t>(header, at_table_block);
  // Tables of other sizes are rare, and none of ours.
  if (!right || count != entry_count || each != entry_bytes || table_block >= blocks) return std::nullopt;
  const std::string table = read(drive, table_block * block, table_bytes);
  if (table.size() < table_bytes || checksum(table) != get<std::uint32_t>(header, at_table_sum)) return std::nullopt;
  Gpt gpt;
  gpt.block = block;
  gpt.blocks = blocks;
  gpt.disk = guid_at(header, at_disk);
  gpt.entries = entries_in(table, count, each);
  for (const GptEntry& entry : gpt.entries) {
    if (entry.first < first_usable(block) || entry.last < entry.first || entry.last > last_usable(block, blocks))
      return std::nullopt;
  }
  return gpt;
}

}  // namespace

Extent Gpt::extent_of(const GptEntry& entry) const {
  return {static_cast<std::int64_t>(entry.first * block), static_cast<std::int64_t>((entry.last + 1) * block)};
}

std::vector<Extent> Gpt::free_extents() const {
  std::vector<Extent> taken;
  taken.reserve(entries.size());
  for (const GptEntry& each : entries) taken.push_back(extent_of(each));
  std::sort(taken.begin(), taken.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  const auto end = static_cast<std::int64_t>((last_usable(block, blocks) + 1) * block);
  taken.push_back({end, end});
  std::vector<Extent> free;
  auto begin = static_cast<std::int64_t>(first_usable(block) * block);
  for (const Extent& each : taken) {
    const Extent between = {(begin + mebibyte - 1) / mebibyte * mebibyte, each.begin / mebibyte * mebibyte};
    if (between.bytes() > 0) free.push_back(between);
    begin = std::max(begin, each.end);
  }
  return free;
}

const GptEntry* Gpt::find(const std::string& name) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& each) { return each.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

std::optional<std::uint32_t> Gpt::free_number() const {
  for (std::uint32_t number = 1; number <= entry_count; ++number) {
    if (std::none_of(entries.begin(), entries.end(), [&](const auto& each) { return each.number == number; }))
      return number;
  }
  return std::nullopt;
}

Gpt new_gpt(std::uint32_t block, std::uint64_t blocks) {
  Gpt gpt;
  gpt.block = block;
  gpt.blocks = blocks;
  gpt.disk = random_guid();
  return gpt;
}

std::vector<GptPiece> pieces_of(const Gpt& gpt) {
  Gpt whole = gpt;
  for (GptEntry& each : whole.entries) {
    if (each.unique == Guid{}) each.unique = random_guid();
  }
  const std::string table = table_of(whole);
  const std::uint64_t end = whole.blocks - 1;
  return {{(end - table_blocks(whole.block)) * whole.block, table},
          {end * whole.block, header_of(whole, table, true)},
          {0, protective_of(whole)},
          {std::uint64_t{2} * whole.block, table},
          {whole.block, header_of(whole, table, false)}};
}

std::optional<Gpt> read_gpt(const void* drive, ReadAt read, std::uint32_t block, std::uint64_t blocks) {
  if (blocks < 2 * (first_usable(block) + 1)) return std::nullopt;
  if (std::optional<Gpt> first = table_at(drive, read, block, blocks, 1)) return first;
  return table_at(drive, read, block, blocks, blocks - 1);
}

}  // namespace sluice::csi
