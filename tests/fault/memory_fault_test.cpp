// SPDX-License-Identifier: Apache-2.0
// Memory that is not there, or not all of it, or not writable: an error or what could be moved, never a crash.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::fault::memory_fault_test {
namespace {

using namespace support;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 64;
constexpr std::size_t kSize = kPages * kPage;

// Pages of which the first `good` may be used and the others may not.
class PartlyThere {
 public:
  PartlyThere(std::size_t good, int protection_of_others) : good_(good * kPage) {
    address_ = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(address_, 0x77, kSize);
    mprotect(at(good_), kSize - good_, protection_of_others);
  }
  ~PartlyThere() { munmap(address_, kSize); }
  PartlyThere(const PartlyThere&) = delete;
  PartlyThere& operator=(const PartlyThere&) = delete;
  void* at(std::size_t offset) const { return static_cast<unsigned char*>(address_) + offset; }
  // The bytes that may be looked at.
  std::span<const unsigned char> good() const { return {static_cast<unsigned char*>(address_), good_}; }

 private:
  void* address_;
  std::size_t good_;
};

class MemoryFaults : public CufileTest, public ::testing::WithParamInterface<int> {
 protected:
  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDWR | GetParam());

  void expect_file_unchanged() const { EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path()))); }
};

TEST_P(MemoryFaults, MemoryThatIsNotThereAnswersAnError) {
  const Handle handle(fd_);
  const PartlyThere memory(0, PROT_NONE);
  for (const std::size_t size : {std::size_t{1}, std::size_t{511}, kPage, 8 * kPage, 8 * kPage + 5, kSize / 2}) {
    for (const off_t file_offset : {0, 1, 4096, 4099}) {
      for (const off_t buffer_offset : {0, 3}) {
        SCOPED_TRACE(::testing::Message() << size << " at " << file_offset << ", buffer " << buffer_offset);
        EXPECT_EQ(read_file(handle.get(), memory.at(0), size, file_offset, buffer_offset), failed(EPERM));
        EXPECT_EQ(write_file(handle.get(), memory.at(0), size, file_offset, buffer_offset), failed(EIO));
      }
    }
  }
  expect_file_unchanged();
}

TEST_P(MemoryFaults, MemoryThatIsPartlyThereTakesWhatItCan) {
  const Handle handle(fd_);
  for (const off_t file_offset : {0, 1, 4096}) {
    for (const std::size_t good : {std::size_t{1}, std::size_t{7}, kPages - 1}) {
      SCOPED_TRACE(::testing::Message() << good << " pages there, file offset " << file_offset);
      const PartlyThere memory(good, PROT_NONE);
      const Transfer transfer = read_file(handle.get(), memory.at(0), kSize - 8192, file_offset);
      const bool fits = good * kPage >= kSize - 8192;
      if (fits) {
        EXPECT_EQ(transfer, moved(kSize - 8192));
      } else {
        EXPECT_TRUE(transfer == failed(EPERM) || transfer.count <= static_cast<ssize_t>(good * kPage))
            << ::testing::PrintToString(transfer);
      }
      if (transfer.count > 0) {
        const auto count = static_cast<std::size_t>(transfer.count);
        EXPECT_TRUE(same_bytes({file_.content().data() + file_offset, count}, memory.good().first(count)));
      }
    }
  }
}

TEST_P(MemoryFaults, MemoryThatIsReadOnlyCannotBeReadInto) {
  const Handle handle(fd_);
  const PartlyThere memory(0, PROT_READ);
  EXPECT_EQ(read_file(handle.get(), memory.at(0), 8 * kPage), failed(EPERM));
  EXPECT_EQ(read_file(handle.get(), memory.at(0), 1001, 5, 3), failed(EPERM));
  EXPECT_EQ(write_file(handle.get(), memory.at(0), 8 * kPage), moved(8 * kPage)) << "but it can be written from";
}

TEST_P(MemoryFaults, RegisteredMemoryThatWasUnmappedAnswersAnError) {
  const Handle handle(fd_);
  void* const address = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const Registration registration(address, kSize);
  // Kept reserved, so that no other memory comes to lie there.
  mmap(address, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  EXPECT_EQ(read_file(handle.get(), address, kSize), failed(EPERM));
  EXPECT_EQ(write_file(handle.get(), address, kSize), failed(EIO));
  EXPECT_EQ(read_file(handle.get(), address, 1001, 3, 7), failed(EPERM));
  expect_file_unchanged();
  munmap(address, kSize);
}

TEST_P(MemoryFaults, DeviceMemoryThatWasFreedIsRefused) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Handle handle(fd_);
  Memory memory(MemoryKind::device, 64 * 1024 * 1024);
  void* const address = memory.address();
  memory.free();
  EXPECT_EQ(read_file(handle.get(), address, kSize), failed(EPERM));
  EXPECT_EQ(write_file(handle.get(), address, kSize, 0, 4096), failed(EIO));
  EXPECT_EQ(read_file(handle.get(), address, 1001, 3, 7), failed(EPERM));
  expect_file_unchanged();
}

TEST_P(MemoryFaults, AFaultLeavesAUsableHandle) {
  const Handle handle(fd_);
  const PartlyThere gone(0, PROT_NONE);
  for (int i = 0; i < 100; ++i) read_file(handle.get(), gone.at(0), 5001, 3);
  const Memory memory(usual_memory(), kSize);
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

INSTANTIATE_TEST_SUITE_P(Opened, MemoryFaults, ::testing::Values(0, O_DIRECT), [](const auto& parameters) {
  return std::string(parameters.param == 0 ? "buffered" : "direct");
});

}  // namespace
}  // namespace sluice::fault::memory_fault_test
