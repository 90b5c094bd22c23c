// SPDX-License-Identifier: Apache-2.0
// Registering files and memory; reads and writes.
#include <cerrno>
#include <cstring>
#include <map>

#include "differential/answers.h"
#include "differential/calls.h"

namespace sluice::differential {
namespace {

// HandleRegister hN DESCRIPTOR TYPE FLAGS
void handle_register(Session& session, const Words& words) {
  SLUICE_NEEDS(handle_register);
  FileHandle* const slot = Calls::slot(session, words[1]);
  File* file = nullptr;
  const int fd = Calls::world(session).descriptor(words[2], &file);
  CUfileDescr_t description;
  std::memset(&description, 0, sizeof description);
  const int type = static_cast<int>(number(words[3]));
  std::memcpy(&description.type, &type, sizeof type);
  description.handle.fd = fd;
  static char before;
  void* value = &before;
  const Error error =
      handle_register(has(words[4], "nofh") ? nullptr : &value, has(words[4], "nodescr") ? nullptr : &description);
  tell(error);
  answers().add(" handle=%s", value == &before ? "kept" : value == nullptr ? "null" : "set");
  if (error.err != CU_FILE_SUCCESS || value == &before) return;
  Calls::files(session).insert(value);
  if (slot != nullptr && !slot->open) *slot = {value, file, true};
}

void handle_deregister(Session& session, const Words& words) {
  SLUICE_NEEDS(handle_deregister);
  void* const value = Calls::handle(session, words[1]);
  handle_deregister(value);
  Calls::files(session).erase(value);
  // The slot keeps its value: later calls that name it hold a stale handle.
  if (FileHandle* const slot = Calls::slot(session, words[1])) slot->open = false;
}

void buffer_register(Session& session, const Words& words) {
  SLUICE_NEEDS(buffer_register);
  const Place place = Calls::world(session).place(words[1]);
  const Error error =
      buffer_register(place.address, static_cast<std::size_t>(number(words[2])), static_cast<int>(number(words[3])));
  tell(error);
  if (error.err == CU_FILE_SUCCESS) Calls::memory(session).insert(place.address);
}

void buffer_deregister(Session& session, const Words& words) {
  SLUICE_NEEDS(buffer_deregister);
  const Place place = Calls::world(session).place(words[1]);
  const Error error = buffer_deregister(place.address);
  tell(error);
  auto& memory = Calls::memory(session);
  const auto found = memory.find(place.address);
  if (error.err == CU_FILE_SUCCESS && found != memory.end()) memory.erase(found);
}

void tell_count(ssize_t count, bool is_certain = true) {
  if (count >= 0 && !is_certain) {
    answers().add(" ret=uncertain");
    return;
  }
  answers().add(" ret=%lld", static_cast<long long>(count));
  if (count < 0) answers().add(" errno=%d", errno);
}

// Words: hN PLACE SIZE FILE_OFFSET BUFFER_OFFSET
Move move_of(Session& session, const Words& words, const Place& place, bool reads, ssize_t count) {
  return {place,
          number(words[5]),
          static_cast<std::size_t>(number(words[3])),
          number(words[4]),
          Calls::file_of(session, words[1]),
          reads,
          count};
}

void read(Session& session, const Words& words) {
  SLUICE_NEEDS(read);
  const Place place = Calls::world(session).place(words[2]);
  const long long offset = number(words[5]);
  errno = 0;
  const ssize_t count = read(Calls::handle(session, words[1]), place.address,
                             static_cast<std::size_t>(number(words[3])), number(words[4]), offset);
  Expectation expected;
  expected.add(move_of(session, words, place, true, count));
  tell_count(count, count < 0 || !reads_what_nobody_knows(Calls::file_of(session, words[1]), place));
  expected.tell_counts();
  if (place.buffer == nullptr) return;
  if (count > 0) Calls::world(session).doubt_outside(place, offset, static_cast<std::size_t>(count), nullptr);
  std::vector<Range> ranges;
  const long long begin = place.address - place.buffer->address + (count > 0 ? offset : 0);
  if (count > 0 && begin >= 0) ranges.push_back({static_cast<std::size_t>(begin), static_cast<std::size_t>(count)});
  const long long rest = count > 0 && begin < 0 ? begin + count : 0;
  tell_ranges(Calls::world(session), *place.buffer, ranges, expected, static_cast<std::size_t>(rest > 0 ? rest : 0));
}

void write(Session& session, const Words& words) {
  SLUICE_NEEDS(write);
  const Place place = Calls::world(session).place(words[2]);
  Calls::world(session).mark_written();
  errno = 0;
  const ssize_t count = write(Calls::handle(session, words[1]), place.address,
                              static_cast<std::size_t>(number(words[3])), number(words[4]), number(words[5]));
  Expectation expected;
  expected.add(move_of(session, words, place, false, count));
  tell_count(count);
  expected.tell_counts();
  File* const file = Calls::file_of(session, words[1]);
  if (file != nullptr) {
    if (count > 0) {
      Calls::world(session).doubt_outside(place, number(words[5]), static_cast<std::size_t>(count), file);
    }
    answers().add(" file=%s", Calls::world(session).tell(*file).c_str());
  }
}

// Readv hN OFFSET FLAGS PLACE,LENGTH PLACE,LENGTH ...; "noiov" in place of the parts
void vectored(Session& session, const Words& words, bool reads) {
  const auto call = reads ? Calls::library(session).readv : Calls::library(session).writev;
  if (call == nullptr) {
    answers().add(" absent");
    return;
  }
  World& world = Calls::world(session);
  std::vector<CUfileIOVec_t> parts;
  std::vector<Place> places;
  for (std::size_t i = 4; i < words.size() && has(words[i], ","); ++i) {
    const std::size_t comma = words[i].find(',');
    places.push_back(world.place(words[i].substr(0, comma)));
    parts.push_back({places.back().address, static_cast<std::size_t>(number(words[i].substr(comma + 1)))});
  }
  if (!reads) world.mark_written();
  errno = 0;
  const ssize_t count =
      call(Calls::handle(session, words[1]), words[4] == "noiov" ? nullptr : parts.data(),
           words[4] == "noiov" ? 1 : parts.size(), number(words[2]), static_cast<unsigned>(number(words[3])));
  File* const file = Calls::file_of(session, words[1]);
  tell_count(count, !reads || file == nullptr || !file->uncertain);
  Expectation expected;
  std::map<Buffer*, std::vector<Range>> ranges;
  std::size_t left = count > 0 ? static_cast<std::size_t>(count) : 0;
  long long offset = number(words[2]);
  bool meet = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t some = std::min(left, parts[i].len);
    left -= some;
    // Only what was moved is looked at: that is a transfer of its own.
    expected.add({places[i], 0, some, offset, file, reads, static_cast<long long>(some)});
    offset += static_cast<long long>(some);
    if (places[i].buffer == nullptr || !reads) continue;
    const auto begin = static_cast<std::size_t>(places[i].address - places[i].buffer->address);
    // Common memory has what one of them got, and nothing says which.
    for (const Range& other : ranges[places[i].buffer]) {
      const bool these_do = begin < other.begin + other.length && other.begin < begin + some;
      places[i].buffer->uncertain = places[i].buffer->uncertain || these_do;
      meet = meet || these_do;
    }
    ranges[places[i].buffer].push_back({begin, some});
    if (count > 0) reads_what_nobody_knows(file, places[i]);
  }
  if (meet) expected.give_up();
  expected.tell_counts();
  for (const Place& place : places) {
    const auto found = ranges.find(place.buffer);
    if (found == ranges.end()) continue;
    tell_ranges(world, *found->first, found->second, expected);
    ranges.erase(found);
  }
  if (!reads && file != nullptr) answers().add(" file=%s", world.tell(*file).c_str());
}

// CloseFile DESCRIPTOR: behind the library's back
void close_file(Session& session, const Words& words) {
  Calls::world(session).close_descriptor(words[1]);
}

}  // namespace

const Table& registration_calls() {
  static const Table table = {
      {"HandleRegister", handle_register}, {"HandleDeregister", handle_deregister},
      {"BufRegister", buffer_register},    {"BufDeregister", buffer_deregister},
      {"CloseFile", close_file},
  };
  return table;
}

const Table& transfer_calls() {
  static const Table table = {
      {"Read", read},
      {"Write", write},
      {"Readv", [](Session& session, const Words& words) { vectored(session, words, true); }},
      {"Writev", [](Session& session, const Words& words) { vectored(session, words, false); }},
  };
  return table;
}

}  // namespace sluice::differential
