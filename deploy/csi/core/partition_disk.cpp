// SPDX-License-Identifier: Apache-2.0
#include "core/partition_disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

#include "core/bytes.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

// The type of this driver's partitions: 7c1d5a0e-9b34-4f6e-8a52-51c0de5a11ce, in the order of a table's bytes.
constexpr Guid own_type = {0x0e, 0x5a, 0x1d, 0x7c, 0x34, 0x9b, 0x6e, 0x4f,
                           0x8a, 0x52, 0x51, 0xc0, 0xde, 0x5a, 0x11, 0xce};

std::string read_at(const void* drive, std::uint64_t offset, std::size_t bytes) {
  std::string buffer(bytes, '\0');
  const ssize_t got = pread(*static_cast<const int*>(drive), buffer.data(), bytes, static_cast<off_t>(offset));
  buffer.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return buffer;
}

BlockDevice want_whole_drive(const std::string& path) {
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  const std::optional<BlockDevice> device = error ? std::nullopt : block_device_at(real);
  if (!device) {
    refuse(Code::failed_precondition,
           path + " is no block device. Name a drive as it is in /dev, and mount the host's /dev in this container.");
  }
  const std::string folder = "/sys/class/block/" + device->name;
  if (facts::exists(folder + "/dm")) {
    refuse(Code::failed_precondition,
           path + " is a device-mapper target, which refuses transfers into GPU memory. Name the drive below it.");
  }
  if (facts::exists(folder + "/partition")) {
    refuse(Code::failed_precondition, path + " is a partition itself. Name the whole drive.");
  }
  return *device;
}

void call_blkpg(int fd, int operation, const GptEntry& entry, const Extent& extent) {
  blkpg_partition partition{};
  partition.start = extent.begin;
  partition.length = extent.bytes();
  partition.pno = static_cast<int>(entry.number);
  blkpg_ioctl_arg argument{};
  argument.op = operation;
  argument.datalen = sizeof partition;
  argument.data = &partition;
  if (ioctl(fd, BLKPG, &argument) == 0) return;
  const int why = errno;
  if (operation == BLKPG_DEL_PARTITION && (why == ENXIO || why == ENODEV)) return;
  if (why == EBUSY && operation == BLKPG_DEL_PARTITION) {
    refuse(Code::failed_precondition,
           fmt::format("Partition {} is in use. End what uses it; the next call tries again.", entry.name));
  }
  refuse_errno(fmt::format("telling the kernel of partition {}", entry.name), why);
}

}  // namespace

PartitionDisk::PartitionDisk(const std::string& path)
    : device_(want_whole_drive(path)), file_(open(device_.path.c_str(), O_RDWR | O_CLOEXEC)) {
  if (!file_) refuse_errno("opening " + path, errno);
  read_or_make_table();
  for (const GptEntry& each : gpt_.entries) tell_kernel(each);
}

void PartitionDisk::read_or_make_table() {
  int block = 0;
  if (ioctl(file_.get(), BLKSSZGET, &block) != 0) refuse_errno("asking for the blocks of " + device_.path, errno);
  const auto blocks = static_cast<std::uint64_t>(bytes_of(device_)) / static_cast<std::uint64_t>(block);
  const int fd = file_.get();
  if (const std::optional<Gpt> gpt = read_gpt(&fd, read_at, static_cast<std::uint32_t>(block), blocks)) {
    for (const GptEntry& each : gpt->entries) {
      if (each.type == own_type) continue;
      refuse(Code::failed_precondition,
             fmt::format(
                 "{} has a partition \"{}\" that is not this driver's. A drive of backend partition is this driver's "
                 "alone: take another one, or wipe it if that can go.",
                 device_.path, each.name));
    }
    gpt_ = *gpt;
    return;
  }
  const std::string content = content_of(device_);
  if (!content.empty()) {
    refuse(Code::failed_precondition,
           fmt::format("{} holds {}. It is not written over: wipe it first if that can go.", device_.path, content));
  }
  if (blocks * static_cast<std::uint64_t>(block) < 4 * static_cast<std::uint64_t>(mebibyte))
    refuse(Code::failed_precondition, device_.path + " is smaller than 4 MiB. Take a larger drive.");
  write_table(new_gpt(static_cast<std::uint32_t>(block), blocks));
}

std::string PartitionDisk::id() const {
  return fmt::format("{:02x}{:02x}{:02x}{:02x}", gpt_.disk[3], gpt_.disk[2], gpt_.disk[1], gpt_.disk[0]);
}

void PartitionDisk::write_table(const Gpt& gpt) {
  for (const GptPiece& each : pieces_of(gpt)) {
    const ssize_t written = pwrite(file_.get(), each.bytes.data(), each.bytes.size(), static_cast<off_t>(each.offset));
    if (written != static_cast<ssize_t>(each.bytes.size()))
      refuse_errno("writing the partition table of " + device_.path, written < 0 ? errno : EIO);
    // One copy is whole on the drive before the other one changes.
    if (fsync(file_.get()) != 0) refuse_errno("writing the partition table of " + device_.path, errno);
  }
  const int fd = file_.get();
  const std::optional<Gpt> read = read_gpt(&fd, read_at, gpt.block, gpt.blocks);
  if (!read)
    refuse(Code::internal, device_.path + " does not give back the partition table that was written. See dmesg.");
  gpt_ = *read;
}

void PartitionDisk::tell_kernel(const GptEntry& entry) const {
  const Extent extent = gpt_.extent_of(entry);
  const std::optional<BlockDevice> known = node_of(entry);
  if (!known) {
    call_blkpg(file_.get(), BLKPG_ADD_PARTITION, entry, extent);
  } else if (bytes_of(*known) != extent.bytes()) {
    call_blkpg(file_.get(), BLKPG_RESIZE_PARTITION, entry, extent);
  }
}

GptEntry PartitionDisk::add(const std::string& name, const Extent& extent) {
  Gpt next = gpt_;
  const std::optional<std::uint32_t> number = next.free_number();
  if (!number) {
    refuse(
        Code::resource_exhausted,
        device_.path + " has 128 partitions, and a table has room for no more. Remove volumes, or use another node.");
  }
  GptEntry entry;
  entry.number = *number;
  entry.first = static_cast<std::uint64_t>(extent.begin) / next.block;
  entry.last = static_cast<std::uint64_t>(extent.end) / next.block - 1;
  entry.name = name;
  entry.type = own_type;
  next.entries.push_back(entry);
  write_table(next);
  tell_kernel(entry);
  return entry;
}

void PartitionDisk::grow(const std::string& name, std::int64_t bytes) {
  Gpt next = gpt_;
  for (GptEntry& each : next.entries) {
    if (each.name == name) each.last = each.first + (static_cast<std::uint64_t>(bytes) / next.block) - 1;
  }
  write_table(next);
  tell_kernel(*gpt_.find(name));
}

void PartitionDisk::remove(const std::string& name) {
  const GptEntry* const entry = gpt_.find(name);
  if (entry == nullptr) return;
  // The kernel first: it refuses one that is in use.
  call_blkpg(file_.get(), BLKPG_DEL_PARTITION, *entry, {});
  Gpt next = gpt_;
  std::erase_if(next.entries, [&](const GptEntry& each) { return each.name == name; });
  write_table(next);
}

std::optional<BlockDevice> PartitionDisk::node_of(const GptEntry& entry) const {
  const bool digit = std::isdigit(static_cast<unsigned char>(device_.path.back())) != 0;
  const std::string between = digit ? "p" : "";
  const std::string name = fmt::format("{}{}{}", device_.name, between, entry.number);
  if (!facts::exists("/sys/class/block/" + name)) return std::nullopt;
  const std::string path = fmt::format("{}{}{}", device_.path, between, entry.number);
  // The kernel knows it; its node comes a moment later where udev makes it.
  constexpr int attempts = 100;
  for (int i = 0; i < attempts; ++i) {
    if (std::optional<BlockDevice> device = block_device_at(path)) return device;
    const timespec pause = {0, 20'000'000};
    nanosleep(&pause, nullptr);
  }
  return std::nullopt;
}

void PartitionDisk::write_zeroes(const Extent& extent) {
  std::uint64_t range[2] = {static_cast<std::uint64_t>(extent.begin), static_cast<std::uint64_t>(extent.bytes())};
  if (ioctl(file_.get(), BLKZEROOUT, range) != 0) refuse_errno("writing zeroes to " + device_.path, errno);
  constexpr std::int64_t sample = 4096;
  const std::int64_t middle = (extent.begin + (extent.bytes() / 2)) / sample * sample;
  const int fd = file_.get();
  for (const std::int64_t at : {extent.begin, middle, extent.end - sample}) {
    const std::string bytes = read_at(&fd, static_cast<std::uint64_t>(at), sample);
    if (bytes.size() == sample && bytes.find_first_not_of('\0') == std::string::npos) continue;
    refuse(Code::internal, fmt::format("{} says that zeroes were written, and holds others at {}. Replace the drive.",
                                       device_.path, at));
  }
}

}  // namespace sluice::csi
