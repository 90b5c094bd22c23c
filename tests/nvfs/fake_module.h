// SPDX-License-Identifier: Apache-2.0
// A stand-in for nvidia-fs.ko in this process. The test program defines open, mmap, munmap and ioctl itself, and the
// loader gives them to the library: the module's nodes, its files in /proc and the kernel's list of symbols are
// answered from here, all else goes to the kernel. It keeps to the module's rules as they were tried one by one against
// the real one: what is refused and how, what a call leaves behind, and what a driver without hooks does.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice::nvfs_test {

struct Machine {
  bool loaded = true;
  std::string version = "2.28";
  int nodes = 16;
  int open_error = 0;                                   // of the nodes, where they cannot be opened
  std::string modules = "nvme: (null)\nwekafsio: 1\n";  // once a node has been opened
  std::string symbols = "0000000000000000 T nvme_v1_register_nvfs_dma_ops\t[loop]\n";
};

// What the next calls are to do, instead of what they would.
struct Fault {
  enum class Kind : std::uint8_t { none, fail, shorten, nothing, lie_about_a_hole, spoil_the_page };
  Kind kind = Kind::none;
  std::int64_t value = 0;  // an errno, or bytes
};

class FakeModule {
 public:
  explicit FakeModule(Machine machine = {});
  ~FakeModule();
  FakeModule(const FakeModule&) = delete;
  FakeModule& operator=(const FakeModule&) = delete;

  // Device memory is what a mapping of a file with this in its name shows.
  static constexpr const char* device_memory = "sluice-backing";

  // A driver that has no hooks: reads arrive in the shadow buffer, writes come from it, and all is well, as it says.
  void set_hooked(bool hooked);
  // For the calls that move, behind the next `skip`.
  void plan(Fault fault, std::size_t skip = 0, std::size_t count = 1);
  void refuse_maps(int error, std::size_t count);
  // At most so many bytes of device memory can be pinned at a time; more: ENOMEM.
  void set_bar(std::uint64_t bytes);
  // Asynchronous calls end before they return, as those of some file systems do; else a thread of the stand-in ends
  // them.
  void end_at_once(bool at_once);
  // Asynchronous calls wait until they are released.
  void hold();
  void release();
  void wait_until_held(std::size_t calls);
  // Device memory is freed early: its mappings die, once the call under way has ended.
  void free_device_memory(std::uint64_t begin, std::uint64_t length);

  struct Counts {
    std::size_t maps = 0, unmaps = 0, live = 0, reads = 0, writes = 0, synchronous = 0, refused_busy = 0;
    std::size_t most_at_once = 0;
    std::uint64_t moved = 0;  // bytes, straight between file and device memory
    std::size_t nodes_open = 0;
  };
  Counts counts();

  // For the interposed functions.
  static FakeModule* present();
  bool owns(int fd);
  int open_special(const char* path, bool& is_ours);
  void* map_shadow(std::size_t length, int protection, int flags, std::int64_t offset);
  bool unmap_shadow(void* address, std::size_t length);
  int call(unsigned long number, void* argument);
  void closed(int fd);

 private:
  struct Shadow {
    std::uint64_t address = 0, length = 0;
    bool is_mapped = false, in_use = false, is_dead = false;
    std::uint64_t gpu = 0, gpu_length = 0;
    std::byte* fence = nullptr;
  };
  using ShadowRef = std::shared_ptr<Shadow>;
  struct Job;

  std::int64_t map(void* argument);
  std::int64_t begin_io(bool is_read, void* argument);
  static std::int64_t check(const void* argument, const Shadow& shadow);
  void work();
  void finish(Job& job);
  static void tell(const Job& job, std::int64_t moved);
  std::int64_t move(Job& job);
  std::int64_t read_into(Job& job, std::uint64_t length);
  Fault next_fault();
  std::uint64_t pinned() const;

  const Machine machine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, ShadowRef> shadows_;  // by address
  std::map<int, bool> nodes_;
  std::deque<Job> jobs_;
  std::vector<std::thread> workers_;
  Counts counts_;
  Fault fault_;
  std::size_t fault_skip_ = 0, fault_count_ = 0;
  int map_error_ = 0;
  std::size_t map_refusals_ = 0;
  std::uint64_t bar_ = ~std::uint64_t{0};
  std::size_t at_once_ = 0, held_ = 0;
  bool hooked_ = true, ends_at_once_ = false, holding_ = false, ending_ = false;
};

}  // namespace sluice::nvfs_test
