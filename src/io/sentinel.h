// SPDX-License-Identifier: Apache-2.0
// A kernel that waits for bytes keeps every thread waiting that synchronises with its device, or frees memory there;
// and the reader of the bytes may be stuck in a storage that does not answer. So another thread looks, every few
// milliseconds, whether the reading gets on. It sleeps while there is nothing to look after.
#pragma once

namespace sluice::io {

class Sentinel {
 public:
  // What is looked after.
  class Charge {
   public:
    // On the sentinel's thread, never twice at a time. Waits for no storage.
    virtual void look_in() noexcept = 0;

   protected:
    ~Charge() = default;
  };

  // Whether there is one; the first call starts it. Without it no kernel should wait for a storage.
  static bool is_there() noexcept;

  // The charge is looked after from construction to destruction; then no thread looks at it any more.
  class Watch {
   public:
    explicit Watch(Charge& charge) noexcept;
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    // False: too many are looked after.
    explicit operator bool() const noexcept { return place_ >= 0; }

   private:
    int place_ = -1;
  };
};

// A child of fork starts without one.
void sentinel_after_fork_in_child() noexcept;

}  // namespace sluice::io
