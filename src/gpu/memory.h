// What the driver knows of an address, and working on the context that the address belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/outcome.h"
#include "facts/buffer.h"
#include "gpu/cuda_api.h"

namespace sluice::gpu {

// Looks one address up: one driver call, about 0.1 µs. Without a driver, and for addresses that it has never heard
// of: plain host memory.
facts::BufferFacts inspect(std::uint64_t address) noexcept;

// How many bytes from `address` on are device memory without a gap, counting adjacent mappings, up to `wanted`.
std::uint64_t contiguous_bytes(std::uint64_t address, std::uint64_t wanted) noexcept;

// Of device memory that inspect() knows: once it is free, will its last users have been waited for, or come before that
// in a stream? So it is with all but mappings (cuMemMap), which go when the program says so.
bool outlives_its_streams(const facts::BufferFacts& memory) noexcept;

// The facts that memory of device `ordinal` will have; kind plain_host when there is no such device.
facts::BufferFacts memory_of_device(int ordinal) noexcept;

// The 16 bytes that name a device; zeros when they cannot be had.
cuda::Uuid uuid_of(int ordinal) noexcept;

// Where a device sits on the PCI bus, "0000:3B:00.0"; empty when it cannot be had.
std::string pci_address(int ordinal);

// When the driver was asked last whether it knows the memory that is to be copied.
enum class Asked : std::uint8_t { just_now, a_while_ago };

// From now on this thread's sessions copy on urgent streams: for threads that do nothing but what streams wait for.
void serve_waiting_streams() noexcept;
bool serves_waiting_streams() noexcept;

// The context of some memory made current on this thread, with a stream of ours that waits for nobody's legacy
// stream; what was current before comes back in the end. Capture modes of the caller are left in peace. Cheap: the
// stream is the thread's own and is kept.
class Session {
 public:
  explicit Session(const facts::BufferFacts& memory) noexcept;
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // success, or why nothing can be copied.
  int status() const noexcept { return status_; }

  // The thread had no stream in that context yet.
  bool took_long() const noexcept { return took_long_; }

  // What is current while this lives. The id tells a new context at an old address; 0 with drivers without ids.
  cuda::Context context() const noexcept { return context_; }
  unsigned long long context_id() const noexcept { return context_id_; }

  // Both return when the bytes are in place.
  int copy_to_device(cuda::DevicePtr to, std::span<const std::byte> from) noexcept;
  int copy_from_device(std::span<std::byte> to, cuda::DevicePtr from) noexcept;
  // The same in two steps, for a caller that has a better way to wait than the driver's: a word that the device writes
  // behind the copies so far. finish() waits for all of them; where nothing has begun there is nothing to wait for.
  int begin_copy_to_device(cuda::DevicePtr to, std::span<const std::byte> from) noexcept;
  int begin_copy_from_device(std::span<std::byte> to, cuda::DevicePtr from, Asked memory = Asked::a_while_ago) noexcept;
  int mark(cuda::DevicePtr word, std::uint32_t value) noexcept;
  int finish() noexcept;
  // The same by the driver's plainest call, on pageable memory.
  int copy_to_device_plainly(cuda::DevicePtr to, std::span<const std::byte> from) noexcept;
  int copy_from_device_plainly(std::span<std::byte> to, cuda::DevicePtr from) noexcept;

  // Just now, the driver still knows memory of this context there. The copies above ask by themselves, unless told that
  // this has just been done.
  bool still_there(cuda::DevicePtr at) const noexcept;
  // For long waits for a kernel that writes there: has the device, or the memory, died on us? success: neither.
  int health(cuda::DevicePtr at) const noexcept;

 private:
  const CudaApi* driver_;
  cuda::Context context_ = nullptr;
  unsigned long long context_id_ = 0;
  cuda::Stream stream_ = nullptr;
  int capture_mode_ = cuda::capture_relaxed;
  bool mode_changed_ = false;
  bool pushed_ = false;
  bool took_long_ = false;
  int status_ = cuda::success;
};

// Waits for everything that was given to a stream before. cuda::error_stream_capture_unsupported when the stream is
// being captured into a graph: then nothing was waited for and the capture is intact.
int wait_for_stream(cuda::Stream stream) noexcept;

// The number that no other stream of this process ever has; the handle itself with drivers that have no such number.
unsigned long long stream_number(cuda::Stream stream) noexcept;

// Around fork: no child inherits the pool of our streams locked.
void streams_before_fork() noexcept;
void streams_after_fork() noexcept;

// A CUDA refusal as the I/O path reports it.
base::Outcome as_outcome(int result) noexcept;

}  // namespace sluice::gpu
