// SPDX-License-Identifier: Apache-2.0
// A drive for a test: a loop device that the kernel frees when this process ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace sluice::csi {

enum class Partitions : std::uint8_t { none, gone_with_it };

class LoopDevice {
 public:
  // `image` is made.
  LoopDevice(const std::string& image, std::int64_t bytes, Partitions partitions = Partitions::none);
  void resize(std::int64_t bytes);
  // The kernel no longer has the partition whose node this is; the table of the drive does.
  void lose(const std::string& node);
  dev_t number() const;
  const std::string& path() const { return path_; }

 private:
  std::string image_;
  std::string path_;
  base::UniqueFd device_;
};

}  // namespace sluice::csi
