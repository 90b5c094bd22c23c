// SPDX-License-Identifier: Apache-2.0
// None is ever destroyed: at exit the driver may be gone, and a stream of a destroyed context is gone with it.
#include "gpu/own_streams.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

#include "base/event_count.h"
#include "base/never_destroyed.h"
#include "gpu/loading.h"
#include "gpu/stream_waits.h"

namespace sluice::gpu {

namespace {

// What is made ahead of each kind, and how much of that is kept for staging buffers: a context has eight, each with a
// usual one for its kernels, and an urgent one for its copies, if it cannot have another. On an H200 a stream takes
// half a megabyte of device memory.
constexpr std::size_t kept_ahead = 8;
constexpr std::size_t most_ahead = 12;

// An urgent one comes before others, where the driver has priorities.
cuda::Result make_stream(const CudaApi& driver, StreamKind kind, cuda::Stream& stream) noexcept {
  int least = 0;
  int greatest = 0;
  const bool has_priority = kind == StreamKind::urgent && driver.stream_create_with_priority != nullptr &&
                            driver.stream_priority_range != nullptr &&
                            driver.stream_priority_range(&least, &greatest) == cuda::success;
  const cuda::Result result = has_priority
                                  ? driver.stream_create_with_priority(&stream, cuda::stream_non_blocking, greatest)
                                  : driver.stream_create(&stream, cuda::stream_non_blocking);
  if (result != cuda::success) stream = nullptr;
  return result;
}

class StreamPool {
 public:
  cuda::Result take(const CudaApi& driver, StreamWaits& waits, OwnStream& own, StreamWish wish) {
    for (;;) {
      const std::uint32_t seen = news_.now();
      {
        const StreamWaits::Coming one(waits);
        switch (look_for(own, wish, waits.any())) {
          case Found::there:
            return cuda::success;
          case Found::none:
            return cuda::error_not_ready;
          case Found::to_be_made:
            return make(driver, own, {own.kind, wish, false});
          case Found::soon:
            break;
        }
      }
      news_.wait_beyond(seen, std::nullopt);
    }
  }

  void give_back(const OwnStream& own) noexcept {
    const std::lock_guard lock(mutex_);
    for (Pooled& pooled : of(own)) {
      if (pooled.stream == own.stream) --pooled.users;
    }
  }

  // False: there are enough, or none may be made, or the driver refuses.
  bool make_ahead(const CudaApi& driver, StreamWaits& waits, OwnStream own) {
    const StreamWaits::Coming one(waits);
    if (waits.any()) return false;
    const Sort sort{own.kind, StreamWish::alone, true};
    {
      const std::lock_guard lock(mutex_);
      std::vector<Pooled>& all = of(own);
      if (made_ahead(all, own.kind) >= most_ahead) return false;
      all.push_back({.sort = sort, .stream = nullptr, .users = 0});
    }
    return make(driver, own, sort) == cuda::success;
  }

  std::size_t size() noexcept {
    const std::lock_guard lock(mutex_);
    return std::accumulate(contexts_.begin(), contexts_.end(), std::size_t{0},
                           [](std::size_t sum, const OfContext& of) { return sum + of.streams.size(); });
  }

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  struct Sort {
    StreamKind kind;
    StreamWish wish;  // of those that have it
    bool is_ahead;    // and none has had it
    bool operator==(const Sort&) const = default;
  };
  struct Pooled {
    Sort sort;
    cuda::Stream stream;  // null while it is being made, outside of the lock
    unsigned users;
  };
  struct OfContext {
    cuda::Context context;
    unsigned long long context_id;
    std::vector<Pooled> streams;
  };
  enum class Found : std::uint8_t { there, none, soon, to_be_made };

  // With the lock.
  std::vector<Pooled>& of(const OwnStream& own) {
    const auto known = std::find_if(contexts_.rbegin(), contexts_.rend(), [&](const OfContext& one) {
      return one.context == own.context && one.context_id == own.context_id;
    });
    if (known != contexts_.rend()) return known->streams;
    return contexts_.emplace_back(OfContext{own.context, own.context_id, {}}).streams;
  }
  template <typename Fits>
  static std::size_t count(const std::vector<Pooled>& all, const Fits& fits) {
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [&](const Pooled& pooled) { return fits(pooled.sort); }));
  }
  static std::size_t made_ahead(const std::vector<Pooled>& all, StreamKind kind) {
    return count(all, [kind](const Sort& sort) { return sort.kind == kind && sort.is_ahead; });
  }
  // The one that fewest have of those that fit.
  template <typename Fits>
  static Pooled* least_used(std::vector<Pooled>& all, const Fits& fits) {
    Pooled* best = nullptr;
    for (Pooled& pooled : all) {
      const bool is_better = best == nullptr || pooled.users < best->users;
      if (pooled.stream != nullptr && is_better && fits(pooled.sort)) best = &pooled;
    }
    return best;
  }

  Found look_for(OwnStream& own, StreamWish wish, bool streams_wait) {
    const auto alike = [&](const Sort& sort) { return sort == Sort{own.kind, wish, false}; };
    const auto ahead = [&](const Sort& sort) { return sort.is_ahead && sort.kind == own.kind; };
    const auto any_ahead = [](const Sort& sort) { return sort.is_ahead; };
    const auto any_shared = [](const Sort& sort) { return !sort.is_ahead && sort.wish == StreamWish::shared; };
    const std::lock_guard lock(mutex_);
    std::vector<Pooled>& all = of(own);
    Pooled* found = least_used(all, alike);
    if (found != nullptr && found->users == 0) return has(*found, own, wish);
    const bool is_full = wish == StreamWish::shared && count(all, alike) >= most_own_streams;
    if (is_full) return found != nullptr ? has(*found, own, wish) : Found::soon;
    const bool may_have_one_ahead = wish == StreamWish::alone || made_ahead(all, own.kind) > kept_ahead;
    Pooled* const one_ahead = may_have_one_ahead ? least_used(all, ahead) : nullptr;
    if (one_ahead != nullptr) return has(*one_ahead, own, wish);
    if (!streams_wait) return comes(all, own, wish);
    if (wish != StreamWish::shared) return Found::none;
    own.is_makeshift = true;
    if (found == nullptr) found = least_used(all, any_shared);
    if (found == nullptr) found = least_used(all, any_ahead);
    if (found != nullptr) return has(*found, own, wish);
    own.is_makeshift = false;
    // Nothing to be shared: this one's maker, or that one's, may have to wait for the stream.
    return count(all, any_shared) == 0 ? comes(all, own, wish) : Found::soon;
  }
  // Of whatever kind it is, its user has what was wanted.
  static Found has(Pooled& pooled, OwnStream& own, StreamWish wish) {
    ++pooled.users;
    pooled.sort.is_ahead = false;
    pooled.sort.wish = wish;
    own.stream = pooled.stream;
    return Found::there;
  }
  static Found comes(std::vector<Pooled>& all, const OwnStream& own, StreamWish wish) {
    all.push_back({.sort = {own.kind, wish, false}, .stream = nullptr, .users = 1});
    return Found::to_be_made;
  }

  // One of that sort that stands in the pool without a stream, which it gets, or is taken out of it.
  cuda::Result make(const CudaApi& driver, OwnStream& own, const Sort& sort) noexcept {
    const cuda::Result result = make_stream(driver, own.kind, own.stream);
    {
      const std::lock_guard lock(mutex_);
      std::vector<Pooled>& all = of(own);
      const auto made = std::find_if(all.begin(), all.end(), [&](const Pooled& pooled) {
        return pooled.stream == nullptr && pooled.sort == sort;
      });
      if (result == cuda::success) {
        made->stream = own.stream;
      } else {
        all.erase(made);
      }
    }
    news_.advance();
    return result;
  }

  std::mutex mutex_;
  std::vector<OfContext> contexts_;
  base::EventCount news_;
};

StreamPool& stream_pool() {
  static base::NeverDestroyed<StreamPool> pool;
  return pool.get();
}

}  // namespace

// Without ids a new context may have an old one's address, and its streams are dead: users that keep theirs make them.
cuda::Result take_stream(OwnStream& own, StreamWish wish) noexcept try {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr) return cuda::error_not_initialized;
  if (own.context_id == 0 && wish != StreamWish::shared) return make_stream(*driver, own.kind, own.stream);
  Kernels* const there = kernels_of(own.context, own.context_id);
  return there != nullptr ? stream_pool().take(*driver, there->stream_waits, own, wish) : cuda::error_out_of_memory;
} catch (...) {
  return cuda::error_out_of_memory;
}

bool may_do_better(const OwnStream& makeshift) noexcept {
  const Kernels* const there = kernels_of(makeshift.context, makeshift.context_id);
  return there != nullptr && !there->stream_waits.any();
}

void give_back_stream(const OwnStream& own) noexcept {
  if (own.stream != nullptr) stream_pool().give_back(own);
}

bool make_stream_ahead(Kernels& there) noexcept try {
  const CudaApi* const driver = gpu::driver();
  const auto make = [&](StreamKind kind) {
    return stream_pool().make_ahead(*driver, there.stream_waits, {there.context, there.context_id, kind});
  };
  return driver != nullptr && there.context_id != 0 && (make(StreamKind::urgent) || make(StreamKind::usual));
} catch (...) {
  return false;
}

bool StreamRoom::grow() noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->stream_destroy == nullptr || there_.context_id == 0 || count_ == streams_.size()) {
    return false;
  }
  const StreamWaits::Coming one(there_.stream_waits);
  if (there_.stream_waits.any() || make_stream(*driver, StreamKind::usual, streams_[count_]) != cuda::success) {
    return false;
  }
  ++count_;
  return true;
}

// The program may have destroyed the context meanwhile, and they are gone with it: drivers crash on such a stream.
StreamRoom::~StreamRoom() {
  const CudaApi* const driver = gpu::driver();
  unsigned long long id = 0;
  while (count_ > 0 && driver->ctx_get_id(there_.context, &id) == cuda::success && id == there_.context_id) {
    driver->stream_destroy(streams_[--count_]);
  }
}

std::size_t own_stream_count() noexcept {
  return stream_pool().size();
}

void own_streams_before_fork() noexcept {
  stream_pool().before_fork();
}

void own_streams_after_fork() noexcept {
  stream_pool().after_fork();
}

}  // namespace sluice::gpu
