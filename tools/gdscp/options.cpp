// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "gdscp/copy.h"

namespace sluice::tools {

// Numbers are texts here, and checked with the rest: what cannot be is told as every other failure, in JSON, too.
void declare_copy_options(CLI::App& app, CopyOptions& options) {
  app.footer(copy_lesson);
  app.add_option("SOURCE", options.source, "A regular file")->required();
  app.add_option("DESTINATION", options.destination, "A file, or a folder that it goes into")->required();
  app.add_option("-d,--gpu", options.gpu, "Whose memory; counted from 0")->default_val("0")->type_name("INT");
  app.add_option("-i,--size", options.piece, "Bytes of each transfer, with K, M, G or T")->default_val("16M");
  app.add_option("-w,--threads", options.threads, "Threads")->default_val("4")->type_name("UINT");
  app.add_flag("--verify", options.verify, "Read both afterwards, without cuFile, and compare");
  app.add_flag("--json", options.json, "For programs");
  app.add_flag("-q,--quiet", options.quiet, "No line at the end");
}

}  // namespace sluice::tools
