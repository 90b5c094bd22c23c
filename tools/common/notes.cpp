// SPDX-License-Identifier: Apache-2.0
// The notes of the library, filtered.
#include "common/notes.h"

#include <dlfcn.h>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/text.h"
#include "common/written.h"
#include "sluice.h"

namespace sluice::tools {

void tell_unknown_keys(const char* tool) {
  std::vector<std::string> unknown;
  const auto take = [](const char* note, void* context) {
    if (std::string_view(note).find(" is no key that is known") == std::string_view::npos) return;
    static_cast<std::vector<std::string>*>(context)->emplace_back(note);
  };
  // By name: gdsio and its family run on NVIDIA's library as well, which has no such call.
  const auto notes =
      reinterpret_cast<decltype(&sluice_configuration_notes)>(dlsym(RTLD_DEFAULT, "sluice_configuration_notes"));
  if (notes == nullptr || notes(take, &unknown).err != CU_FILE_SUCCESS) return;
  constexpr std::size_t most = 3;
  for (std::size_t i = 0; i < unknown.size() && i < most; ++i) {
    tell("{}: {}\n", tool, printable(unknown[i]));
  }
  if (unknown.size() > most) {
    tell("{}: {} more keys are not known: gdscheck -p lists them\n", tool, unknown.size() - most);
  }
}

}  // namespace sluice::tools
