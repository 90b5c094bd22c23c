// SPDX-License-Identifier: Apache-2.0
// `.gdsio` files: sections in brackets, key=value, comments behind '#'.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <system_error>

#include "common/error.h"
#include "common/text.h"
#include "gdsio/command_line.h"

namespace sluice::tools {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

struct GlobalKey {
  std::string_view name;
  void (*set)(Settings&, std::string_view spelled, std::string_view value);
};

using Spelled = std::string_view;
constexpr std::array global_keys = {
    GlobalKey{"name", [](Settings&, Spelled, Spelled) {}},
    GlobalKey{"xfer_type", [](Settings& s, Spelled key, Spelled value) { s.transfer = transfer_of(key, value); }},
    GlobalKey{"rw", [](Settings& s, Spelled key, Spelled value) { s.operation = operation_of(key, value); }},
    GlobalKey{"bs", [](Settings& s, Spelled key, Spelled value) { s.sizes = sizes_of(key, value); }},
    GlobalKey{"io_size", [](Settings& s, Spelled key, Spelled value) { s.sizes = sizes_of(key, value); }},
    GlobalKey{"size", [](Settings& s, Spelled key, Spelled value) { s.size = size_option(key, value); }},
    GlobalKey{"start_offset", [](Settings& s, Spelled key, Spelled value) { s.offset = size_option(key, value); }},
    GlobalKey{"runtime",
              [](Settings& s, Spelled key, Spelled value) {
                s.seconds = value == "0" ? std::nullopt : std::optional(seconds_of(key, value));
              }},
    GlobalKey{"do_verify", [](Settings& s, Spelled key, Spelled value) { s.verify = yes_or_no(key, value); }},
    GlobalKey{"skip_bufregister",
              [](Settings& s, Spelled key, Spelled value) { s.registers = !yes_or_no(key, value); }},
    GlobalKey{"enable_nvlinks",
              [](Settings& s, Spelled key, Spelled value) { s.reach_others = yes_or_no(key, value); }},
    GlobalKey{"random_seed", [](Settings& s, Spelled key, Spelled value) { s.seed = number_of(key, value, seeds); }},
    GlobalKey{"refill_buffer", [](Settings& s, Spelled key, Spelled value) { s.refill = yes_or_no(key, value); }},
    GlobalKey{"fill_random", [](Settings& s, Spelled key, Spelled value) { s.random_fill = yes_or_no(key, value); }},
    GlobalKey{"unaligned_random", [](Settings& s, Spelled key, Spelled value) { s.unaligned = yes_or_no(key, value); }},
    GlobalKey{"per_job_stats", [](Settings& s, Spelled key, Spelled value) { s.a_line_a_job = yes_or_no(key, value); }},
    GlobalKey{"mem_type", [](Settings& s, Spelled key, Spelled value) { s.memory = memory_of(key, value); }},
    GlobalKey{"fd_type",
              [](Settings& s, Spelled key, Spelled value) { s.buffered = number_of(key, value, open_kinds) == 1; }},
    GlobalKey{"batch_size", [](Settings& s, Spelled key,
                               Spelled value) { s.batch = static_cast<unsigned>(number_of(key, value, batch_sizes)); }},
};

struct JobKey {
  std::string_view name;
  void (*set)(JobSettings&, std::string_view spelled, std::string_view value);
};

constexpr std::array job_keys = {
    JobKey{"numa_node", [](JobSettings& job, Spelled key,
                           Spelled value) { job.node = static_cast<int>(number_of(key, value, node_numbers)); }},
    JobKey{"gpu_dev_id", [](JobSettings& job, Spelled key,
                            Spelled value) { job.gpu = static_cast<int>(number_of(key, value, gpu_numbers)); }},
    JobKey{"num_threads",
           [](JobSettings& job, Spelled key, Spelled value) {
             job.threads = static_cast<unsigned>(number_of(key, value, thread_counts));
           }},
    JobKey{"directory", [](JobSettings& job, Spelled, Spelled value) { job.folder = value; }},
    JobKey{"filename", [](JobSettings& job, Spelled, Spelled value) { job.file = value; }},
    JobKey{"size", [](JobSettings& job, Spelled key, Spelled value) { job.size = size_option(key, value); }},
    JobKey{"start_offset", [](JobSettings& job, Spelled key, Spelled value) { job.offset = size_option(key, value); }},
};

// One file while it is read.
class Reading {
 public:
  explicit Reading(const std::string& path) : path_(path) {}

  void line(std::string_view text) {
    ++number_;
    text = trimmed(text.substr(0, text.find('#')));
    if (text.empty()) return;
    if (text.front() == '[') return begin_section(text);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) fail("neither a section nor key=value");
    assign(trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)));
  }

  Settings finish() {
    if (settings_.jobs.empty()) {
      throw ToolError(fmt::format("{} has no job.", printable(path_)),
                      "Add one: [job1], and below it directory=FOLDER or filename=FILE.", 2);
    }
    return std::move(settings_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw ToolError(fmt::format("{}:{}: {}.", printable(path_), number_, what),
                    "A configuration has [global] and [job1], [job2], ...; docs/reference/tools.md lists the keys.", 2);
  }

  void begin_section(std::string_view text) {
    if (text.back() != ']') fail("a section ends with ]");
    const std::string_view name = trimmed(text.substr(1, text.size() - 2));
    in_global_ = name == "global";
    begun_ = true;
    if (in_global_) return;
    settings_.jobs.emplace_back();
    settings_.jobs.back().name = name;
  }

  void assign(std::string_view key, std::string_view value) {
    if (!begun_) fail("a key stands before the first section");
    const std::string spelled = fmt::format("{}:{}: {}", printable(path_), number_, key);
    const auto set_in = [&](const auto& keys, auto& into) {
      for (const auto& known : keys) {
        if (known.name != key) continue;
        known.set(into, spelled, value);
        return true;
      }
      return false;
    };
    if (in_global_ ? set_in(global_keys, settings_) : set_in(job_keys, settings_.jobs.back())) return;
    fail(fmt::format("[{}] has no key \"{}\"", in_global_ ? "global" : settings_.jobs.back().name, printable(key)));
  }

  std::string path_;
  int number_ = 0;
  bool begun_ = false;
  bool in_global_ = false;
  Settings settings_;
};

}  // namespace

Settings read_configuration(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw ToolError(fmt::format("{} is a folder, not a configuration.", printable(path)),
                    fmt::format("Use -D for a folder: gdsio -D {} -d 0 -w 4 -s 1G -i 1M -x 0 -I 1", printable(path)),
                    2);
  }
  std::ifstream file(path);
  if (!file) {
    throw ToolError(fmt::format("{} cannot be read: {}.", printable(path), system_words(errno)),
                    "Use: gdsio FILE.gdsio, or: gdsio -f FILE -d 0 -w 4 -s 1G -i 1M -x 0 -I 0", 2);
  }
  Reading reading(path);
  for (std::string text; std::getline(file, text);) reading.line(text);
  return reading.finish();
}

}  // namespace sluice::tools
