// SPDX-License-Identifier: Apache-2.0
// Two ends of a control channel on the loopback device.
#include "net/channel.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <system_error>

namespace rdma_files::channel_test {
namespace {

constexpr std::chrono::seconds kTime{20};
const Secret secret(32, 7);

struct Ends {
  std::unique_ptr<Channel> server;
  std::unique_ptr<Channel> client;
};

int error_of(std::future<std::unique_ptr<Channel>>& end) {
  try {
    end.get();
    return 0;
  } catch (const std::system_error& error) {
    return error.code().value();
  }
}

class RdmaFilesChannel : public testing::Test {
 protected:
  SharedSocket accepted() {
    wait_for(listener_.fd(), 1 /* POLLIN */, after(kTime));
    return std::make_shared<const Socket>(listener_.accepted());
  }
  SharedSocket connected() const {
    return std::make_shared<const Socket>(Socket::connected_to({"127.0.0.1", listener_.port()}, kTime));
  }
  std::future<std::unique_ptr<Channel>> client(const Secret& with) {
    return std::async(std::launch::async, [this, with] { return Channel::as_client(connected(), with, kTime); });
  }

  Listener listener_{{"127.0.0.1", 0}};
};

TEST_F(RdmaFilesChannel, MessagesGoBothWays) {
  auto connecting = client(secret);
  const auto server = Channel::as_server(accepted(), secret, kTime);
  const auto other = connecting.get();
  for (std::uint8_t i = 1; i < 10; ++i) {
    other->send(Payload(i, i));
    EXPECT_EQ(server->receive(), Payload(i, i));
    server->send(Payload(2, i));
    EXPECT_EQ(other->receive(), Payload(2, i));
  }
}

TEST_F(RdmaFilesChannel, AnotherSecretIsRefusedByBothEnds) {
  auto connecting = client(Secret(32, 8));
  auto serving = std::async(std::launch::async, [this] { return Channel::as_server(accepted(), secret, kTime); });
  EXPECT_EQ(error_of(serving), EACCES);
  EXPECT_EQ(error_of(connecting), EACCES);
}

TEST_F(RdmaFilesChannel, AnEndThatSaysNothingIsGivenUp) {
  const SharedSocket silent = connected();
  auto serving = std::async(std::launch::async,
                            [this] { return Channel::as_server(accepted(), secret, std::chrono::milliseconds(50)); });
  EXPECT_EQ(error_of(serving), ETIMEDOUT);
}

TEST_F(RdmaFilesChannel, AnEndThatSpeaksAnotherLanguageIsRefused) {
  const SharedSocket other = connected();
  other->send_all(std::vector<std::uint8_t>(kHelloLength, 'x'), after(kTime));
  auto serving = std::async(std::launch::async, [this] { return Channel::as_server(accepted(), secret, kTime); });
  EXPECT_EQ(error_of(serving), EPROTO);
}

TEST_F(RdmaFilesChannel, AShutDownWakesWhatWaits) {
  auto connecting = client(secret);
  const SharedSocket socket = accepted();
  const auto server = Channel::as_server(socket, secret, kTime);
  const auto other = connecting.get();
  auto waiting = std::async(std::launch::async, [&server] { return server->receive(); });
  socket->shut_down();
  EXPECT_THROW(waiting.get(), std::system_error);
}

TEST(RdmaFilesSecret, IsReadFromAFileOfItsOwnerAlone) {
  const std::string path = testing::TempDir() + "rdma-files-secret-" + std::to_string(::getpid());
  std::ofstream(path) << std::string(20, 's');
  ::chmod(path.c_str(), 0640);
  EXPECT_THROW(secret_from(path), std::runtime_error);
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(secret_from(path), Secret(20, 's'));
  std::ofstream(path) << "short";
  EXPECT_THROW(secret_from(path), std::runtime_error);
  std::filesystem::remove(path);
  EXPECT_THROW(secret_from(path), std::system_error);
}

TEST(RdmaFilesEndpoint, IsAnAddressAndAPort) {
  EXPECT_EQ(endpoint_of("127.0.0.1:7471").address, "127.0.0.1");
  EXPECT_EQ(endpoint_of("127.0.0.1:7471").port, 7471);
  for (const char* text : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "host:1", "127.0.0.1:1x"}) {
    EXPECT_THROW(endpoint_of(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace rdma_files::channel_test
