// SPDX-License-Identifier: Apache-2.0
#include "core/mount_options.h"

#include <fmt/format.h>
#include <sys/mount.h>

#include <array>
#include <utility>

#include "core/refusal.h"

namespace sluice::csi {
namespace {

struct MountWord {
  std::string_view word;
  unsigned long set;
  unsigned long clear;
};

constexpr std::array<MountWord, 14> mount_words = {{{"noatime", MS_NOATIME, MS_RELATIME | MS_STRICTATIME},
                                                    {"nodiratime", MS_NODIRATIME, 0},
                                                    {"relatime", MS_RELATIME, MS_NOATIME},
                                                    {"strictatime", MS_STRICTATIME, MS_NOATIME | MS_RELATIME},
                                                    {"ro", MS_RDONLY, 0},
                                                    {"rw", 0, MS_RDONLY},
                                                    {"nodev", MS_NODEV, 0},
                                                    {"nosuid", MS_NOSUID, 0},
                                                    {"noexec", MS_NOEXEC, 0},
                                                    {"exec", 0, MS_NOEXEC},
                                                    {"defaults", 0, 0},
                                                    {"sync", MS_SYNCHRONOUS, 0},
                                                    {"async", 0, MS_SYNCHRONOUS},
                                                    {"lazytime", MS_LAZYTIME, 0}}};

constexpr std::array<std::string_view, 20> xfs_words = {"allocsize",  "discard",     "nodiscard", "inode32", "inode64",
                                                        "largeio",    "nolargeio",   "logbsize",  "logbufs", "swalloc",
                                                        "sunit",      "swidth",      "noalign",   "wsync",   "nouuid",
                                                        "norecovery", "filestreams", "attr2",     "noattr2", "ikeep"};
constexpr std::array<std::string_view, 17> ext4_words = {
    "data",         "commit",         "delalloc",       "nodelalloc",
    "discard",      "nodiscard",      "stripe",         "journal_async_commit",
    "errors",       "max_batch_time", "min_batch_time", "journal_checksum",
    "init_itable",  "noinit_itable",  "dioread_lock",   "dioread_nolock",
    "auto_da_alloc"};

std::string_view name_in(std::string_view option) {
  return option.substr(0, option.find('='));
}

template <typename List>
bool is_in(const List& list, std::string_view word) {
  for (const std::string_view each : list) {
    if (each == word) return true;
  }
  return false;
}

// "" when the option is not one of these.
std::string why_left_out(std::string_view fs_type, std::string_view option) {
  if (fs_type == "xfs" && (option == "nobarrier" || option == "barrier")) {
    return fmt::format(
        "Mount option {} is left out: xfs has had no such option since Linux 4.19, and flushes a drive only "
        "where it has a volatile cache.",
        option);
  }
  if (option == "nofail" || option == "_netdev" || option == "auto" || option == "noauto") {
    return fmt::format("Mount option {} is left out: it is for /etc/fstab.", option);
  }
  return {};
}

void refuse_what_loses_data(std::string_view fs_type, std::string_view option) {
  if (fs_type == "ext4" && (option == "nobarrier" || option == "barrier=0")) {
    refuse(Code::invalid_argument,
           "Mount option nobarrier makes ext4 lose data when the power fails. Take it out: a drive without a volatile "
           "cache "
           "is not flushed anyway.");
  }
  if (option == "data=journal") {
    refuse(Code::invalid_argument,
           "Mount option data=journal switches direct I/O off, and with it the direct path. Use data=ordered.");
  }
}

bool take_mount_word(std::string_view option, MountPlan& plan) {
  for (const MountWord& each : mount_words) {
    if (each.word != option) continue;
    plan.flags = (plan.flags & ~each.clear) | each.set;
    return true;
  }
  return false;
}

void take(std::string_view fs_type, std::string_view option, FileSystemOf whose, MountPlan& plan) {
  if (take_mount_word(option, plan)) return;
  refuse_what_loses_data(fs_type, option);
  if (std::string note = why_left_out(fs_type, option); !note.empty()) {
    plan.notes.push_back(std::move(note));
    return;
  }
  const bool known = fs_type == "ext4" ? is_in(ext4_words, name_in(option)) : is_in(xfs_words, name_in(option));
  // kubelet gives context= where the driver's object says seLinuxMount.
  const bool label = name_in(option) == "context" && whose == FileSystemOf::volume;
  if (!known && !label) {
    refuse(Code::invalid_argument,
           fmt::format("{}: Unknown parameter '{}'. Take it out of the mount options.", fs_type, name_in(option)));
  }
  if (whose == FileSystemOf::pool) {
    plan.notes.push_back(
        fmt::format("Mount option {} is left out: the volume is a directory, and its file system is mounted "
                    "with the pool's options.",
                    option));
    return;
  }
  plan.data += (plan.data.empty() ? "" : ",") + std::string(option);
}

}  // namespace

MountPlan plan_mount(std::string_view fs_type, const std::vector<std::string>& options, FileSystemOf whose) {
  MountPlan plan;
  plan.flags = MS_NODEV | MS_NOSUID;
  for (const std::string& given : options) {
    for (std::string_view rest = given; !rest.empty();) {
      const std::size_t comma = rest.find(',');
      const std::string_view option = rest.substr(0, comma);
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
      if (!option.empty()) take(fs_type, option, whose, plan);
    }
  }
  // NVIDIA's library reads data=ordered from the table of mounts, where it stands only if it was said.
  if (fs_type == "ext4" && plan.data.find("data=") == std::string::npos) {
    plan.data += plan.data.empty() ? "data=ordered" : ",data=ordered";
  }
  return plan;
}

std::vector<std::string> not_in_effect(const MountPlan& plan, std::string_view shown_options) {
  const std::string shown = "," + std::string(shown_options) + ",";
  std::vector<std::string> missing;
  for (std::string_view rest = plan.data; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view option = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    // Sizes are shown in other units than they were given in: the name is compared, and the value where it is a word.
    const bool number = option.find_first_of("0123456789", name_in(option).size()) != std::string_view::npos;
    const std::string wanted = "," + std::string(number ? name_in(option) : option);
    const bool silent =
        option == "nouuid" || option == "delalloc" || option == "nodiscard" || option == "auto_da_alloc";
    if (!silent && shown.find(wanted) == std::string::npos) missing.emplace_back(option);
  }
  return missing;
}

}  // namespace sluice::csi
