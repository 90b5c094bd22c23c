// Transfers ordered by CUDA streams. A call waits until its stream has got there, moves the bytes on the calling
// thread, and returns: in order with all earlier and later work of the stream.
#pragma once

#include <map>
#include <mutex>

#include "core/driver.h"
#include "core/transfer.h"
#include "gpu/cuda_abi.h"

namespace sluice::core {

class Streams {
 public:
  // Throw base::Failure (CU_FILE_INVALID_VALUE) for unknown flags, a stream registered twice, an unknown stream.
  void add(cuda::Stream stream, unsigned flags);
  void remove(cuda::Stream stream);
  void clear();

  // Around fork: no child inherits the mutex locked, and streams of its parent mean nothing to it.
  void before_fork() { mutex_.lock(); }
  void after_fork(bool in_child);

 private:
  std::mutex mutex_;
  std::map<unsigned long long, unsigned> flags_by_number_;
};

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

// Throws base::Failure where the call itself is refused: unknown handle, CU_FILE_ASYNC_NOT_SUPPORTED for a stream that
// is being captured. What the transfer comes to stands in *moved.
void transfer_on_stream(Driver& driver, cuda::Stream stream, const LateCall& call);

}  // namespace sluice::core
