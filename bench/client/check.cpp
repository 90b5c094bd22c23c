// SPDX-License-Identifier: Apache-2.0
#include "client/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "client/library.h"
#include "client/pattern.h"
#include "client/trouble.h"

namespace sluice::bench {
namespace {

// Plain reads of an O_DIRECT file need aligned memory.
struct AlignedBytes {
  explicit AlignedBytes(std::size_t size)
      : data(static_cast<std::byte*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096))) {
    if (data == nullptr) throw Trouble("memory is exhausted");
  }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  ~AlignedBytes() { std::free(data); }
  std::byte* data;
};

// Fills, and copies of pageable memory, may return before they are done; a copy out of the last byte waits for them.
void settle(const Gpu& gpu, DevicePtr memory, std::size_t size) {
  std::byte last{};
  gpu.want(gpu.calls().copy_out(&last, memory + size - 1, 1), "cuMemcpyDtoH");
}

}  // namespace

unsigned checks_of(std::size_t size) {
  constexpr std::size_t volume = std::size_t{16} << 20;
  return static_cast<unsigned>(std::clamp<std::size_t>(volume / size, 1, 8));
}

void want_room(const TestFile& file, std::uint64_t part, const Row& row) {
  if (part < row.size)
    throw Trouble(fmt::format("{} is too small for {}: make a larger one (--size)", file.path(), row.name));
}

void want_pattern(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t salt, const Row& row) {
  const std::size_t wrong = first_difference(bytes, offset, salt);
  if (wrong == bytes.size()) return;
  throw Trouble(fmt::format("{}: WRONG BYTES: of {} at file offset {}, byte {} is not what the file should hold there",
                            row.name, bytes.size(), offset, wrong));
}

void want_device_pattern(const Gpu& gpu, DevicePtr memory, std::size_t size, std::uint64_t offset, const Row& row) {
  std::vector<std::byte> bytes(size);
  gpu.want(gpu.calls().copy_out(bytes.data(), memory, size), "cuMemcpyDtoH");
  want_pattern(bytes, offset, 0, row);
}

void want_file_pattern(const TestFile& file, std::uint64_t at, std::size_t size, std::uint64_t salt, const Row& row) {
  const AlignedBytes bytes(size);
  want_all(::pread(file.descriptor(), bytes.data, size, static_cast<off_t>(at)), size, "pread");
  want_pattern({bytes.data, size}, 0, salt, row);
}

void fill_device(const Gpu& gpu, DevicePtr memory, std::span<const std::byte> bytes) {
  gpu.want(gpu.calls().copy_in(memory, bytes.data(), bytes.size()), "cuMemcpyHtoD");
  settle(gpu, memory, bytes.size());
}

void poison(const Gpu& gpu, DevicePtr memory, std::size_t size) {
  gpu.want(gpu.calls().fill(memory, 0xA5, size), "cuMemsetD8");
  settle(gpu, memory, size);
}

}  // namespace sluice::bench
