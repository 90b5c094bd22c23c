// SPDX-License-Identifier: Apache-2.0
// Opening and closing, properties and their setters.
#include <array>
#include <cstring>

#include "differential/answers.h"
#include "differential/calls.h"

namespace sluice::differential {
namespace {

template <typename Function, Function Library::*entry>
void plain(Session& session, const Words&) {
  if (Calls::library(session).*entry == nullptr) {
    answers().add(" absent");
    return;
  }
  tell((Calls::library(session).*entry)());
}

template <Error (*Library::*entry)(std::size_t)>
void of_size(Session& session, const Words& words) {
  if (Calls::library(session).*entry == nullptr) {
    answers().add(" absent");
    return;
  }
  tell((Calls::library(session).*entry)(static_cast<std::size_t>(number(words[1]))));
}

void version(Session& session, const Words& words) {
  SLUICE_NEEDS(version);
  int value = -1;
  tell(version(words[1] == "NULL" ? nullptr : &value));
  answers().add(" value=%d", value);
}

void properties(Session& session, const Words& words) {
  SLUICE_NEEDS(properties);
  CUfileDrvProps_t value;
  std::memset(&value, 0, sizeof value);
  const Error error = properties(words[1] == "NULL" ? nullptr : static_cast<void*>(&value));
  tell(error);
  if (error.err != CU_FILE_SUCCESS) return;
  answers().add(
      " nvfs=%u.%u poll=%zu direct=%zu status=%u control=%u features=%u cache=%u buffer=%u pinned=%u batch=%u "
      "timeout=%u",
      value.nvfs.major_version, value.nvfs.minor_version, value.nvfs.poll_thresh_size, value.nvfs.max_direct_io_size,
      value.nvfs.dstatusflags, value.nvfs.dcontrolflags, value.fflags, value.max_device_cache_size,
      value.per_buffer_cache_size, value.max_device_pinned_mem_size, value.max_batch_io_size,
      value.max_batch_io_timeout_msecs);
}

void set_poll_mode(Session& session, const Words& words) {
  SLUICE_NEEDS(set_poll_mode);
  tell(set_poll_mode(number(words[1]) != 0, static_cast<std::size_t>(number(words[2]))));
}

void bar_size(Session& session, const Words& words) {
  SLUICE_NEEDS(bar_size);
  std::size_t value = 77;
  const Error error = bar_size(static_cast<int>(number(words[1])), words[2] == "NULL" ? nullptr : &value);
  tell(error);
  answers().add(" value=%zu", value);
}

void get_p2p(Session& session, const Words& words) {
  SLUICE_NEEDS(get_p2p);
  int value = 77;
  tell(get_p2p(static_cast<int>(number(words[1])), words[2] == "NULL" ? nullptr : &value));
  answers().add(" value=%d", value);
}

void set_p2p(Session& session, const Words& words) {
  SLUICE_NEEDS(set_p2p);
  tell(set_p2p(static_cast<int>(number(words[1])), static_cast<int>(number(words[2]))));
}

void use_count(Session& session, const Words&) {
  SLUICE_NEEDS(use_count);
  answers().add(" count=%ld", use_count());
}

using NoArguments = Error (*)();

// From a first start on a process has the statistics of devices; nothing takes that back.
bool statistics_were_started = false;

void stats_start(Session& session, const Words&) {
  SLUICE_NEEDS(stats_start);
  const Error error = stats_start();
  tell(error);
  if (error.err != CU_FILE_SUCCESS) return;
  statistics_were_started = true;
  Calls::starts_statistics(session);
}

}  // namespace

const Table& driver_calls() {
  static const Table table = {
      {"DriverOpen", plain<NoArguments, &Library::driver_open>},
      {"DriverClose", plain<NoArguments, &Library::driver_close>},
      {"DriverCloseV2", plain<NoArguments, &Library::driver_close_v2>},
      {"UseCount", use_count},
      {"Version", version},
      {"Properties", properties},
      {"SetPollMode", set_poll_mode},
      {"SetMaxDirect", of_size<&Library::set_max_direct>},
      {"SetMaxCache", of_size<&Library::set_max_cache>},
      {"SetMaxPinned", of_size<&Library::set_max_pinned>},
      {"BarSize", bar_size},
      {"GetP2P", get_p2p},
      {"SetP2P", set_p2p},
  };
  return table;
}

const Table& statistics_calls() {
  static const Table table = {
      {"StatsStart", stats_start},
      {"StatsStop", plain<NoArguments, &Library::stats_stop>},
      {"StatsReset", plain<NoArguments, &Library::stats_reset>},
      {"GetLevel",
       [](Session& session, const Words& words) {
         SLUICE_NEEDS(get_level);
         int value = 77;
         tell(get_level(words[1] == "NULL" ? nullptr : &value));
         answers().add(" value=%d", value);
       }},
      {"SetLevel",
       [](Session& session, const Words& words) {
         SLUICE_NEEDS(set_level);
         tell(set_level(static_cast<int>(number(words[1]))));
       }},
      {"Stats",
       [](Session& session, const Words& words) {
         SLUICE_NEEDS(stats_1);
         const Library& library = Calls::library(session);
         const auto get = words[1] == "1" ? stats_1 : words[1] == "2" ? library.stats_2 : library.stats_3;
         if (get == nullptr) {
           answers().add(" absent");
           return;
         }
         // More room than any version's structure takes; the end of what is written tells the version's size.
         constexpr unsigned char mark = 0xa5;
         std::array<unsigned char, 8192> raw{};
         raw.fill(mark);
         const Error error = get(words[2] == "NULL" ? nullptr : raw.data());
         tell(error);
         std::size_t written = raw.size();
         while (written > 0 && raw[written - 1] == mark) --written;
         // Where an earlier script has started them, how much there is does not follow from this one.
         if (words[1] == "3" && written > 0 && statistics_were_started && !Calls::has_started_statistics(session)) {
           answers().add(" written=uncertain");
         } else {
           answers().add(" written=%zu", written);
         }
         if (error.err != CU_FILE_SUCCESS || written == 0) return;
         CUfileStatsLevel1_t first;
         std::memcpy(&first, raw.data(), sizeof first);
         const auto counter = [](const char* name, const CUfileOpCounter_t& value) {
           answers().add(" %s=%llu/%llu", name, static_cast<unsigned long long>(value.ok),
                         static_cast<unsigned long long>(value.err));
         };
         counter("reads", first.read_ops);
         counter("writes", first.write_ops);
         counter("handles", first.hdl_register_ops);
         counter("handles_back", first.hdl_deregister_ops);
         counter("buffers", first.buf_register_ops);
         counter("buffers_back", first.buf_deregister_ops);
         counter("batches", first.batch_setup_ops);
         counter("submits", first.batch_submit_ops);
         counter("completes", first.batch_complete_ops);
         counter("cancels", first.batch_cancel_ops);
         counter("destroys", first.batch_destroy_ops);
         answers().add(" read_bytes=%llu written_bytes=%llu", static_cast<unsigned long long>(first.read_bytes),
                       static_cast<unsigned long long>(first.write_bytes));
         if (words[1] == "1") return;
         CUfileStatsLevel2_t second;
         std::memcpy(&second, raw.data(), sizeof second);
         answers().add(" histogram=%016llx", static_cast<unsigned long long>(
                                                 digest(second.read_size_kb_hist, sizeof second.read_size_kb_hist)));
       }},
  };
  return table;
}

}  // namespace sluice::differential
