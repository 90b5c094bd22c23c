// Rows of batches: all entries submitted at once, at random places of the file, and awaited together.
#include <fmt/format.h>

#include <random>
#include <vector>

#include "client/check.h"
#include "client/job.h"
#include "client/offsets.h"
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
        offsets_(0, bench.source().size(), row.size, Offsets::Order::random, std::random_device()()),
        entries_(row.count),
        events_(row.count),
        batch_((bench.open_driver(), row.count)) {
    const CUfileHandle_t file = bench.source_handle();
    if (row.registered) registration_.emplace(memory_.pointer(), row.size * row.count);
    for (unsigned i = 0; i < row.count; ++i) {
      entries_[i] = {};
      entries_[i].mode = CUFILE_BATCH;
      entries_[i].fh = file;
      entries_[i].opcode = CUFILE_READ;
      entries_[i].cookie = &entries_[i];
      entries_[i].u.batch.devPtr_base = memory_.pointer();
      entries_[i].u.batch.devPtr_offset = static_cast<off_t>(i * row.size);
      entries_[i].u.batch.size = row.size;
    }
  }

  std::uint64_t check() override {
    const unsigned rounds = checks_of(row_.size * row_.count);
    bench_.workers().run(1, [&](unsigned) {
      for (unsigned i = 0; i < rounds; ++i) {
        poison(bench_.gpu(), memory_.address(), row_.size * row_.count);
        round([&] { return offsets_.anywhere(bench_.source().alignment()); });
        compare();
      }
    });
    return std::uint64_t{rounds} * row_.size * row_.count;
  }

  Sample run(double seconds) override {
    return measure(bench_.workers(), 1, seconds, [&](unsigned) { return round([&] { return offsets_.next(); }); });
  }

  std::uint64_t check_last() override {
    bench_.workers().run(1, [&](unsigned) { compare(); });
    return std::uint64_t{row_.size} * row_.count;
  }

 private:
  template <typename Place>
  std::uint64_t round(const Place& place) {
    for (CUfileIOParams_t& entry : entries_) entry.u.batch.file_offset = static_cast<off_t>(place());
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
      want_device_pattern(bench_.gpu(), memory_.address() + i * row_.size, row_.size,
                          static_cast<std::uint64_t>(entries_[i].u.batch.file_offset), row_);
    }
  }

  Bench& bench_;
  Row row_;
  DeviceMemory memory_;
  std::optional<RegisteredBuffer> registration_;
  Offsets offsets_;
  std::vector<CUfileIOParams_t> entries_;
  std::vector<CUfileIOEvents_t> events_;
  BatchHandle batch_;
};

}  // namespace

std::unique_ptr<Job> make_batch(Bench& bench, const Row& row) {
  return std::make_unique<BatchJob>(bench, row);
}

}  // namespace sluice::bench
