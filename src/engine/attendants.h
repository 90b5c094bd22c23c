// Threads that attend to streams: one of them watches for bells, and whoever is free runs what a stream has got to.
// They are made when they are needed, sleep while no stream has work of ours, and cost next to nothing while streams
// wait.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "base/event_count.h"
#include "engine/station.h"

namespace sluice::engine {

class Attendants {
 public:
  static Attendants& instance() noexcept;

  Station* take_station(cuda::Context context, unsigned long long context_id) noexcept;
  void give_back(Station& station) noexcept;
  bool is_idle(const Station& station) noexcept;

  // A task stands in its stream; its bell will be rung by the stream.
  void expect(Station& station, StreamTask& task);
  // A task whose bell is rung by a call stands in its stream. The count keeps those who ask about subjects right.
  void expect_call(Station& station, StreamTask& task);
  void forget(Station& station, StreamTask& task) noexcept;
  void ring(Station& station, StreamTask& task) noexcept;

  bool pending(const void* subject) noexcept;
  bool wait_until_none(const void* subject, int milliseconds) noexcept;
  std::size_t station_count() noexcept;

  static void before_fork() noexcept;
  static void after_fork(bool in_child) noexcept;

 private:
  struct Due {
    Station* station;
    StreamTask* task;
  };

  void attend() noexcept;
  void watch(std::unique_lock<std::mutex>& lock);
  bool collect();
  void drop_the_dead();
  void run(const Due& due) noexcept;
  void settle_station(Station& station);
  void wake_one(std::unique_lock<std::mutex>& lock);
  bool start_one() noexcept;
  bool concerns(const void* subject) const;

  std::mutex mutex_;
  std::vector<Station*> watched_;
  std::vector<Station*> idle_;
  std::deque<Due> due_;
  std::vector<Due> at_work_;
  std::size_t stations_ = 0;
  unsigned threads_ = 0;
  unsigned resting_ = 0;
  bool somebody_watches_ = false;
  bool watcher_naps_ = false;
  unsigned awaited_ = 0;         // threads in wait_until_none()
  base::EventCount news_;        // for those who rest
  base::EventCount watch_news_;  // for the one that watches
  base::EventCount ended_;
};

}  // namespace sluice::engine
