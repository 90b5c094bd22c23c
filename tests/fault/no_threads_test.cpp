// SPDX-License-Identifier: Apache-2.0
// Streams where no thread can be started that would attend to them (no_threads.cpp): the call waits for its stream and
// does the transfer itself, and nothing is left in a stream that would not be served.
#include <gtest/gtest.h>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::fault {
namespace {

using namespace support;

constexpr std::size_t kSize = 300'000;

class NoThreads : public DeviceTest {};

TEST_F(NoThreads, AStreamsTransfersAreDoneByTheCall) {
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kSize);
  std::size_t size = kSize;
  off_t nowhere = 0;
  ssize_t moved_bytes = -77;
  ASSERT_EQ(code(cuFileReadAsync(handle.get(), memory.address(), &size, &nowhere, &nowhere, &moved_bytes, nullptr)),
            CU_FILE_SUCCESS);
  ASSERT_EQ(cuda()->context_synchronize(), 0);
  EXPECT_EQ(moved_bytes, ssize_t{kSize});
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
  const Bytes written = random_bytes(kSize, 5);
  memory.put(0, written);
  ASSERT_EQ(code(cuFileWriteAsync(handle.get(), memory.address(), &size, &nowhere, &nowhere, &moved_bytes, nullptr)),
            CU_FILE_SUCCESS);
  ASSERT_EQ(cuda()->context_synchronize(), 0);
  EXPECT_EQ(moved_bytes, ssize_t{kSize});
  EXPECT_TRUE(same_bytes(written, content_of(file.path())));
}

}  // namespace
}  // namespace sluice::fault
