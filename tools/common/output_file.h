// SPDX-License-Identifier: Apache-2.0
// A file that a tool writes when its work is done: whether it can be is found out before the work begins, and what has
// the name stays as it was until the new file is whole.
#pragma once

#include <string>
#include <string_view>

namespace sluice::tools {

// A regular file, or one that is not there yet, is written beside the name and then takes it; where the name is a link,
// what it leads to is meant, and the link stays. A pipe, a terminal or another character device is opened at once (a
// pipe waits for its reader, as in a shell) and written through. A folder, a block device and a socket are refused.
class OutputFile {
 public:
  // `what` begins the sentence of an error: "The report". Throws ToolError, with `status`, where it cannot be written.
  OutputFile(const std::string& path, std::string what, int status = 1,
             std::string remedy = "Choose another place: --output FILE.");
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Once, all of it. Throws ToolError, which names the file beside the name where that one is whole.
  void write(std::string_view content);

 private:
  [[noreturn]] void refuse(const std::string& why) const;
  void put(int fd, std::string_view content) const;
  int make_beside(std::string& name) const;

  std::string path_;    // as it was given
  std::string target_;  // behind all links
  std::string what_;
  std::string remedy_;
  int status_;
  int through_ = -1;  // what is written through
};

}  // namespace sluice::tools
