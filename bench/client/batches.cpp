// SPDX-License-Identifier: Apache-2.0
// Rows of batches: all entries submitted at once and awaited together. Reads lie at random places of the file; each
// entry that writes has a part of the file of its own.
#include <fmt/format.h>

#include <random>
#include <vector>

#include "client/check.h"
#include "client/job.h"
#include "client/offsets.h"
#include "client/pattern.h"
#include "client/trouble.h"

namespace sluice::bench {
namespace {

class BatchHandle {
 public:
  explicit BatchHandle(unsigned entries) { want(cuFileBatchIOSetUp(&handle_, entries), "cuFileBatchIOSetUp"); }
  BatchHandle(const BatchHandle&) = delete;
  BatchHandle& operator=(const BatchHandle&) = delete;
  ~BatchHandle() { cuFileBatchIODestroy(handle_); }
  CUfileBatchHandle_t get() const { return handle_; }

 private:
  CUfileBatchHandle_t handle_ = nullptr;
};

class BatchJob : public Job {
 public:
  BatchJob(Bench& bench, const Row& row)
      : bench_(bench),
        row_(row),
        memory_(bench.gpu(), row.size * row.count),
        file_(row.writes ? bench.target() : bench.source()),
        entries_(row.count),
        events_(row.count),
        batch_((bench.open_driver(), row.count)) {
    const CUfileHandle_t file = row.writes ? bench.target_handle() : bench.source_handle();
    const std::uint64_t part = row.writes ? file_.size() / row.count / 4096 * 4096 : file_.size();
    want_room(file_, part, row);
    if (row.registered) registration_.emplace(memory_.pointer(), row.size * row.count);
    for (unsigned i = 0; i < row.count; ++i) {
      entries_[i] = {};
      entries_[i].mode = CUFILE_BATCH;
      entries_[i].fh = file;
      entries_[i].opcode = row.writes ? CUFILE_WRITE : CUFILE_READ;
      entries_[i].cookie = &entries_[i];
      entries_[i].u.batch.devPtr_base = memory_.pointer();
      entries_[i].u.batch.devPtr_offset = static_cast<off_t>(i * row.size);
      entries_[i].u.batch.size = row.size;
      const std::uint64_t begin = row.writes ? i * part : 0;
      offsets_.emplace_back(begin, begin + part, row.size, Offsets::Order::random, std::random_device()());
    }
    renew();
  }

  std::uint64_t check() override {
    const unsigned rounds = checks_of(row_.size * row_.count);
    bench_.workers().run(1, [&](unsigned) {
      for (unsigned i = 0; i < rounds; ++i) {
        if (!row_.writes) poison(bench_.gpu(), memory_.address(), row_.size * row_.count);
        renew();
        round([&](Offsets& offsets) { return offsets.anywhere(file_.alignment()); });
        compare();
      }
    });
    return std::uint64_t{rounds} * row_.size * row_.count;
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), 1, seconds,
                   [&](unsigned) { return round([](Offsets& offsets) { return offsets.next(); }); });
  }

  std::uint64_t check_last() override {
    bench_.workers().run(1, [&](unsigned) { compare(); });
    return std::uint64_t{row_.size} * row_.count;
  }

 private:
  // Each time other bytes: what an earlier run has left in the file does not pass for written.
  void renew() {
    if (!row_.writes) return;
    salt_ = (std::uint64_t{std::random_device()()} << 9U) + 1;
    std::vector<std::byte> bytes(row_.size);
    for (unsigned i = 0; i < row_.count; ++i) {
      fill_pattern(bytes, 0, salt_ + i);
      fill_device(bench_.gpu(), memory_.address() + i * row_.size, bytes);
    }
  }

  template <typename Place>
  std::uint64_t round(const Place& place) {
    for (unsigned i = 0; i < row_.count; ++i) {
      entries_[i].u.batch.file_offset = static_cast<off_t>(place(offsets_[i]));
    }
    want(cuFileBatchIOSubmit(batch_.get(), row_.count, entries_.data(), 0), "cuFileBatchIOSubmit");
    for (unsigned left = row_.count; left > 0;) {
      unsigned count = left;
      want(cuFileBatchIOGetStatus(batch_.get(), left, &count, events_.data(), nullptr), "cuFileBatchIOGetStatus");
      if (count == 0 || count > left)
        throw Trouble(fmt::format("cuFileBatchIOGetStatus delivers {} of {}", count, left));
      for (unsigned i = 0; i < count; ++i) {
        if (events_[i].status != CUFILE_COMPLETE) {
          throw Trouble(fmt::format("an entry of the batch ended with status {}, result {}",
                                    static_cast<int>(events_[i].status), static_cast<ssize_t>(events_[i].ret)));
        }
        want_all(static_cast<ssize_t>(events_[i].ret), row_.size, "an entry of the batch");
      }
      left -= count;
    }
    return std::uint64_t{row_.size} * row_.count;
  }

  void compare() const {
    for (unsigned i = 0; i < row_.count; ++i) {
      const auto offset = static_cast<std::uint64_t>(entries_[i].u.batch.file_offset);
      if (row_.writes) {
        want_file_pattern(file_, offset, row_.size, salt_ + i, row_);
      } else {
        want_device_pattern(bench_.gpu(), memory_.address() + i * row_.size, row_.size, offset, row_);
      }
    }
  }

  Bench& bench_;
  Row row_;
  DeviceMemory memory_;
  std::optional<RegisteredBuffer> registration_;
  const TestFile& file_;
  std::vector<Offsets> offsets_;
  std::uint64_t salt_ = 0;
  std::vector<CUfileIOParams_t> entries_;
  std::vector<CUfileIOEvents_t> events_;
  BatchHandle batch_;
};

}  // namespace

std::unique_ptr<Job> make_batch(Bench& bench, const Row& row) {
  return std::make_unique<BatchJob>(bench, row);
}

}  // namespace sluice::bench
