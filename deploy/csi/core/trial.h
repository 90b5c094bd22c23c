// SPDX-License-Identifier: Apache-2.0
// Does a read of this drive really end in the memory of a GPU, past the CPU, with every byte right? `sluice doctor`
// tries it; nothing is written, and an answer that a call succeeded is no proof.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/parameters.h"
#include "facts/root.h"

namespace sluice::csi {

enum class Direct : std::uint8_t { no_gpu, verified, through_host, wrong_bytes, failed };

struct Verdict {
  Direct direct = Direct::no_gpu;
  std::string text;  // "GPU 0: 1048576 bytes ... every byte right · ..."
  std::string remedy;
};

// What `sluice doctor --json FILE` has printed. The soft GPU is none.
Verdict verdict_of(const std::string& doctor_json);

const char* name_of(Direct direct);

// The node's label, DOMAIN/direct-path=verified, by way of a file that node-feature-discovery reads: a driver that
// changes labels itself would need a right to change nodes.
void write_feature(const std::string& folder, const std::string& domain, Direct direct);

struct TrialOptions {
  std::string tool = "sluice";
  facts::Root root;  // where GPUs and the kernel's release are looked up
};

// Remembers each answer for as long as drive, GPUs, kernel and driver stay the same. From any thread.
class Trials {
 public:
  explicit Trials(TrialOptions options) : options_(std::move(options)) {}

  // The best answer of all GPUs; but wrong bytes at any of them count as such.
  Verdict of(const std::string& drive, const std::string& file);

  // What a volume's wish makes of it: `require` refuses whatever is not verified.
  static void want(DirectPath wish, const Verdict& verdict);

  // The GPUs' PCI addresses.
  std::vector<std::string> gpus() const;

 private:
  std::string machine() const;

  TrialOptions options_;
  std::mutex mutex_;
  std::map<std::string, Verdict> known_;
};

}  // namespace sluice::csi
