// SPDX-License-Identifier: Apache-2.0
// Transfers of whole blocks through the module, many calls at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"
#include "nvfs/windows.h"

namespace sluice::nvfs {

// What keeps a transfer from going on, where it says something of more than this one.
enum class Trouble : std::uint8_t {
  none,
  wrote_nothing,   // a write that is not empty was answered 0: a driver without hooks has put foreign bytes there
  hole_over_data,  // the module calls a hole what the file system says is written: the bytes are elsewhere
  not_understood,  // the page by which it tells of holes is not as it was
  not_mapped,      // device memory could not be mapped
  memory_gone,     // device memory was freed under it
};

// Device memory where the file has a hole, which the module leaves as it was.
enum class Filled : std::uint8_t {
  cleared,
  left,       // to the CPU: who is asked cannot tell, or may not touch the memory now
  over_data,  // there is no hole: the file has bytes here
};
class Holes {
 public:
  // Of the member's range. On the thread that runs the group.
  virtual Filled fill(std::uint64_t begin, std::uint64_t length) noexcept = 0;

 protected:
  ~Holes() = default;
};

struct Member {
  // What is to be moved: whole blocks, memory that the windows hold.
  base::Direction direction = base::Direction::read;
  FileName file;
  std::uint64_t at = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  Windows* windows = nullptr;
  Holes* holes = nullptr;  // of a read

  // What came of it: bytes from its start on that are in place. Short of its length either at the end of the file, or
  // for the error.
  std::uint64_t done = 0;
  int error = 0;
  Trouble trouble = Trouble::none;

  base::Outcome outcome() const noexcept {
    return done > 0 || error == 0 ? base::Outcome::bytes(done) : base::Outcome::system_error(error);
  }
};

class Group {
 public:
  static constexpr std::size_t most_under_way = 16;

  // Returns when all of the members have ended. Each ends as it would by itself. Of a member that ends early, blocks
  // behind its end may have arrived.
  static void run(const Node& node, std::span<Member> members) noexcept;

 private:
  // One window's part of a member, call by call. The window's lock is held.
  struct Flight {
    Member* member = nullptr;
    Window* window = nullptr;
    std::uint64_t next = 0;  // in the member: behind the call that is under way
    std::uint64_t end = 0;
    Piece piece;
  };
  enum class Step : std::uint8_t { under_way, ended };

  Group(const Node& node, std::span<Member> members) noexcept : node_(node), members_(members) {}
  void run() noexcept;
  bool has_more() noexcept;
  bool begin_one() noexcept;
  void take(Flight& flight, bool alone) noexcept;
  Step go_on(Flight& flight, bool alone) noexcept;
  bool reap() noexcept;
  void settle(Flight& flight, std::int64_t answer) noexcept;
  void fill_holes(Flight& flight, std::uint64_t count) noexcept;
  static bool fill_each(Flight& flight, std::uint64_t count) noexcept;
  void end(const Flight& flight) noexcept;
  static void stop(Member& member, std::uint64_t at, int error, Trouble trouble) noexcept;

  const Node& node_;
  std::span<Member> members_;
  std::size_t member_ = 0;  // the next to begin something of
  std::uint64_t from_ = 0;  // in it
  std::array<Flight, most_under_way> flights_;
  std::size_t count_ = 0;
};

}  // namespace sluice::nvfs
