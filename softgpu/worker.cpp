// SPDX-License-Identifier: Apache-2.0
// Starting a thread that is no business of the host program: its signals go to the program's own threads.
#include "worker.h"

#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigfillset and pthread_sigmask are POSIX

#include <memory>
#include <string>

#include "refusal.h"

namespace sluice::softgpu {

namespace {

struct Start {
  std::string name;
  std::function<void()> work;
};

void* run(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  ::pthread_setname_np(::pthread_self(), start->name.c_str());
  start->work();
  return nullptr;
}

}  // namespace

void start_worker(const char* name, std::function<void()> work) {
  auto start = std::make_unique<Start>(Start{name, std::move(work)});
  // The mask is inherited, so it is set around the creation: the new thread never runs a moment without it.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const int result = ::pthread_create(&thread, &attributes, run, start.get());
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (result != 0) throw Refusal(cuda::error_out_of_memory);
  static_cast<void>(start.release());  // the thread owns it
}

}  // namespace sluice::softgpu
