/* SPDX-License-Identifier: Apache-2.0 */
/* A cuFile program that was linked with another libcufile.so.0, for tests of `sluice run`.
 *
 *   client words [WORD...]   prints each word in brackets, a line each
 *   client exit STATUS       leaves with that status
 *   client raise SIGNAL      dies of that signal
 *   client wait              prints "ready", then waits; SIGUSR1 prints "usr1" and leaves with 5
 *   client version           prints the version that cuFileGetVersion answers
 *   client open PATH COMMAND [ARGUMENT]   opens one more library by its path, then does as told
 *   client read FILE         reads up to 1 MiB of the file into host memory and prints the count
 *   client fork FILE         the same, then a child that leaves without doing anything more
 *   client driver            prints whether libcuda.so.1 is "soft", "real" or "none"
 */
#define _GNU_SOURCE
#include <cufile.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int complain(const char* what) {
  fprintf(stderr, "client: %s\n", what);
  return 1;
}

static void on_usr1(int signal_number) {
  (void)signal_number;
  const char text[] = "usr1\n";
  if (write(STDOUT_FILENO, text, sizeof text - 1) < 0) _exit(6);
  _exit(5);
}

static void wait_for_signals(void) {
  signal(SIGUSR1, on_usr1);
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}

static int print_version(void) {
  int version = 0;
  if (cuFileGetVersion(&version).err != CU_FILE_SUCCESS) return complain("cuFileGetVersion failed");
  printf("%d\n", version);
  return 0;
}

static int read_file(const char* path) {
  static char memory[1 << 20];
  CUfileDescr_t description;
  memset(&description, 0, sizeof description);
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = open(path, O_RDONLY | O_CLOEXEC);
  CUfileHandle_t file;
  if (cuFileHandleRegister(&file, &description).err != CU_FILE_SUCCESS) return complain("not registered");
  printf("%zd\n", cuFileRead(file, memory, sizeof memory, 0, 0));
  cuFileHandleDeregister(file);
  return 0;
}

static int read_and_fork(const char* path) {
  const int status = read_file(path);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) exit(0);
  return child > 0 && waitpid(child, NULL, 0) == child ? status : complain("no child");
}

static int print_driver(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  puts(driver == NULL ? "none" : dlsym(driver, "cuSluiceSoftGpuVersion") != NULL ? "soft" : "real");
  return 0;
}

static int act(int count, char** words) {
  if (count < 1) return complain("no command");
  const char* command = words[0];
  const char* argument = count > 1 ? words[1] : "";
  if (strcmp(command, "words") == 0) {
    for (int i = 1; i < count; ++i) printf("[%s]\n", words[i]);
    return 0;
  }
  if (strcmp(command, "exit") == 0) return atoi(argument);
  if (strcmp(command, "raise") == 0) return raise(atoi(argument));
  if (strcmp(command, "wait") == 0) wait_for_signals();
  if (strcmp(command, "version") == 0) return print_version();
  if (strcmp(command, "read") == 0) return read_file(argument);
  if (strcmp(command, "fork") == 0) return read_and_fork(argument);
  if (strcmp(command, "driver") == 0) return print_driver();
  if (strcmp(command, "open") == 0) {
    if (dlopen(argument, RTLD_NOW) == NULL) return complain(dlerror());
    return act(count - 2, words + 2);
  }
  return complain("unknown command");
}

int main(int argc, char** argv) {
  return act(argc - 1, argv + 1);
}
