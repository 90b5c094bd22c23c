// SPDX-License-Identifier: Apache-2.0
// Reads the first bytes of a program: an ELF file without an interpreter is loaded by the kernel alone, and nothing
// reads LD_PRELOAD.
#include "sluice/preload_check.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

namespace sluice::tools {
namespace {

constexpr int most_interpreters = 4;  // as many as the kernel follows

bool is_executable_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
}

// True when executing the file starts it in the loader's secure mode, which ignores LD_PRELOAD.
bool raises_privileges(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return false;
  const bool other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != getuid();
  const bool other_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != getgid();
  const bool capabilities = getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return other_user || other_group || capabilities;
}

std::optional<std::string> script_interpreter(std::ifstream& file) {
  std::string line;
  file.seekg(2);
  std::getline(file, line);
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return std::nullopt;
  return line.substr(begin, line.find_first_of(" \t", begin) - begin);
}

enum class Linkage { dynamic, none, foreign };

struct Loading {
  Linkage linkage;
  std::string loader{};  // of a dynamic program
};

// `foreign`: not an ELF file of this machine's word size; the kernel or the loader will say what it thinks of it.
Loading loading_of(std::ifstream& file) {
  Elf64_Ehdr header{};
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return {Linkage::foreign};
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    return {Linkage::foreign};
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof segment));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return {Linkage::foreign};
    if (segment.p_type != PT_INTERP) continue;
    std::string loader(std::min<std::size_t>(segment.p_filesz, PATH_MAX), '\0');
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    file.read(loader.data(), static_cast<std::streamsize>(loader.size()));
    loader.resize(std::min(loader.find('\0'), loader.size()));
    return {Linkage::dynamic, loader};
  }
  return {Linkage::none};
}

bool is_script(std::ifstream& file) {
  std::array<char, 2> magic{};
  return file.read(magic.data(), magic.size()) && magic[0] == '#' && magic[1] == '!';
}

// Scripts followed to the file that ends the chain; nullopt where one names no interpreter, or they are too many.
std::optional<std::string> end_of_scripts(std::string path) {
  for (int depth = 0; depth <= most_interpreters; ++depth) {
    std::ifstream file(path, std::ios::binary);
    if (!is_script(file)) return path;
    const std::optional<std::string> interpreter = script_interpreter(file);
    if (!interpreter) return std::nullopt;
    path = *interpreter;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_program(const std::string& command) {
  if (command.find('/') != std::string::npos) {
    return std::filesystem::exists(command) ? std::optional(command) : std::nullopt;
  }
  const char* variable = std::getenv("PATH");
  std::string_view folders = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const std::size_t colon = folders.find(':');
    const std::string_view folder = folders.substr(0, colon);
    std::string candidate = folder.empty() ? command : fmt::format("{}/{}", folder, command);
    if (is_executable_file(candidate)) return candidate;
    if (colon == std::string_view::npos) return std::nullopt;
    folders.remove_prefix(colon + 1);
  }
}

std::optional<Obstacle> preload_obstacle(const std::string& program) {
  const std::optional<std::string> path = end_of_scripts(program);
  if (!path) return std::nullopt;
  // The kernel ignores these bits on scripts, so only the file that ends the chain is asked for them.
  if (raises_privileges(*path)) {
    return Obstacle{
        fmt::format("{} runs with privileges that its caller lacks, so the loader ignores LD_PRELOAD.", *path),
        "Start it the other way round, with sluice inside: sudo sluice run -- PROGRAM."};
  }
  std::ifstream file(*path, std::ios::binary);
  if (loading_of(file).linkage == Linkage::none) {
    return Obstacle{fmt::format("{} is statically linked: no loader runs, and nothing can be preloaded.", *path),
                    "Link the program dynamically, or link it with libcufile_static.a of Sluice."};
  }
  return std::nullopt;
}

std::optional<std::string> missing_interpreter(const std::string& program) {
  std::optional<std::string> path = end_of_scripts(program);
  if (!path) return std::nullopt;
  std::error_code ignored;
  if (!std::filesystem::exists(*path, ignored)) return path;
  std::ifstream file(*path, std::ios::binary);
  const std::string loader = loading_of(file).loader;
  return loader.empty() || std::filesystem::exists(loader, ignored) ? std::nullopt : std::optional(loader);
}

Obstacle cause_of_absence(const std::string& program, int status) {
  std::ifstream file(program, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const bool elf = bytes.size() > EI_CLASS && bytes.compare(0, SELFMAG, ELFMAG) == 0;
  if (elf && bytes[EI_CLASS] != ELFCLASS64) {
    return {"it is not a 64-bit program, and Sluice's library is one.", "Build the program for 64 bits."};
  }
  constexpr int loader_gave_up = 127;
  const bool unloaded = WIFEXITED(status) && WEXITSTATUS(status) == loader_gave_up;
  // The name stands in the list of libraries that the program is linked with.
  constexpr std::string_view driver("libcuda.so.1\0", 13);
  if (unloaded && elf && bytes.find(driver) != std::string::npos) {
    void* const found = dlopen("libcuda.so.1", RTLD_LAZY);
    if (found == nullptr) {
      return {"it is linked with libcuda.so.1, which is not on this machine, so the loader did not start it.",
              "Install the driver, or try it on the soft GPU: sluice run --soft-gpu -- PROGRAM."};
    }
    dlclose(found);
  }
  if (unloaded) return {"the loader did not start it.", "It says above which library or version is missing."};
  if (WIFSIGNALED(status)) {
    return {"it was ended by a signal before it could tell.", "Run it again, or look at its own messages."};
  }
  return {"it cleared LD_PRELOAD, or runs programs that do.", "Preload the library inside of what it starts."};
}

}  // namespace sluice::tools
