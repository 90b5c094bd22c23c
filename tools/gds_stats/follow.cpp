// SPDX-License-Identifier: Apache-2.0
#include "gds_stats/follow.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <span>

#include "common/error.h"

namespace sluice::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes told_after_the_end(5);
constexpr unsigned longest_wait = 4;
constexpr unsigned longest_wait_of_unreadable = 64;

void raise(std::span<std::uint64_t> total, std::span<const std::uint64_t> more) {
  for (std::size_t i = 0; i < total.size() && i < more.size(); ++i) {
    total[i] = plus(total[i], more[i]);
  }
}

std::span<std::uint64_t> words_of(sluice_stats_shard& shard) {
  return {reinterpret_cast<std::uint64_t*>(&shard), sizeof shard / sizeof(std::uint64_t)};
}

// At most 4 KiB of a file in /proc.
std::string beginning_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(4096, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

// When the process began, in the kernel's ticks: with its number it names it for good. 0 when it is gone.
std::uint64_t start_of(pid_t pid) {
  const std::string text = beginning_of(fmt::format("/proc/{}/stat", pid));
  std::size_t at = text.rfind(')');  // a name may hold anything, and ends with the last one
  if (at == text.npos) return 0;
  for (int field = 2; field < 22; ++field) {
    at = text.find(' ', at + 1);
    if (at == text.npos) return 0;
  }
  std::uint64_t ticks = 0;
  std::from_chars(text.data() + at + 1, text.data() + text.size(), ticks);
  return ticks;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  DIR* const folder = ::opendir("/proc");
  if (folder == nullptr) return found;
  while (const dirent* entry = ::readdir(folder)) {
    pid_t pid = 0;
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, end, pid).ptr == end && pid > 0) found.push_back(pid);
  }
  ::closedir(folder);
  return found;
}

bool is_hexadecimal(char letter) {
  return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f');
}

// What is no counter holds no more.
void let_gauges_end(Sample& sample) {
  sample.running = false;
  sample.under_way = {};
  sample.bytes_under_way = {};
  sample.registered_host_bytes = 0;
  sample.registered_bytes = {};
}

}  // namespace

void accumulate(Sample& total, const Sample& now, const Sample& earlier) {
  const Sample more = since(now, earlier, 0);
  raise(words_of(total.sum), {reinterpret_cast<const std::uint64_t*>(&more.sum), words_of(total.sum).size()});
  if (total.latencies.size() < more.latencies.size()) total.latencies.resize(more.latencies.size());
  raise(total.latencies, more.latencies);
  total.seconds += now.seconds >= earlier.seconds ? now.seconds - earlier.seconds : now.seconds;
  if (total.library.empty()) total.library = now.library;
  total.libraries += now.libraries;
  total.level = std::max(total.level, now.level);
  total.running = total.running || now.running;
  for (std::size_t i = 0; i < 2; ++i) {
    total.under_way[i] += now.under_way[i];
    total.bytes_under_way[i] += now.bytes_under_way[i];
    total.last_batch_bytes[i] = std::max(total.last_batch_bytes[i], now.last_batch_bytes[i]);
  }
  total.registered_host_bytes += now.registered_host_bytes;
  for (std::size_t i = 0; i < SLUICE_STATS_DEVICE_COUNT; ++i) {
    total.registered_bytes[i] += now.registered_bytes[i];
    if (std::ranges::all_of(total.uuids[i], [](unsigned char byte) { return byte == 0; })) {
      total.uuids[i] = now.uuids[i];
    }
    if (total.pci[i] == 0) total.pci[i] = now.pci[i];
  }
}

std::string pod_of(std::string_view cgroup) {
  constexpr std::size_t length = 36;
  for (std::size_t at = cgroup.find("pod"); at != cgroup.npos; at = cgroup.find("pod", at + 1)) {
    std::string uid(cgroup.substr(at + 3, length));
    if (uid.size() < length) return {};
    bool fits = true;
    for (std::size_t i = 0; i < length; ++i) {
      const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
      if (dash && uid[i] == '_') uid[i] = '-';
      fits = fits && (dash ? uid[i] == '-' : is_hexadecimal(uid[i]));
    }
    if (fits) return uid;
  }
  return {};
}

FollowedProcess::FollowedProcess(pid_t pid, uid_t owner, std::uint64_t started)
    : process_(pid), owner_(owner), started_(started), pod_(pod_of(beginning_of(process_.path("cgroup")))) {}

void FollowedProcess::open_new(const std::vector<ShownMapping>& mappings) {
  constexpr std::size_t most_regions = 4;
  for (const ShownMapping& mapping : mappings) {
    const auto is_open = [&mapping](const Region& region) { return region.memory.front()->is(mapping); };
    if (regions_.size() >= most_regions || std::ranges::any_of(regions_, is_open)) continue;
    std::unique_ptr<ShownRegion> opened = ShownRegion::open_carefully(process_, mapping);
    if (!opened) continue;
    regions_.emplace_back();
    regions_.back().memory.push_back(std::move(opened));
  }
}

void FollowedProcess::read_all() {
  let_gauges_end(total_);
  total_.libraries = 0;
  total_.level = 0;
  total_.last_batch_bytes = {};
  for (Region& region : regions_) {
    Sample now = take_sample(region.memory);
    accumulate(total_, now, region.last);
    region.last = std::move(now);
  }
}

bool FollowedProcess::look() {
  if (ended_) return true;
  // Read after that, the memory of a process that has ended is as it left it.
  const std::vector<ShownMapping> mappings = process_.has_ended() ? std::vector<ShownMapping>() : find_shown(pid());
  open_new(mappings);
  if (regions_.empty()) return false;
  read_all();
  // What it does not map any more has been read for the last time: another program runs in it, or none.
  std::erase_if(regions_, [&mappings](const Region& region) {
    return std::ranges::none_of(mappings,
                                [&](const ShownMapping& mapping) { return region.memory.front()->is(mapping); });
  });
  if (regions_.empty()) {
    let_gauges_end(total_);
    ended_ = true;
    ended_at_ = Clock::now();
  }
  return true;
}

void FollowedProcess::go_on_from(const FollowedProcess& earlier) {
  accumulate(total_, earlier.total(), {});
}

bool Follower::has_room_for(uid_t owner) const {
  const auto is_its_own = [owner](const auto& process) { return process->owner() == owner; };
  const auto own = static_cast<std::size_t>(std::ranges::count_if(processes_, is_its_own));
  return processes_.size() < most_ && (owner == 0 || own < std::max<std::size_t>(most_ / 2, 1));
}

void Follower::look_later(Other& other, std::uint64_t started, bool unreadable) {
  const bool again = other.started == started && other.unreadable == unreadable;
  const unsigned longest = unreadable ? longest_wait_of_unreadable : longest_wait;
  other = {started, again ? std::min(other.wait * 2 + 1, longest - 1) : 0, 0, unreadable};
  other.left = other.wait;
  if (unreadable) ++unreadable_;
}

void Follower::look_at(pid_t pid) {
  const std::uint64_t started = start_of(pid);
  if (started == 0) return;
  Other& other = others_[pid];
  if (other.started == started && other.left > 0) {
    --other.left;
    if (other.unreadable) ++unreadable_;
    return;
  }
  if (find_shown(pid).empty()) return look_later(other, started, false);
  struct stat status {};
  if (::stat(fmt::format("/proc/{}", pid).c_str(), &status) != 0) return;
  if (!has_room_for(status.st_uid)) {
    ++beyond_limit_;
    return;
  }
  try {
    auto process = std::make_unique<FollowedProcess>(pid, status.st_uid, started);
    if (!process->look()) return look_later(other, started, true);
    others_.erase(pid);
    const auto is_same = [&](const auto& each) { return each->pid() == pid && each->program() == process->program(); };
    if (const auto earlier = std::ranges::find_if(processes_, is_same); earlier != processes_.end()) {
      process->go_on_from(**earlier);
      processes_.erase(earlier);
    }
    processes_.push_back(std::move(process));
  } catch (const ToolError&) {  // it has ended meanwhile
    return;
  }
}

void Follower::look() {
  beyond_limit_ = 0;
  unreadable_ = 0;
  const Clock::time_point now = Clock::now();
  std::erase_if(processes_,
                [now](const auto& each) { return each->has_ended() && now - each->ended_at() > told_after_the_end; });
  for (const auto& process : processes_) process->look();
  std::vector<pid_t> all = all_processes();
  std::ranges::sort(all);
  std::erase_if(others_, [&all](const auto& each) { return !std::ranges::binary_search(all, each.first); });
  for (const pid_t pid : all) {
    const auto is_followed = [pid](const auto& each) { return each->pid() == pid && !each->has_ended(); };
    if (std::ranges::none_of(processes_, is_followed)) look_at(pid);
  }
}

}  // namespace sluice::tools
