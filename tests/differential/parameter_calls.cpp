// SPDX-License-Identifier: Apache-2.0
// The configuration: numbers, switches, texts, slabs.
#include <algorithm>
#include <array>

#include "differential/answers.h"
#include "differential/calls.h"

namespace sluice::differential {
namespace {

int parameter(const Words& words) {
  return static_cast<int>(number(words[1]));
}

void get_size(Session& session, const Words& words) {
  SLUICE_NEEDS(get_size);
  std::size_t value = 77777;
  tell(get_size(parameter(words), words[2] == "NULL" ? nullptr : &value));
  answers().add(" value=%zu", value);
}

void set_size(Session& session, const Words& words) {
  SLUICE_NEEDS(set_size);
  tell(set_size(parameter(words), static_cast<std::size_t>(number(words[2]))));
}

void get_bool(Session& session, const Words& words) {
  SLUICE_NEEDS(get_bool);
  unsigned char value = 77;
  tell(get_bool(parameter(words), words[2] == "NULL" ? nullptr : reinterpret_cast<bool*>(&value)));
  answers().add(" value=%d", value);
}

void set_bool(Session& session, const Words& words) {
  SLUICE_NEEDS(set_bool);
  tell(set_bool(parameter(words), number(words[2]) != 0));
}

std::string without_folder(std::string text, const std::string& folder) {
  const std::size_t at = text.find(folder);
  if (at != std::string::npos) text.replace(at, folder.size(), "FOLDER");
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

void get_text(Session& session, const Words& words) {
  SLUICE_NEEDS(get_text);
  std::array<char, 4096> text;
  text.fill('x');
  text.back() = '\0';
  const int room = static_cast<int>(number(words[2]));
  tell(get_text(parameter(words), words[3] == "NULL" ? nullptr : text.data(), room));
  const std::string all(text.data());
  const bool kept = all.size() == text.size() - 1;
  answers().add(" text=\"%s\"", kept ? "(kept)" : without_folder(all, Calls::world(session).folder()).c_str());
}

void set_text(Session& session, const Words& words) {
  SLUICE_NEEDS(set_text);
  std::string text = words[2] == "EMPTY" ? "" : words[2];
  if (text == "LONG") text.assign(5000, 'a');
  if (text.compare(0, 6, "FOLDER") == 0) text.replace(0, 6, Calls::world(session).folder());
  tell(set_text(parameter(words), words[2] == "NULL" ? nullptr : text.c_str()));
}

void min_max(Session& session, const Words& words) {
  SLUICE_NEEDS(min_max);
  std::size_t least = 77777;
  std::size_t most = 77777;
  tell(min_max(parameter(words), has(words[2], "nomin") ? nullptr : &least, has(words[2], "nomax") ? nullptr : &most));
  answers().add(" min=%zu max=%zu", least, most);
}

// SetSlabs LENGTH FLAGS SIZE,SIZE,... COUNT,COUNT,...
std::array<std::size_t, 64> numbers(const std::string& text) {
  std::array<std::size_t, 64> all{};
  std::size_t at = 0;
  for (std::size_t& one : all) {
    if (at >= text.size()) break;
    one = static_cast<std::size_t>(number(text.substr(at)));
    const std::size_t comma = text.find(',', at);
    at = comma == std::string::npos ? text.size() : comma + 1;
  }
  return all;
}

template <Error (*Library::*entry)(const std::size_t*, const std::size_t*, int)>
void set_slabs(Session& session, const Words& words) {
  const auto call = Calls::library(session).*entry;
  if (call == nullptr) {
    answers().add(" absent");
    return;
  }
  const auto sizes = numbers(words[3]);
  const auto counts = numbers(words[4]);
  tell(call(has(words[2], "nosizes") ? nullptr : sizes.data(), has(words[2], "nocounts") ? nullptr : counts.data(),
            parameter(words)));
}

template <Error (*Library::*entry)(std::size_t*, std::size_t*, int)>
void get_slabs(Session& session, const Words& words) {
  const auto call = Calls::library(session).*entry;
  if (call == nullptr) {
    answers().add(" absent");
    return;
  }
  std::array<std::size_t, 64> sizes{};
  std::array<std::size_t, 64> counts{};
  const Error error = call(has(words[2], "nosizes") ? nullptr : sizes.data(),
                           has(words[2], "nocounts") ? nullptr : counts.data(), parameter(words));
  tell(error);
  answers().add(" slabs=");
  for (std::size_t i = 0; i < sizes.size() && (sizes[i] != 0 || counts[i] != 0); ++i) {
    answers().add("%zux%zu,", counts[i], sizes[i]);
  }
}

}  // namespace

const Table& parameter_calls() {
  static const Table table = {
      {"GetSize", get_size},
      {"SetSize", set_size},
      {"GetBool", get_bool},
      {"SetBool", set_bool},
      {"GetText", get_text},
      {"SetText", set_text},
      {"MinMax", min_max},
      {"SetSlabs", set_slabs<&Library::set_slabs>},
      {"GetSlabs", get_slabs<&Library::get_slabs>},
      {"SetGpuSlabs", set_slabs<&Library::set_gpu_slabs>},
      {"GetGpuSlabs", get_slabs<&Library::get_gpu_slabs>},
  };
  return table;
}

}  // namespace sluice::differential
