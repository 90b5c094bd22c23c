// SPDX-License-Identifier: Apache-2.0
// The caller's operations may move less than they were asked for; they are asked again until nothing more comes.
#include "paths/userspace.h"

#include <cerrno>

#include "io/file_io.h"
#include "paths/operations.h"
#include "paths/through_host.h"

namespace sluice::paths {

namespace {

using base::Direction;
using base::FileOffset;
using base::Outcome;

Outcome read_all(const Ends& ends, std::span<std::byte> into, FileOffset at) noexcept {
  std::uint64_t done = 0;
  while (done < into.size()) {
    const auto address = reinterpret_cast<std::uint64_t>(into.data() + done);
    const OperationAnswer got = call_operation(ends, {Direction::read, address, into.size() - done, at.value + done});
    if (got.count < 0) {
      if (got.error == EINTR) continue;
      return done > 0 ? Outcome::bytes(done) : Outcome::system_error(got.error);
    }
    if (got.count == 0) break;
    done += static_cast<std::uint64_t>(got.count);
  }
  return Outcome::bytes(done);
}

Outcome write_all(const Ends& ends, std::span<const std::byte> from, FileOffset at) noexcept {
  std::uint64_t done = 0;
  while (done < from.size()) {
    const auto address = reinterpret_cast<std::uint64_t>(from.data() + done);
    const OperationAnswer put = call_operation(ends, {Direction::write, address, from.size() - done, at.value + done});
    if (put.count < 0) {
      if (put.error == EINTR) continue;
      return done > 0 ? Outcome::bytes(done) : Outcome::system_error(put.error);
    }
    if (put.count == 0) return done > 0 ? Outcome::bytes(done) : Outcome::system_error(ENOSPC);
    done += static_cast<std::uint64_t>(put.count);
  }
  return Outcome::bytes(done);
}

class OperationsSide final : public FileSide {
 public:
  explicit OperationsSide(const Ends& ends) noexcept : ends_(ends) {}

  std::uint32_t block() const noexcept override { return 1; }
  bool takes_many_readers() const noexcept override { return false; }
  Outcome read(std::span<std::byte> into, FileOffset at) noexcept override { return read_all(ends_, into, at); }
  Outcome write(std::span<const std::span<const std::byte>> from, FileOffset at) noexcept override {
    return io::write_rest(from, at, block(), 0,
                          [this](auto bytes, FileOffset there) { return write_all(ends_, bytes, there); });
  }

 private:
  const Ends& ends_;
};

}  // namespace

constinit const Userspace userspace;

bool Userspace::concerns(const File& file) const noexcept {
  return file.facts.caller_reads || file.facts.caller_writes;
}

std::optional<route::Reason> Userspace::refuses(const Facts& facts) const noexcept {
  const facts::FileFacts& file = facts.file.facts;
  const bool own = facts.direction == Direction::read ? file.caller_reads : file.caller_writes;
  return own ? std::nullopt : std::optional<route::Reason>(unconcerned);
}

route::Cutting Userspace::cutting(const Facts& facts) const noexcept {
  return route::uncut(facts.memory.kind);
}

void Userspace::move(std::span<Item> items, Completion& /*completion*/) const noexcept {
  for (Item& item : items) {
    OperationsSide side(*item.ends);
    item.outcome = move_through_host(*item.ends, item.piece, side);
  }
}

Outcome read_plainly(const Ends& ends, std::span<std::byte> into, FileOffset at) noexcept {
  const bool own = ends.file.operations != nullptr && ends.file.operations->read != nullptr;
  return own ? read_all(ends, into, at) : ends.file.buffered.read(into, at);
}

}  // namespace sluice::paths
