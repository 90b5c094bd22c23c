// SPDX-License-Identifier: Apache-2.0
#include "core/ready_thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>

namespace sluice::csi {

ReadyThread::ReadyThread(int descriptor, std::function<void()> first, std::function<void()> when_ready)
    : first_(std::move(first)),
      when_ready_(std::move(when_ready)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      thread_([this, descriptor] { run(descriptor); }) {}

ReadyThread::~ReadyThread() {
  const std::uint64_t one = 1;
  const ssize_t ignored = write(stop_.get(), &one, sizeof one);
  static_cast<void>(ignored);
  thread_.join();
}

void ReadyThread::run(int descriptor) {
  first_();
  for (;;) {
    std::array<pollfd, 2> wanted = {{{stop_.get(), POLLIN, 0}, {descriptor, POLLIN, 0}}};
    if (poll(wanted.data(), wanted.size(), -1) < 0) continue;
    if ((wanted[0].revents & POLLIN) != 0) return;
    when_ready_();
  }
}

}  // namespace sluice::csi
