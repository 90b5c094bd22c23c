// SPDX-License-Identifier: Apache-2.0
// Brings events to the API server, as Events of the claim that a volume belongs to: `kubectl describe pvc` shows them.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "core/log.h"
#include "core/volumes.h"

namespace sluice::csi {

struct EventOptions {
  std::string kube;     // the API server; "" for the cluster's own
  std::string account;  // the folder with the service account's token
  std::string driver;   // its name
  std::string node;
};

// Calls do not wait for it: a thread writes, and sleeps while there is nothing. What cannot be written is in the log
// all the same; one that was written is not written again by this process.
class EventWriter {
 public:
  EventWriter(EventOptions options, const Volumes& volumes);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void take(const Event& event);

 private:
  void run();
  void write(const Event& event);

  EventOptions options_;
  const Volumes& volumes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> waiting_;
  std::set<std::string> written_;
  bool ended_ = false;
  std::thread thread_;
};

// The object that is written; "" for volumes whose claim is not known.
std::string event_json(const Event& event, const Record& record, const EventOptions& options, std::int64_t seconds);

}  // namespace sluice::csi
