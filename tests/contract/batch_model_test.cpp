// SPDX-License-Identifier: Apache-2.0
// Batches against a model: thousands of submissions, polls, cancellations, destructions and closes in an order that a
// seed draws. The model knows what every piece of memory and every file must hold.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice.h"
#include "support/calls.h"
#include "support/random.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kLanes = 96;      // pieces of memory and file, one entry at a time each
constexpr std::size_t kStride = 20011;  // from one piece to the next, in file and memory
constexpr std::size_t kLongest = 20000;
constexpr std::size_t kBatches = 3;
constexpr unsigned kRoom = 24;
constexpr unsigned char kClean = 0x77;

enum class Doing : std::uint8_t { nothing, reading, writing };

// One piece: where it lies, what an entry is doing to it, and what it would look like afterwards.
struct Piece {
  Doing doing = Doing::nothing;
  std::size_t batch = 0;
  std::size_t file = 0;
  std::size_t memory = 0;
  std::size_t at = 0;  // of file and memory alike
  std::size_t skip = 0;
  std::size_t size = 0;
  Bytes written;
};

class BatchModel : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    for (const bool first : {true, false}) {
      memory_.push_back(std::make_unique<Memory>(first ? usual_memory() : MemoryKind::plain, kLanes * kStride));
      memory_.back()->fill(kClean);
    }
    const std::string shm = find_place("tmpfs") != nullptr ? find_place("tmpfs")->path : disk_directory();
    const Bytes content = random_bytes(kLanes * kStride, 0xba7c);
    for (const auto& [where, flags] :
         {std::pair{disk_directory(), 0}, std::pair{disk_directory(), O_DIRECT}, std::pair{shm, 0}}) {
      files_.push_back(std::make_unique<ScratchFile>(content, where));
      flags_.push_back(flags);
      contents_.push_back(content);
    }
    for (std::size_t i = 0; i < kLanes; ++i) {
      pieces_[i].at = i * kStride;
      pieces_[i].file = i % files_.size();
      pieces_[i].memory = i / files_.size() % memory_.size();
    }
    open();
  }
  void TearDown() override {
    close();
    handles_.clear();
    CufileTest::TearDown();
  }

  void open() {
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    for (std::size_t i = 0; i < files_.size(); ++i) {
      fds_.push_back(files_[i]->open(O_RDWR | flags_[i]));
      handles_.push_back(std::make_unique<Handle>(fds_.back()));
    }
    for (std::size_t batch = 0; batch < kBatches; ++batch) set_up(batch);
    // Of one kind of memory the library knows the pieces, of the other it does not.
    ASSERT_EQ(code(cuFileBufRegister(memory_[0]->address(), memory_[0]->size(), 0)), CU_FILE_SUCCESS);
  }
  // Closing ends the batches, and waits for what they have begun.
  void close() {
    EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
    for (std::size_t batch = 0; batch < kBatches; ++batch) settle_without_events(batch);
    for (auto& handle : handles_) handle->deregister();
    handles_.clear();
    fds_.clear();
  }

  void set_up(std::size_t batch) { ASSERT_EQ(code(cuFileBatchIOSetUp(&batches_[batch], kRoom)), CU_FILE_SUCCESS); }

  std::size_t outstanding(std::size_t batch) const {
    return static_cast<std::size_t>(std::count_if(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
      return piece.doing != Doing::nothing && piece.batch == batch;
    }));
  }

  void submit(std::size_t batch) {
    const std::size_t most = kRoom - outstanding(batch);
    if (most == 0) return;
    std::vector<CUfileIOParams_t> entries;
    for (std::size_t wanted = 1 + random_.below(most), tries = 0; entries.size() < wanted && tries < kLanes; ++tries) {
      // Neighbours, often: the library may take them together.
      const std::size_t index = random_.below(3) == 0 ? random_.below(kLanes) : (last_ + 1) % kLanes;
      last_ = index;
      Piece& piece = pieces_[index];
      if (piece.doing != Doing::nothing) continue;
      piece.batch = batch;
      piece.doing = random_.below(3) == 0 ? Doing::writing : Doing::reading;
      piece.skip = random_.below(4) == 0 ? random_.below(5000) : 0;
      piece.size = random_.below(3) == 0 ? 1 + random_.below(kLongest - piece.skip) : std::size_t{4096};
      if (piece.doing == Doing::writing) {
        piece.written = random_bytes(piece.size, random_.next());
        memory_[piece.memory]->put(piece.at + piece.skip, piece.written);
      }
      entries.push_back(entry_of(index));
    }
    if (entries.empty()) return;
    ASSERT_EQ(code(cuFileBatchIOSubmit(batches_[batch], static_cast<unsigned>(entries.size()), entries.data(), 0)),
              CU_FILE_SUCCESS);
  }

  CUfileIOParams_t entry_of(std::size_t index) {
    const Piece& piece = pieces_[index];
    CUfileIOParams_t entry{};
    entry.mode = CUFILE_BATCH;
    entry.fh = handles_[piece.file]->get();
    entry.opcode = piece.doing == Doing::reading ? CUFILE_READ : CUFILE_WRITE;
    entry.cookie = &pieces_[index];
    const bool interior = random_.below(2) == 0;
    const std::size_t begin = piece.at + piece.skip;
    entry.u.batch.devPtr_base = interior ? memory_[piece.memory]->at(begin) : memory_[piece.memory]->address();
    entry.u.batch.devPtr_offset = interior ? 0 : static_cast<off_t>(begin);
    entry.u.batch.file_offset = static_cast<off_t>(begin);
    entry.u.batch.size = piece.size;
    return entry;
  }

  void collect(std::size_t batch, unsigned least, const timespec* limit) {
    std::array<CUfileIOEvents_t, kRoom> events{};
    unsigned count = 1 + static_cast<unsigned>(random_.below(kRoom));
    count = std::max(count, least);
    const unsigned room = count;
    const std::size_t before = outstanding(batch);
    timespec copy = limit != nullptr ? *limit : timespec{};
    ASSERT_EQ(
        code(cuFileBatchIOGetStatus(batches_[batch], least, &count, events.data(), limit != nullptr ? &copy : nullptr)),
        CU_FILE_SUCCESS);
    ASSERT_LE(count, room);
    if (limit == nullptr) {
      ASSERT_GE(count, std::min<std::size_t>(least, before)) << "of " << before;
    }
    take(batch, std::span(events).first(count));
  }

  void take(std::size_t batch, std::span<const CUfileIOEvents_t> events) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      auto* const piece = static_cast<Piece*>(events[i].cookie);
      ASSERT_TRUE(piece >= pieces_.data() && piece < pieces_.data() + pieces_.size());
      ASSERT_NE(piece->doing, Doing::nothing) << "an event came twice";
      ASSERT_EQ(piece->batch, batch) << "an event of another batch";
      EXPECT_EQ(events[i].status, CUFILE_COMPLETE);
      EXPECT_EQ(events[i].ret, piece->size);
      check(*piece, true);
    }
  }

  // Nothing is told any more, and all has ended when the call that waits for all returns.
  void cancel(std::size_t batch) {
    const long before = sluice_batch_cancelled(batches_[batch]);
    EXPECT_EQ(code(cuFileBatchIOCancel(batches_[batch])), CU_FILE_SUCCESS);
    std::array<CUfileIOEvents_t, kRoom> events{};
    unsigned count = kRoom;
    ASSERT_EQ(code(cuFileBatchIOGetStatus(batches_[batch], kRoom, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
    EXPECT_EQ(count, 0U);
    EXPECT_EQ(sluice_batch_cancelled(batches_[batch]) - before, static_cast<long>(outstanding(batch)));
    settle_without_events(batch);
  }

  // Memory and file around and in the piece. What was written or read is taken away again.
  void check(Piece& piece, bool done) {
    const Memory& memory = *memory_[piece.memory];
    Bytes& content = contents_[piece.file];
    const auto from = static_cast<std::ptrdiff_t>(piece.at);
    const auto begin = static_cast<std::ptrdiff_t>(piece.skip);
    const auto size = static_cast<std::ptrdiff_t>(piece.size);
    Bytes in_memory(kStride, kClean);
    if (piece.doing == Doing::writing) {
      std::copy(piece.written.begin(), piece.written.end(), in_memory.begin() + begin);
      if (done) std::copy(piece.written.begin(), piece.written.end(), content.begin() + from + begin);
    } else if (done) {
      std::copy_n(content.begin() + from + begin, size, in_memory.begin() + begin);
    }
    EXPECT_TRUE(same_bytes(in_memory, memory.get(piece.at, kStride))) << told(piece) << " in memory";
    EXPECT_TRUE(same_bytes(std::span(content).subspan(piece.at, kStride), in_file(piece))) << told(piece) << " in file";
    clean(piece);
  }

  Bytes in_file(const Piece& piece) const { return plain_read(plain_fd(piece.file), piece.at, kStride); }
  int plain_fd(std::size_t file) const {
    if (plain_.size() <= file) {
      for (const auto& each : files_) plain_.push_back(each->open(O_RDONLY));
    }
    return plain_[file].get();
  }

  std::string told(const Piece& piece) const {
    return std::string(piece.doing == Doing::reading ? "read" : "write") + " of " + std::to_string(piece.size) +
           " at " + std::to_string(piece.at + piece.skip) + ", file " + std::to_string(piece.file) + ", memory " +
           std::to_string(piece.memory);
  }

  void clean(Piece& piece) {
    memory_[piece.memory]->put(piece.at, Bytes(kStride, kClean));
    piece.doing = Doing::nothing;
  }

  // The batch is gone: each entry was either carried out or not begun.
  void settle_without_events(std::size_t batch) {
    for (Piece& piece : pieces_) {
      if (piece.doing == Doing::nothing || piece.batch != batch) continue;
      const Bytes found =
          piece.doing == Doing::reading ? memory_[piece.memory]->get(piece.at, kStride) : in_file(piece);
      const Bytes before = piece.doing == Doing::reading
                               ? Bytes(kStride, kClean)
                               : Bytes(contents_[piece.file].begin() + static_cast<std::ptrdiff_t>(piece.at),
                                       contents_[piece.file].begin() + static_cast<std::ptrdiff_t>(piece.at + kStride));
      check(piece, found != before);
    }
  }

  void destroy(std::size_t batch) {
    cuFileBatchIODestroy(batches_[batch]);
    settle_without_events(batch);
    set_up(batch);
  }

  void step() {
    constexpr timespec none{0, 0};
    constexpr timespec moment{0, 300'000};
    const std::size_t batch = random_.below(kBatches);
    const auto some = static_cast<unsigned>(random_.below(kRoom + 1));
    switch (random_.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        return submit(batch);
      case 6:
      case 7:
      case 8:
        return collect(batch, some, &none);
      case 9:
      case 10:
        return collect(batch, some, nullptr);
      case 11:
        return collect(batch, kRoom, nullptr);
      case 12:
        return collect(batch, some, &moment);
      case 13:
        return cancel(batch);
      case 14:
        if (random_.below(8) == 0) destroy(batch);
        return;
      default:
        if (random_.below(40) == 0) {
          close();
          open();
        }
    }
  }

  Random random_{run_seed()};
  std::size_t last_ = 0;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::unique_ptr<ScratchFile>> files_;
  std::vector<int> flags_;
  std::vector<Bytes> contents_;
  std::vector<Fd> fds_;
  mutable std::vector<Fd> plain_;
  std::vector<std::unique_ptr<Handle>> handles_;
  std::array<CUfileBatchHandle_t, kBatches> batches_{};
  std::array<Piece, kLanes> pieces_;
};

TEST_F(BatchModel, HoldsInEveryOrderOfCalls) {
  for (int i = 0; i < 3000; ++i) {
    SCOPED_TRACE(::testing::Message() << "step " << i << "; SLUICE_TEST_SEED=" << run_seed());
    step();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::contract
