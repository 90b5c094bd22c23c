// SPDX-License-Identifier: Apache-2.0
// The trial before trust: what is tried, on what, and what is said of it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "direct/direct_fixture.h"

namespace sluice::direct {
namespace {

using namespace support;

class Trial : public DirectTest {
 protected:
  static std::string reason(CUfileHandle_t handle, const Memory& memory) {
    return explain(handle, memory.address()).reason_name;
  }
};

TEST_F(Trial, ProvesAFileSystemByOneVerifiedRead) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  const sluice_explanation_t answer = explain(file.handle(), memory.address());
  EXPECT_STREQ(answer.path_name, "p2pdma");
  EXPECT_STREQ(answer.reason_name, "direct");
  EXPECT_NE(std::string(answer.detail).find("65536 bytes at 0 were verified"), std::string::npos) << answer.detail;
}

TEST_F(Trial, IsMadeOnceForAFileSystemAndADevice) {
  const ScratchFile one(kMebibyte);
  const ScratchFile two(kMebibyte);
  const OpenFile first(one);
  const OpenFile second(two);
  const Memory memory(MemoryKind::device, kMebibyte);
  EXPECT_EQ(reason(first.handle(), memory), "direct");
  EXPECT_EQ(reason(second.handle(), memory), "direct");
  const std::vector<Pair> known = pairs();
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(known[0].gpu, 0);
  EXPECT_EQ(known[0].reason, "direct");
}

TEST_F(Trial, IsForgottenWithTheDriversLife) {
  const ScratchFile scratch(kMebibyte);
  const Memory memory(MemoryKind::device, kMebibyte);
  {
    const OpenFile file(scratch);
    EXPECT_EQ(reason(file.handle(), memory), "direct");
  }
  close_driver_fully();
  EXPECT_TRUE(pairs().empty());
}

TEST_F(Trial, IsMadeByTheFirstTransferToo) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  ASSERT_EQ(read_file(file.handle(), memory.address(), kMebibyte), moved(kMebibyte));
  EXPECT_EQ(direct.so_far(), (Count{1, kMebibyte}));
  EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
}

TEST_F(Trial, TouchesNeitherTheFileNorTheCallersMemory) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  memory.fill(0x5a);
  EXPECT_EQ(reason(file.handle(), memory), "direct");
  EXPECT_TRUE(all_bytes(0x5a, memory.get()));
  EXPECT_TRUE(same_bytes(scratch.content(), content_of(scratch.path())));
  EXPECT_EQ(lseek(file.fd(), 0, SEEK_CUR), 0);
}

TEST_F(Trial, NeedsNoMoreThanTwoBytes) {
  const Bytes content{'x', '\n'};
  const ScratchFile scratch(content);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kBlock);
  EXPECT_EQ(reason(file.handle(), memory), "direct");
}

TEST_F(Trial, WaitsForAFileThatHoldsSomething) {
  const ScratchFile scratch;
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  const sluice_explanation_t before = explain(file.handle(), memory.address());
  EXPECT_STREQ(before.path_name, "posix");
  EXPECT_STREQ(before.reason_name, "not_proven");
  EXPECT_NE(std::string(before.detail).find("no stored bytes"), std::string::npos) << before.detail;
  ASSERT_EQ(write_file(file.handle(), memory.address(), kMebibyte), moved(kMebibyte));
  EXPECT_EQ(reason(file.handle(), memory), "direct");
}

TEST_F(Trial, TakesAHoleForNoProof) {
  const ScratchFile scratch;
  ASSERT_EQ(truncate(scratch.path().c_str(), kMebibyte), 0);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  EXPECT_EQ(reason(file.handle(), memory), "not_proven");
  EXPECT_EQ(read_file(file.handle(), memory.address(), kMebibyte), moved(kMebibyte));
  EXPECT_TRUE(all_bytes(0, memory.get()));
}

TEST_F(Trial, TakesReservedBlocksForNoProof) {
  const ScratchFile scratch;
  const OpenFile file(scratch);
  if (fallocate(file.fd(), 0, 0, kMebibyte) != 0) GTEST_SKIP() << "this file system reserves no blocks";
  const Memory memory(MemoryKind::device, kMebibyte);
  EXPECT_EQ(reason(file.handle(), memory), "not_proven");
}

TEST_F(Trial, FindsTheBytesBehindAHole) {
  const ScratchFile scratch;
  const OpenFile file(scratch);
  plain_write(scratch.open(O_WRONLY).get(), 10 * kMebibyte, random_bytes(kMebibyte, 3));
  const Memory memory(MemoryKind::device, kMebibyte);
  const sluice_explanation_t answer = explain(file.handle(), memory.address());
  EXPECT_STREQ(answer.reason_name, "direct");
  EXPECT_NE(std::string(answer.detail).find("at 10485760"), std::string::npos) << answer.detail;
}

TEST_F(Trial, CannotBeMadeByADescriptorThatMayNotRead) {
  const ScratchFile scratch(kMebibyte);
  const Memory memory(MemoryKind::device, kMebibyte);
  const OpenFile writing(scratch, O_WRONLY | O_DIRECT);
  const sluice_explanation_t before = explain(writing.handle(), memory.address(), 0, 0, CUFILE_WRITE);
  EXPECT_STREQ(before.reason_name, "not_proven");
  EXPECT_NE(std::string(before.detail).find("may not read"), std::string::npos) << before.detail;
  // Another descriptor of the file system makes up for it.
  const OpenFile reading(scratch, O_RDONLY | O_DIRECT);
  EXPECT_EQ(reason(reading.handle(), memory), "direct");
  EXPECT_STREQ(explain(writing.handle(), memory.address(), 0, 0, CUFILE_WRITE).reason_name, "direct");
}

TEST_F(Trial, IsNotForDescriptorsWithoutODirect) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch, O_RDWR);
  const Memory memory(MemoryKind::device, kMebibyte);
  EXPECT_EQ(reason(file.handle(), memory), "buffered_descriptor");
}

TEST_F(Trial, IsNotForHostMemory) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::pinned, kMebibyte);
  EXPECT_EQ(reason(file.handle(), memory), "host_memory");
  EXPECT_TRUE(pairs().empty());
}

TEST_F(Trial, IsNotForFileSystemsThatCopyBehindODirect) {
  struct Case {
    const char* place;
    const char* reason;
  };
  int tried = 0;
  for (const Case& known : {Case{"btrfs", "unsupported_file_system"}, Case{"tmpfs", "memory_file_system"},
                            Case{"overlay-ext4", "stacked_file_system"}, Case{"fuse", "fuse_file_system"}}) {
    const Place* const place = find_place(known.place);
    if (place == nullptr) continue;
    SCOPED_TRACE(known.place);
    const ScratchFile scratch(random_bytes(kMebibyte, 1), place->path);
    Fd fd(open(scratch.path().c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    if (!fd.valid()) fd = scratch.open(O_RDWR);
    const Handle handle(fd);
    const Memory memory(MemoryKind::device, kMebibyte);
    EXPECT_EQ(reason(handle.get(), memory), known.reason);
    EXPECT_EQ(read_file(handle.get(), memory.address(), kMebibyte), moved(kMebibyte));
    ++tried;
  }
  if (tried == 0) GTEST_SKIP() << "none of these file systems can be mounted here";
  EXPECT_TRUE(pairs().empty());
}

TEST_F(Trial, IsMadeOnEachFileSystemThatTakesODirectForWhatItIs) {
  int tried = 0;
  for (const char* const name : {"ext4", "xfs", "loop"}) {
    const Place* const place = find_place(name);
    if (place == nullptr) continue;
    SCOPED_TRACE(name);
    const bool raw = std::string(name) == "loop";
    const Fd held = raw ? hold(*place) : Fd();
    const Memory memory(MemoryKind::device, kMebibyte);
    if (raw) {
      const Fd fd(open(place->path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
      plain_write(Fd(open(place->path.c_str(), O_WRONLY | O_CLOEXEC)).get(), 0, random_bytes(kMebibyte, 2));
      const Handle handle(fd);
      EXPECT_EQ(reason(handle.get(), memory), "direct");
    } else {
      const ScratchFile scratch(random_bytes(kMebibyte, 1), place->path);
      const OpenFile file(scratch);
      EXPECT_EQ(reason(file.handle(), memory), "direct");
    }
    ++tried;
  }
  if (tried == 0) GTEST_SKIP() << "none of these file systems can be mounted here";
}

}  // namespace
}  // namespace sluice::direct
