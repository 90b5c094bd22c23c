// A board of places; each is one word, so that joining is one compare-and-swap:
//   bits 0..7   lanes that are at it
//   bits 8..15  hands still wanted
//   bits 16..   how often this place was used: an old observation cannot join new work
// Whoever has counted itself in keeps the offer, and so the work, from ending.
#include "workers/lanes.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "base/event_count.h"
#include "base/never_destroyed.h"
#include "base/pause.h"
#include "facts/read.h"
#include "observe/log.h"
#include "workers/shares.h"

namespace sluice::workers {

namespace {

constexpr unsigned most_lanes = 11;
// Where errands may wait for storage, more of them than there are processors are under way at once.
constexpr unsigned least_for_errands = 4;
constexpr std::uint64_t one_at_it = 1;
constexpr std::uint64_t one_hand = 1U << 8U;
constexpr std::uint64_t one_use = 1U << 16U;

// A lane that has just worked looks around for this long before it sleeps: the next request of a loop finds it awake.
// While requests stand, the next one of a loop is still to come: the device may be some 100 us behind who reads. So it
// is from their end on, but no longer after its own work than the second one.
constexpr auto attention = std::chrono::microseconds(60);
constexpr auto longest_attention = std::chrono::microseconds(200);

std::uint64_t at_it(std::uint64_t word) {
  return word & 0xffU;
}
std::uint64_t hands(std::uint64_t word) {
  return word >> 8U & 0xffU;
}

struct alignas(64) Place {
  std::atomic<std::uint64_t> word{0};
  std::atomic<Work*> work{nullptr};
  std::atomic<bool> taken{false};
};

struct Board {
  std::array<Place, 32> places;
  Place errands;  // of call_lanes(); its work never changes once there is one
  base::EventCount news;
  std::atomic<int> sleeping{0};
  base::EventCount errand_news;  // lanes that take no offers sleep by themselves: they swallow no news of one
  std::atomic<int> errand_sleeping{0};
  std::atomic<unsigned> offers{0};  // on the board just now
  std::atomic<unsigned> demand{0};  // hands that the last offer asked for
  std::atomic<int> busy{0};         // lanes that are at some work
  std::mutex starting;
  std::atomic<unsigned> tried{0};    // lanes that were started, or could not be
  std::atomic<unsigned> running{0};  // of these, those that were
};

Board& board() {
  static base::NeverDestroyed<Board> instance;
  return instance.get();
}

// What the cgroup grants, in whole processors; ~0 without a limit.
unsigned granted_by_cgroup() {
  const std::string text = facts::read_value("/sys/fs/cgroup/cpu.max").value_or("");  // "200000 100000", "max 100000"
  const char* const end = text.data() + text.size();
  std::uint64_t quota = 0;
  std::uint64_t period = 0;
  const auto first = std::from_chars(text.data(), end, quota);
  if (first.ec != std::errc() || first.ptr == end) return ~0U;
  std::from_chars(first.ptr + 1, end, period);
  return period == 0 ? ~0U : static_cast<unsigned>(std::max<std::uint64_t>(1, quota / period));
}

// What this thread may run on, or the process's first one: a thread that is tied to a processor for its own sake says
// nothing of the others.
cpu_set_t allowed_processors() noexcept {
  cpu_set_t here;
  cpu_set_t first;
  CPU_ZERO(&here);
  CPU_ZERO(&first);
  ::sched_getaffinity(0, sizeof here, &here);
  ::sched_getaffinity(::getpid(), sizeof first, &first);
  CPU_OR(&here, &here, &first);
  return here;
}

unsigned count_processors() {
  const cpu_set_t allowed = allowed_processors();
  return std::min(std::max(1U, static_cast<unsigned>(CPU_COUNT(&allowed))), granted_by_cgroup());
}

// Without memory to read what the cgroup grants, it is asked again the next time.
unsigned processor_count() noexcept try {
  static const unsigned count = count_processors();
  return count;
} catch (const std::bad_alloc&) {
  return 1;
}

Workforce workforce() noexcept {
  return {processor_count(), lane_count()};
}

// How many lanes all requests together want: those that are awake may be at another's.
unsigned wanted_by_all(const Board& all) noexcept {
  const unsigned offers = std::max(1U, all.offers.load(std::memory_order_relaxed));
  return wanted_by_all(workforce(), offers, all.demand.load(std::memory_order_relaxed));
}

// Offers are for as many lanes as there are processors, errands for all. At least one takes no offers: those that do
// may all be held by files that do not answer.
unsigned lanes_for_errands() noexcept {
  return std::max(lane_count() + 1, least_for_errands);
}
bool takes_offers(unsigned number) noexcept {
  return number < lane_count();
}

// Of those that take offers.
int awake_lanes(const Board& all) noexcept {
  const unsigned there_are = std::min(all.running.load(std::memory_order_relaxed), lane_count());
  return static_cast<int>(there_are) - all.sleeping.load(std::memory_order_seq_cst);
}

// As many as are wanted and not awake already. Waking costs the offerer some microseconds each, so it wakes one, which
// wakes the next.
void wake(Board& all) noexcept {
  if (all.sleeping.load(std::memory_order_seq_cst) == 0) return;
  if (awake_lanes(all) < static_cast<int>(wanted_by_all(all))) all.news.advance(1);
}

// Nobody else does an errand that no lane comes to: one that sleeps is woken unless one looks around just now.
void wake_for_errands(Board& all) noexcept {
  const int sleeping = all.sleeping.load(std::memory_order_seq_cst);
  const int others = all.errand_sleeping.load(std::memory_order_seq_cst);
  const int looking = static_cast<int>(all.running.load(std::memory_order_relaxed)) - sleeping - others -
                      all.busy.load(std::memory_order_seq_cst);
  if (looking > 0) return;
  if (sleeping > 0) {
    all.news.advance(1);
  } else if (others > 0) {
    all.errand_news.advance(1);
  }
}

bool wants_a_hand(const Place& place) noexcept {
  return hands(place.word.load(std::memory_order_seq_cst)) > 0;
}

// Joins the work of one place and does its share. False when no hand is wanted there.
bool help_at(Board& all, Place& place, unsigned number) noexcept {
  std::uint64_t seen = place.word.load(std::memory_order_relaxed);
  while (hands(seen) > 0) {
    // Acquire: the work as it was when its hands were asked for.
    if (!place.word.compare_exchange_weak(seen, seen - one_hand + one_at_it, std::memory_order_acquire)) continue;
    // Counted before the look at the errands: whoever calls for hands there counts on this lane no more, or this lane
    // sees the call.
    all.busy.fetch_add(1, std::memory_order_seq_cst);
    if (hands(seen) > 1 && &place != &all.errands) wake(all);
    if (wants_a_hand(all.errands)) wake_for_errands(all);
    place.work.load(std::memory_order_relaxed)->lend_a_hand(number + 1);
    all.busy.fetch_sub(1, std::memory_order_relaxed);
    // Release: what this lane did is seen by the offerer that finds nobody at it.
    place.word.fetch_sub(one_at_it, std::memory_order_release);
    return true;
  }
  return false;
}

// Joins the first work that wants a hand, does its share. False when nobody wants one. Offers come first: somebody
// waits for them.
bool help_once(Board& all, unsigned number) noexcept {
  const bool helped = takes_offers(number) && std::any_of(all.places.begin(), all.places.end(),
                                                          [&](Place& place) { return help_at(all, place, number); });
  return helped || help_at(all, all.errands, number);
}

bool somebody_wants_a_hand(const Board& all, unsigned number) noexcept {
  return wants_a_hand(all.errands) ||
         (takes_offers(number) && std::any_of(all.places.begin(), all.places.end(), wants_a_hand));
}

// The lanes of low numbers stay awake between requests, as many as the last request wanted; the others go to sleep as
// soon as nobody wants them.
bool may_stay_awake(const Board& all, unsigned number) noexcept {
  return number < wanted_by_all(all);
}

// Looks for work, and does it, for as long as there is some to be expected.
void look_around(Board& all, unsigned number) noexcept {
  auto now = std::chrono::steady_clock::now();
  auto until = now + attention;
  auto at_most = now + longest_attention;
  do {
    if (help_once(all, number)) {
      now = std::chrono::steady_clock::now();
      until = now + attention;
      at_most = now + longest_attention;
    } else {
      base::pause(16);
      now = std::chrono::steady_clock::now();
      if (all.offers.load(std::memory_order_relaxed) > 0) until = std::min(now + attention, at_most);
    }
  } while (may_stay_awake(all, number) && now < until);
}

void run_lane(unsigned number) noexcept {
  Board& all = board();
  base::EventCount& news = takes_offers(number) ? all.news : all.errand_news;
  std::atomic<int>& sleeping = takes_offers(number) ? all.sleeping : all.errand_sleeping;
  for (;;) {
    look_around(all, number);
    const std::uint32_t seen = news.now();
    // Counted before the last look: an offer made after it finds somebody to wake.
    sleeping.fetch_add(1, std::memory_order_seq_cst);
    if (!somebody_wants_a_hand(all, number)) news.wait_beyond(seen, std::nullopt);
    sleeping.fetch_sub(1, std::memory_order_relaxed);
  }
}

// Signals are for the program's threads, and none is delivered to this one while it has the lock: a handler that makes
// a transfer would wait for it.
class SignalsHeld {
 public:
  SignalsHeld() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

void start_one(unsigned number, const cpu_set_t& allowed) {
  std::thread thread(run_lane, number);
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "sluice-lane-%u", number);
  ::pthread_setname_np(thread.native_handle(), name.data());
  ::pthread_setaffinity_np(thread.native_handle(), sizeof allowed, &allowed);
  thread.detach();
}

// As many as there may be, with the first work for them.
void start_all(Board& all, unsigned wanted) noexcept {
  const SignalsHeld held;
  const std::lock_guard lock(all.starting);
  const cpu_set_t allowed = allowed_processors();
  for (unsigned number = all.tried.load(std::memory_order_relaxed); number < wanted; ++number) {
    try {
      start_one(number, allowed);
    } catch (const std::exception& failure) {
      std::array<char, 96> text{};
      std::snprintf(text.data(), text.size(), "only %u of %u worker threads could be started", all.running.load(),
                    wanted);
      observe::log_failure(config::LogLevel::warn, "engine", text.data(), failure.what());
      all.tried.store(wanted, std::memory_order_release);  // not to be tried again
      return;
    }
    all.running.fetch_add(1, std::memory_order_relaxed);
    all.tried.store(number + 1, std::memory_order_release);
  }
}

}  // namespace

Offer::Offer(Work& work, unsigned hands_wanted) noexcept {
  Board& all = board();
  const unsigned offers = all.offers.fetch_add(1, std::memory_order_relaxed) + 1;
  const unsigned most = std::min(
      hands_wanted,
      share_of_one(workforce(), offers, static_cast<unsigned>(std::max(0, all.busy.load(std::memory_order_relaxed)))));
  if (most == 0) return;
  all.demand.store(most, std::memory_order_relaxed);
  if (all.tried.load(std::memory_order_acquire) < lane_count()) start_all(all, lane_count());
  for (std::size_t i = 0; i < all.places.size(); ++i) {
    Place& place = all.places[i];
    if (place.taken.load(std::memory_order_relaxed) || place.taken.exchange(true, std::memory_order_acquire)) continue;
    place_ = static_cast<int>(i);
    place.work.store(&work, std::memory_order_relaxed);
    // Release: a lane that sees the hands sees the work, too. Sequentially consistent with a lane's going to sleep:
    // either it sees the hands, or it is counted among the sleeping here.
    place.word.fetch_add(most * one_hand, std::memory_order_seq_cst);
    wake(all);
    return;
  }
}

Offer::~Offer() {
  board().offers.fetch_sub(1, std::memory_order_relaxed);
  if (place_ < 0) return;
  Place& place = board().places[static_cast<std::size_t>(place_)];
  std::uint64_t seen = place.word.load(std::memory_order_relaxed);
  while (!place.word.compare_exchange_weak(seen, seen - hands(seen) * one_hand + one_use, std::memory_order_acquire)) {
  }
  base::Patience patience;
  while (at_it(place.word.load(std::memory_order_acquire)) > 0) patience.wait();
  place.taken.store(false, std::memory_order_release);
}

bool call_lanes(Work& work, unsigned hands_wanted) noexcept {
  Board& all = board();
  const unsigned there_may_be = lanes_for_errands();
  if (all.tried.load(std::memory_order_acquire) < there_may_be) start_all(all, there_may_be);
  if (all.running.load(std::memory_order_relaxed) == 0) return false;
  Place& place = all.errands;
  place.work.store(&work, std::memory_order_relaxed);
  const std::uint64_t wanted = std::clamp(hands_wanted, 1U, there_may_be);
  std::uint64_t seen = place.word.load(std::memory_order_relaxed);
  // Sequentially consistent with a lane's going to sleep and with its beginning of other work, as for offers.
  while (!place.word.compare_exchange_weak(seen, seen + (wanted - std::min(wanted, hands(seen))) * one_hand,
                                           std::memory_order_seq_cst)) {
  }
  wake_for_errands(all);
  return true;
}

void rouse_lanes(unsigned hands_wanted) noexcept {
  Board& all = board();
  const unsigned most = std::min(hands_wanted, lane_count());
  if (most == 0) return;
  all.demand.store(most, std::memory_order_relaxed);
  if (all.tried.load(std::memory_order_acquire) < lane_count()) start_all(all, lane_count());
  if (const int awake = awake_lanes(all); awake < static_cast<int>(most)) {
    all.news.advance(static_cast<int>(most) - awake);
  }
}

unsigned offers_now() noexcept {
  return board().offers.load(std::memory_order_relaxed);
}

bool lanes_go_round(unsigned offers) noexcept {
  return !is_crowd(workforce(), offers);
}

unsigned lane_count() noexcept {
  return std::min(processor_count(), most_lanes + 1) - 1;
}

void lanes_before_fork() noexcept {
  processor_count();  // what a thread that is counting just now would leave unfinished in the child
  board().starting.lock();
}

void lanes_after_fork(bool in_child) noexcept {
  Board& all = board();
  if (in_child) {
    // The work on the board was that of threads that this process does not have.
    for (Place& place : all.places) {
      place.word.store(0, std::memory_order_relaxed);
      place.taken.store(false, std::memory_order_relaxed);
    }
    all.errands.word.store(0, std::memory_order_relaxed);
    all.busy.store(0, std::memory_order_relaxed);
    all.tried.store(0, std::memory_order_relaxed);
    all.running.store(0, std::memory_order_relaxed);
    all.sleeping.store(0, std::memory_order_relaxed);
    all.errand_sleeping.store(0, std::memory_order_relaxed);
  }
  all.starting.unlock();
}

}  // namespace sluice::workers
