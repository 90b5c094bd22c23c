// SPDX-License-Identifier: Apache-2.0
#include "client/operations.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

namespace rdma_files {

namespace {

// Operations get the handle, which is known only when it was registered: while that goes on, the thread's own file is
// meant.
std::mutex table_mutex;
std::condition_variable operation_ended;
std::unordered_map<void*, CufileFile*> table;
thread_local CufileFile* being_registered = nullptr;

std::atomic<std::uint64_t> calls_with_token{0};
std::atomic<std::uint64_t> calls_without{0};

ssize_t answer_of(const Client::Moved& moved) noexcept {
  if (moved.error == 0) return static_cast<ssize_t>(moved.bytes);
  errno = moved.error;
  return -1;
}

}  // namespace

// C calls these, so nothing is thrown out of them.
struct Operations {
  // The file of a handle, which stays until this ends. Null: there is none.
  class InUse {
   public:
    explicit InUse(void* handle) {
      const std::scoped_lock lock(table_mutex);
      const auto found = table.find(handle);
      file_ = found == table.end() ? being_registered : found->second;
      if (file_ != nullptr) ++file_->under_way_;
    }
    ~InUse() {
      if (file_ == nullptr) return;
      const std::scoped_lock lock(table_mutex);
      if (--file_->under_way_ == 0) operation_ended.notify_all();
    }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;
    CufileFile* operator->() const noexcept { return file_; }
    CufileFile& operator*() const noexcept { return *file_; }
    explicit operator bool() const noexcept { return file_ != nullptr; }

   private:
    CufileFile* file_;
  };

  static const char* type(void* /*handle*/) { return "rdma-files"; }

  static int devices(void* handle, sockaddr_t** addresses) {
    const InUse file(handle);
    if (!file || file->client_.local_address().empty()) return 0;
    *addresses = &file->address_;
    return 1;
  }

  // The adapter that the server is reached by, and no other: its queue pairs are linked.
  static int priority(void* handle, char* /*buffer*/, size_t /*size*/, off_t /*offset*/, sockaddr_t* address) {
    const InUse file(handle);
    sockaddr_in wanted{};
    std::memcpy(&wanted, address, sizeof wanted);
    in_addr own{};
    if (!file || ::inet_pton(AF_INET, file->client_.local_address().c_str(), &own) != 1) return -1;
    return wanted.sin_addr.s_addr == own.s_addr ? 0 : -1;
  }

  static ssize_t read(void* handle, char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* info) {
    return guarded(handle, info, size, [&](CufileFile& file, const std::optional<Token>& token) {
      const auto at = static_cast<std::uint64_t>(offset);
      if (token) return file.client_.move(*file.file_, Direction::read, *token, size, at);
      return file.client_.read(*file.file_, {reinterpret_cast<std::uint8_t*>(buffer), size}, at);
    });
  }

  static ssize_t write(void* handle, const char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* info) {
    return guarded(handle, info, size, [&](CufileFile& file, const std::optional<Token>& token) {
      const auto at = static_cast<std::uint64_t>(offset);
      if (token) return file.client_.move(*file.file_, Direction::write, *token, size, at);
      return file.client_.write(*file.file_, {reinterpret_cast<const std::uint8_t*>(buffer), size}, at);
    });
  }

 private:
  template <typename Call>
  static ssize_t guarded(void* handle, const cufileRDMAInfo_t* info, std::size_t size, const Call& call) noexcept {
    try {
      const InUse file(handle);
      if (!file) return answer_of({.error = EBADF});
      std::optional<Token> token;
      if (info != nullptr && info->desc_str != nullptr) {
        token = read_token({info->desc_str, ::strnlen(info->desc_str, kTokenLength + 1)});
        // A text of another form, or one of less memory than the call is about.
        if (!token || token->size < size) return answer_of({.error = EINVAL});
      }
      ++(token ? calls_with_token : calls_without);
      return answer_of(call(*file, token));
    } catch (const std::exception&) {
      return answer_of({.error = EIO});
    }
  }
};

namespace {

constexpr CUfileFSOps_t operations{.fs_type = &Operations::type,
                                   .getRDMADeviceList = &Operations::devices,
                                   .getRDMADevicePriority = &Operations::priority,
                                   .read = &Operations::read,
                                   .write = &Operations::write};

}  // namespace

CufileFile::CufileFile(Client& client, const std::string& name, std::uint8_t flags)
    : client_(client), file_(client.open(name, flags)), stand_in_(::memfd_create(name.c_str(), MFD_CLOEXEC)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, client.local_address().c_str(), &address.sin_addr);
  std::memcpy(&address_, &address, sizeof address);
  if (stand_in_.get() < 0 || ::ftruncate(stand_in_.get(), static_cast<off_t>(file_->size())) != 0) {
    throw std::system_error(errno, std::generic_category(), name);
  }
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
  description.handle.fd = stand_in_.get();
  description.fs_ops = &operations;
  being_registered = this;
  const CUfileError_t registered = cuFileHandleRegister(&handle_, &description);
  being_registered = nullptr;
  if (registered.err != CU_FILE_SUCCESS) {
    throw std::runtime_error(name + ": cuFileHandleRegister: " + cufileop_status_error(registered.err));
  }
  const std::scoped_lock lock(table_mutex);
  table[handle_] = this;
}

CufileFile::~CufileFile() {
  cuFileHandleDeregister(handle_);
  {
    std::unique_lock lock(table_mutex);
    table.erase(handle_);
    operation_ended.wait(lock, [this] { return under_way_ == 0; });
  }
  client_.close(*file_);
}

CufileFile::Calls CufileFile::calls() noexcept {
  return {.with_token = calls_with_token, .without = calls_without};
}

}  // namespace rdma_files
