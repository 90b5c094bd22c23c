// SPDX-License-Identifier: Apache-2.0
// One read of up to 1 MiB by cuFileRead, beside one by pread.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "common/driver.h"
#include "common/error.h"
#include "common/registered_file.h"
#include "common/text.h"
#include "sluice/doctor.h"

namespace sluice::tools {
namespace {

constexpr std::size_t largest = 1 << 20;
constexpr unsigned char poison = 0xa5;

// A file of pseudo-random bytes in a folder, for as long as this lives.
class TrialFile {
 public:
  explicit TrialFile(const std::string& folder) : path_(folder + "/.sluice-doctor-XXXXXX") {
    const int fd = mkostemp(path_.data(), O_CLOEXEC);
    if (fd < 0) {
      throw ToolError(fmt::format("no file can be made in {}: {}", printable(folder), system_words(errno)),
                      "Name a folder that can be written, or a file that is there.");
    }
    std::vector<unsigned char> bytes(largest);
    unsigned state = 1;
    for (unsigned char& byte : bytes) {
      state = state * 1664525U + 1013904223U;
      byte = static_cast<unsigned char>(state >> 24);
    }
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    // What is only in the page cache would be no trial of the drive.
    const bool stored = written == static_cast<ssize_t>(bytes.size()) && fsync(fd) == 0;
    const int error = errno;
    close(fd);
    if (stored) return;
    unlink(path_.c_str());
    throw ToolError(fmt::format("1 MiB cannot be written in {}: {}", printable(folder), system_words(error)),
                    "Make room, or name another folder.");
  }
  ~TrialFile() { unlink(path_.c_str()); }
  TrialFile(const TrialFile&) = delete;
  TrialFile& operator=(const TrialFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<unsigned char> plainly_read(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<unsigned char> bytes(largest);
  std::size_t have = 0;
  ssize_t got = fd < 0 ? -1 : 1;
  while (got > 0 && have < bytes.size()) {
    got = pread(fd, bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
    if (got > 0) have += static_cast<std::size_t>(got);
  }
  const int error = errno;
  if (fd >= 0) close(fd);
  if (got < 0) {
    throw ToolError(fmt::format("{} cannot be read: {}", printable(path), system_words(error)),
                    "Try to read the file with cat: the cause lies outside Sluice.");
  }
  bytes.resize(have);
  return bytes;
}

void try_file(const std::string& path, int gpu, doctor::Trial& trial) {
  want_device(gpu);
  const Driver& driver = choose_driver();
  trial.device = driver.kind == DriverKind::soft ? "the soft GPU" : describe_device(gpu);
  // First: it says of what cannot be opened why, and what mends it.
  const RegisteredFile file(path, Access::read_only);
  const std::vector<unsigned char> expected = plainly_read(path);
  if (expected.empty()) throw ToolError("the file is empty", "Name a file with some bytes in it.");
  DeviceMemory memory(gpu, largest);
  memory.fill(poison);
  const sluice_explanation_t way = file.explain(memory.address(), gpu, CUFILE_READ, expected.size(), 0);
  trial.path = way.path_name;
  trial.reason = way.sentence;
  trial.remedy = way.remedy;
  const ssize_t got = cuFileRead(file.handle(), memory.address(), expected.size(), 0, 0);
  if (got != static_cast<ssize_t>(expected.size())) {
    throw ToolError(fmt::format("cuFileRead returned {} of {} bytes: {}", got, expected.size(), sluice_last_error()),
                    "See the library's log: CUFILE_LOGGING_LEVEL=DEBUG CUFILE_LOGFILE_PATH=/tmp/cufile.log.");
  }
  std::vector<unsigned char> found(expected.size());
  memory.copy_to(found.data(), 0, found.size());
  const auto [differs, ignored] = std::mismatch(expected.begin(), expected.end(), found.begin());
  if (differs != expected.end()) trial.wrong = differs - expected.begin();
  trial.bytes = expected.size();
}

}  // namespace

doctor::Trial make_trial(const std::string& path, int gpu) {
  doctor::Trial trial;
  trial.file = path;
  try {
    struct stat status {};
    if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
      const TrialFile made(path);
      try_file(made.path(), gpu, trial);
    } else {
      try_file(path, gpu, trial);
    }
  } catch (const ToolError& error) {
    trial.error = error.what();
    trial.remedy = error.remedy();
  }
  return trial;
}

}  // namespace sluice::tools
