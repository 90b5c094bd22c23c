// SPDX-License-Identifier: Apache-2.0
// Being a guest in a CUDA program: the right context for as long as we need it, our own stream, and the
// thread left as it was.
#include "gpu/session.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/event_count.h"
#include "base/never_destroyed.h"
#include "base/thread_end.h"
#include "gpu/engine_copy.h"
#include "gpu/memory.h"

namespace sluice::gpu {

namespace {

struct OwnStream {
  cuda::Context context = nullptr;
  unsigned long long context_id = 0;  // tells a new context at an old address; 0 with drivers that have no ids
  cuda::Stream stream = nullptr;
  bool urgent = false;

  bool serves(cuda::Context wanted, unsigned long long id, bool urgently) const noexcept {
    return stream != nullptr && context == wanted && context_id == id && urgent == urgently;
  }
  bool is_like(const OwnStream& other) const noexcept {
    return context == other.context && context_id == other.context_id && urgent == other.urgent;
  }
};

// The streams of all threads. What is in one never waits but for copies before it, so threads beyond most_own_streams
// share: a device has fewer queues than that. None is ever destroyed: at exit the driver may be gone, and a stream of
// a destroyed context is gone with it.
class StreamPool {
 public:
  // One that no thread has, else a new one, else the one that fewest have. `wanted` tells all but the stream.
  template <typename Make>
  cuda::Result take(OwnStream wanted, OwnStream& own, const Make& make) {
    if (may_make(wanted, own)) {
      const cuda::Result result = make(wanted.stream);
      made(wanted);
      if (result != cuda::success) return result;
      own = wanted;
    }
    return cuda::success;
  }
  void give_back(const OwnStream& own) noexcept {
    if (own.stream == nullptr) return;
    const std::lock_guard lock(mutex_);
    for (Pooled& pooled : streams_) {
      if (pooled.own.stream == own.stream && pooled.own.is_like(own)) --pooled.users;
    }
  }
  std::size_t count() noexcept {
    const std::lock_guard lock(mutex_);
    return streams_.size();
  }
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  struct Pooled {
    OwnStream own;  // without a stream while that is being made, outside of the lock
    unsigned users;
  };

  // False: `own` is one that there is. Where all that may be are only coming, the first of them is waited for.
  bool may_make(const OwnStream& wanted, OwnStream& own) {
    for (;;) {
      const std::uint32_t seen = came_.now();
      {
        const std::lock_guard lock(mutex_);
        std::size_t alike = 0;
        Pooled* best = nullptr;
        for (Pooled& pooled : streams_) {
          if (!pooled.own.is_like(wanted)) continue;
          ++alike;
          if (pooled.own.stream != nullptr && (best == nullptr || pooled.users < best->users)) best = &pooled;
        }
        const bool full = alike >= most_own_streams;
        if (best != nullptr && (best->users == 0 || full)) {
          ++best->users;
          own = best->own;
          return false;
        }
        if (!full) {
          streams_.push_back({wanted, 1});
          return true;
        }
      }
      came_.wait_beyond(seen, std::nullopt);
    }
  }
  // With a stream, or without where the driver refused one.
  void made(const OwnStream& own) noexcept {
    {
      const std::lock_guard lock(mutex_);
      const auto coming = std::find_if(streams_.begin(), streams_.end(), [&](const Pooled& pooled) {
        return pooled.own.stream == nullptr && pooled.own.is_like(own);
      });
      if (own.stream != nullptr) {
        coming->own.stream = own.stream;
      } else {
        streams_.erase(coming);
      }
    }
    came_.advance();
  }

  std::mutex mutex_;
  std::vector<Pooled> streams_;
  base::EventCount came_;
};

StreamPool& stream_pool() {
  static base::NeverDestroyed<StreamPool> pool;
  return pool.get();
}

// What a thread has. It has no destructor: transfers of the thread's last destructors and of exit handlers still look
// at it. A thread that is ending gives the stream back after each use.
struct ThreadStream {
  OwnStream own;
  bool ending = false;
  bool urgent = false;
};
constinit thread_local ThreadStream thread_stream;

void give_stream_back() noexcept {
  stream_pool().give_back(std::exchange(thread_stream.own, {}));
}

constinit base::ThreadEnd thread_end{[](void*) {
  thread_stream.ending = true;
  give_stream_back();
}};

// The calling thread's stream in the current context, made when there is none.
cuda::Result own_stream(const CudaApi& driver, cuda::Context context, unsigned long long id, cuda::Stream& stream) {
  OwnStream& own = thread_stream.own;
  const bool urgent = thread_stream.urgent;
  if (!own.serves(context, id, urgent)) {
    thread_end.arm();
    give_stream_back();
    const auto make = [&](cuda::Stream& made) {
      const cuda::Result result =
          urgent ? make_urgent_stream(driver, made) : driver.stream_create(&made, cuda::stream_non_blocking);
      if (result != cuda::success) made = nullptr;
      return result;
    };
    const cuda::Result result = stream_pool().take({context, id, nullptr, urgent}, own, make);
    if (result != cuda::success) return result;
  }
  stream = own.stream;
  return cuda::success;
}

std::array<std::atomic<cuda::Context>, max_devices> retained{};

// Memory that no context owns (VMM, pools) is worked on in its device's primary context, which is kept from then on.
cuda::Result primary_context(const CudaApi& driver, int ordinal, cuda::Context& context) {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= max_devices) return cuda::error_invalid_device;
  auto& slot = retained[static_cast<std::size_t>(ordinal)];
  context = slot.load(std::memory_order_acquire);
  if (context != nullptr) return cuda::success;
  cuda::Device device = 0;
  if (const cuda::Result result = driver.device_get(&device, ordinal); result != cuda::success) return result;
  if (const cuda::Result result = driver.primary_retain(&context, device); result != cuda::success) return result;
  cuda::Context none = nullptr;
  // Two threads may both have retained it: the count of the second is given back.
  if (!slot.compare_exchange_strong(none, context)) driver.primary_release(device);
  return cuda::success;
}

// The context to work in: the one that owns the memory, else the current one when it is on the right device.
cuda::Result choose_context(const CudaApi& driver, const facts::BufferFacts& memory, cuda::Context current,
                            cuda::Context& context) {
  context = static_cast<cuda::Context>(memory.context);
  if (context != nullptr) return cuda::success;
  cuda::Device device = -1;
  cuda::Device wanted = 0;
  if (current != nullptr && driver.ctx_get_device(&device) == cuda::success &&
      driver.device_get(&wanted, memory.device) == cuda::success && device == wanted) {
    context = current;
    return cuda::success;
  }
  return primary_context(driver, memory.device, context);
}

}  // namespace

void serve_waiting_streams() noexcept {
  thread_stream.urgent = true;
}

bool serves_waiting_streams() noexcept {
  return thread_stream.urgent;
}

UrgentCopies::UrgentCopies(bool wanted) noexcept : before_(thread_stream.urgent) {
  thread_stream.urgent = before_ || wanted;
}

UrgentCopies::~UrgentCopies() {
  thread_stream.urgent = before_;
}

Session::Session(const facts::BufferFacts& memory) noexcept : driver_(gpu::driver()) {
  if (driver_ == nullptr) {
    status_ = cuda::error_not_initialized;
    return;
  }
  // Relaxed: a capture that this thread has under way elsewhere neither forbids our calls nor is broken by them.
  mode_changed_ = driver_->exchange_capture_mode(&capture_mode_) == cuda::success;
  cuda::Context current = nullptr;
  driver_->ctx_get_current(&current);
  status_ = choose_context(*driver_, memory, current, context_);
  if (status_ == cuda::success && context_ != current) {
    status_ = driver_->ctx_push(context_);
    pushed_ = status_ == cuda::success;
  }
  if (status_ != cuda::success) return;
  if (driver_->ctx_get_id != nullptr) status_ = driver_->ctx_get_id(context_, &context_id_);
  if (status_ != cuda::success) return;
  took_long_ = !thread_stream.own.serves(context_, context_id_, thread_stream.urgent);
  try {
    status_ = own_stream(*driver_, context_, context_id_, stream_);
  } catch (...) {
    status_ = cuda::error_out_of_memory;
  }
}

Session::~Session() {
  if (driver_ == nullptr) return;
  if (thread_stream.ending) give_stream_back();
  if (pushed_) {
    cuda::Context popped = nullptr;
    driver_->ctx_pop(&popped);
  }
  if (mode_changed_) driver_->exchange_capture_mode(&capture_mode_);
}

// Memory and context may have gone since they were looked up, as reading the file can take any time. A context takes
// our stream with it, and drivers crash on such a stream; they do know that the memory is gone. What is left is the
// moment between the question and the copy.
bool Session::still_there(cuda::DevicePtr at) const noexcept {
  unsigned type = 0;
  cuda::Context owner = nullptr;
  std::array<int, 2> attributes{cuda::pointer_attribute_memory_type, cuda::pointer_attribute_context};
  std::array<void*, 2> values{&type, &owner};
  return driver_->pointer_get_attributes(static_cast<unsigned>(attributes.size()), attributes.data(), values.data(),
                                         at) == cuda::success &&
         type != 0 && (owner == nullptr || owner == context_);
}

cuda::Result Session::health(cuda::DevicePtr at) const noexcept {
  if (!still_there(at)) return cuda::error_invalid_value;
  const cuda::Result result = driver_->stream_query(stream_);
  return result == cuda::error_not_ready ? cuda::success : result;
}

// After a refusal, too, nothing of ours is in flight.
cuda::Result Session::begin_copy_to_device(cuda::DevicePtr to, std::span<const std::byte> from) noexcept {
  if (!still_there(to)) return cuda::error_invalid_value;
  const cuda::Result result = gpu::copy_to_device(*driver_, to, from, stream_, thread_stream.urgent);
  if (result != cuda::success) finish();
  return result;
}

cuda::Result Session::begin_copy_from_device(std::span<std::byte> to, cuda::DevicePtr from, Asked memory) noexcept {
  if (memory != Asked::just_now && !still_there(from)) return cuda::error_invalid_value;
  const cuda::Result result = driver_->memcpy_dtoh_async(to.data(), from, to.size(), stream_);
  if (result != cuda::success) finish();
  return result;
}

cuda::Result Session::mark(cuda::DevicePtr word, std::uint32_t value) noexcept {
  if (driver_->stream_write_value_32 == nullptr) return cuda::error_not_supported;
  return driver_->stream_write_value_32(stream_, word, value, cuda::write_value_default);
}

cuda::Result Session::finish() noexcept {
  return driver_->stream_synchronize(stream_);
}

cuda::Result Session::copy_to_device(cuda::DevicePtr to, std::span<const std::byte> from) noexcept {
  const cuda::Result begun = begin_copy_to_device(to, from);
  return begun == cuda::success ? finish() : begun;
}

cuda::Result Session::copy_from_device(std::span<std::byte> to, cuda::DevicePtr from) noexcept {
  const cuda::Result begun = begin_copy_from_device(to, from);
  return begun == cuda::success ? finish() : begun;
}

cuda::Result Session::copy_to_device_plainly(cuda::DevicePtr to, std::span<const std::byte> from) noexcept {
  return driver_->memcpy_htod(to, from.data(), from.size());
}

cuda::Result Session::copy_from_device_plainly(std::span<std::byte> to, cuda::DevicePtr from) noexcept {
  return driver_->memcpy_dtoh(to.data(), from, to.size());
}

std::size_t own_stream_count() noexcept {
  return stream_pool().count();
}

void streams_before_fork() noexcept {
  stream_pool().before_fork();
}

void streams_after_fork() noexcept {
  stream_pool().after_fork();
}

cuda::Result wait_for_stream(cuda::Stream stream) noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr) return cuda::error_not_initialized;
  int capturing = cuda::capture_none;
  const cuda::Result asked = driver->stream_is_capturing(stream, &capturing);
  // Asked about the legacy stream while another one is captured, the driver answers with one of capture's errors.
  const bool capture_error =
      asked >= cuda::error_stream_capture_unsupported && asked <= cuda::error_stream_capture_wrong_thread;
  if (capture_error || capturing != cuda::capture_none) return cuda::error_stream_capture_unsupported;
  if (asked != cuda::success) return asked;
  return driver->stream_synchronize(stream);
}

unsigned long long stream_number(cuda::Stream stream) noexcept {
  unsigned long long number = 0;
  const CudaApi* const driver = gpu::driver();
  if (driver != nullptr && driver->stream_get_id != nullptr &&
      driver->stream_get_id(stream, &number) == cuda::success) {
    return number;
  }
  return reinterpret_cast<unsigned long long>(stream);
}

}  // namespace sluice::gpu
