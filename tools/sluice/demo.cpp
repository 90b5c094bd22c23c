// SPDX-License-Identifier: Apache-2.0
// `sluice demo`: a file into GPU memory, through the public cuFile API, checked byte for byte and told in a screenful.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "common/driver.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/registered_file.h"
#include "common/text.h"
#include "sluice/commands.h"

namespace sluice::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t piece = 16u << 20;  // of writing, reading and comparing
constexpr std::size_t grain = 4096;       // sizes are multiples of it
constexpr std::uint64_t smallest = 1u << 20;

// Bytes that differ from offset to offset, so that a piece in the wrong place is noticed.
void fill_pattern(std::vector<std::uint64_t>& words, std::uint64_t offset) {
  std::uint64_t index = offset / sizeof(std::uint64_t);
  for (std::uint64_t& word : words) {
    std::uint64_t x = ++index * 0x9E3779B97F4A7C15ull;
    x ^= x >> 29;
    word = x * 0xBF58476D1CE4E5B9ull;
  }
}

std::string folder_for(const std::string& asked) {
  if (!asked.empty()) return asked;
  const char* temporary = std::getenv("TMPDIR");
  for (const char* candidate : {".", temporary, "/tmp"}) {
    if (candidate != nullptr && access(candidate, W_OK | X_OK) == 0) return candidate;
  }
  throw ToolError("Neither the current folder nor a temporary one can be written.", "Name one with --dir.");
}

// What was asked for, or what a nearly full file system leaves: a quarter of it.
std::uint64_t fitting_size(const std::string& folder, std::uint64_t asked) {
  if (asked == 0) throw ToolError("--size 0 leaves nothing to show.", "Ask for 1M or more.", 2);
  const std::uint64_t rounded = (asked + grain - 1) / grain * grain;
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) != 0) {
    throw ToolError(fmt::format("{} cannot be used: {}.", printable(folder), system_words(errno)),
                    "Name a folder that exists with --dir.");
  }
  if ((space.f_flag & ST_RDONLY) != 0) {
    throw ToolError(fmt::format("No file can be made in {}: {}.", printable(folder), system_words(EROFS)),
                    "Name a folder that you can write with --dir.");
  }
  const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  if (rounded <= free / 2) return rounded;
  if (free / 4 >= smallest) return std::max<std::uint64_t>(free / 4 / grain * grain, smallest);
  throw ToolError(fmt::format("{} has {} left, and twice the size is wanted.", printable(folder), format_bytes(free)),
                  fmt::format("Make room for {}, or name a folder on another file system with --dir.",
                              format_bytes(std::min(2 * rounded, 4 * smallest))));
}

// A file without a name: it goes with the process, whatever ends that.
class NamelessFile {
 public:
  explicit NamelessFile(const std::string& folder) : folder_(folder) {
    fd_ = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd_ < 0) fd_ = make_and_unlink();
    if (fd_ >= 0) return;
    throw ToolError(fmt::format("No file can be made in {}: {}.", printable(folder), system_words(errno)),
                    "Name a folder that you can write with --dir.");
  }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;
  ~NamelessFile() { close(fd_); }

  // By which it can be opened anew.
  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }

  void write_pattern(std::uint64_t size) const {
    std::vector<std::uint64_t> words;
    for (std::uint64_t at = 0; at < size; at += piece) {
      words.resize(std::min<std::uint64_t>(piece, size - at) / sizeof(std::uint64_t));
      fill_pattern(words, at);
      write_all(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(std::uint64_t));
    }
    // Out of the page cache, where the file system has another place: the read shall come from storage.
    fdatasync(fd_);
    posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  }

 private:
  void write_all(const char* bytes, std::size_t left) const {
    while (left > 0) {
      const ssize_t written = write(fd_, bytes, left);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        throw ToolError(fmt::format("The file in {} cannot be written: {}.", printable(folder_), system_words(errno)),
                        "Name a folder on another file system with --dir, or a smaller --size.");
      }
      bytes += written;
      left -= static_cast<std::size_t>(written);
    }
  }

  // For file systems without O_TMPFILE, as NFS. No signal comes while the file has a name.
  int make_and_unlink() const {
    std::string path = folder_ + "/sluice-demo-XXXXXX";
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const int fd = mkostemp(path.data(), O_CLOEXEC);
    const int error = errno;
    if (fd >= 0) unlink(path.c_str());
    sigprocmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return fd;
  }

  std::string folder_;
  int fd_ = -1;
};

// Device memory known to cuFile for as long as this lives.
class RegisteredMemory {
 public:
  RegisteredMemory(void* address, std::size_t size) : address_(address) {
    check(cuFileBufRegister(address, size, 0), "the device memory cannot be registered");
  }
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  ~RegisteredMemory() { cuFileBufDeregister(address_); }

 private:
  void* address_;
};

// What a first read costs once in a process, such as pinned memory, is no part of the throughput.
void warm_up(const RegisteredFile& file, const DeviceMemory& memory) {
  cuFileRead(file.handle(), memory.address(), grain, 0, 0);
}

// Returns the seconds that it took.
double read_all(const RegisteredFile& file, const DeviceMemory& memory, std::uint64_t size) {
  const auto begin = Clock::now();
  for (std::uint64_t at = 0; at < size;) {
    const std::uint64_t wanted = std::min<std::uint64_t>(piece, size - at);
    const auto place = static_cast<off_t>(at);
    const ssize_t count = cuFileRead(file.handle(), memory.address(), wanted, place, place);
    if (count <= 0) {
      const int error = errno;
      const std::string words = count == 0             ? "the file ended too early"
                                : IS_CUFILE_ERR(error) ? CUFILE_ERRSTR(error)
                                                       : system_words(error);
      throw ToolError(fmt::format("cuFileRead failed at offset {}: {}.", at, words), "Try another folder with --dir.");
    }
    at += static_cast<std::uint64_t>(count);
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void verify(const DeviceMemory& memory, std::uint64_t size) {
  std::vector<std::uint64_t> expected;
  std::vector<std::uint64_t> found;
  for (std::uint64_t at = 0; at < size; at += piece) {
    const std::size_t count = std::min<std::uint64_t>(piece, size - at) / sizeof(std::uint64_t);
    expected.resize(count);
    found.resize(count);
    fill_pattern(expected, at);
    memory.copy_to(found.data(), at, count * sizeof(std::uint64_t));
    const auto [here, there] = std::mismatch(expected.begin(), expected.end(), found.begin());
    if (here == expected.end()) continue;
    const auto offset = at + static_cast<std::uint64_t>(here - expected.begin()) * sizeof(std::uint64_t);
    throw ToolError(fmt::format("The device memory differs from the file, first near offset {}.", offset),
                    "This must not happen: please report it, with the output of `sluice version`.");
  }
}

struct Story {
  std::string device;
  std::uint64_t size = 0;
  bool size_was_cut = false;
  bool direct = false;
  double seconds = 0;
  sluice_explanation_t words{};
};

Story perform(const DemoOptions& options) {
  Story story;
  const std::string folder = folder_for(options.directory);
  const std::uint64_t asked = size_option("--size", options.size);
  story.size = fitting_size(folder, asked);
  story.size_was_cut = story.size < asked;

  DeviceMemory memory(options.gpu, story.size);
  story.device = describe_device(options.gpu);
  const NamelessFile nameless(folder);
  nameless.write_pattern(story.size);
  const RegisteredFile file(nameless.path(), Access::read_only);
  const RegisteredMemory registration(memory.address(), story.size);

  story.direct = file.direct();
  story.words = file.explain(memory.address(), options.gpu, CUFILE_READ, story.size, 0);
  warm_up(file, memory);
  memory.fill(0xA5);
  story.seconds = read_all(file, memory, story.size);
  verify(memory, story.size);
  return story;
}

// How to call this tool from here, in as few letters as possible.
std::string own_name(const Layout& files) {
  std::error_code error;
  const std::string relative = std::filesystem::relative(files.tool, error).string();
  return !error && relative.size() < files.tool.size() ? relative : files.tool;
}

void print_text(const Driver& driver, const Layout& files, const Story& story) {
  const bool soft = driver.kind == DriverKind::soft;
  fmt::print("Sluice {}: a file into GPU memory, through the cuFile API\n\n", sluice_version());
  if (soft) {
    fmt::print("  device      {} (no hardware: {})\n", story.device, driver.why_not_real);
  } else {
    fmt::print("  device      {} (real)\n", story.device);
  }
  fmt::print("  library     {}\n", files.library);
  fmt::print("  file system {}\n", printable(story.words.detail));
  fmt::print("  path        {}\n", story.words.path_name);
  fmt::print("  reason      {}: {}\n", story.words.reason_name, story.words.sentence);
  fmt::print("  remedy      {}\n", story.words.remedy);
  fmt::print("  read        {} in {:.1f} ms: {}{}\n", format_bytes(story.size), story.seconds * 1e3,
             format_rate(story.size, story.seconds),
             soft ? " (soft: the CPU copies, this says nothing about a GPU)" : "");
  if (story.size_was_cut) fmt::print("              (fewer bytes than asked: the file system is nearly full)\n");
  fmt::print("  verified    every byte in device memory equals the file\n\n");
  const std::string tool = own_name(files);
  fmt::print("What to try next:\n");
  fmt::print("  {} explain FILE           which way the bytes of your file go, and why\n", tool);
  fmt::print("  {} run --explain -- CMD   run any cuFile program on this library\n", tool);
  fmt::print("  {} demo --dir /dev/shm    the same on another file system\n", tool);
}

void print_json(const Driver& driver, const Layout& files, const Story& story) {
  nlohmann::ordered_json json;
  json["sluice"] = sluice_version();
  json["library"] = files.library;
  json["driver"] = driver_kind_name(driver.kind);
  json["device"] = story.device;
  json["soft"] = driver.kind == DriverKind::soft;
  json["file_system"] = story.words.detail;
  json["direct"] = story.direct;
  json["path"] = story.words.path_name;
  json["reason"] = story.words.reason_name;
  json["sentence"] = story.words.sentence;
  json["remedy"] = story.words.remedy;
  json["bytes"] = story.size;
  json["seconds"] = story.seconds;
  json["verified"] = true;
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int demo_command(const DemoOptions& options) {
  const Driver& driver = choose_driver();
  const Layout files = layout();
  check(cuFileDriverOpen(), "the cuFile driver cannot be opened");
  const Story story = perform(options);
  if (options.output == Output::json) {
    print_json(driver, files, story);
  } else {
    print_text(driver, files, story);
  }
  check(cuFileDriverClose(), "the cuFile driver cannot be closed");
  return 0;
}

}  // namespace sluice::tools
