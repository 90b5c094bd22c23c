// SPDX-License-Identifier: Apache-2.0
// What is known of one key of cufile.json. The rows are in general_keys.h and storage_keys.h; keys.h puts them
// together. Reader, documentation and gdscheck all live on them.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::config {

// Ordinals of GPUs are below this; the library keeps so many (gpu::max_devices).
inline constexpr unsigned most_gpus = 64;

enum class Kind : std::uint8_t {
  flag,       // true or false
  number,     // a whole number within `limits`
  level,      // the name of a log level, or its number
  text,       // any text
  choice,     // one of `choices`
  hex,        // up to 32 bits as text: "0x1f"
  links,      // "auto", "own", "lend", or ordinals of GPUs: "0,2"
  numbers,    // a list of numbers within `limits`
  texts,      // a list of texts
  choices,    // a list of `choices`, each at most once
  addresses,  // a list of IPv4 addresses
  mounts,     // {"/mount/point": {"rdma_dev_addr_list": [addresses]}}
};

// What comes of a key here. In the order of sluice_effect_t.
enum class Effect : std::uint8_t {
  obeyed,    // it changes what the library does
  reported,  // properties and parameters tell it; no transfer goes another way for it
  accepted,  // it is read and checked, and changes nothing
};

// Of a number: lowest..highest in steps; -1 stands for "no limit" where the key knows that.
struct Limits {
  std::int64_t lowest = 0;
  std::int64_t highest = 4294967295;
  std::int64_t step = 1;
  bool unlimited = false;
};

// A row: name, kind, standard, effect, meaning, here; what few keys have is put behind it by a call.
struct Key {
  std::string_view name{};      // dotted: "properties.io_batchsize"
  Kind kind{};                  //
  std::string_view standard{};  // what holds where nothing is configured, as JSON: also NVIDIA's stock value
  Effect effect = Effect::accepted;
  std::string_view meaning{};      // what the key is about
  std::string_view here{};         // what it does in this version
  std::string_view choices{};      // separated by '|'
  Limits limits{};                 //
  std::string_view also_stock{};   // another value that a stock file has carried, as JSON
  std::string_view environment{};  // the variable that sets it

  template <typename Value>
  consteval Key with(Value Key::*member, Value value) const {
    Key key = *this;
    key.*member = value;
    return key;
  }
  consteval Key of(std::string_view all) const { return with(&Key::choices, all); }
  consteval Key within(Limits bounds) const { return with(&Key::limits, bounds); }
  consteval Key also(std::string_view value) const { return with(&Key::also_stock, value); }
  consteval Key by(std::string_view variable) const { return with(&Key::environment, variable); }
};

}  // namespace sluice::config
