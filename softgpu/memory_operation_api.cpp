// SPDX-License-Identifier: Apache-2.0
// Entry points that make a stream write a value to memory, or wait until memory has one.
#include <time.h>  // NOLINT(modernize-deprecated-headers): nanosleep is POSIX

#include <algorithm>
#include <span>

#include "answer.h"
#include "entry_points.h"
#include "machine.h"
#include "place.h"
#include "stream_use.h"

namespace sluice::softgpu {

namespace {

enum class Width : unsigned { bits_32 = 4, bits_64 = 8 };

struct Word {
  Place place;
  Width width;

  void* address() const { return place.pieces.front().bytes; }
  // Acquire and release: what was written before the value is seen by a thread that saw the value.
  std::uint64_t load() const {
    if (width == Width::bits_32) return __atomic_load_n(static_cast<std::uint32_t*>(address()), __ATOMIC_ACQUIRE);
    return __atomic_load_n(static_cast<std::uint64_t*>(address()), __ATOMIC_ACQUIRE);
  }
  void store(std::uint64_t value) const {
    if (width == Width::bits_32) {
      __atomic_store_n(static_cast<std::uint32_t*>(address()), static_cast<std::uint32_t>(value), __ATOMIC_RELEASE);
    } else {
      __atomic_store_n(static_cast<std::uint64_t*>(address()), value, __ATOMIC_RELEASE);
    }
  }
};

Word word_at(Ptr address, Width width) {
  const auto bytes = static_cast<std::uint64_t>(width);
  require(address % bytes == 0);
  return {device_place(address, bytes), width};
}

bool satisfied(std::uint64_t seen, std::uint64_t value, unsigned condition, Width width) {
  if (width == Width::bits_32) {  // as 64 bits, in the upper half, so that signs and complements come out right
    seen <<= 32U;
    value <<= 32U;
  }
  const std::uint64_t low = width == Width::bits_32 ? 0xffffffffU : 0;
  switch (condition) {
    case cuda::wait_value_geq:  // cyclic: the difference is not negative
      return static_cast<std::int64_t>(seen - value) >= 0;
    case cuda::wait_value_eq:
      return seen == value;
    case cuda::wait_value_and:
      return (seen & value) != 0;
    default:  // nor
      return ~(seen | value | low) != 0;
  }
}

// The value may be written by any thread or device, the host included, without a sign to us: so this looks again and
// again, at first eagerly, then less and less often, so that a stream that waits for long costs little.
void wait_for_value(const Word& word, std::uint64_t value, unsigned condition, const Health& health) {
  constexpr int eager_looks = 1000;
  constexpr long first_pause_ns = 2000;
  constexpr long longest_pause_ns = 200000;
  long pause = first_pause_ns;
  for (int look = 0; !satisfied(word.load(), value, condition, word.width) && !health.broken(); ++look) {
    if (look < eager_looks) continue;
    const timespec time{0, pause};
    ::nanosleep(&time, nullptr);
    pause = std::min(pause * 2, longest_pause_ns);
  }
}

void submit_wait(const StreamUse& use, Ptr address, std::uint64_t value, unsigned flags, Width width) {
  require((flags & cuda::wait_value_flush) == 0, cuda::error_not_supported);
  require(flags <= cuda::wait_value_nor);
  // The health outlives the operation: the operation itself holds it.
  use.submit([word = word_at(address, width), value, flags, health = use.workspace->shared_health()] {
    wait_for_value(word, value, flags, *health);
  });
}

void submit_write(const StreamUse& use, Ptr address, std::uint64_t value, unsigned flags, Width width) {
  require(flags == 0);  // also for write_value_no_memory_barrier, which this form of the call does not take
  use.submit([word = word_at(address, width), value] { word.store(value); }, {}, Queue::as_before);
}

cuda::Result wait(const char* name, cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags,
                  Width width) {
  return answer(name, [&] { submit_wait(use_stream(stream), address, value, flags, width); });
}

cuda::Result write(const char* name, cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags,
                   Width width) {
  return answer(name, [&] { submit_write(use_stream(stream), address, value, flags, width); });
}

// Holds the stream until all of a call is in it.
class AllAtOnce {
 public:
  explicit AllAtOnce(const StreamUse& use) {
    if (machine().knobs.queues_for_all == 0 || use.captured()) return;
    all_in_ = std::make_shared<Completion>();
    use.submit([all_in = all_in_] { all_in->wait(); });
  }
  ~AllAtOnce() {
    if (all_in_ != nullptr) all_in_->mark();
  }
  AllAtOnce(const AllAtOnce&) = delete;
  AllAtOnce& operator=(const AllAtOnce&) = delete;

 private:
  std::shared_ptr<Completion> all_in_;
};

cuda::Result batch(const char* name, cuda::Stream stream, unsigned count, const cuda::BatchMemoryOperation* operations,
                   unsigned flags) {
  constexpr unsigned most = 256;
  return answer(name, [&] {
    require(operations != nullptr && count <= most && flags == 0);
    const StreamUse use = use_stream(stream);
    // The stream does not come to rest in between, and so stays in one queue.
    const AllAtOnce together(use);
    for (const auto& operation : std::span(operations, count)) {
      const std::uint64_t low = operation.value & 0xffffffffU;
      switch (operation.operation) {
        case cuda::batch_wait_value_32:
          submit_wait(use, operation.address, low, operation.flags, Width::bits_32);
          break;
        case cuda::batch_write_value_32:
          submit_write(use, operation.address, low, operation.flags, Width::bits_32);
          break;
        case cuda::batch_wait_value_64:
          submit_wait(use, operation.address, operation.value, operation.flags, Width::bits_64);
          break;
        case cuda::batch_write_value_64:
          submit_write(use, operation.address, operation.value, operation.flags, Width::bits_64);
          break;
        case cuda::batch_barrier:
          break;  // every operation here is ordered behind the one before it
        case cuda::batch_flush_remote_writes:
          throw Refusal(cuda::error_not_supported);
        default:
          throw Refusal(cuda::error_invalid_value);
      }
    }
  });
}

}  // namespace

cuda::Result cuStreamWaitValue32(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return wait(__func__, stream, address, value, flags, Width::bits_32);
}

cuda::Result cuStreamWaitValue32_v2(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return wait(__func__, stream, address, value, flags, Width::bits_32);
}

cuda::Result cuStreamWaitValue64(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return wait(__func__, stream, address, value, flags, Width::bits_64);
}

cuda::Result cuStreamWaitValue64_v2(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return wait(__func__, stream, address, value, flags, Width::bits_64);
}

cuda::Result cuStreamWriteValue32(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return write(__func__, stream, address, value, flags, Width::bits_32);
}

cuda::Result cuStreamWriteValue32_v2(cuda::Stream stream, Ptr address, std::uint32_t value, unsigned flags) {
  return write(__func__, stream, address, value, flags, Width::bits_32);
}

cuda::Result cuStreamWriteValue64(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return write(__func__, stream, address, value, flags, Width::bits_64);
}

cuda::Result cuStreamWriteValue64_v2(cuda::Stream stream, Ptr address, std::uint64_t value, unsigned flags) {
  return write(__func__, stream, address, value, flags, Width::bits_64);
}

cuda::Result cuStreamBatchMemOp(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                unsigned flags) {
  return batch(__func__, stream, count, operations, flags);
}

cuda::Result cuStreamBatchMemOp_v2(cuda::Stream stream, unsigned count, cuda::BatchMemoryOperation* operations,
                                   unsigned flags) {
  return batch(__func__, stream, count, operations, flags);
}

}  // namespace sluice::softgpu
