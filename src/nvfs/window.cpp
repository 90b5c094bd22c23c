// SPDX-License-Identifier: Apache-2.0
// Neither shadow nor fence page may be inherited: after a fork a page that both have belongs to the one that does not
// write to it first, and the module would tell of transfers in a page that this process no longer sees.
#include "nvfs/window.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/page_size.h"

namespace sluice::nvfs {

namespace {

std::atomic<unsigned> forks{0};

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) noexcept {
  return (value + step - 1) / step * step;
}

// It covers the memory from the beginning of its first page on the device, as far as one call goes.
std::uint64_t shadow_length_for(std::uint64_t begin, std::uint64_t length) noexcept {
  const std::uint64_t wanted = std::min(begin % gpu_page_bytes + length, shadow_bytes);
  // A mapping is of whole pages, and the module is told all of its blocks.
  const std::uint64_t least = std::max<std::uint64_t>(block_bytes, base::page_size());
  return round_up(wanted, wanted <= gpu_page_bytes ? least : gpu_page_bytes);
}

void* map_pages(std::uint64_t length, int flags, int fd) noexcept {
  void* const pages = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (pages == MAP_FAILED) return nullptr;
  if (::madvise(pages, length, MADV_DONTFORK) == 0) return pages;
  const int error = errno;
  ::munmap(pages, length);
  errno = error;
  return nullptr;
}

}  // namespace

int Window::map(const Node& node, std::uint64_t gpu_on_bus) noexcept {
  const std::uint64_t length = shadow_length_for(begin_, length_);
  void* const shadow = map_pages(length, MAP_SHARED, node.fd());
  if (shadow == nullptr) return errno;
  void* const fence = map_pages(fence_page_bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (fence == nullptr) {
    const int error = errno;
    ::munmap(shadow, length);
    return error;
  }
  std::memset(fence, 0, fence_page_bytes);  // there, and writable, before it is pinned
  Argument argument{};
  argument.map.gpu_bytes = static_cast<std::int64_t>(length_);
  argument.map.gpu_on_bus = gpu_on_bus;
  argument.map.shadow = reinterpret_cast<std::uint64_t>(shadow);
  argument.map.gpu_address = begin_;
  argument.map.fence_page = reinterpret_cast<std::uint64_t>(fence);
  argument.map.shadow_blocks = static_cast<std::uint32_t>(length / block_bytes);
  if (const std::int64_t answer = node.call(Call::map, argument); answer < 0) {
    ::munmap(shadow, length);
    ::munmap(fence, fence_page_bytes);
    return static_cast<int>(-answer);
  }
  shadow_ = static_cast<std::byte*>(shadow);
  shadow_length_ = length;
  fence_ = static_cast<FencePage*>(fence);
  fence_value_ = 0;
  process_ = forks.load(std::memory_order_relaxed);
  return 0;
}

void Window::unmap() noexcept {
  if (is_mapped()) {
    ::munmap(shadow_, shadow_length_);  // the module lets go of the device memory and of the page
    ::munmap(fence_, fence_page_bytes);
  }
  shadow_ = nullptr;
  fence_ = nullptr;
}

bool Window::is_mapped() const noexcept {
  return shadow_ != nullptr && process_ == forks.load(std::memory_order_relaxed);
}

// What begins within a page of the device has to end in it.
std::uint64_t Window::longest_call(std::uint64_t address, std::uint64_t length) const noexcept {
  const std::uint64_t into_page = address % gpu_page_bytes;
  const std::uint64_t most = into_page != 0 ? gpu_page_bytes - into_page : shadow_length_;
  return std::min({length, most, end() - address});
}

State Window::state() const noexcept {
  return static_cast<State>(std::atomic_ref(fence_->state).load(std::memory_order_acquire));
}

// The module need not say that a call found no hole. That the memory is gone stays.
void Window::clear_state() noexcept {
  auto sparse = static_cast<std::int32_t>(State::sparse);
  std::atomic_ref(fence_->state).compare_exchange_strong(sparse, static_cast<std::int32_t>(State::clean));
  fence_->hole_count = 0;
}

std::int64_t Window::hand_over(const Node& node, Call call, const Piece& piece, std::uint8_t flags) noexcept {
  if (is_dead()) return -EBUSY;
  clear_state();
  Argument argument{};
  argument.io.shadow = reinterpret_cast<std::uint64_t>(shadow_);
  argument.io.file_offset = static_cast<std::int64_t>(piece.at);
  argument.io.length = piece.length;
  argument.io.fence_value = (flags & synchronous) != 0 ? 0 : fence_value_;
  argument.io.inode = piece.file.inode;
  argument.io.major = piece.file.major;
  argument.io.minor = piece.file.minor;
  argument.io.gpu_offset = piece.address - begin_;
  argument.io.fd = piece.file.fd;
  argument.io.flags = flags;
  return node.call(call, argument);
}

std::int64_t Window::move(const Node& node, Call call, const Piece& piece) noexcept {
  return hand_over(node, call, piece, synchronous);
}

std::int64_t Window::begin(const Node& node, Call call, const Piece& piece) noexcept {
  ++fence_value_;
  fence_->result = 0;
  return hand_over(node, call, piece, 0);
}

// The module writes the value behind all else.
bool Window::has_ended() const noexcept {
  return std::atomic_ref(fence_->value).load(std::memory_order_acquire) == fence_value_;
}

bool Window::is_understood() const noexcept {
  return fence_->magic == FencePage::magic_number && fence_->version == FencePage::known_version &&
         fence_->hole_count <= FencePage::most_holes;
}

void windows_after_fork_in_child() noexcept {
  forks.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace sluice::nvfs
