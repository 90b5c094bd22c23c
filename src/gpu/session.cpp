// SPDX-License-Identifier: Apache-2.0
// Being a guest in a CUDA program: the right context for as long as we need it, our own stream, and the
// thread left as it was.
#include "gpu/session.h"

#include <array>
#include <atomic>
#include <utility>

#include "base/thread_end.h"
#include "gpu/engine_copy.h"
#include "gpu/memory.h"

namespace sluice::gpu {

namespace {

// What a thread has. It has no destructor: transfers of the thread's last destructors and of exit handlers still look
// at it. A thread that is ending gives the stream back after each use.
struct ThreadStream {
  OwnStream own;
  bool ending = false;
  StreamKind kind = StreamKind::usual;
};
constinit thread_local ThreadStream thread_stream;

void give_own_back() noexcept {
  give_back_stream(std::exchange(thread_stream.own, {}));
}

constinit base::ThreadEnd thread_end{[](void*) {
  thread_stream.ending = true;
  give_own_back();
}};

// The calling thread's stream in the current context, taken when it has none.
cuda::Result own_stream(cuda::Context context, unsigned long long id, cuda::Stream& stream) noexcept {
  OwnStream& own = thread_stream.own;
  if (!own.serves(context, id, thread_stream.kind) || (own.is_makeshift && may_do_better(own))) {
    thread_end.arm();
    give_own_back();
    OwnStream wanted{context, id, thread_stream.kind};
    const cuda::Result result = take_stream(wanted, StreamWish::shared);
    if (result != cuda::success) return result;
    own = wanted;
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
  thread_stream.kind = StreamKind::urgent;
}

bool serves_waiting_streams() noexcept {
  return thread_stream.kind == StreamKind::urgent;
}

UrgentCopies::UrgentCopies(bool wanted) noexcept : before_(thread_stream.kind) {
  if (wanted) thread_stream.kind = StreamKind::urgent;
}

UrgentCopies::~UrgentCopies() {
  thread_stream.kind = before_;
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
  took_long_ = !thread_stream.own.serves(context_, context_id_, thread_stream.kind);
  status_ = own_stream(context_, context_id_, stream_);
}

Session::~Session() {
  if (driver_ == nullptr) return;
  if (thread_stream.ending) give_own_back();
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
  const cuda::Result result = gpu::copy_to_device(*driver_, to, from, stream_, serves_waiting_streams());
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
