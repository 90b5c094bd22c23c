// SPDX-License-Identifier: Apache-2.0
// Threads take pieces of the data from a list; each reads into device memory of its own and writes from there. The
// new file grows under a name of its own and takes the destination's at the end.
#include "gdscp/copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/cufile_words.h"
#include "common/driver.h"
#include "common/error.h"
#include "common/error_json.h"
#include "common/gpu.h"
#include "common/progress.h"
#include "common/text.h"
#include "common/thread_group.h"
#include "common/whole_number.h"
#include "common/written.h"
#include "gdscp/ends.h"

namespace sluice::tools {

const char* const copy_lesson =
    "The bytes go from the file into GPU memory and from there into the new file, by cuFile; no program of the GPU\n"
    "touches them. Holes stay holes and cost nothing. The destination appears, or is replaced, when the copy is "
    "whole.\n"
    "Mode bits are kept; owner, times and extended attributes are not, and so a copy with another owner or group\n"
    "is not set-user-ID.\n"
    "\n"
    "Examples:\n"
    "  gdscp /data/model.bin /scratch/\n"
    "  gdscp -d 1 -w 8 --verify /data/model.bin /scratch/model.bin\n"
    "  gdscp --json a b | jq .gib_per_second\n"
    "  sluice cp -q a b                                 the same, by `sluice`\n"
    "\n"
    "Exit status: 0; 1 when something failed; 2 when the command line is not understood.";

namespace {

using CopyClock = std::chrono::steady_clock;

constexpr std::uint64_t largest_piece = std::uint64_t{1} << 30;
constexpr unsigned most_threads = 256;

struct Story {
  std::uint64_t size = 0;
  std::uint64_t data = 0;  // bytes that are no holes
  double seconds = 0;
  bool soft = false;
};

// One copy while it goes on.
class Copying {
 public:
  Copying(const Gpu& gpu, SourceFile& source, NewFile& target, std::vector<FilePart> pieces, std::size_t room)
      : gpu_(&gpu), source_(&source), target_(&target), pieces_(std::move(pieces)), room_(room) {}

  // By as many threads as the system grants, or by the caller's alone.
  void run(unsigned threads, const char* tool) {
    const std::size_t count = std::clamp<std::size_t>(pieces_.size(), 1, threads);
    open_ = count;
    ThreadGroup workers;
    std::size_t started = 0;
    while (started < count && workers.start([this] { live(); })) ++started;
    if (started < count) {
      tell("{}: note: {} of {} threads could be started. {}\n", tool, started, count, remedy_for_threads);
      const std::lock_guard lock(mutex_);
      open_ -= count - std::max<std::size_t>(started, 1);
    }
    if (started == 0) live();
    watch();
    workers.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void live() {
    try {
      gpu_->enter();
      const std::unique_ptr<TransferMemory> memory = make_memory(MemoryKind::device, gpu_, room_);
      const RegisteredRange range(memory->address(), room_);
      for (std::size_t next = next_++; next < pieces_.size() && !stop_; next = next_++) move(pieces_[next], *memory);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      stop_ = true;
    }
    const std::lock_guard lock(mutex_);
    --open_;
    changed_.notify_all();
  }

  void move(const FilePart& part, TransferMemory& memory) {
    for (std::uint64_t done = 0; done < part.size;) {
      const std::uint64_t got = source_->read(memory.address(), part.offset + done, part.size - done);
      target_->write(memory.address(), part.offset + done, got);
      done += got;
      moved_ += got;
    }
  }

  void watch() {
    std::uint64_t all = 0;
    for (const FilePart& part : pieces_) all += part.size;
    Progress progress("copied");
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(250), [this] { return open_ == 0; })) {
      progress.show(moved_, static_cast<double>(moved_) / static_cast<double>(std::max<std::uint64_t>(all, 1)));
    }
  }

  const Gpu* gpu_;
  SourceFile* source_;
  NewFile* target_;
  std::vector<FilePart> pieces_;
  std::size_t room_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> moved_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t open_ = 0;
  std::exception_ptr failure_;
};

std::vector<FilePart> cut(const std::vector<FilePart>& data, std::uint64_t piece) {
  std::vector<FilePart> pieces;
  for (const FilePart& part : data) {
    for (std::uint64_t at = 0; at < part.size; at += piece) {
      pieces.push_back({part.offset + at, std::min(piece, part.size - at)});
    }
  }
  return pieces;
}

void report(const CopyOptions& options, const Story& story) {
  const std::string destination = named_destination(options.source, options.destination);
  if (options.json) {
    nlohmann::ordered_json json;
    json["source"] = options.source;
    json["destination"] = destination;
    json["bytes"] = story.size;
    json["data_bytes"] = story.data;
    json["seconds"] = story.seconds;
    json["gib_per_second"] = static_cast<double>(story.data) / (1024.0 * 1024 * 1024) / story.seconds;
    json["verified"] = options.verify;
    json["soft"] = story.soft;
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!options.quiet) {
    const std::string holes =
        story.data < story.size ? fmt::format(" ({} of data, the rest holes)", format_bytes(story.data)) : "";
    fmt::print("{} -> {}: {}{} in {:.3f} s, {}{}\n", printable(options.source), printable(destination),
               format_bytes(story.size), holes, story.seconds, format_rate(story.data, story.seconds),
               options.verify ? ", verified" : "");
  }
}

unsigned threads_of(const std::string& text) {
  const unsigned long count = count_number(text).empty() ? std::stoul(text) : 0;
  if (count > 0 && count <= most_threads) return static_cast<unsigned>(count);
  throw ToolError(fmt::format("-w is {}, and has to be 1 to {}.", printable(text), most_threads), "Use: -w 4", 2);
}

int gpu_of(const std::string& text) {
  const std::string wrong = gpu_number(text);
  if (wrong.empty()) return std::stoi(text);
  throw ToolError(fmt::format("-d cannot be {}.", printable(text)), fmt::format("-d {}.", wrong), 2);
}

void copy(const CopyOptions& options, const char* tool) {
  const std::uint64_t piece = size_option("-i", options.piece);
  if (piece == 0 || piece > largest_piece) throw ToolError("-i has to be 1 byte to 1G.", "Use: -i 16M", 2);
  const unsigned threads = threads_of(options.threads);
  const int gpu_index = gpu_of(options.gpu);
  Story story;
  choose_driver();  // first: it may start this program anew
  const Gpu gpu(gpu_index);
  story.soft = note_soft_gpu(tool);
  const std::string destination = destination_of(options.source, options.destination);
  const OpenDriver driver;
  SourceFile source(options.source);
  NewFile target(destination);
  const std::vector<FilePart> data = source.data();
  story.size = source.size();
  for (const FilePart& part : data) story.data += part.size;

  const auto begin = CopyClock::now();
  Copying(gpu, source, target, cut(data, piece), piece).run(threads, tool);
  target.settle(source);
  story.seconds = std::chrono::duration<double>(CopyClock::now() - begin).count();
  if (options.verify) target.compare_with(source);
  target.publish();
  report(options, story);
}

}  // namespace

void copy_file(const CopyOptions& options, const char* tool) {
  try {
    copy(options, tool);
  } catch (const ToolError& error) {
    if (options.json) print_error_json(error.what(), error.remedy());
    throw;
  }
}

}  // namespace sluice::tools
