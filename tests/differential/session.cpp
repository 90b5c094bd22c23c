// SPDX-License-Identifier: Apache-2.0
#include "differential/session.h"

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <sstream>

#include "differential/answers.h"
#include "differential/calls.h"

namespace sluice::differential {

long long number(const std::string& word) {
  if (!word.empty() && word[0] == '-') return std::strtoll(word.c_str(), nullptr, 10);
  return static_cast<long long>(std::strtoull(word.c_str(), nullptr, 10));
}

bool has(const std::string& word, const char* part) {
  return word.find(part) != std::string::npos;
}

void tell(Error error) {
  answers().add(" err=%d/%d", static_cast<int>(error.err), static_cast<int>(error.cu_err));
}

void tell_ranges(World& world, Buffer& buffer, const std::vector<Range>& ranges, const Expectation& expected,
                 std::size_t before) {
  const Change change = world.settle(buffer, ranges, expected.of(buffer), before);
  if (buffer.uncertain) {  // what is under way may still come to these places, too
    answers().add(" got=uncertain beyond=uncertain");
    return;
  }
  if (change.wrong) answers().add(" wrong=bytes");
  if (change.unmoved) answers().add(" same=yes");
  answers().add(" got=%016" PRIx64, change.inside);
  answers().add(" beyond=%s", change.outside ? "changed" : "kept");
}

void doubt(const Batch& batch) {
  for (const Batch::Entry& entry : batch.entries) {
    if (entry.place.buffer != nullptr && entry.opcode != CUFILE_WRITE) entry.place.buffer->uncertain = true;
    if (entry.file != nullptr && entry.opcode == CUFILE_WRITE) entry.file->uncertain = true;
  }
}

bool reads_what_nobody_knows(const File* file, const Place& into) {
  if (file == nullptr || !file->uncertain) return false;
  if (into.buffer != nullptr) into.buffer->uncertain = true;
  return true;
}

FileHandle* Session::slot(const std::string& word) {
  if (word.size() != 2 || word[0] != 'h') return nullptr;
  const auto index = static_cast<std::size_t>(word[1] - '0');
  return index < handles_.size() ? &handles_[index] : nullptr;
}

void* Session::handle(const std::string& word) {
  static std::array<char, 4096> nothing;
  if (word == "garbage") return nothing.data();
  if (word == "wild") return reinterpret_cast<void*>(0x123450);
  const FileHandle* const found = slot(word);
  return found == nullptr ? nullptr : found->value;
}

Batch* Session::batch(const std::string& word) {
  if (word.size() != 2 || word[0] != 'b') return nullptr;
  const auto index = static_cast<std::size_t>(word[1] - '0');
  return index < batches_.size() ? &batches_[index] : nullptr;
}

CUstream Session::stream(const std::string& word) const {
  static const std::array<CUstream, 2> made = [] {
    std::array<CUstream, 2> streams{};
    cuda().stream_create(&streams[0], 0);
    cuda().stream_create(&streams[1], 1);
    return streams;
  }();
  if (word == "s1") return made[0];
  if (word == "s2") return made[1];
  return nullptr;
}

void Session::call(int number, const std::string& line) {
  std::istringstream text(line);
  Words words;
  for (std::string word; text >> word;) words.push_back(word);
  if (words.empty()) return;
  answers().add("%d %s", number, words[0].c_str());
  void* before = nullptr;
  cuda().context_current(&before);
  const Call function = find_call(words[0]);
  if (!has(words[0], "Async") && words[0] != "Sync" && !pending_.empty()) tangled_ = true;
  words.resize(std::max<std::size_t>(words.size(), 10));
  if (function == nullptr) {
    answers().add(" unknown");
  } else {
    function(*this, words);
  }
  void* after = nullptr;
  cuda().context_current(&after);
  if (after != before) {
    answers().add(" context=changed");
    cuda().context_set(before);
  }
  if (library_.use_count != nullptr) answers().add(" use=%ld", library_.use_count());
  answers().add("\n");
}

void Session::synchronise() {
  const int results[] = {cuda().stream_synchronize(nullptr), cuda().stream_synchronize(stream("s1")),
                         cuda().stream_synchronize(stream("s2"))};
  for (const int result : results) {
    if (result != 0) answers().add(" cuda=%d", result);
  }
  std::vector<Buffer*> buffers;
  std::vector<File*> files;
  Expectation expected;
  for (const auto& one : pending_) {
    tangled_ = tangled_ || one->stream != pending_.front()->stream;
  }
  for (const auto& one : pending_) {
    if (one->bytes == kUntouched) {
      answers().add(" bytes=untouched");
    } else if (one->reads && one->bytes >= 0 && reads_what_nobody_knows(one->file, one->place)) {
      answers().add(" bytes=uncertain");
    } else {
      answers().add(" bytes=%lld", static_cast<long long>(one->bytes));
    }
    const bool is_wanted = one->bytes != kUntouched && !tangled_;
    if (is_wanted) {
      expected.add({one->place, one->buffer_offset, one->size, one->file_offset, one->file, one->reads, one->bytes});
    } else if (!one->reads && one->file != nullptr) {
      one->file->is_known = false;
    }
    if (one->place.buffer != nullptr && one->reads) buffers.push_back(one->place.buffer);
    if (one->file != nullptr && !one->reads) files.push_back(one->file);
    if (one->bytes > 0) {
      world_.doubt_outside(one->place, one->buffer_offset, static_cast<std::size_t>(one->bytes),
                           one->reads ? nullptr : one->file);
    }
  }
  if (tangled_) expected.give_up();
  tangled_ = false;
  expected.tell_counts();
  std::sort(buffers.begin(), buffers.end());
  buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
  for (Buffer* const buffer : buffers) {
    std::vector<Range> ranges;
    std::size_t before = 0;
    for (const auto& one : pending_) {
      if (one->place.buffer != buffer || !one->reads || one->bytes <= 0) continue;
      const std::ptrdiff_t begin = one->place.address - buffer->address + one->buffer_offset;
      if (begin >= 0) ranges.push_back({static_cast<std::size_t>(begin), static_cast<std::size_t>(one->bytes)});
      if (begin < 0 && begin + one->bytes > 0) before = std::max(before, static_cast<std::size_t>(begin + one->bytes));
    }
    answers().add(" in=%s", buffer->name.c_str());
    tell_ranges(world_, *buffer, ranges, expected, before);
  }
  for (File* const file : files) {
    answers().add(" file=%s", world_.tell(*file).c_str());
  }
  for (auto& one : pending_) passed_.push_back(std::move(one));
  pending_.clear();
}

void Session::finish() {
  if (!pending_.empty()) {
    answers().add("last");
    synchronise();
    answers().add("\n");
  }
  for (const Batch& batch : batches_) doubt(batch);
  world_.tell_all();
}

bool Session::tear_down() {
  for (Batch& batch : batches_) {
    if (batch.open) library_.batch_destroy(batch.value);
  }
  for (CUstream const one : streams_) library_.stream_deregister(one);
  bool all = true;
  for (const void* const one : memory_) all = library_.buffer_deregister(one).err == CU_FILE_SUCCESS && all;
  for (void* const one : files_) library_.handle_deregister(one);
  return all;
}

}  // namespace sluice::differential
