// SPDX-License-Identifier: Apache-2.0
// What connects to `sluice exporter`: any bytes, in any pieces.
#include "sluice/exporter/http.h"

#include "input.h"

using namespace sluice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  tools::HttpRequest last;
  for (std::size_t length = 0; length <= size; length += 1 + size / 16) {
    last = tools::parse_request(bytes.substr(0, length));
    // What is no request will not become one.
    if (last.state == tools::RequestState::wrong) break;
  }
  const tools::HttpRequest whole = tools::parse_request(bytes);
  fuzz::require(last.state != tools::RequestState::wrong || whole.state != tools::RequestState::whole,
                "a wrong request became a whole one\n");
  fuzz::require(whole.state != tools::RequestState::whole || whole.path.starts_with('/'), "a path without its slash\n");
  static_cast<void>(tools::http_answer(200, "text/plain", whole.path, whole.method));
  return 0;
}
