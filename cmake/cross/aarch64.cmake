# SPDX-License-Identifier: Apache-2.0
# Toolchain of the preset aarch64: Debian's and Ubuntu's cross compiler (g++-aarch64-linux-gnu). What is built runs through
# qemu-user, also while building, where a program of ours makes the man pages.
#
# No library of the foreign architecture is wanted: fmt, CLI11 and nlohmann-json are headers alone, which the cross compiler
# finds in /usr/include after its own; GoogleTest is compiled from its sources (package googletest). So apt needs no second
# architecture, which Ubuntu serves from other addresses.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# Programs find the C library of their own architecture, which lies beside this machine's.
find_program(SLUICE_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(SLUICE_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${SLUICE_QEMU} -L /usr/aarch64-linux-gnu)
endif()

# Programs are this machine's; the folder below has the C library's own files, and the rest is looked for as ever.
list(APPEND CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)

# What finds those headers and sources.
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
