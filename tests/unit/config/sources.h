// SPDX-License-Identifier: Apache-2.0
// Stand-ins for the environment, /etc and stderr.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/config.h"

namespace sluice::config {

// While it lives, sources() leads to this environment and this file instead of the machine's. One at a time.
class Pretended {
 public:
  Pretended();
  ~Pretended();
  Pretended(const Pretended&) = delete;
  Pretended& operator=(const Pretended&) = delete;

  Sources sources() const;
  void set(const std::string& variable, const std::string& value);
  void unset(const std::string& variable);

  // Writes what stands in for /etc/cufile.json; its full name.
  std::string write(const std::string& text) const;
  // Another file of the same folder.
  std::string write(const std::string& name, const std::string& text) const;
  const std::string& folder() const { return folder_; }

  // What was said on stderr so far.
  const std::vector<std::string>& said() const;

  Config read() const { return make_config(sources(), {}); }

 private:
  std::string folder_;
};

// A Config of this text alone, as if it stood in the file "cufile.json".
Config config_of(const std::string& text);

// The texts of the notes of one level.
std::vector<std::string> notes_at(const Config& config, LogLevel level);

// The key of this name, which exists.
std::size_t key_named(std::string_view name);

// A value of a key as JSON.
std::string json_of(const Config& config, std::string_view key);

}  // namespace sluice::config
