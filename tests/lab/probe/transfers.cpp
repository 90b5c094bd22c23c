// SPDX-License-Identifier: Apache-2.0
// Each check puts one pattern where the bytes come from and another where they go, so that bytes that never moved are
// told from bytes that did.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <stdexcept>
#include <system_error>

#include "lab/probe/device_memory.h"
#include "lab/probe/ring.h"
#include "lab/probe/rows.h"
#include "lab/probe/system.h"
#include "lab/probe/verbs.h"

namespace sluice::lab {

namespace {

using Kind = Expectation::Kind;
using Move = std::function<ssize_t(int fd, std::span<std::byte> memory)>;

constexpr std::size_t kSmall = std::size_t{64} << 10U;
constexpr std::size_t kLarge = std::size_t{1} << 20U;
constexpr std::size_t kPage = 4096;
// More than one command of a drive can carry, so that splitting is seen, too.
constexpr std::size_t kVeryLarge = std::size_t{16} << 20U;

std::uint64_t next_seed() {
  static std::uint64_t seed = 0;
  return ++seed;
}

ssize_t plain_read(int fd, std::span<std::byte> memory) {
  return answer(pread(fd, memory.data(), memory.size(), 0));
}

ssize_t plain_write(int fd, std::span<std::byte> memory) {
  return answer(pwrite(fd, memory.data(), memory.size(), 0));
}

ssize_t read_in_pages(int fd, std::span<std::byte> memory) {
  for (std::size_t done = 0; done < memory.size(); done += kPage) {
    const ssize_t count = answer(pread(fd, memory.data() + done, kPage, static_cast<off_t>(done)));
    if (count != kPage) return count;
  }
  return static_cast<ssize_t>(memory.size());
}

ssize_t native_aio_read(int fd, std::span<std::byte> memory) {
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 1, &context) != 0) return -errno;
  iocb request{};
  request.aio_fildes = static_cast<std::uint32_t>(fd);
  request.aio_lio_opcode = IOCB_CMD_PREAD;
  request.aio_buf = reinterpret_cast<std::uint64_t>(memory.data());
  request.aio_nbytes = memory.size();
  std::array<iocb*, 1> requests{&request};
  io_event event{};
  ssize_t result = answer(syscall(SYS_io_submit, context, 1, requests.data()));
  if (result == 1) {
    result = answer(syscall(SYS_io_getevents, context, 1, 1, &event, nullptr));
    if (result == 1) result = static_cast<ssize_t>(event.res);
  }
  syscall(SYS_io_destroy, context);
  return result;
}

Move through_ring(Operation operation) {
  return [operation](int fd, std::span<std::byte> memory) {
    Ring ring(Waiting::interrupt);
    return ring.run(operation, fd, memory, 0);
  };
}

class Bench {
 public:
  Bench(std::string name, const std::string& target, std::size_t length)
      : name_(std::move(name)),
        file_(target, O_RDWR | O_CREAT | O_DIRECT),
        device_(environment("LAB_PROVIDER"), length + 2 * kPage),
        host_(length) {}

  int fd() const { return file_.get(); }
  std::span<std::byte> host(std::size_t length) const { return host_.bytes(0, length); }

  // A read into device memory, `shift` bytes into a page.
  void read(const Expectation& expected, const std::string& what, std::size_t length, const Move& move,
            std::size_t shift = 0) {
    const std::uint64_t wanted = next_seed();
    const std::uint64_t before = next_seed();
    fill(host(length), wanted);
    must_write(fd(), host(length), 0);
    fill(device_.bytes(0, device_.size()), before);
    const std::span<std::byte> memory = device_.bytes(kPage + shift, length);

    Stretch stretch;
    const ssize_t count = move(fd(), memory);
    std::string why = judge(expected, count, length);
    if (why.empty()) {
      const bool arrived = holds(memory, wanted);
      if (moves(expected) && !arrived) why = "the bytes in device memory are not those of the target";
      if (!moves(expected) && arrived) why = "the bytes arrived all the same";
    }
    if (why.empty() && !edges_untouched(before, length, shift)) why = "memory beside the range has changed";
    finish(expected, stretch, what, "read", why, length);
  }

  void write(const Expectation& expected, const std::string& what, std::size_t length, const Move& move) {
    const std::uint64_t wanted = next_seed();
    const std::uint64_t before = next_seed();
    fill(host(length), before);
    must_write(fd(), host(length), 0);
    fill(device_.bytes(0, length), wanted);

    Stretch stretch;
    const ssize_t count = move(fd(), device_.bytes(0, length));
    stretch.end();
    std::string why = judge(expected, count, length);
    must_read(fd(), host(length), 0);
    if (why.empty()) why = judge_target(expected, length, wanted, before);
    finish(expected, stretch, what, "write", why, length * expected.mirrors);
  }

  // One request, half of it in device memory, half in ordinary memory.
  void mixed_read(const Expectation& expected) {
    const std::uint64_t wanted = next_seed();
    const std::size_t half = kSmall / 2;
    fill(host(kSmall), wanted);
    must_write(fd(), host(kSmall), 0);
    const HostMemory ordinary(kSmall);
    fill(device_.bytes(0, half), next_seed());
    std::array<iovec, 2> vector{iovec{device_.data(), half}, iovec{ordinary.data() + half, half}};

    Stretch stretch;
    const ssize_t count = answer(preadv(fd(), vector.data(), 2, 0));
    stretch.end();
    std::string why = judge(expected, count, kSmall);
    std::copy_n(device_.data(), half, ordinary.data());
    if (why.empty() && !holds(ordinary.bytes(0, kSmall), wanted)) why = "the halves do not hold the bytes";
    finish(expected, stretch, "preadv, half of it ordinary memory", "read", why, half);
  }

  // After a refusal the same descriptor serves ordinary memory, so a caller can fall back on the spot.
  void ordinary_read_still_works() {
    const std::uint64_t wanted = next_seed();
    fill(host(kSmall), wanted);
    must_write(fd(), host(kSmall), 0);
    fill(host(kSmall), next_seed());
    must_read(fd(), host(kSmall), 0);
    row(name_ + ": ordinary memory is served after the refusal",
        holds(host(kSmall), wanted) ? "" : "the bytes are not those that were written");
  }

 private:
  static bool moves(const Expectation& expected) {
    return expected.kind != Kind::refused && expected.kind != Kind::lost;
  }

  // What the target holds after a write. Lost bytes leave neither the old nor the new.
  std::string judge_target(const Expectation& expected, std::size_t length, std::uint64_t wanted,
                           std::uint64_t before) const {
    const bool arrived = holds(host(length), wanted);
    if (moves(expected)) return arrived ? "" : "the target does not hold the bytes";
    if (arrived) return "the bytes arrived all the same";
    if (expected.kind == Kind::lost || holds(host(length), before)) return "";
    return "the target has changed all the same";
  }

  static std::string judge(const Expectation& expected, ssize_t count, std::size_t length) {
    return differs(count, expected.kind == Kind::refused ? expected.error : static_cast<ssize_t>(length));
  }

  bool edges_untouched(std::uint64_t before, std::size_t length, std::size_t shift) const {
    // What lies before and behind is compared through a pattern laid afresh over the same places.
    const HostMemory expected(device_.size());
    fill(expected.bytes(0, device_.size()), before);
    const auto same = [&](std::size_t from, std::size_t to) {
      return std::equal(device_.data() + from, device_.data() + to, expected.data() + from);
    };
    return same(0, kPage + shift) && same(kPage + shift + length, device_.size());
  }

  void finish(const Expectation& expected, Stretch& stretch, const std::string& what, const std::string& operation,
              const std::string& why, std::size_t inside) {
    stretch.end();
    const std::string name = name_ + ": " + what;
    row(name, why);
    if (!why.empty() || expected.kind == Kind::right || expected.kind == Kind::lost) return;
    stretch.promise(name, operation, expected.kind == Kind::direct ? inside : 0);
  }

  std::string name_;
  File file_;
  DeviceMemory device_;
  HostMemory host_;
};

}  // namespace

Expectation expectation_of(const std::string& word) {
  if (word == "direct") return {Kind::direct, 0, 1};
  if (word == "direct*2") return {Kind::direct, 0, 2};
  if (word == "copied") return {Kind::copied, 0, 1};
  if (word == "right") return {Kind::right, 0, 1};
  if (word == "lost") return {Kind::lost, 0, 1};
  if (const int error = error_named(word); error != 0) return {Kind::refused, error, 1};
  throw std::invalid_argument("no expectation is called " + word);
}

Expectations expectations_of(const std::string& words) {
  const std::size_t first = words.find('/');
  const Expectation reads = expectation_of(words.substr(0, first));
  if (first == std::string::npos) return {reads, reads, reads};
  const std::size_t second = words.find('/', first + 1);
  const Expectation writes = expectation_of(words.substr(first + 1, second - first - 1));
  if (second == std::string::npos) return {reads, writes, reads};
  return {reads, writes, expectation_of(words.substr(second + 1))};
}

void transfers(const std::string& name, const std::string& target, const Expectations& expectations) {
  const auto& [reads, writes, sector_reads] = expectations;
  Bench bench(name, target, kLarge);
  bench.read(reads, "pread of 64 KiB", kSmall, plain_read);
  bench.write(writes, "pwrite of 64 KiB", kSmall, plain_write);
  bench.read(reads, "io_uring read", kSmall, through_ring(Operation::read));
  if (reads.kind == Kind::refused) {
    bench.ordinary_read_still_works();
    return;
  }
  bench.write(writes, "io_uring write", kSmall, through_ring(Operation::write));
  if (reads.kind == Kind::lost) return;
  bench.read(reads, "pread of 1 MiB", kLarge, plain_read);
  bench.write(writes, "pwrite of 1 MiB", kLarge, plain_write);
  bench.read(sector_reads, "pread to 512 bytes into a page", kPage, plain_read, 512);
  bench.read(reads, "pread of 64 KiB in pages", kSmall, read_in_pages);
  bench.read(reads, "Linux AIO read", kSmall, native_aio_read);
  bench.mixed_read(reads);
}

void large_transfer(const std::string& name, const std::string& target) {
  Bench bench(name, target, kVeryLarge);
  bench.read({}, "pread of 16 MiB", kVeryLarge, plain_read);
}

void polled(const std::string& name, const std::string& target, const Expectation& expectation) {
  Bench bench(name, target, kSmall);
  bench.read(expectation, "io_uring read that polls", kSmall, [](int fd, std::span<std::byte> memory) {
    Ring ring(Waiting::polling);
    return ring.run(Operation::read, fd, memory, 0);
  });
}

void passthrough(const std::string& name, const std::string& node, const std::string& drive) {
  const File character(node, O_RDWR);
  Bench bench(name, drive, kSmall);
  const int nsid = ioctl(character.get(), NVME_IOCTL_ID);
  if (nsid < 0) throw std::system_error(errno, std::generic_category(), node + " tells no namespace");
  bench.read({}, "ioctl passthrough read", kSmall, [&](int, std::span<std::byte> memory) {
    constexpr std::uint8_t kReadCommand = 2;
    nvme_passthru_cmd command{};
    command.opcode = kReadCommand;
    command.nsid = static_cast<std::uint32_t>(nsid);
    command.addr = reinterpret_cast<std::uint64_t>(memory.data());
    command.data_len = static_cast<std::uint32_t>(memory.size());
    command.cdw12 = static_cast<std::uint32_t>(memory.size() / 512 - 1);
    const int status = ioctl(character.get(), NVME_IOCTL_IO_CMD, &command);
    return status == 0 ? static_cast<ssize_t>(memory.size()) : answer(status);
  });
}

}  // namespace sluice::lab
