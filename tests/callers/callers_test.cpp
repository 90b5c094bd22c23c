// SPDX-License-Identifier: Apache-2.0
// Each caller in each environment that real ones run in: right to the last byte, or refused aloud; never wrong, never
// hung. The callers are programs of their own, which check every byte; one that hangs is killed, and told of.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "contract/life/child.h"
#include "support/scratch.h"

namespace sluice::callers {
namespace {

struct Caller {
  std::string name;     // its program is caller_NAME
  std::string part;     // the program's argument
  std::string devices;  // of the soft GPU
};

struct Environment {
  std::string name;
  std::vector<std::string> places;  // the first that there is
  std::vector<std::string> limits;  // of in_environment
};

struct Case {
  Caller caller;
  Environment environment;
};

std::string name_of(const Case& each) {
  const std::string part = each.caller.part.empty() ? "" : "_" + each.caller.part;
  return each.caller.name + part + "__" + each.environment.name;
}
void PrintTo(const Case& each, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << name_of(each);
}

std::vector<Case> cases() {
  const std::vector<Caller> callers{
      {"nixl_gds", "", "1"},           {"nixl_gds", "mapped", "1"}, {"nixl_gds_mt", "", "1"}, {"lmcache_slab", "", "1"},
      {"lmcache_chunks", "", "1"},     {"llm_d", "", "1"},          {"vllm", "", "1"},        {"dynamo_gms", "", "8"},
      {"dynamo_gms", "together", "8"}, {"pytorch", "", "1"},        {"fio", "", "1"},         {"kvikio", "", "1"},
      {"kvikio", "batch", "1"},
  };
  const std::vector<std::string> disk{"ext4", "here"};
  const std::vector<Environment> environments{
      {"ext4", {"ext4", "here"}, {}},
      {"tmpfs", {"tmpfs", "shm"}, {}},
      {"overlayfs", {"overlay-ext4"}, {}},
      {"without_udev", disk, {"without_udev"}},
      {"without_io_uring", disk, {"without_io_uring"}},
      {"under_an_old_filter", disk, {"under_an_old_filter"}},
      {"in_user_namespace", disk, {"in_user_namespace"}},
      {"as_nobody", disk, {"as_nobody", "without_io_uring"}},
      {"directly", disk, {"with_reachable_memory"}},
      {"without_locked_memory", disk, {"without_locked_memory"}},
      // All of it at once: an ordinary user's container.
      {"in_a_container",
       {"overlay-ext4", "here"},
       {"without_udev", "without_locked_memory", "in_user_namespace", "under_an_old_filter"}},
  };
  std::vector<Case> all;
  for (const Environment& environment : environments) {
    for (const Caller& caller : callers) all.push_back({caller, environment});
  }
  return all;
}

std::string why_not(const std::string& place) {
  for (const support::Place& each : support::places()) {
    if (each.name == place) return place + ": " + each.why_not;
  }
  return place + ": not made here";
}

// What in_environment promises holds for the program that it starts: without that, the tests below show nothing.
TEST(InEnvironment, ImposesItsLimits) {
  const auto told = [](const std::vector<std::string>& limits, const std::string& script) {
    std::vector<std::string> arguments = limits;
    arguments.insert(arguments.end(), {"--", "/bin/sh", "-c", script});
    return life::run_beside("in_environment", arguments).output;
  };
  const std::string skipped = "skipped: ";
  const auto expect = [&](const std::string& limit, const std::string& script, const std::string& answer) {
    const std::string found = told({limit}, script);
    EXPECT_TRUE(found == answer || found.starts_with(skipped)) << limit << ": " << found;
  };
  expect("without_udev", "test -e /run/udev || echo none", "none\n");
  expect("without_locked_memory",
         "ulimit -l; echo $((0x$(grep CapEff /proc/self/status | cut -f 2) >> 14 & 1))",  // CAP_IPC_LOCK
         "0\n0\n");
  expect("in_user_namespace", "id -u; awk '{ print $1, $3 }' /proc/self/uid_map", "0\n0 1\n");
  expect("under_an_old_filter", "unshare -U true 2>&1 | grep -c 'not permitted'", "1\n");
  expect("as_nobody", "id -u; grep CapEff /proc/self/status | cut -f 2", "65534\n0000000000000000\n");
  expect("with_reachable_memory", "readlink $SLUICE_SOFTGPU_BACKING", "/memfd:reachable (deleted)\n");
  expect("without_io_uring", "grep ^Seccomp: /proc/self/status | cut -f 2", "2\n");
}

// Open to every user, and gone with whatever a caller that was killed has left in it.
class Folder {
 public:
  explicit Folder(const std::string& place) : path_(place + "/callers-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr || chmod(path_.c_str(), 0777) != 0) {
      throw std::runtime_error("no folder in " + place);
    }
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Callers : public ::testing::TestWithParam<Case> {};

TEST_P(Callers, FindEveryByte) {
  const auto& [caller, environment] = GetParam();
  const support::Place* place = nullptr;
  for (const std::string& name : environment.places) {
    if (place == nullptr) place = support::find_place(name);
  }
  if (place == nullptr) GTEST_SKIP() << why_not(environment.places.front());
  const Folder folder(place->path);
  std::vector<std::string> arguments = environment.limits;
  arguments.insert(arguments.end(), {"--", life::path_beside("caller_" + caller.name), folder.path(), caller.part});
  const life::Ended ended = life::run_beside("in_environment", arguments, {"SLUICE_SOFTGPU_DEVICES=" + caller.devices});
  if (ended.skipped()) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.signal, 0) << ended.output;
  EXPECT_EQ(ended.status, 0) << ended.output;
}

INSTANTIATE_TEST_SUITE_P(All, Callers, ::testing::ValuesIn(cases()),
                         [](const ::testing::TestParamInfo<Case>& each) { return name_of(each.param); });

}  // namespace
}  // namespace sluice::callers
