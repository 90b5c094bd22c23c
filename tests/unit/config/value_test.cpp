// SPDX-License-Identifier: Apache-2.0
// What each key takes, up to the ends of its range, and what it refuses.
#include "config/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/keys.h"
#include "config/sources.h"

namespace sluice::config {
namespace {

using testing::HasSubstr;

std::variant<Value, Objection> read(const Key& key, std::string_view text) {
  const auto parsed = parse_json(text);
  if (!std::holds_alternative<Json>(parsed)) {
    ADD_FAILURE() << text;
    return Objection("no JSON");
  }
  return read_value(key, std::get<Json>(parsed));
}

void takes(const Key& key, const std::string& text) {
  const auto value = read(key, text);
  ASSERT_TRUE(std::holds_alternative<Value>(value)) << key.name << " " << std::get<Objection>(value).text;
  if (key.kind != Kind::level) {
    EXPECT_EQ(to_json(std::get<Value>(value)), text) << key.name;
  }
}

void refuses(const Key& key, const std::string& text) {
  const auto value = read(key, text);
  ASSERT_TRUE(std::holds_alternative<Objection>(value)) << key.name << " took " << text;
  EXPECT_THAT(std::get<Objection>(value).text, HasSubstr("takes ")) << key.name;
}

const Key& key(std::string_view name) {
  return keys[key_named(name)];
}

TEST(Values, OfEveryNumberKeepToTheEndsOfTheirRange) {
  for (const Key& row : keys) {
    if (row.kind != Kind::number && row.kind != Kind::numbers) continue;
    const auto spelt = [&](std::int64_t n) {
      return row.kind == Kind::number ? std::to_string(n) : "[" + std::to_string(n) + "]";
    };
    const Limits& limits = row.limits;
    takes(row, spelt(limits.lowest));
    takes(row, spelt(limits.highest));
    takes(row, spelt(limits.lowest + limits.step));
    refuses(row, spelt(limits.highest + limits.step));
    if (limits.lowest - limits.step != -1 || !limits.unlimited) refuses(row, spelt(limits.lowest - limits.step));
    if (limits.step > 1) refuses(row, spelt(limits.lowest + 1));
    if (limits.unlimited) {
      takes(row, spelt(-1));
    } else {
      refuses(row, spelt(-1));
    }
  }
}

TEST(Values, OfEveryKeyHaveItsType) {
  const std::vector<std::string> everything{"true", "7",  "\"no value of any key\"", "[true]", "{\"x\": 1}",
                                            "null", "1.5"};
  for (const Key& row : keys) {
    for (const std::string& text : everything) {
      const bool fits = (row.kind == Kind::flag && text == "true") || (row.kind == Kind::text && text[0] == '"') ||
                        (row.kind == Kind::number && text == "7" && row.limits.lowest <= 7 && row.limits.step == 1 &&
                         row.limits.highest >= 7);
      if (fits) {
        takes(row, text);
      } else {
        refuses(row, text);
      }
    }
  }
}

TEST(Values, OfEveryFlagAreTrueAndFalseAndNoWord) {
  for (const Key& row : keys) {
    if (row.kind != Kind::flag) continue;
    takes(row, "true");
    takes(row, "false");
    for (const char* text : {"1", "0", "\"true\"", "\"\"", "[]"}) refuses(row, text);
  }
}

TEST(Values, OfEveryChoiceAreItsWords) {
  for (const Key& row : keys) {
    if (row.kind != Kind::choice && row.kind != Kind::choices) continue;
    const bool list = row.kind == Kind::choices;
    std::string rest(row.choices);
    while (!rest.empty()) {
      const auto end = std::min(rest.find('|'), rest.size());
      const std::string word = "\"" + rest.substr(0, end) + "\"";
      rest.erase(0, end + 1);
      takes(row, list ? "[" + word + "]" : word);
      if (list) refuses(row, "[" + word + ", " + word + "]");
    }
    refuses(row, list ? "[\"other\"]" : "\"other\"");
    if (!list && row.standard != "\"\"") refuses(row, "\"\"");
  }
}

TEST(Values, OfLinksAreTwoWordsAndListsOfOrdinals) {
  const Key& row = keys[key_at("sluice.links")];
  for (const char* text : {"\"own\"", "\"lend\"", "\"0\"", "\"0,2\"", "\"10,1,63\""}) takes(row, text);
  for (const char* text : {"\"abc\"", "\"\"", "\",\"", "\"0,\"", "\",0\"", "\"0,,2\"", "\"0 2\"", "\"-1\"", "\"own,1\"",
                           "0", "\"64\"", "\"0,64\"", "\"99999999999999999999\"", "\"0,99999999999999999999\""}) {
    refuses(row, text);
  }
}

TEST(Values, OfNumbersAreWholeAndFitInto64Bits) {
  for (const char* text : {"1.0", "1e2", "99999999999999999999999", "-99999999999999999999999", "\"4\""}) {
    refuses(key("execution.max_io_threads"), text);
  }
}

TEST(Values, OfHexadecimalKeysHaveUpTo32Bits) {
  for (const char* text : {"\"0xffffffff\"", "\"0x0\"", "\"1F\"", "\"0XAB\""})
    takes(key("properties.rdma_dc_key"), text);
  for (const char* text : {"\"0x100000000\"", "\"0x\"", "\"\"", "\"0xfg\"", "\"-1\"", "\"0x00000000f\"", "255"}) {
    refuses(key("properties.rdma_dc_key"), text);
  }
}

TEST(Values, OfAddressListsAreIPv4) {
  takes(key("properties.rdma_dev_addr_list"), R"(["10.0.0.1", "192.168.255.255"])");
  for (const char* text : {R"(["10.0.0"])", R"(["mlx5_0"])", R"([""])", R"(["::1"])", R"(["10.0.0.256"])", R"([7])",
                           R"(["10.0.0.1\u0000"])", R"("10.0.0.1")"}) {
    refuses(key("properties.rdma_dev_addr_list"), text);
  }
}

TEST(Values, OfMountTablesAreMountPointsWithAddresses) {
  const Key& table = key("fs.gpfs.mount_table");
  takes(table, "{}");
  takes(table, R"({"/a": {"rdma_dev_addr_list": ["10.0.0.1"]}, "/b c": {"rdma_dev_addr_list": []}})");
  for (const char* text : {R"({"a": {"rdma_dev_addr_list": []}})", R"({"/a": []})", R"({"/a": {"addresses": []}})",
                           R"({"/a": {"rdma_dev_addr_list": "10.0.0.1"}})", R"({"/a": {"rdma_dev_addr_list": ["x"]}})",
                           R"({"": {}})", R"(["/a"])"}) {
    refuses(table, text);
  }
}

TEST(Values, WithBytesOfZeroAreNoTexts) {
  refuses(key("logging.dir"), R"("/tmp\u0000/x")");
  refuses(key("denylist.mounts"), R"(["/tmp\u0000"])");
}

TEST(LogLevels, AreKnownInAnyCaseAndNothingElseIs) {
  EXPECT_EQ(parse_log_level("trace"), LogLevel::trace);
  EXPECT_EQ(parse_log_level("Notice"), LogLevel::notice);
  EXPECT_EQ(parse_log_level("TRACES"), std::nullopt);
  EXPECT_EQ(parse_log_level(""), std::nullopt);
}

TEST(LogLevels, CountAlongNvidiasListOfNames) {
  const Key& level = key("logging.level");
  const char* names[] = {"NOTICE", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"};
  for (int i = 0; i < 6; ++i) {
    for (const std::string& text : {std::to_string(i), "\"" + std::to_string(i) + "\""}) {
      const auto value = read(level, text);
      ASSERT_TRUE(std::holds_alternative<Value>(value)) << text;
      EXPECT_EQ(std::get<std::string>(std::get<Value>(value)), names[i]) << text;
    }
  }
  for (const char* text : {"6", "-1", "2.0", "\"LOUD\"", "true", "[]"}) refuses(level, text);
}

TEST(Words, OfTheEnvironmentAreReadByTheKindOfTheKey) {
  const auto value = [](std::string_view name, std::string_view word) -> std::string {
    const auto read = read_word(key(name), word);
    return std::holds_alternative<Value>(read) ? to_json(std::get<Value>(read)) : "";
  };
  for (const char* yes : {"1", "true", "YES", "On"}) EXPECT_EQ(value("sluice.verify", yes), "true") << yes;
  for (const char* no : {"0", "False", "no", "OFF"}) EXPECT_EQ(value("sluice.verify", no), "false") << no;
  for (const char* other : {"2", "", "maybe", " 1"}) EXPECT_EQ(value("sluice.verify", other), "") << other;
  EXPECT_EQ(value("logging.max_file_size_mb", "-1"), "-1");
  EXPECT_EQ(value("logging.max_file_size_mb", "4097"), "");
  EXPECT_EQ(value("logging.max_file_size_mb", "12 "), "");
  EXPECT_EQ(value("logging.level", "5"), "\"TRACE\"");
  EXPECT_EQ(value("properties.rdma_dc_key", "0x12345678"), "\"0x12345678\"");
  EXPECT_EQ(value("properties.io_priority", "high"), "\"high\"");
  EXPECT_EQ(value("properties.io_priority", "HIGHEST"), "");
}

TEST(StockValues, AreThoseOfEveryReleasesFile) {
  EXPECT_TRUE(is_stock(key("properties.max_direct_io_size_kb"), std::int64_t{16384}));
  EXPECT_TRUE(is_stock(key("properties.max_direct_io_size_kb"), std::int64_t{1024}));
  EXPECT_FALSE(is_stock(key("properties.max_direct_io_size_kb"), std::int64_t{2048}));
  EXPECT_TRUE(is_stock(key("fs.gpfs.gds_write_support"), true));
  EXPECT_FALSE(is_stock(key("properties.allow_compat_mode"), false));
}

TEST(Kinds, AreDescribedForPeople) {
  EXPECT_EQ(describe_kind(key("profile.nvtx")), "true or false");
  EXPECT_EQ(describe_kind(key("execution.max_io_threads")), "a whole number, 0 to 32");
  EXPECT_EQ(describe_kind(key("logging.max_file_size_mb")), "a whole number, 1 to 4096, or -1 for no limit");
  EXPECT_EQ(describe_kind(key("properties.max_direct_io_size_kb")), "a whole number, 64 to 16384 in steps of 64");
  EXPECT_EQ(describe_kind(key("sluice.mode")), "auto or plain");
}

}  // namespace
}  // namespace sluice::config
