// SPDX-License-Identifier: Apache-2.0
// A server and its clients on the loopback device, which no RDMA adapter has: all but the bytes themselves.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "client/client.h"
#include "server/server.h"

namespace rdma_files::served_test {
namespace {

constexpr std::chrono::seconds kTime{20};
const Secret secret(32, 7);

class RdmaFilesServed : public testing::Test {
 protected:
  RdmaFilesServed() {
    std::filesystem::create_directories(folder_ + "/inside");
    std::ofstream(folder_ + "/file") << "12345";
    std::ofstream(folder_ + "-outside") << "secret";
    std::filesystem::create_symlink(folder_ + "-outside", folder_ + "/link");
    ::mkfifo((folder_ + "/fifo").c_str(), 0600);
    server_.emplace(ServerSettings{.folder = folder_, .listen = {{"127.0.0.1", 0}}, .secret = secret, .time = kTime});
    thread_ = std::thread([this] { server_->run(end_.get()); });
  }
  ~RdmaFilesServed() override {
    stop();
    std::filesystem::remove_all(folder_);
    std::filesystem::remove(folder_ + "-outside");
  }

  void stop() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(end_.get(), &one, sizeof one), ssize_t{sizeof one});
    thread_.join();
  }
  Endpoint endpoint() const { return {"127.0.0.1", server_->listeners().front().port()}; }
  ClientSettings settings() const { return {.servers = {endpoint()}, .secret = secret, .time = kTime}; }

  static int error_of_open(Client& client, const std::string& name, std::uint8_t flags = 0) {
    try {
      client.open(name, flags);
      return 0;
    } catch (const std::system_error& error) {
      return error.code().value();
    }
  }

  const std::string folder_ = testing::TempDir() + "rdma-files-" + std::to_string(::getpid());
  Fd end_{::eventfd(0, EFD_CLOEXEC)};
  std::optional<Server> server_;
  std::thread thread_;
};

TEST_F(RdmaFilesServed, OpensTheFilesOfItsFolder) {
  Client client(settings());
  EXPECT_EQ(client.open("file", 0)->size(), 5U);
  EXPECT_EQ(client.open("fresh", kOpenWrite | kOpenCreate)->size(), 0U);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/fresh"));
  EXPECT_EQ(client.open("file", kOpenWrite | kOpenTruncate)->size(), 0U);
}

TEST_F(RdmaFilesServed, NothingElseCanBeOpened) {
  Client client(settings());
  EXPECT_EQ(error_of_open(client, "absent"), ENOENT);
  EXPECT_EQ(error_of_open(client, "link"), EACCES);
  EXPECT_EQ(error_of_open(client, "inside"), EACCES);
  EXPECT_EQ(error_of_open(client, "fifo"), EACCES);
  EXPECT_EQ(error_of_open(client, "../file"), EINVAL);
  EXPECT_EQ(error_of_open(client, "file"), 0) << "the connection is none the worse for it";
  EXPECT_EQ(server_->counts().sessions, 1U);
}

TEST_F(RdmaFilesServed, AClientWithAnotherSecretIsRefused) {
  ClientSettings other = settings();
  other.secret = Secret(32, 9);
  Client client(std::move(other));
  EXPECT_EQ(error_of_open(client, "file"), EACCES);
  stop();
  EXPECT_EQ(server_->counts().refused_secrets, 1U);
  EXPECT_EQ(server_->counts().sessions, 0U);
}

TEST_F(RdmaFilesServed, FilesAreBounded) {
  Client client(settings());
  std::vector<std::shared_ptr<RemoteFile>> files;
  for (std::size_t i = 0; i < Session::kMostFiles; ++i) files.push_back(client.open("file", 0));
  EXPECT_EQ(error_of_open(client, "file"), EMFILE);
  client.close(*files.back());
  EXPECT_EQ(error_of_open(client, "file"), 0);
}

TEST_F(RdmaFilesServed, WithoutAnAdapterATransferSaysSo) {
  Client client(settings());
  const auto file = client.open("file", 0);
  std::array<std::uint8_t, 5> bytes{};
  // ENODEV: no device has the address. ENOSYS: the kernel has no RDMA at all.
  const int error = client.read(*file, bytes, 0).error;
  EXPECT_TRUE(error == ENODEV || error == ENOSYS) << std::strerror(error);
}

TEST_F(RdmaFilesServed, MemoryWithoutALinkIsNotReached) {
  Client client(settings());
  const auto file = client.open("file", 0);
  EXPECT_EQ(client.move(*file, Direction::read, {.address = 0x1000, .size = 100, .gid = Gid{}}, 100, 0).error,
            EREMOTEIO);
  EXPECT_EQ(client.move(*file, Direction::read, {.address = 0x1000, .size = 100, .gid = Gid{}}, 101, 0).error, EFAULT);
}

// What the client's library would not send.
TEST_F(RdmaFilesServed, ATransferByNoLinkOfThisClientIsRefused) {
  Connection connection(endpoint(), secret, kTime);
  const Answer opened = connection.ask(Open{0, "file"});
  ASSERT_EQ(opened.error, 0);
  Transfer transfer{
      .file = opened.number, .length = 5, .queue_pair = 77, .token = {.address = 0x1000, .size = 100, .gid = Gid{}}};
  const Answer answer = connection.ask(transfer);
  EXPECT_EQ(answer.error, ENOTCONN);
  EXPECT_TRUE(answer.link_lost);
  transfer.file = 99;
  EXPECT_EQ(connection.ask(transfer).error, EBADF);
  EXPECT_EQ(connection.ask(Close{99}).error, EBADF);
}

TEST_F(RdmaFilesServed, ARequestThatIsNoneEndsTheSession) {
  const auto channel =
      Channel::as_client(std::make_shared<const Socket>(Socket::connected_to(endpoint(), kTime)), secret, kTime);
  channel->send({9, 9, 9});
  EXPECT_THROW(channel->receive(), std::system_error);
}

TEST_F(RdmaFilesServed, TheNextAddressIsTakenWhenOneDoesNotAnswer) {
  const Listener closed({"127.0.0.1", 0});
  ClientSettings both = settings();
  both.time = std::chrono::milliseconds(300);
  both.servers.insert(both.servers.begin(), Endpoint{"127.0.0.1", closed.port()});
  Client client(std::move(both));
  EXPECT_EQ(client.open("file", 0)->size(), 5U);
}

TEST_F(RdmaFilesServed, AServerThatEndsIsNoticed) {
  Client client(settings());
  const auto file = client.open("file", 0);
  stop();
  server_.reset();
  EXPECT_EQ(error_of_open(client, "file"), ECONNREFUSED);
  EXPECT_EQ(client.local_address(), "");
}

}  // namespace
}  // namespace rdma_files::served_test
