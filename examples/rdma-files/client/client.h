// SPDX-License-Identifier: Apache-2.0
// Files of a server, by name. What the server's addresses have in common is the folder: when one fails, the transfer
// begins anew by the next, with files opened and queue pairs linked again. Transfers say where they go, so nothing is
// lost by that.
#pragma once

#include <functional>

#include "client/connection.h"
#include "client/staging.h"

namespace rdma_files {

struct ClientSettings {
  std::vector<Endpoint> servers;
  Secret secret;
  std::chrono::milliseconds time{30'000};  // for an answer, and for each attempt to connect
  // Makes the queue pairs for tokens that come with calls, on the adapter with this address; null: there are none
  // there.
  std::function<std::unique_ptr<LinkGroup>(const std::string& address)> links{};
};

struct ServerSession;  // one connection, and what hangs on it

// A file that was opened; its numbers at servers are the client's affair.
class RemoteFile {
 public:
  RemoteFile(std::string name, std::uint8_t flags) : name_(std::move(name)), flags_(flags) {}
  const std::string& name() const noexcept { return name_; }
  std::uint64_t size() const noexcept { return size_; }  // when it was opened

 private:
  friend class Client;
  const std::string name_;
  const std::uint8_t flags_;
  std::uint64_t size_ = 0;
  std::mutex mutex_;
  std::weak_ptr<ServerSession> at_;
  std::uint32_t number_ = 0;
};

class Client {
 public:
  static constexpr std::size_t kPairs = 4;
  static constexpr std::uint64_t kPiece = std::uint64_t{16} << 20U;  // of one request

  explicit Client(ClientSettings settings) : settings_(std::move(settings)) {}

  // Throws std::system_error.
  std::shared_ptr<RemoteFile> open(const std::string& name, std::uint8_t flags);
  void close(RemoteFile& file) noexcept;

  struct Moved {
    std::uint64_t bytes = 0;
    int error = 0;  // an errno, where nothing was moved
  };
  // Into or from memory that a token describes; all of it lies in the token's memory, from its beginning. EREMOTEIO:
  // the server is not reached by the token's adapter, and perhaps by another.
  Moved move(RemoteFile& file, Direction direction, const Token& token, std::uint64_t length, std::uint64_t offset);
  // Into or from any host memory.
  Moved read(RemoteFile& file, std::span<std::uint8_t> into, std::uint64_t offset);
  Moved write(RemoteFile& file, std::span<const std::uint8_t> from, std::uint64_t offset);

  // Of the adapter in use; "" while no server can be reached.
  std::string local_address();
  // What went wrong last, in words.
  std::string last_error() const;

 private:
  using Session = std::shared_ptr<ServerSession>;
  template <typename Attempt>
  Moved with_fail_over(RemoteFile& file, const Attempt& attempt);
  Session session();
  void drop(const Session& failed, const std::exception& why);
  std::uint32_t number_of(RemoteFile& file, const Session& session, std::uint8_t flags);
  static Moved move_by(Connection& connection, Transfer transfer, MemoryOf memory);
  static Moved pieces_of(Connection& connection, Transfer transfer, MemoryOf memory);

  const ClientSettings settings_;
  mutable std::mutex mutex_;
  Session session_;
  std::size_t next_server_ = 0;
  std::string last_error_;
};

}  // namespace rdma_files
