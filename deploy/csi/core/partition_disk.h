// SPDX-License-Identifier: Apache-2.0
// A whole drive that is cut into partitions: its table, the kernel's view of it, and zeroes.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "core/block_volume.h"
#include "core/gpt.h"

namespace sluice::csi {

class PartitionDisk {
 public:
  // A blank drive gets a table. One that holds anything but partitions of this driver is refused, and never touched.
  explicit PartitionDisk(const std::string& path);

  const Gpt& table() const { return gpt_; }
  const BlockDevice& device() const { return device_; }
  // Eight hexadecimal digits of the table's own id: the drive's name, wherever it is put in.
  std::string id() const;

  // Each is on the drive, and known to the kernel, when it returns. Repeated after a crash, each is as once.
  GptEntry add(const std::string& name, const Extent& extent);
  void grow(const std::string& name, std::int64_t bytes);
  void remove(const std::string& name);

  // The node of a partition in /dev, once it is there.
  std::optional<BlockDevice> node_of(const GptEntry& entry) const;
  // By the drive's own command where it has one. Refused when other bytes are read afterwards.
  void write_zeroes(const Extent& extent);

 private:
  void read_or_make_table();
  void write_table(const Gpt& gpt);
  void tell_kernel(const GptEntry& entry) const;

  BlockDevice device_;
  base::UniqueFd file_;
  Gpt gpt_;
};

}  // namespace sluice::csi
