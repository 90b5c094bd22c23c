// SPDX-License-Identifier: Apache-2.0
// The calls that scripts may make, a table a family.
#pragma once

#include <map>
#include <string>

#include "differential/session.h"

namespace sluice::differential {

// What the calls need of a session; a call is a function of this alone and its words.
struct Calls {
  static const Library& library(const Session& session) { return session.library_; }
  static World& world(Session& session) { return session.world_; }
  static FileHandle* slot(Session& session, const std::string& word) { return session.slot(word); }
  static void* handle(Session& session, const std::string& word) { return session.handle(word); }
  static Batch* batch(Session& session, const std::string& word) { return session.batch(word); }
  static CUstream stream(const Session& session, const std::string& word) { return session.stream(word); }
  static std::set<void*>& files(Session& session) { return session.files_; }
  static std::set<CUstream>& streams(Session& session) { return session.streams_; }
  static std::multiset<const void*>& memory(Session& session) { return session.memory_; }
  static std::vector<std::unique_ptr<AsyncCall>>& pending(Session& session) { return session.pending_; }
  static std::vector<std::unique_ptr<AsyncCall>>& passed(Session& session) { return session.passed_; }
  static void starts_statistics(Session& session) { session.has_started_statistics_ = true; }
  static bool has_started_statistics(const Session& session) { return session.has_started_statistics_; }
  static void synchronise(Session& session) { session.synchronise(); }
  static File* file_of(Session& session, const std::string& word) {
    const FileHandle* const found = session.slot(word);
    return found == nullptr ? nullptr : found->file;
  }
};

using Table = std::map<std::string, Call>;
const Table& driver_calls();
const Table& parameter_calls();
const Table& registration_calls();
const Table& transfer_calls();
const Table& batch_calls();
const Table& stream_calls();
const Table& statistics_calls();

// For a call that this library does not have.
#define SLUICE_NEEDS(member)                       \
  if (Calls::library(session).member == nullptr) { \
    answers().add(" absent");                      \
    return;                                        \
  }                                                \
  const auto member = Calls::library(session).member

}  // namespace sluice::differential
