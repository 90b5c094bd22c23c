// SPDX-License-Identifier: Apache-2.0
// Records, lists, locks, programs and trials: what needs no file system of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/affinity.h"
#include "core/cdi.h"
#include "core/locks.h"
#include "core/mounts.h"
#include "core/process.h"
#include "core/record.h"
#include "core/refusal.h"
#include "core/trial.h"
#include "core/volumes.h"
#include "tests/pool.h"

namespace sluice::csi {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "sluice-csi-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Record some_record() {
  Record record;
  record.kind = RecordKind::volume;
  record.state = RecordState::ready;
  record.id = "a1-b2";
  record.name = "pvc-\"quoted\"\n";
  record.bytes = 1 << 30;
  record.created = 1700000000;
  record.project = 7;
  record.backend = "directory";
  record.source = {ContentKind::snapshot, "a1-s3"};
  record.parameters = {{"type", "nvme-local"}};
  record.mutable_parameters = {{"bandwidth", "5G"}};
  record.direct_path = "verified: GPU 0";
  record.notes = {"one", "two"};
  return record;
}

TEST(Records, ComeBackAsTheyWereWritten) {
  const Folder folder;
  RecordFolder records(folder.path());
  records.write(some_record());
  const std::optional<Record> again = RecordFolder(folder.path()).read("a1-b2");
  ASSERT_TRUE(again);
  EXPECT_EQ(to_json(*again), to_json(some_record()));
}

TEST(Records, HalfWrittenBesideTheirPlaceDoNotCount) {
  const Folder folder;
  RecordFolder records(folder.path());
  records.write(some_record());
  write_file(folder.path() + "/a1-b2.json.new", "{\"format\":1,");
  EXPECT_EQ(RecordFolder(folder.path()).all().size(), 1U);
}

TEST(Records, ThatAreDamagedAreNamedAndNotIgnored) {
  const Folder folder;
  write_file(folder.path() + "/a1-b2.json", "{}");
  const RecordFolder records(folder.path());
  EXPECT_THROW(records.all(), Refusal);
}

TEST(Records, HaveIdsThatAreSafeAsNamesOfFiles) {
  EXPECT_TRUE(is_safe_id("a1-b2.c_3"));
  for (const char* const bad : {"", ".", "..", "a/b", "a b", "\n", "ä"}) EXPECT_FALSE(is_safe_id(bad)) << bad;
  EXPECT_FALSE(is_safe_id(std::string(129, 'a')));
}

TEST(Lists, GoOnBehindTheLastEntryEvenWhenItIsGone) {
  std::vector<Volumes::Listed> all(3);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].record.id = std::string(1, static_cast<char>('a' + i));
  const Page first = page_of(all, 2, "");
  EXPECT_EQ(first.end, 2U);
  all.erase(all.begin() + 1);  // "b", which the token names
  const Page second = page_of(all, 2, first.next);
  EXPECT_EQ(second.begin, 1U);
  EXPECT_EQ(second.end, 2U);
  EXPECT_EQ(second.next, "");
}

TEST(Lists, RefuseATokenThatIsNoneOfTheirs) {
  try {
    page_of({}, 0, "7");
    FAIL() << "it was taken";
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code(), Code::aborted);
  }
}

TEST(Locks, RefuseASecondCallForTheSameVolume) {
  OperationLocks locks;
  {
    const auto guard = locks.take("a");
    EXPECT_THROW(locks.take("a"), Refusal);
    EXPECT_NO_THROW(locks.take("b"));
  }
  EXPECT_NO_THROW(locks.take("a"));
}

TEST(Programs, ThatDoNotEndAreEnded) {
  const ProgramResult run = run_program({"sh", "-c", "echo begun; exec sleep 100"}, std::chrono::milliseconds(300));
  EXPECT_TRUE(run.timed_out);
  EXPECT_EQ(run.output, "begun\n");
}

TEST(Programs, TellTheirStatusAndWhatBothStreamsSaid) {
  const ProgramResult run = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"}, std::chrono::seconds(20));
  EXPECT_EQ(run.status, 3);
  EXPECT_EQ(run.output, "out\nerr\n");
  EXPECT_EQ(last_line(run.output), "err");
  EXPECT_EQ(run_program({"no-such-program-here"}, std::chrono::seconds(20)).status, 127);
}

TEST(Mounts, AreFoundByTheirPathAndByWhatTheyShow) {
  const std::vector<facts::Mount> mounts = parse_mounts(
      "20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
      "30 20 7:0 / /pool rw - xfs /dev/loop0 rw,prjquota\n"
      "31 20 7:0 /csi/volumes/a /stage\\040here rw,nodev - xfs /dev/loop0 rw\n"
      "32 20 7:0 /csi/volumes/a /target ro,nodev - xfs /dev/loop0 rw\n");
  ASSERT_EQ(mounts.size(), 4U);
  EXPECT_EQ(mount_at(mounts, "/stage here")->root, "/csi/volumes/a");
  EXPECT_EQ(mount_of(mounts, "/pool/csi")->point, "/pool");
  EXPECT_EQ(mount_of(mounts, "/poolside")->point, "/");
  EXPECT_EQ(path_in_file_system(*mount_of(mounts, "/pool/csi"), "/pool/csi"), "/csi");
  EXPECT_EQ(mounts_showing(mounts, mounts[1].device, "/csi/volumes/a").size(), 2U);
  EXPECT_FALSE(is_read_only(mounts[2]));
  EXPECT_TRUE(is_read_only(mounts[3]));
}

std::string report(const std::string& id, const std::string& sign) {
  return "{\"findings\":[{\"section\":\"gpu\",\"id\":\"gpu.works\"},{\"section\":\"trial\",\"id\":\"" + id +
         "\",\"sign\":\"" + sign + "\",\"cause\":\"c\",\"remedy\":\"r\"}]}";
}

TEST(Trials, AreReadFromWhatTheDoctorPrints) {
  EXPECT_EQ(verdict_of(report("trial.direct", "into GPU 0")).direct, Direct::verified);
  EXPECT_EQ(verdict_of(report("trial.host", "through host memory")).direct, Direct::through_host);
  EXPECT_EQ(verdict_of(report("trial.wrong_bytes", "byte 7")).direct, Direct::wrong_bytes);
  EXPECT_EQ(verdict_of(report("trial.direct", "into the soft GPU")).direct, Direct::no_gpu);
  EXPECT_EQ(verdict_of("nothing").direct, Direct::failed);
  EXPECT_EQ(verdict_of("{\"findings\":[]}").direct, Direct::failed);
}

// A machine with GPUs, and a tool that says what a test wants and counts how often it was asked.
class TrialMachine {
 public:
  TrialMachine(int gpus, const std::string& said) {
    for (int i = 0; i < gpus; ++i) {
      std::filesystem::create_directories(folder_.path() + "/proc/driver/nvidia/gpus/0000:0" + std::to_string(i) +
                                          ":00.0");
    }
    tool_ = folder_.path() + "/tool";
    write_file(folder_.path() + "/said", said);
    write_file(tool_, "#!/bin/sh\necho x >> " + folder_.path() + "/asked\ncat " + folder_.path() + "/said\n");
    std::filesystem::permissions(tool_, std::filesystem::perms::owner_all);
  }
  TrialOptions options() const { return {tool_, facts::Root(folder_.path())}; }
  std::size_t asked() const { return read_file(folder_.path() + "/asked").size() / 2; }

 private:
  Folder folder_;
  std::string tool_;
};

TEST(Trials, AreMadeOnceAGpuAndRemembered) {
  const TrialMachine machine(2, report("trial.direct", "1 MiB"));
  Trials trials(machine.options());
  EXPECT_EQ(trials.of("nvme0n1", "/f").direct, Direct::verified);
  EXPECT_EQ(trials.of("nvme0n1", "/f").direct, Direct::verified);
  EXPECT_EQ(machine.asked(), 2U);
  trials.of("nvme1n1", "/f");
  EXPECT_EQ(machine.asked(), 4U);
}

TEST(Trials, ThatFailedAreMadeAgain) {
  const TrialMachine machine(1, "");
  Trials trials(machine.options());
  trials.of("nvme0n1", "/f");
  trials.of("nvme0n1", "/f");
  EXPECT_EQ(machine.asked(), 2U);
}

TEST(Trials, RefuseARequiredPathUnlessItIsVerified) {
  const TrialMachine machine(1, report("trial.host", "through host memory"));
  Trials trials(machine.options());
  const Verdict verdict = trials.of("nvme0n1", "/f");
  EXPECT_NO_THROW(Trials::want(DirectPath::prefer, verdict));
  try {
    Trials::want(DirectPath::require, verdict);
    FAIL() << "it was taken";
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code(), Code::failed_precondition);
    EXPECT_THAT(refusal.what(), HasSubstr("through host memory"));
  }
}

TEST(Trials, BecomeTheNodesLabelByAFile) {
  const Folder folder;
  write_feature(folder.path() + "/features.d", "sluice.dev", Direct::through_host);
  write_feature(folder.path() + "/features.d", "sluice.dev", Direct::verified);
  EXPECT_EQ(read_file(folder.path() + "/features.d/sluice.dev"), "sluice.dev/direct-path=verified\n");
}

TEST(Trials, WithoutAGpuAskNobody) {
  const TrialMachine machine(0, "");
  Trials trials(machine.options());
  EXPECT_EQ(trials.of("nvme0n1", "/f").direct, Direct::no_gpu);
  EXPECT_EQ(machine.asked(), 0U);
}

// Two roots at two nodes; a GPU below the first.
class PciTree {
 public:
  PciTree() {
    add("pci0000:10/0000:10:00.0/0000:11:00.0", "0x030200", "0");
    add("pci0000:10/0000:10:01.0/0000:12:00.0", "0x010802", "0");
    add("pci0000:20/0000:20:00.0/0000:21:00.0", "0x010802", "0");
    add("pci0000:40/0000:40:00.0/0000:41:00.0", "0x010802", "1");
    disk("near", "pci0000:10/0000:10:01.0/0000:12:00.0");
    disk("beside", "pci0000:20/0000:20:00.0/0000:21:00.0");
    disk("far", "pci0000:40/0000:40:00.0/0000:41:00.0");
  }
  facts::Root root() const { return facts::Root(folder_.path()); }
  void array(const std::string& name, const std::vector<std::string>& members) {
    const std::string slaves = folder_.path() + "/sys/class/block/" + name + "/slaves/";
    std::filesystem::create_directories(slaves);
    for (const std::string& each : members) {
      std::filesystem::create_directory_symlink(folder_.path() + "/sys/class/block/" + each, slaves + each);
    }
  }

 private:
  void add(const std::string& path, const std::string& kind, const std::string& node) {
    const std::string device = folder_.path() + "/sys/devices/" + path;
    std::filesystem::create_directories(device);
    write_file(device + "/class", kind + "\n");
    write_file(device + "/vendor", "0x10de\n");
    write_file(device + "/numa_node", node + "\n");
    const std::string all = folder_.path() + "/sys/bus/pci/devices/";
    std::filesystem::create_directories(all);
    std::filesystem::create_directory_symlink(device, all + path.substr(path.rfind('/') + 1));
  }
  void disk(const std::string& name, const std::string& device) {
    const std::string folder = folder_.path() + "/sys/devices/" + device + "/nvme/" + name;
    std::filesystem::create_directories(folder);
    std::filesystem::create_directories(folder_.path() + "/sys/class/block");
    std::filesystem::create_directory_symlink(folder, folder_.path() + "/sys/class/block/" + name);
  }
  Folder folder_;
};

TEST(CdiSpec, NamesTheKitAndTheNodesThatThereAreAndNothingElse) {
  const Folder folder;
  std::filesystem::create_directories(folder.path() + "/dev");
  write_file(folder.path() + "/dev/nvidia-fs0", "");
  write_file(folder.path() + "/dev/null", "");
  CdiOptions options;
  options.folder = folder.path() + "/cdi";
  options.kit = "/var/lib/sluice/kit/1";
  options.root = facts::Root(folder.path());
  write_cdi_spec(options);
  const auto spec = nlohmann::json::parse(read_file(options.folder + "/sluice.dev-gds.json"));
  // Readers refuse the whole file for a field that they do not know: these are all.
  EXPECT_EQ(spec, nlohmann::json::parse(R"({
    "cdiVersion": "0.5.0",
    "kind": "sluice.dev/gds",
    "devices": [{"name": "all", "containerEdits": {
      "env": ["CUFILE_ENV_PATH_JSON=/usr/lib/sluice/cufile.json"],
      "deviceNodes": [{"path": "/dev/nvidia-fs0"}],
      "mounts": [{"hostPath": "/var/lib/sluice/kit/1", "containerPath": "/usr/lib/sluice",
                  "options": ["ro", "nosuid", "nodev", "rbind"]}]}}]})"));
  std::filesystem::remove(folder.path() + "/dev/nvidia-fs0");
  write_cdi_spec(options);
  EXPECT_THAT(read_file(options.folder + "/sluice.dev-gds.json"), testing::Not(HasSubstr("deviceNodes")));
  EXPECT_EQ(cdi_name(options), "sluice.dev/gds=all");
}

TEST(Affinity, IsByTheRootThenByTheNode) {
  const PciTree tree;
  EXPECT_EQ(affinity_of("near", tree.root()), GpuAffinity::root);
  EXPECT_EQ(affinity_of("beside", tree.root()), GpuAffinity::numa);
  EXPECT_EQ(affinity_of("far", tree.root()), GpuAffinity::any);
  EXPECT_EQ(affinity_of("no-such-disk", tree.root()), GpuAffinity::any);
  EXPECT_EQ(affinity_of("near", facts::Root("/no-such-machine")), GpuAffinity::any);
}

TEST(Affinity, OfAnArrayIsThatOfItsFarthestMember) {
  PciTree tree;
  tree.array("md0", {"near", "beside"});
  EXPECT_EQ(affinity_of("md0", tree.root()), GpuAffinity::numa);
  tree.array("md1", {"near", "far"});
  EXPECT_EQ(affinity_of("md1", tree.root()), GpuAffinity::any);
}

}  // namespace
}  // namespace sluice::csi
