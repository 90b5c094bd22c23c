// SPDX-License-Identifier: Apache-2.0
// A read into device memory that is stuck in its storage keeps no other thread from using the device.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "sick/sick_storage.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/stream_gate.h"

namespace sluice::sick {
namespace {

using namespace support;

// What a read needs of the device it asks for when its bytes are there: no kernel waits for the storage.
class StuckReadIntoTheDevice : public SickStorage, public ::testing::WithParamInterface<std::size_t> {
 protected:
  // The first so many bytes of the file, and those at the end of the range, are in the page cache.
  void warm(const Fd& fd, std::size_t size, std::size_t first) const {
    ASSERT_EQ(posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM), 0);
    ASSERT_EQ(plain_read(fd.get(), 0, first).size(), first);
    ASSERT_EQ(plain_read(fd.get(), size - 4096, 4096).size(), 4096U);
  }
};

TEST_P(StuckReadIntoTheDevice, HoldsNoOtherUseOfTheDevice) {
  const std::size_t size = GetParam();
  for (const std::size_t first : {std::size_t{4096}, size / 2}) {
    SCOPED_TRACE(::testing::Message() << first << " bytes in the page cache");
    const Fd fd = ward_->open(0, O_RDONLY);
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    const Handle handle(fd);
    const Memory memory(MemoryKind::device, size);
    // Everything that a first transfer sets up is there.
    ASSERT_EQ(read_file(handle.get(), memory.address(), size), moved(size));
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    warm(fd, size, first);
    Memory other(MemoryKind::device, kMiB);
    fall_silent();
    {
      const Stuck stuck([&] { EXPECT_EQ(read_file(handle.get(), memory.address(), size), moved(size)); });
      EXPECT_TRUE(ward_->withholds(1));
      EXPECT_TRUE(ends([] { EXPECT_EQ(cuda_function<int()>("cuCtxSynchronize")(), 0); })) << "cuCtxSynchronize";
      EXPECT_TRUE(ends([&] { other.free(); })) << "cuMemFree";
      cure();
    }
    const Bytes found = memory.get();
    for (std::size_t at = 0; at < size; at += 997) ASSERT_EQ(found[at], byte_at(at)) << at;
  }
}

TEST_P(StuckReadIntoTheDevice, HoldsNoneInABatch) {
  const std::size_t size = GetParam();
  const Fd fd = ward_->open(0, O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, size);
  posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  warm(fd, size, size / 2);
  fall_silent();
  const Stuck stuck([&] {
    Batch batch(16);
    for (std::size_t i = 0; i < 16; ++i) batch.read(handle.get(), memory, size / 16, i * size / 16, i * size / 16);
    for (const ssize_t result : batch.run()) EXPECT_EQ(result, static_cast<ssize_t>(size / 16));
  });
  EXPECT_TRUE(ward_->withholds(1));
  EXPECT_TRUE(ends([] { EXPECT_EQ(cuda_function<int()>("cuCtxSynchronize")(), 0); })) << "cuCtxSynchronize";
  cure();
}

INSTANTIATE_TEST_SUITE_P(Sizes, StuckReadIntoTheDevice, ::testing::Values(100'000, kMiB, 16 * kMiB));

}  // namespace
}  // namespace sluice::sick
