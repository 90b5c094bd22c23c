/* A CUDA graph behind transfers: the work on a chunk is captured once and replayed for each chunk that a stream call
 * brings, all in the order of one stream.
 *
 * The transfers themselves stay outside of the graph. A graph repeats what the driver knows, and Sluice's transfers are
 * more than that: on a stream that is being captured cuFileReadAsync answers CU_FILE_ASYNC_NOT_SUPPORTED (5038), moves
 * nothing and leaves the capture intact. So capture what comes behind them. */
#include "sample.h"

#ifndef CUFILE_HAS_CUDA_H
typedef struct CUgraph_st* CUgraph;
typedef struct CUgraphExec_st* CUgraphExec;
enum { CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1 };
CUresult cuMemHostAlloc(void** memory, size_t size, unsigned flags);
CUresult cuMemFreeHost(void* memory);
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream stream);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t size, CUstream stream);
CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void*), void* data);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph);
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphDestroy(CUgraph graph);
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#endif

enum { CHUNK = 256 << 10, CHUNKS = 8 };

/* What the graph works with; its addresses are the same in each replay. */
struct work {
  CUdeviceptr landing;  /* where the transfers put a chunk */
  unsigned char* bytes; /* its copy in host memory */
  size_t chunks;        /* that have come */
  size_t wrong;         /* bytes that are not the file's */
};

/* Runs when the stream gets there. A host function may not call CUDA, nor cuFile. */
static void look_at_chunk(void* data) {
  struct work* work = data;
  const size_t offset = work->chunks++ * CHUNK;
  for (size_t i = 0; i < CHUNK; ++i) work->wrong += work->bytes[i] != byte_at(offset + i);
}

static CUgraphExec capture(CUstream stream, struct work* work) {
  CUgraph graph;
  CUgraphExec exec;
  WANT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  WANT_CUDA(cuMemcpyDtoHAsync(work->bytes, work->landing, CHUNK, stream));
  WANT_CUDA(cuLaunchHostFunc(stream, look_at_chunk, work));
  /* So that a chunk that did not come would be noticed. */
  WANT_CUDA(cuMemsetD8Async(work->landing, 0, CHUNK, stream));
  WANT_CUDA(cuStreamEndCapture(stream, &graph));
  WANT_CUDA(cuGraphInstantiateWithFlags(&exec, graph, 0));
  cuGraphDestroy(graph);
  return exec;
}

int main(int argc, char** argv) {
  /* The arguments of the calls live until the stream has passed them: each call has its own. */
  size_t size = CHUNK;
  off_t memory_offset = 0;
  off_t file_offsets[CHUNKS];
  ssize_t counts[CHUNKS];
  struct work work = {0};
  CUstream stream;
  use_gpu();
  const int file = sample_file(argc, argv, (size_t)CHUNK * CHUNKS);
  const CUfileHandle_t handle = register_file(file);
  work.landing = device_memory(CHUNK);
  WANT_CUDA(cuMemHostAlloc((void**)&work.bytes, CHUNK, 0));
  WANT_CUDA(cuStreamCreate(&stream, 0));
  const CUgraphExec exec = capture(stream, &work);

  for (int i = 0; i < CHUNKS; ++i) {
    file_offsets[i] = (off_t)i * CHUNK;
    counts[i] = 0;
    WANT_CUFILE(
        cuFileReadAsync(handle, pointer(work.landing), &size, &file_offsets[i], &memory_offset, &counts[i], stream));
    WANT_CUDA(cuGraphLaunch(exec, stream));
  }
  WANT_CUDA(cuStreamSynchronize(stream));

  for (int i = 0; i < CHUNKS; ++i) want(counts[i] == CHUNK, "a count; a negative one is the cause");
  want(work.chunks == CHUNKS, "the replays");
  want(work.wrong == 0, "comparing the bytes");
  printf("%d chunks of %d bytes, each by a transfer and one replay of the graph\n", CHUNKS, CHUNK);

  cuGraphExecDestroy(exec);
  cuStreamDestroy(stream);
  cuFileHandleDeregister(handle);
  cuMemFreeHost(work.bytes);
  cuMemFree(work.landing);
  close(file);
  return 0;
}
