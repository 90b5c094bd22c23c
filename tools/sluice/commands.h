// SPDX-License-Identifier: Apache-2.0
// The subcommands: what each wants to know, and the function that does it. Each returns the exit status of the tool
// and throws ToolError for what it cannot do.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::tools {

enum class Output : std::uint8_t { text, json };

// What is told of a program's I/O at its end: one line, a table of the counters, or the same as JSON.
enum class Ending : std::uint8_t { line, counters, json_counters };

// Something that goes on beside the program.
class Companion {
 public:
  Companion() = default;
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;
  virtual int fd() const noexcept = 0;                           // look() when it can be read
  virtual std::chrono::milliseconds pause() const noexcept = 0;  // and at least so often
  virtual void look() = 0;
  virtual void ended() = 0;  // the program has

 protected:
  ~Companion() = default;
};

struct RunOptions {
  bool explain = false;
  bool soft_gpu = false;
  bool quiet = false;
  Ending ending = Ending::line;
  std::string output;  // of the counters: a file; empty: stderr
  std::vector<std::string> command;
  Companion* companion = nullptr;
};
// Does not return when the program ends by a signal: the tool then ends by the same one.
int run_command(const RunOptions& options);

enum class Transfer : std::uint8_t { read, write };
// `supposed`: of a GPU that need not be there.
enum class Memory : std::uint8_t { device, host, supposed };

struct ExplainOptions {
  std::vector<std::string> files;  // and folders
  int gpu = 0;
  bool names_gpu = false;  // the user asks for that one, be it soft
  bool all = false;        // every reason, not the first alone
  std::string size = "1M";
  std::string offset = "0";
  Transfer transfer = Transfer::read;
  Memory memory = Memory::device;
  Output output = Output::text;
};
int explain_command(const ExplainOptions& options);

struct DoctorOptions {
  std::vector<std::string> words;  // sections, files and folders
  std::string expected;            // abilities, with commas between them
  bool expects = false;            // --expect is given
  std::string root;                // a recorded tree, a folder or a tar file; "" for this machine
  std::string record;              // the tar file to write
  int gpu = 0;                     // whose memory takes part in a trial
  bool script = false;
  bool table = false;
  Output output = Output::text;
};
int doctor_command(const DoctorOptions& options);

struct TopologyOptions {
  std::string root;  // a recorded tree, a folder or a tar file; "" for this machine
  std::string file;  // whose routes are asked for
  bool routes = false;
  bool picture = false;
  Output output = Output::text;
};
int topology_command(const TopologyOptions& options);

int version_command(Output output);

struct DemoOptions {
  std::string directory;  // "": the current one if it can be written, else $TMPDIR, else /tmp
  std::string size = "128M";
  int gpu = 0;
  Output output = Output::text;
};
int demo_command(const DemoOptions& options);

}  // namespace sluice::tools
