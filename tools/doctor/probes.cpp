// SPDX-License-Identifier: Apache-2.0
// The tries. CUDA is asked in a child, so that a driver that hangs or crashes takes nothing along.
#include "doctor/probes.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "doctor/export_trial.h"
#include "doctor/peers.h"
#include "facts/read.h"
#include "topology/told.h"

namespace sluice::doctor {
namespace {

constexpr const char* cuda_library = "libcuda.so.1";
constexpr int most_devices = 64;
constexpr const char* soft_gpu_marker = "cuSluiceSoftGpuVersion";
// The first program on a machine of eight GPUs without nvidia-persistenced waits longer: that is told as hanging then,
// and asking again helps.
constexpr std::chrono::milliseconds cuda_patience{1500};
constexpr std::chrono::milliseconds export_patience{5000};  // of one that was asked for by name

struct Attribute {
  const char* word;
  int number;  // of CUdevice_attribute
};
constexpr std::array attributes{
    Attribute{"ecc", 32},     Attribute{"integrated", 18}, Attribute{"rdma", 116},      Attribute{"ordering", 118},
    Attribute{"dmabuf", 124}, Attribute{"pageable", 88},   Attribute{"concurrent", 89}, Attribute{"hosttables", 100},
};

template <typename Function>
Function function_of(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

void ask_device(void* library, int ordinal, std::string& text) {
  const auto attribute = function_of<int (*)(int*, int, int)>(library, "cuDeviceGetAttribute");
  const auto name_of_device = function_of<int (*)(char*, int, int)>(library, "cuDeviceGetName");
  const auto address_of_device = function_of<int (*)(char*, int, int)>(library, "cuDeviceGetPCIBusId");
  std::array<char, 256> name{};
  std::array<char, 32> address{};
  if (attribute == nullptr || name_of_device == nullptr || address_of_device == nullptr) return;
  name_of_device(name.data(), static_cast<int>(name.size()), ordinal);
  address_of_device(address.data(), static_cast<int>(address.size()), ordinal);
  text += fmt::format("device {} {}", ordinal, address.data());
  for (const Attribute& wanted : attributes) {
    int value = 0;
    if (attribute(&value, wanted.number, ordinal) == 0) text += fmt::format(" {}={}", wanted.word, value);
  }
  text += fmt::format(" name={}\n", name.data());
}

// How many devices there are comes along.
std::string ask_driver(void* library, int& devices) {
  if (library == nullptr) return "cuda missing\n";
  const auto init = function_of<int (*)(unsigned)>(library, "cuInit");
  const auto count = function_of<int (*)(int*)>(library, "cuDeviceGetCount");
  const auto version = function_of<int (*)(int*)>(library, "cuDriverGetVersion");
  const auto error_name = function_of<int (*)(int, const char**)>(library, "cuGetErrorName");
  if (init == nullptr || count == nullptr || version == nullptr) return "cuda missing\n";
  std::string text = dlsym(library, soft_gpu_marker) != nullptr ? "cuda_is_soft 1\n" : "";
  if (const int result = init(0); result != 0) {
    const char* name = nullptr;
    if (error_name == nullptr || error_name(result, &name) != 0 || name == nullptr) name = "";
    return text + fmt::format("cuda {} {}\n", result, name);
  }
  int number = 0;
  count(&devices);
  version(&number);
  text += fmt::format("cuda 0\ncuda_version {}\ndevices {}\n", number, devices);
  for (int i = 0; i < std::min(devices, most_devices); ++i) ask_device(library, i, text);
  return text;
}

void tell(int fd, const std::string& text) {
  [[maybe_unused]] const ssize_t written = write(fd, text.data(), text.size());
}

// In the child. What comes first is known even where what comes later hangs.
void ask_cuda(int answers, bool exports) {
  void* const library = dlopen(cuda_library, RTLD_NOW);
  int devices = 0;
  tell(answers, ask_driver(library, devices));
  if (devices > 1) tell(answers, ask_peers(library, std::min(devices, most_devices)));
  for (int i = 0; exports && i < std::min(devices, most_devices); ++i) tell(answers, ask_export(library, i));
}

// What was said before time was up, and whether it was.
std::pair<std::string, bool> read_for_a_while(int fd, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  std::string text;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd source{fd, POLLIN, 0};
    const int ready = left > 0 ? poll(&source, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return {text.empty() ? "cuda hangs\n" : text, true};
    std::array<char, 4096> piece{};
    const ssize_t got = read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {text, false};
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

std::string try_cuda(bool exports, std::chrono::milliseconds patience) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    // The driver prints what people need not read here.
    const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    ask_cuda(ends[1], exports);
    _exit(0);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return {};
  }
  auto [text, late] = read_for_a_while(ends[0], patience);
  close(ends[0]);
  kill(child, SIGKILL);
  if (late && exports) text += "export_late 1\n";
  // A child that the driver keeps in the kernel cannot be waited for; it is gone when the driver lets go.
  int status = 0;
  waitpid(child, &status, late ? WNOHANG : 0);
  if (text.empty()) text = "cuda crashes\n";
  return text;
}

struct RingForm {
  const char* word;
  unsigned flags;
};
// Numbers in place of names that older headers lack: SINGLE_ISSUER is 1<<12, DEFER_TASKRUN 1<<13.
constexpr std::array ring_forms{
    RingForm{"plain", 0},
    RingForm{"iopoll", IORING_SETUP_IOPOLL},
    RingForm{"sqpoll", IORING_SETUP_SQPOLL},
    RingForm{"defer_taskrun", 1U << 12 | 1U << 13},
};

std::string try_rings() {
  std::string text;
  for (const RingForm& form : ring_forms) {
    io_uring_params parameters{};
    parameters.flags = form.flags;
    const long fd = syscall(__NR_io_uring_setup, 4, &parameters);
    const int error = fd < 0 ? errno : 0;
    if (fd >= 0) close(static_cast<int>(fd));
    const char* const name = fd >= 0 ? "ok" : strerrorname_np(error);
    text += fmt::format("uring {} {}\n", form.word, name != nullptr ? name : std::to_string(error));
  }
  return text;
}

std::string limits() {
  rlimit lock{};
  getrlimit(RLIMIT_MEMLOCK, &lock);
  return fmt::format("memlock {}\n", lock.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(lock.rlim_cur));
}

// The variables that programs, toolkits and the library look at; never another one.
std::string variables() {
  constexpr std::array<std::string_view, 6> wanted = {"CUFILE_",
                                                      "SLUICE_",
                                                      "NVIDIA_GDS=",
                                                      "NVIDIA_VISIBLE_DEVICES=",
                                                      "NVIDIA_DRIVER_CAPABILITIES=",
                                                      "KUBERNETES_SERVICE_PORT="};
  std::string text;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view one = *variable;
    if (contains(one, "\n")) continue;
    for (const std::string_view prefix : wanted) {
      if (one.starts_with(prefix)) text += fmt::format("env {}\n", one);
    }
  }
  return text;
}

}  // namespace

Probes::Probes(const std::string& text) : text_(text) {
  for (const std::string& line : split(text, '\n')) {
    const std::size_t blank = line.find(' ');
    lines_.emplace(line.substr(0, blank), blank == std::string::npos ? "" : line.substr(blank + 1));
  }
}

std::string Probes::get(const std::string& key) const {
  const auto [first, last] = lines_.equal_range(key);
  return first == last ? std::string() : std::prev(last)->second;
}

std::vector<std::string> Probes::all(const std::string& key) const {
  std::vector<std::string> found;
  const auto [first, last] = lines_.equal_range(key);
  for (auto line = first; line != last; ++line) found.push_back(line->second);
  return found;
}

std::string try_probes(Exports exports) {
  // Memory of the GPU is asked for where a card could use it.
  const bool asked = exports == Exports::always;
  const bool tries = asked || !facts::list_names("/sys/class/infiniband").empty();
  utsname machine{};
  uname(&machine);
  return fmt::format("arch {}\nuid {}\n", machine.machine, getuid()) +
         try_cuda(tries, asked ? export_patience : cuda_patience) + try_rings() + limits() + variables() +
         topology::to_lines({.addresses = topology::own_addresses()});
}

Probes probes_of(const Tree& tree, Exports exports) {
  if (!tree.is_the_machine()) return Probes(tree.text("/sluice/probes"));
  static const std::string answers = try_probes(exports);
  return Probes(answers);
}

std::string kernel_log() {
  constexpr int read_all = 3;
  constexpr int size_of_log = 10;
  const int size = klogctl(size_of_log, nullptr, 0);
  if (size <= 0) return {};
  std::string whole(static_cast<std::size_t>(size), '\0');
  const int length = klogctl(read_all, whole.data(), size);
  if (length <= 0) return {};
  whole.resize(static_cast<std::size_t>(length));
  constexpr std::array<std::string_view, 9> wanted = {"nvidia", "NVRM",   "nvfs",  "nvme",    "p2pdma",
                                                      "DMAR",   "AMD-Vi", "iommu", "pcieport"};
  std::string text;
  for (const std::string& line : split(whole, '\n')) {
    const bool wants = std::any_of(wanted.begin(), wanted.end(), [&line](auto word) { return contains(line, word); });
    if (wants) text.append(line).append("\n");
  }
  return text;
}

}  // namespace sluice::doctor
