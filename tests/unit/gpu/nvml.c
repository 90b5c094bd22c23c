/* SPDX-License-Identifier: Apache-2.0 */
/* A management library with two devices: one is found by its address on the bus, the other one by its UUID alone. */
#include <string.h>

static int begun;

int nvmlInit_v2(void) {
  ++begun;
  return 0;
}
int nvmlShutdown(void) {
  --begun;
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  *device = (void*)1;
  return begun == 1 && strcmp(address, "0000:CB:00.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = (void*)2;
  return begun == 1 && strcmp(uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0eff") == 0 ? 0 : 6;
}
int nvmlDeviceGetBAR1MemoryInfo(void* device, unsigned long long* info) {
  info[0] = device == (void*)1 ? 256ULL << 30 : 64ULL << 20;
  info[1] = info[0] - 1;
  info[2] = 1;
  return begun == 1 ? 0 : 1;
}
