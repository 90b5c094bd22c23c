// SPDX-License-Identifier: Apache-2.0
// lab_probe: what does the kernel of this guest do with device memory?
//
//   lab_probe transfers NAME TARGET EXPECTATION      large NAME TARGET       limits NAME
//   lab_probe edges NAME FOLDER FILE_SYSTEM          polled NAME TARGET EXPECTATION
//   lab_probe passthrough NAME NODE DRIVE
//
// NAME begins the names of the rows that it prints. The environment names the provider of device memory (LAB_PROVIDER,
// a p2pmem folder; LAB_PROVIDER_NAME, as the host knows it) and the drive for marks (LAB_MARK).
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "lab/probe/rows.h"
#include "lab/probe/verbs.h"

namespace {

bool carry_out(const std::vector<std::string>& words) {
  using namespace sluice::lab;
  const std::string& verb = words[0];
  const std::size_t count = words.size();
  if (verb == "transfers" && count == 4) {
    transfers(words[1], words[2], expectations_of(words[3]));
  } else if (verb == "large" && count == 3) {
    large_transfer(words[1], words[2]);
  } else if (verb == "edges" && count == 4) {
    edges(words[1], words[2], words[3]);
  } else if (verb == "limits" && count == 2) {
    limits(words[1]);
  } else if (verb == "polled" && count == 4) {
    polled(words[1], words[2], expectation_of(words[3]));
  } else if (verb == "passthrough" && count == 4) {
    passthrough(words[1], words[2], words[3]);
  } else {
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (words.size() < 2) {
    std::fprintf(stderr, "lab_probe: its source tells how to call it\n");
    return 2;
  }
  try {
    if (!carry_out(words)) {
      std::fprintf(stderr, "lab_probe: no such verb, or the wrong number of words for it: %s\n", words[0].c_str());
      return 2;
    }
  } catch (const std::exception& failure) {
    sluice::lab::row(words[1] + ": " + words[0] + " can be tried", failure.what());
  }
  return sluice::lab::failures() == 0 ? 0 : 1;
}
