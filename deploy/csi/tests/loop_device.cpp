// SPDX-License-Identifier: Apache-2.0
#include "tests/loop_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/blkpg.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "tests/pool.h"

namespace sluice::csi {

LoopDevice::LoopDevice(const std::string& image, std::int64_t bytes, Partitions partitions) : image_(image) {
  write_file(image, "");
  resize(bytes);
  const base::UniqueFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  const base::UniqueFd backing(open(image.c_str(), O_RDWR | O_CLOEXEC));
  for (int attempt = 0; attempt < 20 && !device_; ++attempt) {
    const std::string path = "/dev/loop" + std::to_string(ioctl(control.get(), LOOP_CTL_GET_FREE));
    base::UniqueFd device(open(path.c_str(), O_RDWR | O_CLOEXEC));
    loop_config config{};
    config.fd = static_cast<unsigned>(backing.get());
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | (partitions == Partitions::none ? 0 : LO_FLAGS_PARTSCAN);
    if (ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) {
      device_ = std::move(device);
      path_ = path;
    }
  }
  if (!device_) throw std::runtime_error("no loop device is free");
}

void LoopDevice::resize(std::int64_t bytes) {
  std::filesystem::resize_file(image_, static_cast<std::uintmax_t>(bytes));
  if (device_) ioctl(device_.get(), LOOP_SET_CAPACITY);
}

void LoopDevice::lose(const std::string& node) {
  struct stat status {};
  if (stat(node.c_str(), &status) != 0) throw std::runtime_error(node + " is not there");
  const std::string of = fmt::format("/sys/dev/block/{}:{}/partition", major(status.st_rdev), minor(status.st_rdev));
  blkpg_partition partition{};
  partition.pno = std::stoi(read_file(of));
  blkpg_ioctl_arg remove{BLKPG_DEL_PARTITION, 0, sizeof(partition), &partition};
  // Others may be looking at it, as udev does.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (ioctl(device_.get(), BLKPG, &remove) != 0) {
    if (errno != EBUSY || std::chrono::steady_clock::now() > end) throw std::runtime_error("the kernel keeps " + node);
    std::this_thread::yield();
  }
}

dev_t LoopDevice::number() const {
  struct stat status {};
  fstat(device_.get(), &status);
  return status.st_rdev;
}

}  // namespace sluice::csi
