// SPDX-License-Identifier: Apache-2.0
// Where the configuration comes from: the environment, and one file.
#pragma once

#include <string>
#include <variant>

namespace sluice::config {

// How the environment is asked: secure_getenv in the product, a function in tests. Answers nullptr when unset.
using Environment = const char* (*)(const char* name);
const char* process_environment(const char* name);

// Where a line for people goes that was not asked for: stderr in the product. `line` ends with its line end.
using Speaker = void (*)(const std::string& line);
void say_on_stderr(const std::string& line);

struct Sources {
  Environment environment = &process_environment;
  std::string default_file = "/etc/cufile.json";  // unless CUFILE_ENV_PATH_JSON names another
  Speaker say = &say_on_stderr;
  bool (*has_real_gpu)() = nullptr;  // this process works on a GPU that is not the soft one; null: not known
};

struct FileText {
  std::string text;
};
struct NoFile {};
struct UnusableFile {
  std::string why;  // a clause: "it is a directory"
};

// A whole regular file of at most 1 MiB. Never waits, whatever the name leads to.
std::variant<FileText, NoFile, UnusableFile> read_configuration_file(const std::string& path);

}  // namespace sluice::config
