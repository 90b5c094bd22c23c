// SPDX-License-Identifier: Apache-2.0
// Asking the loader, and finding the soft GPU beside this library.
#include "gpu/library.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/backoff.h"

namespace sluice::gpu {

namespace {

constexpr const char* soname = "libcuda.so.1";

bool soft_gpu_is_asked_for() {
  const char* const value = ::secure_getenv("SLUICE_SOFTGPU");
  return value != nullptr && std::string_view(value) == "1";
}

bool is_soft(void* library) {
  return ::dlsym(library, "cuSluiceSoftGpuVersion") != nullptr;
}

// The loader's cache of names is not fit for use in a child that was forked while another thread was reading it. So a
// fork waits for our own threads to come out of the loader, and they wait for it before they go in. Both wait for a
// while only: a library's constructor, which has the loader's lock, may be among those that call us.
std::atomic<int> in_loader{0};
std::atomic<bool> forking{false};

template <typename Condition>
void wait_a_while(Condition over) noexcept {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  base::Backoff backoff;
  while (!over() && std::chrono::steady_clock::now() < end) backoff.wait();
}

class InLoader {
 public:
  InLoader() noexcept {
    in_loader.fetch_add(1);
    if (!forking.load()) return;
    in_loader.fetch_sub(1);
    wait_a_while([] { return !forking.load(); });
    in_loader.fetch_add(1);
  }
  InLoader(const InLoader&) = delete;
  InLoader& operator=(const InLoader&) = delete;
  ~InLoader() { in_loader.fetch_sub(1); }
};

std::string path_of(const void* address) {
  Dl_info info{};
  return address != nullptr && ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : soname;
}

// The stand-in as it lies in an installation (below the library), in a distribution's package (below the library's own
// folder) and in a build folder (beside its folder); empty when it is in none of these places.
std::string soft_gpu_path() {
  static const char here = 0;
  std::error_code ignored;
  const std::filesystem::path library = std::filesystem::canonical(path_of(&here), ignored);
  const std::filesystem::path folder = library.parent_path();
  for (const auto& candidate :
       {folder / "sluice/softgpu" / soname, folder / "softgpu" / soname, folder.parent_path() / "softgpu" / soname}) {
    if (std::filesystem::exists(candidate, ignored)) return candidate.string();
  }
  return {};
}

DriverLibrary open_soft_gpu() {
  const std::string path = soft_gpu_path();
  if (path.empty()) {
    return {nullptr,
            "SLUICE_SOFTGPU=1 cannot be followed: the soft GPU is not installed beside libcufile; install "
            "lib/sluice/softgpu/libcuda.so.1"};
  }
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return {library, {}};
  const char* const why = ::dlerror();
  return {nullptr, "SLUICE_SOFTGPU=1 cannot be followed: " + std::string(why != nullptr ? why : path)};
}

}  // namespace

DriverLibrary open_driver_library(Loading loading) {
  const bool soft_wanted = soft_gpu_is_asked_for();
  const bool only_loaded = soft_wanted || loading == Loading::only_what_is_loaded;
  const InLoader inside;
  void* const library = ::dlopen(soname, RTLD_NOW | RTLD_LOCAL | (only_loaded ? RTLD_NOLOAD : 0));
  if (!soft_wanted) return {library, {}};
  if (library == nullptr) return open_soft_gpu();
  if (is_soft(library)) return {library, {}};
  return {library, "SLUICE_SOFTGPU=1 is refused: the program runs on the CUDA driver " +
                       path_of(::dlsym(library, "cuInit")) +
                       " already, and one program never works with two; start it by `sluice run --soft-gpu -- CMD`"};
}

void* open_library(const std::string& name, const void* beside, std::string& refusal) {
  const std::filesystem::path folder = beside != nullptr ? std::filesystem::path(path_of(beside)).parent_path() : "";
  const std::string path = (folder / name).string();
  const InLoader inside;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    refusal = why != nullptr ? why : path;
  }
  return library;
}

unsigned long long libraries_loaded_so_far() noexcept {
  const InLoader inside;
  unsigned long long count = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        *static_cast<unsigned long long*>(into) = info->dlpi_adds;
        return 1;  // the first one tells for all
      },
      &count);
  return count;
}

void loader_before_fork() noexcept {
  forking.store(true);
  wait_a_while([] { return in_loader.load() == 0; });
}

void loader_after_fork(bool in_child) noexcept {
  if (in_child) in_loader.store(0);
  forking.store(false);
}

}  // namespace sluice::gpu
