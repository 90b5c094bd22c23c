// SPDX-License-Identifier: Apache-2.0
#include "rdma/verbs/library.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "sluice_rdma.h"

namespace sluice::verbs {

namespace {

constexpr const char* name = "libibverbs.so.1";

thread_local char sentence[256];

enum class Loading { untried, loaded, failed };
Loading loading = Loading::untried;
Api table;
char why_not[200];

template <typename Function>
bool find(void* library, Function*& function, const char* symbol) noexcept {
  function = reinterpret_cast<Function*>(::dlsym(library, symbol));
  if (function == nullptr && why_not[0] == '\0') std::snprintf(why_not, sizeof why_not, "it has no %s", symbol);
  return function != nullptr;
}

bool load() noexcept {
  void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const told = ::dlerror();
    std::snprintf(why_not, sizeof why_not, "%s", told != nullptr ? told : "it cannot be loaded");
    return false;
  }
  const bool whole =
      find(library, table.get_device_list, "ibv_get_device_list") &&
      find(library, table.free_device_list, "ibv_free_device_list") &&
      find(library, table.get_device_name, "ibv_get_device_name") &&
      find(library, table.open_device, "ibv_open_device") && find(library, table.close_device, "ibv_close_device") &&
      find(library, table.query_port, "ibv_query_port") && find(library, table.query_gid, "ibv_query_gid") &&
      find(library, table.alloc_pd, "ibv_alloc_pd") && find(library, table.dealloc_pd, "ibv_dealloc_pd") &&
      find(library, table.reg_mr, "ibv_reg_mr") && find(library, table.dereg_mr, "ibv_dereg_mr") &&
      find(library, table.create_cq, "ibv_create_cq") && find(library, table.destroy_cq, "ibv_destroy_cq") &&
      find(library, table.create_qp, "ibv_create_qp") && find(library, table.modify_qp, "ibv_modify_qp") &&
      find(library, table.destroy_qp, "ibv_destroy_qp");
  find(library, table.query_gid_table, "_ibv_query_gid_table");
  find(library, table.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  return whole;
}

}  // namespace

const Api* api() noexcept {
  if (loading == Loading::untried) loading = load() ? Loading::loaded : Loading::failed;
  if (loading == Loading::loaded) return &table;
  refuse(ENOSYS, "%s cannot be used: %s", name, why_not);
  return nullptr;
}

int refuse(int code, const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return code;
}

}  // namespace sluice::verbs

extern "C" const char* sluice_rdma_error() {
  return sluice::verbs::sentence;
}
