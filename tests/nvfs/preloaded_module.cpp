// SPDX-License-Identifier: Apache-2.0
// The stand-in for a program that was not made for it: preloaded. SLUICE_FAKE_NVFS_MODULES is what the module lists.
#include <cstdlib>

#include "nvfs/fake_module.h"

namespace {

sluice::nvfs_test::Machine machine() {
  sluice::nvfs_test::Machine machine;
  if (const char* const modules = std::getenv("SLUICE_FAKE_NVFS_MODULES")) machine.modules = modules;
  return machine;
}

sluice::nvfs_test::FakeModule module(machine());

}  // namespace
