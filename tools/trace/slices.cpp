// SPDX-License-Identifier: Apache-2.0
#include "trace/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/text.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

std::string sized(const char* what, std::uint64_t bytes) {
  return bytes == 0 ? std::string(what) : fmt::format("{} {}", what, format_bytes(bytes));
}

void add_phase(RequestSpan& request, const sluice_trace_event& begin, std::uint64_t nanoseconds) {
  switch (begin.kind) {
    case SLUICE_TRACE_FILE_READ:
    case SLUICE_TRACE_FILE_WRITE:
    case SLUICE_TRACE_STORAGE_WAIT:
      request.file_ns += nanoseconds;
      break;
    case SLUICE_TRACE_LAUNCH:
    case SLUICE_TRACE_COPY:
    case SLUICE_TRACE_DEVICE_WAIT:
      request.device_ns += nanoseconds;
      break;
    default:
      break;
  }
}

}  // namespace

std::string way_text(std::uint16_t way) {
  return fmt::format("{} ({})", sluice_path_name(static_cast<sluice_path_t>(way >> 8U)),
                     sluice_reason_name(static_cast<sluice_reason_t>(way & 0xffU)));
}

void walk(const TracedThread& thread, const SliceVisitor& visitor) {
  std::vector<sluice_trace_event> open;
  for (const sluice_trace_event& event : thread.events) {
    if (event.phase == SLUICE_TRACE_MOMENT) {
      visitor.moment(event);
    } else if (event.phase == SLUICE_TRACE_BEGIN) {
      open.push_back(event);
      visitor.begin(event);
    } else if (event.phase == SLUICE_TRACE_END) {
      // Its beginning, past those whose own ends were lost.
      const auto found = std::find_if(open.rbegin(), open.rend(), [&](const sluice_trace_event& begin) {
        return begin.kind == event.kind && (event.kind != SLUICE_TRACE_REQUEST || begin.request == event.request);
      });
      if (found == open.rend()) continue;
      const auto keep = static_cast<std::size_t>(open.rend() - found) - 1;
      while (open.size() > keep) {
        const sluice_trace_event begin = open.back();
        open.pop_back();
        sluice_trace_event end = event;
        if (open.size() > keep) end.a = end.b = end.detail = 0;  // it is another's
        visitor.end(begin, end);
      }
    }
  }
}

std::vector<Slice> slices_of(const TracedThread& thread) {
  std::vector<Slice> slices;
  std::vector<std::size_t> open;
  walk(thread, {.begin =
                    [&](const sluice_trace_event& event) {
                      open.push_back(slices.size());
                      slices.push_back({event, {}, false, false, static_cast<unsigned>(open.size() - 1)});
                    },
                .end =
                    [&](const sluice_trace_event& /*begin*/, const sluice_trace_event& end) {
                      Slice& slice = slices[open.back()];
                      open.pop_back();
                      slice.end = end;
                      slice.has_ended = true;
                    },
                .moment =
                    [&](const sluice_trace_event& event) {
                      slices.push_back({event, event, true, true, static_cast<unsigned>(open.size())});
                    }});
  return slices;
}

std::string title_of(const sluice_trace_event& event) {
  switch (event.kind) {
    case SLUICE_TRACE_REQUEST: {
      const bool writes = (event.detail & SLUICE_TRACE_WRITE) != 0;
      return fmt::format("{} {}", writes ? "write" : "read", format_bytes(event.b));
    }
    case SLUICE_TRACE_DECIDE:
      return way_text(event.detail);
    case SLUICE_TRACE_FALLBACK:
      return "falls back to " + way_text(event.detail);
    case SLUICE_TRACE_FILE_READ:
      return sized("read from file", event.b);
    case SLUICE_TRACE_FILE_WRITE:
      return sized("write to file", event.b);
    case SLUICE_TRACE_STORAGE_WAIT:
      return fmt::format("wait for {} of storage", event.b);
    case SLUICE_TRACE_LAUNCH:
      return "launch kernel";
    case SLUICE_TRACE_COPY:
      return sized("copy", event.b);
    case SLUICE_TRACE_DEVICE_WAIT:
      return "wait for device";
    case SLUICE_TRACE_FIRST_BYTE:
      return "first byte";
    case SLUICE_TRACE_LAST_BYTE:
      return "last byte";
    case SLUICE_TRACE_HELP:
      return "help";
    case SLUICE_TRACE_BATCH_SUBMIT:
      return fmt::format("batch: {} submitted", event.b);
    case SLUICE_TRACE_BATCH_GROUP:
      return fmt::format("batch: {} together", event.b);
    case SLUICE_TRACE_ENTRY:
      return sized("entry has ended", event.b);
    case SLUICE_TRACE_STREAM_CALL:
      return sized("put into stream", event.b);
    case SLUICE_TRACE_STREAM_DONE:
      return "stream: transfer has ended";
    case SLUICE_TRACE_FILE_REGISTER:
      return "file registered";
    default:
      return fmt::format("event {}", event.kind);
  }
}

const char* category_of(std::uint8_t kind) noexcept {
  switch (kind) {
    case SLUICE_TRACE_REQUEST:
    case SLUICE_TRACE_DECIDE:
    case SLUICE_TRACE_FALLBACK:
      return "request";
    case SLUICE_TRACE_FILE_READ:
    case SLUICE_TRACE_FILE_WRITE:
    case SLUICE_TRACE_STORAGE_WAIT:
    case SLUICE_TRACE_FILE_REGISTER:
      return "file";
    case SLUICE_TRACE_LAUNCH:
    case SLUICE_TRACE_COPY:
    case SLUICE_TRACE_DEVICE_WAIT:
    case SLUICE_TRACE_FIRST_BYTE:
    case SLUICE_TRACE_LAST_BYTE:
      return "device";
    case SLUICE_TRACE_HELP:
      return "worker";
    default:
      return "queue";
  }
}

std::string RequestSpan::way() const {
  return slice.has_ended ? way_text(slice.end.detail) : std::string();
}

std::string RequestSpan::file() const {
  const std::string name = process->file_name(slice.begin.fd, slice.begin.time);
  return name.empty() ? fmt::format("descriptor {}", slice.begin.fd) : name;
}

std::vector<RequestSpan> requests_of(const Recording& recording) {
  std::vector<RequestSpan> requests;
  for (const TracedProcess& process : recording.processes) {
    std::map<std::uint32_t, std::size_t> by_number;
    const std::size_t first = requests.size();
    for (const TracedThread& thread : process.threads) {
      for (const Slice& slice : slices_of(thread)) {
        if (slice.begin.kind != SLUICE_TRACE_REQUEST || slice.is_moment) continue;
        by_number[slice.begin.request] = requests.size();
        requests.push_back({&process, &thread, slice});
      }
    }
    std::map<std::size_t, std::set<pid_t>> helped;
    for (const TracedThread& thread : process.threads) {
      unsigned covered = 0;  // depth below which a phase lies in another one that counts already
      for (const Slice& slice : slices_of(thread)) {
        const auto found = by_number.find(slice.begin.request);
        if (found == by_number.end() || slice.is_moment) continue;
        RequestSpan& request = requests[found->second];
        if (slice.begin.kind == SLUICE_TRACE_HELP) {
          request.helpers_ns += slice.nanoseconds();
          helped[found->second].insert(thread.number);
        } else if (request.thread == &thread && slice.begin.kind != SLUICE_TRACE_REQUEST) {
          if (covered != 0 && slice.depth > covered) continue;
          covered = slice.depth;
          add_phase(request, slice.begin, slice.nanoseconds());
        } else {
          covered = 0;
        }
      }
    }
    for (const auto& [index, workers] : helped) requests[index].helpers = static_cast<unsigned>(workers.size());
    std::sort(requests.begin() + static_cast<std::ptrdiff_t>(first), requests.end(),
              [](const RequestSpan& a, const RequestSpan& b) { return a.slice.begin.time < b.slice.begin.time; });
  }
  return requests;
}

}  // namespace sluice::tools
