// SPDX-License-Identifier: Apache-2.0
// What tests of the path share: the public face, the soft GPU with memory that the stand-in takes for a device's, and a
// file on ext4 on a loop device, whose driver the stand-in lists as hooked.
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "direct/direct_fixture.h"
#include "nvfs/fake_module.h"
#include "support/calls.h"
#include "support/memory.h"
#include "support/scratch.h"

namespace sluice::nvfs_test {

inline constexpr std::size_t kMiB = std::size_t{1} << 20U;

// Device memory that begins with a page of the device: of an allocation that may begin anywhere.
class Pages {
 public:
  explicit Pages(std::size_t size)
      : all_(support::MemoryKind::device, size + page),
        offset_((page - reinterpret_cast<std::uintptr_t>(all_.address()) % page) % page),
        size_(size) {}

  std::size_t size() const { return size_; }
  void* address() const { return all_.at(offset_); }
  void put(std::size_t offset, std::span<const unsigned char> bytes) const { all_.put(offset_ + offset, bytes); }
  support::Bytes get(std::size_t offset, std::size_t length) const { return all_.get(offset_ + offset, length); }
  support::Bytes get() const { return get(0, size_); }
  void fill(unsigned char value) const { all_.fill(value); }
  // The allocation, and where they begin in it.
  const support::Memory& all() const { return all_; }
  std::size_t offset() const { return offset_; }

 private:
  static constexpr std::size_t page = 65536;
  support::Memory all_;
  std::size_t offset_;
  std::size_t size_;
};

class PathTest : public direct::DirectTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Before the driver is opened.
  void use(const char* nvfs, const char* p2pdma = "false");
  void load(Machine machine);
  FakeModule& module() { return *module_; }

  support::ScratchFile& file();
  // The reason why the CPU would move this, or "" where nvfs takes it.
  static std::string kept_from(CUfileHandle_t handle, const Pages& memory, CUfileOpcode_t opcode = CUFILE_READ);
  static direct::Count by_module() { return direct::counted(SLUICE_PATH_NVFS, SLUICE_REASON_DIRECT); }

 private:
  std::unique_ptr<FakeModule> module_;
  std::unique_ptr<support::ScratchFile> file_;
};

}  // namespace sluice::nvfs_test
