// SPDX-License-Identifier: Apache-2.0
// The CUDA driver that a tool of ours works with: the machine's own, or the soft GPU when there is none that works.
//
// The choice is made once, before the first cuFile call: the library asks the loader for "libcuda.so.1" later and gets
// the driver that is loaded by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::tools {

enum class DriverKind : std::uint8_t { none, soft, real };

// "none", "soft", "real".
const char* driver_kind_name(DriverKind kind);

struct Driver {
  DriverKind kind = DriverKind::none;
  std::string path;  // of the libcuda.so.1 in use; "" for none
  int version = 0;   // of the CUDA driver API: 13000 for 13.0
  int devices = 0;
  std::string why_not_real;  // one clause, "" when the real one is in use: "no libcuda.so.1 was found"
};

// Finds, loads and initialises the driver; the second and later calls return the first answer. SLUICE_SOFTGPU=1 in
// the environment asks for the soft GPU without a look at the real one. May execute this program anew (with
// SLUICE_SOFTGPU=1 set) when a real driver was loaded, does not work, and cannot be unloaded: call it before anything
// is printed or opened.
const Driver& choose_driver();

// Throws ToolError when there is no device of that number.
void want_device(int ordinal);

// One sentence for people about the device in use: "NVIDIA H200", "soft GPU (...)".
std::string describe_device(int ordinal);

// Of CUdevice_attribute; 0 where the driver does not tell.
int device_attribute(int ordinal, int attribute);

struct DriverCalls;  // driver.cpp

// Device memory of one GPU, by the driver API, for as long as this lives; its context is current on the thread that
// made it. Throws ToolError.
class DeviceMemory {
 public:
  DeviceMemory(int ordinal, std::size_t size);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  // The device address, as cuFileRead wants it.
  void* address() const noexcept;
  // Sets every byte of the memory. Throws ToolError.
  void fill(unsigned char value);
  // Copies `size` bytes from `offset` on to host memory. Throws ToolError.
  void copy_to(void* host, std::size_t offset, std::size_t size) const;

 private:
  const DriverCalls* calls_;
  std::uint64_t pointer_ = 0;
  std::size_t size_ = 0;
  int device_ = 0;
};

}  // namespace sluice::tools
