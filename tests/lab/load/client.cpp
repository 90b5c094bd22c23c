// SPDX-License-Identifier: Apache-2.0
#include "lab/load/client.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "lab/probe/system.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/memory.h"

namespace sluice::lab {

namespace {

constexpr int kOpening = O_RDWR | O_DIRECT;

class PlainClient : public Client {
 public:
  explicit PlainClient(const std::string& target) : file_(target, kOpening) {}
  void read(std::span<std::byte> memory, off_t offset) override { must_read(file_.get(), memory, offset); }
  void write(std::span<const std::byte> memory, off_t offset) override { must_write(file_.get(), memory, offset); }

 private:
  File file_;
};

class CufileClient : public Client {
 public:
  CufileClient(const std::string& target, std::size_t length)
      : file_(target, kOpening), handle_(file_.get()), memory_(support::usual_memory(), length) {}

  void read(std::span<std::byte> memory, off_t offset) override {
    must_move(support::read_file(handle_.get(), memory_.address(), memory.size(), offset), memory.size(), "cuFileRead");
    const support::Bytes bytes = memory_.get(0, memory.size());
    std::memcpy(memory.data(), bytes.data(), bytes.size());
  }

  void write(std::span<const std::byte> memory, off_t offset) override {
    memory_.put(0, {reinterpret_cast<const unsigned char*>(memory.data()), memory.size()});
    must_move(support::write_file(handle_.get(), memory_.address(), memory.size(), offset), memory.size(),
              "cuFileWrite");
  }

 private:
  static void must_move(support::Transfer transfer, std::size_t length, const char* call) {
    if (transfer == support::moved(length)) return;
    throw std::runtime_error(std::string(call) + " answered " + std::to_string(transfer.count) + ", errno " +
                             std::to_string(transfer.error));
  }

  File file_;
  support::Handle handle_;
  support::Memory memory_;
};

}  // namespace

std::unique_ptr<Client> make_client(const std::string& name, const std::string& target, std::size_t length) {
  if (name == "pread") return std::make_unique<PlainClient>(target);
  if (name == "cufile") return std::make_unique<CufileClient>(target, length);
  throw std::invalid_argument("no client is called " + name);
}

}  // namespace sluice::lab
