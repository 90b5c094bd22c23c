// SPDX-License-Identifier: Apache-2.0
// lab_rdma: the client of examples/rdma-files on memory that it registers itself: real keys, and what becomes of wrong
// ones.
//
//   lab_rdma moves NAME SECRET FOLDER MEBIBYTES SERVER...
//     so much both ways, each byte compared; shapes; keys that are refused
//   lab_rdma steady NAME SECRET PROGRESS SERVER...
//     writes, reads back and compares until standard input ends; PROGRESS holds the number of rounds, PROGRESS-failed
//     that of calls that failed
//
// NAME begins the names of the rows; FOLDER is the server's, so that its files can be looked at past the client.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <map>

#include "client/client.h"
#include "lab/probe/rows.h"
#include "lab/probe/system.h"
#include "lab/rdma/content.h"

namespace sluice::lab {

namespace {

using namespace rdma_files;

constexpr std::size_t kMemory = std::size_t{64} << 20U;
constexpr std::chrono::seconds kTime{20};

bool all_are(std::span<const std::uint8_t> memory, std::uint8_t value) {
  return std::ranges::all_of(memory, [value](std::uint8_t byte) { return byte == value; });
}

// Memory that each adapter registers when its first link is made, and keeps: a key is good for later links, too.
class Memory {
 public:
  explicit Memory(std::size_t size) : bytes_(size) {}

  std::unique_ptr<LinkGroup> links(const std::string& address) {
    Adapter& adapter = adapters_[address];
    if (!adapter.device) adapter.device = Device::with_address(address);
    auto group = std::make_unique<OwnGroup>(adapter.device, Client::kPairs);
    if (!adapter.region) adapter.region = group->registered(bytes_.data(), bytes_.size());
    adapter.whole = group->token_of(*adapter.region, 0, static_cast<std::uint32_t>(bytes_.size()));
    newest_ = &adapter;
    return group;
  }
  // As the adapter of the newest link knows it.
  Token token(std::size_t offset, std::size_t size) const {
    Token token = newest_->whole;
    token.address += offset;
    token.size = static_cast<std::uint32_t>(size);
    return token;
  }
  // Until the next link is made.
  void revoke() { newest_->region = nullptr; }
  std::span<std::uint8_t> bytes() { return bytes_; }
  std::span<std::uint8_t> bytes(std::size_t offset, std::size_t size) {
    return std::span(bytes_).subspan(offset, size);
  }

 private:
  struct Adapter {
    std::shared_ptr<Device> device;
    VerbsMemory region;
    Token whole;
  };
  std::vector<std::uint8_t> bytes_;
  std::map<std::string, Adapter> adapters_;
  Adapter* newest_ = nullptr;
};

ClientSettings settings_of(const std::string& secret, std::span<char*> servers) {
  ClientSettings settings;
  settings.secret = secret_from(secret);
  settings.time = kTime;
  for (const char* server : servers) settings.servers.push_back(endpoint_of(server));
  return settings;
}

std::string answered(const Client::Moved& moved, std::uint64_t bytes, int error = 0) {
  if (moved.error == error && (error != 0 || moved.bytes == bytes)) return "";
  return "it answered " + std::to_string(moved.bytes) + " bytes, " + std::strerror(moved.error);
}

class Moves {
 public:
  Moves(std::string name, const std::string& secret, std::string folder, std::span<char*> servers)
      : name_(std::move(name)),
        folder_(std::move(folder)),
        memory_(kMemory),
        client_(with_links(settings_of(secret, servers))) {}

  void run(std::uint64_t size) {
    file_ = client_.open("moves", kOpenWrite | kOpenCreate | kOpenTruncate);
    in_bulk(size);
    shapes();
    staged();
    refused_keys();
    names();
    client_.close(*file_);
  }

 private:
  ClientSettings with_links(ClientSettings settings) {
    settings.links = [this](const std::string& address) { return memory_.links(address); };
    return settings;
  }

  void tell(const std::string& what, const std::string& why_not) const { row(name_ + ": " + what, why_not); }

  // All of it in one direction; the time of the transfers alone.
  std::string bulk(Direction direction, std::uint64_t size, std::chrono::nanoseconds& time) {
    for (std::uint64_t offset = 0; offset < size; offset += kMemory) {
      const std::uint64_t length = std::min<std::uint64_t>(kMemory, size - offset);
      const auto bytes = memory_.bytes(0, length);
      if (direction == Direction::write) fill(bytes, offset, 1);
      if (direction == Direction::read) std::ranges::fill(bytes, 0xee);
      const auto begin = std::chrono::steady_clock::now();
      const Client::Moved moved = client_.move(*file_, direction, memory_.token(0, length), length, offset);
      time += std::chrono::steady_clock::now() - begin;
      if (const std::string why = answered(moved, length); !why.empty()) return why;
      if (const std::string why = differs_from(bytes, offset, 1); !why.empty()) return why;
    }
    return "";
  }

  void in_bulk(std::uint64_t size) {
    const std::string what = std::to_string(size >> 20U) + " MiB, each byte compared";
    for (const Direction direction : {Direction::write, Direction::read}) {
      const std::string verb = direction == Direction::write ? "written" : "read";
      std::chrono::nanoseconds time{0};
      std::string why = bulk(direction, size, time);
      if (why.empty() && direction == Direction::write) why = file_holds(size);
      tell(what + ", " + verb, why);
      const auto rate = static_cast<unsigned long long>(static_cast<double>(size >> 20U) /
                                                        std::chrono::duration<double>(time).count());
      std::printf("count %s, MiB/s %s (soft RoCE, TCG) -- %llu\n", name_.c_str(), verb.c_str(), rate);
    }
  }

  // The server's file, by the file system.
  std::string file_holds(std::uint64_t size) const {
    std::vector<std::uint8_t> bytes(std::size_t{1} << 20U);
    const File file(folder_ + "/moves", O_RDONLY);
    for (std::uint64_t offset = 0; offset < size; offset += bytes.size()) {
      must_read(file.get(), std::as_writable_bytes(std::span(bytes)), static_cast<off_t>(offset));
      if (const std::string why = differs_from(bytes, offset, 1); !why.empty()) return "the file: " + why;
    }
    return "";
  }

  // Places and lengths that fit nothing, and the end of the file. Around them nothing changes.
  void shapes() {
    for (const std::size_t length :
         {std::size_t{1}, std::size_t{4095}, std::size_t{70001}, std::size_t{(1U << 20U) + 1}}) {
      for (const std::size_t into : {std::size_t{0}, std::size_t{13}}) {
        const std::uint64_t offset = 8 * length;
        std::ranges::fill(memory_.bytes(), 0x33);
        const auto moved = client_.move(*file_, Direction::read, memory_.token(4096 + into, length), length, offset);
        std::string why = answered(moved, length);
        if (why.empty()) why = differs_from(memory_.bytes(4096 + into, length), offset, 1);
        const bool kept =
            all_are(memory_.bytes(0, 4096 + into), 0x33) && all_are(memory_.bytes(4096 + into + length, 4096), 0x33);
        if (why.empty() && !kept) why = "bytes beside the memory of the token were changed";
        tell("reads " + std::to_string(length) + " bytes into byte " + std::to_string(into) + " of a page", why);
      }
    }
    fill(memory_.bytes(0, 5000), 0, 2);
    auto end = client_.open("short", kOpenWrite | kOpenCreate | kOpenTruncate);
    tell("writes a file of 5000 bytes",
         answered(client_.move(*end, Direction::write, memory_.token(0, 5000), 5000, 0), 5000));
    std::ranges::fill(memory_.bytes(0, 65536), 0x33);
    std::string why = answered(client_.move(*end, Direction::read, memory_.token(0, 65536), 65536, 4000), 1000);
    if (why.empty()) why = differs_from(memory_.bytes(0, 1000), 4000, 2);
    if (why.empty() && !all_are(memory_.bytes(1000, 64536), 0x33))
      why = "bytes behind the end of the file were changed";
    tell("a read across the end is short, and leaves what is behind it", why);
    tell("a read behind the end", answered(client_.move(*end, Direction::read, memory_.token(0, 100), 100, 9000), 0));
    auto plain = client_.open("short", 0);
    tell("a write to a file that was opened to read",
         answered(client_.move(*plain, Direction::write, memory_.token(0, 100), 100, 0), 0, EBADF));
    client_.close(*plain);
    client_.close(*end);
  }

  // Memory that is not registered goes by the client's own.
  void staged() {
    std::vector<std::uint8_t> bytes((std::size_t{9} << 20U) + 5);
    auto file = client_.open("staged", kOpenWrite | kOpenCreate | kOpenTruncate);
    fill(bytes, 0, 3);
    std::string why = answered(client_.write(*file, bytes, 0), bytes.size());
    std::ranges::fill(bytes, 0);
    if (why.empty()) why = answered(client_.read(*file, bytes, 0), bytes.size());
    if (why.empty()) why = differs_from(bytes, 0, 3);
    tell("memory without a token, both ways", why);
    client_.close(*file);
  }

  // Each loses the link, and the next transfer works.
  void refused_keys() {
    refused("a wrong key", [this] {
      Token token = memory_.token(0, 65536);
      token.key ^= 0x100U;
      return token;
    });
    // The server takes the size from the token; the adapter knows better.
    refused("memory that begins inside and ends outside", [this] { return memory_.token(kMemory - 32768, 65536); });
    refused("a key of memory that was registered once", [this] {
      const Token token = memory_.token(0, 65536);
      memory_.revoke();
      return token;
    });
    tell("afterwards a good key works", works());
    refused_locally();
  }

  // A refusal costs the connection, and the next one registers the memory anew: the token is made after something has
  // worked.
  void refused(const std::string& what, const std::function<Token()>& make) {
    for (const Direction direction : {Direction::read, Direction::write}) {
      std::string why = works();
      std::ranges::fill(memory_.bytes(), 0x44);
      const Token token = make();
      if (why.empty()) why = answered(client_.move(*file_, direction, token, token.size, 0), 0, EACCES);
      // What lies before the memory's end was given, and may have been written.
      if (why.empty() && !all_are(memory_.bytes(0, kMemory - 32768), 0x44)) why = "memory was changed all the same";
      tell(what + (direction == Direction::read ? ", read" : ", write"), why);
    }
  }

  std::string works() {
    auto file = client_.open("afterwards", kOpenWrite | kOpenCreate);
    fill(memory_.bytes(0, 65536), 0, 4);
    std::string why = answered(client_.move(*file, Direction::write, memory_.token(0, 65536), 65536, 0), 65536);
    std::ranges::fill(memory_.bytes(0, 65536), 0);
    if (why.empty()) why = answered(client_.move(*file, Direction::read, memory_.token(0, 65536), 65536, 0), 65536);
    client_.close(*file);
    return why.empty() ? differs_from(memory_.bytes(0, 65536), 0, 4) : why;
  }

  void refused_locally() {
    tell("more than the token has",
         answered(client_.move(*file_, Direction::read, memory_.token(0, 100), 101, 0), 0, EFAULT));
    Token token = memory_.token(0, 65536);
    token.gid->back() ^= 1U;
    tell("a token of an adapter that is not linked",
         answered(client_.move(*file_, Direction::read, token, 65536, 0), 0, EREMOTEIO));
  }

  void names() {
    for (const char* name : {"..", "moves/../moves", "/etc/passwd", ""})
      tell(std::string("the name \"") + name + "\"", opens(name, EINVAL));
    tell("the name of a link that leads outside", opens("link", EACCES));
    tell("the name of a folder", opens("folder", EACCES));
    tell("a name that is not there", opens("absent", ENOENT));
  }

  std::string opens(const char* name, int error) {
    try {
      client_.open(name, 0);
      return "it was opened";
    } catch (const std::system_error& refusal) {
      return refusal.code().value() == error ? "" : refusal.what();
    }
  }

  const std::string name_;
  const std::string folder_;
  Memory memory_;
  Client client_;
  std::shared_ptr<RemoteFile> file_;
};

bool input_has_ended() {
  pollfd entry{STDIN_FILENO, POLLIN, 0};
  char byte = 0;
  return ::poll(&entry, 1, 0) > 0 && ::read(STDIN_FILENO, &byte, 1) <= 0;
}

// Calls may fail while the world changes; what they say they have moved is right at any time.
void steady(const std::string& name, const std::string& secret, const std::string& progress, std::span<char*> servers) {
  constexpr std::size_t kRound = std::size_t{2} << 20U;
  Memory memory(2 * kRound);
  ClientSettings settings = settings_of(secret, servers);
  settings.time = std::chrono::seconds(5);
  settings.links = [&memory](const std::string& address) { return memory.links(address); };
  Client client(std::move(settings));
  auto file = client.open("steady", kOpenWrite | kOpenCreate | kOpenTruncate);
  std::uint64_t rounds = 0;
  std::uint64_t failed = 0;
  std::string why;
  while (why.empty() && !input_has_ended()) {
    fill(memory.bytes(0, kRound), 0, rounds);
    std::ranges::fill(memory.bytes(kRound, kRound), 0x55);
    auto moved = client.move(*file, Direction::write, memory.token(0, kRound), kRound, 0);
    if (moved.error == 0) moved = client.move(*file, Direction::read, memory.token(kRound, kRound), kRound, 0);
    if (moved.error == 0) {
      why = moved.bytes == kRound ? differs_from(memory.bytes(kRound, kRound), 0, rounds)
                                  : "a count of " + std::to_string(moved.bytes);
      ++rounds;
    } else {
      ++failed;
      std::ofstream(progress + "-failed") << failed << ' ' << std::strerror(moved.error) << '\n';
    }
    std::ofstream(progress) << rounds << '\n';
  }
  std::printf("%llu rounds, %llu calls failed\n", static_cast<unsigned long long>(rounds),
              static_cast<unsigned long long>(failed));
  row(name + ": every byte is right", why);
}

int run(std::span<char*> arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  if (command == "moves" && arguments.size() >= 6) {
    Moves(arguments[1], arguments[2], arguments[3], arguments.subspan(5)).run(std::stoull(arguments[4]) << 20U);
  } else if (command == "steady" && arguments.size() >= 5) {
    steady(arguments[1], arguments[2], arguments[3], arguments.subspan(4));
  } else {
    std::fputs("usage: see the head of tests/lab/rdma/main.cpp\n", stderr);
    return 2;
  }
  return failures() == 0 ? 0 : 1;
}

}  // namespace

}  // namespace sluice::lab

int main(int argc, char** argv) {
  try {
    return sluice::lab::run({argv + 1, static_cast<std::size_t>(argc - 1)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lab_rdma: %s\n", error.what());
    return 3;
  }
}
