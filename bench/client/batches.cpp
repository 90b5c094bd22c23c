// Rows of batches: all entries submitted at once, and awaited together. Reads lie at random places of the file; writes
// follow each other, so that none overwrites another.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
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
        writes_(row.operation == Operation::batch_write),
        file_(writes_ ? bench.target() : bench.source()),
        memory_(bench.gpu(), row.size * row.count),
        offsets_(0, file_.size(), row.size, writes_ ? Offsets::Order::ascending : Offsets::Order::random,
                 std::random_device()()),
        entries_(row.count),
        events_(row.count),
        batch_((bench.open_driver(), row.count)) {
    const CUfileHandle_t file = writes_ ? bench.target_handle() : bench.source_handle();
    if (file_.size() / row.size < row.count) throw Trouble(file_.path() + " is too small for " + row.name);
    if (row.registered) registration_.emplace(memory_.pointer(), row.size * row.count);
    for (unsigned i = 0; i < row.count; ++i) {
      entries_[i] = {};
      entries_[i].mode = CUFILE_BATCH;
      entries_[i].fh = file;
      entries_[i].opcode = writes_ ? CUFILE_WRITE : CUFILE_READ;
      entries_[i].cookie = &entries_[i];
      entries_[i].u.batch.devPtr_base = memory_.pointer();
      entries_[i].u.batch.devPtr_offset = static_cast<off_t>(i * row.size);
      entries_[i].u.batch.size = row.size;
    }
    if (writes_) renew();
  }

  std::uint64_t check() override {
    const unsigned rounds = checks_of(row_.size * row_.count);
    bench_.workers().run(1, [&](unsigned) {
      for (unsigned i = 0; i < rounds; ++i) {
        if (writes_) {
          renew();
          round([&] { return offsets_.next(); });
        } else {
          poison(bench_.gpu(), memory_.address(), row_.size * row_.count);
          round([&] { return offsets_.anywhere(file_.alignment()); });
        }
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

  // Other bytes than before: what an earlier run has left in the file does not pass for written.
  void renew() {
    salt_ = std::random_device()() | 1U;
    std::vector<std::byte> bytes(row_.size * row_.count);
    fill_pattern(bytes, 0, salt_);
    fill_device(bench_.gpu(), memory_.address(), bytes);
  }

  void compare() const {
    for (unsigned i = 0; i < row_.count; ++i) {
      const auto offset = static_cast<std::uint64_t>(entries_[i].u.batch.file_offset);
      if (writes_) {
        compare_written(i * row_.size, offset);
      } else {
        want_device_pattern(bench_.gpu(), memory_.address() + i * row_.size, row_.size, offset, row_);
      }
    }
  }

  // Plain reads of an O_DIRECT file need aligned memory.
  void compare_written(std::uint64_t from, std::uint64_t offset) const {
    const std::unique_ptr<std::byte, void (*)(void*)> bytes(
        static_cast<std::byte*>(std::aligned_alloc(4096, (row_.size + 4095) / 4096 * 4096)), std::free);
    if (bytes == nullptr) throw Trouble("memory is exhausted");
    want_all(::pread(file_.descriptor(), bytes.get(), row_.size, static_cast<off_t>(offset)), row_.size, "pread");
    want_pattern({bytes.get(), row_.size}, from, salt_, row_);
  }

  Bench& bench_;
  Row row_;
  const bool writes_;
  const TestFile& file_;
  std::uint64_t salt_ = 0;  // of what the memory holds, when it is to be written
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
