// SPDX-License-Identifier: Apache-2.0
// /proc/self/mountinfo and fdinfo. The first line of the input is the number of the mount that is looked for.
#include <cstdlib>

#include "facts/file_system.h"
#include "facts/mount.h"
#include "input.h"

using namespace sluice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const std::size_t line = text.find('\n');
  const std::string first(text.substr(0, line));
  const std::string_view mountinfo = line == std::string_view::npos ? std::string_view{} : text.substr(line + 1);
  const std::optional<std::uint64_t> id = facts::mount_id_in_fdinfo(first);
  if (const std::optional<facts::Mount> mount = facts::find_mount(mountinfo, id, 0x803)) {
    fuzz::require(!id || mount->id == *id || mount->device == 0x803, "a mount that nothing asked for\n");
    static_cast<void>(facts::file_system_named(mount->type));
  }
  return 0;
}
