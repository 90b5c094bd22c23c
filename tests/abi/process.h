// SPDX-License-Identifier: Apache-2.0
/* What the loading tests ask the kernel about their own process. */
#pragma once

/* How a test program ends that could not find out; CTest shows it as skipped. */
enum { SKIPPED = 77 };

/* The entries of a directory, "." and ".." left out; -1 when it cannot be read. */
long entries_in(const char* directory);

/* The open descriptors, the threads and the mappings of this process. */
long open_descriptors(void);
long threads(void);
long mappings(void);

/* A line of /proc/self/status in KiB, such as "VmData"; -1 when there is none. */
long status_kib(const char* key);

/* A new empty file below the working directory, without a name, for reading and writing. Ends the program when it
 * cannot be made. */
int scratch_file(void);

/* A new empty directory below the working directory. Ends the program when it cannot be made. */
void make_directory(char* path, unsigned long room, const char* name);

/* Loads a library and ends the program when that fails. */
void* load(const char* library);
