// SPDX-License-Identifier: Apache-2.0
// Path and reason. The order of reasons that these tests hold the table to is the one in docs/reference/paths.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paths/decided.h"
#include "paths/table.h"
#include "route/paths_page.h"
#include "route/reasons.h"
#include "route/route.h"

namespace sluice::route {
namespace {

using facts::FileKind;
using facts::FileSystem;
using facts::MemoryKind;

struct Situation : paths::Situation {
  Shape shape;

  RouteChoice choice(base::Direction direction = base::Direction::read) const {
    const paths::Decided decided = paths::decided(*this, {.direction = direction});
    return {decided.path, decided.reason};
  }
  // Of a whole request, which may be too ragged for the path that its verdict promises.
  paths::Decided decision() const { return paths::decided(*this, shape); }
  Reason reason() const { return decision().reason; }
};

// Everything that can be in favour of a direct path.
Situation ideal() {
  Situation situation;
  situation.file.file_system = FileSystem::ext4;
  situation.file.file_system_name = "ext4";
  situation.file.direct = true;
  situation.file.block = {"nvme0n1", "nvme", "pcie", 512, {}};
  situation.buffer.kind = MemoryKind::device;
  situation.buffer.device = 0;
  situation.machine.kernel_has_p2pdma = true;
  situation.rules.use_pci_p2pdma = true;
  situation.reach = facts::TrialResult::proven;
  situation.shape.size = 65536;
  return situation;
}

// Makes `reason` hold, and nothing before it in the order.
void impose(Situation& situation, Reason reason) {
  switch (static_cast<int>(reason)) {
    case SLUICE_REASON_CALLER_OPERATIONS:
      situation.file.caller_reads = true;
      return;
    case SLUICE_REASON_HOST_MEMORY:
      situation.buffer.kind = MemoryKind::pinned_host;
      return;
    case SLUICE_REASON_PLAIN_MODE:
      situation.rules.plain = true;
      return;
    case SLUICE_REASON_FORCED_BY_CONFIGURATION:
      situation.rules.force_compat = true;
      return;
    case SLUICE_REASON_MANAGED_MEMORY:
      situation.buffer.kind = MemoryKind::managed;
      return;
    case SLUICE_REASON_SOFT_GPU:
      situation.buffer.soft = true;
      return;
    case SLUICE_REASON_MEMORY_FILE_SYSTEM:
      situation.file.file_system = FileSystem::memory;
      return;
    case SLUICE_REASON_STACKED_FILE_SYSTEM:
      situation.file.file_system = FileSystem::stacked;
      return;
    case SLUICE_REASON_FUSE_FILE_SYSTEM:
      situation.file.file_system = FileSystem::fuse;
      return;
    case SLUICE_REASON_NETWORK_FILE_SYSTEM:
      situation.file.file_system = FileSystem::network;
      return;
    case SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM:
      situation.file.file_system = FileSystem::btrfs;
      return;
    case SLUICE_REASON_UNSUPPORTED_DEVICE:
      situation.file.block = {"zram0", "zram", "", 4096, {}};
      return;
    case SLUICE_REASON_DIRECT_PATH_OFF:
      situation.rules.use_pci_p2pdma = false;
      return;
    case SLUICE_REASON_KERNEL_WITHOUT_P2PDMA:
      situation.machine.kernel_has_p2pdma = false;
      return;
    case SLUICE_REASON_NO_DIRECT_PROVIDER:
      situation.reach = facts::TrialResult::no_provider;
      return;
    case SLUICE_REASON_BUFFERED_DESCRIPTOR:
      situation.file.direct = false;
      return;
    case SLUICE_REASON_PAGES_REFUSED:
      situation.reach = facts::TrialResult::pages_refused;
      return;
    case SLUICE_REASON_UNREACHABLE_DEVICE:
      situation.reach = facts::TrialResult::unreachable;
      return;
    case SLUICE_REASON_PINNING_REFUSED:
      situation.reach = facts::TrialResult::pinning_refused;
      return;
    case SLUICE_REASON_DATA_LOST:
      situation.reach = facts::TrialResult::data_lost;
      return;
    case SLUICE_REASON_NOT_PROVEN:
      situation.reach = facts::TrialResult::untried;
      return;
    case SLUICE_REASON_RAGGED_REQUEST:
      situation.shape.address = 1;
      return;
    case SLUICE_REASON_DIRECT:
      return;
    default:
      break;
  }
  FAIL() << "reason " << reason << " is unknown to this test: say here when it holds";
}

std::string name(Reason reason) {
  return reason_text(reason) != nullptr ? reason_text(reason)->name : "?";
}

// All that a decision can give, where sluice.nvfs is off and no link of RDMA is there (tests/rdma). What a transfer
// comes to in mid-way is no decision.
bool can_be_decided(Reason reason) {
  const bool of_nvfs = reason >= SLUICE_REASON_NVFS_NOT_LOADED && reason <= SLUICE_REASON_NVFS_WRITES_NOT_PROVEN;
  const bool of_rdma = reason >= SLUICE_REASON_SERVED_BY_RDMA && reason <= SLUICE_REASON_RDMA_WRITES_OFF;
  return reason != SLUICE_REASON_STOPPED_IN_FLIGHT && !of_nvfs && !of_rdma;
}

std::vector<Reason> documented_order() {
  std::vector<Reason> order;
  for (const PageEntry& entry : read_paths_page().reasons) {
    for (int value = 0; value < SLUICE_REASON_COUNT; ++value) {
      const auto reason = static_cast<Reason>(value);
      if (entry.name == name(reason) && can_be_decided(reason)) order.push_back(reason);
    }
  }
  return order;
}

TEST(Judge, LeavesAFileToTheCpuWhoseODirectIsACopy) {
  Situation situation = ideal();
  situation.file.direct_is_copied = true;
  EXPECT_EQ(situation.choice().path, SLUICE_PATH_POSIX);
  EXPECT_EQ(situation.choice().reason, SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM);
}

TEST(Judge, ReachesEveryReason) {
  for (int value = 0; value < SLUICE_REASON_COUNT; ++value) {
    const auto reason = static_cast<Reason>(value);
    if (!can_be_decided(reason)) continue;
    Situation situation = ideal();
    impose(situation, reason);
    EXPECT_EQ(name(situation.reason()), name(reason));
  }
}

TEST(Judge, TellsTheFirstReasonInTheDocumentedOrder) {
  const std::vector<Reason> order = documented_order();
  int decided = 0;
  for (int value = 0; value < SLUICE_REASON_COUNT; ++value)
    decided += can_be_decided(static_cast<Reason>(value)) ? 1 : 0;
  ASSERT_EQ(order.size(), static_cast<std::size_t>(decided));
  for (std::size_t first = 0; first < order.size(); ++first) {
    for (std::size_t second = first + 1; second < order.size(); ++second) {
      // Imposed in this order, so that where both claim one field (the memory's kind, the file system) the earlier
      // one has the last word.
      Situation situation = ideal();
      impose(situation, order[second]);
      impose(situation, order[first]);
      EXPECT_EQ(name(situation.reason()), name(order[first])) << "against " << name(order[second]);
    }
  }
}

TEST(Judge, TellsTheNextReasonWhenTheFirstIsRemedied) {
  const std::vector<Reason> order = documented_order();
  for (std::size_t removed = 0; removed < order.size(); ++removed) {
    Situation situation = ideal();
    for (std::size_t remaining = order.size(); remaining-- > removed;) impose(situation, order[remaining]);
    EXPECT_EQ(name(situation.reason()), name(order[removed]));
  }
}

TEST(Judge, TakesTheCallersOperationsForThePathOfTheirOwn) {
  Situation situation = ideal();
  situation.file.caller_reads = true;
  EXPECT_EQ(situation.choice().path, SLUICE_PATH_USERSPACE);
  EXPECT_EQ(situation.choice(base::Direction::write).path, SLUICE_PATH_P2PDMA) << "it does not offer writing";
  situation.file.caller_writes = true;
  EXPECT_EQ(situation.choice(base::Direction::write).path, SLUICE_PATH_USERSPACE);
}

TEST(Judge, TakesThePosixPathUnlessATrialHasProvenTheDirectOne) {
  for (int value = 0; value < SLUICE_REASON_COUNT; ++value) {
    const auto reason = static_cast<Reason>(value);
    if (reason == SLUICE_REASON_CALLER_OPERATIONS || !can_be_decided(reason)) continue;
    Situation situation = ideal();
    impose(situation, reason);
    EXPECT_EQ(situation.decision().path, reason == SLUICE_REASON_DIRECT ? SLUICE_PATH_P2PDMA : SLUICE_PATH_POSIX)
        << name(reason);
  }
}

TEST(Judge, TrustsNoTrialThatIsUnderWay) {
  Situation situation = ideal();
  situation.reach = facts::TrialResult::probing;
  EXPECT_EQ(situation.choice().path, SLUICE_PATH_POSIX);
  EXPECT_EQ(name(situation.choice().reason), "not_proven");
}

TEST(Judge, TakesTheSoftGpuForAnyOtherWhereItsMemoryWasGiven) {
  Situation situation = ideal();
  situation.buffer.soft = true;
  situation.buffer.backed = true;
  EXPECT_EQ(situation.choice().path, SLUICE_PATH_P2PDMA);
  situation.machine.kernel_has_p2pdma = false;
  EXPECT_EQ(situation.choice().path, SLUICE_PATH_P2PDMA) << "what backs it may be any memory";
}

TEST(Judge, KnowsBothKindsOfHostMemory) {
  for (const MemoryKind kind : {MemoryKind::plain_host, MemoryKind::pinned_host}) {
    Situation situation = ideal();
    situation.buffer.kind = kind;
    EXPECT_EQ(situation.choice().reason, SLUICE_REASON_HOST_MEMORY);
  }
}

TEST(Judge, HasAnAnswerForEveryFileSystem) {
  struct Case {
    FileSystem file_system;
    Reason reason;
  };
  for (const Case& known :
       {Case{FileSystem::none, SLUICE_REASON_DIRECT}, Case{FileSystem::ext4, SLUICE_REASON_DIRECT},
        Case{FileSystem::xfs, SLUICE_REASON_DIRECT}, Case{FileSystem::btrfs, SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM},
        Case{FileSystem::memory, SLUICE_REASON_MEMORY_FILE_SYSTEM},
        Case{FileSystem::stacked, SLUICE_REASON_STACKED_FILE_SYSTEM},
        Case{FileSystem::fuse, SLUICE_REASON_FUSE_FILE_SYSTEM},
        Case{FileSystem::network, SLUICE_REASON_NETWORK_FILE_SYSTEM},
        Case{FileSystem::other, SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM}}) {
    Situation situation = ideal();
    situation.file.file_system = known.file_system;
    EXPECT_EQ(name(situation.choice().reason), name(known.reason));
  }
}

TEST(Judge, LeavesItToATrialWhatADevicePassesOn) {
  struct Case {
    const char* driver;
    const char* transport;
  };
  for (const Case& known : {Case{"nvme", "pcie"}, Case{"nvme", "tcp"}, Case{"nvme", "rdma"}, Case{"md", ""},
                            Case{"device-mapper", ""}, Case{"loop", ""}, Case{"virtio_blk", ""}, Case{"", ""}}) {
    Situation situation = ideal();
    situation.file.block.driver = known.driver;
    situation.file.block.transport = known.transport;
    EXPECT_EQ(name(situation.choice().reason), "direct") << known.driver << " " << known.transport;
  }
}

TEST(Judge, TriesNothingWhereNoDriveIsBelow) {
  for (const char* const driver : {"brd", "zram", "null_blk", "ublk", "nbd", "rbd", "drbd"}) {
    Situation situation = ideal();
    situation.file.block.driver = driver;
    EXPECT_EQ(name(situation.choice().reason), "unsupported_device") << driver;
  }
}

TEST(Judge, GoesWithoutNvidiaFs) {
  Situation situation = ideal();
  situation.rules.use_pci_p2pdma = false;
  situation.machine.kernel_has_p2pdma = false;
  situation.machine.nvfs_loaded = true;
  EXPECT_EQ(name(situation.choice().reason), "direct_path_off");
}

TEST(Reasons, AreToldInTheOrderInWhichTheirRemediesUncoverThem) {
  Situation situation = ideal();
  const auto names = [&situation](facts::TrialResult reach) {
    std::vector<std::string> found;
    for (const Reason reason :
         all_reasons(situation.file, situation.buffer, situation.machine, situation.rules, reach)) {
      found.emplace_back(name(reason));
    }
    return found;
  };
  EXPECT_THAT(names(facts::TrialResult::proven), testing::ElementsAre("direct"));
  EXPECT_THAT(names(facts::TrialResult::untried), testing::ElementsAre("not_proven"));
  situation.rules.use_pci_p2pdma = false;
  situation.rules.force_compat = true;
  situation.file.direct = false;
  situation.file.file_system = facts::FileSystem::btrfs;
  situation.file.direct_is_copied = true;
  EXPECT_THAT(names(facts::TrialResult::proven),
              testing::ElementsAre("forced_by_configuration", "unsupported_file_system", "direct_path_off",
                                   "buffered_descriptor"));
  EXPECT_THAT(names(facts::TrialResult::pages_refused), testing::Contains("pages_refused"));
  EXPECT_THAT(names(facts::TrialResult::untried), testing::Not(testing::Contains("not_proven")));
}

TEST(Compatibility, IsAllowedUnlessItIsSwitchedOff) {
  Rules rules;
  EXPECT_TRUE(compat_is_allowed(rules));
  rules.allow_compat = false;
  EXPECT_FALSE(compat_is_allowed(rules));
}

TEST(Compatibility, IsAllowedToWhoForcesIt) {
  Rules forced;
  forced.allow_compat = false;
  forced.force_compat = true;
  EXPECT_TRUE(compat_is_allowed(forced));
  Rules plain;
  plain.allow_compat = false;
  plain.plain = true;
  EXPECT_TRUE(compat_is_allowed(plain));
}

TEST(Compatibility, SwitchedOffForbidsTheCpuToMoveDeviceMemory) {
  Rules rules;
  rules.allow_compat = false;
  for (int reason = 0; reason < SLUICE_REASON_COUNT; ++reason) {
    EXPECT_EQ(cpu_may_move(static_cast<Reason>(reason), rules), reason == SLUICE_REASON_HOST_MEMORY) << reason;
  }
  for (const paths::Path* const path : paths::table) {
    const bool by_cpu = path->traits.id == SLUICE_PATH_POSIX;
    EXPECT_EQ(paths::is_permitted({path, SLUICE_REASON_MEMORY_FILE_SYSTEM, {}}, rules), !by_cpu) << path->traits.id;
  }
  rules.allow_compat = true;
  EXPECT_TRUE(paths::is_permitted({&paths::last_path(), SLUICE_REASON_MEMORY_FILE_SYSTEM, {}}, rules));
}

TEST(DirectWays, NeedAKernelThatHasOneAndLeaveToUseIt) {
  for (const bool nvfs : {false, true}) {
    for (const bool kernel : {false, true}) {
      for (const bool leave : {false, true}) {
        facts::MachineFacts machine;
        machine.nvfs_loaded = nvfs;
        machine.kernel_has_p2pdma = kernel;
        Rules rules;
        rules.use_pci_p2pdma = leave;
        EXPECT_EQ(has_direct_way(machine, rules), kernel && leave) << nvfs << kernel << leave;
        rules.use_nvfs = true;
        EXPECT_EQ(has_direct_way(machine, rules), nvfs || (kernel && leave)) << nvfs << kernel << leave;
      }
    }
  }
}

// What keeps a request from nvidia-fs.ko before anything is asked of it.
NvfsStanding ready() {
  return {true, true, true, facts::NvfsHooks::present};
}

TEST(Nvfs, IsAskedOfNothingButAReadyModule) {
  const Situation situation = ideal();
  const auto reason = [&](const NvfsStanding& standing) {
    return kept_from_nvfs(situation.file, situation.buffer, standing, situation.rules).value_or(SLUICE_REASON_DIRECT);
  };
  EXPECT_EQ(reason(ready()), SLUICE_REASON_DIRECT);
  EXPECT_EQ(reason({}), SLUICE_REASON_NVFS_NOT_LOADED);
  EXPECT_EQ(reason({.loaded = true}), SLUICE_REASON_NVFS_TOO_OLD);
  EXPECT_EQ(reason({.loaded = true, .recent = true}), SLUICE_REASON_NVFS_NO_NODE);
  NvfsStanding standing = ready();
  for (const facts::NvfsHooks hooks : {facts::NvfsHooks::not_listed, facts::NvfsHooks::unknown}) {
    standing.hooks = hooks;
    EXPECT_EQ(reason(standing), SLUICE_REASON_NVFS_NO_HOOKS);
  }
  standing.hooks = facts::NvfsHooks::foreign;
  EXPECT_EQ(reason(standing), SLUICE_REASON_NVFS_FOREIGN_HOOKS);
}

TEST(Nvfs, IsKeptFromRequestsByTheSameReasonsAsP2pdma) {
  for (const Reason reason :
       {SLUICE_REASON_HOST_MEMORY, SLUICE_REASON_PLAIN_MODE, SLUICE_REASON_FORCED_BY_CONFIGURATION,
        SLUICE_REASON_MANAGED_MEMORY, SLUICE_REASON_SOFT_GPU, SLUICE_REASON_MEMORY_FILE_SYSTEM,
        SLUICE_REASON_STACKED_FILE_SYSTEM, SLUICE_REASON_FUSE_FILE_SYSTEM, SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM,
        SLUICE_REASON_UNSUPPORTED_DEVICE, SLUICE_REASON_BUFFERED_DESCRIPTOR}) {
    Situation situation = ideal();
    impose(situation, reason);
    EXPECT_EQ(kept_from_nvfs(situation.file, situation.buffer, ready(), situation.rules), reason) << name(reason);
  }
}

TEST(Nvfs, ReachesFileSystemsThatBringHooksOfTheirOwn) {
  Situation situation = ideal();
  situation.file.file_system = FileSystem::network;
  situation.file.file_system_name = "lustre";
  situation.file.block = {};
  EXPECT_EQ(kept_from_nvfs(situation.file, situation.buffer, ready(), situation.rules), std::nullopt);
  NvfsStanding standing = ready();
  standing.hooks = facts::NvfsHooks::not_listed;
  EXPECT_EQ(kept_from_nvfs(situation.file, situation.buffer, standing, situation.rules),
            SLUICE_REASON_NETWORK_FILE_SYSTEM);
}

}  // namespace
}  // namespace sluice::route
