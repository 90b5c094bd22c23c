// SPDX-License-Identifier: Apache-2.0
// The twin of src/gpu/kernels/serve.cu: one thread that looks at one mailbox after the other.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

#include "gpu/kernel_protocol.h"
#include "kernels.h"
#include "twins.h"

namespace sluice::softgpu::twin {

namespace {

// The parameters, in the kernel's order.
struct ServeArguments {
  explicit ServeArguments(const Launch& launch)
      : boxes(launch.parameter<std::uint64_t>(0)),
        low(launch.parameter<std::uint64_t>(1)),
        high(launch.parameter<std::uint64_t>(2)),
        stride(launch.parameter<std::uint32_t>(3)),
        data(launch.parameter<std::uint32_t>(4)),
        launch_id(launch.parameter<std::uint32_t>(5)),
        idle(launch.parameter<std::uint32_t>(6)),
        life(launch.parameter<std::uint32_t>(7)) {}

  std::uint64_t boxes, low, high;
  std::uint32_t stride, data, launch_id, idle, life;
};

std::uint64_t nanoseconds_now() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

// What one block does.
class ServedBox {
 public:
  ServedBox(const Launch& launch, const ServeArguments& given, std::uint64_t block)
      : launch_(&launch),
        given_(&given),
        box_(given.boxes + ((block < 8 ? given.low : given.high) >> (block % 8 * 8) & 255U) * given.stride),
        request_{word<std::uint64_t>(0), word<std::uint64_t>(sizeof(std::uint64_t))},
        answer_(word<std::uint64_t>(offsetof(gpu::MailboxWords, answer))),
        born_(nanoseconds_now()),
        since_(born_) {
    std::atomic_ref(*word<std::uint32_t>(offsetof(gpu::MailboxWords, begun)))
        .store(given.launch_id, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  // One look. False: it has left.
  bool serve() {
    const std::uint64_t now = nanoseconds_now();
    const bool leaving = now - since_ >= given_->idle || now - born_ >= given_->life;
    const std::uint64_t where = std::atomic_ref(*request_[0]).load(std::memory_order_acquire);
    const gpu::MailboxRequest seen{where, std::atomic_ref(*request_[1]).load(std::memory_order_acquire)};
    const bool fresh = seen.is_whole() && seen.number() != last_;
    if (fresh) {
      const std::uint64_t target = seen.target();
      if (seen.length() > 0) launch_->copy(target, box_ + given_->data + target % 16, seen.length());
      last_ = seen.number();
    }
    if (fresh || leaving) {
      std::atomic_ref(*answer_).store(gpu::mailbox_answer(leaving ? given_->launch_id : 0, last_),
                                      std::memory_order_release);
      since_ = nanoseconds_now();
    }
    return !leaving;
  }

 private:
  template <typename Word>
  Word* word(std::uint64_t offset) const {
    return reinterpret_cast<Word*>(launch_->reach(box_ + offset, sizeof(Word)));
  }

  const Launch* launch_;
  const ServeArguments* given_;
  std::uint64_t box_;
  std::uint64_t* request_[2];
  std::uint64_t* answer_;
  std::uint32_t last_ = 0;
  std::uint64_t born_;
  std::uint64_t since_;
};

}  // namespace

void serve(const Launch& launch) {
  const ServeArguments given(launch);
  std::vector<ServedBox> boxes;
  for (std::uint64_t block = 0; block < launch.grid().x; ++block) boxes.emplace_back(launch, given, block);
  while (!boxes.empty() && !launch.ended()) {
    std::erase_if(boxes, [](ServedBox& box) { return !box.serve(); });
    std::this_thread::yield();
  }
}

}  // namespace sluice::softgpu::twin
