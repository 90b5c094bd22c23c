// SPDX-License-Identifier: Apache-2.0
#include "sluice/exporter/http.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::tools {
namespace {

const char* words_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Internal Server Error";
  }
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) { return letter > ' ' && letter < 0x7f; });
}

}  // namespace

HttpRequest parse_request(std::string_view received) {
  HttpRequest request;
  const std::size_t end = std::min(received.find("\r\n\r\n"), received.find("\n\n"));
  if (end >= longest_request) {  // or not there yet
    request.state = received.size() < longest_request ? RequestState::incomplete : RequestState::too_long;
    return request;
  }
  std::string_view line = received.substr(0, received.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  request.state = RequestState::wrong;
  const std::size_t first = line.find(' ');
  const std::size_t second = first == line.npos ? first : line.find(' ', first + 1);
  if (second == line.npos) return request;
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (method.empty() || !is_printable(method) || !target.starts_with('/') || !is_printable(target) ||
      !version.starts_with("HTTP/1.") || version.size() != 8) {
    return request;
  }
  request.state = RequestState::whole;
  request.method = method == "GET" ? Method::get : method == "HEAD" ? Method::head : Method::other;
  request.path = target.substr(0, target.find('?'));
  return request;
}

std::string http_answer(int status, std::string_view type, std::string_view body, Method method) {
  std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}X-Content-Type-Options: nosniff\r\n"
      "Connection: close\r\n\r\n",
      status, words_of(status), type, body.size(), status == 405 ? "Allow: GET, HEAD\r\n" : "");
  if (method != Method::head) text += body;
  return text;
}

}  // namespace sluice::tools
