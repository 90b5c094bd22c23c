// SPDX-License-Identifier: Apache-2.0
#include "client/sample.h"

#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>

#include "client/stolen.h"

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;

double between(Clock::time_point begun, Clock::time_point ended) {
  return std::chrono::duration<double>(ended - begun).count();
}

Clock::time_point after(Clock::time_point begun, double seconds) {
  return begun + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// A cache line each, so that the threads do not disturb one another.
struct alignas(64) Part {
  std::uint64_t bytes = 0;
  std::vector<float> latencies;
  Clock::time_point ended;
};

}  // namespace

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void set_percentiles(Sample& sample, std::vector<float>& latencies) {
  if (latencies.empty()) return;
  const auto at = [&](double share) {
    const auto index = static_cast<std::ptrdiff_t>(share * static_cast<double>(latencies.size() - 1));
    std::nth_element(latencies.begin(), latencies.begin() + index, latencies.end());
    return static_cast<double>(latencies[static_cast<std::size_t>(index)]);
  };
  sample.p50_us = at(0.5);
  sample.p99_us = at(0.99);
}

Sample measure(Workers& workers, unsigned count, double seconds, const std::function<std::uint64_t(unsigned)>& step) {
  constexpr std::size_t room = 1 << 17;
  std::vector<Part> parts(count);
  for (Part& part : parts) part.latencies.reserve(room);
  Clock::time_point begun;
  double cpu_at_start = 0;
  double cpu_at_end = 0;
  double stolen_at_start = 0;
  double stolen_at_end = 0;
  // The last thread to arrive does this, while the others wait: so both readings hold for all of them.
  std::barrier start(count, [&]() noexcept {
    stolen_at_start = stolen_seconds();
    cpu_at_start = cpu_seconds();
    begun = Clock::now();
  });
  std::barrier finish(count, [&]() noexcept {
    cpu_at_end = cpu_seconds();
    stolen_at_end = stolen_seconds();
  });

  workers.run(count, [&](unsigned thread) {
    Part& part = parts[thread];
    std::exception_ptr failure;
    const auto guarded = [&](const auto& work) {
      try {
        if (!failure) work();
      } catch (...) {
        failure = std::current_exception();  // the barriers still wait for this thread
      }
    };
    guarded([&] {
      const auto warm = after(Clock::now(), seconds / 10);
      do {
        step(thread);
      } while (Clock::now() < warm);
    });
    start.arrive_and_wait();
    guarded([&] {
      const auto deadline = after(begun, seconds);
      auto now = Clock::now();
      do {
        const auto previous = now;
        part.bytes += step(thread);
        now = Clock::now();
        part.latencies.push_back(static_cast<float>(between(previous, now) * 1e6));
      } while (now < deadline);
      part.ended = now;
    });
    finish.arrive_and_wait();
    if (failure) std::rethrow_exception(failure);
  });

  Sample sample;
  std::vector<float> latencies;
  for (Part& part : parts) {
    sample.bytes += part.bytes;
    sample.seconds = std::max(sample.seconds, between(begun, part.ended));
    latencies.insert(latencies.end(), part.latencies.begin(), part.latencies.end());
  }
  sample.steps = latencies.size();
  sample.cpu_seconds = cpu_at_end - cpu_at_start;
  sample.stolen_seconds = stolen_at_end - stolen_at_start;
  set_percentiles(sample, latencies);
  return sample;
}

nlohmann::json to_json(const Sample& sample) {
  const double gib = static_cast<double>(sample.bytes) / (1u << 30);
  nlohmann::json json = {{"seconds", sample.seconds},
                         {"bytes", sample.bytes},
                         {"steps", sample.steps},
                         {"cpu_seconds", sample.cpu_seconds},
                         {"stolen_seconds", sample.stolen_seconds},
                         {"p50_us", sample.p50_us},
                         {"p99_us", sample.p99_us}};
  if (sample.bytes != 0) {
    json["gib_per_s"] = gib / sample.seconds;
    json["cpu_s_per_gib"] = sample.cpu_seconds / gib;
  }
  if (sample.product_with) {
    json["product_alone"] = *sample.product_alone;
    json["product_with"] = *sample.product_with;
    json["product_slowdown"] = 1 - *sample.product_with / *sample.product_alone;
  }
  return json;
}

}  // namespace sluice::bench
