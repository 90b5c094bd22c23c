// SPDX-License-Identifier: Apache-2.0
// What tells one machine from all others of its make, replaced: the same thing by the same stand-in everywhere.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace sluice::doctor {

// Replaces the name of the host and of servers, UUIDs, MAC and IP addresses, NQNs, serial numbers, identities of drives
// and volumes, home folders. Names that already are stand-ins stay, so a record of a record is the same.
class Anonymizer {
 public:
  // `host` is the machine's own name; one that is also an ordinary word of such files is left alone.
  explicit Anonymizer(const std::string& host);

  // The content of the file at `path`. Numbers with dots are no addresses where versions stand.
  std::string content(const std::string& path, std::string text);
  // A path, or where a link leads.
  std::string path(std::string text);

  std::size_t replaced() const { return replaced_; }

 private:
  void replace_host(std::string& text, const std::string& name);
  std::string stand_in(std::string_view kind, const std::string& original);

  std::string host_;
  std::map<std::string, std::string, std::less<>> known_;  // "kind original"
  std::map<std::string, std::size_t, std::less<>> counts_;
  std::size_t replaced_ = 0;
};

}  // namespace sluice::doctor
