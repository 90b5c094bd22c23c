// SPDX-License-Identifier: Apache-2.0
// Transfers under a driver that refuses calls: the soft GPU does so on request (SLUICE_SOFTGPU_FAIL). Whatever is
// refused, a call is refused clearly or works by another way, and no thread waits for ever.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <thread>
#include <vector>

#include "contract/life/scenario.h"
#include "sluice.h"
#include "support/batch.h"
#include "support/stream_gate.h"

namespace sluice::life {

using namespace support;

namespace {

constexpr std::size_t streams_count = 3;
constexpr std::size_t rounds = 8;
constexpr unsigned char untouched = 0x5a;
constexpr std::array<std::size_t, 3> sizes{4099, 100001, 300001};
constexpr std::size_t most = sizes.back();

struct Asked {
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t moved = -77;
};

// What the calls came to, all told.
struct Tally {
  int done = 0;
  int refused = 0;
  int failed = 0;
};

class Beset {
 public:
  Beset() {
    require(register_fd(fd_.get(), &handle_) == CU_FILE_SUCCESS, "registering the file");
    require(cuda()->stream_create(&streams_[0], 1) == 0 && cuda()->stream_create(&streams_[1], 1) == 0 &&
                cuda()->stream_create(&streams_[2], 0) == 0,
            "streams");
    if (const int answer = code(cuFileStreamRegister(streams_[1], 15)); answer != CU_FILE_SUCCESS) {
      require(answer == CU_FILE_CUDA_DRIVER_ERROR, "how a stream was refused");
    }
  }
  ~Beset() { cuFileHandleDeregister(handle_); }
  Beset(const Beset&) = delete;
  Beset& operator=(const Beset&) = delete;

  // A write of new bytes, and a read of them to another place, by one stream.
  void round(std::size_t stream, std::size_t size, unsigned char value) {
    const Bytes before = plain_read(fd_.get(), 0, most + 64);
    source_.fill(value);
    target_.fill(untouched);
    Asked write{size, 3, 5};
    Asked read{size, 3, 11};
    const bool wrote = answered(cuFileWriteAsync(handle_, source_.address(), &write.size, &write.file_offset,
                                                 &write.buffer_offset, &write.moved, streams_[stream]),
                                write);
    const bool took = answered(cuFileReadAsync(handle_, target_.address(), &read.size, &read.file_offset,
                                               &read.buffer_offset, &read.moved, streams_[stream]),
                               read);
    require(cuda()->stream_synchronize(streams_[stream]) == 0, "the stream is broken");
    const std::size_t written = wrote ? judged(write) : 0;
    const std::size_t got = took ? judged(read) : 0;
    const Bytes file = plain_read(fd_.get(), 0, most + 64);
    require(all_bytes(value, std::span(file).subspan(3, written)), "what was written");
    require(same_bytes(std::span(before).subspan(3 + written), std::span(file).subspan(3 + written)),
            "the file behind the count");
    require(same_bytes(std::span(file).subspan(3, got), target_.get(11, got)), "what was read");
    require(all_bytes(untouched, target_.get(11 + got, target_.size() - 11 - got)), "memory behind the count");
    require(all_bytes(untouched, target_.get(0, 11)), "memory in front of it");
  }
  const Tally& tally() const { return tally_; }

 private:
  // A refused call has done nothing, and says so.
  bool answered(CUfileError_t answer, const Asked& asked) {
    if (answer.err == CU_FILE_SUCCESS) return true;
    require(answer.err == CU_FILE_CUDA_DRIVER_ERROR, "how a call was refused");
    require(asked.moved == -77, "a refused call wrote its count");
    ++tally_.refused;
    return false;
  }
  // How many bytes; a failure tells its cause.
  std::size_t judged(const Asked& asked) {
    require(asked.moved != -77, "the stream went on without a count");
    if (asked.moved == static_cast<ssize_t>(asked.size)) {
      ++tally_.done;
      return asked.size;
    }
    ++tally_.failed;
    require(asked.moved < static_cast<ssize_t>(asked.size), "the count is larger than the size");
    return asked.moved > 0 ? static_cast<std::size_t>(asked.moved) : 0;
  }

  const ScratchFile file_{most + 64};
  const Fd fd_{file_.open(O_RDWR)};
  CUfileHandle_t handle_ = nullptr;
  std::array<CUstream, streams_count> streams_{};
  const Memory source_{MemoryKind::device, most + 64};
  const Memory target_{MemoryKind::device, most + 64};
  Tally tally_;
};

int streams_with_refused_calls() {
  if (cuda() == nullptr) skip("no CUDA device");
  if (!cuda()->soft) skip("only the soft GPU refuses calls on request");
  cuda()->context_push(primary_context(0));
  Beset beset;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t stream = 0; stream < streams_count; ++stream) {
      beset.round(stream, sizes.at((round + stream) % sizes.size()), static_cast<unsigned char>(round * 3 + stream));
    }
  }
  const Tally& tally = beset.tally();
  require(tally.done + tally.refused + tally.failed == 2 * static_cast<int>(rounds * streams_count), "calls were lost");
  say(std::to_string(tally.refused) + " refused, " + std::to_string(tally.failed) + " failed");
  return 0;
}

// Far more calls than there would be channels, if each refusal cost one.
int a_stream_that_nothing_serves() {
  if (cuda() == nullptr) skip("no CUDA device");
  if (!cuda()->soft) skip("only the soft GPU refuses calls on request");
  cuda()->context_push(primary_context(0));
  Beset beset;
  for (std::size_t round = 0; round < 300; ++round) beset.round(0, sizes[0], static_cast<unsigned char>(round));
  require(beset.tally().done == 600, "calls failed");
  say("all transfers were carried out");
  return 0;
}

// Held by the program, for longer than the library believes in them without asking the driver.
int held_streams_with_refused_calls() {
  if (cuda() == nullptr) skip("no CUDA device");
  if (!cuda()->soft) skip("only the soft GPU refuses calls on request");
  constexpr std::size_t size = 300001;
  cuda()->context_push(primary_context(0));
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDWR);
  const Fd other_fd = file.open(O_RDWR);
  CUfileHandle_t handle = nullptr;
  CUfileHandle_t other = nullptr;
  require(register_fd(fd.get(), &handle) == CU_FILE_SUCCESS, "registering the file");
  require(register_fd(other_fd.get(), &other) == CU_FILE_SUCCESS, "registering it again");
  struct Held {
    Stream stream;
    Gate gate;
    Memory source{MemoryKind::device, size};
    Memory target{MemoryKind::device, size};
    Asked write{size};
    Asked read{size};
    Asked lost{size};
  };
  std::deque<Held> all(streams_count);
  require(code(cuFileStreamRegister(all[1].stream.get(), 15)) == CU_FILE_SUCCESS, "registering a stream");
  const auto put = [](auto* call, CUfileHandle_t where, const Memory& memory, Asked& asked, const Stream& stream) {
    const CUfileError_t answer = call(where, memory.address(), &asked.size, &asked.file_offset, &asked.buffer_offset,
                                      &asked.moved, stream.get());
    require(answer.err == CU_FILE_SUCCESS, "putting a transfer into a stream");
  };
  // Filling may wait for whatever the device has to do.
  for (Held& held : all) {
    held.source.fill(7);
    held.target.fill(untouched);
  }
  const auto begun = std::chrono::steady_clock::now();
  for (Held& held : all) {
    held.gate.hold(held.stream.get());
    put(cuFileWriteAsync, handle, held.source, held.write, held.stream);
    put(cuFileReadAsync, handle, held.target, held.read, held.stream);
    put(cuFileReadAsync, other, held.target, held.lost, held.stream);
  }
  // From half a second on the library asks now and then, and which call is refused could not be told.
  if (std::chrono::steady_clock::now() - begun > std::chrono::milliseconds(400))
    skip("the machine is too slow for this");
  // It waits for what stands in streams, some seconds at most: so long nothing happens in them.
  cuFileHandleDeregister(other);
  for (Held& held : all) {
    require(held.write.moved == -77 && held.read.moved == -77, "a transfer has come before its turn");
    held.gate.open();
  }
  for (Held& held : all) {
    require(cuda()->stream_synchronize(held.stream.get()) == 0, "the stream is broken");
    require(held.write.moved == static_cast<ssize_t>(size), "what was told of a write");
    require(held.read.moved == static_cast<ssize_t>(size), "what was told of a read");
    require(held.lost.moved == -CU_FILE_HANDLE_NOT_REGISTERED, "what was told of a file that is gone");
    require(all_bytes(7, held.target.get()), "what was read");
  }
  require(all_bytes(7, plain_read(fd.get(), 0, size)), "what was written");
  cuFileHandleDeregister(handle);
  say("all transfers were carried out");
  return 0;
}

// Nothing stands in the stream that would keep a read's bytes from the memory until the stream gets there.
int a_read_whose_kernel_is_refused() {
  if (cuda() == nullptr) skip("no CUDA device");
  if (!cuda()->soft) skip("only the soft GPU refuses calls on request");
  constexpr std::size_t size = 4096;
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDONLY);
  CUfileHandle_t handle = nullptr;
  require(register_fd(fd.get(), &handle) == CU_FILE_SUCCESS, "registering the file");
  cuda()->context_push(primary_context(0));
  const Stream stream;
  const Gate gate;
  const Memory memory(MemoryKind::device, size);
  memory.fill(untouched);
  require(code(cuFileStreamRegister(stream.get(), 15)) == CU_FILE_SUCCESS, "registering a stream");
  gate.hold(stream.get());
  Asked read{size};
  require(code(cuFileReadAsync(handle, memory.address(), &read.size, &read.file_offset, &read.buffer_offset,
                               &read.moved, stream.get())) == CU_FILE_SUCCESS,
          "asking for a read");
  // By the time another stream's read has come to its end, a thread that does not wait has moved these bytes, too.
  const Stream beside;
  const Memory theirs(MemoryKind::device, size);
  Asked other{size};
  require(code(cuFileReadAsync(handle, theirs.address(), &other.size, &other.file_offset, &other.buffer_offset,
                               &other.moved, beside.get())) == CU_FILE_SUCCESS,
          "asking for a read of another stream");
  beside.synchronize();
  require(other.moved == static_cast<ssize_t>(size), "what was told of another stream's read");
  require(std::atomic_ref(read.moved).load() == -77, "it has not waited for the stream");
  require(all_bytes(untouched, memory.get()), "memory was written before the stream got there");
  gate.open();
  stream.synchronize();
  require(read.moved == static_cast<ssize_t>(size), "what was told of a read");
  require(same_bytes(file.content(), memory.get()), "what was read");
  cuFileHandleDeregister(handle);
  say("it has waited");
  return 0;
}

// From the second one on, these need no gate: the file had the bytes of the one before at hand.
int small_reads_of_a_cached_file() {
  if (cuda() == nullptr) skip("no CUDA device");
  if (!cuda()->soft) skip("only the soft GPU refuses calls on request");
  constexpr std::size_t size = 4096;
  constexpr std::size_t reads = 4;
  const ScratchFile file(reads * size);
  const Fd fd = file.open(O_RDONLY);
  CUfileHandle_t handle = nullptr;
  require(register_fd(fd.get(), &handle) == CU_FILE_SUCCESS, "registering the file");
  cuda()->context_push(primary_context(0));
  const Stream stream;
  const Memory memory(MemoryKind::device, size);
  const Memory seen(MemoryKind::pinned, size);
  int refused = 0;
  for (std::size_t round = 0; round < reads; ++round) {
    memory.fill(untouched);
    Asked read{size};
    read.file_offset = static_cast<off_t>(round * size);
    const CUfileError_t answer = cuFileReadAsync(handle, memory.address(), &read.size, &read.file_offset,
                                                 &read.buffer_offset, &read.moved, stream.get());
    if (answer.err != CU_FILE_SUCCESS) {
      ++refused;
      continue;
    }
    const auto address = reinterpret_cast<CudaAddress>(memory.address());
    require(cuda()->to_host_async(seen.address(), address, size, stream.get()) == 0, "a copy behind a read");
    stream.synchronize();
    require(read.moved == static_cast<ssize_t>(size), "what was told of a read");
    require(same_bytes({file.content().data() + round * size, size}, seen.get()), "what the copy behind a read found");
  }
  cuFileHandleDeregister(handle);
  say(std::to_string(reads - static_cast<std::size_t>(refused)) + " read, " + std::to_string(refused) + " refused");
  return 0;
}

// Whatever stood in the streams, or is put there, ends for every thread that waits for it.
int streams_of_a_context_that_is_lost() {
  if (cuda() == nullptr) skip("no CUDA device");
  if (!cuda()->soft) skip("only the soft GPU refuses calls on request");
  constexpr std::size_t size = 100001;
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDWR);
  CUfileHandle_t handle = nullptr;
  require(register_fd(fd.get(), &handle) == CU_FILE_SUCCESS, "registering the file");
  cuda()->context_push(primary_context(0));
  struct Lane {
    CUstream stream{};
    CudaAddress memory = 0;
    void* base() const { return reinterpret_cast<void*>(memory); }
  };
  std::array<Lane, streams_count> lanes;
  for (Lane& lane : lanes) require(cuda()->stream_create(&lane.stream, 1) == 0, "a stream");
  require(code(cuFileStreamRegister(lanes[1].stream, 15)) == CU_FILE_SUCCESS, "registering a stream");
  for (Lane& lane : lanes) require(cuda()->allocate(&lane.memory, size) == 0, "memory");
  std::deque<Asked> all;
  bool lost = false;
  for (std::size_t round = 0; round < rounds && !lost; ++round) {
    for (const Lane& lane : lanes) {
      Asked& write = all.emplace_back(Asked{size});
      Asked& read = all.emplace_back(Asked{size});
      cuFileWriteAsync(handle, lane.base(), &write.size, &write.file_offset, &write.buffer_offset, &write.moved,
                       lane.stream);
      cuFileReadAsync(handle, lane.base(), &read.size, &read.file_offset, &read.buffer_offset, &read.moved,
                      lane.stream);
    }
    for (const Lane& lane : lanes) lost = cuda()->stream_synchronize(lane.stream) != 0 || lost;
  }
  require(lost, "the context is as good as ever");
  for (const Lane& lane : lanes) {
    Asked read{size};
    const CUfileError_t answer = cuFileReadAsync(handle, lane.base(), &read.size, &read.file_offset,
                                                 &read.buffer_offset, &read.moved, lane.stream);
    require(answer.err != CU_FILE_SUCCESS || read.moved < 0, "a read of a lost context succeeded");
  }
  const Memory plain(MemoryKind::plain, size);
  require(read_file(handle, plain.address(), size) == moved(size), "reading into host memory");
  cuFileHandleDeregister(handle);
  require(code(cuFileDriverClose()) == CU_FILE_SUCCESS, "closing the driver");
  say("the context is lost");
  return 0;
}

// Copies of several threads are under way when the context is lost: none of their marks will ever be written.
int small_copies_in_a_context_that_is_lost() {
  if (cuda() == nullptr) skip("no CUDA device");
  if (!cuda()->soft) skip("only the soft GPU refuses calls on request");
  constexpr std::size_t size = 64 << 10;
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDWR);
  CUfileHandle_t handle = nullptr;
  require(register_fd(fd.get(), &handle) == CU_FILE_SUCCESS, "registering the file");
  // All of it before the first copy, as none is to be had of a context that is lost; nor could it be freed there.
  static std::array<const Memory*, 3> memories{};
  for (const Memory*& memory : memories) memory = new Memory(MemoryKind::device, size);
  std::vector<std::thread> threads;
  for (const Memory* const memory : memories) {
    threads.emplace_back([handle, memory, writes = memory == memories.back()] {
      const ContextScope scope(primary_context(0));
      Transfer answer = moved(size);
      do {
        answer = writes ? write_file(handle, memory->address(), size) : read_file(handle, memory->address(), size);
      } while (answer == moved(size));
      require(answer.count < 0, "a transfer of a lost context came short");
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Memory plain(MemoryKind::plain, size);
  require(read_file(handle, plain.address(), size) == moved(size), "reading into host memory");
  cuFileHandleDeregister(handle);
  say("the context is lost");
  return 0;
}

// Hands take turns at these (transfer/device_write.cpp), and the device goes while they are at it: what is counted is
// in the file, and nothing else of it has changed. How many calls it takes depends on the file system and on time; it
// may be over before the one that is refused.
int large_writes_in_a_context_that_is_lost() {
  if (cuda() == nullptr) skip("no CUDA device");
  if (!cuda()->soft) skip("only the soft GPU refuses calls on request");
  constexpr std::size_t size = 4 << 20;
  constexpr std::size_t entries = 6;
  constexpr std::size_t of_an_entry = size / entries;
  const ScratchFile file(2 * size);
  const Fd fd = file.open(O_RDWR);
  CUfileHandle_t handle = nullptr;
  require(register_fd(fd.get(), &handle) == CU_FILE_SUCCESS, "registering the file");
  static const Memory* const memory = new Memory(MemoryKind::device, size);  // it cannot be freed there
  const Bytes bytes = random_bytes(size, 11);
  memory->put(0, bytes);
  Bytes expected = content_of(file.path());
  const auto is_there = [&](std::size_t from, std::size_t at, ssize_t count) {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), std::max<ssize_t>(count, 0),
                expected.begin() + static_cast<std::ptrdiff_t>(at));
  };
  bool lost = false;
  {
    const ContextScope scope(primary_context(0));
    const Transfer alone = write_file(handle, memory->address(), size);
    is_there(0, 0, alone.count);
    Batch batch(entries);
    for (std::size_t i = 0; i < entries; ++i) {
      batch.write(handle, *memory, of_an_entry, size + i * of_an_entry, i * of_an_entry);
    }
    const std::vector<ssize_t> results = batch.run();
    for (std::size_t i = 0; i < entries; ++i) is_there(i * of_an_entry, size + i * of_an_entry, results[i]);
    lost = cuda()->context_synchronize() != 0;
    const bool whole = alone == moved(size) && results.back() == static_cast<ssize_t>(of_an_entry);
    require(whole != lost, lost ? "the lost context was not told" : "what was told of writes that nothing stopped");
  }
  require(content_of(file.path()) == expected, "the file holds what is counted, and nothing else is new");
  cuFileHandleDeregister(handle);
  say(lost ? "what is counted was written" : "nothing was refused");
  return 0;
}

// A kernel has begun and does nothing, and the driver answers nothing clear: for a while it may be at work all the
// same.
int a_kernel_that_stands_still() {
  if (cuda() == nullptr) skip("no CUDA device");
  if (!cuda()->soft) skip("only the soft GPU refuses calls on request");
  constexpr std::size_t size = 4 << 20;  // more than the staging places hold
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDONLY);
  CUfileHandle_t handle = nullptr;
  require(register_fd(fd.get(), &handle) == CU_FILE_SUCCESS, "registering the file");
  cuda()->context_push(primary_context(0));
  CUstream stream{};
  CudaAddress memory = 0;
  require(cuda()->stream_create(&stream, 1) == 0 && cuda()->allocate(&memory, size) == 0, "a stream and memory");
  std::deque<Asked> all;
  std::chrono::steady_clock::time_point asked;
  do {
    // Until the kernel is loaded the copy engine does its work.
    Asked& read = all.emplace_back(Asked{size});
    asked = std::chrono::steady_clock::now();
    require(code(cuFileReadAsync(handle, reinterpret_cast<void*>(memory), &read.size, &read.file_offset,
                                 &read.buffer_offset, &read.moved, stream)) == CU_FILE_SUCCESS,
            "asking for a read");
    while (std::atomic_ref(read.moved).load() == -77) std::this_thread::yield();
  } while (all.back().moved == moved(size).count);
  require(all.back().moved < 0, "a read came short");
  require(std::chrono::steady_clock::now() - asked >= std::chrono::seconds(2), "it was given up too soon");
  const Memory plain(MemoryKind::plain, size);
  require(read_file(handle, plain.address(), size) == moved(size), "reading into host memory");
  say("it was given up");
  std::_Exit(0);  // the stream gets nowhere any more
}

constexpr Scenario refused_all[] = {{"streams_with_refused_calls", streams_with_refused_calls},
                                    {"a_stream_that_nothing_serves", a_stream_that_nothing_serves},
                                    {"held_streams_with_refused_calls", held_streams_with_refused_calls},
                                    {"a_read_whose_kernel_is_refused", a_read_whose_kernel_is_refused},
                                    {"small_reads_of_a_cached_file", small_reads_of_a_cached_file},
                                    {"streams_of_a_context_that_is_lost", streams_of_a_context_that_is_lost},
                                    {"small_copies_in_a_context_that_is_lost", small_copies_in_a_context_that_is_lost},
                                    {"large_writes_in_a_context_that_is_lost", large_writes_in_a_context_that_is_lost},
                                    {"a_kernel_that_stands_still", a_kernel_that_stands_still}};

}  // namespace

std::span<const Scenario> refused_scenarios() {
  return refused_all;
}

}  // namespace sluice::life
