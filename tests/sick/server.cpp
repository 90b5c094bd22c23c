// SPDX-License-Identifier: Apache-2.0
// A file system in user space that falls ill when it is told to: `sick_server MEMORY DEVICE`, two descriptors: what
// condition.h describes, and /dev/fuse as it was mounted. It speaks the kernel's protocol itself. What it keeps to
// itself it answers when the file is well again.
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sick/condition.h"

namespace sluice::sick {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr std::uint32_t most_bytes = 1 << 20;
constexpr std::uint32_t page = 4096;
constexpr std::uint64_t first_file = 2;  // node 1 is the folder
constexpr int moment_ms = 5;

class Server {
 public:
  Server(Condition& condition, int device) : condition_(condition), device_(device) {
    for (std::vector<unsigned char>& file : files_) {
      file.resize(file_bytes);
      for (std::size_t at = 0; at < file_bytes; ++at) file[at] = byte_at(at);
    }
  }

  int run() {
    Bytes room(most_bytes + 2 * page);
    condition_.serves = 1;
    for (;;) {
      pollfd ready{device_, POLLIN, 0};
      if (poll(&ready, 1, moment_ms) < 0 && errno != EINTR) return 1;
      answer_what_was_withheld();
      if ((ready.revents & (POLLERR | POLLHUP)) != 0) return 0;
      if ((ready.revents & POLLIN) == 0) continue;
      const ssize_t got = read(device_, room.data(), room.size());
      if (got < 0 && errno == ENODEV) return 0;  // unmounted
      if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) continue;
      take(Bytes(room.begin(), room.begin() + got));
    }
  }

 private:
  static const fuse_in_header& head_of(const Bytes& request) {
    return *reinterpret_cast<const fuse_in_header*>(request.data());
  }
  template <typename Arguments>
  static const Arguments& arguments_of(const Bytes& request) {
    return *reinterpret_cast<const Arguments*>(request.data() + sizeof(fuse_in_header));
  }

  Bytes* file_of(std::uint64_t node) {
    return node >= first_file && node < first_file + file_count ? &files_[node - first_file] : nullptr;
  }

  Ailment ailment_of(const Bytes& request) const {
    const fuse_in_header& head = head_of(request);
    const std::uint64_t index = head.nodeid - first_file;
    if (head.nodeid < first_file || index >= file_count) return Ailment::none;
    if (head.opcode == FUSE_READ) return condition_.reading[index];
    return head.opcode == FUSE_WRITE || head.opcode == FUSE_FSYNC ? condition_.writing[index].load() : Ailment::none;
  }

  void take(Bytes request) {
    switch (ailment_of(request)) {
      case Ailment::dying:
        std::_Exit(0);
      case Ailment::silent:
        withheld_.push_back(std::move(request));
        condition_.withheld = static_cast<std::uint32_t>(withheld_.size());
        return;
      case Ailment::refusing:
        return refuse(request, EIO);
      case Ailment::late:
        usleep(moment_ms * 1000);
        return serve(request);
      default:
        return serve(request);
    }
  }

  void answer_what_was_withheld() {
    const auto still_silent = [this](const Bytes& request) { return ailment_of(request) == Ailment::silent; };
    const auto well = std::stable_partition(withheld_.begin(), withheld_.end(), still_silent);
    std::vector<Bytes> due(std::make_move_iterator(well), std::make_move_iterator(withheld_.end()));
    withheld_.erase(well, withheld_.end());
    condition_.withheld = static_cast<std::uint32_t>(withheld_.size());
    for (Bytes& request : due) take(std::move(request));
  }

  void answer(const Bytes& request, std::span<const unsigned char> body) {
    fuse_out_header head{static_cast<std::uint32_t>(sizeof head + body.size()), 0, head_of(request).unique};
    const iovec parts[] = {{&head, sizeof head}, {const_cast<unsigned char*>(body.data()), body.size()}};
    if (writev(device_, parts, 2) < 0 && errno == EINVAL) refuse(request, EIO);  // what the kernel does not believe
  }
  template <typename Body>
  void answer_with(const Bytes& request, const Body& body) {
    answer(request, std::span(reinterpret_cast<const unsigned char*>(&body), sizeof body));
  }
  void refuse(const Bytes& request, int error) {
    const fuse_out_header head{sizeof head, -error, head_of(request).unique};
    if (write(device_, &head, sizeof head) < 0) return;  // the caller has gone
  }

  fuse_attr attributes_of(std::uint64_t node) {
    fuse_attr attributes{};
    attributes.ino = node;
    attributes.nlink = 1;
    attributes.blksize = page;
    attributes.mode = S_IFDIR | 0755;
    if (const Bytes* const file = file_of(node)) {
      attributes.mode = S_IFREG | 0600;
      attributes.size = file->size();
      attributes.blocks = file->size() / 512;
    }
    return attributes;
  }

  void serve(const Bytes& request) {
    const fuse_in_header& head = head_of(request);
    switch (head.opcode) {
      case FUSE_INIT: {
        fuse_init_out out{};
        out.major = FUSE_KERNEL_VERSION;
        out.minor = std::min(arguments_of<fuse_init_in>(request).minor, std::uint32_t{31});
        out.max_readahead = most_bytes;
        out.flags = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_MAX_PAGES;
        out.max_background = 64;
        out.congestion_threshold = 64;
        out.max_write = most_bytes;
        out.max_pages = most_bytes / page;
        out.time_gran = 1;
        return answer_with(request, out);
      }
      case FUSE_LOOKUP:
        return look_up(request);
      case FUSE_GETATTR:
      case FUSE_SETATTR: {
        fuse_attr_out out{};
        out.attr_valid = 3600;
        out.attr = attributes_of(head.nodeid);
        return answer_with(request, out);
      }
      case FUSE_OPEN: {
        fuse_open_out out{};
        out.open_flags = FOPEN_KEEP_CACHE;
        return answer_with(request, out);
      }
      case FUSE_READ:
        return read_file(request);
      case FUSE_WRITE:
        return write_file(request);
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:
        return;
      case FUSE_FLUSH:
      case FUSE_FSYNC:
      case FUSE_RELEASE:
      case FUSE_ACCESS:
        return answer(request, std::span<const unsigned char>());
      default:
        return refuse(request, ENOSYS);
    }
  }

  void look_up(const Bytes& request) {
    const std::string name(reinterpret_cast<const char*>(request.data() + sizeof(fuse_in_header)));
    if (name.size() != 1 || name[0] < '0' || name[0] >= '0' + static_cast<int>(file_count)) {
      return refuse(request, ENOENT);
    }
    fuse_entry_out out{};
    out.nodeid = first_file + static_cast<std::uint64_t>(name[0] - '0');
    out.entry_valid = out.attr_valid = 3600;
    out.attr = attributes_of(out.nodeid);
    answer_with(request, out);
  }

  void read_file(const Bytes& request) {
    const auto& wanted = arguments_of<fuse_read_in>(request);
    const Bytes* const file = file_of(head_of(request).nodeid);
    if (file == nullptr) return refuse(request, EISDIR);
    const std::size_t begin = std::min<std::size_t>(wanted.offset, file->size());
    std::size_t length = std::min<std::size_t>(wanted.size, file->size() - begin);
    if (ailment_of(request) == Ailment::brief && length > page) length = length / 2 / page * page;
    Bytes body(file->begin() + static_cast<std::ptrdiff_t>(begin),
               file->begin() + static_cast<std::ptrdiff_t>(begin + length));
    if (ailment_of(request) == Ailment::lying) body.resize(wanted.size + page);
    answer(request, std::span<const unsigned char>(body));
  }

  void write_file(const Bytes& request) {
    const auto& given = arguments_of<fuse_write_in>(request);
    Bytes* const file = file_of(head_of(request).nodeid);
    if (file == nullptr) return refuse(request, EISDIR);
    const unsigned char* const bytes = request.data() + sizeof(fuse_in_header) + sizeof given;
    std::size_t length = given.size;
    if (given.offset > file->size() || length > file->size() - given.offset) return refuse(request, ENOSPC);
    if (ailment_of(request) == Ailment::brief && length > page) length = length / 2 / page * page;
    std::copy_n(bytes, length, file->begin() + static_cast<std::ptrdiff_t>(given.offset));
    fuse_write_out out{};
    out.size = static_cast<std::uint32_t>(ailment_of(request) == Ailment::lying ? length + page : length);
    answer_with(request, out);
  }

  Condition& condition_;
  const int device_;
  std::array<Bytes, file_count> files_;
  std::vector<Bytes> withheld_;
};

}  // namespace
}  // namespace sluice::sick

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // never left behind
  void* const memory =
      mmap(nullptr, sizeof(sluice::sick::Condition), PROT_READ | PROT_WRITE, MAP_SHARED, std::atoi(argv[1]), 0);
  if (memory == MAP_FAILED) return 1;
  return sluice::sick::Server(*static_cast<sluice::sick::Condition*>(memory), std::atoi(argv[2])).run();
}
