#!/usr/bin/env bash
# Makes gather.ptx anew from gather.cu. Needs nvcc (CUDA 12 or later); run it after every change of the source.
#
# The text asks for no more than its instructions need (PTX 6.4, compute capability 7.0), whatever nvcc would put
# there: any driver that knows the memory model compiles it for the GPU it finds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
for source in *.cu; do
  text=${source%.cu}.ptx
  {
    echo "// Made from $source by make_ptx.sh; not to be edited."
    nvcc -std=c++17 -O3 -arch=compute_75 -ptx -o - "$source" |
      sed -e '/^\/\//d' -e 's/^\.version .*/.version 6.4/' -e 's/^\.target .*/.target sm_70/'
  } >"$text"
done
