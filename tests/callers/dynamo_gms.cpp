// SPDX-License-Identifier: Apache-2.0
// Dynamo's GPU memory service: one process owns the memory of all devices, made by cuMemCreate, and hands descriptors
// of it over a socket to another, which maps it, registers each range and lets NIXL's GDS_MT read shard files into it.
// What arrives is what the owner sees.
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>

#include "callers/kit.h"
#include "callers/mapped_range.h"
#include "cufile.h"

namespace sluice::callers {
namespace {

constexpr std::size_t kPiece = 2 * kMiB;
constexpr std::size_t kPieces = 3;  // of a device
constexpr std::size_t kRange = kPieces * kPiece;
constexpr std::size_t kThreads = 4;
constexpr int kMostDevices = 8;

int devices() {
  return std::min(support::cuda()->devices, kMostDevices);
}

Bytes shard_of(int device) {
  return support::random_bytes(kRange, static_cast<std::uint64_t>(device) + 1);
}

void send(int socket, std::span<const Fd> descriptors) {
  std::array<int, kPieces> numbers{};
  for (std::size_t i = 0; i < kPieces; ++i) numbers[i] = descriptors[i].get();
  char byte = 'm';
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof numbers)> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof numbers);
  std::memcpy(CMSG_DATA(head), numbers.data(), sizeof numbers);
  require(sendmsg(socket, &message, 0) == 1, "descriptors cannot be sent");
}

std::vector<Fd> receive(int socket) {
  std::array<int, kPieces> numbers{};
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof numbers)> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  require(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1, "no descriptors come");
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  require(head != nullptr && head->cmsg_len == CMSG_LEN(sizeof numbers), "another number of descriptors comes");
  std::memcpy(numbers.data(), CMSG_DATA(head), sizeof numbers);
  std::vector<Fd> descriptors;
  for (const int number : numbers) descriptors.emplace_back(number);
  return descriptors;
}

void say(int socket, char word) {
  require(write(socket, &word, 1) == 1, "the other process is gone");
}
void hear(int socket, char word) {
  char heard = 0;
  require(read(socket, &heard, 1) == 1 && heard == word, "the other process has ended early");
}

// The service: never a call of cuFile.
void serve(int socket) {
  std::vector<std::unique_ptr<MappedRange>> memory;
  for (int device = 0; device < devices(); ++device) {
    memory.push_back(std::make_unique<MappedRange>(kPieces, kPiece, device, MappedRange::Shared::yes));
    memory.back()->fill(0x5a);
    send(socket, memory.back()->share());
  }
  hear(socket, 'r');  // everything has been read
  for (int device = 0; device < devices(); ++device) {
    const auto& mine = memory[static_cast<std::size_t>(device)];
    require_same(shard_of(device), mine->get(0, kRange), "what the service sees");
    mine->put(0, Bytes(kRange, static_cast<unsigned char>(device)));
  }
  say(socket, 'w');
  hear(socket, 'q');
}

void succeed(CUfileError_t answer, const char* call) {
  if (answer.err != CU_FILE_SUCCESS) wrong(std::string(call) + ": " + cufileop_status_error(answer.err));
}

struct Registered {
  CUfileHandle_t handle = nullptr;
  explicit Registered(int fd) {
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd;
    succeed(cuFileHandleRegister(&handle, &description), "cuFileHandleRegister");
  }
  ~Registered() { cuFileHandleDeregister(handle); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
};

// Each piece has an address range of its own, as the service's clients map them, or all of a device lie in one.
std::vector<std::unique_ptr<MappedRange>> map(std::span<const Fd> descriptors, int device, bool together) {
  std::vector<std::unique_ptr<MappedRange>> ranges;
  const std::size_t step = together ? descriptors.size() : 1;
  for (std::size_t i = 0; i < descriptors.size(); i += step) {
    ranges.push_back(std::make_unique<MappedRange>(descriptors.subspan(i, step), kPiece, device));
  }
  return ranges;
}

void restore(const Place& place, int socket, bool together) {
  const auto path_of = [&](int device) { return place.at("shard-" + std::to_string(device)); };
  std::vector<std::vector<std::unique_ptr<MappedRange>>> memory;
  for (int device = 0; device < devices(); ++device) {
    { support::plain_write(open_file(path_of(device), O_CREAT | O_RDWR).get(), 0, shard_of(device)); }
    const std::vector<Fd> descriptors = receive(socket);
    memory.push_back(map(descriptors, device, together));
  }
  succeed(cuFileDriverOpen(), "cuFileDriverOpen");
  for (const auto& ranges : memory) {
    for (const auto& range : ranges) {
      use_device(static_cast<int>(&ranges - memory.data()));
      succeed(cuFileBufRegister(range->address(), range->size(), 0), "cuFileBufRegister");
    }
  }
  const auto transfer_all = [&](auto transfer, int flags) {
    const auto count = static_cast<std::size_t>(devices());
    on_pool(kThreads, count, [&](std::size_t device) {
      const Fd fd = open_file(path_of(static_cast<int>(device)), flags);
      const Registered file(fd.get());
      use_device(static_cast<int>(device));
      std::size_t at = 0;
      for (const auto& range : memory[device]) {
        const ssize_t moved = transfer(file.handle, range->address(), range->size(), static_cast<off_t>(at), off_t{0});
        if (moved != static_cast<ssize_t>(range->size())) {
          wrong("device " + std::to_string(device) + ": moved " + std::to_string(moved) + ", " + std::strerror(errno));
        }
        at += range->size();
      }
    });
  };
  transfer_all(cuFileRead, O_RDONLY);
  for (int device = 0; device < devices(); ++device) {
    Bytes found;
    for (const auto& range : memory[static_cast<std::size_t>(device)]) {
      const Bytes part = range->get(0, range->size());
      found.insert(found.end(), part.begin(), part.end());
    }
    require_same(shard_of(device), found, "what the client sees");
  }
  say(socket, 'r');
  hear(socket, 'w');
  // The service has written: saving takes what it wrote.
  transfer_all(cuFileWrite, O_WRONLY);
  for (int device = 0; device < devices(); ++device) {
    require_same(Bytes(kRange, static_cast<unsigned char>(device)), content_of(path_of(device)), "a saved shard");
  }
  for (const auto& ranges : memory) {
    for (const auto& range : ranges) succeed(cuFileBufDeregister(range->address()), "cuFileBufDeregister");
  }
  succeed(cuFileDriverClose(), "cuFileDriverClose");
  say(socket, 'q');
}

// One process for each, since a driver does not outlive a fork.
pid_t start_service(const char* program, const Place& place, int socket) {
  const std::string number = std::to_string(socket);
  setenv("SLUICE_TEST_SEED", std::to_string(support::run_seed()).c_str(), 1);
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execl(program, program, place.folder.c_str(), "serve", number.c_str(), nullptr);
  _exit(127);
}

void client(const char* program, const Place& place) {
  if (!MappedRange::can_be_shared()) throw Skipped("this driver shares no memory as descriptors");
  std::array<int, 2> ends{};
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, "no sockets");
  const Fd mine(ends[0]);
  Fd theirs(ends[1]);
  require(fcntl(mine.get(), F_SETFD, FD_CLOEXEC) == 0, "fcntl");
  const pid_t service = start_service(program, place, theirs.get());
  require(service > 0, "no second process");
  theirs.reset();
  std::exception_ptr fault;
  try {
    restore(place, mine.get(), place.part == "together");
  } catch (...) {
    fault = std::current_exception();
    shutdown(mine.get(), SHUT_RDWR);
  }
  int status = 0;
  while (waitpid(service, &status, 0) < 0 && errno == EINTR) {
  }
  if (fault != nullptr) std::rethrow_exception(fault);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the service has found something wrong");
}

}  // namespace
}  // namespace sluice::callers

int main(int argc, char** argv) {
  using namespace sluice::callers;
  return play(argc, argv, [&](const Place& place) {
    if (place.part == "serve" && argc > 3) {
      serve(std::atoi(argv[3]));
    } else {
      client("/proc/self/exe", place);
    }
  });
}
