// SPDX-License-Identifier: Apache-2.0
// lab_rdma_cufile: files of examples/rdma-files through the public C API, on the soft GPU's device memory and on host
// memory.
//
//   lab_rdma_cufile checks NAME SECRET FOLDER PORT SERVER...
//   lab_rdma_cufile moves NAME SECRET FOLDER MEBIBYTES PORT SERVER...    see library.h
//   lab_rdma_cufile revoked NAME SECRET FOLDER PID SERVER...             PID is the server's
//   lab_rdma_cufile steady NAME SECRET PROGRESS SERVER...                as lab_rdma's, on registered device memory
//
// NAME begins the names of the rows; FOLDER is the server's, so that its files can be looked at past the client. PORT
// is what the library's explanation has to name. A library without the path rdma gives operations host memory alone.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "client/operations.h"
#include "client/registered_group.h"
#include "lab/probe/rows.h"
#include "lab/probe/system.h"
#include "lab/rdma/library.h"
#include "lab/streamed.h"
#include "sluice.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::lab {

namespace {

using rdma_files::Client;
using rdma_files::CufileFile;
using support::Bytes;
using support::MemoryKind;

constexpr std::size_t whole_size = std::size_t{8} << 20U;
constexpr std::size_t entry_count = 24;
constexpr std::size_t entry_size = std::size_t{64} << 10U;
constexpr std::size_t thread_count = 4;
constexpr std::array<std::size_t, 5> matrix_sizes = {1, 4096, 70001, std::size_t{1} << 20U,
                                                     (std::size_t{5} << 20U) + 3};

std::string differs(const Bytes& wanted, const Bytes& got) {
  const ::testing::AssertionResult same = support::same_bytes(wanted, got);
  return same ? "" : same.message();
}

std::string all_whole(const std::vector<ssize_t>& counts) {
  const auto odd = std::ranges::find_if(counts, [](ssize_t count) { return count != ssize_t{entry_size}; });
  return odd == counts.end() ? "" : "one answered " + std::to_string(*odd);
}

// The path that registered memory goes by.
std::string path_of_this_library() {
  for (int path = 0; path < SLUICE_PATH_COUNT; ++path) {
    const char* const name = sluice_path_name(static_cast<sluice_path_t>(path));
    if (name != nullptr && std::string_view(name) == "rdma") return name;
  }
  return "userspace";
}

class Checks {
 public:
  Checks(std::string name, const std::string& folder, std::string port, Client& client)
      : name_(std::move(name)),
        port_(std::move(port)),
        content_(support::random_bytes(whole_size, 0x1ab)),
        file_(client, "library", rdma_files::kOpenWrite | rdma_files::kOpenCreate | rdma_files::kOpenTruncate),
        plain_(folder + "/library", O_RDWR) {
    put_content();
  }

  void run() {
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::plain}) {
      const support::Memory memory(kind, whole_size);
      matrix(std::string(support::name_of(kind)) + " memory", memory);
      const std::optional<support::Registration> registration(std::in_place, memory);
      matrix(std::string(support::name_of(kind)) + " memory, registered", memory);
    }
    const support::Memory memory(MemoryKind::device, whole_size);
    const support::Registration registration(memory);
    explained(memory);
    tokens(memory);
    batches(memory);
    streams(memory);
    threads(memory);
  }

 private:
  void tell(const std::string& what, const std::string& why_not) const { row(name_ + ": " + what, why_not); }
  Bytes content(std::size_t at, std::size_t size) const {
    return {content_.begin() + static_cast<std::ptrdiff_t>(at),
            content_.begin() + static_cast<std::ptrdiff_t>(at + size)};
  }
  void put_content() { must_write(plain_.get(), std::as_bytes(std::span(content_)), 0); }
  Bytes stored(std::size_t at, std::size_t size) const {
    Bytes bytes(size);
    must_read(plain_.get(), std::as_writable_bytes(std::span(bytes)), static_cast<off_t>(at));
    return bytes;
  }

  // One row a kind of memory; what is beside the range does not change.
  void matrix(const std::string& what, const support::Memory& memory) {
    std::string why;
    for (const std::size_t size : matrix_sizes) {
      for (const std::size_t into : {std::size_t{0}, std::size_t{4096 + 13}}) {
        for (const std::size_t from : {std::size_t{0}, std::size_t{1001}}) {
          if (!why.empty()) break;
          why = read(memory, size, into, from);
          if (why.empty()) why = write(memory, size, into, from);
          if (!why.empty()) {
            why.insert(0,
                       std::to_string(size) + " bytes, " + std::to_string(from) + " to " + std::to_string(into) + ": ");
          }
        }
      }
    }
    tell(what, why);
  }

  std::string read(const support::Memory& memory, std::size_t size, std::size_t into, std::size_t from) {
    memory.fill(0x11);
    const auto done =
        support::read_file(file_.handle(), memory.address(), size, static_cast<off_t>(from), static_cast<off_t>(into));
    if (std::string why = not_moved(done, size); !why.empty()) return "read " + why;
    Bytes wanted(whole_size, 0x11);
    std::ranges::copy(content(from, size), wanted.begin() + static_cast<std::ptrdiff_t>(into));
    return differs(wanted, memory.get());
  }

  std::string write(const support::Memory& memory, std::size_t size, std::size_t into, std::size_t from) {
    const Bytes fresh = support::random_bytes(size, 0x2c);
    memory.put(into, fresh);
    const auto done =
        support::write_file(file_.handle(), memory.address(), size, static_cast<off_t>(from), static_cast<off_t>(into));
    std::string why = not_moved(done, size);
    Bytes wanted = content_;
    std::ranges::copy(fresh, wanted.begin() + static_cast<std::ptrdiff_t>(from));
    if (why.empty()) why = differs(wanted, stored(0, whole_size));
    put_content();
    return why.empty() ? "" : "write " + why;
  }

  void explained(const support::Memory& memory) const {
    sluice_explanation_t told{};
    sluice_explain(file_.handle(), memory.address(), 0, CUFILE_READ, whole_size, 0, &told);
    const std::string detail = told.detail;
    tell("the library says that it goes by " + path_,
         told.path_name == path_ ? "" : std::string("it says ") + told.path_name + ": " + told.sentence);
    if (path_ == "rdma") {
      const bool named = detail.find(port_) != std::string::npos && detail.find("key") != std::string::npos;
      tell("the library names port and key", named ? "" : detail);
    }
    std::printf("explained: %s, %s; %s\n", told.path_name, told.sentence, told.detail);
  }

  // Whether registered memory comes with a token, which is what this is about.
  void tokens(const support::Memory& memory) const {
    const CufileFile::Calls before = CufileFile::calls();
    const std::string why = not_moved(support::read_file(file_.handle(), memory.address(), whole_size), whole_size);
    const CufileFile::Calls after = CufileFile::calls();
    const auto with = after.with_token - before.with_token;
    const auto without = after.without - before.without;
    const bool right = path_ == "rdma" ? with > 0 && without == 0 : with == 0 && without > 0;
    tell("a read of 8 MiB comes to the file system as the path says",
         !why.empty() ? why
         : right      ? ""
                      : std::to_string(with) + " calls with a token, " + std::to_string(without) + " without");
  }

  void batches(const support::Memory& memory) {
    support::Batch batch(entry_count);
    memory.fill(0x11);
    for (std::size_t i = 0; i < entry_count; ++i)
      batch.read(file_.handle(), memory, entry_size, i * entry_size, i * entry_size);
    std::string why = all_whole(batch.run());
    if (why.empty()) why = differs(content(0, entry_count * entry_size), memory.get(0, entry_count * entry_size));
    tell("a batch of reads", why);
    batch.clear();
    const Bytes fresh = support::random_bytes(entry_count * entry_size, 0x3c);
    memory.put(0, fresh);
    for (std::size_t i = 0; i < entry_count; ++i)
      batch.write(file_.handle(), memory, entry_size, i * entry_size, i * entry_size);
    why = all_whole(batch.run());
    if (why.empty()) why = differs(fresh, stored(0, fresh.size()));
    tell("a batch of writes", why);
    put_content();
  }

  void streams(const support::Memory& memory) {
    memory.fill(0x11);
    Streamed reads;
    for (std::size_t i = 0; i < entry_count; ++i)
      reads.read(file_.handle(), memory, entry_size, i * entry_size, i * entry_size);
    std::string why = all_whole(reads.run());
    if (why.empty()) why = differs(content(0, entry_count * entry_size), memory.get(0, entry_count * entry_size));
    tell("reads in three streams", why);
    const Bytes fresh = support::random_bytes(entry_count * entry_size, 0x4c);
    memory.put(0, fresh);
    Streamed writes;
    for (std::size_t i = 0; i < entry_count; ++i)
      writes.write(file_.handle(), memory, entry_size, i * entry_size, i * entry_size);
    why = all_whole(writes.run());
    if (why.empty()) why = differs(fresh, stored(0, fresh.size()));
    tell("writes in three streams", why);
    put_content();
  }

  void threads(const support::Memory& memory) {
    memory.fill(0x11);
    std::array<std::string, thread_count> whys;
    std::vector<std::thread> all;
    for (std::size_t number = 0; number < thread_count; ++number) {
      all.emplace_back([&, number] {
        constexpr std::size_t part = whole_size / thread_count;
        for (std::size_t at = number * part; at < (number + 1) * part && whys[number].empty(); at += entry_size) {
          const auto place = static_cast<off_t>(at);
          whys[number] =
              not_moved(support::read_file(file_.handle(), memory.address(), entry_size, place, place), entry_size);
        }
      });
    }
    for (std::thread& thread : all) thread.join();
    std::string why;
    for (const std::string& one : whys) why += one;
    tell("reads of four threads at once", why.empty() ? differs(content_, memory.get()) : why);
  }

  const std::string name_;
  const std::string port_;
  const std::string path_ = path_of_this_library();
  const Bytes content_;
  const CufileFile file_;
  const File plain_;
};

bool input_has_ended() {
  pollfd entry{STDIN_FILENO, POLLIN, 0};
  char byte = 0;
  return ::poll(&entry, 1, 0) > 0 && ::read(STDIN_FILENO, &byte, 1) <= 0;
}

// Calls may fail while the world changes; what they say they have moved is right at any time.
void steady(const std::string& name, const std::string& progress, Client& client) {
  constexpr std::size_t round_size = std::size_t{1} << 20U;
  const CufileFile file(client, "steady-library",
                        rdma_files::kOpenWrite | rdma_files::kOpenCreate | rdma_files::kOpenTruncate);
  const support::Memory memory(MemoryKind::device, round_size);
  const support::Registration registration(memory);
  std::uint64_t rounds = 0;
  std::uint64_t failed = 0;
  std::string why;
  while (why.empty() && !input_has_ended()) {
    const Bytes fresh = support::random_bytes(round_size, static_cast<unsigned>(rounds));
    memory.put(0, fresh);
    support::Transfer done = support::write_file(file.handle(), memory.address(), round_size);
    memory.fill(0x55);
    if (done.count >= 0) {
      if (done == support::moved(round_size)) done = support::read_file(file.handle(), memory.address(), round_size);
      why = done.count < 0 ? "" : not_moved(done, round_size);
      if (why.empty() && done.count >= 0) why = differs(fresh, memory.get());
    }
    ++(done.count < 0 ? failed : rounds);
    if (done.count < 0) std::ofstream(progress + "-failed") << failed << ' ' << std::strerror(done.error) << '\n';
    std::ofstream(progress) << rounds << '\n';
  }
  const CufileFile::Calls calls = CufileFile::calls();
  std::printf(
      "%llu rounds, %llu calls failed; the file system was called %llu times with a token, %llu times without\n",
      static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(failed),
      static_cast<unsigned long long>(calls.with_token), static_cast<unsigned long long>(calls.without));
  row(name + ": every byte is right", why);
}

// How many arguments stand before the servers; 0: there is no such command.
std::size_t before_servers_of(const std::string& command) {
  if (command == "steady") return 4;
  if (command == "checks" || command == "revoked") return 5;
  return command == "moves" ? 6 : 0;
}

int run(std::span<char*> arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  const std::size_t before_servers = before_servers_of(command);
  if (before_servers == 0 || arguments.size() <= before_servers) {
    std::fputs("usage: see the head of tests/lab/rdma/cufile.cpp\n", stderr);
    return 2;
  }
  if (support::cuda() == nullptr) throw std::runtime_error("there is no CUDA driver, not even a soft one");
  const support::ContextScope context(support::primary_context(0));
  rdma_files::ClientSettings settings;
  settings.secret = rdma_files::secret_from(arguments[2]);
  settings.links = &rdma_files::RegisteredGroup::with_address;
  if (command == "steady") settings.time = std::chrono::seconds(5);
  for (const char* server : arguments.subspan(before_servers)) {
    settings.servers.push_back(rdma_files::endpoint_of(server));
  }
  {
    Client client(std::move(settings));
    const Shown shown{arguments[1], arguments[3], client};
    if (command == "checks") Checks(arguments[1], arguments[3], arguments[4], client).run();
    if (command == "moves") moves(shown, std::stoull(arguments[4]), arguments[5]);
    if (command == "revoked") revoked(shown, static_cast<pid_t>(std::stoi(arguments[4])));
    if (command == "steady") steady(arguments[1], arguments[3], client);
  }
  support::close_driver_fully();
  return failures() == 0 ? 0 : 1;
}

}  // namespace

std::string not_moved(support::Transfer got, std::size_t wanted) {
  if (got == support::moved(wanted)) return "";
  return "answered " + std::to_string(got.count) + ", errno " + std::to_string(got.error) + " for " +
         std::to_string(wanted);
}

}  // namespace sluice::lab

int main(int argc, char** argv) {
  try {
    return sluice::lab::run({argv + 1, static_cast<std::size_t>(argc - 1)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lab_rdma_cufile: %s\n", error.what());
    return 3;
  }
}
