// SPDX-License-Identifier: Apache-2.0
// What was measured on a machine chooses what is not configured, and nothing else.
#include "config/profile.h"

#include <gmock/gmock.h>

#include "config/sources.h"

namespace sluice::config {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* measured = R"({"sluice_profile": 1, "best": {"sluice.copy": "engine", "sluice.mode": "plain"}})";

TEST(Profile, ChoosesWhatNobodyHasChosen) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.write("profile.json", measured));
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
  machine.set("SLUICE_PROFILE", machine.write("profile.json", measured));
  const Config config = machine.read();
  EXPECT_EQ(config.setting(key_at("sluice.copy")).origin, Origin::measured);
  EXPECT_TRUE(config.binds(key_at("sluice.copy")));
  EXPECT_EQ(config.setting(key_at("sluice.disk_reads")).origin, Origin::built_in);
}

TEST(Profile, YieldsToWhatSomebodyHasChosen) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.write("profile.json", measured));
  machine.set("SLUICE_COPY", "kernel");
  EXPECT_EQ(machine.read().text(key_at("sluice.copy")), "kernel");
  machine.unset("SLUICE_COPY");
  machine.write(R"({"sluice": {"copy": "kernel"}})");
  EXPECT_EQ(machine.read().text(key_at("sluice.copy")), "kernel");
}

TEST(Profile, ChoosesNothingThatCannotBeMeasured) {
  Pretended machine;
  machine.set("SLUICE_PROFILE", machine.write("profile.json", measured));
  EXPECT_EQ(machine.read().text(key_at("sluice.mode")), "auto");
}

TEST(Profile, IsLeftAloneUnlessItIsNamed) {
  Pretended machine;
  machine.write("profile.json", measured);
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

}  // namespace
}  // namespace sluice::config
