// SPDX-License-Identifier: Apache-2.0
// The pool behind the bounce buffers. Memory that is pinned stays pinned: registering is dear, taking it back waits for
// whatever the device is at, which may wait for the thread that ends, and at exit the driver may be gone before us. So
// there is little of it; a crowd's other buffers are plain memory, and go when they are left over.
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
  bool pinned = false;
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

// Idle buffers, the last one first.
class IdleList {
 public:
  void add(Header* header) noexcept {
    header->next = std::exchange(first_, header);
    ++count_;
  }
  Header* take() noexcept {
    Header* const header = first_;
    if (header == nullptr) return nullptr;
    first_ = header->next;
    --count_;
    return header;
  }
  std::size_t count() const noexcept { return count_; }

 private:
  Header* first_ = nullptr;
  std::size_t count_ = 0;
};

struct Pool {
  std::mutex mutex;
  IdleList idle_pinned;
  IdleList idle_plain;
  std::atomic<std::size_t> buffers{0};
  std::atomic<std::size_t> pinned{0};
};

Pool& pool() {
  static base::NeverDestroyed<Pool> instance;
  return instance.get();
}

// Counts the forks that led to this process: bounce buffers from before the last one belong to an ancestor.
std::atomic<unsigned> forks{0};

constexpr gpu::StagingShape bounce_buffer_shape{.ahead = header_bytes + bounce_buffer_bytes};

std::byte* make() noexcept {
  std::byte* const memory = gpu::map_staging(bounce_buffer_shape);
  if (memory == nullptr) return nullptr;
  pool().buffers.fetch_add(1, std::memory_order_relaxed);
  new (memory) Header;
  return memory + header_bytes;
}

std::byte* take_from_pool() noexcept {
  const std::lock_guard lock(pool().mutex);
  Header* header = pool().idle_pinned.take();
  if (header == nullptr) header = pool().idle_plain.take();
  return header == nullptr ? nullptr : reinterpret_cast<std::byte*>(header) + header_bytes;
}

void give_to_pool(std::byte* memory) noexcept {
  Header* const header = header_of(memory);
  {
    const std::lock_guard lock(pool().mutex);
    if (header->pinned) return pool().idle_pinned.add(header);
    if (pool().idle_plain.count() < most_idle_plain_bounce_buffers) return pool().idle_plain.add(header);
  }
  pool().buffers.fetch_sub(1, std::memory_order_relaxed);
  gpu::unmap_staging(reinterpret_cast<std::byte*>(header), bounce_buffer_shape);
}

// Threads that come at once get no more than there may be, either.
bool may_pin_one_more() noexcept {
  std::atomic<std::size_t>& pinned = pool().pinned;
  if (pinned.load(std::memory_order_relaxed) >= most_pinned_bounce_buffers) return false;
  if (pinned.fetch_add(1, std::memory_order_relaxed) < most_pinned_bounce_buffers) return true;
  pinned.fetch_sub(1, std::memory_order_relaxed);
  return false;
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
  if (std::byte* left = take_from_pool()) return BounceBuffer(left);
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
  if (header->pin_tried || !may_pin_one_more()) return false;
  header->pin_tried = true;
  const gpu::CudaApi* const driver = gpu::driver();
  header->pinned = driver != nullptr && driver->mem_host_register(header, header_bytes + bounce_buffer_bytes,
                                                                  cuda::host_register_portable) == cuda::success;
  if (!header->pinned) {
    pool().pinned.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
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
    pool().idle_pinned = {};
    pool().idle_plain = {};
    pool().buffers.store(0);
    pool().pinned.store(0);
    forks.fetch_add(1);
  }
  pool().mutex.unlock();
}

}  // namespace sluice::staging
