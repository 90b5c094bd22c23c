// SPDX-License-Identifier: Apache-2.0
// Facts of the machine, from files.
#include "facts/machine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "facts/read.h"

namespace sluice::facts {

namespace {

std::string release_of(const Root& root) {
  if (std::optional<std::string> release = read_value(root.at("/proc/sys/kernel/osrelease"))) return *release;
  struct utsname names {};
  return ::uname(&names) == 0 ? names.release : "";
}

bool has_line(std::string_view text, std::string_view wanted) {
  std::size_t at = text.find(wanted);
  while (at != std::string_view::npos) {
    const std::size_t end = at + wanted.size();
    if ((at == 0 || text[at - 1] == '\n') && (end == text.size() || text[end] == '\n')) return true;
    at = text.find(wanted, end);
  }
  return false;
}

// The configuration lies beside the kernel or beside its modules, by distribution; in a container it often does not.
std::optional<bool> p2pdma_by_configuration(const Root& root, const std::string& release) {
  for (const std::string& place :
       {"/boot/config-" + release, "/lib/modules/" + release + "/config", "/usr/lib/modules/" + release + "/config"}) {
    if (const std::optional<std::string> configuration = read_text(root.at(place))) {
      return has_line(*configuration, "CONFIG_PCI_P2PDMA=y");
    }
  }
  return std::nullopt;
}

// A device that has given memory to the kernel shows it: proof without any configuration.
bool p2pdma_by_device(const Root& root) {
  const std::string devices = root.at("/sys/bus/pci/devices");
  const std::vector<std::string> names = list_names(devices);
  return std::any_of(names.begin(), names.end(),
                     [&devices](const std::string& name) { return exists(devices + "/" + name + "/p2pmem"); });
}

struct KernelSymbols {
  bool p2pdma = false;
  bool dma_buf = false;
};

// "ffffffff81a0b000 T pci_p2pdma_add_resource". The addresses may be hidden from ordinary users, the names are not.
// Other symbols with p2pdma in their names exist in kernels without it. Of dma-bufs the part that rings and drivers
// share is looked for, by the names under which it was merged for Linux 7.4: io_release_dmabuf is older, and the
// network's.
KernelSymbols symbols_of(const Root& root) {
  const std::vector<bool> found = file_contains(
      root.at("/proc/kallsyms"), {" pci_p2pdma_add_resource\n", " dma_buf_io_ctx_create\n", " __io_register_dmabuf\n"});
  return {found[0], found[1] || found[2]};
}

// Both are built into a kernel or not, so once is enough: the list is long.
KernelSymbols known_symbols_of(const Root& root) {
  if (!root.is_the_machine()) return symbols_of(root);
  static const KernelSymbols symbols = symbols_of(root);
  return symbols;
}

bool has_p2pdma(const Root& root, const std::string& release, const KernelSymbols& symbols) {
  if (const std::optional<bool> told = p2pdma_by_configuration(root, release)) return *told;
  return symbols.p2pdma || p2pdma_by_device(root);
}

// "version: 2.28" in /proc/driver/nvidia-fs/version.
std::string version_in(std::string_view text) {
  const std::size_t colon = text.find(':');
  return std::string(trimmed(colon == std::string_view::npos ? text : text.substr(colon + 1)));
}

}  // namespace

MachineFacts of_machine(const Root& root, KernelSearch search) {
  MachineFacts facts;
  facts.kernel_release = release_of(root);
  const KernelSymbols symbols = search == KernelSearch::symbols ? known_symbols_of(root) : KernelSymbols{};
  facts.kernel_has_p2pdma = has_p2pdma(root, facts.kernel_release, symbols);
  facts.ring_takes_dma_buf = symbols.dma_buf;

  const std::optional<std::string> version = read_value(root.at("/proc/driver/nvidia-fs/version"));
  facts.nvfs_loaded = version.has_value() || exists(root.at("/proc/driver/nvidia-fs/devcount"));
  if (version) facts.nvfs_version = version_in(*version);
  return facts;
}

}  // namespace sluice::facts
