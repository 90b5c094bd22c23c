// SPDX-License-Identifier: Apache-2.0
// What a file system is to us, by the name in mountinfo or, where there is none, by the number that statfs gives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "facts/file.h"

namespace sluice::facts {

enum class Substance : std::uint8_t {
  storage,  // keeps what is written
  pseudo,   // text that the kernel makes up while it is read, or a switchboard: procfs, sysfs, cgroups
};

struct FileSystemType {
  FileSystem file_system = FileSystem::other;
  Substance substance = Substance::storage;
  std::string name;
};

// `name` as mountinfo spells it; an unknown one is FileSystem::other.
FileSystemType file_system_named(std::string_view name);

// `magic` is statfs's f_type. The name is the usual one; "type 0x..." for a number that is not known here.
FileSystemType file_system_with_magic(std::uint64_t magic);

}  // namespace sluice::facts
