/* SPDX-License-Identifier: Apache-2.0 */
/* Many small transfers in one call. Events come in any order; the cookie tells which transfer each belongs to. */
#include "sample.h"

enum { entries = 32, piece = 4096 };

int main(int argc, char** argv) {
  CUfileIOParams_t wishes[entries];
  CUfileIOEvents_t events[entries];
  CUfileBatchHandle_t batch;
  use_gpu();
  const int file = sample_file(argc, argv, (size_t)entries * piece);
  const CUfileHandle_t handle = register_file(file);
  const CUdeviceptr memory = device_memory((size_t)entries * piece);

  memset(wishes, 0, sizeof wishes);
  for (int i = 0; i < entries; ++i) {
    wishes[i].mode = CUFILE_BATCH;
    wishes[i].u.batch.devPtr_base = pointer(memory);
    wishes[i].u.batch.devPtr_offset = i * piece;
    wishes[i].u.batch.file_offset = i * piece;
    wishes[i].u.batch.size = piece;
    wishes[i].fh = handle;
    wishes[i].opcode = CUFILE_READ;
    wishes[i].cookie = &wishes[i];
  }
  WANT_CUFILE(cuFileBatchIOSetUp(&batch, entries));
  WANT_CUFILE(cuFileBatchIOSubmit(batch, entries, wishes, 0));
  for (unsigned done = 0; done < entries;) {
    unsigned count = entries - done; /* in: the room for events; out: how many there are */
    WANT_CUFILE(cuFileBatchIOGetStatus(batch, 1, &count, events, NULL));
    for (unsigned i = 0; i < count; ++i) {
      want(events[i].status == CUFILE_COMPLETE && events[i].ret == piece, "a transfer of the batch");
    }
    done += count;
  }
  cuFileBatchIODestroy(batch);
  want_bytes(memory, (size_t)entries * piece, 0);
  printf("a batch of %d reads\n", entries);

  cuFileHandleDeregister(handle);
  cuMemFree(memory);
  close(file);
  return 0;
}
