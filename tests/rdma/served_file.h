// SPDX-License-Identifier: Apache-2.0
// A file system of one file in memory whose server reaches registered memory by RDMA: it reads the text that came with
// the operation and writes, or reads, by the stand-in's queue pairs.
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "cufile.h"
#include "sluice_rdma.h"
#include "support/random.h"

namespace sluice::rdma_test {

// An operation that does not return until it is let go.
class Hang {
 public:
  // What the operation does.
  void here() {
    let_go_.get_future().wait();
    over_.set_value();
  }
  // Returns once the operation goes on.
  void end() {
    let_go_.set_value();
    over_.get_future().wait();
  }

 private:
  std::promise<void> let_go_;
  std::promise<void> over_;
};

struct ServedFile {
  ServedFile();
  ~ServedFile();

  // Opens and connects a link on the port with this address; false: it cannot.
  bool connect(const char* address, unsigned pairs = 2);
  void disconnect();  // the newest

  support::Bytes content;
  std::atomic<int> with_token{0};
  std::atomic<int> in_host_memory{0};
  std::atomic<int> lists_asked{0};
  std::atomic<int> priorities_asked{0};

  std::size_t most = SIZE_MAX;  // bytes that an operation moves at most
  int refuse_rdma = 0;          // the errno that operations with a text fail with; 0: they work
  int fail_at = -1;             // with this many operations with a text behind it
  // Instead of moving anything, where it is set; told of the text.
  std::function<ssize_t(const sluice_rdma_token_t&)> instead;
  // Before getRDMADeviceList and getRDMADevicePriority answer, where they are set.
  std::function<void()> before_list;
  std::function<void()> before_priority;
  std::vector<std::string> list;              // what getRDMADeviceList gives
  std::vector<std::string> ranked;            // by priority, best first; what is not in it has none
  std::vector<sluice_rdma_token_t> tokens();  // of all operations with one

  CUfileFSOps_t operations{};

 private:
  friend struct Calls;
  std::mutex mutex_;
  std::vector<sluice_rdma_token_t> tokens_;
  std::vector<sluice_rdma_link_t*> links_;
  std::vector<sockaddr_t> addresses_;
};

}  // namespace sluice::rdma_test
