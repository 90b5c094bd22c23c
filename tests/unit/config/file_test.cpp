// SPDX-License-Identifier: Apache-2.0
// Configuration files: what is read from them, and what is said about those that cannot be used.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "config/sources.h"

namespace sluice::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

const Config& built_in() {
  static const Config config;
  return config;
}

// The names of the keys that differ from the built-in defaults.
std::vector<std::string> changed(const Config& config) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < key_count; ++i) {
    if (config.setting(i).value != built_in().setting(i).value) names.emplace_back(keys[i].name);
  }
  return names;
}

TEST(File, SetsEveryKeyFromItsOwnPlace) {
  for (std::size_t i = 0; i < key_count; ++i) {
    const std::string name(keys[i].name);
    std::string text = std::string(keys[i].standard);
    std::string closing;
    for (std::size_t end = name.size(); end != std::string::npos;) {
      const std::size_t dot = end == 0 ? std::string::npos : name.rfind('.', end - 1);
      text = "{\"" +
             name.substr(dot == std::string::npos ? 0 : dot + 1, end - (dot == std::string::npos ? 0 : dot + 1)) +
             "\": " + text + "}";
      end = dot;
    }
    const Config config = config_of(text);
    EXPECT_EQ(config.setting(i).origin, Origin::file) << text;
    EXPECT_EQ(config.setting(i).line, 1) << text;
    EXPECT_THAT(notes_at(config, LogLevel::error), IsEmpty()) << text;
    EXPECT_THAT(notes_at(config, LogLevel::warn), IsEmpty()) << text;
    EXPECT_FALSE(config.binds(i)) << text;
  }
}

TEST(File, RemembersTheLineOfEachKey) {
  const Config config = config_of("{ // one\n\"execution\": {\n\"max_io_threads\":\n 8, \"parallel_io\": false } }");
  EXPECT_EQ(config.setting(key_at("execution.max_io_threads")).line, 3);
  EXPECT_EQ(config.setting(key_at("execution.parallel_io")).line, 4);
  EXPECT_EQ(config.setting(key_at("execution.max_io_queue_depth")).line, 0);
  EXPECT_THAT(changed(config), ElementsAre("execution.max_io_threads", "execution.parallel_io"));
}

TEST(File, WithNothingInItChangesNothing) {
  EXPECT_THAT(changed(config_of("{}")), IsEmpty());
  EXPECT_THAT(config_of("{\"properties\": {}}").notes, IsEmpty());
}

TEST(File, OfAPublishedDeploymentGuideIsReadWithEachKeyMappedOrExplained) {
  const Config config = config_of(R"({
    "logging": {"level": 2},
    "nvfs": {
      "rdma": {
        "enable": true,
        "devices": ["mlx5_0", "mlx5_1"],
        "poll_mode": true,
        "max_direct_io_size_kb": 16384
      }
    },
    "properties": {"max_device_cache_size_kb": 131072, "max_device_pinned_mem_size_kb": 33554432}
  })");
  EXPECT_EQ(config.log_level, "WARN");
  for (const char* name : {"logging.level", "properties.max_direct_io_size_kb", "properties.max_device_cache_size_kb",
                           "properties.max_device_pinned_mem_size_kb"}) {
    EXPECT_EQ(config.setting(key_named(name)).origin, Origin::file) << name;
  }
  EXPECT_EQ(json_of(config, "properties.max_direct_io_size_kb"), "16384");
  EXPECT_EQ(config.setting(key_at("properties.max_direct_io_size_kb")).line, 8);
  EXPECT_THAT(notes_at(config, LogLevel::error), IsEmpty());
  EXPECT_THAT(notes_at(config, LogLevel::warn),
              ElementsAre(AllOf(StartsWith("cufile.json:5: nvfs.rdma.enable"), HasSubstr("rdma_dev_addr_list")),
                          AllOf(StartsWith("cufile.json:6: nvfs.rdma.devices"), HasSubstr("rdma_dev_addr_list")),
                          AllOf(StartsWith("cufile.json:7: nvfs.rdma.poll_mode"), HasSubstr("use_poll_mode")),
                          AllOf(StartsWith("cufile.json:8: nvfs.rdma.max_direct_io_size_kb"),
                                HasSubstr("properties.max_direct_io_size_kb"))));
}

TEST(File, ThatIsNoJsonIsIgnoredAsAWhole) {
  for (const char* text : {"", "{", "{\"execution\": {\"max_io_threads\": 8}", "[]", "7", "{\"execution\" {}}",
                           "{\"execution\": {\"max_io_threads\": 8}},", "\xff\xfe{\0}", "hello"}) {
    const Config config = config_of(text);
    EXPECT_THAT(changed(config), IsEmpty()) << text;
    EXPECT_THAT(notes_at(config, LogLevel::error),
                ElementsAre(AllOf(StartsWith("cufile.json:1: "), HasSubstr("default"))))
        << text;
  }
}

TEST(File, ThatIsBrokenIsComplainedOfByLineColumnAndKey) {
  const Config config = config_of("{\n  \"properties\": {\n    \"io_batchsize\": 12x\n  }\n}");
  EXPECT_THAT(notes_at(config, LogLevel::error),
              ElementsAre(AllOf(StartsWith("cufile.json:3: column 23: in properties"), HasSubstr("'x'"))));
}

TEST(File, WithAValueThatCannotBeUsedKeepsTheRest) {
  const Config config =
      config_of("{\"execution\": {\n\"max_io_threads\": 99,\n\"parallel_io\": \"yes\",\n\"max_io_queue_depth\": 7}}");
  EXPECT_THAT(changed(config), ElementsAre("execution.max_io_queue_depth"));
  EXPECT_EQ(config.setting(key_at("execution.max_io_threads")).origin, Origin::built_in);
  EXPECT_THAT(
      notes_at(config, LogLevel::error),
      ElementsAre("cufile.json:2: execution.max_io_threads takes a whole number, 0 to 32, not 99; the default "
                  "holds: 4",
                  "cufile.json:3: execution.parallel_io takes true or false, not \"yes\"; the default holds: true"));
}

TEST(File, WithASectionThatIsNoObjectKeepsTheRest) {
  const Config config = config_of(R"({"properties": 7, "fs": [], "profile": {"cufile_stats": 3}})");
  EXPECT_THAT(changed(config), ElementsAre("profile.cufile_stats"));
  EXPECT_THAT(notes_at(config, LogLevel::error), SizeIs(2));
}

TEST(File, MayUseOlderAndNewerSpellings) {
  const Config config = config_of(R"({
    "profile": {"io_batchsize": 16},
    "properties": {"use_compat_mode": false, "rdma_peer_affinity_policy": "MaxMinFit", "max_batch_io_timeout_msecs": 9},
    "sparse": {"enable_static_routing": true, "static_routing_filepath": "/etc/x.json"},
    "blacklist": {"drivers": ["loop"], "devices": [], "mounts": ["/a"], "filesystems": ["xfs"]}
  })");
  EXPECT_EQ(json_of(config, "properties.io_batchsize"), "16");
  EXPECT_FALSE(config.flag(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE));
  EXPECT_EQ(json_of(config, "properties.rdma_load_balancing_policy"), "\"MaxMinFit\"");
  EXPECT_EQ(config.size(CUFILE_PARAM_PROPERTIES_BATCH_IO_TIMEOUT_MS), 9u);
  EXPECT_TRUE(config.flag(key_at("miscellaneous.enable_static_routing")));
  EXPECT_EQ(config.text(key_at("miscellaneous.static_routing_filepath")), "/etc/x.json");
  EXPECT_THAT(config.texts(key_at("denylist.drivers")), ElementsAre("loop"));
  EXPECT_THAT(config.texts(key_at("denylist.filesystems")), ElementsAre("xfs"));
  EXPECT_THAT(notes_at(config, LogLevel::warn), IsEmpty());
}

TEST(File, GivesTheKeysOwnNameTheLastWord) {
  for (const char* text :
       {R"({"properties": {"io_batchsize": 8}, "profile": {"io_batchsize": 9}, "io_batchsize": 10})",
        R"({"io_batchsize": 10, "profile": {"io_batchsize": 9}, "properties": {"io_batchsize": 8}})"}) {
    const Config config = config_of(text);
    EXPECT_EQ(json_of(config, "properties.io_batchsize"), "8") << text;
    EXPECT_THAT(notes_at(config, LogLevel::warn), SizeIs(3)) << text;
  }
}

TEST(File, ThatGivesAKeyTwiceMeansTheSecondOne) {
  const Config config = config_of("{\"profile\": {\"cufile_stats\": 1,\n\"cufile_stats\": 2}}");
  EXPECT_EQ(config.size(CUFILE_PARAM_PROFILE_STATS), 2u);
  EXPECT_THAT(notes_at(config, LogLevel::warn), ElementsAre(HasSubstr("line 2 holds")));
}

TEST(File, IsWarnedAboutForEachUnknownKey) {
  const Config config = config_of("{\"logging\": {\"levle\": \"INFO\"},\n \"new\": {\"deep\": {\"thing\": [1, {}]}}}");
  EXPECT_THAT(changed(config), IsEmpty());
  EXPECT_THAT(
      notes_at(config, LogLevel::warn),
      ElementsAre("cufile.json:1: logging.levle is no key that is known: did you mean logging.level?",
                  AllOf(StartsWith("cufile.json:2: new.deep.thing"), HasSubstr("docs/reference/configuration.md"))));
}

TEST(File, WithHundredsOfUnknownKeysIsNotWarnedAboutHundredsOfTimes) {
  std::string text = "{\"x0\": 0";
  for (int i = 1; i < 500; ++i) text += ",\n\"x" + std::to_string(i) + "\": {\"y\": " + std::to_string(i) + "}";
  const auto warnings = notes_at(config_of(text + "}"), LogLevel::warn);
  EXPECT_THAT(warnings, SizeIs(33));
  EXPECT_THAT(warnings.back(), HasSubstr("468 more"));
}

TEST(File, CannotWriteControlCharactersIntoMessages) {
  const Config config = config_of("{\"\\u001b[2J\\n\": 1, \"logging\": {\"level\": \"\\u0007\\n\"}}");
  ASSERT_THAT(config.notes, SizeIs(2));
  for (const Note& note : config.notes) {
    for (const char c : note.text) EXPECT_GE(static_cast<unsigned char>(c), ' ') << note.text;
  }
}

TEST(File, MayDescribeFileSystemsAndTheirMounts) {
  const Config config = config_of(R"({"fs": {
    "generic": {"posix_unaligned_writes": true},
    "lustre": {"posix_gds_min_kb": 64, "mount_table": {"/lustre/a": {"rdma_dev_addr_list": ["10.0.0.1", "10.0.0.2"]},
                                                      "/lustre/b": {"rdma_dev_addr_list": ["10.0.1.1"]}}},
    "nfs": {"rdma_dev_addr_list": ["10.1.0.1"]},
    "weka": {"rdma_write_support": true},
    "gpfs": {"gds_write_support": true, "gds_async_support": false},
    "virtiofs": {"use_pci_p2pdma": true}
  }, "block": {"raid1": {"use_pci_p2pdma": true}}})");
  EXPECT_THAT(config.notes, IsEmpty());
  EXPECT_TRUE(config.flag(key_at("fs.generic.posix_unaligned_writes")));
  EXPECT_EQ(config.number(key_at("fs.lustre.posix_gds_min_kb")), 64);
  const auto& mounts = config.mounts(key_at("fs.lustre.mount_table"));
  ASSERT_THAT(mounts, SizeIs(2));
  EXPECT_EQ(mounts[0].mount, "/lustre/a");
  EXPECT_THAT(mounts[0].addresses, ElementsAre("10.0.0.1", "10.0.0.2"));
  EXPECT_THAT(config.texts(key_at("fs.nfs.rdma_dev_addr_list")), ElementsAre("10.1.0.1"));
  EXPECT_TRUE(config.flag(key_at("block.raid1.use_pci_p2pdma")));
}

TEST(File, MayNotGiveAddressesAndAMountTableForOneFileSystem) {
  const Config config = config_of(
      "{\"fs\": {\"gpfs\": {\n\"rdma_dev_addr_list\": [\"10.0.0.1\"],\n\"mount_table\": {\"/g\": "
      "{\"rdma_dev_addr_list\": [\"10.0.0.2\"]}}}}}");
  EXPECT_THAT(notes_at(config, LogLevel::error), ElementsAre(HasSubstr(":2: fs.gpfs.rdma_dev_addr_list")));
  EXPECT_THAT(config.texts(key_at("fs.gpfs.rdma_dev_addr_list")), IsEmpty());
  EXPECT_THAT(config.mounts(key_at("fs.gpfs.mount_table")), SizeIs(1));
}

TEST(File, IsWarnedAboutRoutingWithoutAddresses) {
  EXPECT_THAT(notes_at(config_of(R"({"properties": {"rdma_dynamic_routing": true}})"), LogLevel::warn),
              ElementsAre(HasSubstr("wants addresses")));
  EXPECT_THAT(
      notes_at(config_of(R"({"properties": {"rdma_dynamic_routing": true, "rdma_dev_addr_list": ["10.0.0.1"]}})"),
               LogLevel::warn),
      IsEmpty());
}

TEST(Slabs, ComeWithAsManyCountsAsSizes) {
  const Config good =
      config_of(R"({"properties": {"posix_pool_slab_size_kb": [4, 64], "posix_pool_slab_count": [1, 2]}})");
  EXPECT_THAT(good.posix_slabs.sizes_kb, ElementsAre(4u, 64u));
  EXPECT_THAT(good.posix_slabs.counts, ElementsAre(1u, 2u));
  const Config bad = config_of("{\"properties\": {\n\"posix_pool_slab_size_kb\": [4, 64]}}");
  EXPECT_THAT(changed(bad), IsEmpty());
  EXPECT_THAT(notes_at(bad, LogLevel::error), ElementsAre(StartsWith("cufile.json:2: properties.posix_pool_slab")));
}

TEST(Slabs, OfTheGpuRiseAndOneOfThemSuitsTheKernelDriver) {
  const auto read = [](const std::string& sizes, const std::string& counts) {
    return config_of("{\"properties\": {\"gpu_bounce_buffer_slab_config\": {\"slab_size_kb\": " + sizes +
                     ", \"slab_count\": " + counts + "}}}");
  };
  EXPECT_THAT(read("[1024, 65536]", "[2, 1]").gpu_slabs.sizes_kb, ElementsAre(1024u, 65536u));
  for (const auto& [sizes, counts] :
       {std::pair{"[1024, 1024]", "[1, 1]"}, std::pair{"[8192, 1024]", "[1, 1]"}, std::pair{"[32768]", "[1]"},
        std::pair{"[1024]", "[1, 1]"}, std::pair{"[1023]", "[1]"}, std::pair{"[1024]", "[0]"}}) {
    const Config config = read(sizes, counts);
    EXPECT_THAT(config.gpu_slabs.sizes_kb, IsEmpty()) << sizes << counts;
    EXPECT_THAT(config.gpu_slabs.counts, IsEmpty()) << sizes << counts;
    EXPECT_FALSE(notes_at(config, LogLevel::error).empty()) << sizes << counts;
  }
}

TEST(Slabs, OfTheGpuReplaceTheCacheSizesAndSaySo) {
  const Config config =
      config_of(R"({"properties": {"per_buffer_cache_size_kb": 2048, "max_device_cache_size_kb": 131072,
    "gpu_bounce_buffer_slab_size_kb": [1024], "gpu_bounce_buffer_slab_count": [4]}})");
  EXPECT_THAT(config.gpu_slabs.counts, ElementsAre(4u));
  EXPECT_THAT(notes_at(config, LogLevel::warn), ElementsAre(HasSubstr("per_buffer_cache_size_kb")));
}

TEST(Place, IsWhatTheEnvironmentNamesElseTheDefaultFile) {
  Pretended machine;
  const std::string standard = machine.write("{\"profile\": {\"cufile_stats\": 1}}");
  EXPECT_EQ(machine.read().size(CUFILE_PARAM_PROFILE_STATS), 1u);
  EXPECT_EQ(machine.read().file, standard);

  const std::string own = machine.write("own.json", "{\"profile\": {\"cufile_stats\": 2}}");
  machine.set("CUFILE_ENV_PATH_JSON", own);
  EXPECT_EQ(machine.read().size(CUFILE_PARAM_PROFILE_STATS), 2u);
  EXPECT_EQ(machine.read().file, own);

  machine.set("CUFILE_ENV_PATH_JSON", "");
  EXPECT_EQ(machine.read().file, standard);
}

TEST(Place, MayBeEmptyUnlessTheEnvironmentNamesIt) {
  Pretended machine;
  EXPECT_THAT(machine.read().notes, IsEmpty());
  EXPECT_EQ(machine.read().file, "");
  machine.set("CUFILE_ENV_PATH_JSON", machine.folder() + "/gone.json");
  EXPECT_THAT(notes_at(machine.read(), LogLevel::error),
              ElementsAre(AllOf(StartsWith(machine.folder() + "/gone.json: there is no such file"),
                                HasSubstr("CUFILE_ENV_PATH_JSON"))));
}

TEST(Place, ThatIsNoReadableFileIsNamedAndTheDefaultsHold) {
  Pretended machine;
  const auto complaint = [&](const std::string& path) -> std::string {
    machine.set("CUFILE_ENV_PATH_JSON", path);
    const Config config = machine.read();
    EXPECT_THAT(changed(config), IsEmpty());
    EXPECT_THAT(config.notes, SizeIs(1));
    return config.notes.empty() ? "" : config.notes[0].text;
  };
  EXPECT_THAT(complaint(machine.folder()), HasSubstr("it is a directory"));
  EXPECT_THAT(complaint("/dev/zero"), HasSubstr("no regular file"));
  EXPECT_THAT(complaint(machine.write("large", "{}" + std::string(1 << 20, ' '))), HasSubstr("larger than 1 MiB"));
  const std::string pipe = machine.folder() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(complaint(pipe), HasSubstr("no regular file"));
  const std::string loop = machine.folder() + "/loop";
  std::filesystem::create_symlink(loop, loop);
  EXPECT_THAT(complaint(loop), HasSubstr("cannot be opened"));
  EXPECT_THAT(complaint(std::string(5000, 'a')), HasSubstr("cannot be opened"));
}

TEST(Place, ThatMayNotBeReadIsNamedAndTheDefaultsHold) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  Pretended machine;
  ASSERT_EQ(::chmod(machine.write("{}").c_str(), 0), 0);
  EXPECT_THAT(notes_at(machine.read(), LogLevel::error), ElementsAre(HasSubstr("cannot be opened")));
}

TEST(Place, HoldsFilesOfUpToOneMebibyte) {
  Pretended machine;
  machine.write("{\"profile\": {\"cufile_stats\": 3}}" + std::string((1 << 20) - 32, ' '));
  EXPECT_EQ(machine.read().size(CUFILE_PARAM_PROFILE_STATS), 3u);
}

}  // namespace
}  // namespace sluice::config
