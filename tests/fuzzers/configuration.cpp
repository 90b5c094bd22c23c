// SPDX-License-Identifier: Apache-2.0
// cufile.json: JSON, then keys, then what follows from them.
#include "config/config.h"
#include "config/load.h"
#include "input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::config::Config config;
  sluice::config::apply_text("cufile.json", sluice::fuzz::text_of(data, size), config);
  for (const sluice::config::Note& note : config.notes) {
    sluice::fuzz::require(note.text.find('\n') == std::string::npos, "a note of more than one line\n");
  }
  return 0;
}
