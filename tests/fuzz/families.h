// SPDX-License-Identifier: Apache-2.0
// The calls that are drawn, by family. Each function makes one call, or a few that belong together, with arguments of
// which some are valid, some stale and some garbage, and judges the answers.
#pragma once

#include <cstdint>

#include "fuzz/actor.h"

namespace sluice::fuzz {

struct Call {
  unsigned weight = 1;  // how often it is drawn, compared with others
  void (*make)(Actor&) = nullptr;
};

// By weight, from all families.
const Call& draw_call(Actor& actor);

// driver_calls.cpp
void open_driver(Actor& actor);
void close_driver(Actor& actor);
void close_driver_to_the_end(Actor& actor);
void ask_driver(Actor& actor);
void set_property(Actor& actor);
void use_p2p_flags(Actor& actor);
void export_topology(Actor& actor);

// file_calls.cpp
void register_file(Actor& actor);
void register_wrong_file(Actor& actor);
void deregister_file(Actor& actor);
void renew_fickle_descriptor(Actor& actor);

// buffer_calls.cpp
void register_buffer(Actor& actor);
void register_wrong_buffer(Actor& actor);
void deregister_buffer(Actor& actor);
void free_registered_buffer(Actor& actor);

// transfer_calls.cpp
void read_truth(Actor& actor);
void read_fickle(Actor& actor);
void write_slice(Actor& actor);
void read_slice(Actor& actor);
void transfer_vector(Actor& actor);
void transfer_wrongly(Actor& actor);

// batch_calls.cpp
void use_own_batch(Actor& actor);
void set_up_batch(Actor& actor);
void submit_batch(Actor& actor);
void collect_batch(Actor& actor);
void cancel_batch(Actor& actor);
void destroy_batch(Actor& actor);
void use_wrong_batch(Actor& actor);

// plan_calls.cpp
void use_own_plan(Actor& actor);
void use_wrong_plan(Actor& actor);

// stream_calls.cpp
void read_on_stream(Actor& actor);
void write_on_stream(Actor& actor);
void use_stream_wrongly(Actor& actor);
void register_stream(Actor& actor);
void deregister_stream(Actor& actor);

// parameter_calls.cpp
void get_parameter(Actor& actor);
void set_parameter(Actor& actor);
void use_slab_arrays(Actor& actor);

// statistics_calls.cpp
void set_statistics(Actor& actor);
void get_statistics(Actor& actor);

// sluice_calls.cpp
void explain(Actor& actor);
void ask_sluice(Actor& actor);

}  // namespace sluice::fuzz
