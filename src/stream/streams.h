// SPDX-License-Identifier: Apache-2.0
// Transfers ordered by CUDA streams. A call puts a transfer into its stream and returns; it is run when the stream gets
// there, and the stream waits for it (stream/channel/stream_channel.h).
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "gpu/cuda_abi.h"
#include "gpu/stream_scope.h"
#include "process/process.h"
#include "stream/stream_call.h"

namespace sluice::stream {

class Streams {
 public:
  // Throw base::Failure (CU_FILE_INVALID_VALUE) for unknown flags, a stream registered twice, an unknown stream.
  void add(cuda::Stream stream, unsigned flags);
  void remove(cuda::Stream stream);
  void clear();
  // Reads of a registered stream whose parameters are all fixed may begin before the stream gets there.
  void want_registered(cuda::Stream stream);

  // Waits until no transfer of that file stands in a stream (null: of any), for a while: the stream may be waiting for
  // the caller.
  void wait_for(const void* handle) noexcept;

  // Throws base::Failure where the call itself is refused: unknown handle, CU_FILE_ASYNC_NOT_SUPPORTED for a stream
  // that is being captured and parameters that are not fixed. What the transfer comes to will stand in *moved.
  void submit(process::Process& process, cuda::Stream stream, const LateCall& call);

  // Around fork: no child inherits the mutex locked, and streams of its parent mean nothing to it.
  void before_fork() { mutex_.lock(); }
  void after_fork(bool in_child);

 private:
  struct Key {
    unsigned long long stream = 0;  // its number, which tells nearly all of them apart
    cuda::Context context = nullptr;
    unsigned long long context_id = 0;
    std::size_t thread = 0;  // where the stream is a thread's own default one: whose, beginning with 1

    bool operator<(const Key& other) const noexcept {
      return std::tie(stream, context, context_id, thread) <
             std::tie(other.stream, other.context, other.context_id, other.thread);
    }
  };
  // Streams that were not registered have one, too, until others need the channel.
  struct Entry {
    cuda::Stream stream = nullptr;  // of those that are registered
    StreamOptions options;
    bool registered = false;
    StreamChannel* channel = nullptr;
    std::atomic<unsigned> users{0};  // calls that are putting something into the stream; they come with the mutex
  };
  class Use;

  static Key key_of(const gpu::StreamScope& scope, cuda::Stream stream);
  Entry& registered_entry(cuda::Stream stream);
  unsigned flags_of(cuda::Stream stream);
  Entry* captured_entry(const gpu::StreamScope& scope, cuda::Stream stream);
  Entry* nameless_entry(cuda::Stream stream);
  void let_go_of_idle_locked(std::size_t most_kept);

  static void put(process::Process& process, const gpu::StreamScope& scope, cuda::Stream stream, const LateCall& call,
                  process::File& file, const Use& use);
  void capture(process::Process& process, const gpu::StreamScope& scope, cuda::Stream stream, const LateCall& call,
               process::File& file, const StreamOptions& options);

  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  std::vector<StreamCall::Owner> of_graphs_;  // whose end we are not told of: for good
};

}  // namespace sluice::stream
