// SPDX-License-Identifier: Apache-2.0
// The one folder that is served. A name is one component and no link, so nothing outside can be reached by it.
#pragma once

#include <memory>
#include <string>

#include "net/socket.h"
#include "wire/message.h"

namespace rdma_files {

struct ServedFile {
  Fd fd;
  bool writable = false;
};

class Folder {
 public:
  explicit Folder(const std::string& path);

  struct Opened {
    int error = 0;  // an errno
    std::shared_ptr<const ServedFile> file{};
    std::uint64_t size = 0;
  };
  Opened open(const Open& request) const;

 private:
  Fd fd_;
};

}  // namespace rdma_files
