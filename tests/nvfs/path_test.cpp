// SPDX-License-Identifier: Apache-2.0
// The path `nvfs` through the public face: calls, batches and streams, edges, holes and ends, registrations and forks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "nvfs/path_fixture.h"
#include "support/batch.h"
#include "support/cuda_driver.h"

namespace sluice::nvfs_test {
namespace {

using namespace support;
using direct::Count;

Bytes part(const Bytes& bytes, std::size_t from, std::size_t size) {
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

using NvfsPath = PathTest;

TEST_F(NvfsPath, ReadsIntoARegisteredBuffer) {
  const Pages memory(6 * kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  const Count before = by_module();
  ASSERT_EQ(read_file(open.handle(), memory.address(), 6 * kMiB), moved(6 * kMiB));
  EXPECT_TRUE(same_bytes(file().content(), memory.get()));
  EXPECT_EQ(by_module() - before, (Count{1, 6 * kMiB}));
  EXPECT_GE(module().counts().moved, 6 * kMiB);
}

TEST_F(NvfsPath, WritesFromARegisteredBuffer) {
  const Pages memory(2 * kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  const Bytes bytes = random_bytes(2 * kMiB, 5);
  memory.put(0, bytes);
  const Count before = by_module();
  ASSERT_EQ(write_file(open.handle(), memory.address(), 2 * kMiB, kMiB), moved(2 * kMiB));
  EXPECT_EQ(by_module() - before, (Count{1, 2 * kMiB}));
  EXPECT_TRUE(same_bytes(bytes, part(content_of(file().path()), kMiB, 2 * kMiB)));
}

TEST_F(NvfsPath, LeavesRaggedEdgesToTheCpu) {
  const Pages memory(2 * kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  memory.fill(0x5a);
  const std::size_t size = kMiB + 1234;
  ASSERT_EQ(read_file(open.handle(), memory.address(), size, 100, 100), moved(size));
  EXPECT_TRUE(same_bytes(part(file().content(), 100, size), memory.get(100, size)));
  EXPECT_TRUE(all_bytes(0x5a, memory.get(0, 100)));
  EXPECT_TRUE(all_bytes(0x5a, memory.get(100 + size, 4096)));
  EXPECT_GT(module().counts().moved, kMiB - 8192);
  const Bytes bytes = random_bytes(size, 6);
  memory.put(100, bytes);
  ASSERT_EQ(write_file(open.handle(), memory.address(), size, 4196, 100), moved(size));
  EXPECT_TRUE(same_bytes(bytes, part(content_of(file().path()), 4196, size)));
  EXPECT_TRUE(same_bytes(part(file().content(), 0, 4196), part(content_of(file().path()), 0, 4196)));
}

TEST_F(NvfsPath, ClearsHolesAndStopsAtTheEnd) {
  const ScratchFile sparse({}, find_place("ext4")->path);
  const Fd plain = sparse.open(O_RDWR);
  plain_write(plain.get(), 2 * kMiB, random_bytes(kMiB + 100, 3));
  ASSERT_EQ(ftruncate(plain.get(), 4 * kMiB + 700), 0);
  ASSERT_EQ(fsync(plain.get()), 0);
  const Pages memory(6 * kMiB);
  const Registration registration(memory.address(), memory.size());
  memory.fill(0x5a);
  const direct::OpenFile open(sparse);
  ASSERT_EQ(read_file(open.handle(), memory.address(), 6 * kMiB), moved(4 * kMiB + 700));
  EXPECT_TRUE(same_bytes(content_of(sparse.path()), memory.get(0, 4 * kMiB + 700)));
  EXPECT_TRUE(all_bytes(0x5a, memory.get(4 * kMiB + 700, kMiB)));
  EXPECT_GT(module().counts().moved, 3 * kMiB);
}

TEST_F(NvfsPath, IsForRegisteredBuffers) {
  const Pages memory(kMiB);
  const direct::OpenFile open(file());
  ASSERT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
  EXPECT_TRUE(same_bytes(part(file().content(), 0, kMiB), memory.get()));
  EXPECT_GT(direct::counted(SLUICE_PATH_POSIX, SLUICE_REASON_NVFS_UNREGISTERED).operations, 0U);
  const std::size_t before = module().counts().maps;
  {
    const Registration registration(memory.address(), memory.size());
    ASSERT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
    EXPECT_GT(module().counts().maps, before);
  }
  EXPECT_EQ(module().counts().live, 0U) << "mappings go with the registration";
}

TEST_F(NvfsPath, CarriesBatches) {
  const Pages memory(4 * kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  ASSERT_EQ(kept_from(open.handle(), memory), "");
  const Count before = by_module();
  Batch batch(64);
  for (std::size_t i = 0; i < 64; ++i)
    batch.read(open.handle(), memory.all(), 65536, (63 - i) * 65536, memory.offset() + (63 - i) * 65536);
  for (const ssize_t count : batch.run()) EXPECT_EQ(count, 65536);
  EXPECT_TRUE(same_bytes(part(file().content(), 0, 4 * kMiB), memory.get()));
  EXPECT_EQ(by_module() - before, (Count{64, 4 * kMiB}));
  EXPECT_EQ(module().counts().refused_busy, 0U);
}

TEST_F(NvfsPath, HasManyEntriesOfABatchUnderWay) {
  const Pages memory(32 * kMiB);  // a window holds 4 MiB, and has one call at a time
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  ASSERT_EQ(kept_from(open.handle(), memory), "");
  Batch batch(8);
  for (std::size_t i = 0; i < 8; ++i)
    batch.read(open.handle(), memory.all(), 65536, i * 65536, memory.offset() + i * 4 * kMiB);
  module().hold();
  std::thread waits([&] {
    for (const ssize_t count : batch.run()) EXPECT_EQ(count, 65536);
  });
  module().wait_until_held(4);  // as many as the stand-in holds: each on a thread of its own
  module().release();
  waits.join();
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_TRUE(same_bytes(part(file().content(), i * 65536, 65536), memory.get(i * 4 * kMiB, 65536))) << i;
}

TEST_F(NvfsPath, LeavesTheEndOfTheFileInABatchToTheCpu) {
  const Pages memory(2 * kMiB);
  const Registration registration(memory.address(), memory.size());
  const ScratchFile ragged(random_bytes(kMiB + 100, 9), find_place("ext4")->path);
  const direct::OpenFile open(ragged);
  ASSERT_EQ(kept_from(open.handle(), memory), "");
  Batch batch(3);
  batch.read(open.handle(), memory.all(), 65536, 0, memory.offset());
  batch.read(open.handle(), memory.all(), 65536, kMiB - 65536, memory.offset() + kMiB - 65536);
  batch.read(open.handle(), memory.all(), 65536, kMiB, memory.offset() + kMiB);
  EXPECT_THAT(batch.run(), testing::ElementsAre(65536, 65536, 100));
  EXPECT_TRUE(same_bytes(part(ragged.content(), 0, 65536), memory.get(0, 65536)));
  EXPECT_TRUE(same_bytes(part(ragged.content(), kMiB - 65536, 65536 + 100), memory.get(kMiB - 65536, 65536 + 100)));
}

TEST_F(NvfsPath, GoesOnByTheCpuWithEntriesThatTheModuleFails) {
  const Pages memory(16 * kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  ASSERT_EQ(kept_from(open.handle(), memory), "");
  module().plan({Fault::Kind::fail, EIO}, 1, 2);
  Batch batch(4);
  for (std::size_t i = 0; i < 4; ++i)
    batch.read(open.handle(), memory.all(), 65536, i * 65536, memory.offset() + i * 4 * kMiB);
  for (const ssize_t count : batch.run()) EXPECT_EQ(count, 65536);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(same_bytes(part(file().content(), i * 65536, 65536), memory.get(i * 4 * kMiB, 65536))) << i;
}

TEST_F(NvfsPath, CarriesStreams) {
  const Pages memory(2 * kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  ASSERT_EQ(kept_from(open.handle(), memory), "");
  size_t size = 2 * kMiB;
  off_t at = 0;
  ssize_t count = -7;
  ASSERT_EQ(code(cuFileReadAsync(open.handle(), memory.address(), &size, &at, &at, &count, nullptr)), CU_FILE_SUCCESS);
  ASSERT_EQ(cuda()->stream_synchronize(nullptr), 0);
  EXPECT_EQ(count, static_cast<ssize_t>(2 * kMiB));
  EXPECT_TRUE(same_bytes(part(file().content(), 0, 2 * kMiB), memory.get()));
  EXPECT_GT(by_module().bytes, kMiB);
}

TEST_F(NvfsPath, CarriesManyThreads) {
  const Pages memory(4 * kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 16; ++i) {
        const std::size_t at = t * kMiB + i * 65536;
        EXPECT_EQ(read_file(open.handle(), memory.address(), 65536, static_cast<off_t>(at), static_cast<off_t>(at)),
                  moved(65536));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(same_bytes(part(file().content(), 0, 4 * kMiB), memory.get()));
  EXPECT_EQ(module().counts().refused_busy, 0U);
}

TEST_F(NvfsPath, GoesOnByTheCpuWhereACallFails) {
  const Pages memory(4 * kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  ASSERT_EQ(kept_from(open.handle(), memory), "");
  for (const int error : {EIO, EBUSY, ENOMEM, EINTR}) {
    memory.fill(0);
    module().plan({Fault::Kind::fail, error}, 1);
    EXPECT_EQ(read_file(open.handle(), memory.address(), 4 * kMiB), moved(4 * kMiB));
    EXPECT_TRUE(same_bytes(part(file().content(), 0, 4 * kMiB), memory.get()));
    EXPECT_EQ(kept_from(open.handle(), memory), "") << "it says nothing of the path";
  }
  module().refuse_maps(ENOMEM, 100);
  const Pages other(kMiB);
  const Registration other_registration(other.address(), other.size());
  EXPECT_EQ(read_file(open.handle(), other.address(), kMiB), moved(kMiB));
  EXPECT_TRUE(same_bytes(part(file().content(), 0, kMiB), other.get()));
}

TEST_F(NvfsPath, IsLeftWhereWholeBlocksAreRefused) {
  const Pages memory(kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  ASSERT_EQ(kept_from(open.handle(), memory), "");
  module().plan({Fault::Kind::fail, EINVAL});
  EXPECT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
  EXPECT_TRUE(same_bytes(part(file().content(), 0, kMiB), memory.get()));
  EXPECT_EQ(kept_from(open.handle(), memory), "nvfs_call_refused");
}

TEST_F(NvfsPath, SurvivesMemoryThatIsFreedEarly) {
  const Pages memory(kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  ASSERT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
  module().free_device_memory(0, ~std::uint64_t{0} / 2);
  for (int i = 0; i < 2; ++i) {
    memory.fill(0);
    EXPECT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
    EXPECT_TRUE(same_bytes(part(file().content(), 0, kMiB), memory.get()));
  }
}

TEST_F(NvfsPath, EndsWithTheDriver) {
  const Pages memory(kMiB);
  {
    const direct::OpenFile open(file());
    const Registration registration(memory.address(), memory.size());
    ASSERT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
    EXPECT_EQ(module().counts().nodes_open, 1U);
  }
  close_driver_fully();
  EXPECT_EQ(module().counts().nodes_open, 0U);
  EXPECT_EQ(module().counts().live, 0U);
}

TEST_F(NvfsPath, IsNotInheritedByChildren) {
  const Pages memory(kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  ASSERT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
  const std::size_t unmaps = module().counts().unmaps;
  const pid_t child = fork();
  if (child == 0) {
    Bytes host(kMiB);
    const bool fine = read_file(open.handle(), host.data(), kMiB) == moved(kMiB) && module().counts().unmaps == unmaps;
    _exit(fine ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  memory.fill(0);
  ASSERT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
  EXPECT_TRUE(same_bytes(part(file().content(), 0, kMiB), memory.get()));
}

}  // namespace
}  // namespace sluice::nvfs_test
