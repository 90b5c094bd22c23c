// SPDX-License-Identifier: Apache-2.0
#include "gdsio/target.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "common/cufile_words.h"
#include "common/error.h"
#include "common/text.h"
#include "common/written.h"

namespace sluice::tools {
namespace {

const char* remedy_of_open(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
      return "Ask the owner for the permission, or run this as a user who has it.";
    case ENOENT:
    case ENOTDIR:
      return "Make the folder first.";
    case EROFS:
      return "Mount the file system for writing, or read.";
    case EISDIR:
      return "Use -D for a folder.";
    default: {
      const char* remedy = remedy_for_cause(-static_cast<long long>(error));
      return remedy != nullptr ? remedy : "Try another file.";
    }
  }
}

// Before it is opened: opening a pipe would wait for its other end.
void want_storage(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) return;
  throw ToolError(fmt::format("{} is neither a regular file nor a block device.", printable(path)),
                  S_ISDIR(status.st_mode) ? "Use -D for a folder." : "Name a file with -f, or a folder with -D.");
}

// Bytes of the file in the page cache; 0 also where the kernel does not tell (before 6.5).
std::uint64_t cached_bytes(int descriptor) {
  // cachestat(2), which the C library need not know; x86-64 and arm64 have one number for it. A length of 0 reaches
  // to the end of the file.
  constexpr long number = 451;
  struct {
    std::uint64_t offset, length;
  } range{};
  struct {
    std::uint64_t cached, dirty, in_writeback, evicted, recently_evicted;
  } pages{};
  if (syscall(number, descriptor, &range, &pages, 0) != 0) return 0;
  return pages.cached * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Target::Target(const Settings& settings, std::string path, std::uint64_t begin, std::uint64_t size,
               const std::string& where)
    : path_(std::move(path)), begin_(begin), size_(size) {
  try {
    open_file(settings, where);
    settle_size(settings);
    if (uses_cufile(settings.transfer)) register_file();
  } catch (...) {
    give_back();
    throw;
  }
}

Target::~Target() {
  give_back();
}

void Target::give_back() noexcept {
  if (handle_ != nullptr) cuFileHandleDeregister(handle_);
  if (made_ || lengthened_) undo();
  if (descriptor_ >= 0) close(descriptor_);
}

// Another process may have the file, too: what this one has not done stays.
void Target::undo() noexcept {
  struct stat open_one {};
  if (fstat(descriptor_, &open_one) != 0) return;
  const auto end = static_cast<std::uint64_t>(open_one.st_size);
  if (lengthened_) {
    // Where it cannot be cut, it stays long.
    lengthened_ = end == new_end_ && ftruncate(descriptor_, static_cast<off_t>(old_end_)) != 0;
    return;
  }
  struct stat named {};
  if (end > new_end_ || lstat(path_.c_str(), &named) != 0) return;
  if (named.st_dev == open_one.st_dev && named.st_ino == open_one.st_ino) unlink(path_.c_str());
}

void Target::open_file(const Settings& settings, const std::string& where) {
  const bool writes = is_write(settings.operation) || settings.mixed;
  const bool makes = is_write(settings.operation);
  direct_ = !settings.buffered && settings.transfer != Transfer::cpu_cached_gpu;
  want_storage(path_);
  int flags = (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC;
  bool refused = false;  // O_DIRECT
  // A file that is made is opened once: its mode may not allow it again. Without O_DIRECT, which some
  // file systems refuse only when they have made the file.
  if (makes) descriptor_ = open(path_.c_str(), flags | O_CREAT | O_EXCL, 0644);
  made_ = descriptor_ >= 0;
  if (made_) {
    refused = direct_ && fcntl(descriptor_, F_SETFL, O_DIRECT) != 0;
  } else {
    if (makes) flags |= O_CREAT;  // once more: of a link that leads to no file yet, that is made
    descriptor_ = open(path_.c_str(), flags | (direct_ ? O_DIRECT : 0), 0644);
    refused = descriptor_ < 0 && errno == EINVAL && direct_;
    if (refused) descriptor_ = open(path_.c_str(), flags, 0644);
  }
  if (refused) direct_ = false;
  if (descriptor_ >= 0 && refused) {
    tell("gdsio: note: {} lies on a file system without O_DIRECT and is opened buffered, as by -O 1.\n",
         printable(path_));
  }
  if (descriptor_ >= 0) return;
  if (errno == ENOENT && !makes) {
    throw ToolError(
        fmt::format("{} does not exist.", printable(path_)),
        fmt::format("Make it: gdsio {} -s {} -i 1M -x 0 -I 1", where, size_ == 0 ? "1G" : fmt::format("{}", size_)));
  }
  throw ToolError(fmt::format("{} cannot be opened: {}.", printable(path_), system_words(errno)),
                  remedy_of_open(errno));
}

void Target::settle_size(const Settings& settings) {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode))) {
    throw ToolError(fmt::format("{} is neither a regular file nor a block device.", printable(path_)),
                    "Name a file with -f, or a folder with -D.");
  }
  const auto there =
      static_cast<std::uint64_t>(S_ISREG(status.st_mode) ? status.st_size : lseek(descriptor_, 0, SEEK_END));
  if (is_write(settings.operation)) {
    // The file has its size at once, wherever random writes fall; what is there behind it stays.
    new_end_ = begin_ + size_;
    if (there >= new_end_ || !S_ISREG(status.st_mode)) return;
    if (ftruncate(descriptor_, static_cast<off_t>(new_end_)) != 0) {
      throw ToolError(
          fmt::format("{} cannot be made {}: {}.", printable(path_), format_bytes(new_end_), system_words(errno)),
          "Use a smaller -s, or another file system.");
    }
    lengthened_ = !made_;
    old_end_ = there;
    return;
  }
  if (there <= begin_) {
    throw ToolError(fmt::format("{} has {}, and nothing from {} on.", printable(path_), format_bytes(there), begin_),
                    "Use a smaller -o, or a larger file.");
  }
  const std::uint64_t readable = there - begin_;
  if (size_ > readable) {
    tell("gdsio: note: {} has {} to read, fewer than -s asks for.\n", printable(path_), format_bytes(readable));
  }
  if (size_ == 0 || size_ > readable) size_ = readable;
}

void Target::register_file() {
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = descriptor_;
  const CUfileError_t result = cuFileHandleRegister(&handle_, &description);
  if (result.err == CU_FILE_SUCCESS) return;
  throw ToolError(fmt::format("{} cannot be registered with cuFile: {}.", printable(path_), cufile_words(result.err)),
                  "Try -x 2, which does without cuFile, or `gdscheck -f` for more.");
}

void Target::make_cold() const {
  if (fdatasync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) {
    throw ToolError(fmt::format("{} cannot be written back: {}.", printable(path_), system_words(errno)),
                    "Leave --cold out.");
  }
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
  if (const std::uint64_t left = cached_bytes(descriptor_); left != 0) {
    tell(
        "gdsio: note: {} of {} stay in the page cache, --cold or not: a program has them mapped, or the file\n"
        "             system keeps them there, as tmpfs does.\n",
        format_bytes(left), printable(path_));
  }
}

std::vector<std::unique_ptr<Target>> open_targets(const Settings& settings, const JobSettings& job) {
  const std::uint64_t begin = job.offset.value_or(settings.offset);
  const std::uint64_t size = job.size.value_or(settings.size.value_or(0));
  std::vector<std::unique_ptr<Target>> targets;
  if (!job.file.empty()) {
    targets.push_back(
        std::make_unique<Target>(settings, job.file, begin, size, fmt::format("-f {}", printable(job.file))));
    return targets;
  }
  const unsigned files = threads_of(settings, job) * depth_of(settings, job);
  const std::string where = fmt::format("-D {} -w {}", printable(job.folder), files);
  for (unsigned i = 0; i < files; ++i) {
    targets.push_back(
        std::make_unique<Target>(settings, fmt::format("{}/gdsio.{}", job.folder, i), begin, size, where));
  }
  return targets;
}

}  // namespace sluice::tools
