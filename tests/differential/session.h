// SPDX-License-Identifier: Apache-2.0
// One script in one library: its handles, batches and streams by name, and the calls that scripts may make.
#pragma once

#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "differential/expectation.h"
#include "differential/library.h"
#include "differential/world.h"

namespace sluice::differential {

using Words = std::vector<std::string>;

struct FileHandle {
  void* value = nullptr;
  File* file = nullptr;
  bool open = false;
};

struct Batch {
  struct Entry {
    Place place;
    Range range;
    File* file = nullptr;
    int opcode = 0;
    long cookie = 0;
    Move move;
  };
  void* value = nullptr;
  bool open = false;
  bool cancelled = false;  // or told in part: which entries will be told is an accident from here on
  std::size_t outstanding = 0;
  std::vector<Entry> entries;  // those that were submitted and not told of
};

constexpr ssize_t kUntouched = -77777;

// The arguments of a stream call; they stay where they are until the stream has passed.
struct AsyncCall {
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t bytes = 0;
  Place place;
  File* file = nullptr;
  bool reads = false;
  CUstream stream = nullptr;
};

class Session {
 public:
  Session(const Library& library, World& world) : library_(library), world_(world) {}

  // Makes the call that the line names and answers it in one line.
  void call(int number, const std::string& line);
  // What is still under way ends; what everything holds is told.
  void finish();
  // Gives back what the script has left. False: some memory stays registered.
  bool tear_down();

 private:
  friend struct Calls;

  FileHandle* slot(const std::string& word);
  void* handle(const std::string& word);
  Batch* batch(const std::string& word);
  CUstream stream(const std::string& word) const;
  void synchronise();

  Library library_;
  World& world_;
  std::array<FileHandle, 6> handles_;
  std::array<Batch, 3> batches_;
  std::vector<std::unique_ptr<AsyncCall>> pending_;
  std::vector<std::unique_ptr<AsyncCall>> passed_;
  bool has_started_statistics_ = false;
  bool tangled_ = false;               // other calls came while some were pending
  std::set<void*> files_;              // registered handles
  std::set<CUstream> streams_;         // registered
  std::multiset<const void*> memory_;  // registered
};

using Call = void (*)(Session&, const Words&);
Call find_call(const std::string& name);

long long number(const std::string& word);
bool has(const std::string& word, const char* part);
// What the entries of a batch that were not told of have to do with is uncertain from here on.
void doubt(const Batch& batch);
// Neither is how much is read of a file that is uncertain, nor what: the memory is uncertain, too.
bool reads_what_nobody_knows(const File* file, const Place& into);
void tell(Error error);
// Answers what a transfer or several have done to memory and files.
void tell_ranges(World& world, Buffer& buffer, const std::vector<Range>& ranges, const Expectation& expected,
                 std::size_t before = 0);

}  // namespace sluice::differential
