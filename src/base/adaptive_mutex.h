// SPDX-License-Identifier: Apache-2.0
// A mutex for what is held for less than a microsecond: a thread that finds it taken spins before it sleeps.
#pragma once

#include <pthread.h>

namespace sluice::base {

class AdaptiveMutex {
 public:
  void lock() noexcept { ::pthread_mutex_lock(&mutex_); }
  bool try_lock() noexcept { return ::pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() noexcept { ::pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
};

}  // namespace sluice::base
