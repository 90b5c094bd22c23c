// SPDX-License-Identifier: Apache-2.0
// Drives over fabrics against a kernel of the test's own: a tree of sysfs files that answers as the real one does,
// whose namespaces are loop devices.
#include "core/fabrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>

#include "core/bytes.h"
#include "core/fabrics_backend.h"
#include "core/process.h"
#include "core/refusal.h"
#include "facts/read.h"
#include "tests/loop_device.h"
#include "tests/pool.h"

namespace sluice::csi::fabrics_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* nqn = "nqn.2014-08.org.nvmexpress:target";

struct Crash {};

// The kernel's side: what a line for /dev/nvme-fabrics and a write into sysfs do.
class FakeKernel {
 public:
  explicit FakeKernel(std::string root) : root_(std::move(root)) {
    for (const char* const each : {"sys/class/nvme", "sys/class/nvme-subsystem", "sys/block", "dev", "etc"}) {
      fs::create_directories(root_ + "/" + each);
    }
    write_file(root_ + "/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
  }

  void add_namespace(const std::string& uuid, dev_t device) { namespaces_.emplace_back(uuid, device); }
  std::set<std::string> refused;   // addresses
  std::vector<std::string> lines;  // that were written
  int first_name = 0;              // of the next head

  int connect(const std::string& line) {
    lines.push_back(line);
    std::map<std::string, std::string> options;
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find(',', at), line.size());
      const std::size_t equal = line.find('=', at);
      options[line.substr(at, equal - at)] = line.substr(equal + 1, end - equal - 1);
      at = end + 1;
    }
    const std::string address = options["traddr"] + ":" + options["trsvcid"];
    if (refused.contains(address)) return ECONNREFUSED;
    const std::string name = "nvme" + std::to_string(next_controller_++);
    const std::string folder = root_ + "/sys/class/nvme/" + name;
    fs::create_directory(folder);
    write_file(folder + "/subsysnqn", options["nqn"] + "\n");
    write_file(folder + "/transport", options["transport"] + "\n");
    write_file(folder + "/address",
               "traddr=" + options["traddr"] + ",trsvcid=" + options["trsvcid"] + ",src_addr=10.0.0.9\n");
    write_file(folder + "/state", "live\n");
    show_namespaces(options["nqn"]);
    return 0;
  }

  int write(const std::string& path, const std::string& value) {
    const std::string folder(facts::parent_path(path));
    if (!facts::exists(folder)) return ENOENT;
    if (!path.ends_with("/delete_controller")) {
      write_file(path, value);
      return 0;
    }
    fs::remove_all(folder);
    if (facts::list_names(root_ + "/sys/class/nvme").empty()) hide_namespaces();
    return 0;
  }

  void show_namespaces(const std::string& name) {
    const std::string subsystem = root_ + "/sys/class/nvme-subsystem/nvme-subsys0";
    fs::create_directories(subsystem);
    write_file(subsystem + "/subsysnqn", name + "\n");
    for (std::size_t i = 0; i < namespaces_.size(); ++i) {
      const std::string number = "n" + std::to_string(i + 1);
      const std::string head = "nvme" + std::to_string(first_name) + number;
      if (facts::exists(root_ + "/sys/block/" + head)) continue;
      // The hidden path has the uuid, too.
      for (const std::string& each : {head, "nvme" + std::to_string(first_name) + "c9" + number}) {
        fs::create_directories(root_ + "/sys/block/" + each + "/holders");
        write_file(root_ + "/sys/block/" + each + "/uuid", namespaces_[i].first + "\n");
      }
      fs::create_directories(subsystem + "/" + head);
      mknod((root_ + "/dev/" + head).c_str(), S_IFBLK | 0600, namespaces_[i].second);
    }
  }

  void hide_namespaces() {
    for (const char* const each : {"sys/block", "sys/class/nvme-subsystem", "dev"}) {
      fs::remove_all(root_ + "/" + each);
      fs::create_directories(root_ + "/" + each);
    }
  }

 private:
  std::string root_;
  int next_controller_ = 0;
  std::vector<std::pair<std::string, dev_t>> namespaces_;
};

class FakePort : public NvmePort {
 public:
  explicit FakePort(FakeKernel& kernel) : kernel_(kernel) {}
  int connect(const std::string& options) override { return kernel_.connect(options); }
  int write(const std::string& path, const std::string& value) override { return kernel_.write(path, value); }

 private:
  FakeKernel& kernel_;
};

class FabricsTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = why_no_pool();
    if (!why.empty()) GTEST_SKIP() << why;
    pool_ = std::make_unique<LoopPool>();
    kernel_ = std::make_unique<FakeKernel>(root());
    for (const char* const each : {"a", "b"}) {
      drives_.push_back(std::make_unique<LoopDevice>(pool_->at(std::string("drive-") + each), 400 * mebibyte));
      kernel_->add_namespace(uuid(each), drives_.back()->number());
    }
  }

  std::string root() const { return pool_->at("root"); }
  static std::string uuid(const std::string& name) { return "00000000-0000-0000-0000-00000000000" + name; }
  std::unique_ptr<FabricsBackend> open(StepHook hook = {}) {
    return std::make_unique<FabricsBackend>(
        FabricsOptions{pool_->at("state"), Names(), root() + "/dev", facts::Root(root()), std::move(hook)},
        std::make_unique<FakePort>(*kernel_));
  }
  std::string staging(const std::string& id) const { return pool_->at("staging/" + id); }
  StageRequest request(const std::string& id, const std::string& drive, AccessType type = AccessType::mount) const {
    StageRequest request;
    request.id = id;
    request.path = staging(id);
    request.capability = {type, "", {}, AccessMode::single_node_writer};
    request.volume_context = {{"nqn", nqn}, {"uuid", uuid(drive)}, {"addresses", "10.0.0.1:4420 10.0.1.1:4420"}};
    return request;
  }
  std::size_t controllers() const { return facts::list_names(root() + "/sys/class/nvme").size(); }
  Code refusal_of(FabricsBackend& backend, const StageRequest& request) {
    try {
      backend.stage(request);
    } catch (const Refusal& refusal) {
      said_ = refusal.what();
      return refusal.code();
    }
    return Code::internal;
  }

  std::unique_ptr<LoopPool> pool_;
  std::unique_ptr<FakeKernel> kernel_;
  std::vector<std::unique_ptr<LoopDevice>> drives_;
  std::string said_;
};

TEST_F(FabricsTest, StagingConnectsEachAddressFormatsOnceAndKeepsTheBytes) {
  const auto backend = open();
  backend->stage(request("vol", "a"));
  EXPECT_EQ(controllers(), 2U);
  EXPECT_THAT(
      kernel_->lines.front(),
      testing::AllOf(HasSubstr("nqn=" + std::string(nqn)), HasSubstr("hostid=01234567-89ab-cdef-0123-456789abcdef"),
                     HasSubstr("ctrl_loss_tmo=1800"), testing::Not(HasSubstr("fast_io_fail_tmo"))));
  write_file(staging("vol") + "/file", "bytes");
  backend->stage(request("vol", "a"));
  EXPECT_EQ(controllers(), 2U);
  backend->unstage("vol", staging("vol"));
  EXPECT_EQ(controllers(), 0U);
  EXPECT_FALSE(backend->find("vol"));
  // It comes back under another name.
  kernel_->first_name = 7;
  backend->stage(request("vol", "a"));
  EXPECT_EQ(read_file(staging("vol") + "/file"), "bytes");
  backend->unstage("vol", staging("vol"));
}

TEST_F(FabricsTest, TheSubsystemStaysUntilItsLastVolumeHasGone) {
  const auto backend = open();
  backend->stage(request("one", "a"));
  backend->stage(request("two", "b"));
  backend->unstage("one", staging("one"));
  EXPECT_EQ(controllers(), 2U);
  EXPECT_TRUE(backend->is_staged("two", staging("two")));
  backend->unstage("two", staging("two"));
  EXPECT_EQ(controllers(), 0U);
}

TEST_F(FabricsTest, WhatOthersHaveMountedKeepsTheSubsystemConnected) {
  const auto backend = open();
  backend->stage(request("one", "a"));
  ASSERT_EQ(run_program({"mkfs.xfs", "-q", "-K", root() + "/dev/nvme0n2"}, std::chrono::seconds(60)).status, 0);
  make_folder(pool_->at("other"), 0700);
  mount_device(root() + "/dev/nvme0n2", pool_->at("other"), "xfs", 0, "");
  backend->unstage("one", staging("one"));
  EXPECT_EQ(controllers(), 2U);
  unmount_all(pool_->at("other"));
}

TEST_F(FabricsTest, ALostAddressIsNoFailureAndAllOfThemAre) {
  const auto backend = open();
  kernel_->refused = {"10.0.1.1:4420"};
  backend->stage(request("vol", "a"));
  EXPECT_EQ(controllers(), 1U);
  // The next staging brings it up.
  kernel_->refused.clear();
  backend->stage(request("vol", "a"));
  EXPECT_EQ(controllers(), 2U);
  backend->unstage("vol", staging("vol"));
  kernel_->refused = {"10.0.0.1:4420", "10.0.1.1:4420"};
  EXPECT_EQ(refusal_of(*backend, request("vol", "a")), Code::failed_precondition);
  EXPECT_THAT(said_, HasSubstr("nothing listens"));
}

TEST_F(FabricsTest, AnotherFileSystemIsNeverFormattedOver) {
  const auto backend = open();
  StageRequest ext4 = request("vol", "a");
  ext4.capability.fs_type = "ext4";
  backend->stage(ext4);
  write_file(staging("vol") + "/file", "bytes");
  backend->unstage("vol", staging("vol"));
  EXPECT_EQ(refusal_of(*backend, request("vol", "a")), Code::failed_precondition);
  EXPECT_THAT(said_, HasSubstr("ext4"));
  backend->stage(ext4);
  EXPECT_EQ(read_file(staging("vol") + "/file"), "bytes");
  backend->unstage("vol", staging("vol"));
}

TEST_F(FabricsTest, ARawDeviceIsBoundOntoAFileAndFoundByItsNumber) {
  const auto backend = open();
  backend->stage(request("vol", "a", AccessType::block));
  EXPECT_TRUE(backend->is_staged("vol", staging("vol")));
  PublishRequest publish = {"vol",
                            staging("vol"),
                            pool_->at("pod/device"),
                            {AccessType::block, "", {}, AccessMode::single_node_writer},
                            false};
  backend->publish(publish);
  struct stat status {};
  ASSERT_EQ(stat(publish.target.c_str(), &status), 0);
  EXPECT_TRUE(S_ISBLK(status.st_mode));
  EXPECT_EQ(status.st_rdev, drives_[0]->number());
  const std::vector<facts::Mount> places = backend->places("vol", all_mounts());
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].point, publish.target);
  EXPECT_EQ(backend->usage("vol", publish.target).total, 400 * mebibyte);
  EXPECT_THROW(backend->unstage("vol", staging("vol")), Refusal);
  unmount_all(publish.target);
  backend->unstage("vol", staging("vol"));
  publish.read_only = true;
  EXPECT_THROW(backend->publish(publish), Refusal);
}

TEST_F(FabricsTest, GrowingWaitsForTheTargetAndThenGrowsTheFileSystem) {
  const auto backend = open();
  backend->stage(request("vol", "a"));
  EXPECT_THROW(backend->grow("vol", 500 * mebibyte, staging("vol")), Refusal);
  drives_[0]->resize(500 * mebibyte);
  EXPECT_EQ(backend->grow("vol", 500 * mebibyte, staging("vol")).bytes, 500 * mebibyte);
  EXPECT_GT(backend->usage("vol", staging("vol")).total, 420 * mebibyte);
  EXPECT_EQ(read_file(root() + "/sys/class/nvme/nvme0/rescan_controller"), "1");
  backend->unstage("vol", staging("vol"));
}

TEST_F(FabricsTest, TimesAreModifiedOnEveryPath) {
  const auto backend = open();
  backend->stage(request("vol", "a"));
  backend->modify("vol", {{"ctrlLossTmo", "-1"}, {"fastIoFailTmo", "15"}});
  for (const char* const each : {"nvme0", "nvme1"}) {
    EXPECT_EQ(read_file(root() + "/sys/class/nvme/" + each + "/ctrl_loss_tmo"), "-1");
    EXPECT_EQ(read_file(root() + "/sys/class/nvme/" + each + "/fast_io_fail_tmo"), "15");
  }
  backend->unstage("vol", staging("vol"));
}

TEST_F(FabricsTest, HealthLooksAtTheStateOfEachPath) {
  const auto backend = open();
  backend->stage(request("vol", "a"));
  const Record record = *backend->find("vol");
  EXPECT_FALSE(backend->condition(record, all_mounts()).abnormal);
  write_file(root() + "/sys/class/nvme/nvme0/state", "connecting\n");
  EXPECT_THAT(backend->condition(record, all_mounts()).message, HasSubstr("1 of 2 paths"));
  // The kernel goes on connecting by itself, so nothing is written for it.
  const std::size_t lines = kernel_->lines.size();
  backend->stage(request("vol", "a"));
  EXPECT_EQ(kernel_->lines.size(), lines);
  write_file(root() + "/sys/class/nvme/nvme1/state", "connecting\n");
  EXPECT_TRUE(backend->condition(record, all_mounts()).abnormal);
  backend->unstage("vol", staging("vol"));
}

TEST_F(FabricsTest, ACrashWhileItIsStagedOrUnstagedLosesNothing) {
  for (int crash_at = 1; crash_at < 40; ++crash_at) {
    int steps = 0;
    bool crashed = false;
    auto backend = open([&](const char*) {
      if (++steps == crash_at) throw Crash();
    });
    const auto both = [&](FabricsBackend& each) {
      each.stage(request("vol", "a"));
      write_file(staging("vol") + "/file", "bytes");
      each.unstage("vol", staging("vol"));
    };
    try {
      both(*backend);
    } catch (const Crash&) {
      crashed = true;
      both(*open());
    }
    EXPECT_EQ(controllers(), 0U);
    EXPECT_FALSE(is_mounted(staging("vol")));
    if (!crashed) {
      EXPECT_GE(crash_at, 6);
      return;
    }
  }
  FAIL() << "it never runs through";
}

TEST_F(FabricsTest, AFailedAttemptDoesNotStandInTheWayOfRightAttributes) {
  const auto backend = open();
  StageRequest wrong = request("vol", "a");
  wrong.volume_context["addresses"] = "10.0.0.7:4420";
  kernel_->refused = {"10.0.0.7:4420"};
  EXPECT_EQ(refusal_of(*backend, wrong), Code::failed_precondition);
  backend->stage(request("vol", "a"));
  EXPECT_EQ(refusal_of(*backend, wrong), Code::already_exists);
  backend->unstage("vol", staging("vol"));
}

TEST_F(FabricsTest, AttributesThatCannotBeAreRefusedBeforeTheKernelIsAsked) {
  const auto backend = open();
  StageRequest bad = request("vol", "a");
  bad.volume_context["addresses"] = "10.0.0.1:4420,hostnqn=x";
  EXPECT_EQ(refusal_of(*backend, bad), Code::invalid_argument);
  bad = request("vol", "a");
  bad.volume_context.erase("nqn");
  EXPECT_EQ(refusal_of(*backend, bad), Code::invalid_argument);
  bad = request("../vol", "a");
  EXPECT_EQ(refusal_of(*backend, bad), Code::invalid_argument);
  EXPECT_EQ(controllers(), 0U);
}

TEST(HostIdentity, IsTheHostsOrMadeOfTheMachinesId) {
  const std::string folder = testing::TempDir() + "/sluice-csi-host";
  fs::create_directories(folder + "/etc/nvme");
  write_file(folder + "/etc/machine-id", "ffffffffffffffffffffffffffffffff\n");
  const facts::Root root(folder);
  EXPECT_EQ(host_identity(root).nqn, "nqn.2014-08.org.nvmexpress:uuid:ffffffff-ffff-ffff-ffff-ffffffffffff");
  write_file(folder + "/etc/nvme/hostnqn", "nqn.2014-08.org.nvmexpress:uuid:1\n");
  EXPECT_EQ(host_identity(root).id, "ffffffff-ffff-ffff-ffff-ffffffffffff");
  write_file(folder + "/etc/nvme/hostid", "1\n");
  EXPECT_EQ(host_identity(root).nqn, "nqn.2014-08.org.nvmexpress:uuid:1");
  EXPECT_EQ(host_identity(root).id, "1");
  fs::remove_all(folder);
  EXPECT_THROW(host_identity(root), Refusal);
}

}  // namespace
}  // namespace sluice::csi::fabrics_test
