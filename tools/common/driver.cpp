// SPDX-License-Identifier: Apache-2.0
// The few calls of the CUDA driver API that the tools make, resolved at run time.
#include "common/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/layout.h"
#include "common/text.h"

namespace sluice::tools {

// Results, devices and contexts as the driver's ABI has them: int, int, an opaque pointer.
struct DriverCalls {
  int (*init)(unsigned) = nullptr;
  int (*driver_get_version)(int*) = nullptr;
  int (*device_get_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_get_name)(char*, int, int) = nullptr;
  int (*device_get_attribute)(int*, int, int) = nullptr;
  int (*primary_retain)(void**, int) = nullptr;
  int (*primary_release)(int) = nullptr;
  int (*set_current)(void*) = nullptr;
  int (*mem_alloc)(std::uint64_t*, std::size_t) = nullptr;
  int (*mem_free)(std::uint64_t) = nullptr;
  int (*memset_bytes)(std::uint64_t, unsigned char, std::size_t) = nullptr;
  int (*copy_to_host)(void*, std::uint64_t, std::size_t) = nullptr;
  int (*synchronize)() = nullptr;
  int (*get_error_name)(int, const char**) = nullptr;
};

namespace {

constexpr const char* soname = "libcuda.so.1";
constexpr const char* soft_marker = "cuSluiceSoftGpuVersion";

struct Loaded {
  Driver facts;
  DriverCalls calls;
  std::string why_not_soft;  // of a soft GPU that is installed and does not start
};

template <typename Function>
bool bind(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(dlsym(library, name));
  return into != nullptr;
}

bool bind_all(void* library, DriverCalls& calls) {
  bind(library, "cuDeviceGetAttribute", calls.device_get_attribute);  // can be done without
  return bind(library, "cuInit", calls.init) && bind(library, "cuDriverGetVersion", calls.driver_get_version) &&
         bind(library, "cuDeviceGetCount", calls.device_get_count) && bind(library, "cuDeviceGet", calls.device_get) &&
         bind(library, "cuDeviceGetName", calls.device_get_name) &&
         bind(library, "cuDevicePrimaryCtxRetain", calls.primary_retain) &&
         bind(library, "cuDevicePrimaryCtxRelease_v2", calls.primary_release) &&
         bind(library, "cuCtxSetCurrent", calls.set_current) && bind(library, "cuMemAlloc_v2", calls.mem_alloc) &&
         bind(library, "cuMemFree_v2", calls.mem_free) && bind(library, "cuMemsetD8_v2", calls.memset_bytes) &&
         bind(library, "cuMemcpyDtoH_v2", calls.copy_to_host) && bind(library, "cuCtxSynchronize", calls.synchronize) &&
         bind(library, "cuGetErrorName", calls.get_error_name);
}

std::string result_name(const DriverCalls& calls, int result) {
  const char* name = nullptr;
  if (calls.get_error_name == nullptr || calls.get_error_name(result, &name) != 0 || name == nullptr) {
    return fmt::format("CUDA error {}", result);
  }
  return name;
}

std::string path_of(const void* symbol) {
  Dl_info info{};
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(info.dli_fname, error);
  return error ? info.dli_fname : canonical.string();
}

// Initialises the driver behind `library`. The clause says why it cannot be used; "" when it can.
std::string start(void* library, Loaded& loaded) {
  DriverCalls& calls = loaded.calls;
  if (!bind_all(library, calls)) return fmt::format("{} lacks functions of the CUDA driver API", soname);
  if (const int result = calls.init(0); result != 0) {
    return fmt::format("cuInit of {} answered {}", path_of(reinterpret_cast<void*>(calls.init)),
                       result_name(calls, result));
  }
  int devices = 0;
  if (calls.device_get_count(&devices) != 0 || devices < 1) return "the CUDA driver found no device";
  loaded.facts.devices = devices;
  loaded.facts.path = path_of(reinterpret_cast<void*>(calls.init));
  calls.driver_get_version(&loaded.facts.version);
  loaded.facts.kind = dlsym(library, soft_marker) != nullptr ? DriverKind::soft : DriverKind::real;
  return {};
}

// Replaces this process by a fresh one that does not touch the real driver. Returns only when that fails.
void start_again_without_the_real_driver(const std::string& why) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<char*> arguments;
  for (std::size_t at = 0; at < words.size(); at += std::strlen(words.data() + at) + 1) {
    arguments.push_back(words.data() + at);
  }
  if (arguments.empty()) return;
  arguments.push_back(nullptr);
  setenv("SLUICE_SOFTGPU", "1", 1);
  setenv("SLUICE_SOFTGPU_BECAUSE", why.c_str(), 1);
  execv("/proc/self/exe", arguments.data());
}

bool soft_gpu_is_asked_for() {
  const char* value = std::getenv("SLUICE_SOFTGPU");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

std::string why_soft_was_asked_for() {
  const char* because = std::getenv("SLUICE_SOFTGPU_BECAUSE");
  return because != nullptr ? because : "SLUICE_SOFTGPU=1 asks for the soft GPU";
}

// Tries the driver that the loader finds by its name. The clause says why it is not in use.
std::string try_real(Loaded& loaded) {
  void* library = dlopen(soname, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return fmt::format("no {} was found", soname);
  std::string why = start(library, loaded);
  if (why.empty()) return {};
  loaded = {};
  dlclose(library);
  if (void* stayed = dlopen(soname, RTLD_NOW | RTLD_NOLOAD); stayed != nullptr) {
    dlclose(stayed);
    start_again_without_the_real_driver(why);
  }
  return why;
}

Loaded load() {
  Loaded loaded;
  const std::string why = soft_gpu_is_asked_for() ? why_soft_was_asked_for() : try_real(loaded);
  if (loaded.facts.kind == DriverKind::real) return loaded;
  if (loaded.facts.kind == DriverKind::soft) {
    loaded.facts.why_not_real = fmt::format("the loader finds the soft GPU as {}", soname);
    return loaded;
  }
  if (const auto soft = layout().soft_gpu) {
    void* library = dlopen(soft->c_str(), RTLD_NOW | RTLD_GLOBAL);
    std::string why_not_soft = library == nullptr ? fmt::format("{} cannot be loaded", *soft) : start(library, loaded);
    if (!why_not_soft.empty()) loaded = {{}, {}, std::move(why_not_soft)};
  }
  loaded.facts.why_not_real = why;
  if (!loaded.why_not_soft.empty()) {
    loaded.facts.why_not_real += ", and the soft GPU does not start: " + loaded.why_not_soft;
  }
  return loaded;
}

const Loaded& loaded_driver() {
  static const Loaded loaded = load();
  return loaded;
}

// Its memory is a file.
bool lacks_room_for_the_soft_gpu() {
  constexpr rlim_t least = rlim_t{2} << 20;
  struct rlimit limit {};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < least;
}

// What to look at where it refuses to start.
std::string settings_of_the_soft_gpu() {
  if (lacks_room_for_the_soft_gpu()) return "Raise the limit on the size of files: ulimit -f unlimited.";
  std::string given;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view one = *variable;
    if (!one.starts_with("SLUICE_SOFTGPU_") || one.starts_with("SLUICE_SOFTGPU_BECAUSE=")) continue;
    given += (given.empty() ? "" : ", ") + printable(one);
  }
  return given.empty() ? "Install Sluice anew, or look at docs/reference/softgpu.md."
                       : fmt::format("Unset or mend what it was told: {}.", given);
}

void check(int result, const char* what) {
  if (result == 0) return;
  throw ToolError(fmt::format("{} answered {}.", what, result_name(loaded_driver().calls, result)),
                  "See what else uses the GPU, or try a smaller size.");
}

}  // namespace

const char* driver_kind_name(DriverKind kind) {
  constexpr std::array<const char*, 3> names = {"none", "soft", "real"};
  return names[static_cast<std::size_t>(kind)];
}

const Driver& choose_driver() {
  return loaded_driver().facts;
}

void want_device(int ordinal) {
  const Driver& driver = choose_driver();
  if (driver.kind == DriverKind::none) {
    throw ToolError(fmt::format("There is no GPU: {}.", driver.why_not_real),
                    loaded_driver().why_not_soft.empty()
                        ? "Install Sluice with its soft GPU, which stands in for a missing one."
                        : settings_of_the_soft_gpu());
  }
  if (ordinal < 0 || ordinal >= driver.devices) {
    throw ToolError(fmt::format("There is no GPU {}: the driver has {}, counted from 0.", ordinal, driver.devices),
                    driver.devices == 1 ? "Use --gpu 0." : fmt::format("Use --gpu 0 to {}.", driver.devices - 1));
  }
}

std::string describe_device(int ordinal) {
  const Driver& facts = loaded_driver().facts;
  const DriverCalls& calls = loaded_driver().calls;
  if (facts.kind == DriverKind::none) return "none";
  int device = 0;
  std::array<char, 256> name{};
  check(calls.device_get(&device, ordinal), "cuDeviceGet");
  check(calls.device_get_name(name.data(), static_cast<int>(name.size()), device), "cuDeviceGetName");
  return name.data();
}

int device_attribute(int ordinal, int attribute) {
  const Driver& facts = loaded_driver().facts;
  const DriverCalls& calls = loaded_driver().calls;
  int device = 0;
  int value = 0;
  const bool can_ask = facts.kind != DriverKind::none && calls.device_get_attribute != nullptr;
  if (!can_ask || calls.device_get(&device, ordinal) != 0) return 0;
  return calls.device_get_attribute(&value, attribute, device) == 0 ? value : 0;
}

DeviceMemory::DeviceMemory(int ordinal, std::size_t size) : calls_(&loaded_driver().calls), size_(size) {
  want_device(ordinal);
  check(calls_->device_get(&device_, ordinal), "cuDeviceGet");
  void* context = nullptr;
  check(calls_->primary_retain(&context, device_), "cuDevicePrimaryCtxRetain");
  int result = calls_->set_current(context);
  if (result == 0) result = calls_->mem_alloc(&pointer_, size);
  if (result != 0) calls_->primary_release(device_);
  check(result, "cuMemAlloc");
}

DeviceMemory::~DeviceMemory() {
  calls_->mem_free(pointer_);
  calls_->primary_release(device_);
}

void* DeviceMemory::address() const noexcept {
  return reinterpret_cast<void*>(pointer_);
}

void DeviceMemory::fill(unsigned char value) {
  check(calls_->memset_bytes(pointer_, value, size_), "cuMemsetD8");
  check(calls_->synchronize(), "cuCtxSynchronize");
}

void DeviceMemory::copy_to(void* host, std::size_t offset, std::size_t size) const {
  check(calls_->copy_to_host(host, pointer_ + offset, size), "cuMemcpyDtoH");
}

}  // namespace sluice::tools
