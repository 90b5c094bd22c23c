// SPDX-License-Identifier: Apache-2.0
// llm-d's file-system back end: it loads libcufile.so, else libcufile.so.0, by declarations of its own, in which
// CUfileError_t is four bytes, and closes by the first of the two names. A file a block of the cache, written under
// another name and renamed: opened for reading and writing, registered, one synchronous transfer for each layer from
// the midst of that layer's tensor, deregistered, closed. A short count is an error.
#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "callers/kit.h"

namespace sluice::callers {
namespace {

// Its own, not the header's.
struct Error {
  int err;
};
struct Description {
  int type = 1;  // a file descriptor
  union {
    int fd;
    void* handle = nullptr;
  } handle;
  const void* operations = nullptr;
};
using Handle = void*;
static_assert(sizeof(Error) == 4);

struct Library {
  Error (*get_version)(int*) = nullptr;
  Error (*open)() = nullptr;
  Error (*close)() = nullptr;
  Error (*handle_register)(Handle*, Description*) = nullptr;
  void (*handle_deregister)(Handle) = nullptr;
  Error (*buffer_register)(const void*, std::size_t, int) = nullptr;
  Error (*buffer_deregister)(const void*) = nullptr;
  ssize_t (*read)(Handle, void*, std::size_t, off_t, off_t) = nullptr;
  ssize_t (*write)(Handle, const void*, std::size_t, off_t, off_t) = nullptr;

  Library() {
    void* library = dlopen("libcufile.so", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) library = dlopen("libcufile.so.0", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) wrong(std::string("libcufile cannot be loaded: ") + dlerror());
    find(library, "cuFileGetVersion", get_version);
    find(library, "cuFileDriverOpen", open);
    find(library, "cuFileDriverClose", close);
    find(library, "cuFileHandleRegister", handle_register);
    find(library, "cuFileHandleDeregister", handle_deregister);
    find(library, "cuFileBufRegister", buffer_register);
    find(library, "cuFileBufDeregister", buffer_deregister);
    find(library, "cuFileRead", read);
    find(library, "cuFileWrite", write);
  }

 private:
  template <typename Function>
  static void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) wrong(std::string("no ") + name);
  }
};

void succeed(Error answer, const char* call) {
  if (answer.err != 0) wrong(std::string(call) + ": " + std::to_string(answer.err));
}

constexpr std::size_t kLayers = 6;
constexpr std::size_t kBlocks = 16;
constexpr std::size_t kThreads = 4;

struct Registered {
  const Library& library;
  Handle handle = nullptr;
  Registered(const Library& loaded, int fd) : library(loaded) {
    Description description;
    description.handle.fd = fd;
    succeed(library.handle_register(&handle, &description), "cuFileHandleRegister");
  }
  ~Registered() { library.handle_deregister(handle); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
};

void cache(const Library& library, const Place& place, std::size_t block) {
  std::vector<std::unique_ptr<Memory>> tensors;
  std::vector<Bytes> contents;
  constexpr int rdma_register = 1;
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    tensors.push_back(std::make_unique<Memory>(MemoryKind::device, kBlocks * block));
    contents.push_back(support::random_bytes(kBlocks * block, layer));
    tensors[layer]->put(0, contents[layer]);
    for (std::size_t i = 0; i < kBlocks; ++i) {  // each block of each tensor by itself
      succeed(library.buffer_register(tensors[layer]->at(i * block), block, rdma_register), "cuFileBufRegister");
    }
  }
  const auto path_of = [&](std::size_t i) { return place.at("block-" + std::to_string(i) + ".bin"); };

  on_pool(kThreads, kBlocks, [&](std::size_t i) {
    const std::string other = path_of(i) + "_" + std::to_string(i) + ".tmp";
    {
      const Fd fd = open_file(other, O_RDWR | O_CREAT | O_DIRECT);
      const Registered file(library, fd.get());
      for (std::size_t layer = 0; layer < kLayers; ++layer) {
        const ssize_t count =
            library.write(file.handle, tensors[layer]->at(i * block), block, static_cast<off_t>(layer * block), 0);
        if (count != static_cast<ssize_t>(block)) wrong("incomplete write: " + std::to_string(count));
      }
    }
    if (std::rename(other.c_str(), path_of(i).c_str()) != 0) wrong(std::string("rename: ") + std::strerror(errno));
  });

  for (const auto& tensor : tensors) tensor->fill(0x5a);
  on_pool(kThreads, kBlocks, [&](std::size_t i) {
    const Bytes written = content_of(path_of(i));
    require(written.size() == kLayers * block, "a block's file has another size");
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      require_same(std::span(contents[layer]).subspan(i * block, block),
                   std::span(written).subspan(layer * block, block), "a block's file");
    }
    // Into another place than it came from.
    const std::size_t target = (i + 5) % kBlocks;
    const Fd fd = open_file(path_of(i), O_RDONLY | O_DIRECT);
    const Registered file(library, fd.get());
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      const ssize_t count =
          library.read(file.handle, tensors[layer]->at(target * block), block, static_cast<off_t>(layer * block), 0);
      if (count != static_cast<ssize_t>(block)) wrong("incomplete read: " + std::to_string(count));
    }
  });
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      require_same(std::span(contents[layer]).subspan(i * block, block),
                   tensors[layer]->get((i + 5) % kBlocks * block, block), "a block that was read");
      succeed(library.buffer_deregister(tensors[layer]->at(i * block)), "cuFileBufDeregister");
    }
  }
}

void caller(const Place& place) {
  const Library library;
  int version = 0;
  succeed(library.get_version(&version), "cuFileGetVersion");
  require(version >= 1000, "cuFileGetVersion");
  succeed(library.open(), "cuFileDriverOpen");
  cache(library, place, 128 * kKiB);
  cache(library, place, 16 * kKiB + 512);  // a block size that is no multiple of a page
  // A file that ends early is told as short, never as whole.
  {
    const std::string path = place.at("cut.bin");
    { support::plain_write(open_file(path, O_CREAT | O_RDWR).get(), 0, Bytes(5000, 7)); }
    const Fd fd = open_file(path, O_RDONLY | O_DIRECT);
    const Registered file(library, fd.get());
    const Memory memory(MemoryKind::device, 8192);
    require(library.read(file.handle, memory.address(), 8192, 0, 0) == 5000, "a file that ends early");
  }
  succeed(library.close(), "cuFileDriverClose");
}

}  // namespace
}  // namespace sluice::callers

int main(int argc, char** argv) {
  return sluice::callers::play(argc, argv, sluice::callers::caller);
}
