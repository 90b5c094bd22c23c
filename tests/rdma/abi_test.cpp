// SPDX-License-Identifier: Apache-2.0
// Our page of libibverbs' binary interface, held against its own header where one is installed.
#include <gtest/gtest.h>

#include "rdma/verbs/verbs_abi.h"

#if __has_include(<infiniband/verbs.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <infiniband/verbs.h>
#pragma GCC diagnostic pop

namespace {

#define SAME_SIZE(ours, theirs) EXPECT_EQ(sizeof(sluice::verbs::ours), sizeof(theirs)) << #theirs
#define SAME_PLACE(ours, mine, theirs, yours)                                                       \
  EXPECT_EQ(offsetof(sluice::verbs::ours, mine), offsetof(theirs, yours)) << #theirs << "." #yours; \
  EXPECT_EQ(sizeof(sluice::verbs::ours::mine), sizeof(theirs::yours)) << #theirs << "." #yours

TEST(VerbsAbi, StructuresAreThoseOfTheHeader) {
  SAME_SIZE(Gid, ibv_gid);
  SAME_SIZE(GidEntry, ibv_gid_entry);
  SAME_PLACE(GidEntry, index, ibv_gid_entry, gid_index);
  SAME_PLACE(GidEntry, port, ibv_gid_entry, port_num);
  SAME_PLACE(GidEntry, type, ibv_gid_entry, gid_type);
  EXPECT_GE(sizeof(sluice::verbs::PortAttributes), sizeof(ibv_port_attr)) << "later versions have more";
  SAME_PLACE(PortAttributes, state, ibv_port_attr, state);
  SAME_PLACE(PortAttributes, mtu, ibv_port_attr, active_mtu);
  SAME_PLACE(PortAttributes, gids, ibv_port_attr, gid_tbl_len);
  SAME_PLACE(PortAttributes, lid, ibv_port_attr, lid);
  SAME_PLACE(PortAttributes, layer, ibv_port_attr, link_layer);
  SAME_SIZE(MemoryRegion, ibv_mr);
  SAME_PLACE(MemoryRegion, length, ibv_mr, length);
  SAME_PLACE(MemoryRegion, rkey, ibv_mr, rkey);
  SAME_PLACE(QueuePair, domain, ibv_qp, pd);
  SAME_PLACE(QueuePair, number, ibv_qp, qp_num);
  SAME_SIZE(QueuePairWanted, ibv_qp_init_attr);
  SAME_PLACE(QueuePairWanted, capacity, ibv_qp_init_attr, cap);
  SAME_PLACE(QueuePairWanted, type, ibv_qp_init_attr, qp_type);
  SAME_SIZE(AddressAttributes, ibv_ah_attr);
  SAME_PLACE(AddressAttributes, gid_index, ibv_ah_attr, grh.sgid_index);
  SAME_PLACE(AddressAttributes, hop_limit, ibv_ah_attr, grh.hop_limit);
  SAME_PLACE(AddressAttributes, lid, ibv_ah_attr, dlid);
  SAME_PLACE(AddressAttributes, is_global, ibv_ah_attr, is_global);
  SAME_PLACE(AddressAttributes, port, ibv_ah_attr, port_num);
  SAME_SIZE(QueuePairAttributes, ibv_qp_attr);
  SAME_PLACE(QueuePairAttributes, mtu, ibv_qp_attr, path_mtu);
  SAME_PLACE(QueuePairAttributes, receive_psn, ibv_qp_attr, rq_psn);
  SAME_PLACE(QueuePairAttributes, send_psn, ibv_qp_attr, sq_psn);
  SAME_PLACE(QueuePairAttributes, other, ibv_qp_attr, dest_qp_num);
  SAME_PLACE(QueuePairAttributes, access, ibv_qp_attr, qp_access_flags);
  SAME_PLACE(QueuePairAttributes, address, ibv_qp_attr, ah_attr);
  SAME_PLACE(QueuePairAttributes, pkey_index, ibv_qp_attr, pkey_index);
  SAME_PLACE(QueuePairAttributes, reads, ibv_qp_attr, max_rd_atomic);
  SAME_PLACE(QueuePairAttributes, served_reads, ibv_qp_attr, max_dest_rd_atomic);
  SAME_PLACE(QueuePairAttributes, not_ready_timer, ibv_qp_attr, min_rnr_timer);
  SAME_PLACE(QueuePairAttributes, port, ibv_qp_attr, port_num);
  SAME_PLACE(QueuePairAttributes, timeout, ibv_qp_attr, timeout);
  SAME_PLACE(QueuePairAttributes, retries, ibv_qp_attr, retry_cnt);
  SAME_PLACE(QueuePairAttributes, not_ready_retries, ibv_qp_attr, rnr_retry);
}

TEST(VerbsAbi, NumbersAreThoseOfTheHeader) {
  using namespace sluice::verbs;
  EXPECT_EQ(roce_v2, std::uint32_t{IBV_GID_TYPE_ROCE_V2});
  EXPECT_EQ(port_active, int{IBV_PORT_ACTIVE});
  EXPECT_EQ(layer_ethernet, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(access_local_write, int{IBV_ACCESS_LOCAL_WRITE});
  EXPECT_EQ(access_remote_write, int{IBV_ACCESS_REMOTE_WRITE});
  EXPECT_EQ(access_remote_read, int{IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(type_reliable, int{IBV_QPT_RC});
  EXPECT_EQ(state_init, int{IBV_QPS_INIT});
  EXPECT_EQ(state_ready_to_receive, int{IBV_QPS_RTR});
  EXPECT_EQ(state_ready_to_send, int{IBV_QPS_RTS});
  EXPECT_EQ(set_state, int{IBV_QP_STATE});
  EXPECT_EQ(set_access, int{IBV_QP_ACCESS_FLAGS});
  EXPECT_EQ(set_pkey, int{IBV_QP_PKEY_INDEX});
  EXPECT_EQ(set_port, int{IBV_QP_PORT});
  EXPECT_EQ(set_address, int{IBV_QP_AV});
  EXPECT_EQ(set_mtu, int{IBV_QP_PATH_MTU});
  EXPECT_EQ(set_timeout, int{IBV_QP_TIMEOUT});
  EXPECT_EQ(set_retries, int{IBV_QP_RETRY_CNT});
  EXPECT_EQ(set_not_ready_retries, int{IBV_QP_RNR_RETRY});
  EXPECT_EQ(set_receive_psn, int{IBV_QP_RQ_PSN});
  EXPECT_EQ(set_reads, int{IBV_QP_MAX_QP_RD_ATOMIC});
  EXPECT_EQ(set_not_ready_timer, int{IBV_QP_MIN_RNR_TIMER});
  EXPECT_EQ(set_send_psn, int{IBV_QP_SQ_PSN});
  EXPECT_EQ(set_served_reads, int{IBV_QP_MAX_DEST_RD_ATOMIC});
  EXPECT_EQ(set_other, int{IBV_QP_DEST_QPN});
}

}  // namespace

#else

TEST(VerbsAbi, StructuresAreThoseOfTheHeader) {
  GTEST_SKIP() << "no <infiniband/verbs.h>: install libibverbs-dev";
}

#endif
