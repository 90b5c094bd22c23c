// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <system_error>

namespace rdma_files {

// What hangs on one connection. Staging memory outlives the links by which a server reaches it.
struct ServerSession {
  ServerSession(const Endpoint& server, const ClientSettings& settings)
      : connection(server, settings.secret, settings.time) {}

  std::mutex mutex;
  std::unique_ptr<Staging> staging;  // null before the first transfer that needs it
  Connection connection;
};

namespace {

// A request that the server has refused; the connection is none the worse for it.
struct Refused : std::system_error {
  explicit Refused(int error) : std::system_error(error, std::generic_category(), "the server refuses") {}
};

Staging& staging_of(ServerSession& session) {
  const std::scoped_lock lock(session.mutex);
  if (!session.staging) {
    auto group = std::make_unique<OwnGroup>(Device::with_address(session.connection.local_address()), Client::kPairs);
    session.staging = std::make_unique<Staging>(*group);
    session.connection.add(std::move(group), MemoryOf::client);
  }
  return *session.staging;
}

}  // namespace

Client::Session Client::session() {
  const std::scoped_lock lock(mutex_);
  if (session_ && session_->connection.is_alive()) return session_;
  session_.reset();
  for (std::size_t tried = 0;; ++tried) {
    const Endpoint& server = settings_.servers.at(next_server_);
    try {
      auto fresh = std::make_shared<ServerSession>(server, settings_);
      auto group = settings_.links ? settings_.links(fresh->connection.local_address()) : nullptr;
      if (group) fresh->connection.add(std::move(group), MemoryOf::caller);
      return session_ = std::move(fresh);
    } catch (const std::system_error& error) {
      last_error_ = server.address + ": " + error.what();
      next_server_ = (next_server_ + 1) % settings_.servers.size();
      if (tried + 1 == settings_.servers.size()) throw;
    }
  }
}

// The next attempt is made by the next address.
void Client::drop(const Session& failed, const std::exception& why) {
  failed->connection.give_up();
  const std::scoped_lock lock(mutex_);
  last_error_ = why.what();
  if (session_ != failed) return;
  session_.reset();
  next_server_ = (next_server_ + 1) % settings_.servers.size();
}

std::string Client::local_address() {
  const std::scoped_lock lock(mutex_);
  return session_ && session_->connection.is_alive() ? session_->connection.local_address() : "";
}

std::string Client::last_error() const {
  const std::scoped_lock lock(mutex_);
  return last_error_;
}

std::uint32_t Client::number_of(RemoteFile& file, const Session& session, std::uint8_t flags) {
  const std::scoped_lock lock(file.mutex_);
  if (file.at_.lock() == session) return file.number_;
  const Answer answer = session->connection.ask(Open{flags, file.name_});
  if (answer.error != 0) throw Refused(answer.error);
  file.at_ = session;
  file.number_ = answer.number;
  file.size_ = answer.bytes;
  return file.number_;
}

// Attempts may be repeated: each address once, and once more for those that another transfer's failure has taken along.
// A key that was refused is refused by all.
template <typename Attempt>
Client::Moved Client::with_fail_over(RemoteFile& file, const Attempt& attempt) {
  for (std::size_t tried = 0;; ++tried) {
    Session now;
    try {
      now = session();
      // It was created and emptied when it was opened, not again.
      return attempt(*now, number_of(file, now, file.flags_ & kOpenWrite));
    } catch (const Refused& error) {
      return {.error = error.code().value()};
    } catch (const NotLinked& error) {
      return {.error = error.code().value()};
    } catch (const std::system_error& error) {
      if (now) drop(now, error);
      const int code = error.code().value();
      if (code == EACCES || tried > settings_.servers.size() || !now) return {.error = code};
    }
  }
}

std::shared_ptr<RemoteFile> Client::open(const std::string& name, std::uint8_t flags) {
  if (!is_plain_name(name))
    throw std::system_error(EINVAL, std::generic_category(), "\"" + name + "\" is no plain name");
  auto file = std::make_shared<RemoteFile>(name, flags);
  const Session first = session();
  try {
    number_of(*file, first, flags);
  } catch (const Refused&) {
    throw;
  } catch (const std::system_error& error) {
    drop(first, error);
    number_of(*file, session(), flags);
  }
  return file;
}

void Client::close(RemoteFile& file) noexcept {
  const std::scoped_lock lock(file.mutex_);
  try {
    if (const Session at = file.at_.lock(); at && at->connection.is_alive()) at->connection.ask(Close{file.number_});
  } catch (const std::exception&) {
    // The server closes what a connection has left open.
  }
  file.at_.reset();
}

// Several pieces are under way at a time, each on its own queue pair. What is returned is all that was moved without a
// gap.
Client::Moved Client::pieces_of(Connection& connection, Transfer transfer, MemoryOf memory) {
  struct Piece {
    std::uint32_t id;
    std::uint64_t length;
  };
  const std::uint64_t length = transfer.length;
  const std::uint64_t offset = transfer.offset;
  std::deque<Piece> under_way;
  Moved moved;
  int lost = 0;
  bool going = true;
  for (std::uint64_t begun = 0; (going && begun < length) || !under_way.empty();) {
    if (going && begun < length && under_way.size() < kPairs) {
      transfer.length = std::min(kPiece, length - begun);
      transfer.into = begun;
      transfer.offset = offset + begun;
      under_way.push_back({connection.begin(transfer, memory), transfer.length});
      begun += transfer.length;
      continue;
    }
    const Answer answer = connection.wait(under_way.front().id);
    if (answer.link_lost && lost == 0) lost = answer.error != 0 ? answer.error : ENOTCONN;
    // A count that cannot be is not believed.
    const bool whole = answer.error == 0 && answer.bytes == under_way.front().length;
    if (going && answer.error == 0) moved.bytes += std::min(answer.bytes, under_way.front().length);
    if (going && !whole) moved.error = answer.error;
    going = going && whole;
    under_way.pop_front();
  }
  // The server has refused the memory's key, or cannot reach the adapter: its pairs are of no use any more.
  if (lost != 0) throw std::system_error(lost, std::generic_category(), "the link is lost");
  if (moved.bytes > 0) moved.error = 0;
  return moved;
}

// Where it fails, the server cannot reach the memory any more when this is left: its next user has it alone.
Client::Moved Client::move_by(Connection& connection, Transfer transfer, MemoryOf memory) {
  try {
    return pieces_of(connection, transfer, memory);
  } catch (const NotLinked&) {
    throw;
  } catch (const std::exception&) {
    connection.give_up();
    throw;
  }
}

Client::Moved Client::move(RemoteFile& file, Direction direction, const Token& token, std::uint64_t length,
                           std::uint64_t offset) {
  if (!part_of(token, 0, length)) return {.error = EFAULT};
  return with_fail_over(file, [&](ServerSession& session, std::uint32_t number) {
    return move_by(session.connection,
                   {.direction = direction, .file = number, .offset = offset, .length = length, .token = token},
                   MemoryOf::caller);
  });
}

Client::Moved Client::read(RemoteFile& file, std::span<std::uint8_t> into, std::uint64_t offset) {
  return with_fail_over(file, [&](ServerSession& session, std::uint32_t number) {
    Moved moved;
    while (moved.bytes < into.size()) {
      const Staging::Lease lease = staging_of(session).lease(settings_.time);
      const std::uint64_t length = std::min<std::uint64_t>(Staging::kSlot, into.size() - moved.bytes);
      const Token token = lease.token(static_cast<std::uint32_t>(length));
      const Moved piece =
          move_by(session.connection,
                  {.file = number, .offset = offset + moved.bytes, .length = length, .token = token}, MemoryOf::client);
      std::memcpy(into.data() + moved.bytes, lease.memory(), piece.bytes);
      moved.bytes += piece.bytes;
      if (piece.bytes < length) return moved.bytes > 0 ? moved : piece;
    }
    return moved;
  });
}

Client::Moved Client::write(RemoteFile& file, std::span<const std::uint8_t> from, std::uint64_t offset) {
  return with_fail_over(file, [&](ServerSession& session, std::uint32_t number) {
    Moved moved;
    while (moved.bytes < from.size()) {
      const Staging::Lease lease = staging_of(session).lease(settings_.time);
      const std::uint64_t length = std::min<std::uint64_t>(Staging::kSlot, from.size() - moved.bytes);
      std::memcpy(lease.memory(), from.data() + moved.bytes, length);
      const Token token = lease.token(static_cast<std::uint32_t>(length));
      const Moved piece = move_by(session.connection,
                                  {.direction = Direction::write,
                                   .file = number,
                                   .offset = offset + moved.bytes,
                                   .length = length,
                                   .token = token},
                                  MemoryOf::client);
      moved.bytes += piece.bytes;
      if (piece.bytes < length) return moved.bytes > 0 ? moved : piece;
    }
    return moved;
  });
}

}  // namespace rdma_files
