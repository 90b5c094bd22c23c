// SPDX-License-Identifier: Apache-2.0
// A device's memory, and address ranges in which nothing is mapped for the host.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "host_view.h"
#include "knobs.h"
#include "ranges.h"

namespace sluice::softgpu {

// What a page of device memory is: cuMemAlloc's large allocations and VMM work in multiples of it.
inline constexpr std::uint64_t device_page = std::uint64_t{2} << 20U;

// Of the machine that stands in for a device.
inline std::uint64_t host_page_size() noexcept {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// A reserved range of the process's address space, aligned to device_page, in which every host access faults. Never
// given back: a device address never turns into host memory of the program.
class AddressRange {
 public:
  // Throws Refusal (out of memory) when the process has no room for it.
  explicit AddressRange(std::uint64_t size);
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  ~AddressRange() = default;

  std::uint64_t start() const { return start_; }
  std::uint64_t size() const { return size_; }
  bool contains(std::uint64_t address) const { return address - start_ < size_; }

 private:
  std::uint64_t start_ = 0;
  std::uint64_t size_;
};

// The host's view of a device's memory: a mapping that is readable and writable, at an address that only this driver
// knows. A memory file of our own, or what SLUICE_SOFTGPU_BACKING names.
class Backstore {
 public:
  // A memory file of so many bytes. Throws Refusal, as does the other.
  Backstore(int ordinal, std::uint64_t size);
  // The file or device mapping that the knob names, at most `most` bytes of it unless it says how many.
  Backstore(const Backing& backing, std::uint64_t most);
  Backstore(const Backstore&) = delete;
  Backstore& operator=(const Backstore&) = delete;
  ~Backstore();  // only where a machine could not be made

  std::byte* bytes() const { return bytes_; }
  std::uint64_t size() const { return size_; }
  // Whether it is a file or device mapping that was given, so that I/O into it reaches what the giver sees.
  bool is_given() const { return given_; }
  // Not so where it is the memory of another device, which is mapped as a whole.
  bool has_file() const { return file_ >= 0; }
  // A second mapping of a range of it. Throws Refusal (operating system) where a device mapping was given.
  std::byte* map_again(std::uint64_t first, std::uint64_t size) const;
  // The same at a certain address, in the place of what is mapped there.
  void map_at(void* place, std::uint64_t first, std::uint64_t size) const;
  // A descriptor of its own for the memory file, which stands at `first`. Throws Refusal (not supported) without one.
  int open_at(std::uint64_t first) const;
  // It is about to be used: its pages come at once, where there are not too many. One by one each takes a fault, which
  // is most of what small tests take on a machine that is a virtual one.
  void prepare(std::uint64_t first, std::uint64_t size) const noexcept;
  // What is there is not needed any more: pages go back to the system if there are many. What was given is left as it
  // is.
  void forget(std::uint64_t first, std::uint64_t last) const noexcept;

 private:
  bool given_ = false;
  int file_ = -1;             // our own memory file, or the one that was given: what we hold of it is locked
  std::uint64_t offset_ = 0;  // in that file
  std::uint64_t size_ = 0;
  std::byte* bytes_ = nullptr;
};

// A device's memory. The program gets addresses in a range in which nothing is mapped, so a stray host access faults
// as it would on a GPU; the bytes are in the backstore. With SLUICE_SOFTGPU_COHERENT=1 what is taken is mapped at its
// address, for as long as it is.
class DeviceMemory {
 public:
  DeviceMemory(int ordinal, const Knobs& knobs);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() = default;

  std::uint64_t size() const { return range_.size(); }
  std::uint64_t available() const;
  bool contains(std::uint64_t address) const { return range_.contains(address); }
  bool is_given() const { return backstore_.is_given(); }
  bool has_file() const { return backstore_.has_file(); }
  // Whether the driver says that the host finds this memory at the addresses of the device. With 2 it does not.
  bool tells_host_addresses() const { return coherent_ == 1 || coherent_ == 2; }

  // Throws Refusal (out of memory). An offset into the memory.
  std::uint64_t take(std::uint64_t size, std::uint64_t alignment);
  void give_back(std::uint64_t offset, std::uint64_t size) noexcept;

  std::uint64_t address(std::uint64_t offset) const { return range_.start() + offset; }
  std::byte* map_again(std::uint64_t address, std::uint64_t size) const {
    return backstore_.map_again(address - range_.start(), size);
  }
  std::byte* bytes(std::uint64_t offset) const { return backstore_.bytes() + offset; }
  // Of bytes that the driver reaches in this memory.
  int open_at(const std::byte* bytes) const {
    return backstore_.open_at(static_cast<std::uint64_t>(bytes - backstore_.bytes()));
  }
  bool holds(const std::byte* bytes) const {
    return static_cast<std::uint64_t>(bytes - backstore_.bytes()) < backstore_.size();
  }

 private:
  // With the lock held: whole pages, of which a neighbour may have a part.
  void show(std::uint64_t offset, std::uint64_t size) const;
  void hide(std::uint64_t first, std::uint64_t last) const noexcept;

  Backstore backstore_;
  AddressRange range_;
  const unsigned coherent_;  // as the knob says
  mutable std::mutex mutex_;
  Ranges ranges_;
};

// A piece of a device's memory, given back when the last allocation, handle and copy that uses it is gone.
class DeviceStorage {
 public:
  DeviceStorage(DeviceMemory& memory, std::uint64_t size);
  ~DeviceStorage();
  DeviceStorage(const DeviceStorage&) = delete;
  DeviceStorage& operator=(const DeviceStorage&) = delete;

  std::uint64_t address() const { return memory_.address(offset_); }
  std::byte* bytes() const { return memory_.bytes(offset_); }
  std::uint64_t size() const { return size_; }

  // A view of the pages from this address on, which may lie before the storage: withdrawn when the storage goes.
  std::shared_ptr<HostView> view_from(std::uint64_t address, std::uint64_t size);

 private:
  DeviceMemory& memory_;
  std::uint64_t size_;
  std::uint64_t offset_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<HostView>> views_;
};

// Page-aligned host memory of our own: pinned and managed allocations.
class HostStorage {
 public:
  explicit HostStorage(std::uint64_t size);
  ~HostStorage();
  HostStorage(const HostStorage&) = delete;
  HostStorage& operator=(const HostStorage&) = delete;

  std::byte* bytes() const { return bytes_; }

 private:
  std::uint64_t size_;
  std::byte* bytes_;
};

}  // namespace sluice::softgpu
