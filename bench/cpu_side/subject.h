// SPDX-License-Identifier: Apache-2.0
// What the CPU-side measurements call: a cached file of a few megabytes, registered, and memory to move it to.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "client/gpu.h"
#include "client/library.h"

namespace sluice::bench {

// A file without a name in the temporary folder, full of bytes.
class ScratchFile {
 public:
  ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();
  int descriptor() const { return descriptor_; }
  static constexpr std::size_t size = std::size_t{4} << 20;

 private:
  int descriptor_ = -1;
};

enum class Memory { host, device };

// One thread's request of `piece` bytes. Throws Trouble, also where an answer falls short.
class Subject {
 public:
  static constexpr std::size_t piece = 4096;
  static constexpr unsigned entries = 128;  // of a batch

  explicit Subject(Memory memory);
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  ~Subject();

  void read();
  void write();
  void read_batch();       // submitted at once, and awaited together
  void register_file();    // and deregister it: another descriptor of the same file
  void register_buffer();  // and deregister it

 private:
  off_t next();
  void set_up_batch();

  OpenDriver driver_;
  ScratchFile file_;
  ScratchFile other_;
  RegisteredFile handle_;
  std::vector<std::byte> host_;
  std::optional<Gpu> gpu_;
  std::optional<DeviceMemory> device_;
  void* memory_;
  off_t offset_ = 0;
  CUfileBatchHandle_t batch_ = nullptr;  // set up with its first use
  std::vector<CUfileIOParams_t> entries_;
  std::vector<CUfileIOEvents_t> events_;
};

}  // namespace sluice::bench
