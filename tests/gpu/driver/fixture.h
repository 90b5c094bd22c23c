// SPDX-License-Identifier: Apache-2.0
// What the tests of the driver share: a context, memory and streams that clean up, and a gate that holds a stream.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "driver_calls.h"

namespace sluice::gpu_suite {

// The primary context of device 0 is current. Every test leaves the stack as it found it.
class Driver : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  cuda::Context context() const { return context_; }

 private:
  cuda::Context context_ = nullptr;
};

class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t size);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  Ptr at(std::size_t offset = 0) const { return address_ + offset; }
  std::size_t size() const { return size_; }
  std::vector<std::uint8_t> bytes() const;  // a synchronous copy of its contents

 private:
  std::size_t size_;
  Ptr address_ = 0;
};

class PinnedBuffer {
 public:
  explicit PinnedBuffer(std::size_t size, unsigned flags = 0);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  std::uint8_t* data() const { return data_; }
  Ptr at(std::size_t offset = 0) const { return reinterpret_cast<Ptr>(data_ + offset); }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::uint8_t* data_ = nullptr;
};

// A copy of two rows, one behind the other: drivers give it to a copy engine, however short it is.
inline cuda::Copy2D two_rows(Ptr to, const void* from, std::size_t width) {
  cuda::Copy2D rows{};
  rows.from_type = cuda::memory_host;
  rows.from_host = from;
  rows.to_type = cuda::memory_device;
  rows.to_device = to;
  rows.width = rows.from_pitch = rows.to_pitch = width;
  rows.height = 2;
  return rows;
}

class Stream {
 public:
  explicit Stream(unsigned flags = cuda::stream_non_blocking);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cuda::Stream get() const { return stream_; }

 private:
  cuda::Stream stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = 0);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cuda::Event get() const { return event_; }

 private:
  cuda::Event event_ = nullptr;
};

// Holds a stream from here on until it is opened, by a host function that waits. While it is closed, nothing that may
// synchronise implicitly (allocating, freeing) may be called: a real driver would hang.
class Gate {
 public:
  explicit Gate(cuda::Stream stream);
  ~Gate();  // opens
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open();

 private:
  std::shared_ptr<std::atomic<bool>> open_;
};

// A special handle.
inline cuda::Stream legacy_stream() {
  return reinterpret_cast<cuda::Stream>(std::uintptr_t{1});
}
inline cuda::Stream per_thread_stream() {
  return reinterpret_cast<cuda::Stream>(std::uintptr_t{2});
}

// Bytes that differ from place to place, and from seed to seed.
std::vector<std::uint8_t> pattern(std::size_t size, unsigned seed);

}  // namespace sluice::gpu_suite
