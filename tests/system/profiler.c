/* SPDX-License-Identifier: Apache-2.0
 *
 * What a profiler that speaks NVTX loads into a program: it writes a line for each call that it is told of to the file
 * that PROFILER_OUT names. Numbers of tables, modules and functions are those of NVTX version 3.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct callbacks {
  size_t size;
  int (*function_table)(uint32_t module, void (****table)(void), unsigned* size);
};
struct version_info {
  size_t size;
  uint32_t version;
};
struct attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const char* message;
};

static FILE* out;

static const void* create_domain(const char* name) {
  fprintf(out, "domain %s\n", name);
  return "the domain";
}
static void name_category(const void* domain, uint32_t category, const char* name) {
  fprintf(out, "category %s %u %s\n", (const char*)domain, category, name);
}
static const void* register_string(const void* domain, const char* text) {
  (void)domain;
  return text;
}
static int push(const void* domain, const struct attributes* attributes) {
  fprintf(out, "push %d %s %u %s %llu %u %u\n", (int)gettid(), (const char*)domain, attributes->category,
          attributes->message, (unsigned long long)attributes->payload, attributes->version, attributes->size);
  return 0;
}
static int pop(const void* domain) {
  fprintf(out, "pop %d %s\n", (int)gettid(), (const char*)domain);
  return 0;
}

/* The address of a function of any kind, as NVTX stores it. */
#define STORE(id, function) *table[id] = (void (*)(void))(function)

int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t table)) {
  const struct callbacks* callbacks = export_table(1);
  const struct version_info* version = export_table(3);
  const char* name = getenv("PROFILER_OUT");
  void (***table)(void) = NULL;
  unsigned size = 0;
  if (name == NULL || (out = fopen(name, "we")) == NULL) return 0;
  setvbuf(out, NULL, _IOLBF, 0);
  if (callbacks == NULL || callbacks->size < sizeof *callbacks || version == NULL || export_table(77) != NULL) return 0;
  fprintf(out, "version %u\n", version->version);
  if (!callbacks->function_table(1, &table, &size) || callbacks->function_table(99, &table, &size)) return 0;
  if (!callbacks->function_table(5, &table, &size) || size < 16) return 0;
  STORE(4, push);
  STORE(5, pop);
  STORE(8, name_category);
  STORE(10, register_string);
  STORE(12, create_domain);
  return 1;
}
