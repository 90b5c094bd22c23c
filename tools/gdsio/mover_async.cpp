// SPDX-License-Identifier: Apache-2.0
#include "gdsio/mover_async.h"

#include <fmt/format.h>

#include <cerrno>
#include <vector>

#include "common/cufile_words.h"
#include "common/error.h"

namespace sluice::tools {
namespace {

using AsyncClock = std::chrono::steady_clock;

void want_cufile(CUfileError_t result, const char* call) {
  if (result.err == CU_FILE_SUCCESS) return;
  throw ToolError(fmt::format("{} answered: {}.", call, cufile_words(result.err)),
                  "Set CUFILE_LOGFILE_PATH and CUFILE_LOGGING_LEVEL=DEBUG for the whole story.");
}

unsigned largest_batch() {
  CUfileDrvProps_t properties{};
  return cuFileDriverGetProperties(&properties).err == CU_FILE_SUCCESS ? properties.max_batch_io_size : 0;
}

class Batch final : public Mover {
 public:
  Batch(TransferMemory& memory, unsigned depth) : memory_(&memory), entries_(depth), events_(depth) {
    const CUfileError_t result = cuFileBatchIOSetUp(&batch_, depth);
    if (result.err == CU_FILE_SUCCESS) return;
    const unsigned most = largest_batch();
    if (most != 0 && depth > most) {
      throw ToolError(fmt::format("A batch of {} is more than the library's limit of {}.", depth, most),
                      "Use a smaller -w or -B, or set io_batchsize in cufile.json.");
    }
    want_cufile(result, "cuFileBatchIOSetUp");
  }
  ~Batch() override { cuFileBatchIODestroy(batch_); }

  void move(std::span<Piece> pieces) override {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      CUfileIOParams_t& entry = entries_[i];
      entry.mode = CUFILE_BATCH;
      entry.u.batch.devPtr_base = memory_->address();
      entry.u.batch.devPtr_offset = static_cast<off_t>(pieces[i].memory_offset);
      entry.u.batch.file_offset = static_cast<off_t>(pieces[i].file_offset);
      entry.u.batch.size = pieces[i].size;
      entry.fh = pieces[i].target->handle();
      entry.opcode = pieces[i].writes ? CUFILE_WRITE : CUFILE_READ;
      entry.cookie = &pieces[i];
    }
    const auto begin = AsyncClock::now();
    want_cufile(cuFileBatchIOSubmit(batch_, static_cast<unsigned>(pieces.size()), entries_.data(), 0),
                "cuFileBatchIOSubmit");
    for (std::size_t open = pieces.size(); open > 0;) {
      auto count = static_cast<unsigned>(open);
      want_cufile(cuFileBatchIOGetStatus(batch_, 1, &count, events_.data(), nullptr), "cuFileBatchIOGetStatus");
      if (count == 0) throw ToolError("A batch lost some of its operations.", "Please report this.");
      const auto now = AsyncClock::now();
      for (unsigned i = 0; i < count; ++i) {
        auto& piece = *static_cast<Piece*>(events_[i].cookie);
        piece.done = static_cast<std::int64_t>(events_[i].ret);
        if (events_[i].status != CUFILE_COMPLETE && piece.done >= 0) piece.done = -EIO;
        piece.time = now - begin;
      }
      open -= count;
    }
  }

 private:
  TransferMemory* memory_;
  CUfileBatchHandle_t batch_ = nullptr;
  std::vector<CUfileIOParams_t> entries_;
  std::vector<CUfileIOEvents_t> events_;
};

class OnStreams final : public Mover {
 public:
  OnStreams(const Gpu& gpu, TransferMemory& memory, unsigned depth) : memory_(&memory) {
    for (unsigned i = 0; i < depth; ++i) slots_.push_back(std::make_unique<StreamSlot>(gpu));
  }

  void move(std::span<Piece> pieces) override {
    const auto begin = AsyncClock::now();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      try {
        slots_[i]->start(pieces[i], memory_->address());
      } catch (...) {
        wait_for(i);
        throw;
      }
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      StreamSlot& slot = *slots_[i];
      slot.stream.wait();
      pieces[i].done = slot.done == -1 ? -EIO : slot.done;
      pieces[i].time = AsyncClock::now() - begin;
    }
  }

 private:
  // What an operation points to has to live until its stream has passed.
  struct StreamSlot {
    explicit StreamSlot(const Gpu& gpu) : stream(gpu) {
      // All of it is known at the call.
      want_cufile(
          cuFileStreamRegister(stream.get(), CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET |
                                                 CU_FILE_STREAM_FIXED_FILE_SIZE),
          "cuFileStreamRegister");
    }
    StreamSlot(const StreamSlot&) = delete;
    StreamSlot& operator=(const StreamSlot&) = delete;
    ~StreamSlot() { cuFileStreamDeregister(stream.get()); }

    void start(const Piece& piece, void* base) {
      size = piece.size;
      file_offset = static_cast<off_t>(piece.file_offset);
      memory_offset = static_cast<off_t>(piece.memory_offset);
      done = 0;
      // Called by name, not by address: an older library may lack them, and is asked for them by -x 5 and 7 alone.
      if (piece.writes) {
        want_cufile(
            cuFileWriteAsync(piece.target->handle(), base, &size, &file_offset, &memory_offset, &done, stream.get()),
            "cuFileWriteAsync");
      } else {
        want_cufile(
            cuFileReadAsync(piece.target->handle(), base, &size, &file_offset, &memory_offset, &done, stream.get()),
            "cuFileReadAsync");
      }
    }

    GpuStream stream;
    std::size_t size = 0;
    off_t file_offset = 0;
    off_t memory_offset = 0;
    ssize_t done = 0;
  };

  // The first `count`, before their slots and the memory may go.
  void wait_for(std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) slots_[i]->stream.wait();
  }

  TransferMemory* memory_;
  std::vector<std::unique_ptr<StreamSlot>> slots_;
};

}  // namespace

std::unique_ptr<Mover> make_batch_mover(TransferMemory& memory, unsigned depth) {
  return std::make_unique<Batch>(memory, depth);
}
std::unique_ptr<Mover> make_stream_mover(const Gpu& gpu, TransferMemory& memory, unsigned depth) {
  return std::make_unique<OnStreams>(gpu, memory, depth);
}

}  // namespace sluice::tools
