// SPDX-License-Identifier: Apache-2.0
// What the rows of the table (metrics.h) find in a sample: only series that are not all zero, where a series stands for
// one of many.
#pragma once

#include "gds_stats/metrics.h"

namespace sluice::tools {

void collect_build(const Sample& sample, SeriesSink& sink);
void collect_level(const Sample& sample, SeriesSink& sink);
void collect_running(const Sample& sample, SeriesSink& sink);
void collect_transfers(const Sample& sample, SeriesSink& sink);
void collect_bytes(const Sample& sample, SeriesSink& sink);
void collect_errors(const Sample& sample, SeriesSink& sink);
void collect_calls(const Sample& sample, SeriesSink& sink);
void collect_busy(const Sample& sample, SeriesSink& sink);
void collect_latencies(const Sample& sample, SeriesSink& sink);
void collect_under_way(const Sample& sample, SeriesSink& sink);
void collect_bytes_under_way(const Sample& sample, SeriesSink& sink);
void collect_waiting(const Sample& sample, SeriesSink& sink);
void collect_entries(const Sample& sample, SeriesSink& sink);
void collect_drive_entries(const Sample& sample, SeriesSink& sink);
void collect_batch_bytes(const Sample& sample, SeriesSink& sink);
void collect_last_batch(const Sample& sample, SeriesSink& sink);
void collect_vectored_bytes(const Sample& sample, SeriesSink& sink);
void collect_carriers(const Sample& sample, SeriesSink& sink);
void collect_registered_host(const Sample& sample, SeriesSink& sink);
void collect_sizes(const Sample& sample, SeriesSink& sink);
void collect_device_transfers(const Sample& sample, SeriesSink& sink);
void collect_device_bytes(const Sample& sample, SeriesSink& sink);
void collect_device_busy(const Sample& sample, SeriesSink& sink);
void collect_device_by_drive(const Sample& sample, SeriesSink& sink);
void collect_device_unaligned(const Sample& sample, SeriesSink& sink);
void collect_device_errors(const Sample& sample, SeriesSink& sink);
void collect_device_registrations(const Sample& sample, SeriesSink& sink);
void collect_registered(const Sample& sample, SeriesSink& sink);
void collect_links(const Sample& sample, SeriesSink& sink);

}  // namespace sluice::tools
