// SPDX-License-Identifier: Apache-2.0
// The pool behind the bounce buffers. Memory that is pinned stays pinned: registering is dear, and at exit the driver
// may be gone before us.
#include "staging/bounce_buffer.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "base/never_destroyed.h"
#include "base/processor.h"
#include "base/thread_end.h"
#include "gpu/cuda_api.h"
#include "gpu/memory.h"
#include "gpu/session.h"
#include "gpu/staging_memory.h"

namespace sluice::staging {

namespace {

// Lives in the page before the bounce buffer's bytes, so that idle bounce buffers need no memory of their own.
struct Header {
  Header* next = nullptr;
  bool pin_tried = false;
  cuda::Context context = nullptr;  // which it was pinned in: the pinning ends with it
  unsigned long long context_id = 0;
  cuda::DevicePtr word_seen_by_device = 0;
  std::uint32_t last_mark = 0;
  alignas(base::line_bytes) std::uint32_t word = 0;
};
constexpr std::size_t header_bytes = 4096;

Header* header_of(std::byte* memory) {
  return reinterpret_cast<Header*>(memory - header_bytes);
}

struct Pool {
  std::mutex mutex;
  Header* idle = nullptr;
  std::atomic<std::size_t> buffers{0};
  std::atomic<std::size_t> pinned{0};
};

Pool& pool() {
  static base::NeverDestroyed<Pool> instance;
  return instance.get();
}

// Counts the forks that led to this process: bounce buffers from before the last one belong to an ancestor.
std::atomic<unsigned> forks{0};

std::byte* make() noexcept {
  std::byte* const memory = gpu::map_staging({.ahead = header_bytes + bounce_buffer_bytes});
  if (memory == nullptr) return nullptr;
  pool().buffers.fetch_add(1, std::memory_order_relaxed);
  new (memory) Header;
  return memory + header_bytes;
}

void give_to_pool(std::byte* memory) noexcept {
  const std::lock_guard lock(pool().mutex);
  Header* const header = header_of(memory);
  header->next = pool().idle;
  pool().idle = header;
}

// The bounce buffer that this thread used last. It has no destructor: transfers of the thread's last destructors and of
// exit handlers still look at it.
struct ThreadBuffer {
  std::byte* memory;
  unsigned born;
  bool armed;  // the end of this thread will be noticed
  bool ending;

  std::byte* release() noexcept {
    std::byte* const own = std::exchange(memory, nullptr);
    return born == forks.load(std::memory_order_relaxed) ? own : nullptr;
  }
};
constinit thread_local ThreadBuffer thread_buffer{};

// Bounce buffers that the thread takes afterwards go straight back to the pool.
constinit base::ThreadEnd buffer_thread_end{[](void*) {
  thread_buffer.ending = true;
  if (std::byte* left = thread_buffer.release()) give_to_pool(left);
}};

}  // namespace

BounceBuffer BounceBuffer::take() noexcept {
  if (std::byte* own = thread_buffer.release()) return BounceBuffer(own);
  {
    const std::lock_guard lock(pool().mutex);
    if (Header* const header = pool().idle) {
      pool().idle = header->next;
      return BounceBuffer(reinterpret_cast<std::byte*>(header) + header_bytes);
    }
  }
  return BounceBuffer(make());
}

BounceBuffer::BounceBuffer(BounceBuffer&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}

BounceBuffer::~BounceBuffer() {
  if (memory_ == nullptr) return;
  if (thread_buffer.memory == nullptr && !thread_buffer.ending) {
    if (!std::exchange(thread_buffer.armed, true)) buffer_thread_end.arm();
    thread_buffer.memory = memory_;
    thread_buffer.born = forks.load(std::memory_order_relaxed);
  } else {
    give_to_pool(memory_);  // a request within a request: the thread keeps one
  }
}

bool BounceBuffer::pin(const gpu::Session& session) noexcept {
  Header* const header = header_of(memory_);
  if (header->pin_tried) return false;
  header->pin_tried = true;
  const gpu::CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->mem_host_register(header, header_bytes + bounce_buffer_bytes,
                                                     cuda::host_register_portable) != cuda::success) {
    return true;
  }
  pool().pinned.fetch_add(1, std::memory_order_relaxed);
  // Drivers without ids do not tell whether it is still the same context.
  if (session.context_id() != 0 && driver->mem_host_get_device_pointer != nullptr &&
      driver->mem_host_get_device_pointer(&header->word_seen_by_device, &header->word, 0) == cuda::success) {
    header->context = session.context();
    header->context_id = session.context_id();
  }
  return true;
}

std::optional<BounceBuffer::Mark> BounceBuffer::next_mark(const gpu::Session& session) noexcept {
  Header* const header = header_of(memory_);
  if (header->context == nullptr || header->context != session.context() ||
      header->context_id != session.context_id()) {
    return std::nullopt;
  }
  return Mark{&header->word, header->word_seen_by_device, ++header->last_mark};
}

BounceBufferCounts bounce_buffer_counts() noexcept {
  return {pool().buffers.load(std::memory_order_relaxed), pool().pinned.load(std::memory_order_relaxed)};
}

void bounce_buffers_before_fork() noexcept {
  pool().mutex.lock();
}

void bounce_buffers_after_fork(bool in_child) noexcept {
  if (in_child) {
    pool().idle = nullptr;
    pool().buffers.store(0);
    pool().pinned.store(0);
    forks.fetch_add(1);
  }
  pool().mutex.unlock();
}

}  // namespace sluice::staging
