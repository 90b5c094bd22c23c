// SPDX-License-Identifier: Apache-2.0
// getifaddrs, and lines of words.
#include "topology/told.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

#include "facts/read.h"

namespace sluice::topology {

namespace {

std::vector<std::string_view> words_of_line(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    if (end > begin) words.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// The driver writes addresses in capitals.
std::string lower(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return small;
}

Peer peer_of_words(const std::vector<std::string_view>& words) {
  Peer peer;
  peer.one = lower(words[1]);
  peer.other = lower(words[2]);
  for (std::size_t i = 3; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "access=1") peer.access = true;
    if (word == "nvlink=1") peer.nvlink = true;
    if (word.starts_with("links=")) std::from_chars(word.data() + 6, word.data() + word.size(), peer.links);
  }
  return peer;
}

}  // namespace

Told told_by_lines(const std::string& text) {
  Told told;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::vector<std::string_view> words = words_of_line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (words.size() == 3 && words[0] == "address") {
      told.addresses.push_back({std::string(words[1]), std::string(words[2])});
    } else if (words.size() >= 3 && words[0] == "peer") {
      told.peers.push_back(peer_of_words(words));
      told.peers_known = true;
    } else if (words.size() == 2 && words[0] == "peers" && words[1] == "asked") {
      told.peers_known = true;
    }
  }
  return told;
}

Told told_in(const facts::Root& root) {
  return told_by_lines(facts::read_text(root.at("/sluice/probes")).value_or(""));
}

std::string to_lines(const Told& told) {
  std::string text;
  for (const Address& address : told.addresses) text += fmt::format("address {} {}\n", address.interface, address.text);
  if (told.peers_known) text += "peers asked\n";
  for (const Peer& peer : told.peers) {
    text += fmt::format("peer {} {} access={} nvlink={} links={}\n", peer.one, peer.other, peer.access ? 1 : 0,
                        peer.nvlink ? 1 : 0, peer.links);
  }
  return text;
}

std::vector<Address> own_addresses() {
  std::vector<Address> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> held(list, &::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    sockaddr_in place{};
    std::memcpy(&place, one->ifa_addr, sizeof place);
    std::array<char, INET_ADDRSTRLEN> text{};
    if (::inet_ntop(AF_INET, &place.sin_addr, text.data(), text.size()) == nullptr) continue;
    found.push_back({one->ifa_name, text.data()});
  }
  return found;
}

}  // namespace sluice::topology
