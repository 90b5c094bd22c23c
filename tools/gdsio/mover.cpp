// SPDX-License-Identifier: Apache-2.0
// The synchronous kinds. On the processor's ways device memory is reached through pinned memory of the thread's own.
#include "gdsio/mover.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "gdsio/mover_async.h"

namespace sluice::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t block_size = 4096;

// Whole, unless the file ends or something fails; O_DIRECT asks for whole blocks, the last one included.
std::int64_t plain_transfer(const Piece& piece, char* memory) {
  std::size_t done = 0;
  while (done < piece.size) {
    const std::size_t left = piece.size - done;
    const bool whole_blocks = !piece.writes && piece.target->is_direct();
    const std::size_t asked = whole_blocks ? (left + block_size - 1) / block_size * block_size : left;
    const auto offset = static_cast<off_t>(piece.file_offset + done);
    const ssize_t count = piece.writes ? pwrite(piece.target->descriptor(), memory + done, asked, offset)
                                       : pread(piece.target->descriptor(), memory + done, asked, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -errno;
    if (count == 0) break;
    done = std::min(done + static_cast<std::size_t>(count), piece.size);
  }
  return static_cast<std::int64_t>(done);
}

class CufileSync final : public Mover {
 public:
  explicit CufileSync(TransferMemory& memory) : memory_(&memory) {}

  void move(std::span<Piece> pieces) override {
    for (Piece& piece : pieces) {
      const auto begin = Clock::now();
      const auto file_offset = static_cast<off_t>(piece.file_offset);
      const auto memory_offset = static_cast<off_t>(piece.memory_offset);
      const ssize_t count =
          piece.writes ? cuFileWrite(piece.target->handle(), memory_->address(), piece.size, file_offset, memory_offset)
                       : cuFileRead(piece.target->handle(), memory_->address(), piece.size, file_offset, memory_offset);
      piece.done = count == -1 ? -errno : count;
      piece.time = Clock::now() - begin;
    }
  }

 private:
  TransferMemory* memory_;
};

class HostOnly final : public Mover {
 public:
  explicit HostOnly(TransferMemory& memory) : memory_(&memory) {}

  void move(std::span<Piece> pieces) override {
    for (Piece& piece : pieces) {
      const auto begin = Clock::now();
      piece.done = plain_transfer(piece, static_cast<char*>(memory_->address()) + piece.memory_offset);
      piece.time = Clock::now() - begin;
    }
  }

 private:
  TransferMemory* memory_;
};

// -x 2 and 4: a transfer between file and host, and a copy in two halves on two streams.
class ByHost final : public Mover {
 public:
  ByHost(const Gpu& gpu, TransferMemory& memory)
      : gpu_(&gpu),
        memory_(&memory),
        staging_(make_memory(MemoryKind::pinned, &gpu, memory.size())),
        first_(gpu),
        second_(gpu) {}

  void move(std::span<Piece> pieces) override {
    for (Piece& piece : pieces) {
      const auto begin = Clock::now();
      if (piece.writes) copy(piece, piece.size);
      piece.done = plain_transfer(piece, host(piece));
      if (!piece.writes && piece.done > 0) copy(piece, static_cast<std::size_t>(piece.done));
      piece.time = Clock::now() - begin;
    }
  }

 private:
  static constexpr std::size_t worth_two_streams = 1u << 20;

  char* host(const Piece& piece) const { return static_cast<char*>(staging_->address()) + piece.memory_offset; }

  void copy(const Piece& piece, std::size_t size) {
    char* const device = static_cast<char*>(memory_->address()) + piece.memory_offset;
    const std::size_t half = size < worth_two_streams ? size : size / 2;
    copy_part(piece.writes, device, host(piece), half, first_.get());
    if (half < size) copy_part(piece.writes, device + half, host(piece) + half, size - half, second_.get());
    first_.wait();
    if (half < size) second_.wait();
  }

  void copy_part(bool out, char* device, char* host, std::size_t size, CUstream stream) {
    if (out) {
      gpu_->copy_to_host(host, device, size, stream);
    } else {
      gpu_->copy_to_device(device, host, size, stream);
    }
  }

  const Gpu* gpu_;
  TransferMemory* memory_;
  std::unique_ptr<TransferMemory> staging_;
  GpuStream first_;
  GpuStream second_;
};

// -x 3: two places in turn, so that a copy to the device goes on while the next piece is read. A write needs its
// copy first; nothing of it can be left for later.
class ByHostAsync final : public Mover {
 public:
  ByHostAsync(const Gpu& gpu, TransferMemory& memory)
      : gpu_(&gpu),
        memory_(&memory),
        places_{std::make_unique<Place>(gpu, memory), std::make_unique<Place>(gpu, memory)} {}

  void move(std::span<Piece> pieces) override {
    for (Piece& piece : pieces) {
      const auto begin = Clock::now();
      Place& place = *places_[turn_];
      turn_ = 1 - turn_;
      place.stream.wait();
      char* const host = static_cast<char*>(place.staging->address()) + piece.memory_offset;
      char* const device = static_cast<char*>(memory_->address()) + piece.memory_offset;
      if (piece.writes) {
        gpu_->copy_to_host(host, device, piece.size, place.stream.get());
        place.stream.wait();
      }
      piece.done = plain_transfer(piece, host);
      if (!piece.writes && piece.done > 0) {
        // Two copies into the same place of the device: in the order of the pieces.
        places_[turn_]->stream.wait();
        gpu_->copy_to_device(device, host, static_cast<std::size_t>(piece.done), place.stream.get());
      }
      piece.time = Clock::now() - begin;
    }
  }

  void drain() override {
    for (const auto& place : places_) place->stream.wait();
  }

 private:
  struct Place {
    Place(const Gpu& gpu, const TransferMemory& memory)
        : staging(make_memory(MemoryKind::pinned, &gpu, memory.size())), stream(gpu) {}
    std::unique_ptr<TransferMemory> staging;
    GpuStream stream;
  };

  const Gpu* gpu_;
  TransferMemory* memory_;
  std::array<std::unique_ptr<Place>, 2> places_;
  std::size_t turn_ = 0;
};

}  // namespace

std::unique_ptr<Mover> make_mover(const Settings& settings, const Gpu* gpu, TransferMemory& memory, unsigned depth) {
  switch (settings.transfer) {
    case Transfer::gpu_direct:
      return std::make_unique<CufileSync>(memory);
    case Transfer::cpu_only:
      return std::make_unique<HostOnly>(memory);
    case Transfer::cpu_gpu:
    case Transfer::cpu_cached_gpu:
      return std::make_unique<ByHost>(*gpu, memory);
    case Transfer::cpu_async_gpu:
      return std::make_unique<ByHostAsync>(*gpu, memory);
    case Transfer::gpu_async:
      return make_stream_mover(*gpu, memory, 1);
    case Transfer::gpu_batch:
      return make_batch_mover(memory, depth);
    case Transfer::gpu_batch_stream:
      break;
  }
  return make_stream_mover(*gpu, memory, depth);
}

}  // namespace sluice::tools
