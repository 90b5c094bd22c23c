// Being a guest in somebody's CUDA program: the right context for as long as we need it, our own stream, and the
// thread left as it was.
#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "gpu/memory.h"

namespace sluice::gpu {

namespace {

struct OwnStream {
  cuda::Context context = nullptr;
  unsigned long long context_id = 0;  // tells a new context at an old address; 0 with drivers that have no ids
  cuda::Stream stream = nullptr;

  bool serves(cuda::Context wanted, unsigned long long id) const noexcept {
    return stream != nullptr && context == wanted && context_id == id;
  }
};

// Streams whose threads have ended, for the next thread. None is ever destroyed: at exit the driver may be gone, and
// a stream of a destroyed context is gone with it. There are as many as there were threads at once.
class StreamPool {
 public:
  OwnStream take(cuda::Context context, unsigned long long id) {
    const std::lock_guard lock(mutex_);
    for (OwnStream& candidate : idle_) {
      if (candidate.serves(context, id)) {
        std::swap(candidate, idle_.back());
        const OwnStream found = idle_.back();
        idle_.pop_back();
        return found;
      }
    }
    return {};
  }
  void give_back(OwnStream stream) {
    if (stream.stream == nullptr) return;
    const std::lock_guard lock(mutex_);
    idle_.push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::vector<OwnStream> idle_;
};

StreamPool& stream_pool() {
  static auto* const pool = new StreamPool;
  return *pool;
}

struct ThreadStream {
  OwnStream own;
  ThreadStream() = default;
  ThreadStream(const ThreadStream&) = delete;
  ThreadStream& operator=(const ThreadStream&) = delete;
  ~ThreadStream() {
    try {
      stream_pool().give_back(own);
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to remember one stream: it is leaked
    }
  }
};

thread_local ThreadStream thread_stream;

// The calling thread's stream in the current context, made when there is none.
int own_stream(const Driver& driver, cuda::Context context, cuda::Stream& stream) {
  unsigned long long id = 0;
  if (driver.ctx_get_id != nullptr) driver.ctx_get_id(context, &id);
  OwnStream& own = thread_stream.own;
  if (!own.serves(context, id)) {
    stream_pool().give_back(std::exchange(own, {}));
    own = stream_pool().take(context, id);
    if (own.stream == nullptr) {
      cuda::Stream made = nullptr;
      const int result = driver.stream_create(&made, cuda::stream_non_blocking);
      if (result != cuda::success) return result;
      own = {context, id, made};
    }
  }
  stream = own.stream;
  return cuda::success;
}

constexpr std::size_t max_devices = 64;
std::array<std::atomic<cuda::Context>, max_devices> retained{};

// Memory that no context owns (VMM, pools) is worked on in its device's primary context, which is kept from then on.
int primary_context(const Driver& driver, int ordinal, cuda::Context& context) {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= max_devices) return cuda::error_invalid_device;
  auto& slot = retained[static_cast<std::size_t>(ordinal)];
  context = slot.load(std::memory_order_acquire);
  if (context != nullptr) return cuda::success;
  cuda::Device device = 0;
  if (const int result = driver.device_get(&device, ordinal); result != cuda::success) return result;
  if (const int result = driver.primary_retain(&context, device); result != cuda::success) return result;
  cuda::Context none = nullptr;
  // Two threads may both have retained it: the count of the second is given back.
  if (!slot.compare_exchange_strong(none, context)) driver.primary_release(device);
  return cuda::success;
}

// The context to work in: the one that owns the memory, else the current one when it is on the right device.
int choose_context(const Driver& driver, const facts::BufferFacts& memory, cuda::Context current,
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

Session::Session(const facts::BufferFacts& memory) noexcept : driver_(gpu::driver()) {
  if (driver_ == nullptr) {
    status_ = cuda::error_not_initialized;
    return;
  }
  // Relaxed: a capture that this thread has under way elsewhere neither forbids our calls nor is broken by them.
  mode_changed_ = driver_->exchange_capture_mode(&capture_mode_) == cuda::success;
  cuda::Context current = nullptr;
  driver_->ctx_get_current(&current);
  cuda::Context context = nullptr;
  status_ = choose_context(*driver_, memory, current, context);
  if (status_ == cuda::success && context != current) {
    status_ = driver_->ctx_push(context);
    pushed_ = status_ == cuda::success;
  }
  if (status_ != cuda::success) return;
  try {
    status_ = own_stream(*driver_, context, stream_);
  } catch (...) {
    status_ = cuda::error_out_of_memory;
  }
}

Session::~Session() {
  if (driver_ == nullptr) return;
  if (pushed_) {
    cuda::Context popped = nullptr;
    driver_->ctx_pop(&popped);
  }
  if (mode_changed_) driver_->exchange_capture_mode(&capture_mode_);
}

int Session::copy_to_device(cuda::DevicePtr to, std::span<const std::byte> from) noexcept {
  const int result = driver_->memcpy_htod_async(to, from.data(), from.size(), stream_);
  // Waiting also after a refusal: nothing of ours is in flight when this returns.
  const int waited = driver_->stream_synchronize(stream_);
  return result != cuda::success ? result : waited;
}

int Session::copy_from_device(std::span<std::byte> to, cuda::DevicePtr from) noexcept {
  const int result = driver_->memcpy_dtoh_async(to.data(), from, to.size(), stream_);
  const int waited = driver_->stream_synchronize(stream_);
  return result != cuda::success ? result : waited;
}

int Session::copy_to_device_plainly(cuda::DevicePtr to, std::span<const std::byte> from) noexcept {
  return driver_->memcpy_htod(to, from.data(), from.size());
}

int Session::copy_from_device_plainly(std::span<std::byte> to, cuda::DevicePtr from) noexcept {
  return driver_->memcpy_dtoh(to.data(), from, to.size());
}

int wait_for_stream(cuda::Stream stream) noexcept {
  const Driver* const driver = gpu::driver();
  if (driver == nullptr) return cuda::error_not_initialized;
  int capturing = cuda::capture_none;
  const int asked = driver->stream_is_capturing(stream, &capturing);
  if (asked != cuda::success || capturing != cuda::capture_none) return cuda::error_stream_capture_unsupported;
  return driver->stream_synchronize(stream);
}

unsigned long long stream_number(cuda::Stream stream) noexcept {
  unsigned long long number = 0;
  const Driver* const driver = gpu::driver();
  if (driver != nullptr && driver->stream_get_id != nullptr &&
      driver->stream_get_id(stream, &number) == cuda::success) {
    return number;
  }
  return reinterpret_cast<unsigned long long>(stream);
}

}  // namespace sluice::gpu
