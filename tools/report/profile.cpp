// SPDX-License-Identifier: Apache-2.0
// Everything goes by the public interface. The ways are those that SLUICE_COPY and SLUICE_DISK_READS choose from, so
// the driver is opened anew for each. The files are this tool's own, and are removed.
#include "report/profile.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "common/driver.h"
#include "common/error.h"
#include "common/gpu.h"
#include "common/registered_file.h"
#include "common/text.h"
#include "cufile.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int form = 1;
constexpr std::size_t piece = std::size_t{16} << 20;

// GiB/s of something that moves so many bytes each time, done for that long and at least twice. The first time is not
// counted.
template <typename Work>
double speed_of(double seconds, std::size_t bytes, const Work& work) {
  work();
  const auto begin = Clock::now();
  std::size_t times = 0;
  std::chrono::duration<double> took{};
  do {
    work();
    ++times;
    took = Clock::now() - begin;
  } while (took.count() < seconds || times < 2);
  return static_cast<double>(bytes) * static_cast<double>(times) / took.count() / (1 << 30);
}

double rounded(double value) {
  return std::stod(fmt::format("{:.4g}", value));
}

Json measure_link(const Gpu& gpu, double seconds) {
  constexpr std::size_t size = std::size_t{64} << 20;
  const auto host = make_memory(MemoryKind::pinned, &gpu, size);
  const auto device = make_memory(MemoryKind::device, &gpu, size);
  const GpuStream stream(gpu);
  const auto copied = [&](bool in) {
    return rounded(speed_of(seconds, 2 * size, [&] {
      for (int i = 0; i < 2; ++i) {
        if (in) {
          gpu.copy_to_device(device->address(), host->address(), size, stream.get());
        } else {
          gpu.copy_to_host(host->address(), device->address(), size, stream.get());
        }
      }
      stream.wait();
    }));
  };
  return {{"to_device_gib_per_s", copied(true)}, {"from_device_gib_per_s", copied(false)}};
}

// A file of our own in a folder, gone with this.
class ProfileFile {
 public:
  ProfileFile(const std::string& folder, std::size_t size) : name_(folder + "/sluice-profile-XXXXXX"), size_(size) {
    const int fd = mkostemp(name_.data(), O_CLOEXEC);
    if (fd < 0) {
      throw ToolError(fmt::format("No file can be made in {}: {}.", printable(folder), system_words(errno)),
                      "Name folders that you may write to.");
    }
    const bool has_room = posix_fallocate(fd, 0, static_cast<off_t>(size)) == 0;
    close(fd);
    if (has_room) return;
    unlink(name_.c_str());
    throw ToolError(fmt::format("{} has no room for {}.", printable(folder), format_bytes(size)),
                    "Choose a smaller size: --size 64M.");
  }
  ProfileFile(const ProfileFile&) = delete;
  ProfileFile& operator=(const ProfileFile&) = delete;
  ~ProfileFile() { unlink(name_.c_str()); }
  const std::string& name() const noexcept { return name_; }
  std::size_t size() const noexcept { return size_; }

 private:
  std::string name_;
  std::size_t size_;
};

// A variable that chooses, and what it says.
struct Way {
  const char* variable = "SLUICE_COPY";
  const char* value = "auto";
};

// A variable of the environment as it was, once this has gone.
class KeptVariable {
 public:
  explicit KeptVariable(const char* name) : name_(name) {
    if (const char* const before = std::getenv(name)) value_ = before;
  }
  KeptVariable(const KeptVariable&) = delete;
  KeptVariable& operator=(const KeptVariable&) = delete;
  ~KeptVariable() {
    if (value_) {
      setenv(name_, value_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> value_;
};

// The driver, opened with this way, and the file, registered.
class Opened {
 public:
  Opened(const std::string& file, const Way& way, int flags) {
    setenv(way.variable, way.value, 1);
    check(cuFileDriverOpen(), "the driver cannot be opened");
    fd_ = open(file.c_str(), flags | O_CLOEXEC);
    if (fd_ < 0) return;
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd_;
    if (cuFileHandleRegister(&handle_, &description).err != CU_FILE_SUCCESS) handle_ = nullptr;
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    if (handle_ != nullptr) cuFileHandleDeregister(handle_);
    if (fd_ >= 0) close(fd_);
    cuFileDriverClose();
  }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  CUfileHandle_t handle() const noexcept { return handle_; }

 private:
  int fd_ = -1;
  CUfileHandle_t handle_ = nullptr;
};

enum class Does : std::uint8_t { read, write };

// GiB/s over the whole file; nothing where the file system does not take these flags.
std::optional<double> speed_of_file(const ProfileFile& file, const TransferMemory& memory, Does does, const Way& way,
                                    int flags, double seconds) {
  const Opened opened(file.name(), way, flags);
  if (!opened) return std::nullopt;
  bool failed = false;
  const double speed = speed_of(seconds, file.size(), [&] {
    for (std::size_t at = 0; at < file.size() && !failed; at += piece) {
      const std::size_t size = std::min(piece, file.size() - at);
      const auto offset = static_cast<off_t>(at);
      const ssize_t moved = does == Does::read ? cuFileRead(opened.handle(), memory.address(), size, offset, 0)
                                               : cuFileWrite(opened.handle(), memory.address(), size, offset, 0);
      failed = moved != static_cast<ssize_t>(size);
    }
  });
  if (failed) return std::nullopt;
  return rounded(speed);
}

Json measure_folder(const std::string& folder, const TransferMemory& memory, const ProfileOptions& options) {
  const ProfileFile file(folder, size_option("--size", options.size));
  Json measured{{"folder", folder}};
  const auto put = [&](const char* name, std::optional<double> speed) {
    if (speed) measured[name] = *speed;
  };
  put("write_gib_per_s", speed_of_file(file, memory, Does::write, {}, O_RDWR, options.seconds));
  put("direct_write_gib_per_s", speed_of_file(file, memory, Does::write, {}, O_RDWR | O_DIRECT, options.seconds));
  const auto compare = [&](const char* variable, std::initializer_list<const char*> values, int flags,
                           const char* speeds, const char* chosen) {
    const KeptVariable kept(variable);
    double best = 0;
    for (const char* value : values) {
      const auto speed = speed_of_file(file, memory, Does::read, {variable, value}, flags, options.seconds);
      if (!speed) continue;
      measured[speeds][value] = *speed;
      // A way has to be clearly quicker than what the library chooses by itself.
      if (*speed > best * (best > 0 ? 1.05 : 1)) {
        best = *speed;
        measured[chosen] = value;
      }
    }
  };
  // Polling costs a thread of the kernel or a drive's queues: it is chosen by hand.
  compare("SLUICE_DISK_READS", {"auto", "threads", "io_uring"}, O_RDONLY | O_DIRECT, "direct_read_by_gib_per_s",
          "best_disk_reads");
  if (measured.contains("direct_read_by_gib_per_s")) {
    const Json& speeds = measured["direct_read_by_gib_per_s"];
    measured["direct_read_gib_per_s"] = speeds.value("auto", 0.0);
  }
  compare("SLUICE_COPY", {"auto", "kernel", "engine"}, O_RDONLY, "cached_read_gib_per_s", "best_copy");
  {
    const RegisteredFile registered(file.name(), Access::read_only);
    const sluice_explanation_t why = registered.explain(nullptr, options.gpu, CUFILE_READ, piece, 0);
    measured["path"] = sluice_path_name(why.path);
    measured["reason"] = sluice_reason_name(why.reason);
  }
  return measured;
}

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S%z", &local);
  return text.data();
}

std::string text_of(const Json& profile) {
  std::string text = fmt::format("{}: {:.2f} GiB/s to the device, {:.2f} from it\n", profile.value("device", ""),
                                 profile["link"].value("to_device_gib_per_s", 0.0),
                                 profile["link"].value("from_device_gib_per_s", 0.0));
  for (const Json& folder : profile["folders"]) {
    text +=
        fmt::format("{}: {} ({})", folder.value("folder", ""), folder.value("path", ""), folder.value("reason", ""));
    for (const char* name : {"direct_read_gib_per_s", "direct_write_gib_per_s", "write_gib_per_s"}) {
      if (folder.contains(name)) {
        const std::string word = name;
        text += fmt::format(", {} {:.2f}", word.substr(0, word.find("_gib")), folder[name].get<double>());
      }
    }
    for (const auto& [speeds, word, best] : {std::array{"direct_read_by_gib_per_s", "O_DIRECT", "best_disk_reads"},
                                             std::array{"cached_read_gib_per_s", "cached", "best_copy"}}) {
      if (!folder.contains(speeds)) continue;
      for (const auto& [way, speed] : folder[speeds].items()) {
        text += fmt::format(", {} by {} {:.2f}", word, way, speed.get<double>());
      }
      text += fmt::format("; best: {}", folder.value(best, ""));
    }
    text += '\n';
  }
  return text;
}

}  // namespace

Json measure_profile(const ProfileOptions& options) {
  const Driver& driver = choose_driver();
  want_device(options.gpu);
  Json profile{{"sluice_profile", form},
               {"date", date()},
               {"library", sluice_version()},
               {"device", describe_device(options.gpu)},
               {"soft", driver.kind == DriverKind::soft}};
  const KeptVariable kept(Way{}.variable);
  const Gpu gpu(options.gpu);
  gpu.enter();
  profile["link"] = measure_link(gpu, options.seconds);
  const auto memory = make_memory(MemoryKind::device, &gpu, piece);
  profile["folders"] = Json::array();
  for (const std::string& folder : options.folders) {
    fmt::print(stderr, "sluice: measuring in {}\n", printable(folder));
    profile["folders"].push_back(measure_folder(folder, *memory, options));
  }
  // What holds for the process as a whole: only where all folders agree, of those that could tell.
  profile["best"] = Json::object();
  for (const auto& [key, name] :
       {std::pair{"sluice.copy", "best_copy"}, std::pair{"sluice.disk_reads", "best_disk_reads"}}) {
    std::set<std::string> best;
    for (const Json& folder : profile["folders"]) {
      if (folder.contains(name)) best.insert(folder[name].get<std::string>());
    }
    if (best.size() == 1) profile["best"][key] = *best.begin();
  }
  return profile;
}

int profile_command(const ProfileOptions& options) {
  const Json profile = measure_profile(options);
  const std::string text = profile.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!options.output.empty()) {
    std::ofstream file(options.output, std::ios::binary);
    file << text;
    file.close();
    if (!file) {
      throw ToolError(fmt::format("The profile cannot be written to {}.", printable(options.output)),
                      "Choose another place.");
    }
  }
  fmt::print("{}", options.json ? text : text_of(profile));
  return 0;
}

Json read_profile(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  Json profile = Json::parse(text, nullptr, false);
  if (profile.is_object() && profile.value("sluice_profile", 0) == form && profile.contains("link") &&
      profile["link"].is_object() && profile.contains("folders") && profile["folders"].is_array()) {
    return profile;
  }
  throw ToolError(fmt::format("{} is no profile of this version.", printable(file)),
                  "Make one: sluice profile -o FILE DIR...");
}

}  // namespace sluice::tools
