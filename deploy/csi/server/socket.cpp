// SPDX-License-Identifier: Apache-2.0
#include "server/socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/un.h>
#include <time.h>

#include <cerrno>

#include "core/mounts.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {

SocketLock::SocketLock(const std::string& path, std::chrono::seconds wait) {
  if (path.empty() || path.front() != '/' || path.size() > sizeof(sockaddr_un::sun_path) - 1) {
    refuse(Code::invalid_argument, "A socket's path is absolute and has at most 107 bytes: " + path);
  }
  make_folder(std::string(facts::parent_path(path)), 0750);
  const std::string beside = path + ".lock";
  file_ = base::UniqueFd(open(beside.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file_) refuse_errno("making " + beside, errno);
  for (auto left = wait * 10; left.count() >= 0; --left) {
    if (flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return;
    const timespec pause = {0, 100'000'000};
    nanosleep(&pause, nullptr);
  }
  refuse(Code::failed_precondition, "Another process serves " + path + ". End it, or give this one another path.");
}

}  // namespace sluice::csi
