// SPDX-License-Identifier: Apache-2.0
// What a process holds: to be counted before and after, where nothing may be left behind.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice::fuzz {

struct Census {
  std::vector<std::string> descriptors;  // what each refers to, sorted
  std::vector<std::string> threads;      // by name, sorted
  std::size_t mapped_kib = 0;            // of address space that may be touched
  std::size_t locked_kib = 0;
  std::size_t device_free = 0;  // bytes; 0 without a device
  // Of staging memory, for requests and for streams: they come when so many are under way at once, and stay.
  std::size_t rings = 0;
  std::size_t channels = 0;
};

Census take_census();

// What `now` holds beyond `before`, a sentence each. Address space may grow by `slack_kib`, since allocators keep what
// they have; none may be looked at where a sanitizer keeps freed memory.
std::vector<std::string> growth(const Census& before, const Census& now, std::size_t slack_kib);

// Threads and descriptors of others end a moment after they were told to. Looks again and again, until nothing has
// grown or it has looked often enough; the last finding.
std::vector<std::string> settled_growth(const Census& before, std::size_t slack_kib);

}  // namespace sluice::fuzz
