/* SPDX-License-Identifier: Apache-2.0 */
/* A read that is part of a CUDA graph: captured once, done again with every replay. Its stream is registered with size
 * and offsets fixed, since a replay has no call in which they could change. */
#include "sample.h"

#ifndef CUFILE_HAS_CUDA_H
typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphExec_st* CUgraphExec;
#define CU_STREAM_CAPTURE_MODE_THREAD_LOCAL 1
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph);
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec executable);
CUresult cuGraphDestroy(CUgraph graph);
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#endif

int main(int argc, char** argv) {
  size_t size = 1 << 20;
  off_t file_offset = 0;
  off_t memory_offset = 0;
  ssize_t count = 0;
  CUstream stream;
  CUgraph graph;
  CUgraphExec executable;
  use_gpu();
  const int file = sample_file(argc, argv, size);
  const CUfileHandle_t handle = register_file(file);
  const CUdeviceptr memory = device_memory(size);
  WANT_CUDA(cuStreamCreate(&stream, 1));
  WANT_CUFILE(cuFileStreamRegister(
      stream, CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET | CU_FILE_STREAM_FIXED_FILE_SIZE));

  WANT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  WANT_CUFILE(cuFileReadAsync(handle, pointer(memory), &size, &file_offset, &memory_offset, &count, stream));
  WANT_CUDA(cuStreamEndCapture(stream, &graph));
  WANT_CUDA(cuGraphInstantiateWithFlags(&executable, graph, 0));
  for (int replay = 0; replay < 3; ++replay) {
    count = 0;
    WANT_CUDA(cuGraphLaunch(executable, stream));
    WANT_CUDA(cuStreamSynchronize(stream));
    want(count == (ssize_t)size, "the count; a negative one is the cause");
    want_bytes(memory, size, 0);
  }
  printf("%zd bytes with every replay of a graph\n", count);

  cuGraphExecDestroy(executable);
  cuGraphDestroy(graph);
  WANT_CUFILE(cuFileStreamDeregister(stream));
  cuStreamDestroy(stream);
  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
