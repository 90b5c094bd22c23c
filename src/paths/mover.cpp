// Device memory by the driver, host memory by the kernel.
#include "paths/mover.h"

#include "engine/host_copy.h"

namespace sluice::paths {

using base::Outcome;

namespace {

Outcome answer(int result, std::size_t size) noexcept {
  return result == cuda::success ? Outcome::bytes(size) : gpu::as_outcome(result);
}

}  // namespace

Mover::Mover(const facts::BufferFacts& memory, Manner manner, engine::Slab& slab) noexcept : manner_(manner) {
  if (facts::is_host(memory.kind)) return;
  session_.emplace(memory);
  if (session_->status() == cuda::success && manner != Manner::plain) slab.pin();
}

Outcome Mover::to_memory(std::uint64_t address, std::span<const std::byte> from) noexcept {
  if (!session_) return engine::copy_to_caller(address, from);
  if (session_->status() != cuda::success) return gpu::as_outcome(session_->status());
  return answer(manner_ == Manner::plain ? session_->copy_to_device_plainly(address, from)
                                         : session_->copy_to_device(address, from),
                from.size());
}

Outcome Mover::from_memory(std::span<std::byte> to, std::uint64_t address) noexcept {
  if (!session_) return engine::copy_from_caller(to, address);
  if (session_->status() != cuda::success) return gpu::as_outcome(session_->status());
  return answer(manner_ == Manner::plain ? session_->copy_from_device_plainly(to, address)
                                         : session_->copy_from_device(to, address),
                to.size());
}

}  // namespace sluice::paths
