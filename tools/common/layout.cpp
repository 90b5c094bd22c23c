// SPDX-License-Identifier: Apache-2.0
// Starts from two facts, the path of this executable and the path of the library it is linked with, and finds the
// rest next to them.
#include "common/layout.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "common/error.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_file(std::initializer_list<fs::path> candidates) {
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    const fs::path found = fs::canonical(candidate, ignored);
    if (!ignored && fs::is_regular_file(found, ignored)) return found.string();
  }
  return std::nullopt;
}

std::string mapped_library() {
  // By dlsym, not by the function's own address: that may be a stub inside this executable.
  const void* symbol = dlsym(RTLD_DEFAULT, "cuFileDriverOpen");
  Dl_info info{};
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) {
    throw ToolError("This tool runs on no libcufile.so.0.", "Install Sluice again: its lib folder is incomplete.");
  }
  std::error_code error;
  const fs::path canonical = fs::canonical(info.dli_fname, error);
  return error ? info.dli_fname : canonical.string();
}

}  // namespace

Layout layout() {
  Layout found;
  std::error_code error;
  found.tool = fs::read_symlink("/proc/self/exe", error).string();
  found.library = mapped_library();
  const fs::path lib = fs::path(found.library).parent_path();
  const fs::path prefix = fs::path(found.tool).parent_path().parent_path();
  found.soft_gpu =
      first_file({lib / "sluice/softgpu/libcuda.so.1", lib / "softgpu/libcuda.so.1", prefix / "softgpu/libcuda.so.1"});
  found.witness = first_file({lib / "sluice/libsluice_witness.so", lib / "libsluice_witness.so"});
  found.configuration = first_file({prefix / "share/sluice/cufile.json"});
  return found;
}

}  // namespace sluice::tools
