// SPDX-License-Identifier: Apache-2.0
// One cuFileReadAsync or cuFileWriteAsync on its way through a stream.
#pragma once

#include <sys/types.h>
#include <cstddef>
#include <memory>

#include "base/processor.h"
#include "gpu/cuda_abi.h"
#include "process/process.h"
#include "request/run.h"
#include "stream/channel/stream_channel.h"

namespace sluice::stream {

// The parameters of an asynchronous call: where they stand, since earlier work on the stream may write them.
struct LateCall {
  base::Direction direction = base::Direction::read;
  void* handle = nullptr;
  const void* base = nullptr;
  const std::size_t* size = nullptr;
  const off_t* file_offset = nullptr;
  const off_t* buffer_offset = nullptr;
  ssize_t* moved = nullptr;
};

// The flags of a registered stream (CU_FILE_STREAM_*).
struct StreamOptions {
  unsigned flags = 0;

  bool fixes(unsigned flag) const noexcept { return (flags & flag) != 0; }
  // Nothing of a call may change until the stream gets there.
  bool fixes_all() const noexcept;
};

// A task that lives until it has been run; one of a graph, for good. Its memory goes from one task of a stream to the
// next: while they come one after the other, nothing is allocated.
class alignas(base::line_bytes) StreamCall final : public StreamTask {
 public:
  // For one that no stream has taken.
  struct Unmake {
    void operator()(StreamCall* call) const noexcept;
  };
  using Owner = std::unique_ptr<StreamCall, Unmake>;
  // Throws when there is no memory.
  static Owner make(StreamChannel& channel, process::Process& process, const LateCall& call,
                    const StreamOptions& options);

  // How the channel is to carry it, by what is known of the memory now. `kernel`: there is one.
  void plan(process::File& file, const facts::BufferFacts& memory, const StreamChannel& channel, bool kernel) noexcept;

  void run(StreamCopier& copier) noexcept override;
  bool is_quick() noexcept override;
  void end() noexcept override;

 private:
  StreamCall(StreamChannel& channel, process::Process& process, const LateCall& call,
             const StreamOptions& options) noexcept;
  ~StreamCall() override = default;
  request::Call now() const noexcept;

  StreamChannel& home_;
  process::Process& process_;
  const LateCall late_;
  const StreamOptions options_;
  bool looked_ = false;        // is_quick() has been asked
  bool is_cached_ = false;     // the page cache has what is read, as far as its first byte tells
  const request::Call known_;  // what the parameters were at the call
};

}  // namespace sluice::stream
