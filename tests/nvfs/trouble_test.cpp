// SPDX-License-Identifier: Apache-2.0
// What goes wrong: holes, drivers without hooks, refused calls and mappings, memory that is freed, forks.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "nvfs/rig.h"

namespace sluice::nvfs_test::trouble_test {
namespace {

using base::Direction;
using base::Outcome;
using nvfs::Filled;
using nvfs::Trouble;

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

using Sparse = ClientTest;

TEST_F(Sparse, HolesAreClearedInDeviceMemory) {
  const File file;
  file.write(128 * kKibibyte, pattern(64 * kKibibyte, 3));
  file.resize(256 * kKibibyte);
  const DeviceMemory memory(kMebibyte);
  memory.fill(0xee);
  nvfs::Windows windows = windows_onto(memory);
  nvfs::Member one = member(Direction::read, file, 0, memory.address(), 256 * kKibibyte, windows);
  Clearing holes(memory.bytes().data());
  one.holes = &holes;
  EXPECT_EQ(move(one).outcome().count(), 256 * kKibibyte);
  EXPECT_TRUE(same(memory.bytes(0, 256 * kKibibyte), file.content()));
  EXPECT_EQ(holes.cleared(), 192 * kKibibyte);
}

TEST_F(Sparse, TheWordOfTheLastCallIsNotTakenForThisOnes) {
  const File sparse;
  sparse.resize(64 * kKibibyte);
  const File dense(64 * kKibibyte);
  const DeviceMemory memory(64 * kKibibyte);
  nvfs::Windows windows = windows_onto(memory);
  Clearing holes(memory.bytes().data());
  for (const File* file : {&sparse, &dense}) {
    nvfs::Member one = member(Direction::read, *file, 0, memory.address(), 64 * kKibibyte, windows);
    one.holes = &holes;
    EXPECT_EQ(move(one).outcome().count(), 64 * kKibibyte);
  }
  EXPECT_EQ(holes.cleared(), 64 * kKibibyte);
  EXPECT_TRUE(same(memory.bytes(), dense.content()));
}

TEST_F(Sparse, WhatNobodyCanFillEndsTheTransferBeforeTheHole) {
  const File file(64 * kKibibyte);
  file.resize(256 * kKibibyte);
  const DeviceMemory memory(kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  nvfs::Member one = member(Direction::read, file, 0, memory.address(), 256 * kKibibyte, windows);
  Clearing holes(memory.bytes().data(), Filled::left);
  one.holes = &holes;
  const nvfs::Member done = move(one);
  EXPECT_EQ(done.outcome().count(), 64 * kKibibyte);
  EXPECT_EQ(done.trouble, Trouble::none);
}

TEST_F(Sparse, AHoleOverDataIsNoTransfer) {
  const File file(kMebibyte);
  const DeviceMemory memory(kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  fake_.set_hooked(false);
  nvfs::Member one = member(Direction::read, file, 0, memory.address(), kMebibyte, windows);
  Clearing holes(memory.bytes().data(), Filled::over_data);
  one.holes = &holes;
  const nvfs::Member done = move(one);
  EXPECT_EQ(done.outcome(), Outcome::system_error(EIO));
  EXPECT_EQ(done.trouble, Trouble::hole_over_data);
}

TEST_F(Sparse, APageOfAnotherVersionIsNotRead) {
  const File file(kMebibyte);
  const DeviceMemory memory(kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  fake_.plan({Fault::Kind::spoil_the_page});
  const nvfs::Member done = move(member(Direction::read, file, 0, memory.address(), kMebibyte, windows));
  EXPECT_EQ(done.trouble, Trouble::not_understood);
}

using Unhooked = ClientTest;

TEST_F(Unhooked, AWriteThatMovesNothingIsAFailure) {
  const File file(kMebibyte);
  const DeviceMemory memory(kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  fake_.set_hooked(false);
  const nvfs::Member done = move(member(Direction::write, file, 0, memory.address(), kMebibyte, windows));
  EXPECT_EQ(done.outcome(), Outcome::system_error(EIO));
  EXPECT_EQ(done.trouble, Trouble::wrote_nothing);
}

using Refusal = ClientTest;

TEST_F(Refusal, IsToldAsItIs) {
  const File file(kMebibyte);
  const DeviceMemory memory(kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  for (const int error : {EIO, ENOSPC, EINTR, EBUSY, ENOMEM}) {
    fake_.plan({Fault::Kind::fail, error});
    const nvfs::Member done = move(member(Direction::read, file, 0, memory.address(), kMebibyte, windows));
    EXPECT_EQ(done.outcome(), Outcome::system_error(error));
    EXPECT_EQ(done.trouble, Trouble::none);
  }
  nvfs::Member stranger = member(Direction::read, file, 0, memory.address(), kMebibyte, windows);
  ++stranger.file.inode;
  EXPECT_EQ(move(stranger).outcome(), Outcome::system_error(ESTALE));
}

TEST_F(Refusal, InMidWayLeavesWhatCameBefore) {
  const File file(16 * kMebibyte);
  const DeviceMemory memory(16 * kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  for (std::size_t skip = 0; skip < 16; ++skip) {
    memory.fill(0xee);
    fake_.plan({Fault::Kind::fail, EIO}, skip);
    const nvfs::Member done = move(member(Direction::read, file, 0, memory.address(), 16 * kMebibyte, windows));
    const std::uint64_t count = done.outcome().count();
    EXPECT_EQ(count % kMebibyte, 0U);
    EXPECT_LT(count, 16 * kMebibyte);
    EXPECT_EQ(done.error, EIO);
    EXPECT_TRUE(same(memory.bytes(0, count), file.content(0, count)));
  }
}

TEST_F(Refusal, AShortWriteIsShort) {
  const File file(4 * kMebibyte);
  const DeviceMemory memory(4 * kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  fake_.plan({Fault::Kind::shorten, static_cast<std::int64_t>(64 * kKibibyte)}, 2);
  const nvfs::Member done = move(member(Direction::write, file, 0, memory.address(), 4 * kMebibyte, windows));
  EXPECT_EQ(done.outcome().count(), 2 * kMebibyte + 64 * kKibibyte);
}

TEST_F(Refusal, OfAMappingIsTold) {
  const File file(kMebibyte);
  const DeviceMemory memory(kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  fake_.refuse_maps(EINVAL, 1);
  const nvfs::Member done = move(member(Direction::read, file, 0, memory.address(), kMebibyte, windows));
  EXPECT_EQ(done.outcome(), Outcome::system_error(EINVAL));
  EXPECT_EQ(done.trouble, Trouble::not_mapped);
  EXPECT_EQ(move(member(Direction::read, file, 0, memory.address(), kMebibyte, windows)).outcome().count(), kMebibyte);
}

TEST_F(Refusal, HostMemoryIsNotMapped) {
  const File file(kMebibyte);
  Bytes host(2 * kMebibyte);
  const std::uint64_t address = (reinterpret_cast<std::uint64_t>(host.data()) + kBlock - 1) / kBlock * kBlock;
  nvfs::Windows windows(client_.mappings(), address, kMebibyte, 0x300);
  const nvfs::Member done = move(member(Direction::read, file, 0, address, kBlock, windows));
  EXPECT_EQ(done.outcome(), Outcome::system_error(EINVAL));
}

using Mapped = ClientTest;

TEST_F(Mapped, GoesWithItsRegistration) {
  const File file(16 * kMebibyte);
  const DeviceMemory memory(16 * kMebibyte);
  {
    nvfs::Windows windows = windows_onto(memory);
    EXPECT_EQ(fake_.counts().maps, 0U) << "before a transfer needs it";
    move(member(Direction::read, file, 0, memory.address(), 16 * kMebibyte, windows));
    EXPECT_EQ(fake_.counts().live, 4U);
    move(member(Direction::read, file, 0, memory.address(), 16 * kMebibyte, windows));
    EXPECT_EQ(fake_.counts().maps, 4U);
  }
  EXPECT_EQ(fake_.counts().live, 0U);
  EXPECT_EQ(client_.mappings().count(), 0U);
}

TEST_F(Mapped, TheOldestMakesRoom) {
  client_.mappings().set_limit(2);
  const File file(16 * kMebibyte);
  const DeviceMemory memory(16 * kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  EXPECT_EQ(move(member(Direction::read, file, 0, memory.address(), 16 * kMebibyte, windows)).outcome().count(),
            16 * kMebibyte);
  EXPECT_TRUE(same(memory.bytes(), file.content()));
  EXPECT_EQ(fake_.counts().live, 2U);
}

TEST_F(Mapped, ABarThatIsFullOfOursIsMadeRoomIn) {
  fake_.set_bar(8 * kMebibyte);
  const File file(16 * kMebibyte);
  const DeviceMemory memory(16 * kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  for (std::uint64_t at = 0; at < 16 * kMebibyte; at += kMebibyte) {
    EXPECT_EQ(move(member(Direction::read, file, at, memory.address() + at, kMebibyte, windows)).outcome().count(),
              kMebibyte);
  }
  EXPECT_TRUE(same(memory.bytes(), file.content()));
  fake_.set_bar(0);
  nvfs::Windows others = windows_onto(memory);
  const nvfs::Member done = move(member(Direction::read, file, 0, memory.address(), kMebibyte, others));
  EXPECT_EQ(done.outcome(), Outcome::system_error(ENOMEM));
}

TEST_F(Mapped, MemoryThatIsFreedEarlyIsMappedAnew) {
  const File file(kMebibyte);
  const DeviceMemory memory(kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  move(member(Direction::read, file, 0, memory.address(), kMebibyte, windows));
  fake_.free_device_memory(memory.address(), kMebibyte);
  const nvfs::Member done = move(member(Direction::read, file, 0, memory.address(), kMebibyte, windows));
  EXPECT_EQ(done.outcome(), Outcome::system_error(EBUSY));
  EXPECT_EQ(done.trouble, Trouble::memory_gone);
  EXPECT_EQ(fake_.counts().live, 0U);
  EXPECT_EQ(move(member(Direction::read, file, 0, memory.address(), kMebibyte, windows)).outcome().count(), kMebibyte);
}

// Both have the pages of a fork at first, and the module writes to one of them.
TEST_F(Mapped, AForkInMidWayTakesNothingFromTheParent) {
  const File file(16 * kMebibyte);
  const DeviceMemory memory(16 * kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  fake_.hold();
  std::thread reader([&] {
    const nvfs::Member done = move(member(Direction::read, file, 0, memory.address(), 16 * kMebibyte, windows));
    EXPECT_EQ(done.outcome().count(), 16 * kMebibyte);
  });
  fake_.wait_until_held(4);
  client_.before_fork();
  const pid_t child = fork();
  if (child == 0) {
    client_.after_fork(true);
    const bool has_none = !windows.at(memory.address()).is_mapped() && !client_.is_open();
    _exit(has_none ? 0 : 1);
  }
  client_.after_fork(false);
  fake_.release();
  reader.join();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(same(memory.bytes(), file.content()));
}

TEST(Attaching, OpensANodeOnlyOfAModuleThatIsRecentEnough) {
  const auto is_open = [](const Machine& machine) {
    FakeModule fake(machine);
    nvfs::Client client;
    client.attach(facts::Root{});
    return client.is_open();
  };
  EXPECT_TRUE(is_open({}));
  EXPECT_TRUE(is_open({.version = "2.12"}));
  EXPECT_TRUE(is_open({.version = "3.0"}));
  EXPECT_FALSE(is_open({.version = "2.11"}));
  EXPECT_FALSE(is_open({.version = "1.99"}));
  EXPECT_FALSE(is_open({.version = "unknown"}));
  EXPECT_FALSE(is_open({.loaded = false}));
  EXPECT_FALSE(is_open({.nodes = 0}));
}

TEST(Attaching, TellsWhyThereIsNoNode) {
  FakeModule fake({.open_error = EACCES});
  nvfs::Client client;
  client.attach(facts::Root{});
  EXPECT_FALSE(client.is_open());
  EXPECT_EQ(client.open_error(), EACCES);
}

TEST(Attaching, FindsTheHooksThatOnlyAnOpenedNodeShows) {
  FakeModule fake;
  EXPECT_TRUE(facts::of_nvfs(facts::Root{}).hooked.empty()) << "wekafsio is always there, and proves nothing";
  nvfs::Client client;
  client.attach(facts::Root{});
  EXPECT_EQ(client.facts().hooked, std::vector<std::string>{"nvme"});
  client.detach();
  EXPECT_EQ(fake.counts().nodes_open, 0U);
}

}  // namespace
}  // namespace sluice::nvfs_test::trouble_test
