// SPDX-License-Identifier: Apache-2.0
// `sluice topology`: the machine's tree as text, as JSON or as a picture.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "common/error.h"
#include "common/text.h"
#include "doctor/record.h"
#include "sluice/commands.h"
#include "sluice/doctor.h"
#include "topology_view/view.h"

namespace sluice::tools {
namespace {

using topology_view::Form;

Form form_of(const TopologyOptions& options) {
  if (options.picture) return Form::svg;
  if (options.output == Output::json) return Form::json;
  return options.routes || !options.file.empty() ? Form::routes : Form::text;
}

// From the root of the tree. Of a recorded one nothing but the mounts is known, so the file need not be there.
std::string whole(const std::string& file, const std::string& root) {
  if (file.empty()) return file;
  struct stat status {};
  if (root.empty() && stat(file.c_str(), &status) != 0) {
    throw ToolError(fmt::format("{} cannot be examined: {}.", printable(file), system_words(errno)),
                    "Name a file or a folder that is there.", 2);
  }
  return std::filesystem::absolute(file).lexically_normal().string();
}

}  // namespace

int topology_command(const TopologyOptions& options) {
  const bool text = options.routes || !options.file.empty();
  if ((options.picture && (text || options.output == Output::json)) ||
      (!options.file.empty() && options.output == Output::json)) {
    throw ToolError("Two forms are asked for.", "Give one of --svg, --json, and --routes with or without --file.", 2);
  }
  try {
    std::unique_ptr<doctor::Unpacked> unpacked;
    const std::string root = recorded_tree(options.root, unpacked);
    if (!root.empty()) doctor::want_machine(root, options.root);
    const std::string shown =
        topology_view::show({.root = root, .form = form_of(options), .file = whole(options.file, root)});
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    return 0;
  } catch (const ToolError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw ToolError(std::string(error.what()) + ".", "Look at the path and the room on its disk.");
  }
}

}  // namespace sluice::tools
