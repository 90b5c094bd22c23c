/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the library lazily, as most programs do, and looks every public function up by its name, as programs do that
 * have no header. Under LD_BIND_NOW=1 the load itself resolves all that the library needs.
 *
 *     symbols_resolve LIBRARY LIST...
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  char line[256];
  char name[200];
  int found = 0;
  int missing = 0;
  if (argc < 3) {
    fprintf(stderr, "usage: %s LIBRARY LIST...\n", argv[0]);
    return 2;
  }
  void* library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "dlopen: %s\n", dlerror());
    return 1;
  }
  for (int i = 2; i < argc; ++i) {
    FILE* list = fopen(argv[i], "r");
    if (list == NULL) {
      perror(argv[i]);
      return 2;
    }
    while (fgets(line, sizeof line, list) != NULL) {
      if (sscanf(line, "symbol %199s", name) != 1) continue;
      if (dlsym(library, name) != NULL) {
        ++found;
      } else {
        printf("wrong: %s\n", dlerror());
        ++missing;
      }
    }
    fclose(list);
  }
  printf("%d functions found, %d missing\n", found, missing);
  dlclose(library);
  return found > 0 && missing == 0 ? 0 : 1;
}
