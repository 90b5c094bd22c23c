// SPDX-License-Identifier: Apache-2.0
// Handles that come with a file system's own operations.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

// A file system of one file in memory, and how often it was asked.
struct Backing {
  Bytes content;
  std::atomic<int> reads{0};
  std::atomic<int> writes{0};
  int error = 0;                // the errno that each operation fails with; 0: it works
  std::size_t most = SIZE_MAX;  // bytes that one operation moves at most
};
Backing* backing = nullptr;

ssize_t fail_with(int error) {
  errno = error;
  return -1;
}

ssize_t read_backing(void* /*handle*/, char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* /*info*/) {
  ++backing->reads;
  if (backing->error != 0) return fail_with(backing->error);
  const std::size_t at = std::min(static_cast<std::size_t>(offset), backing->content.size());
  const std::size_t count = std::min({size, backing->content.size() - at, backing->most});
  std::memcpy(buffer, backing->content.data() + at, count);
  return static_cast<ssize_t>(count);
}

ssize_t write_backing(void* /*handle*/, const char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* /*info*/) {
  ++backing->writes;
  if (backing->error != 0) return fail_with(backing->error);
  const std::size_t count = std::min(size, backing->most);
  const std::size_t end = static_cast<std::size_t>(offset) + count;
  if (backing->content.size() < end) backing->content.resize(end);
  std::memcpy(backing->content.data() + offset, buffer, count);
  return static_cast<ssize_t>(count);
}

class UserspaceFs : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    backing = &backing_;
    operations_.read = read_backing;
    operations_.write = write_backing;
  }

  int register_file(const CUfileFSOps_t* operations) {
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
    description.handle.fd = fd_.get();
    description.fs_ops = operations;
    return code(cuFileHandleRegister(&handle_, &description));
  }

  ScratchFile file_{20000};
  Fd fd_ = file_.open(O_RDWR);
  Backing backing_;
  CUfileFSOps_t operations_{};
  CUfileHandle_t handle_ = nullptr;
};

TEST_F(UserspaceFs, NeedsOperations) {
  EXPECT_EQ(register_file(nullptr), CU_FILE_IO_NOT_SUPPORTED);
}

TEST_F(UserspaceFs, NeedsAnOpenDescriptor) {
  fd_.reset();
  EXPECT_EQ(register_file(&operations_), CU_FILE_INVALID_VALUE);
}

TEST_F(UserspaceFs, ReadsThroughItsOperation) {
  backing_.content = random_bytes(3 * 1024 * 1024 + 5, 1);
  ASSERT_EQ(register_file(&operations_), CU_FILE_SUCCESS);
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::managed, MemoryKind::device}) {
    if (!available(kind)) continue;
    SCOPED_TRACE(name_of(kind));
    const Memory memory(kind, backing_.content.size() + 100);
    memory.fill(3);
    EXPECT_EQ(read_file(handle_, memory.address(), memory.size() - 7, 0, 7), moved(backing_.content.size()));
    EXPECT_TRUE(all_bytes(3, memory.get(0, 7)));
    EXPECT_TRUE(same_bytes(backing_.content, memory.get(7, backing_.content.size())));
    EXPECT_TRUE(all_bytes(3, memory.get(7 + backing_.content.size(), 93)));
  }
  EXPECT_GT(backing_.reads, 0);
}

TEST_F(UserspaceFs, WritesThroughItsOperation) {
  const Bytes content = random_bytes(3 * 1024 * 1024 + 5, 2);
  ASSERT_EQ(register_file(&operations_), CU_FILE_SUCCESS);
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::managed, MemoryKind::device}) {
    if (!available(kind)) continue;
    SCOPED_TRACE(name_of(kind));
    backing_.content.clear();
    const Memory memory(kind, content.size());
    memory.put(0, content);
    EXPECT_EQ(write_file(handle_, memory.address(), content.size()), moved(content.size()));
    EXPECT_TRUE(same_bytes(content, backing_.content));
  }
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path()))) << "the kernel's file was written";
}

TEST_F(UserspaceFs, ShortTransfersAreContinued) {
  backing_.content = random_bytes(100000, 1);
  backing_.most = 777;
  ASSERT_EQ(register_file(&operations_), CU_FILE_SUCCESS);
  const Memory memory(usual_memory(), 100000);
  EXPECT_EQ(read_file(handle_, memory.address(), 100000), moved(100000));
  EXPECT_TRUE(same_bytes(backing_.content, memory.get()));
}

TEST_F(UserspaceFs, ErrorsReachTheCaller) {
  backing_.error = EDQUOT;
  ASSERT_EQ(register_file(&operations_), CU_FILE_SUCCESS);
  const Memory memory(usual_memory(), 4096);
  EXPECT_EQ(read_file(handle_, memory.address(), 4096), failed(EDQUOT));
  EXPECT_EQ(write_file(handle_, memory.address(), 4096), failed(EDQUOT));
}

TEST_F(UserspaceFs, WhatItDoesNotOfferTheKernelDoes) {
  const CUfileFSOps_t none{};
  ASSERT_EQ(register_file(&none), CU_FILE_SUCCESS);
  const Memory memory(usual_memory(), file_.content().size());
  EXPECT_EQ(read_file(handle_, memory.address(), memory.size()), moved(memory.size()));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

}  // namespace
}  // namespace sluice::contract
