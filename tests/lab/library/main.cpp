// SPDX-License-Identifier: Apache-2.0
// lab_library: reads and writes a file through the public C API, on device memory that lies in a PCI device.
//
//   lab_library NAME FILE direct|copied|unpromised [fixed]
//
// NAME begins the names of the rows. "direct": the bytes of whole blocks are moved by the drive's DMA into and out of
// device memory. "copied": no drive's DMA reaches device memory. "unpromised": nothing is said of that. "fixed": FILE
// is a block device, which cannot grow. The environment is that of lab_probe, and the soft GPU's:
// SLUICE_SOFTGPU_BACKING names the provider's memory. LAB_DEVICE chooses the device, else it is the first.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lab/probe/rows.h"
#include "lab/probe/system.h"
#include "lab/streamed.h"
#include "sluice.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/memory.h"
#include "support/random.h"

namespace sluice::lab {

namespace {

using support::Bytes;

constexpr std::size_t kBlock = 4096;
// The processor reaches emulated device memory eight bytes at a time: sizes are small.
constexpr std::size_t kLarge = std::size_t{256} << 10U;
constexpr std::size_t kSize = 4 * kLarge;
// Of a batch: more than are on their way at a time. Streams share as many transfers.
constexpr std::size_t kEntries = 24;
constexpr std::size_t kEntry = 2 * kBlock;
constexpr unsigned char kBefore = 0x11;

enum class Way : std::uint8_t { direct, copied, unpromised };
enum class Growth : std::uint8_t { may_grow, fixed };

// Aligned requests have a number of bytes that the drive must have moved; for others it is up to the library.
struct Shape {
  const char* what;
  std::uint64_t file_offset;
  std::uint64_t memory_offset;
  std::size_t size;
};

constexpr Shape kAligned{"aligned", kBlock, kBlock, kLarge};
constexpr Shape kRegistered{"aligned, into a registered buffer", kBlock, kBlock, kLarge};
constexpr Shape kSmall{"of one block", 3 * kBlock, 0, kBlock};
constexpr Shape kRagged{"ragged at both ends, memory and file in step", 5 * kBlock + 100, kBlock + 100, 100001};
constexpr Shape kOdd{"out of step with the blocks", 2 * kBlock + 7, kBlock + 3, 70000};

class Checks {
 public:
  Checks(std::string name, const std::string& path, Way way, int device)
      : name_(std::move(name)),
        way_(way),
        file_(path, O_RDWR | O_CREAT | O_DIRECT),
        plain_(path, O_RDWR),
        handle_(file_.get()),
        memory_(support::MemoryKind::device, 2 * kLarge, device),
        content_(support::random_bytes(kSize, 0x1ab)) {
    put_content();
    // The trial, if there is to be one, is made here: what a stretch tells is the transfer's alone.
    sluice_explanation_t ignored{};
    if (auto* const explain = support::entry<decltype(sluice_explain)>("sluice_explain")) {
      explain(handle_.get(), memory_.address(), 0, CUFILE_READ, 0, 0, &ignored);
    }
  }

  void read(const Shape& shape) {
    memory_.fill(kBefore);
    Stretch stretch;
    const support::Transfer transfer =
        support::read_file(handle_.get(), memory_.address(), shape.size, static_cast<off_t>(shape.file_offset),
                           static_cast<off_t>(shape.memory_offset));
    stretch.end();
    const std::size_t expected = std::min<std::size_t>(shape.size, kSize - shape.file_offset);
    std::string why = differs(transfer, expected);
    if (why.empty()) why = memory_differs(shape, expected);
    finish(stretch, std::string("read ") + shape.what, "read", why, shape);
  }

  void read_registered(const Shape& shape) {
    const support::Registration registration(memory_);
    read(shape);
  }

  void write(const Shape& shape) {
    const Bytes written = support::random_bytes(shape.size, 0x1ac);
    memory_.put(shape.memory_offset, written);
    Stretch stretch;
    const support::Transfer transfer =
        support::write_file(handle_.get(), memory_.address(), shape.size, static_cast<off_t>(shape.file_offset),
                            static_cast<off_t>(shape.memory_offset));
    stretch.end();
    std::string why = differs(transfer, shape.size);
    Bytes expected = content_;
    std::copy(written.begin(), written.end(), expected.begin() + static_cast<std::ptrdiff_t>(shape.file_offset));
    if (why.empty() && support::plain_read(plain_.get(), 0, kSize) != expected) why = "the file holds something else";
    finish(stretch, std::string("write ") + shape.what, "write", why, shape);
    put_content();
  }

  // Pieces that a drive may move as a whole, several at a time: first all are read, then all written. `Several` is a
  // batch, or streams.
  template <typename Several>
  void several(const std::string& what, Several&& reads, Several&& writes) {
    memory_.fill(kBefore);
    Stretch read_stretch;
    for (std::size_t i = 0; i < kEntries; ++i) {
      reads.read(handle_.get(), memory_, kEntry, (kEntries - 1 - i) * kEntry, i * kEntry);
    }
    const std::vector<ssize_t> counts = reads.run();
    read_stretch.end();
    Bytes expected(memory_.size(), kBefore);
    for (std::size_t i = 0; i < kEntries; ++i) {
      std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>((kEntries - 1 - i) * kEntry), kEntry,
                  expected.begin() + static_cast<std::ptrdiff_t>(i * kEntry));
    }
    finish(read_stretch, what + " of reads", "read", all_differs(counts, expected), kEntries * kEntry);

    const Bytes written = support::random_bytes(kEntries * kEntry, 0x1ad);
    memory_.put(0, written);
    Stretch write_stretch;
    for (std::size_t i = 0; i < kEntries; ++i) writes.write(handle_.get(), memory_, kEntry, i * kEntry, i * kEntry);
    const std::vector<ssize_t> puts = writes.run();
    write_stretch.end();
    std::string why = all_whole(puts);
    if (why.empty() && support::plain_read(plain_.get(), 0, written.size()) != written)
      why = "the file holds something else";
    finish(write_stretch, what + " of writes", "write", why, kEntries * kEntry);
    put_content();
  }

  // Half of the pieces are nothing for a drive: out of step with the blocks, or for host memory.
  template <typename Several>
  void mixed(const std::string& what, Several&& reads) {
    memory_.fill(kBefore);
    const support::Memory host(support::MemoryKind::plain, kEntries * kEntry);
    Bytes expected(memory_.size(), kBefore);
    for (std::size_t i = 0; i < kEntries; ++i) {
      const std::size_t at = i * kEntry;
      const bool odd = i % 4 == 1;
      if (i % 4 == 3) {
        reads.read(handle_.get(), host, kEntry, at, at);
        continue;
      }
      reads.read(handle_.get(), memory_, odd ? kBlock - 100 : kEntry, odd ? at + 7 : at, odd ? at + 3 : at);
      std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(odd ? at + 7 : at), odd ? kBlock - 100 : kEntry,
                  expected.begin() + static_cast<std::ptrdiff_t>(odd ? at + 3 : at));
    }
    const std::vector<ssize_t> counts = reads.run();
    std::string why;
    for (std::size_t i = 0; i < kEntries && why.empty(); ++i) {
      const auto wanted = static_cast<ssize_t>(i % 4 == 1 ? kBlock - 100 : kEntry);
      if (counts[i] != wanted) why = "entry " + std::to_string(i) + " answered " + std::to_string(counts[i]);
    }
    if (why.empty() && memory_.get() != expected) why = "device memory differs";
    for (std::size_t i = 3; i < kEntries && why.empty(); i += 4) {
      const auto bytes = host.get(i * kEntry, kEntry);
      if (!std::equal(bytes.begin(), bytes.end(), content_.begin() + static_cast<std::ptrdiff_t>(i * kEntry))) {
        why = "host memory differs";
      }
    }
    row(name_ + ": " + what + " of which half are not for a drive", why);
  }

  // The transfer ends, with blocks that are in place, as a bad address, or, where the memory went before the transfer
  // had looked at all of it, as memory that is too short; and what comes next is right.
  void free_in_flight(int device) {
    std::string why;
    for (int round = 0; round < 4 && why.empty(); ++round) {
      support::Memory freed(support::MemoryKind::device, kSize, device);
      std::atomic<bool> begun = false;
      support::Transfer transfer;
      std::thread reader([&] {
        begun = true;
        transfer = support::read_file(handle_.get(), freed.address(), kSize);
      });
      while (!begun) std::this_thread::yield();
      freed.free();
      reader.join();
      const bool whole_blocks = transfer.count >= 0 && transfer.count % static_cast<ssize_t>(kBlock) == 0;
      const bool gone = transfer == support::failed(EPERM);
      if (!whole_blocks && !gone) why = differs(transfer, kSize);
    }
    row(name_ + ": memory that is freed in flight", why);
    read({"aligned, after that", kBlock, kBlock, kLarge});
  }

  // Past the count nothing may change, though a direct read by itself overwrites memory there.
  void read_across_the_end() {
    if (ftruncate(plain_.get(), kSize - 3192) != 0 || fsync(plain_.get()) != 0) {
      throw std::runtime_error("the file cannot be cut");
    }
    constexpr std::size_t kLeft = kLarge - 3192;
    memory_.fill(kBefore);
    const support::Transfer transfer =
        support::read_file(handle_.get(), memory_.address(), 2 * kLarge, static_cast<off_t>(kSize - kLarge), 0);
    std::string why = differs(transfer, kLeft);
    if (why.empty()) why = memory_differs({"", kSize - kLarge, 0, kLeft}, kLeft);
    row(name_ + ": read across the end of the file", why);
    put_content();
  }

 private:
  static std::string differs(support::Transfer transfer, std::size_t expected) {
    if (transfer == support::moved(expected)) return "";
    return "answered " + std::to_string(transfer.count) + ", errno " + std::to_string(transfer.error) + " where " +
           std::to_string(expected) + " was expected";
  }

  // The range holds the file's bytes, all else what it held before.
  std::string memory_differs(const Shape& shape, std::size_t count) const {
    Bytes expected(memory_.size(), kBefore);
    const auto from = content_.begin() + static_cast<std::ptrdiff_t>(shape.file_offset);
    std::copy(from, from + static_cast<std::ptrdiff_t>(count),
              expected.begin() + static_cast<std::ptrdiff_t>(shape.memory_offset));
    const ::testing::AssertionResult same = support::same_bytes(expected, memory_.get());
    return same ? "" : std::string("device memory differs: ") + same.message();
  }

  static std::string all_whole(const std::vector<ssize_t>& counts) {
    const auto odd = std::find_if(counts.begin(), counts.end(), [](ssize_t count) { return count != ssize_t{kEntry}; });
    return odd == counts.end() ? "" : "an entry answered " + std::to_string(*odd);
  }

  std::string all_differs(const std::vector<ssize_t>& counts, const Bytes& expected) const {
    std::string why = all_whole(counts);
    if (!why.empty()) return why;
    const ::testing::AssertionResult same = support::same_bytes(expected, memory_.get());
    return same ? "" : std::string("device memory differs: ") + same.message();
  }

  void put_content() {
    support::plain_write(plain_.get(), 0, content_);
    fsync(plain_.get());
  }

  void finish(Stretch& stretch, const std::string& what, const std::string& operation, const std::string& why,
              const Shape& shape) {
    const bool aligned =
        shape.file_offset % kBlock == 0 && shape.memory_offset % kBlock == 0 && shape.size % kBlock == 0;
    finish(stretch, what, operation, why, aligned ? shape.size : 0);
  }

  // `for_a_drive`: how many of its bytes a drive moves where drives do; 0: not known.
  void finish(Stretch& stretch, const std::string& what, const std::string& operation, const std::string& why,
              std::size_t for_a_drive) {
    const std::string name = name_ + ": " + what;
    row(name, why);
    if (!why.empty()) return;
    if (way_ == Way::copied) {
      stretch.promise(name, operation, 0);
    } else if (way_ == Way::direct && for_a_drive > 0) {
      stretch.promise(name, operation, for_a_drive);
    }
  }

  std::string name_;
  Way way_;
  File file_;
  File plain_;
  support::Handle handle_;
  support::Memory memory_;
  Bytes content_;
};

// What the library counted: pieces that the drive moved, and how many of them ended by polling.
void print_counts(const std::string& name) {
  auto* const pairs = support::entry<decltype(sluice_direct_pairs)>("sluice_direct_pairs");
  if (pairs == nullptr) return;
  const auto print = [](const sluice_direct_pair_t* pair, void* of) {
    std::printf("direct %s: %llu pieces, %llu polled, %llu rerouted; %s\n", static_cast<const char*>(of),
                static_cast<unsigned long long>(pair->transfers), static_cast<unsigned long long>(pair->polled),
                static_cast<unsigned long long>(pair->rerouted), pair->sentence);
  };
  pairs(print, const_cast<char*>(name.c_str()));
}

void check(const std::string& name, const std::string& path, Way way, Growth growth) {
  if (support::cuda() == nullptr) throw std::runtime_error("there is no CUDA driver, not even a soft one");
  const char* const chosen = std::getenv("LAB_DEVICE");
  const int device = chosen != nullptr ? std::stoi(chosen) : 0;
  const support::ContextScope context(support::primary_context(device));
  {
    Checks checks(name, path, way, device);
    for (const Shape& shape : {kAligned, kSmall, kRagged, kOdd}) {
      checks.read(shape);
      checks.write(shape);
    }
    checks.several("batch", support::Batch(kEntries), support::Batch(kEntries));
    checks.mixed("batch", support::Batch(kEntries));
    checks.several("streams", Streamed(), Streamed());
    checks.mixed("streams", Streamed());
    if (way == Way::direct) {
      checks.read_registered(kRegistered);
      checks.free_in_flight(device);
    }
    if (growth == Growth::may_grow) checks.read_across_the_end();
    print_counts(name);
  }
  support::close_driver_fully();
}

}  // namespace

}  // namespace sluice::lab

int main(int argc, char** argv) {
  using namespace sluice::lab;
  const std::string way = argc > 3 ? argv[3] : "";
  if ((way != "direct" && way != "copied" && way != "unpromised") || argc > 5) {
    std::fprintf(stderr, "usage: lab_library NAME FILE direct|copied|unpromised [fixed]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    check(argv[1], argv[2],
          way == "direct"   ? Way::direct
          : way == "copied" ? Way::copied
                            : Way::unpromised,
          argc == 5 ? Growth::fixed : Growth::may_grow);
  } catch (const std::exception& failure) {
    row(std::string(argv[1]) + ": the library can be tried", failure.what());
  }
  return failures() == 0 ? 0 : 1;
}
