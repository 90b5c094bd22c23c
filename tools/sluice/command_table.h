// SPDX-License-Identifier: Apache-2.0
// The subcommands: which there are, what each takes, and how each is called.
#pragma once

#include <CLI/CLI.hpp>

#include "gds_stats/show.h"
#include "gdscp/copy.h"
#include "report/command.h"
#include "sluice/commands.h"
#include "sluice/watching.h"
#include "sluice/words.h"
#include "trace/command.h"

namespace sluice::tools {

class CommandTable {
 public:
  // Declares them all to the parser, which writes into this object: it outlives the parsing and stays where it is.
  explicit CommandTable(CLI::App& app);
  CommandTable(const CommandTable&) = delete;
  CommandTable& operator=(const CommandTable&) = delete;

  Output output() const { return json_ ? Output::json : Output::text; }

  // Calls the one that the parser has found; its exit status, or -1 where there was none. Throws ToolError.
  int call(const Words& words);

 private:
  void declare_run();
  void declare_explain();
  void declare_doctor();
  void declare_topology();
  void declare_demo();
  void declare_stats();
  void declare_trace();
  int call_runner(const Words& words);
  int call_explain();
  int call_trace(const Words& words);

  CLI::App& app_;
  CLI::App* run_app_;
  CLI::App* explain_app_;
  CLI::App* doctor_app_;
  CLI::App* topology_app_;
  CLI::App* version_app_;
  CLI::App* demo_app_;
  CLI::App* stats_app_;
  CLI::App* trace_app_ = nullptr;
  CLI::App* copy_app_ = nullptr;

  bool json_ = false;
  bool explains_write_ = false;
  bool explains_host_ = false;
  bool explains_supposed_ = false;
  RunOptions run_;
  ExplainOptions explain_;
  DoctorOptions doctor_;
  TopologyOptions topology_;
  DemoOptions demo_;
  ShowOptions show_;
  WatchingOptions watching_;
  ReportOptions reporting_;
  TraceOptions trace_;
  CopyOptions copy_;
};

}  // namespace sluice::tools
