// SPDX-License-Identifier: Apache-2.0
// Files of a server as cuFile handles: CUfileFSOps whose read and write send a token to the server.
#pragma once

#include <sys/socket.h>

#include "client/client.h"
#include "cufile.h"

namespace rdma_files {

// A file that was opened and registered; both end with it, once the last of its operations has: cuFile may have given
// one up that is late. The client must outlive it.
class CufileFile {
 public:
  // Throws std::system_error, or std::runtime_error with what cuFileHandleRegister says.
  CufileFile(Client& client, const std::string& name, std::uint8_t flags);
  ~CufileFile();
  CufileFile(const CufileFile&) = delete;
  CufileFile& operator=(const CufileFile&) = delete;

  CUfileHandle_t handle() const noexcept { return handle_; }
  std::uint64_t size() const noexcept { return file_->size(); }

  // How the calls have come, over all files of the process.
  struct Calls {
    std::uint64_t with_token = 0;
    std::uint64_t without = 0;
  };
  static Calls calls() noexcept;

 private:
  friend struct Operations;

  Client& client_;
  std::shared_ptr<RemoteFile> file_;
  Fd stand_in_;  // cuFile wants a descriptor: one of a file in memory, as long as the server's and without its bytes
  CUfileHandle_t handle_ = nullptr;
  sockaddr address_{};      // what getRDMADeviceList shows
  unsigned under_way_ = 0;  // operations
};

}  // namespace rdma_files
