// SPDX-License-Identifier: Apache-2.0
// What kernels and the host say to each other: words in pinned memory, and how tickets, requests and commands are
// packed into them. The one place for both sides: kernels/*.cu, this folder and the soft GPU include it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define SLUICE_BOTH_SIDES __host__ __device__
#else
#define SLUICE_BOTH_SIDES
#endif

namespace sluice::gpu {

// --- gather and scatter: chunks, each carried when its ticket is there --------------------------------------------

// Where a launch stands. In the staging buffer's memory, written by the device.
struct LaunchWords {
  std::uint32_t begun;   // the launch's id, once its first block runs
  std::uint32_t commit;  // commit_word(): it carries, or it was revoked
  std::uint32_t done;    // the launch id, once every byte is in place
  std::uint32_t left;    // the launch id, once no block of it will look at anything again
};

enum class LaunchCommit : std::uint32_t { none_yet = 0, carries = 1, revoked = 2 };

// Launch ids are below 2^30.
SLUICE_BOTH_SIDES constexpr std::uint32_t commit_word(std::uint32_t launch_id, LaunchCommit commit) noexcept {
  return launch_id << 2U | static_cast<std::uint32_t>(commit);
}
SLUICE_BOTH_SIDES constexpr bool is_commit_of(std::uint32_t word, std::uint32_t launch_id) noexcept {
  return word >> 2U == launch_id << 2U >> 2U;
}
SLUICE_BOTH_SIDES constexpr LaunchCommit commit_in(std::uint32_t word) noexcept {
  return static_cast<LaunchCommit>(word & 3U);
}

// What tells the kernel that a chunk is there. A line of memory each: blocks look at theirs again and again, over the
// link, and would hold up the writer of another one in the same line. The kernels' machine code has these 64 bytes
// built in: the line of x86-64 and of the Arm processors that such devices are attached to.
struct alignas(64) Ticket {
  std::uint64_t value;
};
inline constexpr std::uint32_t ticket_slots = 256;  // chunk n has slot n % ticket_slots

// In the low half of the first chunk's ticket: a launch that has not begun is to leave without doing anything.
inline constexpr std::uint32_t revoked_ticket = ~std::uint32_t{0};

// 8 bits for the staging slot that holds the chunk, 24 for its length, 32 for its number.
SLUICE_BOTH_SIDES constexpr std::uint64_t ticket_of(std::uint32_t number, std::uint32_t length,
                                                    std::uint32_t slot) noexcept {
  return std::uint64_t{slot} << 56U | std::uint64_t{length} << 32U | number;
}
SLUICE_BOTH_SIDES constexpr std::uint32_t ticket_number(std::uint64_t ticket) noexcept {
  return static_cast<std::uint32_t>(ticket);
}
SLUICE_BOTH_SIDES constexpr std::uint32_t ticket_length(std::uint64_t ticket) noexcept {
  return static_cast<std::uint32_t>(ticket >> 32U) & 0xffffffU;
}
SLUICE_BOTH_SIDES constexpr std::uint32_t ticket_slot(std::uint64_t ticket) noexcept {
  return static_cast<std::uint32_t>(ticket >> 56U);
}

// --- serve: mailboxes, each with a small request --------------------------------------------------------------------

// At the start of a box. Host and device write a line each.
struct MailboxWords {
  // By the host: mailbox_request(). A request is there when both words have the same number, whose low half is not 0.
  // Target and bytes are equally far behind a 16-byte boundary.
  std::array<std::uint64_t, 2> request;
  // By the device: mailbox_answer().
  alignas(128) std::uint64_t answer;
  std::uint32_t begun;  // the launch's id, once it looks for requests
};
static_assert(sizeof(MailboxWords) == 256);

inline constexpr std::uint32_t mailbox_bytes = 64 << 10;                    // a request is at most so long
inline constexpr std::uint32_t mailbox_data = sizeof(MailboxWords);         // of the bytes, behind the box's start
inline constexpr std::uint32_t mailbox_stride = 256 + mailbox_bytes + 128;  // from one box to the next
inline constexpr std::uint64_t end_of_targets = std::uint64_t{1} << 48U;    // addresses from there on fit in no request
static_assert(mailbox_stride % 128 == 0);

struct MailboxRequest {
  std::uint64_t where;  // low half of the number << 48 | target
  std::uint64_t what;   // number << 32 | length

  SLUICE_BOTH_SIDES constexpr std::uint32_t number() const noexcept { return static_cast<std::uint32_t>(what >> 32U); }
  SLUICE_BOTH_SIDES constexpr std::uint64_t target() const noexcept { return where & (end_of_targets - 1); }
  SLUICE_BOTH_SIDES constexpr std::uint32_t length() const noexcept { return static_cast<std::uint32_t>(what); }
  SLUICE_BOTH_SIDES constexpr bool is_whole() const noexcept {
    return where >> 48U != 0 && where >> 48U == (number() & 0xffffU);
  }
};
SLUICE_BOTH_SIDES constexpr MailboxRequest mailbox_request(std::uint32_t number, std::uint64_t target,
                                                           std::uint32_t length) noexcept {
  return {std::uint64_t{number & 0xffffU} << 48U | target, std::uint64_t{number} << 32U | length};
}

// The last number that was served, and the launch's id once it has left; 0 as long as it stays.
SLUICE_BOTH_SIDES constexpr std::uint64_t mailbox_answer(std::uint32_t launch_that_left,
                                                         std::uint32_t served) noexcept {
  return std::uint64_t{launch_that_left} << 32U | served;
}

// --- stream copy: commands in the order of a program's stream ------------------------------------------------------

enum class StreamCopyKind : std::uint32_t { end = 0, to_device = 1, from_device = 2, revoked = 3 };

// Two words, in a line of memory of their own: a look for one command does not hold up the writer of another. Both have
// (part of) the command's number, so it does not matter in which order they are seen.
struct alignas(64) StreamCopySlot {
  std::uint64_t first_word;
  std::uint64_t second_word;
};
struct alignas(64) StreamCopyAck {
  std::uint32_t number;  // of the last command carried out in this slot
};

// The address has 56 bits, the offset 13, the length 17. Without initialisers, which shared memory of kernels cannot
// have.
struct StreamCopyCommand {
  std::uint64_t address;
  std::uint32_t number;
  StreamCopyKind kind;
  std::uint32_t offset;  // into the staging slot
  std::uint32_t length;

  SLUICE_BOTH_SIDES constexpr std::uint64_t first_word() const noexcept {
    return address | std::uint64_t{number & 0xffU} << 56U;
  }
  SLUICE_BOTH_SIDES constexpr std::uint64_t second_word() const noexcept {
    return std::uint64_t{number} << 32U | static_cast<std::uint32_t>(kind) << 30U | offset << 17U | length;
  }
};
SLUICE_BOTH_SIDES constexpr bool has_number(std::uint64_t first_word, std::uint64_t second_word,
                                            std::uint32_t number) noexcept {
  return static_cast<std::uint32_t>(second_word >> 32U) == number && first_word >> 56U == (number & 0xffU);
}
SLUICE_BOTH_SIDES constexpr StreamCopyCommand command_of(std::uint64_t first_word, std::uint64_t second_word) noexcept {
  const auto low = static_cast<std::uint32_t>(second_word);
  return {first_word & 0x00ffffffffffffffU, static_cast<std::uint32_t>(second_word >> 32U),
          static_cast<StreamCopyKind>(low >> 30U), low >> 17U & 0x1fffU, low & 0x1ffffU};
}

// The device's counters, by their index. They begin as the host says.
enum StreamCopyCounter : std::uint32_t {
  at_draws = 0,   // the next number to be drawn
  at_first = 1,   // the first number of this launch
  at_commit = 2,  // 0 while unknown
  at_left = 3,    // blocks that have left
  at_next = 4,    // the first number of the next launch; 0 while this one goes on
  at_posted = 5,  // commands before this number have been seen by a block: they are there
};

// Commands have consecutive numbers, from launch to launch. A launch that would begin with this one or a later one
// begins anew instead: within a launch numbers never come round. The last byte goes on as it was, since the first word
// of a command has no more of its number.
inline constexpr std::uint32_t end_of_numbers = 0xe0000000U;
SLUICE_BOTH_SIDES constexpr std::uint32_t following_launch(std::uint32_t next) noexcept {
  constexpr std::uint32_t values = 0x100;  // of a byte
  return next < end_of_numbers ? next : values + next % values;
}
// The commit word of the launch that begins with `number`.
SLUICE_BOTH_SIDES constexpr std::uint32_t committed_launch(std::uint32_t number) noexcept {
  return number << 1U;
}
SLUICE_BOTH_SIDES constexpr std::uint32_t revoked_launch(std::uint32_t number) noexcept {
  return number << 1U | 1U;
}

}  // namespace sluice::gpu
