// SPDX-License-Identifier: Apache-2.0
// The table of calls and their weights. Transfers and registrations are frequent; what ends everything is rare, so that
// there is something to end.
#include "fuzz/families.h"

#include <array>
#include <numeric>

namespace sluice::fuzz {
namespace {

constexpr std::array calls{
    Call{12, open_driver},
    Call{8, close_driver},
    Call{2, close_driver_to_the_end},
    Call{10, ask_driver},
    Call{8, set_property},
    Call{4, use_p2p_flags},
    Call{1, export_topology},
    Call{120, register_file},
    Call{20, register_wrong_file},
    Call{15, deregister_file},
    Call{10, renew_fickle_descriptor},
    Call{40, register_buffer},
    Call{10, register_wrong_buffer},
    Call{30, deregister_buffer},
    Call{5, free_registered_buffer},
    Call{120, read_truth},
    Call{30, read_fickle},
    Call{70, write_slice},
    Call{40, read_slice},
    Call{30, transfer_vector},
    Call{40, transfer_wrongly},
    Call{15, use_own_batch},
    Call{15, set_up_batch},
    Call{25, submit_batch},
    Call{25, collect_batch},
    Call{5, cancel_batch},
    Call{5, destroy_batch},
    Call{10, use_wrong_batch},
    Call{25, use_own_plan},
    Call{10, use_wrong_plan},
    Call{25, read_on_stream},
    Call{15, write_on_stream},
    Call{8, use_stream_wrongly},
    Call{8, register_stream},
    Call{8, deregister_stream},
    Call{15, get_parameter},
    Call{15, set_parameter},
    Call{8, use_slab_arrays},
    Call{12, set_statistics},
    Call{12, get_statistics},
    Call{10, explain},
    Call{10, ask_sluice},
};

constexpr unsigned all_weights =
    std::accumulate(calls.begin(), calls.end(), 0U, [](unsigned sum, const Call& call) { return sum + call.weight; });

}  // namespace

const Call& draw_call(Actor& actor) {
  std::uint64_t left = actor.draw(all_weights);
  std::size_t chosen = 0;
  while (left >= calls[chosen].weight) left -= calls[chosen++].weight;
  return calls[chosen];
}

}  // namespace sluice::fuzz
