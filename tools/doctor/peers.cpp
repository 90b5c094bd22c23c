// SPDX-License-Identifier: Apache-2.0
// Functions of two libraries with stable C interfaces, found by name.
#include "doctor/peers.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <vector>

namespace sluice::doctor {
namespace {

constexpr const char* management_library = "libnvidia-ml.so.1";
constexpr unsigned most_links = 18;  // of a Hopper or Blackwell GPU

using ManagedDevice = void*;

// nvmlPciInfo_t.
struct RemoteInfo {
  std::array<char, 16> short_address;
  std::array<unsigned, 5> numbers;
  std::array<char, 32> address;
};

template <typename Function>
Function* symbol_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// "00000000:17:00.0" and "0000:17:00.0" are one: the domain without its leading zeroes.
std::string plain_address(const char* text) {
  std::string address(text);
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const std::size_t colon = address.find(':');
  if (colon != std::string::npos && colon > 4) {
    const std::size_t zeroes = std::min(address.find_first_not_of('0'), colon - 4);
    address.erase(0, std::min(zeroes, colon - 4));
  }
  return address;
}

class Management {
 public:
  Management() : library_(dlopen(management_library, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    auto* const begin = symbol_of<int()>(library_, "nvmlInit_v2");
    by_address_ = symbol_of<int(const char*, ManagedDevice*)>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
    status_ = symbol_of<int(ManagedDevice, ManagedDevice, int, int*)>(library_, "nvmlDeviceGetP2PStatus");
    state_ = symbol_of<int(ManagedDevice, unsigned, int*)>(library_, "nvmlDeviceGetNvLinkState");
    remote_ = symbol_of<int(ManagedDevice, unsigned, RemoteInfo*)>(library_, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    works_ = begin != nullptr && by_address_ != nullptr && status_ != nullptr && begin() == 0;
  }

  ManagedDevice device(const std::string& address) const {
    ManagedDevice found = nullptr;
    return works_ && by_address_(address.c_str(), &found) == 0 ? found : nullptr;
  }

  // Nothing where it cannot be told.
  std::optional<bool> has_nvlink(ManagedDevice one, ManagedDevice other) const {
    constexpr int by_nvlink = 2;
    int status = 0;
    if (one == nullptr || other == nullptr || status_(one, other, by_nvlink, &status) != 0) return std::nullopt;
    return status == 0;
  }

  // Links that are up, by what is at their other end: a GPU's address; a switch's, behind NVSwitches; "".
  std::map<std::string, int> links(ManagedDevice device) const {
    std::map<std::string, int> found;
    for (unsigned link = 0; device != nullptr && state_ != nullptr && link < most_links; ++link) {
      int up = 0;
      if (state_(device, link, &up) != 0 || up == 0) continue;
      RemoteInfo info{};
      const bool told = remote_ != nullptr && remote_(device, link, &info) == 0;
      info.address.back() = '\0';
      ++found[told ? plain_address(info.address.data()) : std::string()];
    }
    return found;
  }

 private:
  void* library_;  // stays: the process that asks ends soon
  bool works_ = false;
  int (*by_address_)(const char*, ManagedDevice*) = nullptr;
  int (*status_)(ManagedDevice, ManagedDevice, int, int*) = nullptr;
  int (*state_)(ManagedDevice, unsigned, int*) = nullptr;
  int (*remote_)(ManagedDevice, unsigned, RemoteInfo*) = nullptr;
};

struct Asked {
  std::string address;
  ManagedDevice managed = nullptr;
  std::map<std::string, int> links;
};

// Links from one to the other; behind switches all that the weaker of both has.
int links_between(const std::vector<Asked>& all, const Asked& one, const Asked& other) {
  if (const auto direct = one.links.find(other.address); direct != one.links.end()) return direct->second;
  const auto beyond_gpus = [&all](const Asked& gpu) {
    int count = 0;
    for (const auto& [end, links] : gpu.links) {
      const bool is_gpu =
          std::any_of(all.begin(), all.end(), [&end = end](const Asked& a) { return a.address == end; });
      if (!is_gpu) count += links;
    }
    return count;
  };
  return std::min(beyond_gpus(one), beyond_gpus(other));
}

}  // namespace

std::string ask_peers(void* cuda, int devices) {
  auto* const address_of = symbol_of<int(char*, int, int)>(cuda, "cuDeviceGetPCIBusId");
  auto* const attribute = symbol_of<int(int*, int, int, int)>(cuda, "cuDeviceGetP2PAttribute");
  if (address_of == nullptr || attribute == nullptr) return {};
  const Management management;
  std::vector<Asked> all;
  for (int i = 0; i < devices; ++i) {
    std::array<char, 32> text{};
    address_of(text.data(), static_cast<int>(text.size()), i);
    Asked asked{plain_address(text.data()), nullptr, {}};
    asked.managed = management.device(asked.address);
    asked.links = management.links(asked.managed);
    all.push_back(std::move(asked));
  }
  std::string lines = "peers asked\n";
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      constexpr int access_supported = 2;
      constexpr int native_atomics = 3;
      int access = 0;
      int atomics = 0;
      attribute(&access, access_supported, static_cast<int>(a), static_cast<int>(b));
      attribute(&atomics, native_atomics, static_cast<int>(a), static_cast<int>(b));
      const bool nvlink = management.has_nvlink(all[a].managed, all[b].managed).value_or(access != 0 && atomics != 0);
      lines += fmt::format("peer {} {} access={} nvlink={} links={}\n", all[a].address, all[b].address,
                           access != 0 ? 1 : 0, nvlink ? 1 : 0, nvlink ? links_between(all, all[a], all[b]) : 0);
    }
  }
  return lines;
}

}  // namespace sluice::doctor
