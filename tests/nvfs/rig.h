// SPDX-License-Identifier: Apache-2.0
// What tests of the client share: the stand-in, device memory, a file, and a transfer made of them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nvfs/client.h"
#include "nvfs/fake_module.h"
#include "nvfs/group.h"
#include "nvfs/windows.h"

namespace sluice::nvfs_test {

inline constexpr std::uint64_t kKibibyte = 1024;
inline constexpr std::uint64_t kMebibyte = 1024 * kKibibyte;
inline constexpr std::uint64_t kBlock = 4 * kKibibyte;

using Bytes = std::vector<std::byte>;
Bytes pattern(std::uint64_t size, std::uint64_t seed);

// Memory that the stand-in takes for a device's. Begins at a multiple of 4 MiB.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::uint64_t size);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(begin_); }
  std::span<std::byte> bytes() const { return {begin_, size_}; }
  std::span<std::byte> bytes(std::uint64_t from, std::uint64_t size) const { return bytes().subspan(from, size); }
  void fill(int value) const;

 private:
  std::byte* begin_ = nullptr;
  std::uint64_t size_ = 0;
  std::byte* reserved_ = nullptr;
  std::uint64_t reserved_size_ = 0;
};

// A file without a name, opened with O_DIRECT.
class File {
 public:
  explicit File(std::uint64_t size = 0, std::uint64_t seed = 1);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  nvfs::FileName name() const;
  Bytes content() const;
  Bytes content(std::uint64_t at, std::uint64_t size) const;
  void write(std::uint64_t at, std::span<const std::byte> bytes) const;
  void resize(std::uint64_t size) const;
  void punch(std::uint64_t at, std::uint64_t size) const;

 private:
  int fd_ = -1;
};

// Clears, as a transfer would, and remembers.
class Clearing final : public nvfs::Holes {
 public:
  explicit Clearing(std::byte* begin, nvfs::Filled answer = nvfs::Filled::cleared) : begin_(begin), answer_(answer) {}
  nvfs::Filled fill(std::uint64_t begin, std::uint64_t length) noexcept override;
  std::uint64_t cleared() const { return cleared_; }

 private:
  std::byte* begin_;
  nvfs::Filled answer_;
  std::uint64_t cleared_ = 0;
};

class ClientTest : public testing::Test {
 protected:
  void SetUp() override { client_.attach(facts::Root{}); }

  nvfs::Windows windows_onto(const DeviceMemory& memory);
  nvfs::Member member(base::Direction direction, const File& file, std::uint64_t at, std::uint64_t address,
                      std::uint64_t length, nvfs::Windows& windows);
  // One by itself.
  nvfs::Member move(nvfs::Member member);

  FakeModule fake_;
  nvfs::Client client_;
};

}  // namespace sluice::nvfs_test
