// SPDX-License-Identifier: Apache-2.0
// The numbers of fields are those of Perfetto's protos/perfetto/trace: trace_packet, track_event, track_descriptor,
// clock_snapshot. Every field that is written here is named beside its number.
#include "trace/perfetto.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text.h"
#include "trace/slices.h"

namespace sluice::tools {
namespace {

// Protobuf on the wire.
class Message {
 public:
  void number(unsigned field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3U);
    varint(value);
  }
  void fixed64(unsigned field, std::uint64_t value) {
    varint((std::uint64_t{field} << 3U) | 1U);
    for (unsigned i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void text(unsigned field, std::string_view value) {
    varint((std::uint64_t{field} << 3U) | 2U);
    varint(value.size());
    bytes_ += value;
  }
  void message(unsigned field, const Message& value) { text(field, value.bytes_); }
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_.push_back(static_cast<char>((value & 0x7fU) | 0x80U));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

namespace trace {
constexpr unsigned packet = 1;
}
namespace packet {
constexpr unsigned clock_snapshot = 6;
constexpr unsigned timestamp = 8;
constexpr unsigned sequence = 10;
constexpr unsigned track_event = 11;
constexpr unsigned sequence_flags = 13;
constexpr unsigned track_descriptor = 60;
}  // namespace packet
namespace descriptor {
constexpr unsigned uuid = 1;
constexpr unsigned name = 2;
constexpr unsigned process = 3;
constexpr unsigned thread = 4;
constexpr unsigned parent = 5;
constexpr unsigned counter = 8;
}  // namespace descriptor
namespace event {
constexpr unsigned annotations = 4;
constexpr unsigned type = 9;
constexpr unsigned track = 11;
constexpr unsigned categories = 22;
constexpr unsigned name = 23;
constexpr unsigned counter_value = 30;
constexpr unsigned flows = 47;
enum Type : std::uint64_t { begin = 1, end = 2, instant = 3, counter = 4 };
}  // namespace event
namespace annotation {
constexpr unsigned number = 3;
constexpr unsigned signed_number = 4;
constexpr unsigned text = 6;
constexpr unsigned name = 10;
}  // namespace annotation
namespace clocks {
constexpr unsigned clock = 1;
constexpr unsigned id = 1;
constexpr unsigned time = 2;
enum Id : std::uint64_t { realtime = 1, monotonic = 3, boottime = 6 };
}  // namespace clocks

constexpr std::uint64_t sequence_number = 1;
constexpr std::uint64_t state_is_cleared = 1;

class Writer {
 public:
  explicit Writer(const Recording& recording)
      : recording_(recording), shift_(recording.boottime - recording.monotonic) {}

  std::string write() {
    snapshot();
    std::uint64_t number = 0;
    for (const TracedProcess& process : recording_.processes) {
      const std::uint64_t process_track = ++number << 16U;
      describe(process, process_track);
      std::uint64_t thread_track = process_track;
      for (const TracedThread& thread : process.threads) {
        describe(process, thread, ++thread_track, process_track);
        events(process, thread, thread_track, number);
      }
      under_way(process, process_track | 0xffffU, process_track);
    }
    return std::move(out_);
  }

 private:
  void put(Message& message) {
    message.number(packet::sequence, sequence_number);
    Message whole;
    whole.message(trace::packet, message);
    out_ += whole.bytes();
  }

  void snapshot() {
    Message clocks;
    for (const auto& [id, time] :
         {std::pair{clocks::realtime, recording_.realtime}, std::pair{clocks::monotonic, recording_.monotonic},
          std::pair{clocks::boottime, recording_.boottime}}) {
      Message clock;
      clock.number(clocks::id, id);
      clock.number(clocks::time, time);
      clocks.message(clocks::clock, clock);
    }
    Message whole;
    whole.message(packet::clock_snapshot, clocks);
    whole.number(packet::sequence_flags, state_is_cleared);
    put(whole);
  }

  void describe(const TracedProcess& process, std::uint64_t track) {
    Message about;
    about.number(1, static_cast<std::uint64_t>(process.number));  // ProcessDescriptor.pid
    about.text(6, process.name);                                  // ProcessDescriptor.process_name
    Message descriptor;
    descriptor.number(descriptor::uuid, track);
    descriptor.message(descriptor::process, about);
    put_descriptor(descriptor);
  }

  void describe(const TracedProcess& process, const TracedThread& thread, std::uint64_t track, std::uint64_t parent) {
    Message about;
    about.number(1, static_cast<std::uint64_t>(process.number));  // ThreadDescriptor.pid
    about.number(2, static_cast<std::uint64_t>(thread.number));   // ThreadDescriptor.tid
    about.text(5, thread.name);                                   // ThreadDescriptor.thread_name
    Message descriptor;
    descriptor.number(descriptor::uuid, track);
    descriptor.number(descriptor::parent, parent);
    descriptor.message(descriptor::thread, about);
    put_descriptor(descriptor);
  }

  void put_descriptor(const Message& descriptor) {
    Message whole;
    whole.message(packet::track_descriptor, descriptor);
    put(whole);
  }

  void put_event(std::uint64_t time, const Message& event) {
    Message whole;
    whole.number(packet::timestamp, time + shift_);
    whole.message(packet::track_event, event);
    put(whole);
  }

  static void annotate(Message& event, const char* name, std::uint64_t value) {
    Message annotation;
    annotation.text(annotation::name, name);
    annotation.number(annotation::number, value);
    event.message(event::annotations, annotation);
  }
  static void annotate_signed(Message& event, const char* name, std::int64_t value) {
    Message annotation;
    annotation.text(annotation::name, name);
    annotation.number(annotation::signed_number, static_cast<std::uint64_t>(value));
    event.message(event::annotations, annotation);
  }
  static void annotate(Message& event, const char* name, const std::string& value) {
    Message annotation;
    annotation.text(annotation::name, name);
    annotation.text(annotation::text, value);
    event.message(event::annotations, annotation);
  }

  void say_file(Message& message, const TracedProcess& process, const sluice_trace_event& event) {
    if (event.fd < 0) return;
    annotate(message, "descriptor", static_cast<std::uint64_t>(event.fd));
    if (const std::string name = process.file_name(event.fd, event.time); !name.empty())
      annotate(message, "file", name);
  }

  // What the beginning knows.
  void describe_begin(Message& message, const TracedProcess& process, const sluice_trace_event& event,
                      std::uint64_t process_number) {
    if (event.request != 0 && (event.kind == SLUICE_TRACE_REQUEST || event.kind == SLUICE_TRACE_HELP)) {
      message.fixed64(event::flows, process_number << 32U | event.request);
    }
    switch (event.kind) {
      case SLUICE_TRACE_REQUEST:
        say_file(message, process, event);
        annotate(message, "offset", event.a);
        annotate(message, "bytes", event.b);
        if ((event.detail & SLUICE_TRACE_FROM_BATCH) != 0) annotate(message, "from", std::string("batch"));
        if ((event.detail & SLUICE_TRACE_FROM_STREAM) != 0) annotate(message, "from", std::string("stream"));
        break;
      case SLUICE_TRACE_FILE_READ:
      case SLUICE_TRACE_FILE_WRITE:
        annotate(message, "offset", event.a);
        annotate(message, "bytes", event.b);
        break;
      case SLUICE_TRACE_ENTRY:
        say_file(message, process, event);
        annotate_signed(message, "result", static_cast<std::int64_t>(event.a));
        break;
      case SLUICE_TRACE_FILE_REGISTER:
        say_file(message, process, event);
        break;
      default:
        break;
    }
  }

  static void describe_end(Message& message, const sluice_trace_event& begin, const sluice_trace_event& end) {
    const auto result = static_cast<std::int64_t>(end.a);
    if (begin.kind == SLUICE_TRACE_REQUEST) {
      annotate(message, "way", way_text(end.detail));
      annotate_signed(message, "result", result);
      if (end.b == 0) {
        annotate(message, "memory", std::string("host"));
      } else {
        annotate(message, "GPU", end.b - 1);
      }
    } else if (begin.kind == SLUICE_TRACE_FILE_READ || begin.kind == SLUICE_TRACE_FILE_WRITE ||
               begin.kind == SLUICE_TRACE_STORAGE_WAIT || result != 0) {
      annotate_signed(message, "result", result);
    }
  }

  static Message titled(event::Type type, std::uint64_t track, const sluice_trace_event& event) {
    Message message;
    message.number(event::type, type);
    message.number(event::track, track);
    message.text(event::categories, category_of(event.kind));
    message.text(event::name, title_of(event));
    return message;
  }

  void events(const TracedProcess& process, const TracedThread& thread, std::uint64_t track,
              std::uint64_t process_number) {
    walk(thread, {.begin =
                      [&](const sluice_trace_event& event) {
                        Message message = titled(event::begin, track, event);
                        describe_begin(message, process, event, process_number);
                        put_event(event.time, message);
                      },
                  .end =
                      [&](const sluice_trace_event& begin, const sluice_trace_event& end) {
                        Message message;
                        message.number(event::type, event::end);
                        message.number(event::track, track);
                        describe_end(message, begin, end);
                        put_event(end.time, message);
                      },
                  .moment =
                      [&](const sluice_trace_event& event) {
                        if (event.kind == SLUICE_TRACE_FILE_NAME) return;
                        Message message = titled(event::instant, track, event);
                        describe_begin(message, process, event, process_number);
                        put_event(event.time, message);
                      }});
  }

  // How many requests were going on at a time.
  void under_way(const TracedProcess& process, std::uint64_t track, std::uint64_t parent) {
    Message descriptor;
    descriptor.number(descriptor::uuid, track);
    descriptor.number(descriptor::parent, parent);
    descriptor.text(descriptor::name, "requests under way");
    descriptor.message(descriptor::counter, Message());
    put_descriptor(descriptor);
    std::vector<std::pair<std::uint64_t, int>> steps;
    for (const TracedThread& thread : process.threads) {
      for (const Slice& slice : slices_of(thread)) {
        if (slice.begin.kind != SLUICE_TRACE_REQUEST) continue;
        steps.emplace_back(slice.begin.time, 1);
        if (slice.has_ended) steps.emplace_back(slice.end.time, -1);
      }
    }
    std::sort(steps.begin(), steps.end());
    int count = 0;
    for (const auto& [time, step] : steps) {
      count += step;
      Message message;
      message.number(event::type, event::counter);
      message.number(event::track, track);
      message.number(event::counter_value, static_cast<std::uint64_t>(count));
      put_event(time, message);
    }
  }

  const Recording& recording_;
  const std::uint64_t shift_;
  std::string out_;
};

}  // namespace

std::string perfetto_trace(const Recording& recording) {
  return Writer(recording).write();
}

}  // namespace sluice::tools
