// SPDX-License-Identifier: Apache-2.0
// As much of HTTP as a scrape needs: the first line of a request, and a whole answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::tools {

enum class RequestState : std::uint8_t { incomplete, whole, wrong, too_long };
enum class Method : std::uint8_t { get, head, other };

struct HttpRequest {
  RequestState state = RequestState::incomplete;
  Method method = Method::other;
  std::string_view path;  // part of what was parsed, without what follows a '?'
};

constexpr std::size_t longest_request = 8192;

// Of what has come so far.
HttpRequest parse_request(std::string_view received);

// An answer after which the connection is closed; without the body for HEAD.
std::string http_answer(int status, std::string_view type, std::string_view body, Method method);

}  // namespace sluice::tools
