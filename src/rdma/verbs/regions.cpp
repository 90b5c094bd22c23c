// SPDX-License-Identifier: Apache-2.0
// Memory registered with an adapter.
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "rdma/verbs/adapters.h"

namespace sluice::verbs {

struct Region {
  MemoryRegion* region;
  std::uint32_t generation;
};

}  // namespace sluice::verbs

extern "C" {

int sluice_rdma_region_open(unsigned number, std::uint64_t address, std::uint64_t length, int dma_buf,
                            std::uint64_t offset, unsigned access, sluice::verbs::Region** region,
                            std::uint32_t* rkey) {
  using namespace sluice::verbs;
  const Api* verbs = nullptr;
  Adapter* own = nullptr;
  Domain* domain = nullptr;
  std::uint32_t made_in = 0;
  {
    const Locked locked;
    verbs = api();
    if (verbs == nullptr) return ENOSYS;
    own = adapter(number);
    if (own == nullptr) return refuse(ENODEV, "there is no such adapter any more");
    domain = domain_of(*own);
    made_in = generation();
  }
  if (domain == nullptr) return ENOMEM;
  if (dma_buf >= 0 && verbs->reg_dmabuf_mr == nullptr) {
    return refuse(EOPNOTSUPP, "libibverbs.so.1 is older than rdma-core 34, and has no ibv_reg_dmabuf_mr");
  }
  auto* const made = static_cast<Region*>(std::calloc(1, sizeof(Region)));
  if (made == nullptr) return refuse(ENOMEM, "there is no memory");
  // Without the lock: pinning much memory takes a while, and libibverbs has its own.
  const int rights = static_cast<int>(access);
  made->region = dma_buf >= 0 ? verbs->reg_dmabuf_mr(domain, offset, length, address, dma_buf, rights)
                              : verbs->reg_mr(domain, reinterpret_cast<void*>(address), length, rights);  // NOLINT
  if (made->region == nullptr) {
    const int error = errno != 0 ? errno : EIO;
    std::free(made);
    const char* const hint = error == ENOMEM ? "; `ulimit -l` bounds what may be locked" : "";
    return refuse(error, "%s does not register this memory%s: %s%s", own->name, dma_buf >= 0 ? " (dma-buf)" : "",
                  ::strerrordesc_np(error), hint);
  }
  made->generation = made_in;
  *region = made;
  *rkey = made->region->rkey;
  return 0;
}

void sluice_rdma_region_close(sluice::verbs::Region* region) {
  using namespace sluice::verbs;
  if (region == nullptr) return;
  if (region->generation == generation()) api()->dereg_mr(region->region);
  std::free(region);
}
}
