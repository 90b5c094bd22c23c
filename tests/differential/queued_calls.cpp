// SPDX-License-Identifier: Apache-2.0
// Batches and streams.
#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "differential/answers.h"
#include "differential/calls.h"

namespace sluice::differential {
namespace {

constexpr unsigned kMostEvents = 300;

// BatchSetUp bN NR, or BatchSetUp NULL NR
void batch_set_up(Session& session, const Words& words) {
  SLUICE_NEEDS(batch_set_up);
  Batch* const batch = Calls::batch(session, words[1]);
  static char before;
  void* value = &before;
  const Error error = batch_set_up(batch == nullptr ? nullptr : &value, static_cast<unsigned>(number(words[2])));
  tell(error);
  answers().add(" batch=%s", value == &before ? "kept" : value == nullptr ? "null" : "set");
  if (batch == nullptr || error.err != CU_FILE_SUCCESS || value == &before) return;
  if (batch->open) Calls::library(session).batch_destroy(batch->value);
  *batch = Batch{};
  batch->value = value;
  batch->open = true;
}

void* value_of(Session& session, const std::string& word) {
  if (word == "garbage" || word == "wild") return Calls::handle(session, word);
  const Batch* const batch = Calls::batch(session, word);
  return batch == nullptr ? nullptr : batch->value;
}

// OPCODE,MODE,HANDLE,PLACE,SIZE,FILE_OFFSET,BUFFER_OFFSET,COOKIE
Batch::Entry entry_of(Session& session, const std::string& text, CUfileIOParams_t& parameters) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  words.resize(8);
  Batch::Entry entry;
  entry.place = Calls::world(session).place(words[3]);
  entry.file = Calls::file_of(session, words[2]);
  entry.opcode = static_cast<int>(number(words[0]));
  entry.cookie = static_cast<long>(number(words[7]));
  std::memset(&parameters, 0, sizeof parameters);
  const int mode = static_cast<int>(number(words[1]));
  std::memcpy(&parameters.mode, &mode, sizeof mode);
  std::memcpy(&parameters.opcode, &entry.opcode, sizeof entry.opcode);
  parameters.u.batch.devPtr_base = entry.place.address;
  parameters.u.batch.size = static_cast<std::size_t>(number(words[4]));
  parameters.u.batch.file_offset = number(words[5]);
  parameters.u.batch.devPtr_offset = number(words[6]);
  parameters.fh = Calls::handle(session, words[2]);
  parameters.cookie = reinterpret_cast<void*>(entry.cookie);
  entry.move = {entry.place,
                parameters.u.batch.devPtr_offset,
                parameters.u.batch.size,
                parameters.u.batch.file_offset,
                entry.file,
                entry.opcode != CUFILE_WRITE,
                0};
  if (entry.place.buffer != nullptr) {
    const std::ptrdiff_t begin = entry.place.address - entry.place.buffer->address + parameters.u.batch.devPtr_offset;
    if (begin >= 0) entry.range.begin = static_cast<std::size_t>(begin);
  }
  return entry;
}

// BatchSubmit bN NR FLAGS ENTRY ENTRY ...; "noparams" in place of the entries
void batch_submit(Session& session, const Words& words) {
  SLUICE_NEEDS(batch_submit);
  std::array<CUfileIOParams_t, 160> parameters{};
  std::vector<Batch::Entry> entries;
  for (std::size_t i = 4; i < words.size() && has(words[i], ","); ++i) {
    entries.push_back(entry_of(session, words[i], parameters[entries.size()]));
  }
  Calls::world(session).mark_written();
  // Beyond the entries that the script has lie copies of the last one.
  for (std::size_t i = entries.size(); !entries.empty() && i < parameters.size(); ++i) {
    parameters[i] = parameters[entries.size() - 1];
  }
  const auto count = static_cast<unsigned>(number(words[2]));
  const Error error =
      batch_submit(value_of(session, words[1]), count, words[4] == "noparams" ? nullptr : parameters.data(),
                   static_cast<unsigned>(number(words[3])));
  tell(error);
  Batch* const batch = Calls::batch(session, words[1]);
  if (batch == nullptr || error.err != CU_FILE_SUCCESS) return;
  batch->outstanding += count;
  for (const Batch::Entry& entry : entries) {
    if (entry.opcode == CUFILE_WRITE && entry.file != nullptr) ++entry.file->under_way;
  }
  batch->entries.insert(batch->entries.end(), entries.begin(), entries.end());
}

bool overlap(std::uint64_t one, std::uint64_t other, std::size_t size, std::size_t other_size) {
  return one < other + other_size && other < one + size;
}

// Two entries of one batch are done in either order.
bool meet(const std::vector<Batch::Entry>& entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Move &one = entries[i].move, &other = entries[j].move;
      const bool in_memory = one.place.buffer == other.place.buffer && (one.reads || other.reads) &&
                             overlap(entries[i].range.begin, entries[j].range.begin, one.size, other.size);
      const bool in_file = one.file == other.file && one.file != nullptr && !(one.reads && other.reads);
      const bool apart =
          one.reads == other.reads && !overlap(static_cast<std::uint64_t>(one.offset),
                                               static_cast<std::uint64_t>(other.offset), one.size, other.size);
      if (in_memory || (in_file && !apart)) return true;
    }
  }
  return false;
}

void tell_entries(Session& session, Batch& batch) {
  World& world = Calls::world(session);
  std::vector<Buffer*> buffers;
  std::vector<File*> files;
  for (const Batch::Entry& entry : batch.entries) {
    if (entry.opcode == CUFILE_WRITE && entry.file != nullptr) files.push_back(entry.file);
    if (entry.opcode != CUFILE_WRITE && entry.place.buffer != nullptr) buffers.push_back(entry.place.buffer);
  }
  for (File* const file : files) --file->under_way;
  Expectation expected;
  for (const Batch::Entry& entry : batch.entries) expected.add(entry.move);
  if (meet(batch.entries)) {
    expected.give_up();
    for (File* const file : files) file->is_known = false;
  }
  expected.tell_counts();
  std::sort(buffers.begin(), buffers.end());
  buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  for (Buffer* const buffer : buffers) {
    std::vector<Range> ranges;
    for (const Batch::Entry& entry : batch.entries) {
      if (entry.place.buffer == buffer && entry.opcode != CUFILE_WRITE) ranges.push_back(entry.range);
    }
    answers().add(" in=%s", buffer->name.c_str());
    tell_ranges(world, *buffer, ranges, expected);
  }
  for (File* const file : files) {
    answers().add(" file=%s", world.tell(*file).c_str());
  }
  batch.entries.clear();
}

// BatchStatus bN MIN ROOM TIMEOUT FLAGS; TIMEOUT: none, or milliseconds
void batch_status(Session& session, const Words& words) {
  SLUICE_NEEDS(batch_status);
  std::array<CUfileIOEvents_t, kMostEvents> events{};
  const auto least = static_cast<unsigned>(number(words[2]));
  const unsigned room = std::min(static_cast<unsigned>(number(words[3])), kMostEvents);
  unsigned count = room;
  const long long ms = number(words[4]);
  struct timespec timeout {
    static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1000000)
  };
  const bool waits = words[4] == "none";
  Batch unknown;
  Batch* const found = Calls::batch(session, words[1]);
  Batch& batch = found == nullptr ? unknown : *found;
  const Error error = batch_status(value_of(session, words[1]), least, has(words[5], "nonr") ? nullptr : &count,
                                   has(words[5], "noev") ? nullptr : events.data(), waits ? nullptr : &timeout);
  tell(error);
  if (error.err != CU_FILE_SUCCESS && batch.outstanding > 0) doubt(batch);  // it is not known whether they are done
  if (error.err != CU_FILE_SUCCESS || has(words[5], "nonr")) return;
  // How many have ended when fewer may be told than are under way is an accident.
  const bool certain = !batch.cancelled &&
                       (batch.outstanding == 0 || (waits && least >= std::min<std::size_t>(batch.outstanding, room)));
  if (count > room || count > batch.outstanding) {
    answers().add(" nr=too_many(%u)", count);
    return;
  }
  const bool all = certain && count == batch.outstanding;
  batch.outstanding -= count;
  if (!all) {
    answers().add(" nr=%s", certain ? std::to_string(count).c_str() : "uncertain");
    // Which of them have ended is an accident, too.
    doubt(batch);
    batch.cancelled = batch.cancelled || !certain || count != 0;
    return;
  }
  answers().add(" nr=%u", count);
  if (count == 0) return;
  for (const Batch::Entry& entry : batch.entries) {
    if (entry.opcode == CUFILE_WRITE || !reads_what_nobody_knows(entry.file, entry.place)) continue;
    answers().add(" events=uncertain");
    doubt(batch);
    batch.entries.clear();
    return;
  }
  std::vector<CUfileIOEvents_t> told(events.begin(), events.begin() + count);
  std::sort(told.begin(), told.end(), [](const auto& a, const auto& b) { return a.cookie < b.cookie; });
  answers().add(" events=");
  for (const CUfileIOEvents_t& event : told) {
    const auto cookie = static_cast<long>(reinterpret_cast<std::intptr_t>(event.cookie));
    answers().add("%ld:%d:%lld,", cookie, static_cast<int>(event.status), static_cast<long long>(event.ret));
    for (Batch::Entry& entry : batch.entries) {
      const bool good = event.status == CUFILE_COMPLETE && static_cast<ssize_t>(event.ret) > 0;
      if (entry.cookie == cookie && good) entry.range.length = event.ret;
      if (entry.cookie == cookie)
        entry.move.count = event.status == CUFILE_COMPLETE ? static_cast<long long>(event.ret) : -1;
    }
  }
  tell_entries(session, batch);
}

void batch_cancel(Session& session, const Words& words) {
  SLUICE_NEEDS(batch_cancel);
  tell(batch_cancel(value_of(session, words[1])));
  Batch* const batch = Calls::batch(session, words[1]);
  if (batch == nullptr || batch->outstanding == 0) return;
  batch->cancelled = true;
  doubt(*batch);
}

void batch_destroy(Session& session, const Words& words) {
  SLUICE_NEEDS(batch_destroy);
  batch_destroy(value_of(session, words[1]));
  Batch* const batch = Calls::batch(session, words[1]);
  if (batch == nullptr) return;
  batch->open = false;
  doubt(*batch);
}

void stream_register(Session& session, const Words& words) {
  SLUICE_NEEDS(stream_register);
  CUstream const stream = Calls::stream(session, words[1]);
  const Error error = stream_register(stream, static_cast<unsigned>(number(words[2])));
  tell(error);
  if (error.err == CU_FILE_SUCCESS) Calls::streams(session).insert(stream);
}

void stream_deregister(Session& session, const Words& words) {
  SLUICE_NEEDS(stream_deregister);
  CUstream const stream = Calls::stream(session, words[1]);
  const Error error = stream_deregister(stream);
  tell(error);
  if (error.err == CU_FILE_SUCCESS) Calls::streams(session).erase(stream);
}

// ReadAsync hN PLACE SIZE FILE_OFFSET BUFFER_OFFSET sN FLAGS
void transfer_async(Session& session, const Words& words, bool reads) {
  const auto call = reads ? Calls::library(session).read_async : Calls::library(session).write_async;
  if (call == nullptr) {
    answers().add(" absent");
    return;
  }
  auto one = std::make_unique<AsyncCall>();
  one->place = Calls::world(session).place(words[2]);
  one->size = static_cast<std::size_t>(number(words[3]));
  one->file_offset = number(words[4]);
  one->buffer_offset = number(words[5]);
  one->bytes = kUntouched;
  one->file = Calls::file_of(session, words[1]);
  one->reads = reads;
  one->stream = Calls::stream(session, words[6]);
  if (!reads) Calls::world(session).mark_written();
  const std::string& flags = words[7];
  const Error error =
      call(Calls::handle(session, words[1]), one->place.address, has(flags, "nosize") ? nullptr : &one->size,
           has(flags, "nofile") ? nullptr : &one->file_offset, has(flags, "nobuffer") ? nullptr : &one->buffer_offset,
           has(flags, "nobytes") ? nullptr : &one->bytes, Calls::stream(session, words[6]));
  tell(error);
  if (error.err == CU_FILE_SUCCESS) {
    Calls::pending(session).push_back(std::move(one));
    return;
  }
  if (one->bytes != kUntouched) answers().add(" bytes=%lld", static_cast<long long>(one->bytes));
  Calls::passed(session).push_back(std::move(one));
}

}  // namespace

const Table& batch_calls() {
  static const Table table = {
      {"BatchSetUp", batch_set_up},  {"BatchSubmit", batch_submit},   {"BatchStatus", batch_status},
      {"BatchCancel", batch_cancel}, {"BatchDestroy", batch_destroy},
  };
  return table;
}

const Table& stream_calls() {
  static const Table table = {
      {"StreamRegister", stream_register},
      {"StreamDeregister", stream_deregister},
      {"ReadAsync", [](Session& session, const Words& words) { transfer_async(session, words, true); }},
      {"WriteAsync", [](Session& session, const Words& words) { transfer_async(session, words, false); }},
      {"Sync", [](Session& session, const Words&) { Calls::synchronise(session); }},
  };
  return table;
}

Call find_call(const std::string& name) {
  for (const Table* const table : {&driver_calls(), &parameter_calls(), &registration_calls(), &transfer_calls(),
                                   &batch_calls(), &stream_calls(), &statistics_calls()}) {
    const auto found = table->find(name);
    if (found != table->end()) return found->second;
  }
  return nullptr;
}

}  // namespace sluice::differential
