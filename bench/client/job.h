// SPDX-License-Identifier: Apache-2.0
// A row made ready: memory allocated, files and buffers registered, bytes checked; then measured as often as wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/files.h"
#include "client/gpu.h"
#include "client/library.h"
#include "client/row.h"
#include "client/sample.h"
#include "client/workers.h"

namespace sluice::bench {

// What all rows of a client share. Files are opened and registered with the first row that needs them.
class Bench {
 public:
  Bench(std::string path, Opened how, std::uint64_t source_size, std::uint64_t target_size)
      : path_(std::move(path)), how_(how), source_size_(source_size), target_size_(target_size) {}

  const Gpu& gpu() const { return gpu_; }
  // All that the process sees, gpu() first. With the first call it works with each of them; gpu() stays the current
  // one.
  const std::vector<const Gpu*>& gpus();
  Workers& workers() { return workers_; }
  const std::string& path() const { return path_; }
  Opened how() const { return how_; }
  const TestFile& source();
  const TestFile& target();
  CUfileHandle_t source_handle();
  CUfileHandle_t target_handle();
  void open_driver();

 private:
  std::string path_;
  Opened how_;
  std::uint64_t source_size_;
  std::uint64_t target_size_;
  Gpu gpu_;
  std::vector<std::unique_ptr<Gpu>> others_;
  std::vector<const Gpu*> gpus_;
  std::optional<OpenDriver> driver_;
  std::optional<TestFile> source_;
  std::optional<TestFile> target_;
  std::optional<RegisteredFile> source_handle_;
  std::optional<RegisteredFile> target_handle_;
  Workers workers_{gpu_};
};

class Job {
 public:
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  virtual ~Job() = default;

  // Moves bytes at random places and compares them; how many were compared. Throws Trouble when one is wrong.
  virtual std::uint64_t check() = 0;
  virtual Sample run(double seconds) = 0;
  // Compares what the last measured steps have left behind.
  virtual std::uint64_t check_last() = 0;
};

// Throws Trouble when this machine or library cannot do it.
std::unique_ptr<Job> make_job(Bench& bench, const Row& row);

// Those of each family.
std::unique_ptr<Job> make_read(Bench& bench, const Row& row);
std::unique_ptr<Job> make_write(Bench& bench, const Row& row);
std::unique_ptr<Job> make_batch(Bench& bench, const Row& row);
std::unique_ptr<Job> make_async(Bench& bench, const Row& row);
std::unique_ptr<Job> make_plain(Bench& bench, const Row& row);
std::unique_ptr<Job> make_link(Bench& bench, const Row& row);
std::unique_ptr<Job> make_link_kernel(Bench& bench, const Row& row);
std::unique_ptr<Job> make_copy(Bench& bench, const Row& row);
std::unique_ptr<Job> make_bells(Bench& bench, const Row& row);
std::unique_ptr<Job> make_cycle(Bench& bench, const Row& row);
std::unique_ptr<Job> make_held(Bench& bench, const Row& row);
std::unique_ptr<Job> make_idle(Bench& bench, const Row& row);
// The same row while a product of `row.product` keeps the device busy, or the other ones.
std::unique_ptr<Job> beside_product(Bench& bench, const Row& row, std::unique_ptr<Job> job);

}  // namespace sluice::bench
