// SPDX-License-Identifier: Apache-2.0
// liblab_dma_buf.so, to be preloaded: soft RoCE takes no dma-buf, and the soft GPU exports none that the kernel knows,
// only a descriptor of the file that its memory lies in (SLUICE_SOFTGPU_DMA_BUF=2). In place of libibverbs'
// registration of a dma-buf, this maps that file and registers the mapping under the address that was asked for: a real
// key of a real adapter, and the device's own bytes behind it. How a GPU's driver and an adapter's agree about a
// dma-buf is not shown by that.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace {

ibv_mr* register_file(ibv_pd* domain, std::uint64_t offset, std::size_t length, std::uint64_t address, int fd,
                      int access) {
  // The descriptor stands at the first byte of what was exported. The mapping stays as long as the process.
  const off_t begin = ::lseek(fd, 0, SEEK_CUR);
  if (begin < 0) return nullptr;
  const std::uint64_t place = static_cast<std::uint64_t>(begin) + offset;
  const std::uint64_t before = place % static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  void* const memory =
      ::mmap(nullptr, before + length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(place - before));
  if (memory == MAP_FAILED) return nullptr;
  ibv_mr* const region =
      ibv_reg_mr_iova(domain, static_cast<char*>(memory) + before, length, address, static_cast<unsigned>(access));
  if (region == nullptr) {
    const int error = errno;
    ::munmap(memory, before + length);
    errno = error;
  }
  return region;
}

}  // namespace

// libcufile_rdma.so.1 asks for libibverbs' functions by name.
extern "C" __attribute__((visibility("default"))) void* dlsym(void* library, const char* name) noexcept {
  using Find = void*(void*, const char*);
  static auto* const find = reinterpret_cast<Find*>(::dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"));
  if (std::strcmp(name, "ibv_reg_dmabuf_mr") == 0) return reinterpret_cast<void*>(&register_file);
  return find != nullptr ? find(library, name) : nullptr;
}
