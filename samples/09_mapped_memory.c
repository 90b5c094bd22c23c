/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that grows: an address range is reserved, and pieces are mapped into it as they are needed (cuMemCreate,
 * cuMemMap). A read may span pieces. */
#include "sample.h"

#ifndef CUFILE_HAS_CUDA_H
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct {
  int type, requestedHandleTypes;
  struct {
    int type, id;
  } location;
  void* win32HandleMetaData;
  unsigned char allocFlags[8];
} CUmemAllocationProp;
typedef struct {
  struct {
    int type, id;
  } location;
  int flags;
} CUmemAccessDesc;
enum {
  CU_MEM_ALLOCATION_TYPE_PINNED = 1,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
  CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0
};
CUresult cuMemGetAllocationGranularity(size_t* size, const CUmemAllocationProp* properties, int which);
CUresult cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr address, size_t size);
CUresult cuMemCreate(CUmemGenericAllocationHandle* piece, size_t size, const CUmemAllocationProp* properties,
                     unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle piece);
CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle piece,
                  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr address, size_t size);
CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* access, size_t count);
#endif

enum { pieces = 3 };

int main(int argc, char** argv) {
  CUmemAllocationProp properties;
  CUmemAccessDesc access;
  size_t grain = 0;
  CUdeviceptr range = 0;
  use_gpu();
  memset(&properties, 0, sizeof properties);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memset(&access, 0, sizeof access);
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  WANT_CUDA(cuMemGetAllocationGranularity(&grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  WANT_CUDA(cuMemAddressReserve(&range, pieces * grain, 0, 0, 0));

  const int file = sample_file(argc, argv, pieces * grain);
  const CUfileHandle_t handle = register_file(file);
  for (size_t i = 0; i < pieces; ++i) {
    CUmemGenericAllocationHandle piece;
    WANT_CUDA(cuMemCreate(&piece, grain, &properties, 0));
    WANT_CUDA(cuMemMap(range + i * grain, grain, 0, piece, 0));
    WANT_CUDA(cuMemSetAccess(range + i * grain, grain, &access, 1));
    WANT_CUDA(cuMemRelease(piece)); /* the mapping keeps it */
    const size_t size = (i + 1) * grain;
    want(cuFileRead(handle, pointer(range), size, 0, 0) == (ssize_t)size, "cuFileRead");
    want_bytes(range, size, 0);
    printf("%zu bytes into %zu mapped pieces\n", size, i + 1);
  }

  cuFileHandleDeregister(handle);
  WANT_CUDA(cuMemUnmap(range, pieces * grain));
  WANT_CUDA(cuMemAddressFree(range, pieces * grain));
  close(file);
  return 0;
}
