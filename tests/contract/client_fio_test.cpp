// SPDX-License-Identifier: Apache-2.0
// What fio's libcufile engine and PyTorch's torch.cuda.gds rely on, played as they do it.
#include <gtest/gtest.h>

#include <cerrno>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

class Fio : public CufileTest {};

// Open, register, write and read in blocks, deregister, close; a short count is continued by the caller.
TEST_F(Fio, DrivesAFileThroughItsPairsOfCalls) {
  constexpr std::size_t block = 1024 * 1024;
  constexpr std::size_t blocks = 5;
  const ScratchFile file;
  const Bytes content = random_bytes(blocks * block, 1);
  ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  const Fd fd = file.open(O_RDWR | O_DIRECT);
  Handle handle(fd);
  const Memory memory(usual_memory(), block);
  ASSERT_EQ(code(cuFileBufRegister(memory.address(), block, 0)), CU_FILE_SUCCESS);
  const auto whole = [&](auto transfer, std::size_t offset) {
    std::size_t done = 0;
    while (done < block) {
      const ssize_t count = transfer(handle.get(), memory.address(), block - done, static_cast<off_t>(offset + done),
                                     static_cast<off_t>(done));
      if (count <= 0) return false;
      done += static_cast<std::size_t>(count);
    }
    return true;
  };
  for (std::size_t i = 0; i < blocks; ++i) {
    memory.put(0, {content.data() + i * block, block});
    ASSERT_TRUE(whole(cuFileWrite, i * block)) << i;
  }
  for (std::size_t i = 0; i < blocks; ++i) {
    memory.fill(0);
    ASSERT_TRUE(whole(cuFileRead, i * block)) << i;
    ASSERT_TRUE(same_bytes({content.data() + i * block, block}, memory.get())) << i;
  }
  EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS);
  handle.deregister();
  EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  EXPECT_TRUE(same_bytes(content, content_of(file.path())));
}

// -1 is errno; any other negative count would go to the header's texts. Neither leaves it without one.
TEST_F(Fio, HasATextForEveryFailure) {
  const ScratchFile file(4096);
  const Fd fd = file.open(O_WRONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  errno = 0;
  const ssize_t count = cuFileRead(handle.get(), memory.address(), 4096, 0, 0);
  const int error = errno;
  ASSERT_EQ(count, -1);
  ASSERT_TRUE(IS_CUFILE_ERR(error)) << error;
  EXPECT_STREQ(CUFILE_ERRSTR(error), cufileop_status_error(CU_FILE_INVALID_FILE_OPEN_FLAG));
  EXPECT_STREQ(CUFILE_ERRSTR(-error), cufileop_status_error(CU_FILE_INVALID_FILE_OPEN_FLAG)) << "with the other sign";
}

class Torch : public DeviceTest {};

// A caching allocator hands out storages that begin anywhere inside one block; each is registered by itself.
TEST_F(Torch, StoragesInsideOneBlockAreRegisteredAndMoved) {
  constexpr std::size_t storage = 512 * 1000;
  const ScratchFile file;
  const Memory block(MemoryKind::device, 2 * 1024 * 1024);
  const Bytes content = random_bytes(storage, 2);
  const Fd fd = file.open(O_RDWR | O_DIRECT);
  const Handle handle(fd);
  block.put(512, content);
  {
    const Registration saved(block.at(512), storage);
    const Registration other(block.at(512 + storage), storage);
    EXPECT_EQ(write_file(handle.get(), block.at(512), storage), moved(storage));
    EXPECT_EQ(read_file(handle.get(), block.at(512 + storage), storage), moved(storage));
  }
  EXPECT_TRUE(same_bytes(content, block.get(512 + storage, storage)));
}

}  // namespace
}  // namespace sluice::contract
