// SPDX-License-Identifier: Apache-2.0
// What was measured on a machine chooses what is not configured, and nothing else.
#include "config/profile.h"

#include <gmock/gmock.h>

#include "base/machine_number.h"
#include "config/sources.h"

namespace sluice::config {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* profile_text =
    R"({"sluice_profile": 1, "best": {"sluice.copy": "engine", "sluice.mode": "plain"}})";

TEST(Profile, ChoosesWhatNobodyHasChosen) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.write("profile.json", profile_text));
  EXPECT_EQ(machine.read().text(key_at("sluice.copy")), "engine");
  EXPECT_THAT(notes_at(machine.read(), LogLevel::info), Contains(HasSubstr("sluice.copy is as measured: engine")));
}

TEST(Profile, ChoosesHowDisksAreRead) {
  Pretended machine;
  machine.set("SLUICE_PROFILE",
              machine.write("profile.json", R"({"sluice_profile": 1, "best": {"sluice.disk_reads": "threads"}})"));
  EXPECT_EQ(machine.read().text(key_at("sluice.disk_reads")), "threads");
}

TEST(Profile, IsNamedAsWhoHasChosen) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.write("profile.json", profile_text));
  const Config config = machine.read();
  EXPECT_EQ(config.setting(key_at("sluice.copy")).origin, Origin::measured);
  EXPECT_TRUE(config.binds(key_at("sluice.copy")));
  EXPECT_EQ(config.setting(key_at("sluice.disk_reads")).origin, Origin::built_in);
}

TEST(Profile, YieldsToWhatSomebodyHasChosen) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.write("profile.json", profile_text));
  machine.set("SLUICE_COPY", "kernel");
  EXPECT_EQ(machine.read().text(key_at("sluice.copy")), "kernel");
  machine.unset("SLUICE_COPY");
  machine.write(R"({"sluice": {"copy": "kernel"}})");
  EXPECT_EQ(machine.read().text(key_at("sluice.copy")), "kernel");
}

TEST(Profile, ChoosesNothingThatCannotBeMeasured) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.write("profile.json", profile_text));
  EXPECT_EQ(machine.read().text(key_at("sluice.mode")), "auto");
}

TEST(Profile, IsLeftAloneUnlessItIsNamed) {
  Pretended machine;
  machine.write("profile.json", profile_text);
  EXPECT_EQ(machine.read().text(key_at("sluice.copy")), "auto");
}

TEST(Profile, ThatCannotBeUsedIsNotedAndLeft) {
  Pretended machine;
  for (const char* text :
       {"", "[]", "{}", R"({"best": {"sluice.copy": "engine"}})", R"({"sluice_profile": 1, "best": []})"}) {
    machine.set("SLUICE_PROFILE", machine.write("profile.json", text));
    EXPECT_EQ(machine.read().text(key_at("sluice.copy")), "auto") << text;
  }
  machine.set("SLUICE_PROFILE", machine.folder() + "/nowhere");
  EXPECT_THAT(notes_at(machine.read(), LogLevel::warn), Contains(HasSubstr("there is no such file")));
  machine.set("SLUICE_PROFILE",
              machine.write("profile.json", R"({"sluice_profile": 1, "best": {"sluice.copy": "magic"}})"));
  EXPECT_EQ(machine.read().text(key_at("sluice.copy")), "auto");
  EXPECT_THAT(notes_at(machine.read(), LogLevel::warn), Contains(HasSubstr("sluice.copy")));
}

// With what it says of /data.
std::string of_data(const std::string& machine) {
  return R"({"sluice_profile": 1, "date": "2026-11-27T10:00:00+0000", "machine": ")" + machine +
         R"(", "best": {"sluice.copy": "kernel"}, "folders": [
           {"folder": "/data/x", "mount": "/data", "file_system": "xfs", "drives": ["sdb", "sda"],
            "best_copy": "engine", "best_disk_reads": "threads"},
           {"folder": "/none", "mount": "/none", "file_system": "ext4", "drives": []},
           {"folder": "/odd", "mount": "/odd", "file_system": "ext4", "drives": [], "best_copy": "magic"}]})";
}

TEST(Profile, KeepsWhatWasQuickestOnEachMountedFileSystem) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.write("profile.json", of_data(base::machine_number())));
  const Measured measured = machine.read().measured;
  EXPECT_EQ(measured.date, "2026-11-27T10:00:00+0000");
  EXPECT_EQ(measured.why_not, "");
  ASSERT_EQ(measured.mounts.size(), 1u) << "of the others nothing is known";
  EXPECT_EQ(measured.mounts[0].mount, "/data");
  EXPECT_EQ(measured.mounts[0].file_system, "xfs");
  EXPECT_THAT(measured.mounts[0].drives, testing::ElementsAre("sda", "sdb"));
  EXPECT_EQ(measured.mounts[0].copy, "engine");
  EXPECT_EQ(measured.mounts[0].disk_reads, "threads");
}

TEST(Profile, ChoosesNothingForAMountThatIsConfigured) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.write("profile.json", of_data(base::machine_number())));
  machine.set("SLUICE_COPY", "auto");
  const Measured measured = machine.read().measured;
  ASSERT_EQ(measured.mounts.size(), 1u);
  EXPECT_EQ(measured.mounts[0].copy, "");
  EXPECT_EQ(measured.mounts[0].disk_reads, "threads");
}

TEST(Profile, OfAnotherMachineIsLeftAlone) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.write("profile.json", of_data("of another")));
  const Config config = machine.read();
  EXPECT_EQ(config.text(key_at("sluice.copy")), "auto");
  EXPECT_EQ(config.measured.why_not, "it was made on another machine");
  EXPECT_TRUE(config.measured.mounts.empty());
  EXPECT_THAT(notes_at(config, LogLevel::warn), Contains(HasSubstr("another machine")));
}

TEST(Profile, ThatCannotBeUsedSaysWhy) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.folder() + "/nowhere");
  EXPECT_EQ(machine.read().measured.why_not, "there is no such file");
  EXPECT_EQ(machine.read().measured.file, machine.folder() + "/nowhere");
  for (const char* text : {"no JSON", R"({"best": {"sluice.copy": "engine"}})"}) {
    machine.set("SLUICE_PROFILE", machine.write("profile.json", text));
    EXPECT_THAT(machine.read().measured.why_not, HasSubstr("it is no profile")) << text;
  }
}

TEST(Profile, OfTheSoftGpuIsLeftAloneByARealOne) {
  Pretended machine;
  machine.set(
      "SLUICE_PROFILE",
      machine.write("profile.json", R"({"sluice_profile": 1, "soft": true, "best": {"sluice.copy": "engine"}})"));
  Sources sources = machine.sources();
  EXPECT_EQ(make_config(sources, {}).text(key_at("sluice.copy")), "engine") << "no GPU is known";
  sources.has_real_gpu = [] { return false; };
  EXPECT_EQ(make_config(sources, {}).text(key_at("sluice.copy")), "engine");
  sources.has_real_gpu = [] { return true; };
  const Config config = make_config(sources, {});
  EXPECT_EQ(config.text(key_at("sluice.copy")), "auto");
  EXPECT_EQ(config.measured.why_not, "it was made on the soft GPU, and says nothing of a real one");
  EXPECT_THAT(notes_at(config, LogLevel::warn), Contains(HasSubstr("on the soft GPU")));
}

TEST(MachineNumber, IsMadeOfTheIdAndDoesNotShowIt) {
  Pretended machine;
  const std::string one = machine.write("one", "0123456789abcdef0123456789abcdef\n");
  const std::string other = machine.write("other", "0123456789abcdef0123456789abcdee\n");
  const std::string number = base::machine_number(one.c_str());
  EXPECT_EQ(number.size(), 16u);
  EXPECT_NE(number, base::machine_number(other.c_str()));
  EXPECT_EQ(std::string("0123456789abcdef0123456789abcdef").find(number), std::string::npos);
  EXPECT_EQ(base::machine_number(machine.write("short", "0123").c_str()), "");
  EXPECT_EQ(base::machine_number((machine.folder() + "/nowhere").c_str()), "");
}

}  // namespace
}  // namespace sluice::config
