// SPDX-License-Identifier: Apache-2.0
// Chrome's JSON: an object a line, so that a file of millions of events can be looked at by line tools as well.
#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "trace/perfetto.h"
#include "trace/slices.h"

namespace sluice::tools {
namespace {

using Out = std::back_insert_iterator<std::string>;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class ChromeWriter {
 public:
  explicit ChromeWriter(const Recording& recording) : recording_(recording) {}

  std::string write() {
    fmt::format_to(out(),
                   "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"monotonic_ns\":{},\"realtime_ns\":{},"
                   "\"lost_events\":{},\"threads_without_ring\":{}}},\n\"traceEvents\":[\n",
                   recording_.monotonic, recording_.realtime, recording_.lost(), recording_.threads_without_ring());
    std::uint64_t number = 0;
    for (const TracedProcess& process : recording_.processes) {
      ++number;
      name("process_name", process.number, 0, process.name);
      for (const TracedThread& thread : process.threads) {
        name("thread_name", process.number, thread.number, thread.name);
        events(process, thread, number);
      }
    }
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  Out out() { return std::back_inserter(text_); }

  void separate() {
    if (!first_) text_ += ",\n";
    first_ = false;
  }

  void name(const char* what, pid_t process, pid_t thread, const std::string& value) {
    separate();
    fmt::format_to(out(), "{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", what,
                   process, thread, quoted(value));
  }

  void put(char phase, const TracedProcess& process, const TracedThread& thread, const sluice_trace_event& event,
           std::uint64_t time, const std::string& arguments) {
    separate();
    fmt::format_to(out(), "{{\"ph\":\"{}\",\"cat\":\"{}\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{}.{:03}{}{}}}",
                   phase, category_of(event.kind), quoted(title_of(event)), process.number, thread.number, time / 1000,
                   time % 1000, phase == 'i' ? ",\"s\":\"t\"" : "", arguments);
  }

  static std::string begin_arguments(const TracedProcess& process, const sluice_trace_event& event) {
    std::string text = fmt::format(",\"args\":{{\"request\":{},\"a\":{},\"b\":{}", event.request, event.a, event.b);
    if (event.fd >= 0) {
      fmt::format_to(std::back_inserter(text), ",\"descriptor\":{},\"file\":{}", event.fd,
                     quoted(process.file_name(event.fd, event.time)));
    }
    return text + "}";
  }

  void events(const TracedProcess& process, const TracedThread& thread, std::uint64_t number) {
    walk(thread, {.begin =
                      [&](const sluice_trace_event& event) {
                        put('B', process, thread, event, event.time, begin_arguments(process, event));
                        if (event.request == 0) return;
                        const std::string flow = fmt::format(",\"id\":{},\"bp\":\"e\"", number << 32U | event.request);
                        if (event.kind == SLUICE_TRACE_REQUEST) put('s', process, thread, flow_, event.time, flow);
                        if (event.kind == SLUICE_TRACE_HELP) put('t', process, thread, flow_, event.time, flow);
                      },
                  .end =
                      [&](const sluice_trace_event& begin, const sluice_trace_event& end) {
                        std::string arguments =
                            fmt::format(",\"args\":{{\"result\":{}", static_cast<std::int64_t>(end.a));
                        if (begin.kind == SLUICE_TRACE_REQUEST) {
                          fmt::format_to(std::back_inserter(arguments), ",\"way\":{}", quoted(way_text(end.detail)));
                        }
                        put('E', process, thread, begin, end.time, arguments + "}");
                      },
                  .moment =
                      [&](const sluice_trace_event& event) {
                        if (event.kind == SLUICE_TRACE_FILE_NAME) return;
                        put('i', process, thread, event, event.time, begin_arguments(process, event));
                      }});
  }

  const Recording& recording_;
  // What arrows are called: both ends the same.
  const sluice_trace_event flow_{.time = 0,
                                 .serial = 0,
                                 .request = 0,
                                 .kind = SLUICE_TRACE_HELP,
                                 .phase = 0,
                                 .detail = 0,
                                 .fd = -1,
                                 .a = 0,
                                 .b = 0};
  std::string text_;
  bool first_ = true;
};

}  // namespace

std::string chrome_trace(const Recording& recording) {
  return ChromeWriter(recording).write();
}

}  // namespace sluice::tools
