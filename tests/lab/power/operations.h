// SPDX-License-Identifier: Apache-2.0
// What the writers of the power cut do, as pure functions of a writer and a number: so that a look at a disk
// afterwards knows what has to be there, with nothing but the last number that was acknowledged.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::lab {

// Each acknowledges what it has reason to believe durable. The careless ones have none: they are there to be caught.
enum class Writer : std::uint8_t {
  calls,            // cuFileWrite, fsync
  batches,          // a batch, fsync
  streams,          // writes in a stream, fsync
  synchronous,      // cuFileWrite into files opened O_DSYNC and O_SYNC
  gdscp,            // the program, which answers 0
  save_file,        // sluice.safetensors.save_file
  careless_calls,   // cuFileWrite, and no fsync
  careless_direct,  // cuFileWrite over blocks that are there, O_DIRECT: what no fsync flushes is in the drive's cache
  careless_copies,  // written, renamed, and no fsync
};
inline constexpr std::size_t kWriters = 9;

std::string_view name_of(Writer writer);
std::optional<Writer> writer_named(std::string_view name);
// Whether it makes whole files under final names; the others write ranges of kFiles files.
bool copies(Writer writer);

inline constexpr std::size_t kFiles = 2;
// No file of a writer grows beyond it.
inline constexpr std::size_t kLargest = std::size_t{1} << 20U;

struct Range {
  std::size_t file;
  std::size_t offset;
  std::size_t length;
};

// The ranges of one operation, which do not overlap. Numbers begin with 1.
std::vector<Range> ranges_of(Writer writer, std::uint64_t number);
// What operation `number` writes at these offsets of its file; number 0 are the zeros of a file that was not written.
void fill_content(Writer writer, std::uint64_t number, std::size_t offset, std::span<unsigned char> bytes);

// The file below the writers' folder that copy `number` makes: each second one replaces the file "again".
std::string copy_name(Writer writer, std::uint64_t number);
// Its bytes; of save_file those of its one tensor.
std::vector<unsigned char> copy_content(Writer writer, std::uint64_t number);

// An acknowledgement, as it lies in a sector of its writer on the device for them.
inline constexpr std::size_t kSector = 512;
inline constexpr std::uint64_t kAcknowledged = 0x31304b4341434c53;  // "SLCACK01"
struct Acknowledgement {
  std::uint64_t magic = kAcknowledged;
  std::uint64_t writer = 0;
  std::uint64_t number = 0;
};
inline off_t place_of(Writer writer) {
  return static_cast<off_t>(writer) * 4096;
}

}  // namespace sluice::lab
