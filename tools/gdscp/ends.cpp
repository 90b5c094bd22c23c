// SPDX-License-Identifier: Apache-2.0
#include "gdscp/ends.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "common/cufile_words.h"
#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t compared_at_once = 1u << 20;

[[noreturn]] void fail_with(const std::string& path, const char* what, const char* remedy) {
  const int cause = errno;
  const char* better = remedy_for_cause(-static_cast<long long>(cause));
  throw ToolError(fmt::format("{} {}: {}.", printable(path), what, system_words(cause)),
                  better != nullptr ? better : remedy);
}

// `result` of a transfer that has moved nothing.
[[noreturn]] void fail_to_move(const std::string& path, const char* what, std::uint64_t offset, ssize_t result,
                               const char* remedy) {
  const long long cause = result == -1 ? -errno : result;
  const char* better = remedy_for_cause(cause);
  throw ToolError(fmt::format("{} cannot be {} at {}: {}.", printable(path), what, offset,
                              cause == 0 ? "nothing is moved there any more" : cause_words(cause)),
                  better != nullptr ? better : remedy);
}

// A signal that would end the program takes the unfinished file away first: all that end one by default and can be
// caught, those of real time included. One that comes while that file is being made, when it is not known yet whether
// it is there and what it is called, waits for its maker.
constexpr std::array<int, 22> ending_signals = {
    SIGHUP,  SIGINT,  SIGQUIT, SIGILL,    SIGTRAP, SIGABRT, SIGBUS,    SIGFPE,  SIGUSR1, SIGSEGV, SIGUSR2,
    SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR,  SIGSYS};
constexpr int not_making = 0;
constexpr int making = -1;
std::atomic<int> maker_state{not_making};  // or the signal that came meanwhile
static_assert(std::atomic<int>::is_always_lock_free, "a signal's handler uses it");
std::array<char, 4096> unfinished_name{};  // written while the handlers keep off, by maker_state

// An instruction that faults does so again when its handler returns: it waits for nothing.
bool is_fault(int signal) {
  return signal == SIGILL || signal == SIGTRAP || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE ||
         signal == SIGSEGV || signal == SIGSYS;
}

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void end_without_file(int signal) {
  unlink(unfinished_name.data());
  end_by(signal);
}

void on_ending_signal(int signal) {
  int state = making;
  if (is_fault(signal)) {
    state = maker_state;
  } else if (maker_state.compare_exchange_strong(state, signal)) {
    return;
  }
  if (state == not_making) {
    end_without_file(signal);
  } else if (is_fault(signal)) {
    end_by(signal);
  }
}

// A signal that the caller has this program ignore, as nohup does, stays ignored.
void change_handler(int signal, void (*from)(int), void (*to)(int)) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == from) std::signal(signal, to);
}

void change_handlers(void (*from)(int), void (*to)(int)) {
  for (const int signal : ending_signals) change_handler(signal, from, to);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) change_handler(signal, from, to);
}

// mkostemp() with the file's name guarded from its first moment; -1 and errno when there is none.
int make_guarded_file(std::string& path) {
  maker_state = making;
  change_handlers(SIG_DFL, on_ending_signal);
  const int descriptor = mkostemp(path.data(), O_CLOEXEC);
  const int error = errno;
  unfinished_name.fill(0);
  if (descriptor >= 0) path.copy(unfinished_name.data(), unfinished_name.size() - 1);
  const int signal = maker_state.exchange(not_making);
  if (signal != making) end_without_file(signal);
  if (descriptor < 0) change_handlers(on_ending_signal, SIG_DFL);
  errno = error;
  return descriptor;
}

void drop_guarded_file(const std::string& path) {
  unlink(path.c_str());
  change_handlers(on_ending_signal, SIG_DFL);
}

// The source's, but a program runs as the owner or group that made it so, and as no other: the copy has these bits
// where it has that owner and that group.
mode_t mode_for_copy(const SourceFile& source, int copy) {
  struct stat status {};
  const bool known = fstat(copy, &status) == 0;
  mode_t mode = source.mode();
  const bool same_group = known && status.st_gid == source.group();
  if (!same_group || status.st_uid != source.owner()) mode &= ~static_cast<mode_t>(S_ISUID);
  if (!same_group) mode &= ~static_cast<mode_t>(S_ISGID);
  return mode;
}

// A name beside the destination for what is not finished, of which mkostemp() replaces the end. As much of the
// destination's own as fits, and of that whole characters; "" where its own is too long already.
std::string unfinished_path(const std::string& destination) {
  constexpr std::string_view ending = ".gdscp-XXXXXX";
  constexpr std::size_t usual_most = 255;
  const fs::path folder = fs::path(destination).parent_path();
  std::string name = fs::path(destination).filename().string();
  const long told = pathconf(folder.empty() ? "." : folder.c_str(), _PC_NAME_MAX);
  const std::size_t most = told > 0 ? static_cast<std::size_t>(told) : usual_most;
  if (name.size() > most || most <= ending.size()) return {};
  std::size_t kept = std::min(name.size(), most - ending.size());
  while (kept > 0 && kept < name.size() && (static_cast<unsigned char>(name[kept]) & 0xC0u) == 0x80u) --kept;
  name.resize(kept);
  return folder / name.append(ending);
}

// Without it the copy could lose its name in a power cut. A folder that may be written and not read is left to the
// kernel, and so is a file system that knows no fsync of folders.
void make_name_durable(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  if (error == 0 || error == EINVAL || error == ENOTSUP) return;
  errno = error;
  fail_with(path, "is there, but may lose its name in a power cut", "See what the file system has logged.");
}

}  // namespace

std::string named_destination(const std::string& source, const std::string& asked) {
  std::error_code ignored;
  const fs::path destination = asked;
  return fs::is_directory(destination, ignored) ? destination / fs::path(source).filename() : destination;
}

std::string destination_of(const std::string& source, const std::string& asked) {
  std::error_code ignored;
  fs::path destination = named_destination(source, asked);
  // A link stays one, and its file is replaced. One that leads to none is refused, as cp does: where it leads may be
  // another one's choice.
  std::error_code lost;
  const fs::path real = fs::canonical(destination, lost);
  if (!lost) destination = real;
  if (lost && fs::is_symlink(fs::symlink_status(destination, ignored))) {
    throw ToolError(fmt::format("{} is a link that leads to no file: {}.", printable(destination.string()),
                                system_words(lost.value())),
                    "Remove the link, or name the file that it is to lead to.");
  }
  const bool exists = fs::exists(destination, ignored);
  if (exists && fs::equivalent(source, destination, ignored)) {
    throw ToolError(fmt::format("{} and {} are the same file.", printable(source), printable(asked)),
                    "Name another destination.");
  }
  if (exists && !fs::is_regular_file(destination, ignored)) {
    throw ToolError(fmt::format("{} is no regular file.", printable(destination.string())),
                    "Name a file or a folder as the destination.");
  }
  return destination.string();
}

CopyEnd::~CopyEnd() {
  if (handle_ != nullptr) cuFileHandleDeregister(handle_);
  if (descriptor_ >= 0) close(descriptor_);
}

void CopyEnd::register_descriptor(int descriptor, const std::string& path) {
  descriptor_ = descriptor;
  const int flags = fcntl(descriptor, F_GETFL);
  fcntl(descriptor, F_SETFL, flags | O_DIRECT);  // refused where the file system does not know it
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = descriptor;
  const CUfileError_t result = cuFileHandleRegister(&handle_, &description);
  if (result.err == CU_FILE_SUCCESS) return;
  throw ToolError(fmt::format("{} cannot be registered with cuFile: {}.", printable(path), cufile_words(result.err)),
                  "`gdscheck -f` tells more about a file.");
}

SourceFile::SourceFile(const std::string& path) : path_(path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail_with(path, "cannot be opened", "Check the path and its permissions.");
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    throw ToolError(fmt::format("{} is no regular file.", printable(path)), "Name a file to copy.");
  }
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
  size_ = static_cast<std::uint64_t>(status.st_size);
  mode_ = status.st_mode & 07777;
  owner_ = status.st_uid;
  group_ = status.st_gid;
  register_descriptor(descriptor, path);
}

std::vector<FilePart> SourceFile::data() const {
  std::vector<FilePart> parts;
  for (off_t at = 0; at < static_cast<off_t>(size_);) {
    const off_t begin = lseek(descriptor_, at, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) break;  // a hole up to the end
    const off_t end = begin < 0 ? -1 : lseek(descriptor_, begin, SEEK_HOLE);
    if (end < 0) return {{0, size_}};
    parts.push_back({static_cast<std::uint64_t>(begin),
                     std::min(static_cast<std::uint64_t>(end), size_) - static_cast<std::uint64_t>(begin)});
    at = end;
  }
  return parts;
}

std::uint64_t SourceFile::read(void* memory, std::uint64_t offset, std::uint64_t size) const {
  const ssize_t count = cuFileRead(handle_, memory, size, static_cast<off_t>(offset), 0);
  if (count > 0) return static_cast<std::uint64_t>(count);
  fail_to_move(path_, "read", offset, count, "See that no program changes the file, and try again.");
}

NewFile::NewFile(std::string destination) : destination_(std::move(destination)) {
  path_ = unfinished_path(destination_);
  errno = ENAMETOOLONG;
  const int descriptor = path_.empty() ? -1 : make_guarded_file(path_);
  if (descriptor < 0) {
    fail_with(destination_, "cannot be made", "Check that its folder exists and that you may write there.");
  }
  try {
    register_descriptor(descriptor, path_);
  } catch (...) {
    drop_guarded_file(path_);
    throw;
  }
}

NewFile::~NewFile() {
  if (!published_) drop_guarded_file(path_);
}

void NewFile::write(const void* memory, std::uint64_t offset, std::uint64_t size) const {
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t count =
        cuFileWrite(handle_, memory, size - done, static_cast<off_t>(offset + done), static_cast<off_t>(done));
    if (count <= 0) {
      fail_to_move(destination_, "written", offset + done, count,
                   "See that the file system has room and no quota is reached.");
    }
    done += static_cast<std::uint64_t>(count);
  }
}

void NewFile::settle(const SourceFile& source) const {
  // The mode behind the last change of bytes: those take away its set-user-ID and set-group-ID bits.
  const bool sized = ftruncate(descriptor_, static_cast<off_t>(source.size())) == 0;
  if (sized) fchmod(descriptor_, mode_for_copy(source, descriptor_));
  if (!sized || fsync(descriptor_) != 0) {
    fail_with(destination_, "cannot be finished", "See that the file system has room.");
  }
}

void NewFile::compare_with(const SourceFile& source) const {
  // Buffered descriptions of their own: what is compared is what others will read.
  std::array<int, 2> files = {open(fmt::format("/proc/self/fd/{}", source.descriptor()).c_str(), O_RDONLY | O_CLOEXEC),
                              open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  std::array<std::vector<char>, 2> bytes;
  for (auto& part : bytes) part.resize(compared_at_once);
  std::uint64_t wrong = UINT64_MAX;
  for (std::uint64_t at = 0; at < source.size() && wrong == UINT64_MAX; at += compared_at_once) {
    const std::size_t wanted = std::min<std::uint64_t>(compared_at_once, source.size() - at);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (pread(files[i], bytes[i].data(), wanted, static_cast<off_t>(at)) != static_cast<ssize_t>(wanted)) wrong = at;
    }
    const auto end = bytes[0].begin() + static_cast<std::ptrdiff_t>(wanted);
    const auto place = std::mismatch(bytes[0].begin(), end, bytes[1].begin()).first;
    if (place != end) wrong = at + static_cast<std::uint64_t>(place - bytes[0].begin());
  }
  for (const int file : files) close(file);
  if (wrong == UINT64_MAX) return;
  throw ToolError(fmt::format("The copy differs from its source at offset {}.", wrong),
                  "Was the source changed meanwhile? If not, please report it with `sluice version`.");
}

void NewFile::publish() {
  if (rename(path_.c_str(), destination_.c_str()) != 0) {
    fail_with(destination_, "cannot be replaced", "Check that you may write in its folder.");
  }
  published_ = true;
  make_name_durable(destination_);
}

RegisteredRange::RegisteredRange(const void* address, std::size_t size) : address_(address) {
  const CUfileError_t result = cuFileBufRegister(address, size, 0);
  if (result.err == CU_FILE_SUCCESS) return;
  throw ToolError(fmt::format("Memory cannot be registered with cuFile: {}.", cufile_words(result.err)),
                  "Use smaller pieces (-i) or fewer threads (-w).");
}
RegisteredRange::~RegisteredRange() {
  cuFileBufDeregister(address_);
}

}  // namespace sluice::tools
