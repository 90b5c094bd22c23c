// SPDX-License-Identifier: Apache-2.0
// One way of moving bytes. Small on purpose: a path gets one segment of a request and answers how much of it, from its
// start on, is in place.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "base/strong.h"
#include "cufile.h"
#include "facts/buffer.h"
#include "facts/descriptor_check.h"
#include "facts/file.h"
#include "gpu/bar_mapping.h"
#include "io/disk_queue.h"
#include "io/private_files.h"
#include "route/decision.h"
#include "stream/channel/stream_copier.h"

namespace sluice::paths {

class DirectPair;

// The file of a request. Everything in it outlives the request.
struct OpenFile {
  int fd;
  const facts::FileFacts& facts;
  io::PrivateFile& buffered;                  // the same file without O_DIRECT
  io::DiskQueue& disk;                        // how reads that a disk has to bring are kept on their way
  facts::DescriptorCheck& now;                // the descriptor just now
  const CUfileFSOps_t* operations = nullptr;  // the caller's own, when the handle came with some
  void* handle = nullptr;                     // what they are called with
  DirectPair* pair = nullptr;                 // this file's storage and the request's device, where both are known
  // Of a transfer in a stream: what reaches device memory in the stream's order. Null: our own streams do.
  stream::StreamCopier* copier = nullptr;
  // Onto the memory of the request, where that is registered and has one.
  const gpu::BarMapping* mapping = nullptr;
};

// What to move.
struct Piece {
  base::Direction direction;
  route::SegmentMode carry;
  base::FileOffset at;
  std::uint64_t address;
  std::uint64_t length;
};

class Path {
 public:
  Path() = default;
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  // The count is short at the end of the file, or when the system refuses in mid-way; an error says that nothing was
  // moved. Memory behind the count and file content outside the piece are as they were. (But where a descriptor has
  // come to belong to another file, that one's bytes may be in the memory.)
  virtual base::Outcome move(const OpenFile& file, const facts::BufferFacts& memory, const Piece& piece) noexcept = 0;

 protected:
  // Paths live as long as the process and are never destroyed through this face.
  ~Path() = default;
};

}  // namespace sluice::paths
