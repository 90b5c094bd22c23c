// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "lab/probe/rows.h"
#include "lab/rdma/content.h"
#include "lab/rdma/library.h"
#include "sluice.h"
#include "support/cuda_driver.h"

namespace sluice::lab {

namespace {

using rdma_files::Client;
using rdma_files::Direction;
using rdma_files::Token;
using support::Bytes;
using support::MemoryKind;
using support::Registration;
using support::Transfer;

constexpr std::size_t whole_size = std::size_t{16} << 20U;
constexpr std::uint64_t content_seed = 3;

// A file of the server's whose operations show the token that they get. One at a time.
class TokenFile {
 public:
  explicit TokenFile(Client& client)
      : client_(client),
        remote_(client.open("revoked", rdma_files::kOpenWrite | rdma_files::kOpenCreate | rdma_files::kOpenTruncate)),
        stand_in_(::memfd_create("revoked", MFD_CLOEXEC)) {
    operations_.read = &TokenFile::read;
    operations_.write = &TokenFile::write;
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
    description.handle.fd = stand_in_.get();
    description.fs_ops = &operations_;
    if (support::code(cuFileHandleRegister(&handle_, &description)) != CU_FILE_SUCCESS) {
      throw std::runtime_error("cuFileHandleRegister refuses");
    }
    newest = this;
  }
  ~TokenFile() {
    cuFileHandleDeregister(handle_);
    all_have_ended();
    newest = nullptr;
  }
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  CUfileHandle_t handle() const { return handle_; }
  Client& client() const { return client_; }
  rdma_files::RemoteFile& remote() const { return *remote_; }

  // Called between the halves of a read with a token, where it is set.
  std::function<void()> in_the_middle;
  // Of the newest read that had one.
  std::optional<Token> token() const {
    const std::scoped_lock lock(mutex_);
    return token_;
  }
  // Returns once no operation is under way, those that came late included.
  void all_have_ended() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return under_way_ == 0; });
  }

 private:
  static ssize_t answer_of(const Client::Moved& moved) noexcept {
    if (moved.error == 0) return static_cast<ssize_t>(moved.bytes);
    errno = moved.error;
    return -1;
  }

  template <typename Call>
  ssize_t counted(const Call& call) noexcept {
    {
      const std::scoped_lock lock(mutex_);
      ++under_way_;
    }
    Client::Moved moved{.error = EIO};
    try {
      moved = call();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): an I/O error, as it stands
    }
    const std::scoped_lock lock(mutex_);
    if (--under_way_ == 0) ended_.notify_all();
    return answer_of(moved);
  }

  static std::optional<Token> token_of(const cufileRDMAInfo_t* info) {
    if (info == nullptr) return std::nullopt;
    return rdma_files::read_token({info->desc_str, static_cast<std::size_t>(info->desc_len)});
  }

  Client::Moved in_halves(const Token& whole, std::size_t size, std::uint64_t at) {
    Client::Moved first = client_.move(*remote_, Direction::read, whole, size / 2, at);
    in_the_middle();
    if (first.bytes != size / 2) return first;
    Token rest = whole;
    rest.address += size / 2;
    rest.size -= static_cast<std::uint32_t>(size / 2);
    const Client::Moved second = client_.move(*remote_, Direction::read, rest, size - size / 2, at + size / 2);
    if (second.error != 0) return second;
    first.bytes += second.bytes;
    return first;
  }

  static ssize_t read(void* /*handle*/, char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* info) {
    TokenFile& file = *newest;
    return file.counted([&] {
      const auto at = static_cast<std::uint64_t>(offset);
      const std::optional<Token> token = token_of(info);
      if (!token) return file.client_.read(*file.remote_, {reinterpret_cast<std::uint8_t*>(buffer), size}, at);
      {
        const std::scoped_lock lock(file.mutex_);
        file.token_ = token;
      }
      if (file.in_the_middle) return file.in_halves(*token, size, at);
      return file.client_.move(*file.remote_, Direction::read, *token, size, at);
    });
  }

  static ssize_t write(void* /*handle*/, const char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* info) {
    TokenFile& file = *newest;
    return file.counted([&] {
      const auto at = static_cast<std::uint64_t>(offset);
      if (const std::optional<Token> token = token_of(info)) {
        return file.client_.move(*file.remote_, Direction::write, *token, size, at);
      }
      return file.client_.write(*file.remote_, {reinterpret_cast<const std::uint8_t*>(buffer), size}, at);
    });
  }

  static inline TokenFile* newest = nullptr;
  Client& client_;
  const std::shared_ptr<rdma_files::RemoteFile> remote_;
  const rdma_files::Fd stand_in_;
  CUfileFSOps_t operations_{};
  CUfileHandle_t handle_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  unsigned under_way_ = 0;
  std::optional<Token> token_;
};

class Revoked {
 public:
  explicit Revoked(const Shown& shown) : name_(shown.name), file_(shown.client) {}

  void run(pid_t server) {
    Bytes bytes(whole_size);
    fill(bytes, 0, content_seed);
    memory_.put(0, bytes);
    {
      const Registration registration(memory_);
      tell("the file is written",
           not_moved(support::write_file(file_.handle(), memory_.address(), whole_size), whole_size));
    }
    while_it_is_read();
    by_an_old_key();
    while_the_server_stands_still(server);
  }

 private:
  void tell(const std::string& what, const std::string& why_not) const { row(name_ + ": " + what, why_not); }

  std::string reads() {
    memory_.fill(0x44);
    const std::string why = not_moved(support::read_file(file_.handle(), memory_.address(), whole_size), whole_size);
    return why.empty() ? differs_from(memory_.get(), 0, content_seed) : why;
  }
  std::string unchanged() const { return support::all_bytes(0x33, memory_.get()) ? "" : "memory was changed"; }
  std::string explained_as(const std::string& reason) const {
    sluice_explanation_t told{};
    sluice_explain(file_.handle(), memory_.address(), 0, CUFILE_READ, whole_size, 0, &told);
    std::printf("explained: %s, %s; %s\n", told.path_name, told.reason_name, told.detail);
    return told.reason_name == reason ? "" : std::string("it says ") + told.reason_name;
  }

  // The read is in its middle when the buffer is deregistered: all bytes come, and the key is gone then.
  void while_it_is_read() {
    if (support::code(cuFileBufRegister(memory_.address(), whole_size, 0)) != CU_FILE_SUCCESS) {
      return tell("the buffer is registered", "it is not");
    }
    std::promise<void> is_in_the_middle;
    std::promise<void> go_on;
    file_.in_the_middle = [&] {
      is_in_the_middle.set_value();
      go_on.get_future().wait();
    };
    std::future<std::string> read = std::async(std::launch::async, [this] {
      const support::ContextScope context(support::primary_context(0));
      return reads();
    });
    is_in_the_middle.get_future().wait();
    std::future<int> deregistered =
        std::async(std::launch::async, [this] { return support::code(cuFileBufDeregister(memory_.address())); });
    go_on.set_value();
    tell("a buffer is deregistered in the middle of a read, which gets all its bytes", read.get());
    const int answer = deregistered.get();
    tell("the deregistration succeeds", answer == CU_FILE_SUCCESS ? "" : "it answered " + std::to_string(answer));
    file_.in_the_middle = nullptr;
  }

  void by_an_old_key() {
    memory_.fill(0x33);
    const std::optional<Token> token = file_.token();
    if (!token) return tell("the key of a deregistered buffer is refused", "there was none");
    const Client::Moved moved = file_.client().move(file_.remote(), Direction::read, *token, 4096, 0);
    tell("the key of a deregistered buffer is refused",
         moved.error == EACCES ? "" : std::to_string(moved.bytes) + " bytes, " + std::strerror(moved.error));
    tell("the memory of a deregistered buffer stays as it was", unchanged());
    const Registration registration(memory_);
    tell("registered anew, it is read by RDMA", reads());
    tell("registered anew, it is explained so", explained_as("served_by_rdma"));
  }

  void while_the_server_stands_still(pid_t server) {
    auto registration = std::make_unique<Registration>(memory_);
    tell("before the server stands still", reads());
    memory_.fill(0x33);
    ::kill(server, SIGSTOP);
    ends_in_time("by RDMA");
    tell("the key is revoked, and the explanation says so", explained_as("rdma_revoked"));
    ends_in_time("through host memory");
    ::kill(server, SIGCONT);
    file_.all_have_ended();
    tell("what the server does late changes no memory", unchanged());
    tell("the server goes on: the buffer is read through host memory", reads());
    tell("the buffer has no key any more", explained_as("rdma_revoked"));
    registration = nullptr;
    registration = std::make_unique<Registration>(memory_);
    tell("registered anew it has one, and is read by it", reads());
    tell("registered anew it is explained so", explained_as("served_by_rdma"));
  }

  void ends_in_time(const std::string& how) {
    const auto begin = std::chrono::steady_clock::now();
    const Transfer done = support::read_file(file_.handle(), memory_.address(), whole_size / 2);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    std::printf("a read %s from a server that stands still ended after %.1f s\n", how.c_str(), time.count());
    tell("a server that stands still: a read " + how + " ends with ETIMEDOUT",
         done == support::failed(ETIMEDOUT) ? "" : std::to_string(done.count) + " bytes, " + std::strerror(done.error));
  }

  const std::string name_;
  const support::Memory memory_{MemoryKind::device, whole_size};
  TokenFile file_;
};

}  // namespace

void revoked(const Shown& shown, pid_t server) {
  Revoked(shown).run(server);
}

}  // namespace sluice::lab
