// SPDX-License-Identifier: Apache-2.0
#include "verbs/queue_pair.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace rdma_files {

namespace {

// A packet without an answer is sent again after 4.096 us << 16 (a quarter of a second), seven times at most.
constexpr std::uint8_t answer_time = 16;
constexpr std::uint8_t retries = 7;
constexpr std::uint8_t hops = 64;

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::system_error(error, std::generic_category(), what);
}

void require(const char* what, int error) {
  if (error != 0) fail(what, error);
}

std::uint32_t random24() {
  std::uint32_t number = 0;
  static_cast<void>(!::getrandom(&number, sizeof number, 0));
  return number & 0xffffffU;
}

void require_success(ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS) return;
  const int error = status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ? EACCES : ENOTCONN;
  fail(ibv_wc_status_str(status), error);
}

}  // namespace

QueuePair::QueuePair(std::shared_ptr<Device> device, unsigned depth, Exposure exposure)
    : device_(std::move(device)), exposure_(exposure), first_packet_(random24()) {
  events_.reset(ibv_create_comp_channel(device_->context()));
  if (!events_) fail("ibv_create_comp_channel", errno);
  // Its events are waited for with a deadline.
  ::fcntl(events_->fd, F_SETFL, ::fcntl(events_->fd, F_GETFL) | O_NONBLOCK);
  completions_.reset(ibv_create_cq(device_->context(), static_cast<int>(depth) + 1, nullptr, events_.get(), 0));
  if (!completions_) fail("ibv_create_cq", errno);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions_.get();
  wanted.cap = {.max_send_wr = depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  wanted.qp_type = IBV_QPT_RC;
  wanted.sq_sig_all = 1;
  pair_.reset(ibv_create_qp(device_->domain(), &wanted));
  if (!pair_) fail("ibv_create_qp", errno);
}

Peer QueuePair::own() const noexcept {
  return {.gid = device_->gid(),
          .lid = device_->attributes().lid,
          .queue_pair = pair_->qp_num,
          .first_packet = first_packet_,
          .mtu = static_cast<std::uint8_t>(device_->attributes().active_mtu)};
}

void QueuePair::to_init() {
  ibv_qp_attr next{};
  next.qp_state = IBV_QPS_RESET;
  require("the queue pair's reset", ibv_modify_qp(pair_.get(), &next, IBV_QP_STATE));
  next.qp_state = IBV_QPS_INIT;
  next.port_num = device_->port();
  next.qp_access_flags =
      exposure_ == Exposure::nothing ? 0U : static_cast<unsigned>(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  require("the queue pair's INIT",
          ibv_modify_qp(pair_.get(), &next, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

void QueuePair::link(const Peer& other) {
  to_init();
  ibv_qp_attr next{};
  next.qp_state = IBV_QPS_RTR;
  next.path_mtu = static_cast<ibv_mtu>(std::min<std::uint8_t>(other.mtu, own().mtu));
  next.dest_qp_num = other.queue_pair;
  next.rq_psn = other.first_packet;
  next.max_dest_rd_atomic = kReadsAtOnce;
  next.min_rnr_timer = 12;
  next.ah_attr.dlid = other.lid;
  next.ah_attr.port_num = device_->port();
  next.ah_attr.is_global = 1;
  std::copy(other.gid.begin(), other.gid.end(), next.ah_attr.grh.dgid.raw);
  next.ah_attr.grh.sgid_index = device_->gid_index();
  next.ah_attr.grh.hop_limit = hops;
  require("the queue pair's RTR", ibv_modify_qp(pair_.get(), &next,
                                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
  next.qp_state = IBV_QPS_RTS;
  next.sq_psn = first_packet_;
  next.timeout = answer_time;
  next.retry_cnt = retries;
  next.rnr_retry = retries;
  next.max_rd_atomic = kReadsAtOnce;
  require("the queue pair's RTS", ibv_modify_qp(pair_.get(), &next,
                                                IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                                    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

void QueuePair::unlink() noexcept {
  ibv_qp_attr next{};
  next.qp_state = IBV_QPS_RESET;
  static_cast<void>(ibv_modify_qp(pair_.get(), &next, IBV_QP_STATE));
  first_packet_ = random24();
}

void QueuePair::break_off() noexcept {
  ibv_qp_attr next{};
  next.qp_state = IBV_QPS_ERR;
  static_cast<void>(ibv_modify_qp(pair_.get(), &next, IBV_QP_STATE));
}

void QueuePair::post(const Move& move) {
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(move.local), .length = move.length, .lkey = move.local_key};
  ibv_send_wr work{};
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = move.operation;
  work.wr.rdma.remote_addr = move.remote;
  work.wr.rdma.rkey = move.remote_key;
  ibv_send_wr* bad = nullptr;
  require("ibv_post_send", ibv_post_send(pair_.get(), &work, &bad));
}

void QueuePair::wait(Deadline deadline) {
  ibv_wc completion{};
  for (;;) {
    // Looked at before and after the event is asked for: one that comes between is not missed.
    int count = ibv_poll_cq(completions_.get(), 1, &completion);
    if (count == 0) {
      require("ibv_req_notify_cq", ibv_req_notify_cq(completions_.get(), 0));
      count = ibv_poll_cq(completions_.get(), 1, &completion);
    }
    if (count < 0) fail("ibv_poll_cq", EIO);
    if (count == 1) return require_success(completion.status);
    wait_for(events_->fd, POLLIN, deadline);
    ibv_cq* ready = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(events_.get(), &ready, &context) == 0) ibv_ack_cq_events(ready, 1);
  }
}

}  // namespace rdma_files
