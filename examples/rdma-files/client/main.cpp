// SPDX-License-Identifier: Apache-2.0
// rdma-files: copies between local files and those of a server, by cuFile.
#include <fcntl.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <exception>

#include "client/operations.h"
#include "client/registered_group.h"

namespace {

using namespace rdma_files;

constexpr std::size_t part = std::size_t{64} << 20U;

struct Asked {
  std::vector<std::string> servers;
  std::string secret;
  std::int64_t seconds = 30;
  std::string local;
  std::string remote;
};

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::system_error(error, std::generic_category(), what);
}

ClientSettings settings_of(const Asked& asked) {
  ClientSettings settings;
  for (const std::string& text : asked.servers) settings.servers.push_back(endpoint_of(text));
  settings.secret = secret_from(asked.secret);
  settings.time = std::chrono::seconds(asked.seconds);
  settings.links = &RegisteredGroup::with_address;
  return settings;
}

// Of cuFile: a count, or -1 with errno, or minus a code of cuFile's.
std::size_t require(ssize_t answer, const char* what) {
  if (answer == -1) fail(what, errno);
  if (answer < 0)
    throw std::runtime_error(std::string(what) + ": " + cufileop_status_error(static_cast<CUfileOpError>(-answer)));
  return static_cast<std::size_t>(answer);
}

// Host memory, registered once for all parts.
class Buffer {
 public:
  Buffer()
      : bytes_(part),
        registered_(cuFileBufRegister(bytes_.data(), bytes_.size(), CU_FILE_RDMA_REGISTER).err == CU_FILE_SUCCESS) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (registered_) cuFileBufDeregister(bytes_.data());
  }
  std::uint8_t* data() noexcept { return bytes_.data(); }

 private:
  std::vector<std::uint8_t> bytes_;
  bool registered_;
};

void put(const Asked& asked) {
  const Fd local(::open(asked.local.c_str(), O_RDONLY | O_CLOEXEC));
  if (local.get() < 0) fail(asked.local, errno);
  Client client(settings_of(asked));
  const CufileFile remote(client, asked.remote, kOpenWrite | kOpenCreate | kOpenTruncate);
  Buffer buffer;
  std::uint64_t done = 0;
  for (;;) {
    const ssize_t got = ::read(local.get(), buffer.data(), part);
    if (got < 0) fail(asked.local, errno);
    if (got == 0) break;
    const auto size = static_cast<std::size_t>(got);
    const auto moved =
        require(cuFileWrite(remote.handle(), buffer.data(), size, static_cast<off_t>(done), 0), "cuFileWrite");
    if (moved != size) fail(asked.remote, EIO);
    done += size;
  }
  std::printf("%llu bytes put\n", static_cast<unsigned long long>(done));
}

void get(const Asked& asked) {
  Client client(settings_of(asked));
  const CufileFile remote(client, asked.remote, 0);
  const Fd local(::open(asked.local.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640));
  if (local.get() < 0) fail(asked.local, errno);
  Buffer buffer;
  std::uint64_t done = 0;
  for (;;) {
    const std::size_t size =
        require(cuFileRead(remote.handle(), buffer.data(), part, static_cast<off_t>(done), 0), "cuFileRead");
    if (size == 0) break;
    if (::pwrite(local.get(), buffer.data(), size, static_cast<off_t>(done)) != static_cast<ssize_t>(size)) {
      fail(asked.local, errno);
    }
    done += size;
  }
  std::printf("%llu bytes got\n", static_cast<unsigned long long>(done));
}

int run(int argc, char** argv) {
  CLI::App app{
      "Copies between local files and those of an rdma-files-server, by cuFile. README.md in the folder of its sources "
      "says how to use it."};
  Asked asked;
  app.require_subcommand(1);
  app.add_option("--server", asked.servers, "ADDRESS:PORT; more than once: the next one is taken when one fails")
      ->required();
  app.add_option("--secret-file", asked.secret, "the secret that the server has, too")->required();
  app.add_option("--timeout", asked.seconds, "seconds that the server has for an answer (30)")
      ->check(CLI::Range(1, 3600));
  CLI::App* putting = app.add_subcommand("put", "sends a local file to the server");
  putting->add_option("LOCAL", asked.local, "the local file")->required();
  putting->add_option("NAME", asked.remote, "its name in the server's folder")->required();
  CLI::App* getting = app.add_subcommand("get", "brings a file of the server's");
  getting->add_option("NAME", asked.remote, "its name in the server's folder")->required();
  getting->add_option("LOCAL", asked.local, "the local file")->required();
  CLI11_PARSE(app, argc, argv);
  if (putting->parsed()) put(asked);
  if (getting->parsed()) get(asked);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rdma-files: %s\n", error.what());
    return 1;
  }
}
