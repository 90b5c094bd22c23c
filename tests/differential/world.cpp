// SPDX-License-Identifier: Apache-2.0
#include "differential/world.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "differential/answers.h"

namespace sluice::differential {
namespace {

constexpr std::size_t kSmall = 65536;
constexpr std::size_t kLarge = 1310720;  // room for the largest file
constexpr std::size_t kGuard = std::size_t{1} << 30;

std::vector<char> pattern(const std::string& name, std::size_t size) {
  std::vector<char> bytes(size);
  std::uint64_t state = digest(name.data(), name.size());
  for (std::size_t i = 0; i < size; ++i) {
    if (i % 8 == 0) state = state * 6364136223846793005U + 1442695040888963407U;
    bytes[i] = static_cast<char>(state >> (i % 8 * 8));
  }
  return bytes;
}

const std::vector<char>& pattern_of(const std::string& name, std::size_t size) {
  static std::map<std::string, std::vector<char>> made;
  auto& found = made[name];
  if (found.empty()) found = pattern(name, size);
  return found;
}

// Plain memory with nothing around it: what reaches far out of it meets no other memory of this process.
void* lonely_memory(std::size_t size) {
  void* const all = mmap(nullptr, 2 * kGuard + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  char* const middle = static_cast<char*>(all) + kGuard;
  return mprotect(middle, size, PROT_READ | PROT_WRITE) == 0 ? middle : nullptr;
}

int flags_of(const std::string& mode) {
  static const std::map<std::string, int> known = {
      {"rw", O_RDWR},
      {"rw2", O_RDWR},
      {"ro", O_RDONLY},
      {"wo", O_WRONLY},
      {"drw", O_RDWR | O_DIRECT},
      {"drw2", O_RDWR | O_DIRECT},
      {"dro", O_RDONLY | O_DIRECT},
      {"dwo", O_WRONLY | O_DIRECT},
      {"sync", O_RDWR | O_SYNC},
      {"append", O_RDWR | O_APPEND},
      {"nonblock", O_RDWR | O_NONBLOCK},
      {"path", O_PATH},
      {"noatime", O_RDWR | O_NOATIME},
  };
  const auto found = known.find(mode);
  return found == known.end() ? O_RDWR : found->second;
}

void rewrite(const File& file) {
  const int fd = open(file.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  const std::vector<char>& bytes = pattern_of(file.name, file.size);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(file.size)) != 0 ||
      (file.size != 0 && pwrite(fd, bytes.data(), file.size, 0) != static_cast<ssize_t>(file.size))) {
    std::perror("player: a file");
    std::exit(2);
  }
  close(fd);
}

}  // namespace

void Buffer::refill() {
  known = pattern_of(name, size);
  if (kind == Kind::device) {
    cuda().to_device(reinterpret_cast<Address>(address), known.data(), size);
  } else {
    std::memcpy(address, known.data(), size);
  }
}

std::vector<char> Buffer::contents() const {
  std::vector<char> bytes(size);
  if (kind == Kind::device) {
    cuda().to_host(bytes.data(), reinterpret_cast<Address>(address), size);
  } else {
    std::memcpy(bytes.data(), address, size);
  }
  return bytes;
}

World::World(std::string folder) : folder_(std::move(folder)) {
  const std::pair<const char*, std::size_t> sizes[] = {{"e", 0},     {"t", 100},   {"s", 4096},
                                                       {"a", 65536}, {"r", 70001}, {"b", 1052689}};
  for (const auto& [name, size] : sizes) {
    File& file = files_[name];
    file.name = name;
    file.path = std::string(folder_).append("/").append(name);
    file.size = size;
    rewrite(file);
  }
  Address address = 0;
  const auto device = [&](const char* name, std::size_t size) {
    if (cuda().allocate(&address, size) == 0) add_buffer(name, Kind::device, reinterpret_cast<void*>(address), size);
  };
  device("d0", kSmall);
  device("d1", kLarge);
  device("d2", 4096);
  device("d3", 1000);
  if (cuda().allocate_managed(&address, kSmall, 1) == 0) {
    add_buffer("m0", Kind::host, reinterpret_cast<void*>(address), kSmall);
  }
  void* const pinned = lonely_memory(kSmall);
  if (cuda().pin(pinned, kSmall, 1) == 0) add_buffer("p0", Kind::host, pinned, kSmall);
  add_buffer("q0", Kind::host, lonely_memory(kLarge), kLarge);
  add_buffer("q1", Kind::host, static_cast<char*>(lonely_memory(kLarge + 4096)) + 13, kLarge);
  const Address mapped = map_pieces(2);
  if (mapped != 0) add_buffer("v0", Kind::device, reinterpret_cast<void*>(mapped + kPiece - kSmall), 2 * kSmall);
}

void World::add_buffer(const char* name, Kind kind, void* address, std::size_t size) {
  if (address == nullptr) return;
  auto buffer = std::make_unique<Buffer>();
  buffer->name = name;
  buffer->kind = kind;
  buffer->address = static_cast<char*>(address);
  buffer->size = size;
  buffers_.push_back(std::move(buffer));
}

Place World::place(const std::string& text) {
  const std::size_t plus = text.find('+');
  const std::string name = text.substr(0, plus);
  const std::size_t offset = plus == std::string::npos ? 0 : std::strtoull(text.c_str() + plus + 1, nullptr, 10);
  for (const auto& buffer : buffers_) {
    if (buffer->name != name) continue;
    if (!buffer->used) buffer->refill();
    buffer->used = true;
    return {buffer.get(), buffer->address + offset};
  }
  return {nullptr, name == "garbage" ? reinterpret_cast<char*>(0x7ead00000000 + offset) : nullptr};
}

Change World::settle(Buffer& buffer, const std::vector<Range>& ranges, const std::vector<char>* expected,
                     std::size_t before) const {
  std::vector<char> now = buffer.contents();
  Change change;
  bool moved = false;
  const bool stray = before > 0 && std::memcmp(now.data(), buffer.known.data(), std::min(before, buffer.size)) != 0;
  std::copy_n(buffer.known.data(), std::min(before, buffer.size), now.data());
  for (const Range& range : ranges) {
    const std::size_t begin = std::min(range.begin, buffer.size);
    const std::size_t length = std::min(range.length, buffer.size - begin);
    change.unmoved = change.unmoved || length > 0;
    moved = moved || std::memcmp(buffer.known.data() + begin, now.data() + begin, length) != 0;
    change.inside = change.inside * 31 + digest(now.data() + begin, length);
    change.wrong =
        change.wrong || (expected != nullptr && std::memcmp(expected->data() + begin, now.data() + begin, length) != 0);
    std::memcpy(buffer.known.data() + begin, now.data() + begin, length);
  }
  change.unmoved = change.unmoved && !moved;
  change.outside = now != buffer.known;
  if (change.outside || stray) {
    if (buffer.kind == Kind::device) {
      cuda().to_device(reinterpret_cast<Address>(buffer.address), buffer.known.data(), buffer.size);
    } else {
      std::memcpy(buffer.address, buffer.known.data(), buffer.size);
    }
  }
  return change;
}

void World::doubt_outside(const Place& place, std::ptrdiff_t shift, std::size_t length, File* file) const {
  if (place.buffer == nullptr) return;
  const std::ptrdiff_t begin = place.address - place.buffer->address + shift;
  if (begin >= 0 && static_cast<std::size_t>(begin) + length <= place.buffer->size) return;
  if (file != nullptr) {
    file->uncertain = true;
    return;
  }
  for (const auto& buffer : buffers_) buffer->uncertain = buffer->uncertain || buffer.get() != place.buffer;
}

File& World::fresh_file(const std::string& name) {
  File& file = files_.at(name);
  if (!file.used) {
    if (file.written) rewrite(file);
    if (file.written || file.holds.size() != file.size) file.holds = pattern_of(file.name, file.size);
    file.written = false;
    file.is_known = true;
    file.under_way = 0;
  }
  file.used = true;
  return file;
}

int World::open_special(const std::string& text) const {
  if (text == "dir") return open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (text == "null") return open("/dev/null", O_RDWR | O_CLOEXEC);
  if (text == "zero") return open("/dev/zero", O_RDWR | O_CLOEXEC);
  if (text == "proc") return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (text == "socket") return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (text == "memfd" || text == "unlinked") {
    const int fd =
        text == "memfd" ? memfd_create("m", MFD_CLOEXEC) : open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    const std::vector<char>& bytes = pattern_of("m", 8192);
    if (fd >= 0 && pwrite(fd, bytes.data(), bytes.size(), 0) < 0) return -1;
    return fd;
  }
  char* end = nullptr;
  const long number = std::strtol(text.c_str(), &end, 10);
  return *end == '\0' ? static_cast<int>(number) : -1;
}

int World::descriptor(const std::string& text, File** file) {
  const std::size_t dot = text.find('.');
  const bool named = dot != std::string::npos && files_.count(text.substr(0, dot)) != 0;
  *file = named ? &fresh_file(text.substr(0, dot)) : nullptr;
  const auto found = descriptors_.find(text);
  if (found != descriptors_.end()) return found->second;
  int fd = -1;
  if (text == "pipe") {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) == 0) extra_.push_back(ends[1]);
    fd = ends[0];
  } else if (named && text.substr(dot + 1) == "dup") {
    File* same = nullptr;
    fd = dup(descriptor(text.substr(0, dot) + ".rw", &same));
  } else if (named) {
    fd = open((*file)->path.c_str(), flags_of(text.substr(dot + 1)) | O_CLOEXEC);
  } else {
    fd = open_special(text);
    if (!text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'))) return fd;
  }
  descriptors_[text] = fd;
  return fd;
}

void World::close_descriptor(const std::string& text) {
  const auto found = descriptors_.find(text);
  if (found == descriptors_.end() || found->second < 0) return;
  close(found->second);
  found->second = -1;
}

std::string World::tell(File& file) const {
  if (file.uncertain) return "uncertain";
  static std::vector<char> bytes(kMostTold);
  const int fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) return "gone";
  const ssize_t some = pread(fd, bytes.data(), std::min(kMostTold, static_cast<std::size_t>(status.st_size)), 0);
  close(fd);
  const auto size = static_cast<std::size_t>(some > 0 ? some : 0);
  const bool whole = size == static_cast<std::size_t>(status.st_size);
  const bool is_as_known =
      whole && size == file.holds.size() && std::equal(bytes.data(), bytes.data() + size, file.holds.data());
  const bool is_wrong = !is_as_known && file.can_be_told();
  if (is_wrong) {  // it is told once
    file.holds.assign(bytes.data(), bytes.data() + size);
    file.is_known = whole;
  }
  char text[80];
  std::snprintf(text, sizeof text, "%lld:%016" PRIx64 "%s", static_cast<long long>(status.st_size),
                digest(bytes.data(), size), is_wrong ? " wrong=file" : "");
  return text;
}

void World::tell_all() {
  for (const auto& buffer : buffers_) {
    if (!buffer->used) continue;
    const std::vector<char> now = buffer->contents();
    answers().add("memory %s bytes=%s\n", buffer->name.c_str(),
                  buffer->uncertain ? "uncertain" : std::to_string(digest(now.data(), now.size())).c_str());
  }
  for (auto& [name, file] : files_) {
    if (!file.used) continue;
    answers().add("file %s holds=%s\n", name.c_str(), tell(file).c_str());
  }
}

void World::mark_written() {
  for (auto& [name, file] : files_) file.written = file.written || file.used;
}

void World::clean_up() {
  for (const auto& [name, fd] : descriptors_) {
    if (fd >= 0) close(fd);
  }
  for (const int fd : extra_) close(fd);
  descriptors_.clear();
  extra_.clear();
  for (const auto& buffer : buffers_) {
    buffer->used = false;
    buffer->uncertain = false;
  }
  for (auto& [name, file] : files_) {
    file.used = false;
    file.uncertain = false;
  }
}

}  // namespace sluice::differential
