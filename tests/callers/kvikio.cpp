// SPDX-License-Identifier: Apache-2.0
// KvikIO: it loads libcufile.so.0 and all that it uses by name, opens each file a second time without O_DIRECT, cuts
// transfers into tasks for its threads and sums what they say, lets the driver come back by itself after a close, and
// has examples of batches and streams that hold us to more than its transfers do.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "callers/loaded.h"

namespace sluice::callers {
namespace {

struct Library {
  decltype(cuFileDriverOpen)* open = nullptr;
  decltype(cuFileDriverClose)* close = nullptr;
  decltype(cuFileDriverGetProperties)* properties = nullptr;
  decltype(cuFileDriverSetPollMode)* set_poll_mode = nullptr;
  decltype(cuFileDriverSetMaxCacheSize)* set_cache = nullptr;
  decltype(cuFileDriverSetMaxPinnedMemSize)* set_pinned = nullptr;
  decltype(cuFileDriverSetMaxDirectIOSize)* set_direct = nullptr;
  decltype(cuFileGetVersion)* version = nullptr;
  decltype(cuFileHandleRegister)* handle_register = nullptr;
  decltype(cuFileHandleDeregister)* handle_deregister = nullptr;
  decltype(cuFileBufRegister)* buffer_register = nullptr;
  decltype(cuFileBufDeregister)* buffer_deregister = nullptr;
  decltype(cuFileRead)* read = nullptr;
  decltype(cuFileWrite)* write = nullptr;
  decltype(cuFileBatchIOSetUp)* batch_set_up = nullptr;
  decltype(cuFileBatchIOSubmit)* batch_submit = nullptr;
  decltype(cuFileBatchIOGetStatus)* batch_status = nullptr;
  decltype(cuFileBatchIOCancel)* batch_cancel = nullptr;
  decltype(cuFileBatchIODestroy)* batch_destroy = nullptr;
  decltype(cuFileReadAsync)* read_async = nullptr;
  decltype(cuFileWriteAsync)* write_async = nullptr;
  decltype(cuFileStreamRegister)* stream_register = nullptr;
  decltype(cuFileStreamDeregister)* stream_deregister = nullptr;

  Library() {
    void* const library = load_cufile({"libcufile.so.0"});
    find(library, "cuFileDriverOpen", open);
    find(library, "cuFileDriverClose_v2", close);
    find(library, "cuFileDriverGetProperties", properties);
    find(library, "cuFileDriverSetPollMode", set_poll_mode);
    find(library, "cuFileDriverSetMaxCacheSize", set_cache);
    find(library, "cuFileDriverSetMaxPinnedMemSize", set_pinned);
    find(library, "cuFileDriverSetMaxDirectIOSize", set_direct);
    find(library, "cuFileGetVersion", version);
    find(library, "cuFileHandleRegister", handle_register);
    find(library, "cuFileHandleDeregister", handle_deregister);
    find(library, "cuFileBufRegister", buffer_register);
    find(library, "cuFileBufDeregister", buffer_deregister);
    find(library, "cuFileRead", read);
    find(library, "cuFileWrite", write);
    find(library, "cuFileBatchIOSetUp", batch_set_up);
    find(library, "cuFileBatchIOSubmit", batch_submit);
    find(library, "cuFileBatchIOGetStatus", batch_status);
    find(library, "cuFileBatchIOCancel", batch_cancel);
    find(library, "cuFileBatchIODestroy", batch_destroy);
    find(library, "cuFileReadAsync", read_async);
    find(library, "cuFileWriteAsync", write_async);
    find(library, "cuFileStreamRegister", stream_register);
    find(library, "cuFileStreamDeregister", stream_deregister);
  }
};

class FileHandle {
 public:
  FileHandle(const Library& library, const std::string& path, int flags)
      : library_(library), plain_(open_file(path, flags)), direct_(open_file(path, (flags & ~O_TRUNC) | O_DIRECT)) {
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = direct_.get();
    succeed(library.handle_register(&handle_, &description), "cuFileHandleRegister");
  }
  ~FileHandle() { library_.handle_deregister(handle_); }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  CUfileHandle_t get() const { return handle_; }

  // Tasks of `task` bytes on the pool; the sum of what they say.
  std::size_t parallel(CUfileOpcode_t opcode, void* memory, std::size_t size, std::size_t task) const {
    std::atomic<std::size_t> sum{0};
    on_pool(8, (size + task - 1) / task, [&](std::size_t i) {
      const auto at = static_cast<off_t>(i * task);
      const std::size_t length = std::min(task, size - i * task);
      const ssize_t count = opcode == CUFILE_READ ? library_.read(handle_, memory, length, at, at)
                                                  : library_.write(handle_, memory, length, at, at);
      if (count == -1) wrong(std::string("a task failed: ") + std::strerror(errno));
      if (count < 0) wrong(cufileop_status_error(static_cast<CUfileOpError>(-count)));
      sum += static_cast<std::size_t>(count);
    });
    return sum;
  }

 private:
  const Library& library_;
  Fd plain_;
  Fd direct_;
  CUfileHandle_t handle_ = nullptr;
};

// As on a first use: asked and set while nothing is open.
void ask_for_properties(const Library& library) {
  int version = 0;
  succeed(library.version(&version), "cuFileGetVersion");
  require(version >= 1000 && version % 10 == 0, "cuFileGetVersion");
  CUfileDrvProps_t properties{};
  succeed(library.properties(&properties), "cuFileDriverGetProperties");
  require(properties.max_batch_io_size > 4, "no room for a batch of four");
  succeed(library.set_cache(properties.max_device_cache_size), "cuFileDriverSetMaxCacheSize");
  succeed(library.set_pinned(properties.max_device_pinned_mem_size), "cuFileDriverSetMaxPinnedMemSize");
}

void transfers(const Library& library, const Place& place) {
  const std::string path = place.at("test-file");
  const Memory memory(MemoryKind::device, 9 * kMiB);
  // The lengths include 8,389,600: written by descriptors that cannot be read, with an end that is no block's.
  for (const std::size_t length : {std::size_t{4096}, std::size_t{8389600}, 4 * kMiB + 1, std::size_t{100}}) {
    const Bytes content = support::random_bytes(length, length);
    memory.fill(0x5a);
    memory.put(0, content);
    {
      const FileHandle file(library, path, O_WRONLY | O_CREAT | O_TRUNC);
      require(file.parallel(CUFILE_WRITE, memory.address(), length, 1 * kMiB) == length, "written in parts");
    }
    require_same(content, content_of(path), "the file that was written");
    memory.fill(0x5a);
    succeed(library.buffer_register(memory.address(), memory.size(), 0), "cuFileBufRegister");
    {
      const FileHandle file(library, path, O_RDONLY);
      // As much as there is memory for: tasks behind the end say 0.
      require(file.parallel(CUFILE_READ, memory.address(), memory.size(), 1 * kMiB) == length, "read in parts");
    }
    succeed(library.buffer_deregister(memory.address()), "cuFileBufDeregister");
    Bytes expected(memory.size(), 0x5a);
    std::copy(content.begin(), content.end(), expected.begin());
    require_same(expected, memory.get(), "what was read");
    succeed(library.close(), "cuFileDriverClose");  // the next registration opens it again
  }
}

constexpr unsigned kFour = 4;

class BatchExample {
 public:
  BatchExample(const Library& library, const Place& place)
      : library_(library),
        memory_(MemoryKind::device, kFour * kPiece),
        content_(support::random_bytes(kFour * kPiece, 4)) {
    path_ = place.at("batch-file");
    memory_.put(0, content_);
  }

  void play() {
    FileHandle file(library_, path_, O_RDWR | O_CREAT | O_TRUNC);
    require(file.parallel(CUFILE_WRITE, memory_.address(), memory_.size(), kPiece) == memory_.size(), "written");
    memory_.fill(0x5a);
    CUfileBatchHandle_t batch = nullptr;
    succeed(library_.batch_set_up(&batch, kFour), "cuFileBatchIOSetUp");
    submit(batch, file);
    std::array<CUfileIOEvents_t, kFour> events{};
    unsigned count = kFour;
    succeed(library_.batch_status(batch, kFour, &count, events.data(), nullptr), "cuFileBatchIOGetStatus");
    require(count == kFour, "four entries have four events");
    for (const CUfileIOEvents_t& each : events) {
      require(each.status == CUFILE_COMPLETE && each.ret == kPiece, "an entry is complete");
    }
    require_same(content_, memory_.get(), "what the batch read");

    // The same again, cancelled at once. What had been done before is told; nothing else is.
    memory_.fill(0x5a);
    submit(batch, file);
    succeed(library_.batch_cancel(batch), "cuFileBatchIOCancel");
    count = kFour;
    succeed(library_.batch_status(batch, kFour, &count, events.data(), nullptr), "cuFileBatchIOGetStatus");
    require(count <= kFour, "more events than entries");
    for (unsigned i = 0; i < count; ++i) {
      require(events[i].status == CUFILE_COMPLETE, "a cancelled entry has an event");
      const auto index = reinterpret_cast<std::uintptr_t>(events[i].cookie);
      require_same(std::span(content_).subspan(index * kPiece, kPiece), memory_.get(index * kPiece, kPiece),
                   "an entry that was done before");
    }
    library_.batch_destroy(batch);
    // No thread writes to the memory of a batch that is gone.
    memory_.fill(0x77);
    require_same(Bytes(memory_.size(), 0x77), memory_.get(), "memory of a batch that is gone");
  }

 private:
  static constexpr std::size_t kPiece = 256 * kKiB;

  void submit(CUfileBatchHandle_t batch, const FileHandle& file) {
    std::array<CUfileIOParams_t, kFour> entries{};
    for (std::size_t i = 0; i < kFour; ++i) {
      entries[i].mode = CUFILE_BATCH;
      entries[i].fh = file.get();
      entries[i].opcode = CUFILE_READ;
      entries[i].cookie = reinterpret_cast<void*>(i);
      entries[i].u.batch.devPtr_base = memory_.address();
      entries[i].u.batch.devPtr_offset = static_cast<off_t>(i * kPiece);
      entries[i].u.batch.file_offset = static_cast<off_t>(i * kPiece);
      entries[i].u.batch.size = kPiece;
    }
    succeed(library_.batch_submit(batch, kFour, entries.data(), 0), "cuFileBatchIOSubmit");
  }

  const Library& library_;
  std::string path_;
  const Memory memory_;
  const Bytes content_;
};

// A stream's transfer, and those that the file's mode forbids: their counts tell it.
void streams(const Library& library, const Place& place) {
  const std::string path = place.at("stream-file");
  const Memory memory(MemoryKind::device, 2 * kMiB);
  const Bytes content = support::random_bytes(1 * kMiB, 5);
  memory.put(0, content);
  const support::Stream stream;
  succeed(library.stream_register(stream.get(), 0), "cuFileStreamRegister");
  std::size_t size = 1 * kMiB;
  off_t file_offset = 0;
  const auto run = [&](auto* transfer, const FileHandle& file, off_t memory_offset) {
    ssize_t done = 0;
    succeed(transfer(file.get(), memory.address(), &size, &file_offset, &memory_offset, &done, stream.get()),
            "a stream's transfer");
    stream.synchronize();
    return done;
  };
  // -1 by a buffered descriptor, -EIO by one with O_DIRECT.
  const auto refused = [](ssize_t done) {
    return done == -1 || done == -EIO || done == -CU_FILE_INVALID_FILE_OPEN_FLAG;
  };
  {
    const FileHandle file(library, path, O_WRONLY | O_CREAT);
    require(run(library.write_async, file, 0) == static_cast<ssize_t>(size), "a stream's write");
    require(refused(run(library.read_async, file, 1 * kMiB)), "a stream's read of a file that was opened to write");
  }
  {
    const FileHandle file(library, path, O_RDONLY);
    require(run(library.read_async, file, 1 * kMiB) == static_cast<ssize_t>(size), "a stream's read");
    require(refused(run(library.write_async, file, 0)), "a stream's write to a file that was opened to read");
  }
  succeed(library.stream_deregister(stream.get()), "cuFileStreamDeregister");
  require_same(content, content_of(path), "the stream's file");
  require_same(content, memory.get(1 * kMiB, 1 * kMiB), "what the stream read");
}

void caller(const Place& place) {
  const Library library;
  ask_for_properties(library);
  if (place.part == "batch") {
    BatchExample(library, place).play();
    return;
  }
  transfers(library, place);
  streams(library, place);
}

}  // namespace
}  // namespace sluice::callers

int main(int argc, char** argv) {
  return sluice::callers::play(argc, argv, sluice::callers::caller);
}
