// SPDX-License-Identifier: Apache-2.0
// Thousands of damaged configuration files: none crashes, none hangs, and whatever was read lies within its range.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "config/sources.h"

namespace sluice::config {
namespace {

constexpr int files = 6000;

// One of each: comments, escapes, lists, nested tables, aliases, own keys.
constexpr std::string_view seed_file = R"(// a comment
{
  "sluice": {"mode": "plain", "strict": true, "log_file": "/tmp/\u00e4\"x\\.log"},
  "logging": {"level": 2, "max_file_size_mb": -1},
  "nvfs": {"rdma": {"enable": true, "devices": ["mlx5_0"], "max_direct_io_size_kb": 16384}},
  "profile": {"cufile_stats": 3, "io_batchsize": 16},
  "execution": {"max_io_threads": 8, "parallel_io": false},
  "properties": {"posix_pool_slab_size_kb": [4, 1024], "posix_pool_slab_count": [1, 2],
    "gpu_bounce_buffer_slab_config": {"slab_size_kb": [1024, 8192], "slab_count": [4, 2]},
    "rdma_dc_key": "0xffeeddcc", "rdma_dynamic_routing_order": ["P2P", "SYS_MEM"], "io_priority": "high"},
  "fs": {"lustre": {"posix_gds_min_kb": 64, "mount_table": {"/mnt/a": {"rdma_dev_addr_list": ["10.0.0.1"]}}},
         "gpfs": {"rdma_dev_addr_list": ["10.0.0.1"], "mount_table": {"/g": {"rdma_dev_addr_list": []}}}},
  "blacklist": {"drivers": ["loop"], "mounts": ["/mnt/b"]} /* the end */
}
)";

std::uint64_t seed() {
  const char* const given = std::getenv("SLUICE_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261121;
}

class Damage {
 public:
  explicit Damage(std::uint64_t number) : random_(number) {}

  std::string damaged(std::string text) {
    for (std::size_t i = below(8) + 1; i > 0; --i) once(text);
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  void once(std::string& text) {
    static constexpr std::string_view pieces[] = {"{",
                                                  "}",
                                                  "[",
                                                  "]",
                                                  ",",
                                                  ":",
                                                  "\"",
                                                  "\\",
                                                  "\\u",
                                                  "/*",
                                                  "*/",
                                                  "//",
                                                  "null",
                                                  "true",
                                                  "-1",
                                                  "1e9",
                                                  "99999999999999999999",
                                                  "0.5",
                                                  "\"\"",
                                                  "{}",
                                                  "[]",
                                                  "\n",
                                                  "[[[[[[[[[[[[[[[[",
                                                  "{\"a\":",
                                                  "\xff",
                                                  "\x01",
                                                  "\"denylist\"",
                                                  "\"properties\"",
                                                  "\\ud800",
                                                  "0x",
                                                  "-"};
    const std::size_t at = below(text.size());
    switch (below(6)) {
      case 0:
        text.insert(at, pieces[below(std::size(pieces))]);
        break;
      case 1:
        text.erase(at, below(20) + 1);
        break;
      case 2:
        if (!text.empty()) text[at] = static_cast<char>(random_());
        break;
      case 3:
        text.resize(at);
        break;
      case 4:
        text.insert(at, text.substr(below(text.size()), below(200)));
        break;
      default:
        text.replace(at, std::min<std::size_t>(below(8), text.size() - at), pieces[below(std::size(pieces))]);
    }
  }

  std::mt19937_64 random_;
};

// Whatever a file says, each key holds a value that it would accept again.
void expect_sound(const Config& config) {
  for (std::size_t i = 0; i < key_count; ++i) {
    const std::string text = to_json(config.setting(i).value);
    const auto parsed = parse_json(text);
    ASSERT_TRUE(std::holds_alternative<Json>(parsed)) << keys[i].name << ": " << text;
    const auto read = read_value(keys[i], std::get<Json>(parsed));
    ASSERT_TRUE(std::holds_alternative<Value>(read)) << keys[i].name << ": " << text;
    ASSERT_EQ(std::get<Value>(read), config.setting(i).value) << keys[i].name << ": " << text;
  }
  ASSERT_EQ(config.posix_slabs.sizes_kb.size(), config.posix_slabs.counts.size());
  ASSERT_EQ(config.gpu_slabs.sizes_kb.size(), config.gpu_slabs.counts.size());
  for (const Note& note : config.notes) {
    ASSERT_FALSE(note.text.empty());
    ASSERT_EQ(note.text.find('\n'), std::string::npos) << note.text;
  }
}

TEST(Mutations, OfAConfigurationFileNeverCrashAndNeverLeaveTheRanges) {
  const std::uint64_t first = seed();
  RecordProperty("seed", std::to_string(first));
  int usable = 0;
  for (int i = 0; i < files; ++i) {
    SCOPED_TRACE("SLUICE_TEST_SEED=" + std::to_string(first + static_cast<std::uint64_t>(i)));
    const std::string text = Damage(first + static_cast<std::uint64_t>(i)).damaged(std::string(seed_file));
    const Config config = config_of(text);
    usable += config.setting(key_at("execution.max_io_threads")).origin == Origin::file ? 1 : 0;
    expect_sound(config);
    if (HasFatalFailure()) return;
  }
  // Else the damage would test the first lines of the reader only.
  EXPECT_GT(usable, files / 100);
  EXPECT_LT(usable, files);
}

TEST(Mutations, OfEveryLengthAreHandled) {
  for (std::size_t length = 0; length <= seed_file.size(); ++length) {
    const Config config = config_of(std::string(seed_file.substr(0, length)));
    expect_sound(config);
    if (HasFatalFailure()) FAIL() << "at length " << length;
  }
}

TEST(Mutations, WithHugeNamesAndManyKeysAreReadInLittleTime) {
  std::string text = "{\"" + std::string(400000, 'n') + "\": {";
  for (int i = 0; i < 40000; ++i) text += "\"k" + std::to_string(i) + "\": 1, ";
  expect_sound(config_of(text + "\"z\": 1}}"));
  text = "{";
  for (int i = 0; i < 60000; ++i) text += "\"k" + std::to_string(i) + "\": 1, ";
  expect_sound(config_of(text + "\"z\": 1}"));
}

}  // namespace
}  // namespace sluice::config
