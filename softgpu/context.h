// SPDX-License-Identifier: Apache-2.0
// Contexts: the handle that programs hold, and what lives behind it while it is alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "allocation.h"
#include "stream.h"

namespace sluice::softgpu {

class Context;
class Device;

// One life of a context: its streams, its memory, its errors. A primary context begins a new one after each reset.
class Workspace : public std::enable_shared_from_this<Workspace> {
 public:
  Workspace(Context& context, Device& device, unsigned flags);

  std::uint64_t id() const { return id_; }
  Context& context() const { return context_; }
  Device& device() const { return device_; }
  Health& health() const { return *health_; }
  const std::shared_ptr<Health>& shared_health() const { return health_; }
  Streams& streams() { return streams_; }
  std::atomic<unsigned>& flags() { return flags_; }

  const std::shared_ptr<Stream>& legacy_stream() const { return legacy_; }
  // The calling thread's default stream here, made with the first use.
  std::shared_ptr<Stream> per_thread_stream();

  // Throws Refusal with the sticky error, if there is one.
  void require_healthy() const;
  // From here on the context answers this error, and nothing in it runs. The first error stays.
  void break_down(cuda::Result why);

  // Contexts whose memory may be reached from here. False when it was so, or was not so, already.
  bool enable_peer(const Context& peer);
  bool disable_peer(const Context& peer);
  // What kernels of this context may do with this memory: cuda::access_none, access_read or access_read_write.
  int access_to(const Allocation& memory);

  // As drivers do it: loading code and freeing memory wait for every stream, and calls that take memory, make streams,
  // copy, launch or record wait until that is over.
  void bring_to_rest();
  void wait_while_brought_to_rest() { const std::lock_guard over(resting_); }

  void open();
  // Drops pending work, frees what the context owns, ends its threads.
  void tear_down();

 private:
  Context& context_;
  Device& device_;
  std::uint64_t id_;
  std::shared_ptr<Health> health_;
  Streams streams_;
  std::atomic<unsigned> flags_;
  std::shared_ptr<Stream> legacy_;
  std::mutex resting_;
  std::mutex peers_mutex_;
  std::set<const Context*> peers_;
};

enum class ContextKind { primary, created };

// What a CUcontext points to. A primary context is there for ever, alive or not; a created one as long as a thread
// has it on its stack, alive until it is destroyed. Any thread may call.
class Context {
 public:
  Context(Device& device, ContextKind kind, unsigned api_version)
      : device_(device), kind_(kind), api_version_(api_version) {}

  cuda::Context handle() { return reinterpret_cast<cuda::Context>(this); }
  Device& device() const { return device_; }
  ContextKind kind() const { return kind_; }
  unsigned api_version() const { return api_version_; }

  // Null while it is not alive.
  std::shared_ptr<Workspace> workspace() const;
  // Throws Refusal (context is destroyed).
  std::shared_ptr<Workspace> living_workspace() const;
  void open(unsigned flags);
  void close();

 private:
  Device& device_;
  ContextKind kind_;
  unsigned api_version_;
  mutable std::mutex mutex_;
  std::shared_ptr<Workspace> workspace_;
};

// The context behind a handle that was given by the program; throws Refusal (invalid context).
std::shared_ptr<Context> context_of(cuda::Context handle);

// Contexts reserve these bits of their flags.
void require_context_flags(unsigned flags);

}  // namespace sluice::softgpu
