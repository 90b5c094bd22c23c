// SPDX-License-Identifier: Apache-2.0
// Brings events to the API server, as Events of the claim that a volume belongs to: `kubectl describe pvc` shows them.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "core/log.h"
#include "core/volumes.h"
#include "core/work_queue.h"

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

  void take(const Event& event);

 private:
  void write(const Event& event);

  EventOptions options_;
  const Volumes& volumes_;
  std::mutex mutex_;
  std::set<std::string> written_;
  WorkQueue<Event> queue_;  // last: its thread uses the others
};

// The object that is written; "" for volumes whose claim is not known.
std::string event_json(const Event& event, const Record& record, const EventOptions& options, std::int64_t seconds);

}  // namespace sluice::csi
