// SPDX-License-Identifier: Apache-2.0
// One thread of the model: it has a part of a file that others have parts of, too, and knows what has to be in there.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/random.h"

namespace sluice::model {

// The file, opened in one way and registered.
struct Door {
  const char* name;
  int descriptor = -1;
  CUfileHandle_t handle = nullptr;
};

// The file, as all actors use it: by any of these doors, of which the first is a plain buffered one.
using Doors = std::vector<Door>;

enum class Edge : std::uint8_t { inner, at_the_end };  // whose part the file ends in

class FileActor {
 public:
  // The part begins with `content` and may grow to `most` bytes where the file ends in it.
  FileActor(std::size_t number, const Doors& doors, std::size_t begin, support::Bytes content, std::size_t most,
            Edge edge);
  ~FileActor();
  FileActor(const FileActor&) = delete;
  FileActor& operator=(const FileActor&) = delete;

  // One piece of work. False: something was not as it has to be; `complaint` tells what.
  bool step();
  const std::string& complaint() const { return complaint_; }
  std::size_t steps() const { return steps_; }
  std::size_t begin() const { return begin_; }
  const support::Bytes& content() const { return content_; }

 private:
  struct Range {
    std::size_t at = 0;  // in the part
    std::size_t size = 0;
    std::size_t memory_at = 0;
  };
  enum class Way : std::uint8_t { call, vector, batch, plan, stream };

  Range draw(std::size_t limit);
  std::string told(const char* what, const Range& range, Way way, const Door& door,
                   const support::Memory& memory) const;
  ssize_t transfer(support::Random& random, CUfileOpcode_t opcode, const Range& range, Way way, CUfileHandle_t handle,
                   const support::Memory& memory);
  const Door& draw_door() { return doors_[random_.below(doors_.size())]; }
  ssize_t in_parts(CUfileOpcode_t opcode, CUfileHandle_t handle, const Range& range, const support::Memory& memory);
  ssize_t in_a_batch(CUfileOpcode_t opcode, CUfileHandle_t handle, const Range& range, const support::Memory& memory);
  ssize_t in_a_plan(CUfileOpcode_t opcode, CUfileHandle_t handle, const Range& range, const support::Memory& memory);
  ssize_t in_a_stream(CUfileOpcode_t opcode, CUfileHandle_t handle, const Range& range, const support::Memory& memory);
  bool read();
  bool write();
  bool change_size();
  bool punch();
  bool complain(std::string text);

  const Doors& doors_;
  const std::size_t begin_;
  const std::size_t most_;
  const Edge edge_;
  support::Random random_;
  support::Bytes content_;
  std::vector<std::unique_ptr<support::Memory>> memories_;
  std::vector<std::unique_ptr<support::Registration>> registrations_;
  std::optional<support::Stream> stream_;
  std::size_t steps_ = 0;
  std::string complaint_;
};

}  // namespace sluice::model
