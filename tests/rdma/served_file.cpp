// SPDX-License-Identifier: Apache-2.0
#include "rdma/served_file.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "rdma/fake_verbs.h"

namespace sluice::rdma_test {

namespace {

ServedFile* served = nullptr;        // operations know their handle alone
std::atomic<unsigned> under_way{0};  // of the operations

// While an operation uses what is served: the caller may have stopped waiting for it.
class UnderWay {
 public:
  UnderWay() noexcept { ++under_way; }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  ~UnderWay() {
    --under_way;
    under_way.notify_all();
  }
};

ssize_t fail_with(int error) {
  errno = error;
  return -1;
}

sockaddr_t address_of(const std::string& text) {
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  ::inet_pton(AF_INET, text.c_str(), &ipv4.sin_addr);
  sockaddr_t address;
  std::memcpy(&address, &ipv4, sizeof address);
  return address;
}

std::string text_of(const sockaddr_t& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  sockaddr_in ipv4;
  std::memcpy(&ipv4, &address, sizeof ipv4);
  ::inet_ntop(AF_INET, &ipv4.sin_addr, text.data(), text.size());
  return text.data();
}

}  // namespace

struct Calls {
  // The text, if it is one of the known form for exactly this memory.
  static bool note(const cufileRDMAInfo_t& info, const void* buffer, std::size_t size, sluice_rdma_token_t& token) {
    if (info.version != SLUICE_RDMA_TOKEN_VERSION || info.desc_str[info.desc_len] != '\0') return false;
    if (sluice_rdma_token_read(info.desc_str, static_cast<std::size_t>(info.desc_len), &token) != 0) return false;
    if (token.size != size || token.address % 8 != reinterpret_cast<std::uint64_t>(buffer) % 8) return false;
    const std::lock_guard lock(served->mutex_);
    served->tokens_.push_back(token);
    return true;
  }

  static ssize_t by_rdma(bool reads, const sluice_rdma_token_t& token, std::size_t size, std::size_t at) {
    if (served->instead) return served->instead(token);
    const int number = served->with_token;
    const bool fails = served->fail_at < 0 || number > served->fail_at;
    if (served->refuse_rdma != 0 && fails) return fail_with(served->refuse_rdma);
    support::Bytes& content = served->content;
    std::size_t count = std::min(size, served->most);
    if (reads) {
      count = std::min(count, content.size() - std::min(at, content.size()));
      const int answer = fake_verbs_remote_write(token.qp, token.rkey, token.address, content.data() + at, count);
      return answer == 0 ? static_cast<ssize_t>(count) : fail_with(EREMOTEIO);
    }
    const std::lock_guard lock(served->mutex_);
    if (content.size() < at + count) content.resize(at + count);
    const int answer = fake_verbs_remote_read(token.qp, token.rkey, token.address, content.data() + at, count);
    return answer == 0 ? static_cast<ssize_t>(count) : fail_with(EREMOTEIO);
  }

  static ssize_t read(void* /*handle*/, char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* info) {
    const UnderWay until_it_ends;
    const auto at = static_cast<std::size_t>(offset);
    if (info != nullptr) {
      ++served->with_token;
      sluice_rdma_token_t token{};
      return note(*info, buffer, size, token) ? by_rdma(true, token, size, at) : fail_with(EBADMSG);
    }
    ++served->in_host_memory;
    const std::size_t there = std::min(at, served->content.size());
    const std::size_t count = std::min(size, served->content.size() - there);
    std::memcpy(buffer, served->content.data() + there, count);
    return static_cast<ssize_t>(count);
  }

  static ssize_t write(void* /*handle*/, const char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* info) {
    const UnderWay until_it_ends;
    const auto at = static_cast<std::size_t>(offset);
    if (info != nullptr) {
      ++served->with_token;
      sluice_rdma_token_t token{};
      return note(*info, buffer, size, token) ? by_rdma(false, token, size, at) : fail_with(EBADMSG);
    }
    ++served->in_host_memory;
    const std::lock_guard lock(served->mutex_);
    if (served->content.size() < at + size) served->content.resize(at + size);
    std::memcpy(served->content.data() + at, buffer, size);
    return static_cast<ssize_t>(size);
  }

  static int list(void* /*handle*/, sockaddr_t** addresses) {
    const UnderWay until_it_ends;
    ++served->lists_asked;
    if (served->before_list) served->before_list();
    served->addresses_.clear();
    for (const std::string& one : served->list) served->addresses_.push_back(address_of(one));
    *addresses = served->addresses_.data();
    return static_cast<int>(served->addresses_.size());
  }

  static int priority(void* /*handle*/, char* /*buffer*/, size_t /*size*/, off_t /*offset*/, sockaddr_t* address) {
    const UnderWay until_it_ends;
    ++served->priorities_asked;
    if (served->before_priority) served->before_priority();
    const auto found = std::find(served->ranked.begin(), served->ranked.end(), text_of(*address));
    return found == served->ranked.end() ? -1 : static_cast<int>(found - served->ranked.begin());
  }
};

ServedFile::ServedFile() {
  served = this;
  operations.read = Calls::read;
  operations.write = Calls::write;
  operations.getRDMADeviceList = Calls::list;
  operations.getRDMADevicePriority = Calls::priority;
}

ServedFile::~ServedFile() {
  for (unsigned left = under_way; left != 0; left = under_way) under_way.wait(left);
  while (!links_.empty()) disconnect();
  served = nullptr;
}

bool ServedFile::connect(const char* address, unsigned pairs) {
  const sockaddr_t there = address_of(address);
  sluice_rdma_link_t* link = nullptr;
  std::array<sluice_rdma_endpoint_t, SLUICE_RDMA_MOST_QUEUE_PAIRS> ends{};
  if (sluice_rdma_link_open(&there, pairs, &link, ends.data()) != 0) return false;
  links_.push_back(link);
  return sluice_rdma_link_connect(link, ends.data(), pairs) == 0;
}

void ServedFile::disconnect() {
  sluice_rdma_link_close(links_.back());
  links_.pop_back();
}

std::vector<sluice_rdma_token_t> ServedFile::tokens() {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

}  // namespace sluice::rdma_test
