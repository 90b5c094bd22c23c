// SPDX-License-Identifier: Apache-2.0
#include "lab/power/writers.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "lab/power/direct.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/memory.h"

namespace sluice::lab {

namespace {

constexpr mode_t kMode = 0644;

void check(bool good, const std::string& what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

void make_durable(int descriptor) {
  check(fsync(descriptor) == 0, "fsync");
}

void make_folder_durable(const std::string& folder) {
  const File opened(folder, O_RDONLY | O_DIRECTORY);
  make_durable(opened.get());
}

std::string file_name(Writer writer, const std::string& folder, std::size_t file) {
  return folder + "/" + std::string(name_of(writer)) + "." + std::to_string(file);
}

// Of the two files of a writer one goes past the page cache and the other through it.
int opening(Writer writer, std::size_t file) {
  const bool direct = file == 0;
  int flags = O_RDWR | (direct ? O_DIRECT : 0);
  if (writer == Writer::synchronous) flags |= direct ? O_DSYNC : O_SYNC;
  return flags;
}

void must_move(support::Transfer transfer, std::size_t length) {
  if (transfer == support::moved(length)) return;
  throw std::runtime_error("cuFileWrite answered " + std::to_string(transfer.count) + ", errno " +
                           std::to_string(transfer.error));
}

void must_be(ssize_t count, std::size_t length, const char* what) {
  if (count == static_cast<ssize_t>(length)) return;
  throw std::runtime_error(std::string(what) + " answered " + std::to_string(count));
}

// Ranges of files, by the library.
class RangeWriter {
 public:
  RangeWriter(Writer writer, const std::string& folder) : writer_(writer) {
    for (std::size_t file = 0; file < kFiles; ++file) {
      files_.push_back(std::make_unique<File>(file_name(writer, folder, file), opening(writer, file)));
      handles_.push_back(std::make_unique<support::Handle>(files_.back()->get()));
    }
    memories_.push_back(std::make_unique<support::Memory>(support::MemoryKind::device, kLargest));
    if (!is_direct()) memories_.push_back(std::make_unique<support::Memory>(support::MemoryKind::pinned, kLargest));
  }

  void write(std::uint64_t number) {
    const std::vector<Range> ranges = ranges_of(writer_, number);
    const support::Memory& memory = *memories_[number / kFiles % memories_.size()];
    // The bytes of a range lie at the offset that it has in its file: ranges of one operation do not overlap.
    for (const Range& range : ranges) {
      support::Bytes bytes(range.length);
      fill_content(writer_, number, range.offset, bytes);
      memory.put(range.offset, bytes);
    }
    if (writer_ == Writer::batches) {
      write_batch(ranges, memory);
    } else if (writer_ == Writer::streams) {
      write_stream(ranges, memory);
    } else {
      write_calls(ranges, memory);
    }
    const bool without =
        writer_ == Writer::synchronous || writer_ == Writer::careless_calls || writer_ == Writer::careless_direct;
    for (const Range& range : ranges) {
      if (!without) make_durable(files_[range.file]->get());
    }
  }

 private:
  void write_calls(const std::vector<Range>& ranges, const support::Memory& memory) {
    for (const Range& range : ranges) {
      must_move(support::write_file(handles_[range.file]->get(), memory.address(), range.length,
                                    static_cast<off_t>(range.offset), static_cast<off_t>(range.offset)),
                range.length);
    }
  }

  void write_batch(const std::vector<Range>& ranges, const support::Memory& memory) {
    support::Batch batch(static_cast<unsigned>(ranges.size()));
    for (const Range& range : ranges) {
      batch.write(handles_[range.file]->get(), memory, range.length, range.offset, range.offset);
    }
    const std::vector<ssize_t> counts = batch.run();
    for (std::size_t i = 0; i < ranges.size(); ++i) must_be(counts[i], ranges[i].length, "a batch's entry");
  }

  void write_stream(const std::vector<Range>& ranges, const support::Memory& memory) {
    struct Parameters {
      std::size_t size;
      off_t offset;
      ssize_t count;
    };
    std::vector<Parameters> all;
    for (const Range& range : ranges) all.push_back({range.length, static_cast<off_t>(range.offset), 0});
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const int answer = support::code(cuFileWriteAsync(handles_[ranges[i].file]->get(), memory.address(), &all[i].size,
                                                        &all[i].offset, &all[i].offset, &all[i].count, stream_.get()));
      if (answer != CU_FILE_SUCCESS) throw std::runtime_error("cuFileWriteAsync answered " + std::to_string(answer));
    }
    stream_.synchronize();
    for (const Parameters& one : all) must_be(one.count, one.size, "a stream's write");
  }

  Writer writer_;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::unique_ptr<support::Handle>> handles_;
  std::vector<std::unique_ptr<support::Memory>> memories_;
  support::Stream stream_;
};

void write_plainly(const std::string& path, const std::vector<unsigned char>& bytes) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode);
  check(descriptor >= 0, path);
  must_write(descriptor, std::as_bytes(std::span(bytes)), 0);
  check(close(descriptor) == 0, path);
}

void run_program(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  errno = posix_spawn(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
  check(errno == 0, words[0]);
  int status = 0;
  check(waitpid(child, &status, 0) == child, "waitpid");
  if (status != 0) throw std::runtime_error(words[0] + " ended with " + std::to_string(status));
}

void copy(Writer writer, const std::string& folder, std::uint64_t number) {
  const std::string destination = folder + "/" + copy_name(writer, number);
  if (writer == Writer::gdscp) {
    const std::string source = "/run/source";
    write_plainly(source, copy_content(writer, number));
    run_program({environment("LAB_BUILD") + "/bin/gdscp", source, destination});
    return;
  }
  const std::string beside = destination + ".part";
  write_plainly(beside, copy_content(writer, number));
  check(rename(beside.c_str(), destination.c_str()) == 0, destination);
}

}  // namespace

Acknowledgements::Acknowledgements(const std::string& device) : device_(device, O_RDWR | O_DIRECT) {}

void Acknowledgements::tell(Writer writer, std::uint64_t number) const {
  alignas(kSector) std::array<std::byte, kSector> sector{};
  const Acknowledgement told{kAcknowledged, static_cast<std::uint64_t>(writer), number};
  std::memcpy(sector.data(), &told, sizeof told);
  must_write(device_.get(), sector, place_of(writer));
}

void begin_writing(Writer writer, const std::string& folder) {
  if (copies(writer)) {
    check(mkdir((folder + "/" + std::string(name_of(writer))).c_str(), 0755) == 0, "mkdir");
  }
  for (std::size_t file = 0; file < kFiles && !copies(writer); ++file) {
    const std::string path = file_name(writer, folder, file);
    // What is overwritten in place has to be there: then nothing but the drive's cache stands between it and the drive.
    write_plainly(path, std::vector<unsigned char>(writer == Writer::careless_direct ? kLargest / 4 : 0));
    make_durable(File(path, O_RDWR).get());
  }
  make_folder_durable(folder);
}

void keep_writing(Writer writer, const std::string& folder, const Acknowledgements& told, Enough enough) {
  const support::ContextScope context(support::primary_context(0));
  std::unique_ptr<RangeWriter> ranges;
  if (!copies(writer)) ranges = std::make_unique<RangeWriter>(writer, folder);
  for (std::uint64_t number = 1;; ++number) {
    if (ranges) {
      ranges->write(number);
    } else {
      copy(writer, folder, number);
    }
    told.tell(writer, number);
    if (number == enough.operations) enough.call();
  }
}

}  // namespace sluice::lab
