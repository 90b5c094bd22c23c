// SPDX-License-Identifier: Apache-2.0
// Where files end, where they have nothing stored, and where a request does not fit the blocks.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "lab/probe/device_memory.h"
#include "lab/probe/rows.h"
#include "lab/probe/system.h"
#include "lab/probe/verbs.h"

namespace sluice::lab {

namespace {

constexpr std::size_t kLength = std::size_t{64} << 10U;
constexpr std::size_t kBlock = 4096;
constexpr std::byte kBefore{0x11};
constexpr std::byte kZero{0};

void must_be_zero(int result, const char* what) {
  if (result != 0) throw std::system_error(errno, std::generic_category(), what);
}

class Edges {
 public:
  Edges(std::string name, const std::string& folder)
      : name_(std::move(name)),
        file_(folder + "/edges", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT),
        device_(environment("LAB_PROVIDER"), kLength),
        host_(kLength) {}

  void nothing_stored() {
    must_be_zero(ftruncate(fd(), kLength), "ftruncate");
    zeros_arrive("a hole reads as zeros, which the CPU stores");
    must_be_zero(fallocate(fd(), 0, 0, kLength), "fallocate");
    zeros_arrive("an unwritten extent reads as zeros, which the CPU stores");
  }

  void extending_write() {
    must_be_zero(ftruncate(fd(), 0), "ftruncate");
    fill(device_.bytes(0, kLength), 1);
    Stretch stretch;
    std::string why = differs(answer(pwrite(fd(), device_.data(), kLength, 0)), kLength);
    stretch.end();
    must_read(fd(), host_.bytes(0, kLength), 0);
    if (why.empty() && !holds(host_.bytes(0, kLength), 1)) why = "the file does not hold the bytes";
    row(name_ + ": a write beyond the end lengthens the file", why);
  }

  // The file is left with the pattern of extending_write() on its blocks, and cut within the second one.
  void end_of_file(bool rest_is_zero) {
    constexpr std::size_t kSize = 5000;
    constexpr std::size_t kEndOfBlock = 2 * kBlock;
    must_be_zero(ftruncate(fd(), kSize), "ftruncate");
    must_be_zero(fsync(fd()), "fsync");
    std::fill_n(device_.data(), kLength, kBefore);
    const std::string why = differs(answer(pread(fd(), device_.data(), kLength, 0)), kSize);
    row(name_ + ": a read across the end answers what is left of the file", why);
    if (!why.empty()) return;
    row(name_ + ": a read across the end brings the bytes",
        holds(device_.bytes(0, kSize), 1) ? "" : "the bytes are not those of the file");
    const auto block = device_.bytes(kSize, kEndOfBlock - kSize);
    const auto further = device_.bytes(kEndOfBlock, kLength - kEndOfBlock);
    row(name_ + ": memory behind the count is overwritten, " +
            (rest_is_zero ? "with zeros" : "with what the block held before the file was cut"),
        all_equal(block, kBefore)                 ? "it is as it was"
        : all_equal(block, kZero) == rest_is_zero ? ""
                                                  : "something else lies there");
    row(name_ + ": memory behind the last block is overwritten with zeros, to the end of the request",
        all_equal(further, kZero) ? "" : "something else lies there");
    row(name_ + ": a read behind the end answers 0", differs(answer(pread(fd(), device_.data(), kBlock, kLength)), 0));
  }

  void misaligned(bool accepted) {
    fill(host_.bytes(0, kLength), 2);
    must_be_zero(ftruncate(fd(), 0), "ftruncate");
    must_write(fd(), host_.bytes(0, kLength), 0);
    misaligned_read("file offset 100", 0, 100, accepted);
    misaligned_read("memory 3 bytes into a page", 3, 0, accepted);
    fill(device_.bytes(0, kBlock), 3);
    Stretch stretch;
    const ssize_t count = answer(pwrite(fd(), device_.data(), 100, 0));
    finish_misaligned(stretch, "length 100", "write", differs(count, accepted ? 100 : -EINVAL));
  }

 private:
  int fd() const { return file_.get(); }

  void zeros_arrive(const std::string& what) {
    std::fill_n(device_.data(), kLength, kBefore);
    Stretch stretch;
    std::string why = differs(answer(pread(fd(), device_.data(), kLength, 0)), kLength);
    stretch.end();
    if (why.empty() && !all_equal(device_.bytes(0, kLength), kZero)) why = "something other than zeros arrived";
    row(name_ + ": " + what, why);
    if (why.empty()) stretch.promise(name_ + ": " + what, "read", 0);
  }

  void misaligned_read(const std::string& what, std::size_t shift, off_t offset, bool accepted) {
    std::fill_n(device_.data(), kLength, kBefore);
    Stretch stretch;
    const ssize_t count = answer(pread(fd(), device_.data() + shift, kBlock, offset));
    std::string why = differs(count, accepted ? static_cast<ssize_t>(kBlock) : -EINVAL);
    const auto expected = host_.bytes(static_cast<std::size_t>(offset), kBlock);
    if (why.empty() && accepted && !std::equal(expected.begin(), expected.end(), device_.data() + shift)) {
      why = "the bytes are not those of the file";
    }
    finish_misaligned(stretch, what, "read", why);
  }

  // Accepted or not: no drive reaches device memory.
  void finish_misaligned(Stretch& stretch, const std::string& what, const std::string& operation,
                         const std::string& why) {
    stretch.end();
    const std::string name = name_ + ": out of alignment, " + what;
    row(name, why);
    if (why.empty()) stretch.promise(name, operation, 0);
  }

  std::string name_;
  File file_;
  DeviceMemory device_;
  HostMemory host_;
};

}  // namespace

void edges(const std::string& name, const std::string& folder, const std::string& file_system) {
  const bool copies = file_system == "btrfs";
  Edges checks(name, folder);
  checks.nothing_stored();
  checks.extending_write();
  checks.end_of_file(!copies);
  checks.misaligned(copies);
}

}  // namespace sluice::lab
