// SPDX-License-Identifier: Apache-2.0
// Folders to measure in, and what lies below them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::doctor {

// Of a file: the file system that holds it, and the drives below that.
struct Place {
  std::string mount;                // "/data"; "" where it is not listed
  std::string file_system;          // "ext4"
  std::vector<std::string> drives;  // "nvme0n1"; those of a mapping or an array, too. Empty: no block device
};

Place place_of(int fd);

// One folder of each mounted file system that keeps what is written, in which this user may make files, and which has
// so much room. Memory, and what lies over another file system, is none.
std::vector<std::string> folders_with_storage(std::uint64_t room);

// As the library knows a profile's machine again; "" where it has no number.
std::string machine_number();

}  // namespace sluice::doctor
