#include "differential/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

namespace sluice::differential {
namespace {

template <typename Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
}

}  // namespace

Library load_library(const std::string& path) {
  void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    std::fprintf(stderr, "player: %s\n", dlerror());
    std::exit(2);
  }
  Library library;
#define SLUICE_FIND(member, symbol, result, parameters) find(opened, symbol, library.member);
  SLUICE_CUFILE_ENTRIES(SLUICE_FIND)
#undef SLUICE_FIND
  return library;
}

Copies::Copies(const std::string& path, std::string folder) : folder_(std::move(folder)) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  bytes_ = std::move(text).str();
}

Library Copies::next() {
  // The loader takes two files of one name for one library: each copy has a name of its own.
  const std::string path = folder_ + "/copy-" + std::to_string(getpid()) + "-" + std::to_string(++count_) + ".so";
  std::ofstream(path, std::ios::binary).write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  const Library library = load_library(path);
  unlink(path.c_str());
  return library;
}

}  // namespace sluice::differential
