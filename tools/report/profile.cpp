// SPDX-License-Identifier: Apache-2.0
// Everything goes by the public interface. The ways are those that SLUICE_COPY and SLUICE_DISK_READS choose from, so
// the driver is opened anew for each. The files are this tool's own, and are removed.
#include "report/profile.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "common/driver.h"
#include "common/error.h"
#include "common/gpu.h"
#include "common/output_file.h"
#include "common/registered_file.h"
#include "common/text.h"
#include "common/written.h"
#include "cufile.h"
#include "doctor/places.h"
#include "report/drives.h"
#include "report/measure.h"
#include "report/profile_text.h"
#include "report/read_file.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int form = 1;
constexpr std::size_t piece = std::size_t{16} << 20;

// Tells where it has come to, and keeps what could not be done in time.
class Course {
 public:
  explicit Course(double limit) : budget_(limit) {}
  const Budget& budget() const { return budget_; }
  bool begins(const std::string& what) {
    if (budget_.is_spent()) {
      leaves_out(what);
      return false;
    }
    if (isatty(STDERR_FILENO) == 1) {
      tell("\rsluice: measuring {}\x1b[K", printable(what));
      std::fflush(stderr);
      shown_ = true;
    }
    return true;
  }
  void was_cut(const std::string& what) {
    if (budget_.is_spent()) leaves_out(what);
  }
  void leaves_out(const std::string& what) { left_out_.push_back(what); }
  const std::vector<std::string>& left_out() const { return left_out_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Course(const Course&) = delete;
  Course& operator=(const Course&) = delete;
  ~Course() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }

 private:
  Budget budget_;
  Clock::time_point begin_ = Clock::now();
  std::vector<std::string> left_out_;
  bool shown_ = false;
};

Json measure_link(const Gpu& gpu, double seconds, Course& course) {
  constexpr std::size_t size = std::size_t{64} << 20;
  const auto host = make_memory(MemoryKind::pinned, &gpu, size);
  const auto device = make_memory(MemoryKind::device, &gpu, size);
  const GpuStream stream(gpu);
  const auto copy = [&](bool in) {
    for (int i = 0; i < 2; ++i) {
      if (in) {
        gpu.copy_to_device(device->address(), host->address(), size, stream.get());
      } else {
        gpu.copy_to_host(host->address(), device->address(), size, stream.get());
      }
    }
    stream.wait();
    return 2 * size;
  };
  Json measured = Json::object();
  for (const auto& [in, name] : {std::pair{true, "to_device_gib_per_s"}, std::pair{false, "from_device_gib_per_s"}}) {
    const std::string what = fmt::format("link of GPU {}: {}", gpu.ordinal(), in ? "to the device" : "from it");
    if (!course.begins(what)) continue;
    if (const auto speed = speed_of([&, in = in] { return copy(in); }, 2 * size, seconds, course.budget())) {
      measured[name] = *speed;
    } else {
      course.was_cut(what);
    }
  }
  return measured;
}

constexpr std::size_t mebibyte = std::size_t{1} << 20;

// What is free in a folder for this process; nothing where that is not told.
std::optional<std::uint64_t> room_in(const std::string& folder) {
  struct statvfs about {};
  if (statvfs(folder.c_str(), &about) != 0 || about.f_blocks == 0) return std::nullopt;
  return static_cast<std::uint64_t>(about.f_bavail) * about.f_frsize;
}

ToolError no_room(const std::string& folder, std::size_t size) {
  const std::uint64_t half = room_in(folder).value_or(0) / 2 / mebibyte;
  const std::string fits = fmt::format("Choose a smaller size: --size {}M.", half);
  return {fmt::format("{} has no room for {}.", printable(folder), format_bytes(size)),
          half > 0 && half < size / mebibyte ? fits : "Make room there, or name a folder on another file system."};
}

// What is too small is over before it can be timed.
std::size_t size_of_files(const ProfileOptions& options) {
  const std::uint64_t size = size_option("--size", options.size);
  if (size < mebibyte) {
    throw ToolError(fmt::format("--size {}: files of less than 1 MiB tell no speed.", printable(options.size)),
                    "Write at least 1M; 256M is taken without --size.", 2);
  }
  return size;
}

// Before anything is measured: what has been named wrongly shall cost no minutes.
void want_folder(const std::string& folder, std::size_t size) {
  struct stat about {};
  const bool is_there = stat(folder.c_str(), &about) == 0;
  if (!is_there || !S_ISDIR(about.st_mode)) {
    throw ToolError(
        fmt::format("{} cannot be measured: {}.", printable(folder), system_words(is_there ? ENOTDIR : errno)),
        "Name folders that are there.");
  }
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    throw ToolError(fmt::format("No file can be made in {}: {}.", printable(folder), system_words(errno)),
                    "Name folders that you may write to.");
  }
  if (room_in(folder).value_or(size) < size) throw no_room(folder, size);
}

// The file at hand goes, too, where the user does not want to wait for the end.
std::atomic<const char*> file_at_hand{nullptr};

void leave_nothing(int signal) {
  if (const char* const name = file_at_hand.load()) unlink(name);
  _exit(128 + signal);
}

// A file of our own in a folder, gone with this.
class ProfileFile {
 public:
  ProfileFile(const std::string& folder, std::size_t size) : name_(folder + "/sluice-profile-XXXXXX"), size_(size) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, leave_nothing);
    file_at_hand = name_.c_str();
    const int fd = mkostemp(name_.data(), O_CLOEXEC);
    if (fd < 0) {
      file_at_hand = nullptr;
      throw ToolError(fmt::format("No file can be made in {}: {}.", printable(folder), system_words(errno)),
                      "Name folders that you may write to.");
    }
    const int why = posix_fallocate(fd, 0, static_cast<off_t>(size));
    close(fd);
    if (why == 0) return;
    remove();
    if (why == ENOSPC) throw no_room(folder, size);
    throw ToolError(fmt::format("{} cannot hold {}: {}.", printable(folder), format_bytes(size), system_words(why)),
                    "Choose a smaller size (--size), or name another folder.");
  }
  ProfileFile(const ProfileFile&) = delete;
  ProfileFile& operator=(const ProfileFile&) = delete;
  ~ProfileFile() { remove(); }
  const std::string& name() const noexcept { return name_; }
  std::size_t size() const noexcept { return size_; }

 private:
  void remove() {
    unlink(name_.c_str());
    file_at_hand = nullptr;
  }

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

// One folder: what is asked of all of its measurements.
class Folder {
 public:
  Folder(const std::string& name, const TransferMemory& memory, const ProfileOptions& options, Course& course)
      : name_(name), memory_(memory), seconds_(options.seconds), course_(course), file_(name, size_of_files(options)) {}

  // GiB/s of transfers from one end of the file to the other and over again; nothing where the file system does not
  // take these flags, or time is up.
  std::optional<double> speed(Does does, const Way& way, int flags) {
    const std::string what = fmt::format("{}: {}{} by {}", name_, (flags & O_DIRECT) != 0 ? "O_DIRECT " : "",
                                         does == Does::read ? "reads" : "writes", way.value);
    if (!course_.begins(what)) return std::nullopt;
    const Opened opened(file_.name(), way, flags);
    if (!opened) return std::nullopt;
    std::size_t at = 0;
    const auto step = [&]() -> std::uint64_t {
      const std::size_t size = std::min(piece, file_.size() - at);
      const auto offset = static_cast<off_t>(at);
      const ssize_t moved = does == Does::read ? cuFileRead(opened.handle(), memory_.address(), size, offset, 0)
                                               : cuFileWrite(opened.handle(), memory_.address(), size, offset, 0);
      at = at + size < file_.size() ? at + size : 0;
      return moved == static_cast<ssize_t>(size) ? size : 0;
    };
    const auto found = speed_of(step, file_.size(), seconds_, course_.budget());
    if (!found) course_.was_cut(what);
    return found;
  }
  const ProfileFile& file() const noexcept { return file_; }

 private:
  const std::string& name_;
  const TransferMemory& memory_;
  double seconds_;
  Course& course_;
  ProfileFile file_;
};

// What is below, as far as the machine tells.
doctor::Place place_of(const ProfileFile& file) {
  const int fd = open(file.name().c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  doctor::Place place = doctor::place_of(fd);
  close(fd);
  return place;
}

Json measure_folder(const std::string& name, const TransferMemory& memory, const ProfileOptions& options,
                    Course& course) {
  Folder folder(name, memory, options, course);
  const doctor::Place place = place_of(folder.file());
  Json measured{{"folder", name}, {"mount", place.mount}, {"file_system", place.file_system}, {"drives", place.drives}};
  const auto put = [&](const char* key, std::optional<double> speed) {
    if (speed && *speed > 0) measured[key] = *speed;
  };
  put("write_gib_per_s", folder.speed(Does::write, {}, O_RDWR));
  put("direct_write_gib_per_s", folder.speed(Does::write, {}, O_RDWR | O_DIRECT));
  const auto compare = [&](const char* variable, std::initializer_list<const char*> values, int flags,
                           const char* speeds, const char* chosen) {
    const KeptVariable kept(variable);
    double best = 0;
    for (const char* value : values) {
      const auto speed = folder.speed(Does::read, {variable, value}, flags);
      if (!speed || *speed <= 0) continue;
      measured[speeds][value] = *speed;
      // A way has to be clearly quicker than what the library chooses by itself.
      if (*speed > best * (best > 0 ? 1.05 : 1)) {
        best = *speed;
        measured[chosen] = value;
      }
    }
    // Where time was up, it is not known which one would have been best.
    if (course.budget().is_spent()) measured.erase(chosen);
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
    const RegisteredFile registered(folder.file().name(), Access::read_only);
    const sluice_explanation_t why = registered.explain(nullptr, options.gpu, CUFILE_READ, piece, 0);
    measured["path"] = sluice_path_name(why.path);
    measured["reason"] = sluice_reason_name(why.reason);
  }
  return measured;
}

// Each drive below the folders, once.
Json measure_drives(const Json& folders, double seconds, Course& course) {
  Json measured = Json::array();
  std::set<std::string> seen;
  for (const Json& folder : folders) {
    for (const Json& drive : folder["drives"]) {
      const auto name = drive.get<std::string>();
      if (seen.insert(name).second && course.begins("drive " + name)) {
        measured.push_back(measure_drive(name, seconds, course.budget()));
      }
    }
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

std::string full_name(const std::string& file) {
  std::error_code ignored;
  return printable(std::filesystem::absolute(file, ignored).string());
}

}  // namespace

Json measure_profile(const ProfileOptions& options, bool& has_failed) {
  has_failed = false;
  const std::size_t size = size_of_files(options);
  for (const std::string& folder : options.folders) want_folder(folder, size);
  const Driver& driver = choose_driver();
  want_device(options.gpu);
  std::vector<std::string> folders = options.folders;
  if (options.all) {
    // Twice the file: to fill a disk of others is no measurement.
    for (std::string& folder : doctor::folders_with_storage(2 * size)) {
      if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(std::move(folder));
    }
  }
  Course course(options.limit);
  Json profile{{"sluice_profile", form},
               {"date", date()},
               {"machine", doctor::machine_number()},
               {"library", sluice_version()},
               {"device", describe_device(options.gpu)},
               {"soft", driver.kind == DriverKind::soft}};
  const KeptVariable kept(Way{}.variable);
  profile["links"] = Json::array();
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    const Gpu gpu(ordinal);
    gpu.enter();
    const Json link = measure_link(gpu, options.seconds, course);
    if (ordinal == options.gpu) profile["link"] = link;
    Json entry{{"gpu", ordinal}, {"device", describe_device(ordinal)}};
    entry.update(link);
    profile["links"].push_back(std::move(entry));
  }
  const Gpu gpu(options.gpu);
  gpu.enter();
  const auto memory = make_memory(MemoryKind::device, &gpu, piece);
  profile["folders"] = Json::array();
  for (const std::string& folder : folders) {
    if (!course.begins(folder)) continue;
    try {
      profile["folders"].push_back(measure_folder(folder, *memory, options, course));
    } catch (const ToolError& error) {
      // One folder is not worth all that was measured before.
      course.leaves_out(fmt::format("{}: {}", folder, error.what()));
      has_failed |= std::find(options.folders.begin(), options.folders.end(), folder) != options.folders.end();
    }
  }
  profile["drives"] = measure_drives(profile["folders"], options.seconds, course);
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
  profile["left_out"] = course.left_out();
  profile["seconds"] = rounded(course.seconds());
  return profile;
}

int profile_command(const ProfileOptions& options) {
  choose_driver();  // this program may begin anew there: no pipe was opened then, whose reader would take that for its
                    // end
  std::optional<OutputFile> output;
  if (!options.output.empty()) output.emplace(options.output, "The profile");
  bool has_failed = false;
  const Json profile = measure_profile(options, has_failed);
  const std::string text = profile.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::optional<ToolError> lost;
  try {
    if (output) output->write(text);
  } catch (const ToolError& error) {
    lost = error;  // what took minutes is shown all the same
  }
  const std::string kept = lost ? "kept nowhere"
                           : options.output.empty()
                               ? "kept nowhere: -o FILE keeps it"
                               : fmt::format("kept in {0}; a program takes what was quickest with SLUICE_PROFILE={0}",
                                             full_name(options.output));
  const auto read = std::count_if(profile["drives"].begin(), profile["drives"].end(),
                                  [](const Json& drive) { return !drive.contains("why"); });
  tell("sluice: links: {}, folders: {}, drives: {}, measured in {:.0f} s; {}\n", profile["links"].size(),
       profile["folders"].size(), read, profile.value("seconds", 0.0), kept);
  fmt::print("{}", options.json ? text : profile_text(profile));
  if (lost) throw *lost;
  return has_failed ? 1 : 0;
}

Json read_profile(const std::string& file) {
  constexpr const char* remedy = "Make one: sluice profile -o FILE DIR...";
  const std::string text = read_file(file, remedy);
  Json profile = Json::parse(text, nullptr, false);
  if (profile.is_object() && profile.value("sluice_profile", 0) == form && profile.contains("link") &&
      profile["link"].is_object() && profile.contains("folders") && profile["folders"].is_array()) {
    return profile;
  }
  throw ToolError(fmt::format("{} is no profile of this version.", printable(file)), remedy);
}

}  // namespace sluice::tools
