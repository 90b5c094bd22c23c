// SPDX-License-Identifier: Apache-2.0
#include "wire/message.h"

#include <algorithm>

namespace rdma_files {

namespace {

enum Kind : std::uint8_t { kOpen = 1, kClose, kLink, kTransfer, kAnswer };

class Writer {
 public:
  template <typename Number>
  Writer& put(Number number) {
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      bytes_.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(number) >> (8 * i)));
    }
    return *this;
  }
  template <typename Range>
  Writer& put_all(const Range& range) {
    bytes_.insert(bytes_.end(), range.begin(), range.end());
    return *this;
  }
  Writer& put(const Peer& peer) {
    return put_all(peer.gid).put(peer.lid).put(peer.queue_pair).put(peer.first_packet).put(peer.mtu);
  }
  Payload take() { return std::move(bytes_); }

 private:
  Payload bytes_;
};

// Remembers when something was missing or wrong; what it gives then means nothing.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  template <typename Number>
  Number get() {
    std::uint64_t value = 0;
    const auto bytes = take(sizeof(Number));
    for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
    return static_cast<Number>(value);
  }
  // Numbers of queue pairs and packets have 24 bits.
  std::uint32_t get24() {
    const auto value = get<std::uint32_t>();
    require(value < 1U << 24U);
    return value;
  }
  bool get_bool() {
    const auto value = get<std::uint8_t>();
    require(value <= 1);
    return value == 1;
  }
  Peer get_peer() {
    Peer peer;
    std::ranges::copy(take(peer.gid.size()), peer.gid.begin());
    peer.lid = get<std::uint16_t>();
    peer.queue_pair = get24();
    peer.first_packet = get24();
    peer.mtu = get<std::uint8_t>();
    return peer;
  }
  std::string get_text(std::size_t length) {
    const auto bytes = take(length);
    return {bytes.begin(), bytes.end()};
  }
  void require(bool holds) { good_ = good_ && holds; }
  bool all_good() const { return good_ && rest_.empty(); }

 private:
  std::span<const std::uint8_t> take(std::size_t count) {
    require(count <= rest_.size());
    if (!good_) return {};
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const std::uint8_t> rest_;
  bool good_ = true;
};

Open read_open(Reader& from) {
  Open open;
  open.flags = from.get<std::uint8_t>();
  from.require(open.flags <= (kOpenWrite | kOpenCreate | kOpenTruncate));
  from.require((open.flags & kOpenWrite) != 0 || open.flags == 0);
  open.name = from.get_text(from.get<std::uint8_t>());
  from.require(is_plain_name(open.name));
  return open;
}

Link read_link(Reader& from) {
  Link link{from.get_peer()};
  from.require(link.client.mtu >= 1 && link.client.mtu <= 5);
  return link;
}

Transfer read_transfer(Reader& from) {
  Transfer transfer;
  const auto direction = from.get<std::uint8_t>();
  from.require(direction <= 1);
  transfer.direction = direction == 0 ? Direction::read : Direction::write;
  transfer.file = from.get<std::uint32_t>();
  transfer.offset = from.get<std::uint64_t>();
  transfer.length = from.get<std::uint64_t>();
  transfer.into = from.get<std::uint64_t>();
  transfer.queue_pair = from.get24();
  const std::optional<Token> token = read_token(from.get_text(kTokenLength));
  from.require(token.has_value());
  transfer.token = token.value_or(Token{});
  from.require(part_of(transfer.token, transfer.into, transfer.length).has_value());
  // The kernel counts file offsets by signed numbers.
  from.require(transfer.offset <= INT64_MAX - transfer.length);
  return transfer;
}

struct Packer {
  Writer& to;
  std::uint32_t id;

  void operator()(const Open& open) const {
    to.put(kOpen).put(id).put(open.flags).put(static_cast<std::uint8_t>(open.name.size())).put_all(open.name);
  }
  void operator()(const Close& close) const { to.put(kClose).put(id).put(close.file); }
  void operator()(const Link& link) const { to.put(kLink).put(id).put(link.client); }
  void operator()(const Transfer& transfer) const {
    to.put(kTransfer).put(id).put(static_cast<std::uint8_t>(transfer.direction)).put(transfer.file);
    to.put(transfer.offset).put(transfer.length).put(transfer.into).put(transfer.queue_pair);
    to.put_all(text_of(transfer.token));
  }
};

}  // namespace

bool is_plain_name(const std::string& name) noexcept {
  return !name.empty() && name.size() <= kLongestName && name != "." && name != ".." &&
         std::ranges::none_of(name, [](char c) { return c == '/' || c == '\0'; });
}

Payload packed(const Request& request) {
  Writer to;
  std::visit(Packer{to, request.id}, request.what);
  return to.take();
}

Payload packed(const Answer& answer) {
  Writer to;
  to.put(kAnswer).put(answer.id).put(answer.error).put(static_cast<std::uint8_t>(answer.link_lost));
  to.put(answer.number).put(answer.bytes).put(answer.server);
  return to.take();
}

std::optional<Request> read_request(std::span<const std::uint8_t> payload) {
  Reader from(payload);
  Request request;
  const auto kind = from.get<std::uint8_t>();
  request.id = from.get<std::uint32_t>();
  switch (kind) {
    case kOpen:
      request.what = read_open(from);
      break;
    case kClose:
      request.what = Close{from.get<std::uint32_t>()};
      break;
    case kLink:
      request.what = read_link(from);
      break;
    case kTransfer:
      request.what = read_transfer(from);
      break;
    default:
      return std::nullopt;
  }
  return from.all_good() ? std::optional<Request>(std::move(request)) : std::nullopt;
}

std::optional<Answer> read_answer(std::span<const std::uint8_t> payload) {
  Reader from(payload);
  Answer answer;
  from.require(from.get<std::uint8_t>() == kAnswer);
  answer.id = from.get<std::uint32_t>();
  answer.error = from.get<std::int32_t>();
  from.require(answer.error >= 0 && answer.error < 4096);
  answer.link_lost = from.get_bool();
  answer.number = from.get<std::uint32_t>();
  answer.bytes = from.get<std::uint64_t>();
  answer.server = from.get_peer();
  return from.all_good() ? std::optional<Answer>(answer) : std::nullopt;
}

}  // namespace rdma_files
