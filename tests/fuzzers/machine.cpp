// SPDX-License-Identifier: Apache-2.0
// /proc, /sys and /etc of a machine: one file of a recorded tree holds what the input says, and the doctor examines the
// machine. An input is the file's path, a line end, its content. SLUICE_FUZZ_TREE is the folder of the tree.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "doctor/doctor.h"
#include "input.h"

using namespace sluice;

namespace {

struct Machine {
  std::string folder;
  std::set<std::string, std::less<>> files;
};

Machine read_tree() {
  const char* const folder = std::getenv("SLUICE_FUZZ_TREE");
  fuzz::require(folder != nullptr, "SLUICE_FUZZ_TREE names no recorded tree\n");
  Machine machine{folder, {}};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(machine.folder)) {
    if (!entry.is_symlink() && entry.is_regular_file()) {
      machine.files.insert(entry.path().string().substr(machine.folder.size()));
    }
  }
  return machine;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Machine machine = read_tree();
  const std::string_view text = fuzz::text_of(data, size);
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos || !machine.files.contains(text.substr(0, line))) return -1;
  const std::string path = machine.folder + std::string(text.substr(0, line));
  const std::string before = content_of(path);
  write(path, text.substr(line + 1));
  const doctor::Report report = doctor::examine(machine.folder);
  static_cast<void>(doctor::as_text(report, {}));
  static_cast<void>(doctor::as_json(report, {}));
  static_cast<void>(doctor::as_script(report, {}));
  write(path, before);
  return 0;
}
