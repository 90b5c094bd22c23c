// SPDX-License-Identifier: Apache-2.0
// The witness cannot speak for a process that is killed or leaves by _exit after it has opened one more libcufile;
// the maps, read now and then, can.
#include "sluice/testimony.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "common/text.h"

namespace sluice::tools {
namespace {

constexpr std::size_t most_processes = 4096;  // of one look

// The same question that the witness asks, of a path in /proc/PID/maps.
bool is_libcufile(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  constexpr std::string_view stem = "libcufile";
  return name.starts_with(stem) && name.size() > stem.size() &&
         (name[stem.size()] == '.' || name[stem.size()] == '-') && name.find(".so") != std::string_view::npos;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  std::error_code error;
  const auto tasks = std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), error);
  if (error) return found;
  for (auto task = begin(tasks); task != end(tasks); task.increment(error)) {
    std::ifstream file(task->path() / "children");
    for (pid_t child = 0; file >> child;) found.push_back(child);
    if (error) break;
  }
  return found;
}

// One value after "use PATH REASON": a missing one reads as 0.
std::uint64_t next_number(std::istringstream& words) {
  std::uint64_t value = 0;
  words >> value;
  return value;
}

std::string count_of(std::size_t count, std::string_view singular, std::string_view plural) {
  return fmt::format("{} {}", count, count == 1 ? singular : plural);
}

// "1 read of 4.0 KiB", "3 reads of 12.0 KiB in all"
std::string transfers(std::uint64_t count, std::string_view what, std::uint64_t bytes) {
  return fmt::format("{} {}{} of {}{}", count, what, count == 1 ? "" : "s", format_bytes(bytes),
                     count == 1 ? "" : " in all");
}

}  // namespace

void Testimony::note_mapping(pid_t pid, std::string_view path) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(path, error);
  mapped_[error ? std::string(path) : canonical.string()].insert(pid);
}

void Testimony::hear(pid_t pid, std::string_view message) {
  unfinished_.insert(pid);
  std::istringstream lines{std::string(message)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("map ")) {
      note_mapping(pid, std::string_view(line).substr(4));
    } else if (line.starts_with("use ")) {
      std::istringstream words(line.substr(4));
      std::string path;
      std::string reason;
      words >> path >> reason;
      Traffic& sum = traffic_[fmt::format("{} ({})", path, reason)];
      sum.reads += next_number(words);
      sum.read_bytes += next_number(words);
      sum.writes += next_number(words);
      sum.written_bytes += next_number(words);
    } else if (line == "end") {
      unfinished_.erase(pid);
    }
  }
}

void Testimony::look_at(pid_t root) {
  std::vector<pid_t> open = {root};
  for (std::size_t i = 0; i < open.size() && i < most_processes; ++i) {
    std::ifstream maps(fmt::format("/proc/{}/maps", open[i]));
    for (std::string line; std::getline(maps, line);) {
      const std::size_t slash = line.find('/');
      if (slash != std::string::npos && is_libcufile(std::string_view(line).substr(slash))) {
        note_mapping(open[i], std::string_view(line).substr(slash));
      }
    }
    for (const pid_t child : children_of(open[i])) open.push_back(child);
  }
}

std::string Testimony::traffic_words() const {
  Traffic total;
  std::string ways;
  for (const auto& [way, sum] : traffic_) {
    if (sum.reads + sum.writes == 0) continue;
    total.reads += sum.reads;
    total.read_bytes += sum.read_bytes;
    total.writes += sum.writes;
    total.written_bytes += sum.written_bytes;
    ways += (ways.empty() ? "" : ", ") + printable(way);
  }
  const std::string_view bound = unfinished_.empty() ? "" : "at least ";
  if (total.reads + total.writes == 0) return unfinished_.empty() ? "; no I/O through it" : "";
  std::string words;
  if (total.reads > 0) words += fmt::format("; {}{}", bound, transfers(total.reads, "read", total.read_bytes));
  if (total.writes > 0) {
    words += fmt::format("{} {}{}", total.reads > 0 ? " and" : ";", bound,
                         transfers(total.writes, "write", total.written_bytes));
  }
  return words + " by " + ways;
}

std::vector<std::string> Testimony::lines(const std::string& program, const std::string& absence) const {
  std::vector<std::string> result;
  if (const auto own = mapped_.find(own_library_); own != mapped_.end()) {
    const std::string processes =
        own->second.size() > 1 ? fmt::format(" in {} processes", own->second.size()) : std::string();
    result.push_back(
        fmt::format("{} mapped {}{} (Sluice){}.", printable(program), own_library_, processes, traffic_words()));
  } else {
    result.push_back(fmt::format("{} mapped no libcufile of Sluice: {}", printable(program), absence));
  }
  for (const auto& [path, processes] : mapped_) {
    if (path == own_library_) continue;
    result.push_back(
        fmt::format("warning: {} also mapped {}, which is not Sluice; calls that it makes there are not ours. It was "
                    "opened by a path of its own: rename or replace that file to be sure.",
                    count_of(processes.size(), "process", "processes"), printable(path)));
  }
  return result;
}

}  // namespace sluice::tools
