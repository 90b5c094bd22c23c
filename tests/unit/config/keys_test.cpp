// SPDX-License-Identifier: Apache-2.0
// The table of keys agrees with itself, and names lead to the right row.
#include "config/keys.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "config/sources.h"

namespace sluice::config {
namespace {

TEST(Keys, HaveNamesOfTheirOwnAndEverythingThatThePageShows) {
  std::set<std::string_view> names;
  std::set<std::string_view> variables;
  for (const Key& key : keys) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_NE(key.name.find('.'), std::string_view::npos) << key.name;
    EXPECT_GT(key.meaning.size(), 8u) << key.name;
    EXPECT_FALSE(key.here.empty()) << key.name;
    EXPECT_EQ(key.meaning.find('|'), std::string_view::npos) << key.name;
    if (!key.environment.empty()) {
      EXPECT_TRUE(variables.insert(key.environment).second) << key.environment;
    }
    const bool chooses = key.kind == Kind::choice || key.kind == Kind::choices;
    EXPECT_EQ(chooses, !key.choices.empty()) << key.name;
  }
  for (const Alias& alias : aliases) EXPECT_TRUE(names.insert(alias.name).second) << alias.name;
}

TEST(Keys, HaveStandardValuesThatTheyWouldAccept) {
  for (const Key& key : keys) {
    for (const std::string_view text : {key.standard, key.also_stock}) {
      if (text.empty()) continue;
      const auto parsed = parse_json(text);
      ASSERT_TRUE(std::holds_alternative<Json>(parsed)) << key.name << ": " << text;
      const auto read = read_value(key, std::get<Json>(parsed));
      ASSERT_TRUE(std::holds_alternative<Value>(read)) << key.name << ": " << text;
      EXPECT_EQ(to_json(std::get<Value>(read)), text) << key.name;
      EXPECT_TRUE(is_stock(key, std::get<Value>(read))) << key.name;
    }
  }
}

TEST(Keys, AreNoLongerThanANameMayBe) {
  for (const Key& key : keys) EXPECT_LT(key.name.size(), 100u) << key.name;
}

TEST(Names, LeadToTheirKeyAndNothingElse) {
  for (std::size_t i = 0; i < key_count; ++i) {
    EXPECT_EQ(find_key(keys[i].name), i);
    EXPECT_EQ(resolve(keys[i].name).match, Match::exact);
    EXPECT_EQ(resolve(keys[i].name).key, i);
    EXPECT_FALSE(is_section(keys[i].name)) << keys[i].name;
  }
  EXPECT_EQ(find_key("properties"), std::nullopt);
  EXPECT_EQ(find_key(""), std::nullopt);
}

TEST(Names, HaveOlderAndNewerSpellings) {
  for (const auto& [other, key] :
       {std::pair{"profile.io_batchsize", "properties.io_batchsize"},
        std::pair{"properties.use_compat_mode", "properties.allow_compat_mode"},
        std::pair{"properties.rdma_peer_affinity_policy", "properties.rdma_load_balancing_policy"},
        std::pair{"properties.max_batch_io_timeout_msecs", "properties.batch_io_timeout_ms"},
        std::pair{"sparse.enable_static_routing", "miscellaneous.enable_static_routing"},
        std::pair{"sparse.static_routing_filepath", "miscellaneous.static_routing_filepath"},
        std::pair{"blacklist.mounts", "denylist.mounts"}}) {
    EXPECT_EQ(resolve(other).match, Match::alias) << other;
    EXPECT_EQ(keys[resolve(other).key].name, key) << other;
  }
}

TEST(Names, InAForeignSectionAreUnderstoodWhereTheyCanMeanOneThingOnly) {
  for (const char* name : {"nvfs.rdma.max_direct_io_size_kb", "max_direct_io_size_kb",
                           "execution.max_direct_io_size_kb", "a.b.c.d.max_direct_io_size_kb"}) {
    EXPECT_EQ(resolve(name).match, Match::misplaced) << name;
    EXPECT_EQ(keys[resolve(name).key].name, "properties.max_direct_io_size_kb") << name;
  }
  EXPECT_EQ(keys[resolve("profile.use_compat_mode").key].name, "properties.allow_compat_mode");
}

TEST(Names, ThatCouldMeanSeveralThingsAreNotGuessed) {
  for (const char* name :
       {"nvfs.rdma.devices", "nvfs.rdma.enable", "nvfs.rdma.poll_mode", "fs.ext4.use_pci_p2pdma",
        "fs.weka.posix_gds_min_kb", "rdma_dev_addr_list", "properties.level", "mode", "dir", "sluice.fast", ""}) {
    EXPECT_EQ(resolve(name).match, Match::unknown) << name;
  }
}

TEST(Names, OfSectionsAreKnown) {
  for (const char* name : {"fs", "fs.lustre", "properties", "blacklist", "sluice", "block.raid1",
                           "properties.gpu_bounce_buffer_slab_config"}) {
    EXPECT_TRUE(is_section(name)) << name;
  }
  for (const char* name : {"", "f", "fs.lus", "nvfs", "properties.io_batchsize"})
    EXPECT_FALSE(is_section(name)) << name;
}

TEST(Advice, NamesTheNearestKey) {
  for (const auto& [wrong, right] :
       {std::pair{"properties.max_direct_io_size", "properties.max_direct_io_size_kb"},
        std::pair{"properties.alow_compat_mode", "properties.allow_compat_mode"},
        std::pair{"logging.levle", "logging.level"}, std::pair{"loging.level", "logging.level"},
        std::pair{"execution.max_io_thread", "execution.max_io_threads"},
        std::pair{"properties.use_pcip2pdma", "properties.use_pci_p2pdma"}, std::pair{"sluice.verfy", "sluice.verify"},
        std::pair{"fs.luster.posix_gds_min_kb", "fs.lustre.posix_gds_min_kb"},
        std::pair{"deny_list.drivers", "denylist.drivers"},
        std::pair{"Properties.io_batchsize", "properties.io_batchsize"}}) {
    EXPECT_NE(advice_on(wrong).find(right), std::string::npos) << wrong << ": " << advice_on(wrong);
  }
}

TEST(Advice, ExplainsForeignKeysThatCirculate) {
  EXPECT_NE(advice_on("nvfs.rdma.enable").find("properties.rdma_dev_addr_list"), std::string::npos);
  EXPECT_NE(advice_on("nvfs.rdma.devices").find("properties.rdma_dev_addr_list"), std::string::npos);
  EXPECT_NE(advice_on("nvfs.rdma.poll_mode").find("properties.use_poll_mode"), std::string::npos);
}

TEST(Advice, DoesNotGuessWhereNothingIsNear) {
  EXPECT_NE(advice_on("something.entirely_different").find("no known key is like it"), std::string::npos);
  EXPECT_NE(advice_on(std::string(5000, 'x')).find("no known key is like it"), std::string::npos);
  EXPECT_FALSE(advice_on("").empty());
}

}  // namespace
}  // namespace sluice::config
