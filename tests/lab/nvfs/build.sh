#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# build.sh HEADERS OUT: the stand-ins for the GPU's driver and for a drive with hooks, for one kernel.
#
#   HEADERS   the kernel's build folder: /usr/src/linux-headers-VERSION, or /lib/modules/VERSION/build
#   OUT       becomes a folder with nvidia.ko, nvfsdisk.ko and Module.symvers, by which nvidia-fs.ko is built then:
#             KBUILD_EXTRA_SYMBOLS=OUT/Module.symvers, for its configure step by MAKEFLAGS
set -euo pipefail
[ $# -eq 2 ] || { sed -n '3,7s/^# \{0,1\}//p' "$0" && exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
headers=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
cp "$here"/*.c "$here"/*.h "$here"/Kbuild "$out"/
# Without pahole there is no type information for modules, and every one of them would fail for it.
make -s -C "$headers" M="$out" CONFIG_DEBUG_INFO_BTF_MODULES= modules
